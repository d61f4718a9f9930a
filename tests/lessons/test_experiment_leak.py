"""A missing, a late and a finite mask."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attnscope.lessons.experiments.leak import Leaks, _chain, _stationary, _text, run
from attnscope.lessons.world import load, softmax


@pytest.fixture(scope="module")
def found() -> Leaks:
    return run()


def test_the_answer_has_a_third_of_the_attention(found: Leaks) -> None:
    assert round(100 * found.answer, 1) == 32.5
    row = softmax(load().scores()[3])
    assert np.allclose(found.unmasked, row, rtol=0, atol=1e-15)
    assert round(100 * found.masked[2], 1) == 56.5
    assert round(100 * found.masked[0], 1) == 39.4
    assert found.masked[4] == found.masked_after[4] == 0


def test_masked_after_the_softmax_the_output_is_its_share(found: Leaks) -> None:
    assert found.share == pytest.approx(1 - found.answer, abs=1e-15)
    assert np.allclose(found.output_after, found.share * found.output_before, rtol=1e-14)
    assert np.linalg.norm(found.output_after) < 0.7 * np.linalg.norm(found.output_before)
    assert found.masked.sum() == pytest.approx(1.0, abs=1e-15)


def test_without_a_mask_the_loss_is_below_the_entropy(found: Leaks) -> None:
    """No honest prediction is below, on the mean; the leaky one is, by hundreds of its errors."""
    assert found.leaky_last < found.entropy_rate - 100 * found.leaky_error
    assert found.leaky_last < 0.05 * found.entropy_rate
    assert found.causal_last > found.entropy_rate - 4.5 * found.causal_error
    assert found.causal_last < found.entropy_rate + 0.1


def test_fed_prefix_by_prefix_the_leaky_model_is_worse_than_a_guess(found: Leaks) -> None:
    assert found.leaky_prefix > found.guess + 1
    assert found.causal_prefix == pytest.approx(found.causal_last, abs=1e-5)
    # Float32 through one layer, logits of about 10: some hundred units in the last place.
    assert found.prefix_gap < 1e-4


def test_the_entropy_rate_is_that_of_long_texts() -> None:
    chain = _chain(np.random.default_rng([0, 0]))
    pi = _stationary(chain)
    assert np.allclose(pi @ chain, pi, atol=1e-14)
    assert np.allclose(np.linalg.matrix_power(chain, 500)[0], pi, atol=1e-12)
    random = torch.Generator().manual_seed(1)
    P, start = torch.from_numpy(chain).float(), torch.from_numpy(pi).float()
    text = _text(P, start, 4000, random).numpy()
    each = -np.log(chain[text[:, :-1], text[:, 1:]]).mean(1)
    rate = run(steps=1).entropy_rate
    assert abs(each.mean() - rate) < 4.5 * each.std() / math.sqrt(len(each))


def test_numbers_in_place_of_minus_infinity(found: Leaks) -> None:
    table = {(fill.number, fill.dtype): fill for fill in found.fills}
    assert len(table) == 9
    assert all(fill.ordinary == 0 for fill in table.values())
    for dtype in ("float16", "bfloat16", "float32"):
        assert math.isnan(table[-math.inf, dtype].blind)
        # Scores that differ by more than the number reach past it.
        assert table[-1e4, dtype].extreme == 1
        assert table[-1e9, dtype].extreme == 0
        # Three weights of 1/3, each rounded to the dtype.
        eps = torch.finfo(getattr(torch, dtype)).eps
        assert table[-1e4, dtype].blind == pytest.approx(1, abs=eps)
    assert table[-1e9, "float16"].stored == -math.inf
    assert math.isnan(table[-1e9, "float16"].blind)
    for dtype in ("bfloat16", "float32"):
        assert table[-1e9, dtype].blind == pytest.approx(1, abs=0.01)
        # The step between numbers of 10^9 is 64 in float32: scores of +-3 are lost.
        assert table[-1e9, dtype].even
    assert not table[-1e4, "float32"].even


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"steps: expected at least 1, got 0"):
        run(steps=0)
