"""How keys were turned: the layer's own code, told that every token stands at 0, is the judge.

A layer of transformers gets cosines and sines from outside. Called again with the same input, with
cosines of 1 and sines of 0, it hands its attention the keys without positions. What a trace says of
frequencies and pairs must make one of the other, by the formula of docs/trace.md written here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from models import ids, small
from transformers import AttentionInterface, AttentionMaskInterface

import attnscope
from attnscope.capture.rotation import Turnings
from attnscope.capture.shrink import build
from attnscope.capture.vocabulary import embeddings_of
from attnscope.trace.layer import Rotation

HALF, NEXT = "half", "neighbours"
CASES = {
    "llama": (8, HALF), "qwen3": (8, HALF), "gemma2": (8, HALF), "gemma3_text": (8, HALF),
    "phi3": (8, HALF), "gpt_neox": (2, HALF), "stablelm": (2, HALF), "glm4": (4, NEXT),
    "cohere": (8, NEXT), "olmo2": (8, HALF), "gpt_oss": (8, HALF), "helium": (8, NEXT),
}  # fmt: skip
"""Pairs of a head of 16 that turn, and which numbers make one."""
UNKNOWN = ("gpt2", "opt", "deepseek_v3", "hunyuan_v1_dense")
"""Positions in the embedding, keys made of latents, a norm behind the turning."""


def turned(x: np.ndarray, rotation: Rotation, by: np.ndarray) -> np.ndarray:
    """x [..., T, D] turned on by so many places, as docs/trace.md says."""
    y = x.copy()
    for (m, n), frequency in zip(rotation.pairs, rotation.frequencies.astype(float), strict=True):
        c, s = np.cos(by * frequency), np.sin(by * frequency)
        y[..., m] = x[..., m] * c - x[..., n] * s
        y[..., n] = x[..., n] * c + x[..., m] * s
    return y


@contextmanager
def noted(model: Any) -> Iterator[list[torch.Tensor]]:
    """The keys that every call of the model's attention gets, [B, G, S, D] each."""
    found: list[torch.Tensor] = []

    def note(module: Any, q: Any, k: torch.Tensor, *rest: Any, **keywords: Any) -> Any:
        found.append(k.detach().clone())
        eager = sys.modules[type(module).__module__].eager_attention_forward
        return eager(module, q, k, *rest, **keywords)

    AttentionInterface.register("noting", note)
    AttentionMaskInterface.register("noting", AttentionMaskInterface()["eager"])
    before = model.config._attn_implementation
    model.config._attn_implementation = "noting"
    try:
        yield found
    finally:
        model.config._attn_implementation = before


def told_nothing(model: Any, tokens: torch.Tensor) -> list[np.ndarray]:
    """Each layer's keys where it is told that all tokens stand at 0, the rest as it is."""
    hooks, depth = [], [0]

    def again(module: Any, args: Any, given: dict[str, Any], _: Any) -> None:
        if depth[0]:
            return
        depth[0] = 1
        cos, sin = given["position_embeddings"]
        # yarn's factor lies on cosines and sines: their length
        factor = torch.hypot(cos, sin).mean()
        still = torch.full_like(cos, float(factor)), torch.zeros_like(sin)
        rest = {n: v for n, v in given.items() if n not in ("past_key_values", "past_key_value")}
        found.clear()
        with torch.no_grad():
            module(*args, **{**rest, "position_embeddings": still})
        keys.append(found[-1][0].double().numpy())
        depth[0] = 0

    keys: list[np.ndarray] = []
    for layer in model.modules():
        if type(layer).__name__.endswith("Attention") and hasattr(layer, "layer_idx"):
            hooks.append(layer.register_forward_hook(again, with_kwargs=True))
    with noted(model) as found, torch.no_grad():
        model(tokens, use_cache=False)
    for hook in hooks:
        hook.remove()
    return keys


