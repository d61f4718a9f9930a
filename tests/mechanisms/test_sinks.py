"""Sinks: gpt-oss against transformers, a zero key against PyTorch, and what a row sums to."""

from __future__ import annotations

import pytest
import torch
from head_referees import (
    Peer,
    caught,
    judge_cached,
    judge_counts,
    judge_families,
    judge_forward,
    judge_gradients,
    judge_shown,
    on_meta,
    real_config,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.gpt_oss.configuration_gpt_oss import GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention, GptOssRotaryEmbedding

from attnscope.caches import FullCache, WindowCache
from attnscope.core import attend
from attnscope.core.heads import HeadShape
from attnscope.errors import ConfigError
from attnscope.mechanisms.multi_head import MultiHeadAttention
from attnscope.mechanisms.sinks import (
    IMPLS,
    SinkAttention,
    sink_attention,
    streaming_attention,
)
from attnscope.positions import Rope
from attnscope.testing import budget, qkv


def gpt_oss(layer: int, *, dtype: torch.dtype = torch.float32) -> Peer:
    config = GptOssConfig(
        hidden_size=48, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        num_hidden_layers=2, sliding_window=7,
    )  # fmt: skip
    return Peer(GptOssAttention, GptOssRotaryEmbedding, config, layer=layer, dtype=dtype)


def build(layer: int) -> tuple[SinkAttention, Peer]:
    peer = gpt_oss(layer)
    return SinkAttention.from_hf(peer.module), peer


LAYERS = pytest.mark.parametrize("layer", [0, 1], ids=["sliding", "full"])


@LAYERS
@pytest.mark.parametrize("tokens", [1, 7, 37, 131])
def test_the_output_is_that_of_gpt_oss(layer: int, tokens: int) -> None:
    ours, peer = build(layer)
    assert ours.window == (None if layer else 7)
    judge_forward(ours, peer, tokens)


@LAYERS
def test_the_gradients_are_those_of_gpt_oss_and_reach_the_sinks(layer: int) -> None:
    ours, peer = build(layer)
    assert "sinks" in dict(ours.named_parameters())
    judge_gradients(ours, peer, 23)


@LAYERS
@pytest.mark.parametrize("chunks", [(), (1,), (6, 7, 8), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(
    layer: int, chunks: tuple[int, ...]
) -> None:
    ours, peer = build(layer)
    assert isinstance(ours.new_cache(), FullCache if layer else WindowCache)
    judge_cached(ours, peer, 31, chunks)


@LAYERS
def test_bfloat16_is_as_close_as_transformers(layer: int) -> None:
    peer = gpt_oss(layer, dtype=torch.bfloat16)
    judge_forward(SinkAttention.from_hf(peer.module), peer, 29)


@LAYERS
def test_counts_are_those_of_pytorch_and_of_real_tensors(layer: int) -> None:
    ours, peer = build(layer)
    judge_counts(ours, peer, window=ours.window)


@pytest.mark.parametrize("change", ["scaled", "dropped", "rope", "window", "bias"])
def test_each_difference_is_noticed(change: str) -> None:
    ours, peer = build(0)
    with torch.no_grad():
        if change == "scaled":
            ours.sinks *= ours.scale
        elif change == "dropped":
            ours.sinks.fill_(-torch.inf)
        elif change == "rope":
            ours.rope = Rope.plain(10, theta=150000.0)
        elif change == "window":
            ours.window = 6
        else:
            ours.o_proj.bias[5] += 1e-4
    assert caught(ours, peer)


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gpt-oss-120b"])
def test_published_configs_alternate(name: str) -> None:
    config = real_config(name)
    found = [on_meta(SinkAttention, config, layer=i) for i in range(4)]
    assert [ours.window for ours in found] == [128, None, 128, None]
    theirs = GptOssConfig(**config)
    with torch.device("meta"):
        module = GptOssAttention(theirs, 0)
    assert {n: p.shape for n, p in found[0].named_parameters()} == {
        n: p.shape for n, p in module.named_parameters()
    }
    # Without layer_types the family alternates by itself.
    config.pop("layer_types", None)
    assert on_meta(SinkAttention, config, layer=2).window == 128
    assert on_meta(SinkAttention, config, layer=3).window is None


def with_an_extra_key(q, k, v, sinks, *, window=None):  # type: ignore[no-untyped-def]
    """PyTorch's attention with one more key and value of zeros, whose score the mask sets."""
    B, H, T, _ = q.shape
    S = k.shape[2]
    zero = torch.zeros_like(k[:, :, :1])
    i, j = torch.arange(S - T, S)[:, None], torch.arange(S)[None]
    seen = (j <= i) & (i - j < (window or S))
    mask = torch.zeros(B, H, T, S + 1, dtype=q.dtype)
    mask[..., 1:].masked_fill_(~seen, -torch.inf)
    mask[..., 0] = sinks[:, None]
    return scaled_dot_product_attention(
        q, torch.cat([zero, k], 2), torch.cat([zero, v], 2), attn_mask=mask, enable_gqa=True
    )


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("window", [None, 1, 6])
@pytest.mark.parametrize("queries", [1, 5, 22, 131])
def test_a_sink_is_an_extra_zero_key_of_pytorch(
    impl: str, window: int | None, queries: int
) -> None:
    q, k, v = qkv(queries=queries, keys=max(queries, 22), heads=4, groups=2)
    sinks = torch.tensor([0.0, 2.0, -3.0, 5.0])
    ours = sink_attention(q, k, v, sinks, window=window, impl=impl)
    peer = with_an_extra_key(q, k, v, sinks, window=window)
    wide = (x.double() for x in (q, k, v, sinks))
    budget(ours, peer=peer, oracle=with_an_extra_key(*wide, window=window))


def test_a_zero_sink_is_pytorchs_add_zero_attn() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(24, 4, bias=False, add_zero_attn=True, batch_first=True).double()
    same = nn.MultiheadAttention(24, 4, bias=False, batch_first=True).double()
    same.load_state_dict(theirs.state_dict())
    ours = MultiHeadAttention.from_torch(same)
    ours.sinks = nn.Parameter(torch.zeros(4, dtype=torch.float64))
    x = torch.randn(2, 9, 24, dtype=torch.float64)
    blocked = torch.ones(9, 9, dtype=torch.bool).triu(1)
    with torch.no_grad():
        expected = theirs(x, x, x, attn_mask=blocked, need_weights=False)[0]
        # Both in float64: the order of 24 additions.
        assert torch.allclose(ours(x), expected, rtol=0, atol=1e-13)


@given(
    sink=st.floats(-30, 30), scores=st.lists(st.floats(-20, 20), min_size=1, max_size=8),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_a_row_sums_to_one_less_the_share_of_the_sink(sink: float, scores: list[float]) -> None:
    row = torch.tensor(scores, dtype=torch.float64)
    q = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    values = torch.eye(len(scores), dtype=torch.float64)[None, None]
    logit = torch.tensor([sink], dtype=torch.float64)
    weights = sink_attention(q, row.view(1, 1, -1, 1), values, logit, scale=1.0).flatten()
    everything = torch.cat([row, logit]).softmax(0)
    assert float(weights.sum()) == pytest.approx(1 - float(everything[-1]), abs=1e-14)
    assert torch.allclose(weights, everything[:-1], rtol=1e-12, atol=1e-300)
    without = sink_attention(q, row.view(1, 1, -1, 1), values, logit * 0 - torch.inf, scale=1.0)
    # A sink lowers all weights alike: what two keys share is theirs alone.
    assert torch.allclose(weights, without.flatten() * (1 - everything[-1]), rtol=1e-9, atol=1e-16)


def test_watching_sees_the_share_of_the_sink() -> None:
    ours, _ = build(1)
    seen = []
    with torch.no_grad():
        ours(torch.randn(1, 9, 48), watch=seen.append)
    (one,) = seen
    result = one.attend("sink_mass")
    plain = attend(one.q, one.k, one.v, scale=one.scale, statistics="sink_mass")
    assert (result["sink_mass"] > 0).all()
    assert not torch.allclose(result["sink_mass"], plain["sink_mass"])


def test_a_stream_sees_its_first_tokens_and_its_window() -> None:
    q, k, v = qkv(queries=20, keys=26, heads=4, groups=2)
    i, j = torch.arange(6, 26)[:, None], torch.arange(26)[None]
    seen = (j <= i) & ((i - j < 5) | (j < 3))
    ours = streaming_attention(q, k, v, window=5, first=3)
    peer = scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
    wide = (x.double() for x in (q, k, v))
    exact = scaled_dot_product_attention(*wide, attn_mask=seen, enable_gqa=True)
    budget(ours, peer=peer, oracle=exact)
    with pytest.raises(ValueError, match=r"window: expected at least 1 key .*, got 0"):
        streaming_attention(q, k, v, window=0, first=3)


def test_bad_arguments_are_named() -> None:
    q, k, v = qkv(queries=3, heads=4, groups=2)
    with pytest.raises(ValueError, match="impl: unknown 'flash'; there are reference, fast"):
        sink_attention(q, k, v, torch.zeros(4), impl="flash")
    with pytest.raises(ValueError, match=r"sinks: expected one logit per query head, \[4\]"):
        sink_attention(q, k, v, torch.zeros(2))
    with pytest.raises(ConfigError, match="SinkAttention reads gpt_oss"):
        SinkAttention.from_config(real_config("llama-3-8b"))


def test_sinks_begin_as_a_zero_key() -> None:
    ours = SinkAttention(HeadShape(model=8, heads=2, groups=1, width=4))
    assert ours.sinks is not None
    assert not ours.sinks.any()


def test_what_configs_may_leave_out_is_what_transformers_fills_in() -> None:
    judge_families("sinks")


def test_the_picture_shows_the_row_of_the_text() -> None:
    judge_shown("sinks", "30.0  41.3  28.8   0.0", "law: a row sums to 1 - exp(b)")
