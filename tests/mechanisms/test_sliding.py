"""Sliding windows: Mistral, Gemma 2 and Gemma 3 against transformers, and flex_attention."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch
from head_referees import (
    InFloat64,
    Peer,
    caught,
    judge_cached,
    judge_counts,
    judge_families,
    judge_forward,
    judge_gradients,
    judge_shown,
    mask_of,
    on_meta,
    real_config,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from transformers.models.gemma2.configuration_gemma2 import Gemma2Config
from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention, Gemma2RotaryEmbedding
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as gemma2_attention
from transformers.models.gemma3.configuration_gemma3 import Gemma3TextConfig
from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention, Gemma3RotaryEmbedding
from transformers.models.mistral.configuration_mistral import MistralConfig
from transformers.models.mistral.modeling_mistral import MistralAttention, MistralRotaryEmbedding
from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention, Qwen2RotaryEmbedding
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RotaryEmbedding

from attnscope.caches import FullCache, WindowCache
from attnscope.errors import ConfigError
from attnscope.mechanisms.grouped import GroupedAttention
from attnscope.mechanisms.qk_norm import QKNormAttention
from attnscope.mechanisms.sliding import (
    IMPLS,
    SlidingAttention,
    sliding_attention,
)
from attnscope.testing import budget, qkv

SMALL = {
    "hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10,
    "num_hidden_layers": 6,
}  # fmt: skip


def gemma3(
    layer: int, *, dtype: torch.dtype = torch.float32, window: int = 7, **fields: object
) -> Peer:
    # A scale that is not that of the head's width, as in Gemma 3 27B.
    config = Gemma3TextConfig(**SMALL, sliding_window=window, query_pre_attn_scalar=13, **fields)
    return Peer(Gemma3Attention, Gemma3RotaryEmbedding, config, layer=layer, dtype=dtype)


def gemma2(layer: int) -> Peer:
    config = Gemma2Config(
        **SMALL, sliding_window=5, query_pre_attn_scalar=20, attn_logit_softcapping=2.0
    )
    return Peer(Gemma2Attention, Gemma2RotaryEmbedding, config, layer=layer)


def mistral(window: int | None) -> Peer:
    peer = Peer(
        MistralAttention, MistralRotaryEmbedding, MistralConfig(**SMALL, sliding_window=window)
    )
    peer.window = window
    return peer


UPPER = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2}
"""Layers 2 to 5 of six slide."""


def qwen2(layer: int, **fields: object) -> Peer:
    # This class takes no head width of its own.
    small = {name: value for name, value in SMALL.items() if name != "head_dim"}
    config = Qwen2Config(**small, **(UPPER | fields))
    return Peer(Qwen2Attention, Qwen2RotaryEmbedding, config, layer=layer)


def qwen3(layer: int, **fields: object) -> Peer:
    config = Qwen3Config(**SMALL, **(UPPER | fields))
    return Peer(Qwen3Attention, Qwen3RotaryEmbedding, config, layer=layer)


PEERS = {
    "qwen2 sliding": lambda: qwen2(2),
    "qwen2 full": lambda: qwen2(1),
    "qwen3 sliding": lambda: qwen3(5),
    "qwen3 full": lambda: qwen3(0),
    "qwen3 biased": lambda: qwen3(3, attention_bias=True),
    "gemma3 sliding": lambda: gemma3(0),
    "gemma3 full": lambda: gemma3(5),
    "gemma2 sliding": lambda: gemma2(0),
    "gemma2 full": lambda: gemma2(1),
    "gemma3 biased": lambda: gemma3(1, attention_bias=True),
    "mistral": lambda: mistral(4),
    "mistral full": lambda: mistral(None),
    "window of one": lambda: gemma3(0, window=1),
}


def build(name: str) -> tuple[SlidingAttention, Peer]:
    peer = PEERS[name]()
    return SlidingAttention.from_hf(peer.module), peer


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("tokens", [1, 7, 37, 131])
def test_the_output_is_that_of_transformers(name: str, tokens: int) -> None:
    ours, peer = build(name)
    assert ours.window == peer.window
    judge_forward(ours, peer, tokens)


# In a window of one the gradients of q and k are exactly 0, and nothing measures ours.
@pytest.mark.parametrize("name", [name for name in PEERS if name != "window of one"])
def test_the_gradients_are_those_of_transformers(name: str) -> None:
    judge_gradients(*build(name), 23)


def test_the_gradients_of_many_rows_are_those_of_transformers() -> None:
    judge_gradients(*build("gemma3 sliding"), 131)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("chunks", [(), (1,), (6, 7, 8), (3, 5), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(
    name: str, chunks: tuple[int, ...]
) -> None:
    """Chunks shorter than the window, as long, and longer."""
    ours, peer = build(name)
    assert isinstance(ours.new_cache(), FullCache if ours.window is None else WindowCache)
    judge_cached(ours, peer, 31, chunks)


def test_bfloat16_is_as_close_as_transformers() -> None:
    peer = gemma3(0, dtype=torch.bfloat16)
    judge_forward(SlidingAttention.from_hf(peer.module), peer, 29)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("window", [1, 2, 7, 100])
@pytest.mark.parametrize("queries", [24, 1, 5])
def test_the_function_is_flex_attention(impl: str, window: int, queries: int) -> None:
    q, k, v = qkv(queries=queries, keys=24, heads=4, groups=2)
    shift = 24 - queries

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with warnings.catch_warnings():
            # Uncompiled it is slow and makes the whole matrix, as it says; a referee may.
            warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
            rule = lambda b, h, i, j: (j <= i + shift) & (i + shift - j < window)  # noqa: E731
            blocks = create_block_mask(rule, None, None, queries, 24, device="cpu")
            return flex_attention(q, k, v, block_mask=blocks, enable_gqa=True)

    ours = sliding_attention(q, k, v, window=window, impl=impl)
    exact = theirs(q.double(), k.double(), v.double())
    # A row with one key leaves the peer without an error; one rounding of v is all there is.
    peer = theirs(q, k, v) + (2e-7 if window == 1 else 0)
    budget(ours, peer=peer, oracle=exact.double())


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("queries", [24, 5])
def test_scale_and_soft_cap_of_the_function_are_gemma2s(impl: str, queries: int) -> None:
    """Its own function of q, k and v, with a mask pair by pair."""
    q, k, v = qkv(queries=queries, keys=24, heads=4, groups=2)
    seen = mask_of(queries, 24, window=7)
    heads = SimpleNamespace(num_key_value_groups=2, training=False)

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = seen.to(q.dtype)
        found = gemma2_attention(heads, q, k, v, mask, scaling=0.9, softcap=1.5)
        return found[0].transpose(1, 2)

    ours = sliding_attention(q, k, v, window=7, scale=0.9, softcap=1.5, impl=impl)
    with InFloat64():
        exact = theirs(q.double(), k.double(), v.double())
    budget(ours, peer=theirs(q, k, v), oracle=exact)


@pytest.mark.parametrize("change", ["window", "smaller window", "scale", "theta", "norm", "eps"])
def test_each_difference_is_noticed(change: str) -> None:
    ours, peer = build("gemma3 sliding")
    if change == "window":
        ours.window = 8
    elif change == "smaller window":
        ours.window = 6
    elif change == "scale":
        ours.scale = 10**-0.5
    elif change == "theta":
        ours.rope = SlidingAttention.from_hf(gemma3(5).module).rope
    elif change == "norm":
        ours.q_norm.offset = 0.0
    else:
        ours.k_norm.eps = 1e-3
    assert caught(ours, peer)


def test_a_missing_soft_cap_is_noticed() -> None:
    ours, peer = build("gemma2 full")
    ours.softcap = None
    assert caught(ours, peer)


@pytest.mark.parametrize("name", ["gemma3 sliding", "gemma3 full", "mistral"])
def test_counts_are_those_of_pytorch_and_of_real_tensors(name: str) -> None:
    ours, peer = build(name)
    judge_counts(ours, peer, window=ours.window)


def test_gemma3_270m_as_published() -> None:
    """All 18 layers of its config: windows, thetas, scale; a sliding one and a full one run."""
    config = real_config("gemma-3-270m")
    theirs = Gemma3TextConfig(**config)
    for layer in range(18):
        ours = SlidingAttention.from_config(config, layer=layer)
        full = layer % 6 == 5
        assert ours.window == (None if full else 512)
        assert ours.scale == 256**-0.5
        if layer in (4, 5):
            peer = Peer(Gemma3Attention, Gemma3RotaryEmbedding, theirs, layer=layer)
            judge_forward(ours.load(peer.module.state_dict()), peer, 9)


def test_the_pattern_stands_for_missing_layer_types() -> None:
    config = real_config("gemma-3-27b")
    kinds = [None if i % 6 == 5 else 1024 for i in range(12)]
    found = [on_meta(SlidingAttention, config, layer=i) for i in range(12)]
    assert [ours.window for ours in found] == kinds
    assert found[0].scale == 168**-0.5
    assert found[0].rope != found[5].rope
    bytes_kept = found[0].counts(100_000).kept_bytes
    assert bytes_kept == 1024 * 2 * 16 * 128 * 2
    assert found[5].counts(100_000).kept_bytes == 100_000 * 2 * 16 * 128 * 2


@pytest.mark.parametrize("name", ["gemma-2-9b", "mistral-7b-v0.1"])
def test_other_published_configs(name: str) -> None:
    layers = [on_meta(SlidingAttention, real_config(name), layer=i) for i in (0, 1)]
    assert layers[0].window == 4096
    assert layers[1].window == (None if name == "gemma-2-9b" else 4096)
    assert layers[0].softcap == (50.0 if name == "gemma-2-9b" else None)
    assert layers[0].q_norm is None


@pytest.mark.parametrize("make", [qwen2, qwen3])
@pytest.mark.parametrize(
    "fields",
    [
        {}, {"max_window_layers": 0}, {"max_window_layers": 6}, {"use_sliding_window": False},
        {"sliding_window": None},
        {"layer_types": ["full_attention", "sliding_attention"] * 3, "max_window_layers": 6},
    ],
)  # fmt: skip
def test_the_upper_layers_slide_where_transformers_says(make, fields: dict) -> None:  # type: ignore[no-untyped-def]
    """From a config.json as it is written, not as transformers' class completes it."""
    written = {"model_type": make.__name__, **SMALL, **UPPER, **fields}
    for layer in range(6):
        theirs = make(layer, **fields).module
        assert SlidingAttention.from_config(written, layer=layer).window == theirs.sliding_window