@pytest.mark.parametrize("family", CASES)
def test_turning_back_gives_the_layers_own_keys_without_positions(family: str) -> None:
    model, tokens = small(family), ids()
    trace = attnscope.capture(model, tokens[0])
    judge = told_nothing(model, tokens)
    assert len(judge) == len(trace.layers)
    count, pairing = CASES[family]
    for info, plain in zip(trace.layers, judge, strict=True):
        rotation = trace.layer(info.index).rotation
        assert rotation is not None
        assert len(rotation.pairs) == count
        first = [0, 1] if pairing == NEXT else [0, count]
        assert rotation.pairs[0].tolist() == first
        keys = trace.layer(info.index).array("k").astype(float)
        places = np.arange(keys.shape[1])
        room = 1e-5 * np.abs(plain).max()  # float32: an angle of 24 radians is off by 1e-6
        assert np.abs(turned(keys, rotation, -places) - plain).max() < room
        assert np.abs(turned(plain, rotation, places) - keys).max() < room
        assert np.abs(keys - plain).max() > 100 * room, "nothing turns here"


def test_layers_of_two_kinds_turn_by_angles_of_their_own() -> None:
    trace = attnscope.capture(small("gemma3_text"), ids()[0])
    by_kind = {
        info.kind: trace.layer(info.index).rotation.frequencies.tolist() for info in trace.layers
    }
    assert set(by_kind) == {"sliding", "full"}
    assert by_kind["sliding"][1] > by_kind["full"][1]  # base 10,000 against a million


@pytest.mark.parametrize("family", ["cohere2", "smollm3"])
def test_a_layer_that_turns_nothing_says_so(family: str) -> None:
    trace = attnscope.capture(small(family), ids()[0])
    counts = [len(trace.layer(info.index).rotation.pairs) for info in trace.layers]
    assert set(counts) == {0, 8}


@pytest.mark.parametrize("family", UNKNOWN)
def test_what_cannot_be_confirmed_is_not_said(family: str) -> None:
    trace = attnscope.capture(small(family), ids()[0])
    assert [trace.layer(info.index).rotation for info in trace.layers] == [None] * len(trace.layers)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_recognised_within_its_rounding(dtype: torch.dtype) -> None:
    trace = attnscope.capture(build("llama", dtype=dtype), ids()[0])
    exact = attnscope.capture(small("llama"), ids()[0])
    for info in trace.layers:
        found, wanted = (one.layer(info.index).rotation for one in (trace, exact))
        assert found is not None
        assert np.array_equal(found.frequencies, wanted.frequencies)
        assert np.array_equal(found.pairs, wanted.pairs)


