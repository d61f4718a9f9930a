"""What lesson 6 computes in the page is what attnscope.positions and attnscope.core give."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from test_twins import _world, node, same

from attnscope.lessons import places, world
from attnscope.positions import Rope

FAR = 1e-11
"""Angles up to a thousand radians: cosines of different libraries differ by an ulp of the angle."""
SINGLE = 2.0**-22
"""Rope.plain has its frequencies in float32, rounded at two places."""


@pytest.mark.parametrize(("rotary", "theta"), [(4, 1e4), (64, 1e4), (64, 1e7), (2, 500.0)])
def test_frequencies_are_those_of_the_paper(rotary: int, theta: float) -> None:
    [found] = node("places.js", [("frequencies", [rotary, theta])])
    assert same(found, places.rope(rotary, theta).frequencies)
    wanted = np.array(Rope.plain(rotary, theta=theta).frequencies)
    np.testing.assert_allclose(found, wanted, rtol=SINGLE)


@pytest.mark.parametrize(("width", "rotary"), [(4, 4), (16, 16), (16, 4), (6, 2)])
def test_turning_is_that_of_positions(width: int, rotary: int) -> None:
    rows = np.random.default_rng(0).standard_normal((3, width))
    at = [0, 7, 1000]
    turning = places.rope(rotary, 10_000.0)
    calls = [
        ("rotate", [row.tolist(), place, list(turning.frequencies)])
        for row, place in zip(rows, at, strict=True)
    ]
    assert same(node("places.js", calls), places.rotated(rows, at, turning), tolerance=FAR)


def test_added_positions_are_those_of_2017() -> None:
    calls = [("sinusoid", [place, width]) for place in (0, 3, 500) for width in (4, 6, 64)]
    for (_, given), found in zip(calls, node("places.js", calls), strict=True):
        place, width = given
        half = place / 10_000 ** (2 * np.arange(width // 2) / width)
        wanted = np.stack([np.sin(half), np.cos(half)], -1).ravel()
        assert same(found, wanted, tolerance=FAR)
        assert same(found, places.sinusoid(place, width), tolerance=FAR)


@pytest.mark.parametrize("way", places.WAYS)
def test_scores_by_distance_are_the_same(way: places.Way) -> None:
    for seed, width, rotary, start in ((1, 64, 64, 0), (9, 64, 16, 700), (3, 8, 8, 31)):
        how = {"rotary": rotary, "theta": 1e4, "way": way, "start": start, "count": 65}
        [found] = node("places.js", [("scoresByDistance", [seed, width, how])])
        wanted = places.scores_by_distance(
            seed, width, rotary=rotary, theta=1e4, way=way, start=start, count=65
        )
        assert same(found, wanted, tolerance=FAR), (way, seed)


def test_rotated_scores_know_the_distance_alone_and_added_ones_the_place() -> None:
    def moved(way: places.Way) -> float:
        here, there = (
            places.scores_by_distance(
                5, 64, rotary=64, theta=1e4, way=way, start=start, count=40
            )
            for start in (0, 321)
        )  # fmt: skip
        return float(np.abs(here - there).max())

    # |q||k| is about 64, and an angle of 321 is known to 321 units in the last place of 1.
    assert moved("rotated") < 64 * 2 * 361 * np.finfo(np.float64).eps
    assert moved("none") == 0
    assert moved("added") > 1


@pytest.mark.parametrize("way", places.WAYS)
def test_the_sentence_in_another_order_is_the_same(way: places.Way) -> None:
    given, found = _world(), world.load()
    orders = [[*first, 3, 4] for first in permutations(range(3))]
    calls = [
        ("placedRow", [given, order, row, {"way": way, "start": start}])
        for order in orders for row in (3, order[1]) for start in (0, 60)
    ]  # fmt: skip
    for (_, (_, order, row, how)), one in zip(calls, node("places.js", calls), strict=True):
        weights, output = places.placed_row(found, order, row, way=way, start=how["start"])
        assert same(one["weights"], weights, tolerance=FAR), (order, row)
        assert same(one["output"], output, tolerance=FAR), (order, row)


def test_in_its_own_order_without_positions_it_is_the_world() -> None:
    found = world.load()
    weights, output = places.placed_row(found, range(5), 3, way="none", start=9)
    assert same(weights.tolist(), found.weights()[3])
    assert same(output.tolist(), found.output()[3])


def test_order_changes_nothing_until_positions_are_told() -> None:
    found = world.load()
    for way, least in (("none", 0.0), ("added", 0.01), ("rotated", 0.01)):
        plain, _ = places.placed_row(found, [0, 1, 2, 3, 4], 3, way=way, start=0)
        swapped, _ = places.placed_row(found, [2, 1, 0, 3, 4], 3, way=way, start=0)
        change = float(np.abs(swapped - plain).max())
        # Three products in another order: a few roundings of numbers below 1.
        assert change < 1e-15 if least == 0.0 else change > least, way


def test_outputs_behind_a_move_are_the_same() -> None:
    for seed, move in ((1, 10), (2, 100), (7, 997)):
        about = {"width": 16, "tokens": 8, "move": move}
        [found] = node("places.js", [("movedOutputs", [seed, about])])
        wanted = places.moved_outputs(seed, width=16, tokens=8, move=move)
        assert same(found, wanted, tolerance=FAR)
        assert wanted[0] < FAR > wanted[2]
        assert wanted[1] > 0.1


def test_a_turn_the_other_way_is_noticed() -> None:
    row = np.arange(4.0)
    turning = places.rope(4, 10_000.0)
    [found] = node("places.js", [("rotate", [row.tolist(), -7, list(turning.frequencies)])])
    assert not same(found, places.rotated(row[None], [7], turning)[0])