def test_a_window_that_the_file_leaves_out_is_the_class_s() -> None:
    written = {"model_type": "qwen3", **SMALL, "use_sliding_window": True, "max_window_layers": 1}
    assert SlidingAttention.from_config(written, layer=1).window == 4096
    for other in (GroupedAttention, QKNormAttention):
        kind = "qwen2" if other is GroupedAttention else "qwen3"
        with pytest.raises(ConfigError, match=r"layer 1 has a window; sliding\.SlidingAttention"):
            other.from_config(written | {"model_type": kind}, layer=1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_window_layers": -1}, "max_window_layers: expected a whole number from 0 on, got -1"),
        ({"max_window_layers": "2"}, "max_window_layers: expected a whole .* from 0 on, got '2'"),
        ({"sliding_window": 0}, "sliding_window: expected a positive whole number, got 0"),
        (
            {"use_sliding_window": False, "layer_types": ["sliding_attention"] * 6},
            "layer_types says that layer 3 slides, and use_sliding_window is off; set it, or",
        ),
    ],
)
def test_a_qwen_config_that_contradicts_itself_is_refused(changed: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SlidingAttention.from_config({"model_type": "qwen3", **SMALL, **UPPER, **changed}, layer=3)


@given(
    window=st.integers(1, 9), layers=st.integers(1, 3), tokens=st.integers(2, 20),
    seed=st.integers(0, 999),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_layers_reach_as_far_as_the_law_says_and_no_further(
    window: int, layers: int, tokens: int, seed: int
) -> None:
    """The gradient of the last token's output reaches L (w - 1) tokens back."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(1, 1, tokens, 6, generator=random, dtype=torch.float64, requires_grad=True)
    y = x
    for _ in range(layers):
        y = y + sliding_attention(y, y, y, window=window)
    (reached,) = torch.autograd.grad(y[0, 0, -1].sum(), x)
    seen = reached.abs().sum(-1).flatten() > 0
    reach = layers * (window - 1)
    expected = torch.arange(tokens - 1, -1, -1) <= reach
    assert torch.equal(seen, expected)


def test_bad_arguments_are_named() -> None:
    q, k, v = qkv(queries=3, heads=2, groups=2)
    with pytest.raises(ValueError, match="impl: unknown 'flash'; there are reference, fast"):
        sliding_attention(q, k, v, window=2, impl="flash")
    with pytest.raises(ValueError, match=r"window: expected at least 1 key .*, got 0"):
        sliding_attention(q, k, v, window=0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"model_type": "gpt_oss"},
            "SlidingAttention reads mistral, qwen2, qwen3, gemma2, gemma3_text",
        ),
        ({"sliding_window": 0}, "sliding_window: expected a positive whole number, got 0"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries, none for 3"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention is set"),
        ({"attn_logit_softcapping": 30.0}, "this family's layers ignore it"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changed: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SlidingAttention.from_config(real_config("gemma-3-270m", **changed), layer=3)


def test_what_configs_may_leave_out_is_what_transformers_fills_in() -> None:
    judge_families("sliding")


def test_the_picture_shows_the_reach() -> None:
    judge_shown("sliding", "law: L layers reach L (w - 1) back: 2 x 3 = 6, found 6")