@pytest.mark.parametrize(
    "change", ["frequencies", "pairs", "norm", "later tokens", "the last token"]
)
def test_a_model_that_does_something_else_is_not_believed(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The config says one thing, the layers do another: no angles, and no error."""
    model = build("llama")
    import transformers.models.llama.modeling_llama as family

    own = family.apply_rotary_pos_emb

    def other(q: Any, k: Any, cos: Any, sin: Any, *rest: Any, **more: Any) -> Any:
        if change == "frequencies":
            cos, sin = cos**2 - sin**2, 2 * sin * cos  # twice the angle
        if change in ("later tokens", "the last token"):
            first = 2 if change == "later tokens" else cos.shape[1] - 1
            double = cos**2 - sin**2, 2 * sin * cos
            late = (torch.arange(cos.shape[1]) >= first)[:, None]
            cos, sin = torch.where(late, double[0], cos), torch.where(late, double[1], sin)
        if change == "pairs":
            q, k = q.flip(-1), k.flip(-1)
        q, k = own(q, k, cos, sin, *rest, **more)
        return (q, k * torch.linspace(1, 2, k.shape[-1])) if change == "norm" else (q, k)

    monkeypatch.setattr(family, "apply_rotary_pos_emb", other)
    trace = attnscope.capture(model, ids()[0])
    assert all(trace.layer(info.index).rotation is None for info in trace.layers)


BATCHES: dict[str, Callable[[], dict[str, Any]]] = {
    "padded left": lambda: {
        "text": ids(12, batch=2),
        "attention_mask": torch.tensor([[0] * 5 + [1] * 7, [1] * 12]),
    },
    "packed": lambda: {
        "text": ids(12),
        "position_ids": torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]]),
    },
    "generated": lambda: {"text": ids(12)[0], "generate": 5},
}


@pytest.mark.parametrize("batch", BATCHES)
def test_sequences_of_a_batch_are_turned_by_their_own_places(batch: str) -> None:
    """Each sequence's keys, turned back, are those that it has alone."""
    given = BATCHES[batch]()
    model = small("llama")
    found = attnscope.capture(model, given.pop("text"), **given)
    for trace in found if isinstance(found, list) else [found]:
        own = [token.id for token in trace.tokens]
        judge = told_nothing(model, torch.tensor([own]))
        for info, plain in zip(trace.layers, judge, strict=True):
            record = trace.layer(info.index)
            assert record.rotation is not None
            _, _, origin = record.spans
            keys = record.array("k").astype(float)
            back = turned(keys, record.rotation, -(np.arange(keys.shape[1]) - origin))
            assert np.abs(back - plain).max() < 1e-4 * np.abs(plain).max()


@pytest.mark.parametrize("family", ["qwen3", "gemma3_text"])
def test_as_many_tokens_as_key_heads_are_told_apart(family: str) -> None:
    """A norm's output has tokens before heads in one family and behind them in the other."""
    trace = attnscope.capture(small(family), ids(2)[0])
    assert trace.model.kv_heads == 2
    assert trace.layer(0).rotation is not None


def test_a_text_of_one_token_tells_nothing() -> None:
    trace = attnscope.capture(small("llama"), ids(1)[0])
    assert trace.layer(0).rotation is None


def test_angles_that_change_with_the_length_are_those_of_this_text() -> None:
    """longrope: beyond its first length a text is turned by other angles than a shorter one."""
    from transformers import LlamaForCausalLM

    from attnscope.capture.shrink import small_config

    config = small_config("llama")
    config.rope_parameters = {
        "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 16,
        "short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "factor": 4.0,
    }  # fmt: skip
    model = LlamaForCausalLM._from_config(config, attn_implementation="eager").eval()
    short, long = (attnscope.capture(model, ids(n)[0]).layer(0).rotation for n in (12, 40))
    assert short is not None
    assert long is not None
    assert np.allclose(long.frequencies, short.frequencies / 2)
    grown = attnscope.capture(model, ids(12)[0], generate=10)
    assert grown.layer(0).rotation is None, "its first keys were turned by other angles"


def test_hooks_are_gone_and_nothing_is_kept_when_a_capture_ends() -> None:
    model = small("llama")
    hooks = [len(module._forward_hooks) for module in model.modules()]
    attnscope.capture(model, ids()[0])
    attnscope.capture(model, ids()[0], layers=[1])
    assert [len(module._forward_hooks) for module in model.modules()] == hooks


def test_of_layers_that_nobody_asks_for_one_at_most_is_kept() -> None:
    model = small("llama")
    turnings = Turnings(model.config)
    hooks = turnings.follow(model)
    with torch.no_grad():
        model(ids(), use_cache=False)
    for hook in hooks:
        hook.remove()
    owner, given = turnings._given
    assert owner == id(model.model.layers[-1].self_attn)
    assert set(given) == {"k_proj"}


# -- embeddings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt2"])
def test_embeddings_are_the_rows_of_the_models_table(family: str) -> None:
    model, tokens = small(family), torch.tensor([5, 9, 5, 77])
    trace = attnscope.capture(model, tokens)
    wanted = model.get_input_embeddings().weight[tokens].detach().numpy()
    assert np.array_equal(trace.embeddings(), wanted)
    assert np.array_equal(trace.embeddings(slice(1, 3)), wanted[1:3])


def test_embeddings_keep_their_dtype_on_the_disk(tmp_path: Any) -> None:
    model = build("llama", dtype=torch.bfloat16)
    trace = attnscope.capture(model, ids()[0], save=tmp_path / "t")
    wanted = model.get_input_embeddings().weight[ids()[0]].detach().float().numpy()
    assert np.array_equal(trace.embeddings(), wanted)
    size = (tmp_path / "t" / "embeddings.safetensors").stat().st_size
    assert size < 2 * wanted.shape[1] * len(set(ids()[0].tolist())) + 1000


def test_a_table_of_no_plain_numbers_is_left_out() -> None:
    model = build("llama")
    table = model.get_input_embeddings()
    with torch.no_grad():
        table.weight[7] = float("nan")
    assert embeddings_of(model, [6, 8]) is not None
    assert embeddings_of(model, [6, 7]) is None
    table.weight = torch.nn.Parameter(table.weight.detach().to(torch.int8), requires_grad=False)
    assert embeddings_of(model, [6, 8]) is None
