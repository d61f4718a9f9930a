"""Mixtures of values: the teaching world's row, the nearest mixture, the law."""

from __future__ import annotations

import dataclasses
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscope.lessons.experiments.convex import nearest_mixture, run
from attnscope.lessons.world import load


def test_the_sources_numbers() -> None:
    found = run()
    assert found.tokens == ("小明", "把", "苹果", "给了")
    assert [round(100 * x, 1) for x in (found.weights[2], found.weights[0])] == [56.5, 39.4]
    assert round(100 * found.head_weights[0, 0], 1) == 89.5
    assert round(100 * found.head_weights[1, 2], 1) == 77.0
    assert round(found.key_cosine, 3) == 0.995
    assert round(found.value_cosine, 3) == 0.005


def test_one_head_cannot_and_two_can() -> None:
    found = run()
    # No weights of one head come closer than `nearest`, and none do better than `one_head`.
    assert found.nearest_distance > 0.8
    assert found.one_head_distance >= found.nearest_distance
    assert found.two_heads_nearest_distance < 1e-12
    assert found.two_heads_distance < 0.4 * found.nearest_distance
    # A thousand softmaxes of any scores, far and near, for good measure.
    scores = np.random.default_rng(0).standard_normal((1000, 4)) * np.logspace(-1, 2, 1000)[:, None]
    p = np.exp(scores - scores.max(-1, keepdims=True))
    tried = (p / p.sum(-1, keepdims=True)) @ found.values - found.wanted
    assert np.linalg.norm(tried, axis=-1).min() >= found.nearest_distance - 1e-12


def test_the_output_lies_between_the_values() -> None:
    found = run(trials=3000, seed=4)
    assert (found.low <= found.output).all()
    assert (found.output <= found.high).all()
    assert found.outside == 0
    # The check can fail: with a negative weight most outputs leave the box.
    assert found.outside_if_damaged > 2000


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4))
def test_the_nearest_mixture_is_where_no_value_lies_beyond(seed: int, T: int, d: int) -> None:
    """What makes a point of a hull the closest: (v_j - nearest).(wanted - nearest) <= 0 for all."""
    random = np.random.default_rng(seed)
    values, wanted = random.integers(-3, 4, (T, d)) * 1.0, random.standard_normal(d) * 2
    weights = nearest_mixture(values, wanted)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    nearest = weights @ values
    # Small systems with numbers up to 10, which lose some digits when corners nearly coincide.
    assert ((values - nearest) @ (wanted - nearest)).max() < 1e-9


def test_a_mixture_that_is_wanted_is_found() -> None:
    values = np.random.default_rng(1).standard_normal((5, 3))
    wanted = np.array([0.1, 0.2, 0.3, 0.4, 0.0]) @ values
    assert nearest_mixture(values, wanted) @ values == pytest.approx(wanted, abs=1e-12)


def test_the_picture_puts_the_output_where_it_lies_between_its_ends() -> None:
    found = run()
    lines = found.picture().splitlines()
    for c, line in enumerate(lines[1:5]):
        low, at, high = found.low[c], found.output[c], found.high[c]
        assert line.startswith(f"  o[{c}]")
        track = line.split()[2]
        assert len(track) == 21
        assert set(track) == {"·", "o"}
        assert track.index("o") == round(20 * (at - low) / (high - low))
        assert [float(line.split()[n]) for n in (1, 3, 4)] == pytest.approx(
            [low, high, at], abs=0.0051
        )

    def column(line: str) -> int:
        """Where the percent sign stands on a screen that gives Chinese letters two columns."""
        before = line[: line.index("%")]
        return sum(1 + (unicodedata.east_asian_width(one) in "WF") for one in before)

    shares = [line for line in lines[5:] if " %  " in line]
    assert len(shares) == 3 * len(found.tokens)
    assert len({column(line) for line in shares}) == 1
    # One space at least between the longest token and its number.
    assert all(line[2 + len(line.split()[0])] == " " for line in shares)
    assert {line.split()[1] for line in shares} >= {f"{100 * one:.1f}" for one in found.weights}


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"trials: expected at least 1, got 0"):
        run(trials=0)
    with pytest.raises(ValueError, match=r"world: expected two heads, got 4"):
        run(world=dataclasses.replace(load(), heads=4))
    swapped = dataclasses.replace(load(), tokens=("给了", "把", "苹果", "小明", "小王"))
    with pytest.raises(ValueError, match=r"world: expected 小明 and 苹果 before 给了"):
        run(world=swapped)
