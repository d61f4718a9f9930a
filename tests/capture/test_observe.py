"""Any code that calls scaled_dot_product_attention, written by whomever."""

from __future__ import annotations

import pytest
import torch
from models import ids, small
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as taken_before

import attnscope
from attnscope.capture.observe import Record, observe
from attnscope.errors import UnsupportedModelError

ROOM = 1e-6
"""Weights of eight keys from scores below 5, in float32: a few roundings of 6e-8 times 5."""


class CausalSelfAttention(nn.Module):
    """In the style of nanoGPT: one projection for q, k and v, `is_causal=True`."""

    def __init__(self, width: int, heads: int, *, early: bool = False) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.early = heads, early

    def qkv(self, x: torch.Tensor) -> list[torch.Tensor]:
        B, T, C = x.shape
        parts = self.c_attn(x).split(C, dim=2)
        return [p.view(B, T, self.heads, C // self.heads).transpose(1, 2) for p in parts]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        function = taken_before if self.early else nn.functional.scaled_dot_product_attention
        y = function(*self.qkv(x), is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("early", [False, True])
def test_nanogpt_style(early: bool) -> None:
    model = nn.Sequential(*(CausalSelfAttention(32, 4, early=early) for _ in range(2))).eval()
    x = torch.randn(2, 8, 32)
    plain = model(x)
    with attnscope.observe(model) as record:
        seen = model(x)
    assert torch.equal(plain, seen)
    assert [(call.module, call.index) for call in record] == [("0", 0), ("1", 0)]
    q, k, _ = model[0].qkv(x)
    scores = (q @ k.transpose(-1, -2)) * 8**-0.5
    hidden = torch.ones(8, 8, dtype=torch.bool).triu(1)
    own = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    torch.testing.assert_close(record[0].weights(), own, atol=ROOM, rtol=0)
    entropy = -torch.xlogy(own, own).sum(-1)
    torch.testing.assert_close(record[0].statistics["entropy"], entropy, atol=1e-5, rtol=0)
    torch.testing.assert_close(record[0].statistics["received"], own.sum(-2), atol=1e-5, rtol=0)
    some = record.of("1")[0].weights(head=2, queries=slice(3, 5))
    torch.testing.assert_close(some, record[1].weights()[:, 2, 3:5])


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_encoder_and_its_fast_path(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 8, 32)
    padding = torch.zeros(2, 8, dtype=torch.bool)
    padding[1, 6:] = True
    fast = torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad(), observe(model) as record:
        model(x, src_key_padding_mask=padding)
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert [call.module for call in record] == ["layers.0.self_attn", "layers.1.self_attn"]
    first = model.layers[0]
    given = first.norm1(x) if norm_first else x
    own = first.self_attn(
        given, given, given, key_padding_mask=padding, average_attn_weights=False
    )[1]
    torch.testing.assert_close(record[0].weights(), own, atol=ROOM, rtol=0)
    assert float(record[0].weights()[1, :, :, 6:].max()) == 0
    assert not record[0].causal


def test_cross_attention() -> None:
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64, batch_first=True), 1).eval()
    x, memory = torch.randn(1, 5, 32), torch.randn(1, 9, 32)
    with torch.no_grad(), observe(model) as record:
        model(
            x,
            memory,
            tgt_is_causal=True,
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(5),
        )
    cross = record.of("layers.0.multihead_attn")[0]
    assert cross.weights().shape == (1, 4, 5, 9)
    own = torch.softmax((cross.q @ cross.k.transpose(-1, -2)) * cross.scale, -1)
    torch.testing.assert_close(cross.weights(), own, atol=ROOM, rtol=0)
    below = record.of("layers.0.self_attn")[0].weights()
    assert float(below.triu(1).abs().max()) == 0


def test_more_queries_than_keys_under_is_causal() -> None:
    """SDPA's causal mask begins at the upper left."""

    class Odd(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)

    model, q, k = Odd(), torch.randn(1, 2, 6, 8), torch.randn(1, 2, 4, 8)
    with observe(model) as record:
        output = model(q, k)
    torch.testing.assert_close(record[0].weights() @ k, output, atol=ROOM, rtol=0)


def test_additive_masks_grouped_heads_and_few_axes() -> None:
    class Any3(nn.Module):
        def forward(self, *args: torch.Tensor, **given: object) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(*args, **given)

    model = Any3()
    q, k = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8)
    bias = torch.randn(4, 6, 6).masked_fill(torch.rand(4, 6, 6) < 0.2, -torch.inf)
    bias[..., 0] = 0.0  # no row is empty
    with observe(model) as record:
        grouped = model(q, k, k, attn_mask=bias, enable_gqa=True, scale=0.3)
        flat = model(q[0], q[1], q[1])
    v = k.repeat_interleave(2, dim=1)
    torch.testing.assert_close(record[0].weights() @ v, grouped, atol=ROOM, rtol=0)
    torch.testing.assert_close((record[1].weights() @ q[1][None])[0], flat, atol=ROOM, rtol=0)


