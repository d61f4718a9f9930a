"""Overlap of heads, and the mean weight by distance, from the dense float64 map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tile_samples import Case, cases, room, small, trace

from attnscope import tiles
from attnscope.tiles.grid import Grid


@settings(deadline=None)  # the first example imports
@given(cases())
def test_expected_is_the_mean_by_distance(case: Case) -> None:
    made, (found,) = trace(case)
    with small():
        if case.cross:
            with pytest.raises(ValueError, match="is cross-attention"):
                tiles.expected(made, 0, 0)
            return
        density = tiles.expected(made, 0, 0)
        cell = 1 << Grid(case.T, case.S).whole
    assert density.cell == cell
    distance = np.abs(case.S - case.T + np.arange(case.T)[:, None] - np.arange(case.S))
    weights, seen = found.weights[0], found.seen[0]
    for place, value in enumerate(density.density):
        of = seen & (distance // cell == place)
        if not of.any():
            assert np.isnan(value)
            continue
        # the weights of one distance are added in float32, eight rows at a time
        assert value == pytest.approx(weights[of].mean(), rel=room(case, found) + 1e-6, abs=1e-37)
    assert len(density.density) == -(-max(case.T, case.S) // cell)


@settings(deadline=None)
@given(cases())
def test_similarity_is_the_overlap(case: Case) -> None:
    made, (found,) = trace(case)
    with small():
        alike = tiles.similar(made, 0, 0, 99)
        count = min(5, case.T)  # SAMPLED, in small()
    rows = (np.arange(1, count + 1) * case.T) // count - 1
    rows = rows[found.seen[0][rows].any(axis=1)]
    if case.bias or case.mask:  # heads may see different keys; rows count where the other sees
        return
    assert {(one.layer, one.head) for one in alike} == {(0, h) for h in range(1, case.H)}
    assert [one.similarity for one in alike] == sorted((a.similarity for a in alike), reverse=True)
    for one in alike:
        own, other = found.weights[0][rows], found.weights[one.head][rows]
        shared = np.minimum(own, other).sum(axis=1)
        shared += np.minimum(found.sink[0][rows], found.sink[one.head][rows])
        expected = shared.mean() if len(rows) else 0.0
        assert one.similarity == pytest.approx(expected, rel=2 * room(case, found) + 1e-6)


def test_similar_by_hand() -> None:
    """A twin head overlaps wholly, another hardly at all; other lengths are left out."""
    case = Case(H=2, G=1, T=30, S=30, D=8, scale=3.0)
    made, _ = trace(case, case, Case(T=9, S=30, D=8))
    first, *rest = tiles.similar(made, 0, 1, 10)
    assert (first.layer, first.head) == (1, 1)
    assert first.similarity == pytest.approx(1, abs=1e-5)  # rows sum to one within 30 roundings
    assert {(one.layer, one.head) for one in rest} == {(0, 0), (1, 0)}
    assert all(one.similarity < 0.8 for one in rest)
    assert tiles.similar(made, 0, 1, 1) == [first]


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_is_an_error(count: int) -> None:
    with pytest.raises(ValueError, match=r"count: expected"):
        tiles.similar(trace(Case())[0], 0, 0, count)


def test_unknown_heads_are_an_error() -> None:
    made, _ = trace(Case())
    with pytest.raises(ValueError, match="head: expected"):
        tiles.similar(made, 0, 5, 1)
    with pytest.raises(ValueError, match="no attention map"):
        tiles.expected(made, 1, 0)
