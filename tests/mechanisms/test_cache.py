"""The KV cache: OPT's layer, what a fed text computes with and without one, what is kept."""

from __future__ import annotations

from typing import Any

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
)
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache, OPTConfig, Qwen3Config
from transformers.models.opt.modeling_opt import OPTAttention

from attnscope.core.heads import HeadShape
from attnscope.errors import ConfigError
from attnscope.mechanisms import NAMES
from attnscope.mechanisms.cache import CachedAttention, Fed, kept_after, step_by_step
from attnscope.mechanisms.grouped import GroupedAttention
from attnscope.mechanisms.sliding import SlidingAttention

OPT_125M = {
    "model_type": "opt", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12,
}  # fmt: skip


def opt(**changed: Any) -> Peer:
    small = {"hidden_size": 48, "num_attention_heads": 6, "num_hidden_layers": 2, "ffn_dim": 8}
    return Peer(OPTAttention, None, OPTConfig(**(small | changed)))


def renamed(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.replace("out_proj", "o_proj"): x for name, x in found.items()}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tokens", [1, 2, 37, 131])
def test_the_output_is_that_of_opt(tokens: int, bias: bool) -> None:
    peer = opt(enable_bias=bias)
    judge_forward(CachedAttention.from_hf(peer.module), peer, tokens)


def test_the_gradients_are_those_of_opt() -> None:
    peer = opt()
    theirs = peer.gradients
    peer.gradients = lambda *x, **more: renamed(theirs(*x, **more))  # type: ignore[method-assign]
    judge_gradients(CachedAttention.from_hf(peer.module), peer, 23)


@pytest.mark.parametrize("chunks", [(), (1,), (7, 5, 3), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(chunks: tuple[int, ...]) -> None:
    judge_cached(CachedAttention.from_hf(opt().module), opt(), 31, chunks)


def test_counts_are_those_of_pytorch_and_of_real_tensors() -> None:
    judge_counts(CachedAttention.from_hf(opt().module), opt())


def test_a_damaged_weight_is_noticed() -> None:
    ours = CachedAttention.from_hf(opt().module)
    with torch.no_grad():
        ours.v_proj.bias[3] += 1e-3
    assert caught(ours, opt())


def test_opt_125m_as_published() -> None:
    ours = CachedAttention.from_config(OPT_125M, layer=11)
    assert (ours.shape.heads, ours.shape.groups, ours.shape.width) == (12, 12, 64)
    assert ours.counts(1).parameters == 4 * 768 * 769
    assert ours.counts(1).bytes_per_token == 2 * 768 * 2


@given(prompt=st.integers(1, 6), steps=st.integers(1, 6), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_what_is_computed_follows_the_formula_and_no_row_changes(
    prompt: int, steps: int, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = CachedAttention(HeadShape(model=12, heads=3, groups=3, width=4)).double()
    T = prompt + steps - 1
    x = torch.randn(2, T, 12, dtype=torch.float64)
    with torch.no_grad():
        plain, without = step_by_step(layer, x, prompt=prompt, cached=False)
        kept, having = step_by_step(layer, x, prompt=prompt)
        whole = layer(x)[:, prompt - 1 :]
    keys = sum(range(prompt, prompt + steps))
    assert without == Fed(forwards=steps, keys=keys, again=keys - T)
    assert having == Fed(forwards=steps, keys=T, again=0)
    assert plain.shape == kept.shape == (2, steps, 12)
    # Sums of at most a dozen numbers near 1 in float64, in another order.
    assert torch.allclose(plain, kept, rtol=0, atol=1e-14)
    assert torch.allclose(whole, kept, rtol=0, atol=1e-14)
    assert not layer._forward_pre_hooks


@pytest.mark.parametrize("window", [None, 3])
def test_other_layers_are_fed_the_same_way(window: int | None) -> None:
    shape = HeadShape(model=12, heads=3, groups=1, width=4)
    layer = GroupedAttention(shape) if window is None else SlidingAttention(shape, window=window)
    x = torch.randn(1, 9, 12)
    with torch.no_grad():
        (plain, a), (kept, b) = (
            step_by_step(layer, x, prompt=4, cached=cached) for cached in (False, True)
        )
    assert (a.keys, a.again, b.keys, b.again) == (39, 30, 9, 0)
    # float32, outputs below 1, sums of at most 12 numbers in another order
    assert torch.allclose(plain, kept, rtol=0, atol=1e-6)


def test_a_cache_that_forgets_is_noticed() -> None:
    """The rows are compared, not assumed: a layer that drops its oldest key gives others."""
    torch.manual_seed(0)
    layer = SlidingAttention(HeadShape(model=12, heads=3, groups=1, width=4), window=4)
    x = torch.randn(1, 9, 12)
    with torch.no_grad():
        kept, _ = step_by_step(layer, x, prompt=4)
        layer.window = None
        plain, _ = step_by_step(layer, x, prompt=4, cached=False)
    assert not torch.allclose(plain, kept, rtol=0, atol=1e-3)


@pytest.mark.parametrize("tokens", [1, 100, 5000])
def test_what_is_kept_is_what_transformers_caches_keep(tokens: int) -> None:
    """Qwen3-0.6B's layer, whole and with a window, through DynamicCache."""
    kept = [cache.nbytes for cache in kept_after(tokens).values()]
    found = []
    for window in (None, 1024):
        config = Qwen3Config(
            num_hidden_layers=1, use_sliding_window=window is not None, sliding_window=window,
            max_window_layers=0,
        )  # fmt: skip
        cache = DynamicCache(config=config)
        heads = torch.empty(1, 8, tokens, 128, dtype=torch.bfloat16, device="meta")
        cache.update(heads, heads, 0)
        held = cache.layers[0]
        # transformers keeps one token less of a window: the next query's own comes on top.
        more = 2 * 8 * 128 * 2 if window is not None and tokens >= window else 0
        found.append(held.keys.nbytes + held.values.nbytes + more)
    assert kept == [*found, 576 * 2 * tokens, 48 * 128 * 128 * 4]


@pytest.mark.parametrize("prompt", [0, 4])
def test_a_prompt_that_is_not_there_is_named(prompt: int) -> None:
    layer = CachedAttention(HeadShape(model=8, heads=2, groups=2, width=4))
    with pytest.raises(ValueError, match=f"prompt: expected 1 to 3, the tokens of x, got {prompt}"):
        step_by_step(layer, torch.zeros(1, 3, 8), prompt=prompt)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "gpt2"}, "'gpt2': CachedAttention reads opt"),
        ({"num_attention_heads": 5}, "num_attention_heads: expected a divisor of hidden_size 768"),
        ({"hidden_size": 0}, "hidden_size: expected a positive whole number, got 0"),
        ({"num_hidden_layers": 0}, "layer 0 is not among its 0 layers"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CachedAttention.from_config(OPT_125M | changed)


def test_what_configs_may_leave_out_is_what_transformers_fills_in() -> None:
    judge_families("cache")


def test_it_stands_before_the_mechanisms_that_keep_less() -> None:
    later = ("grouped", "sliding", "latent", "gated_delta", "sparse", "compressed")
    assert all(NAMES.index(name) > NAMES.index("cache") for name in later)


def test_the_picture_counts() -> None:
    judge_shown(
        "cache", "a prompt of  2,  3 generated            9               5               4"
    )
