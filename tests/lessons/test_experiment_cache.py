"""What a cache saves, and which bits it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.lessons.experiments import cache
from attnscope.lessons.experiments.cache import run


def test_the_sources_numbers() -> None:
    found = run()
    assert (found.computed_without, found.recomputed, found.computed_with) == (9, 5, 4)
    assert found.fed_without.tolist() == [2, 3, 4]
    assert found.fed_with.tolist() == [2, 1, 1]
    assert (found.prefix_forwards, found.prefix_positions) == (5, 15)
    assert (found.question_forwards, found.question_positions) == (4, 10)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(1, 12))
def test_the_counts_have_their_closed_forms(prompt: int, generate: int) -> None:
    found = run(prompt=prompt, generate=generate, length=2)
    assert found.computed_without == generate * prompt + generate * (generate - 1) // 2
    assert found.computed_with == prompt + generate - 1
    assert found.recomputed == found.computed_without - found.computed_with
    assert found.tokens_without.tolist() == found.tokens_with.tolist()
    T = prompt + generate
    assert found.prefix_positions == T * (T + 1) // 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("length", [7, 48, 65])
def test_every_bit_is_that_of_each_prefix_row_by_row(seed: int, length: int) -> None:
    assert run(seed=seed, length=length).equal_row_by_row


def test_against_one_full_masked_product_the_last_bits_differ() -> None:
    found = run(length=65)
    assert 0 < found.full_difference <= found.bound
    assert 0 < found.full_share <= 1
    # Outputs of the teaching world are below 1, where half a unit of float32 is 6e-8.
    assert found.world_difference <= 2 * 2**-24


def test_the_largest_output_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made, full = [], cache._Layer.full

    def kept(layer: cache._Layer, x: torch.Tensor) -> torch.Tensor:
        made.append(full(layer, x))
        return made[-1]

    monkeypatch.setattr(cache._Layer, "full", kept)
    found = run(length=9)
    whole = next(y for y in made if len(y) == 9)  # the other is the teaching world's
    assert found.largest == max(abs(float(y)) for y in whole.flatten())


def test_outputs_agree_with_float64() -> None:
    torch.manual_seed(0)
    layer = cache._Layer(*torch.randn(3, 16, 16) / 4)
    x = torch.randn(9, 16)
    ours = cache._cached(layer, x), cache._row_by_row(layer, x), layer.full(x)
    q, k, v = (x.double() @ w.double() for w in (layer.w_q, layer.w_k, layer.w_v))
    exact = torch.nn.functional.scaled_dot_product_attention(
        q[None, None], k[None, None], v[None, None], is_causal=True
    )[0, 0]
    for output in ours:
        assert float((output - exact).abs().max()) <= cache._bound(layer, x) / 2


def test_a_cache_that_forgets_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = cache._append

    def forgetful(store, k, v):  # type: ignore[no-untyped-def]
        keys, values = honest(store, k, v)
        return keys, values * np.float32(1 + 2**-23) if len(keys) > 4 else values

    monkeypatch.setattr(cache, "_append", forgetful)
    assert not run().equal_row_by_row


def test_bad_input_is_named() -> None:
    for name in ("prompt", "generate"):
        with pytest.raises(ValueError, match=rf"{name}: expected at least 1, got 0"):
            run(**{name: 0})
    with pytest.raises(ValueError, match=r"length: expected at least 2, got 1"):
        run(length=1)
