"""What is made while nobody asks: the likeliest first, nothing twice, no more than has room."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from attnscope import tiles
from attnscope.errors import TraceError
from attnscope.tiles import strips
from attnscope.tiles.ahead import Focus, Key, plan
from attnscope.tiles.head import Head
from attnscope.tiles.prefetch import Prefetch, Step
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


@contextmanager
def counted(seconds: float) -> Iterator[list[tuple[str, str]]]:
    """Every strip that is worked on, each made to take some time."""
    plain, strips_made = strips._Strip.work, list[tuple[str, str]]()

    def work(self: Any, job: slice, buffer: Any) -> None:
        strips_made.append((str(self.region), str(job)))
        time.sleep(seconds)
        plain(self, job, buffer)

    with mock.patch.object(strips._Strip, "work", work):
        yield strips_made


def test_who_asks_for_the_tile_in_the_making_has_what_was_done() -> None:
    made, _ = trace(LONG)
    with small(), mock.patch("attnscope.tiles.ahead.WORTH", 1.0), tiles.Tiles(made) as held:
        expected = tiles.tile(made, 0, 0, "weight", 4, 0, 0)
        with counted(0.01) as found:
            held.tile(0, 0, "weight", 6, 0, 0)
            wait_for(lambda: len(found) > 3)  # it has begun with the first tile of level 4
            asked = held.tile(0, 0, "weight", 4, 0, 0)
            held.close()
        assert asked.mean is not None
        assert expected.mean is not None
        assert asked.mean.tobytes() == expected.mean.tobytes()
        assert len(found) == len(set(found)), "a strip was worked on twice"


def test_work_ahead_rests_while_there_are_requests() -> None:
    made, _ = trace(LONG)
    with small(), mock.patch("attnscope.tiles.ahead.WORTH", 1.0), tiles.Tiles(made) as held:
        with counted(0.005) as found:
            held.tile(0, 0, "weight", 6, 0, 0)
            wait_for(lambda: len(found) > 3)
            with held._request():
                time.sleep(0.05)  # the strips that were under way
                before = len(found)
                time.sleep(0.3)
                assert len(found) == before
            wait_for(lambda: len(found) > before)
        assert held.settle(60)


def test_work_ahead_waits_for_a_moment_without_requests() -> None:
    """Where requests follow each other nothing is made between them, however short each is."""
    made: list[str] = []

    def steps(want: str) -> Iterator[Step]:
        yield Step(lambda check: made.append(want), lambda: False)

    with mock.patch("attnscope.tiles.prefetch.REST", 60.0):
        ahead = Prefetch(steps, TraceError)
        for _ in range(5):
            with ahead.request():
                ahead.want("tile")
            time.sleep(0.02)
        assert not ahead.settle(0.1)
        assert made == []
        ahead.close()
    with mock.patch("attnscope.tiles.prefetch.REST", 0.01):
        ahead = Prefetch(steps, TraceError)
        ahead.want("tile")
        assert ahead.settle(30)
        assert made == ["tile"]
        ahead.close()


def wait_for(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not there():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.002)
