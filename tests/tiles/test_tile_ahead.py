"""What is made while nobody asks: the likeliest first, nothing twice, no more than has room."""

from __future__ import annotations

from unittest import mock

import pytest

from attnscope import tiles
from attnscope.tiles.ahead import Focus, Key, plan
from attnscope.tiles.head import Head
from attnscope.tiles.source import Source
from tests.tiles.tile_samples import Case, small, trace


def planned(
    case: Case, keys: list[Key], *, dear: int = 99, plain: int = 99, worth: float = 1.0
) -> list[Key]:
    """The plan for a head of a small map whose tiles are all worth it."""
    made, _ = trace(case)
    with small(), mock.patch("attnscope.tiles.ahead.WORTH", worth):
        source = Source(Head(made.layer(0), 0, 1))
        return list(plan(source, Focus.of(keys), dear=dear, plain=plain))


LONG = Case(T=512, S=512, D=8, H=1, G=1, stored=5)
"""With tiles of 8 cells: levels 0 to 6, of which 5 is captured."""


def test_below_a_coarse_look_lies_the_level_below_the_captured_map() -> None:
    found = planned(LONG, [Key(0, 0, "weight", 6, 0, 0)])
    levels = [key.level for key in found if key.measure == "weight"]
    assert set(levels) == {4, 3}
    assert levels[:10] == [4] * 10, "all of that level that is in sight comes first"
    assert {(k.x, k.y) for k in found if k.level == 4 and k.measure == "weight"} == {
        (x, y) for y in range(4) for x in range(y + 1)
    }
    assert {key.measure for key in found} == {"weight", "arrived"}
    arrived = [key.measure for key in found].index("arrived")
    assert all(key.measure == "arrived" for key in found[arrived:]), "what arrived comes last"


def test_deeper_comes_first_then_beside_then_deeper_still() -> None:
    look = Key(0, 0, "weight", 3, 2, 5)
    found = [key for key in planned(LONG, [look]) if key.measure == "weight"]
    levels = [key.level for key in found]
    assert levels == sorted(levels, key=[2, 3, 1, 4].index)
    below = [(key.x, key.y) for key in found if key.level == 2]
    assert set(below[:4]) == {(4, 10), (5, 10), (4, 11), (5, 11)}, "its own four parts"
    beside = [(key.x, key.y) for key in found if key.level == 3]
    far = [max(abs(x - 2), abs(y - 5)) for x, y in beside]
    assert beside[0] == (2, 5)
    assert far.index(2) >= 9, "all around it before anything further away"


def test_nothing_is_made_twice_out_of_sight_or_beyond_the_room() -> None:
    for level in range(7):
        found = planned(LONG, [Key(0, 0, "weight", level, 0, 0)], plain=25, dear=3)
        assert len(set(found)) == len(found)
        assert len([key for key in found if key.measure == "weight"]) <= 25
        assert len([key for key in found if key.measure == "arrived"]) == 3
        for key in found:
            assert 0 <= key.x <= key.y < 64 >> key.level


def test_what_is_there_in_a_moment_is_not_made_ahead() -> None:
    cheap = 2.0 * (8 << 3) ** 2 * (8 + 100)
    found = planned(LONG, [Key(0, 0, "weight", 3, 2, 5)], worth=1.01 * cheap)
    assert {key.level for key in found if key.measure == "weight"} == {4}
    assert not planned(LONG, [Key(0, 0, "weight", 3, 2, 5)], worth=1e12)
    assert not planned(LONG, [Key(0, 0, "uniform", 3, 2, 5)])


def test_a_map_that_was_not_captured_is_gone_through_first() -> None:
    bare = Case(T=128, S=128, D=8, H=1, G=1)
    found = planned(bare, [Key(0, 0, "weight", 4, 0, 0)])
    base = [key for key in found if key.level == 3]
    assert found[: len(base)] == base
    assert {key.measure for key in found} == {"weight"}, "two passes would not both fit"


@pytest.mark.parametrize("order", [1, -1])
def test_the_focus_is_the_middle_of_what_was_asked_last(order: int) -> None:
    """The tiles of a view come nearest first; the last of them is at its rim."""
    view = [Key(0, 0, "weight", 2, x, y) for y in (8, 9, 10) for x in (3, 4, 5)][::order]
    old = [Key(0, 0, "weight", 3, 0, 0), Key(0, 1, "weight", 2, 0, 0)]
    focus = Focus.of([*old, *view])
    assert (focus.x, focus.y) == (4.5, 9.5)
    [first, *_] = (key for key in planned(LONG, [*old, *view]) if key.level == 1)
    assert (first.x, first.y) in {(8, 18), (9, 18), (8, 19), (9, 19)}


def test_who_is_served_ahead_gets_the_same_tiles() -> None:
    made, _ = trace(LONG)
    with small(), mock.patch("attnscope.tiles.ahead.WORTH", 1.0), tiles.Tiles(made) as held:
        held.tile(0, 0, "weight", 3, 2, 5)
        assert held.settle(30)
        expected = tiles.tile(made, 0, 0, "weight", 2, 5, 11)
        with mock.patch("attnscope.tiles.strips.cells", side_effect=AssertionError("again")):
            found = held.tile(0, 0, "weight", 2, 5, 11)
        assert found.mean is not None
        assert expected.mean is not None
        assert found.mean.tobytes() == expected.mean.tobytes()