def test_a_vision_transformer() -> None:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=16, patch_size=4,
    )  # fmt: skip
    model = ViTModel._from_config(config, attn_implementation="sdpa").eval()
    picture = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        with observe(model) as record:
            seen = model(picture).last_hidden_state
        assert torch.equal(model(picture).last_hidden_state, seen)
        model.set_attn_implementation("eager")
        own = model(picture, output_attentions=True).attentions
    assert len(record) == len(own) == 2
    for call, expected in zip(record, own, strict=True):
        torch.testing.assert_close(call.weights(), expected, atol=ROOM, rtol=0)


def test_an_encoder_and_a_decoder_of_transformers() -> None:
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=128,
        max_position_embeddings=64,
    )  # fmt: skip
    model = BartForConditionalGeneration._from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad():
        with observe(model) as record:
            model(input_ids=ids(9), decoder_input_ids=ids(4))
        model.set_attn_implementation("eager")
        own = model(input_ids=ids(9), decoder_input_ids=ids(4), output_attentions=True)
    kinds = (own.encoder_attentions, own.decoder_attentions, own.cross_attentions)
    for call, expected in zip(record, kinds, strict=True):
        torch.testing.assert_close(call.weights(), expected[0], atol=ROOM, rtol=0)
    with pytest.raises(UnsupportedModelError, match="observe"):
        attnscope.capture(model, ids(9))


def test_calls_of_others_are_left_alone() -> None:
    model = CausalSelfAttention(32, 4).eval()
    q = torch.randn(1, 2, 4, 8)
    with pytest.warns(UserWarning, match="did not run"), observe(model) as record:
        nn.functional.scaled_dot_product_attention(q, q, q)
    assert record == []
    model(torch.randn(1, 4, 32))
    assert record == []
    assert nn.functional.scaled_dot_product_attention is taken_before
    with pytest.raises(ValueError, match="made no call; calls came from none"):
        Record().of("0")


def test_errors() -> None:
    model = CausalSelfAttention(32, 4)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"), observe(3):  # type: ignore[arg-type]
        pass
    with pytest.raises(ValueError, match="unknown name"), observe(model, statistics="no"):
        pass
    with observe(model) as record:
        model(torch.randn(1, 4, 32))
    with pytest.raises(ValueError, match="head: 4"):
        record[0].weights(head=4)

    class Dropping(nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    dropping = Dropping()
    with observe(dropping), pytest.raises(ValueError, match="dropout"):
        dropping(torch.randn(1, 2, 4, 8))


class WrittenOut(nn.Module):
    """Attention that calls nothing that could be seen."""

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ q.transpose(-1, -2), -1) @ q


def test_an_observation_of_nothing_says_why() -> None:
    q = torch.randn(1, 2, 4, 8)
    with pytest.warns(UserWarning, match="WrittenOut did not run"), observe(WrittenOut()):
        WrittenOut()
    model = WrittenOut()
    with pytest.warns(UserWarning, match="made no call") as found, observe(model) as record:
        model(q)
    assert record == []
    said = str(found[0].message)
    assert "WrittenOut ran and made no call of scaled_dot_product_attention" in said
    assert "attnscope.capture" in said
    assert "set_attn_implementation('sdpa')" in said
    assert found[0].filename == __file__  # the line of the caller's block


def test_a_block_that_fails_is_not_warned_of_as_well() -> None:
    with pytest.raises(RuntimeError, match="mine"), observe(WrittenOut()):
        raise RuntimeError("mine")  # a warning would be an error of its own here


def test_what_is_printed_of_a_record_is_a_line() -> None:
    assert repr(Record()) == "<Record: 0 calls of scaled_dot_product_attention>"
    model = nn.Sequential(*(CausalSelfAttention(8, 2) for _ in range(6))).eval()
    with observe(model[0]) as record:
        model[0](torch.randn(1, 3, 8))
    line = "<Record: 1 call of scaled_dot_product_attention: the model itself>"
    assert (repr(record), str(record)) == (line, line)
    with observe(model) as record:
        model(torch.randn(1, 3, 8))
    assert repr(record) == "<Record: 6 calls of scaled_dot_product_attention: 0, 1, 2, …, 5>"
    assert repr(record[5]) == "<ObservedCall 0 of 5: q [1, 2, 3, 4], k [1, 2, 3, 4]>"


def test_a_decoder_of_transformers_too() -> None:
    model = small("llama")
    model.set_attn_implementation("sdpa")
    try:
        with torch.no_grad(), observe(model) as record:
            model(ids(8), use_cache=False)
    finally:
        model.set_attn_implementation("eager")
    trace = attnscope.capture(model, ids(8))
    assert [call.module for call in record] == [f"model.layers.{n}.self_attn" for n in range(4)]
    found = torch.from_numpy(trace.weights(1, 3))
    torch.testing.assert_close(record[1].weights(head=3)[0], found, atol=3e-5, rtol=0)
