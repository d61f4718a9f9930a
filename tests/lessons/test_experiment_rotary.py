"""Rotary positions: distance alone for q and k, and what a rotated v does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnscope.lessons.experiments.rotary import TREATMENTS, run


@pytest.mark.parametrize("rotary", [None, 16])
def test_the_score_depends_on_distance_alone(rotary: int | None) -> None:
    found = run(rotary=rotary, seed=7)
    assert found.diagonal_spread <= found.spread_bound < 1e-10
    assert found.distance_spread > 1.0
    for distance in range(48):
        diagonal = np.diagonal(found.scores, -distance)
        # The mean adds up to 48 numbers; each addition rounds once.
        assert np.allclose(diagonal, found.by_distance[47 + distance], rtol=0, atol=1e-10)
    assert found.by_distance[47] == pytest.approx(found.plain_score, abs=found.spread_bound)


def test_scores_agree_with_complex_numbers() -> None:
    """Pairs as complex numbers: the score is Re sum q conj(k) e^(i f (i - j))."""
    import torch

    found = run(width=8, positions=20, seed=3)
    q, k = torch.randn(
        2, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    ).numpy()
    f = np.float32(1.0) / np.float32(10_000.0) ** (np.arange(0, 8, 2, dtype=np.float32) / 8)
    pairs = (q[:4] + 1j * q[4:]) * np.conj(k[:4] + 1j * k[4:])
    for i, j in ((0, 0), (5, 2), (2, 5), (19, 0)):
        expected = (pairs * np.exp(1j * f.astype(float) * (i - j))).real.sum()
        # float32 frequencies may differ in the last bit, 6e-8, over 19 positions and |q||k| < 20.
        assert found.scores[i, j] == pytest.approx(expected, abs=3e-5)


def test_moving_the_text_changes_nothing_unless_v_is_rotated() -> None:
    found = run(seed=2)
    plain, rotated, back = found.output_change
    assert found.weight_change.max() < 1e-10
    assert max(plain.max(), back.max()) < 1e-10
    assert rotated.min() > 0.1
    assert len(TREATMENTS) == len(found.output_change)


def test_a_rotated_v_turns_the_output_by_the_move() -> None:
    """|R_s o - o|: the output keeps its length and turns, so it can change by at most twice it."""
    found = run(moves=(1, 7, 500), seed=1)
    assert found.output_change[1].max() <= 2 + 1e-12


def test_partly_rotated_heads_change_less() -> None:
    whole, part = run(width=64), run(width=64, rotary=16)
    assert (part.output_change[1] < whole.output_change[1]).all()


def test_bad_input_is_named() -> None:
    for wrong, message in (
        ({"rotary": 7}, r"rotary: expected an even number up to width = 64, got 7"),
        ({"rotary": 128}, r"rotary: expected an even number up to width = 64, got 128"),
        ({"theta": math.inf}, r"theta: expected a finite number above 0"),
        ({"moves": ()}, r"moves: expected at least one, got none"),
        ({"moves": (0,)}, r"moves: expected at least 1, got 0"),
        ({"tokens": 1}, r"tokens: expected at least 2, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            run(**wrong)


def test_the_weights_that_move_are_those_that_fetch() -> None:
    """Weights and plain output come two ways; they are of one causal attention."""
    import torch

    from attnscope.lessons.experiments import rotary
    from attnscope.positions import Rope

    x = torch.randn(3, 1, 1, 9, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights, outputs = rotary._attend(Rope.plain(8), x, 5)
    assert torch.equal(weights, weights.tril())
    assert torch.allclose(weights.sum(-1), torch.ones(9, dtype=torch.float64), rtol=1e-14)
    torch.testing.assert_close(weights @ x[2, 0, 0], outputs[0][0, 0], rtol=1e-12, atol=1e-12)
    assert weights[0, 0] == 1
    assert 0 < weights[8, 0] < 1
