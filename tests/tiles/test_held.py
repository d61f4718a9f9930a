"""`Tiles` gives the same answers as the pure functions: from memory, from many threads, ahead."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_samples import Case, cases, header, small, trace, truth

from attnscope import tiles
from attnscope.errors import TraceError
from attnscope.tiles.cache import Lru, Turns
from attnscope.tiles.grid import Grid
from attnscope.trace import Trace


def same(one: tiles.Tile, other: tiles.Tile) -> None:
    for name, value in vars(other).items():
        np.testing.assert_array_equal(getattr(one, name), value)


@settings(deadline=None, max_examples=60)
@given(cases(), st.sampled_from(tiles.MEASURES), st.sampled_from([0, 3000, 1 << 20]))
def test_every_tile_is_the_pure_one(case: Case, measure: str, cache_bytes: int) -> None:
    """From the coarse to the fine and again: made, then from memory (or made again)."""
    made, _ = trace(case)
    with small(), tiles.Tiles(made, cache_bytes=cache_bytes, prefetch=False) as held:
        grid = Grid(case.T, case.S)
        for _ in range(2):
            for level in reversed(range(grid.levels)):
                for y in range(grid.tiles(level)[0]):
                    x = min(y, grid.tiles(level)[1] - 1)
                    asked = 0, 0, measure, level, x, y
                    same(held.tile(*asked), tiles.tile(made, *asked))
        assert held.bytes <= cache_bytes + (9 << 20)


def test_the_rest_is_the_pure_functions() -> None:
    made, _ = trace(Case(T=20, S=20, H=4, G=2))
    with tiles.Tiles(made) as held:
        assert held.info() == tiles.info(made)
        assert held.heads() == tiles.heads(made)
        assert held.token_table() == tiles.token_table(made)
        assert held.cell(0, 1, 9, 3) == tiles.cell(made, 0, 1, 9, 3)
        assert held.similar(0, 1, 2) == tiles.similar(made, 0, 1, 2)
        for one, other in (
            (held.row(0, 1, [4, 5], "sum"), tiles.row(made, 0, 1, [4, 5], "sum")),
            (held.flow([4, 5]), tiles.flow(made, [4, 5])),
            (held.track(0, 1, "entropy", 0, 0), tiles.track(made, 0, 1, "entropy", 0, 0)),
            (held.expected(0, 1), tiles.expected(made, 0, 1)),
            (held.expected(0, 1), tiles.expected(made, 0, 1)),
        ):
            for name, value in vars(other).items():
                np.testing.assert_array_equal(getattr(one, name), value)
        np.testing.assert_array_equal(held.column(0, 1, [3]), tiles.column(made, 0, 1, [3]))
        part = 0, 1, "weight", slice(2, 5), slice(0, 9)
        np.testing.assert_array_equal(held.window(*part), tiles.window(made, *part))
        with pytest.raises(ValueError, match="count: expected"):
            held.similar(0, 1, 0)
        with pytest.raises(ValueError, match="head: expected"):
            held.expected(0, 9)


def test_many_threads_get_the_same_and_work_once() -> None:
    """Sixteen ask for all tiles at once: each base tile of `arrived` is computed once."""
    case = Case(T=64, S=64, D=8)
    made, _ = trace(case)
    with small(), tiles.Tiles(made, prefetch=False) as held:
        grid = Grid(64, 64)
        places = [
            (level, x, y)
            for level in (3, 2, 1, 0)
            for y in range(min(2, grid.tiles(level)[0]))
            for x in range(min(2, grid.tiles(level)[1]))
        ]
        expected = {at: tiles.tile(made, 0, 0, "arrived", *at) for at in places}
        from attnscope.tiles import strips

        plain, calls = strips.cells, []

        def counted(head: object, region: object, *rest: object, **options: object) -> object:
            calls.append(region)
            time.sleep(0.001)
            return plain(head, region, *rest, **options)  # type: ignore[arg-type]

        with mock.patch("attnscope.tiles.strips.cells", counted), ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda at: held.tile(0, 0, "arrived", *at), places * 8))
        for at, tile in zip(places * 8, answers, strict=True):
            same(tile, expected[at])
        assert len(calls) == len({str(region) for region in calls})


def test_check_ends_a_tile_and_leaves_all_usable() -> None:
    class GoneError(Exception):
        pass

    def gone() -> None:
        raise GoneError

    made, _ = trace(Case(T=64, S=64))
    with small(), tiles.Tiles(made, prefetch=False) as held:
        with pytest.raises(GoneError):
            held.tile(0, 0, "arrived", 3, 0, 0, check=gone)
        same(held.tile(0, 0, "arrived", 3, 0, 0), tiles.tile(made, 0, 0, "arrived", 3, 0, 0))
        with pytest.raises(GoneError):
            held.expected(0, 0, check=gone)
        assert len(held.expected(0, 0).density)


def test_a_damaged_trace_is_an_error_every_time() -> None:
    case = Case(T=64, S=64, H=1, softcap=0.5)
    arrays = truth(case).arrays
    made = Trace.from_arrays(header(case), {0: arrays})
    arrays["logsumexp"][0, 40] -= 9
    with small(), tiles.Tiles(made) as held:
        for _ in range(2):
            with pytest.raises(TraceError, match="above one or no number"):
                held.tile(0, 0, "weight", 3, 0, 0)
        assert held.settle(10)


def test_the_dearest_level_is_made_ahead() -> None:
    """After a look at the whole, the tiles of the level below the base are there."""
    made, _ = trace(Case(T=128, S=128, D=8, stored=3))
    others = set(threading.enumerate())
    with small(), mock.patch("attnscope.tiles.ahead.WORTH", 1.0):
        places = [(x, y) for y in range(4) for x in range(y + 1)]
        expected = [tiles.tile(made, 0, 0, "weight", 2, x, y) for x, y in places]
        with tiles.Tiles(made) as held:
            held.tile(0, 0, "weight", 4, 0, 0)
            assert held.settle(30)
            with mock.patch("attnscope.tiles.strips.cells", side_effect=AssertionError("again")):
                for (x, y), tile in zip(places, expected, strict=True):
                    same(held.tile(0, 0, "weight", 2, x, y), tile)
        # Other tests of this process may have maps open, with threads of their own.
        assert not [
            thread
            for thread in set(threading.enumerate()) - others
            if thread.name.startswith("attnscope-")
        ]


def test_what_arrived_is_made_ahead_and_fits() -> None:
    """Who looks at a head's weights may ask what arrived: its dear level is there by then."""
    made, _ = trace(Case(T=128, S=128, D=8, stored=3))
    with small(), mock.patch("attnscope.tiles.ahead.WORTH", 1.0):
        top = Grid(128, 128).levels - 1
        expected = tiles.tile(made, 0, 0, "arrived", top, 0, 0)
        with tiles.Tiles(made) as held:
            held.tile(0, 0, "weight", top, 0, 0)
            assert held.settle(30)
            with mock.patch("attnscope.tiles.strips.cells", side_effect=AssertionError("again")):
                same(held.tile(0, 0, "arrived", top, 0, 0), expected)
        without, _ = trace(Case(T=128, S=128, D=8, stored=3, norms=False))
        with tiles.Tiles(without) as held:
            held.tile(0, 0, "weight", top, 0, 0)
            assert held.settle(30)


