"""Three ways from scores to weights, judged by arithmetic and by the law of large numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscope.lessons.experiments.rules import RULES, run


def test_the_sources_numbers() -> None:
    found = run()
    assert (100 * found.weights["proportional"]).round(1).tolist() == [111.1, 33.3, -44.4]
    assert (100 * run(scores=(8, 7, 9)).weights["softmax"]).round(1).tolist() == [24.5, 9.0, 66.5]


def test_each_fault_is_found_and_the_softmax_has_none() -> None:
    found = run()
    assert "-44.4 % to 111.1 %" in found.faults["proportional"][0]
    assert "adding 5 to every score" in found.faults["proportional"][1]
    assert found.faults["shifted"] == (
        "a key of score -11 joins and the first two share 1.5 : 1 in place of 2 : 1",
    )
    assert found.faults["softmax"] == ()


def test_a_sum_of_zero_has_no_weights() -> None:
    found = run(scores=(3.0, -3.0))
    assert np.isnan(found.weights["proportional"]).all()
    assert found.faults["proportional"] == ("the sum is 0: no weights",)
    assert "none" in found.picture()
    assert run(scores=(2.0, 2.0)).faults["shifted"] == ("the sum is 0: no weights",)


def test_a_ratio_that_was_infinite_and_becomes_finite_is_a_fault() -> None:
    found = run(scores=(8.0, 7.0, 9.0))
    assert found.ratio["shifted"] == math.inf
    assert found.faults["shifted"] == (
        "a key of score -11 joins and the first two share 1.056 : 1 in place of 1 : 0",
    )


def test_random_rows_fail_as_often_as_theory_says() -> None:
    for scores in ((1.0, 2.0), (1.0, 2.0, 3.0), (1.0,) * 6):
        found = run(scores=scores, trials=20_000, seed=2)
        n, error = len(scores), math.sqrt(0.25 / 20_000)
        assert found.negative_expected == 1 - 2.0 ** (1 - n)
        # 4.5 standard errors of a share: missed once in 150,000 times.
        assert abs(found.negative_share["proportional"] - found.negative_expected) < 4.5 * error
        assert abs(found.others_share["shifted"] - 1 / (n + 1)) < 4.5 * error
        assert found.negative_share["softmax"] == found.negative_share["shifted"] == 0
        assert found.others_share["softmax"] == found.others_share["proportional"] == 0


@given(st.lists(st.integers(-40, 40), min_size=2, max_size=6), st.integers(-40, 40))
def test_the_softmax_never_breaks(scores: list[int], newcomer: int) -> None:
    found = run(scores=scores, newcomer=newcomer, trials=1)
    assert found.faults["softmax"] == ()
    # An exponential of float64 is right to a unit in the last place, of numbers up to 80.
    expected = math.exp(scores[0] - scores[1])
    assert found.ratio["softmax"] == pytest.approx(expected, rel=1e-13)
    assert found.weights["softmax"].sum() == pytest.approx(1.0, rel=1e-15 * len(scores))


def test_bad_input_is_named() -> None:
    for wrong, message in (
        ({"scores": (1.0,)}, r"scores: expected a row of at least two, got shape \[1\]"),
        ({"scores": (1.0, math.nan)}, r"expected finite numbers"),
        ({"names": ("a",)}, r"names: expected 3, one per score, got 1"),
        ({"trials": 0}, r"trials: expected at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            run(**wrong)
    assert tuple(run(trials=1).weights) == RULES
