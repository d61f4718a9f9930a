"""What the lesson on reading a model computes on the page, against Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_twins import node, same

from attnscope.lessons import reading
from attnscope.lessons.circuit import circuit
from attnscope.trace.kinds import KINDS

TEXTS = ["A B C D A", "A A A", "the cat sat . the", "x y x z x", "A B"]


def test_the_page_names_heads_as_the_package_does() -> None:
    heads = reading.kept()["heads"]
    for half in (0.2, 0.5, 0.75):
        found = node("reading.js", [("kindOf", [one["shares"], half]) for one in heads])
        assert found == [reading.kind_of(one, half=half) for one in heads]
        [counts] = node("reading.js", [("counts", [heads, half])])
        assert counts == [found.count(kind) for kind in (*reading.ASKED, "mixed")]
    assert set(reading.ASKED) | {"mixed"} == set(KINDS)


def test_a_rule_without_rows_never_holds() -> None:
    assert node("reading.js", [("kindOf", [[None, None, 0.1, None, 0.2], 0.5])]) == ["mixed"]
    assert reading.kind_of({"shares": [None, None, 0.1, None, 0.2]}) == "mixed"


def test_a_share_of_just_a_half_is_enough() -> None:
    shares = [0.4, 0.5, 0.6, None, None]
    assert node("reading.js", [("kindOf", [shares, 0.5])]) == ["induction"]
    assert reading.kind_of({"shares": shares}, half=0.5) == "induction"


def test_what_arrives_is_weight_times_norm() -> None:
    for one in reading.kept()["maps"]:
        rows = one["weights"]
        found = node("reading.js", [("arrivedShares", [row, one["norms"]]) for row in rows[1:]])
        totals = node("reading.js", [("againstEven", [row, one["norms"]]) for row in rows])
        for row, total in zip(rows, totals, strict=True):
            norms = np.array(one["norms"][: len(row)])
            assert same(total, np.dot(row, norms) / norms.mean())
        for row, shares in zip(rows[1:], found, strict=True):
            arrived = np.array(row) * np.array(one["norms"][: len(row)])
            assert same(shares, arrived / arrived.sum())


@pytest.mark.parametrize("two", [True, False])
def test_the_circuit_is_the_same(two: bool) -> None:
    for text in TEXTS:
        for sharpness in (0.0, 3.0, 20.0):
            [found] = node("reading.js", [("circuit", [text.split(), sharpness, two])])
            weights, names, says = circuit(text.split(), sharpness, two=two)
            assert found["names"] == names
            assert same(found["weights"], weights), (text, sharpness)
            assert same(found["next"], says), (text, sharpness)


@given(st.lists(st.sampled_from("ABCDE"), min_size=2, max_size=12))
def test_two_layers_continue_and_one_repeats(tokens: list[str]) -> None:
    """By counting: sharp, the circuit says what followed earlier copies of the last token."""
    last = tokens[-1]
    followers = [b for a, b in itertools.pairwise(tokens) if a == last]
    _, names, says = circuit(tokens, 60.0)
    if followers:
        wanted = [followers.count(name) / len(followers) for name in names]
        assert np.allclose(says, wanted, rtol=0, atol=1e-9)  # e to -60 is left of the others
    _, names, alone = circuit(tokens, 60.0, two=False)
    assert names[int(alone.argmax())] == last