def test_a_request_ends_work_ahead_and_is_answered() -> None:
    """The one that asks for the very tile in the making does not wait for the moment of rest."""
    made, _ = trace(Case(T=512, S=512, D=8, stored=5))
    with small(), mock.patch("attnscope.tiles.ahead.WORTH", 1.0), tiles.Tiles(made) as held:
        held.tile(0, 0, "weight", 6, 0, 0)
        for n in range(20):
            time.sleep(0.01 * (n % 8))
            x = n % 2
            same(held.tile(0, 0, "weight", 4, x, 1), tiles.tile(made, 0, 0, "weight", 4, x, 1))
        assert held.settle(30)


def test_closing_ends_work_ahead_at_once_and_answers_go_on() -> None:
    made, _ = trace(Case(T=512, S=512, D=8))
    with small(), mock.patch("attnscope.tiles.ahead.WORTH", 1.0):
        held = tiles.Tiles(made)
        held.tile(0, 0, "weight", 0, 0, 0)
        time.sleep(0.08)
        start = time.monotonic()
        held.close()
        held.close()
        assert time.monotonic() - start < 5
        assert held.tile(0, 0, "weight", 0, 0, 0).state == "values"
        assert held.settle(0)


def test_memory_is_bounded_whatever_is_asked() -> None:
    """A walk over every tile of every level and measure holds the caches and a little more."""
    made, _ = trace(Case(T=1500, S=1500, D=16, H=1))
    grid, limit = Grid(1500, 1500), 4 << 20
    with tiles.Tiles(made, cache_bytes=limit) as held:
        held.tile(0, 0, "arrived", 0, 0, 0)  # what is made once is made before
        gc.collect()
        tracemalloc.start()
        try:
            for measure in tiles.MEASURES:
                for level in range(grid.levels):
                    for y in range(grid.tiles(level)[0]):
                        held.tile(0, 0, measure, level, min(y, grid.tiles(level)[1] - 1), y)
            held.row(0, 0, range(0, 1500, 3))
            held.column(0, 0, range(1500))
            held.similar(0, 0, 1)
            held.expected(0, 0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert held.bytes <= limit + (9 << 20)
    # two buffers of 2 MiB, two tiles in the making and the four parts of each, a block of a column
    assert peak < limit + (30 << 20)


def test_a_cache_of_less_than_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="cache_bytes: expected at least 0, got -1"):
        tiles.Tiles(trace(Case())[0], cache_bytes=-1)


def test_the_least_recently_used_goes_first() -> None:
    cache = Lru(3 * 1000)
    for name in "abc":
        cache.put(name, name, 400)
    assert cache.get("a") == ("a",)
    cache.put("d", "d", 400)
    assert cache.get("b") is None
    assert [cache.get(name) for name in "acd"] == [("a",), ("c",), ("d",)]
    cache.put("a", "A", 400)
    assert cache.get("a") == ("A",)
    assert cache.bytes == 3 * 912
    cache.put("huge", "huge", 3000)
    assert cache.get("huge") is None
    assert len(cache) == 3


def test_who_waits_for_a_turn_can_leave() -> None:
    class GoneError(Exception):
        pass

    def gone() -> None:
        raise GoneError

    turns = Turns()
    with turns.turn("a"):
        with turns.turn("b"):
            pass
        with ThreadPoolExecutor(1) as pool:

            def wait() -> None:
                with turns.turn("a", gone):
                    raise AssertionError("two at once")

            with pytest.raises(GoneError):
                pool.submit(wait).result(10)
    assert turns._held == {}
