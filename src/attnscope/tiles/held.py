"""A trace with what was computed of it kept: what a server or a notebook holds.

The idea: the pure functions say what an answer is; this gives the same answers faster. Tiles stay
in a cache of bounded size, a quarter of it for those that cost a pass over a whole map; two threads
share the strips of a tile; and while nobody asks, the tiles are made that a reader of this place is
likely to want next (ahead.py).

Not here: the answers (tiling.py, tracks.py, rows.py, compare.py), HTTP (serve).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Final

import numpy as np

from attnscope.errors import TraceError
from attnscope.tiles import about, compare, handouts, rows, tiling, tokens, tracks
from attnscope.tiles.ahead import Focus, Key, plan
from attnscope.tiles.cache import Lru, Turns
from attnscope.tiles.grid import TILE, head_of
from attnscope.tiles.head import Head
from attnscope.tiles.pool import Triple
from attnscope.tiles.prefetch import Prefetch, Step
from attnscope.tiles.source import Source
from attnscope.tiles.strips import Check, Scratch, Workshop
from attnscope.trace import Trace

CACHE_BYTES: Final = 80 << 20
_TILE_BYTES: Final = 12 * TILE * TILE
_HEAD_BYTES: Final = 8 << 20
_ANSWER_BYTES: Final = 1 << 20
_LOOKED_AT: Final = 16
"""Tiles asked for last, whose middle is where the reader is."""


class Tiles:
    """The answers of this package about one trace, with a memory; safe to use from any thread.

    Args:
        trace: the trace; it must stay as it is.
        cache_bytes: of tiles that are kept.
        prefetch: whether tiles are made ahead while nobody asks.

    Close it, or use it in a `with` block, to end its threads.
    """

    def __init__(
        self, trace: Trace, *, cache_bytes: int = CACHE_BYTES, prefetch: bool = True
    ) -> None:
        if cache_bytes < 0:
            raise ValueError(f"cache_bytes: expected at least 0, got {cache_bytes}")
        self.trace = trace
        quarter = cache_bytes // 4
        self._caches = {"dear": Lru(quarter), "plain": Lru(cache_bytes - quarter)}
        self._asked: deque[Key] = deque(maxlen=_LOOKED_AT)
        self._answers, self._heads = Lru(_ANSWER_BYTES), Lru(_HEAD_BYTES)
        self._turns, self._scratch = Turns(), Scratch()
        self._helper: ThreadPoolExecutor | None = ThreadPoolExecutor(
            1, thread_name_prefix="attnscope-strips"
        )
        self._ahead = Prefetch(self._steps, TraceError) if prefetch else None
        self._second: ThreadPoolExecutor | None = None  # of the work ahead, which may have to rest
        if prefetch:
            self._second = ThreadPoolExecutor(1, thread_name_prefix="attnscope-ahead")
        self._whole: dict[str, Any] = {}

    def info(self) -> dict[str, Any]:
        """See `info`."""
        return self._once("info", lambda: about.info(self.trace))

    def heads(self) -> list[dict[str, Any]]:
        """See `heads`."""
        return self._once("heads", lambda: about.heads(self.trace))

    def token_table(self) -> dict[str, Any]:
        """See `token_table`."""
        return self._once("tokens", lambda: tokens.token_table(self.trace))

    def tile(
        self, layer: int, head: int, measure: str, level: int, x: int, y: int, *,
        check: Check | None = None,
    ) -> tiling.Tile:  # fmt: skip
        """See `tile`; `check` is called between strips, and what it raises ends the work."""
        asked = tiling.ask(self.trace, layer, head, measure, level, x, y)
        if isinstance(asked, tiling.Tile):
            return asked
        place = asked.place
        key = Key(asked.record.info.index, asked.head, measure, place.level, place.x, place.y)
        with self._request():
            found = self._planes(key, Workshop(self._scratch, self._helper, check))
        if self._ahead is not None:
            self._asked.append(key)
            self._ahead.want(Focus.of(list(self._asked)))
        return tiling.as_tile(place, found)

    def track(self, layer: int, head: int, name: str, level: int, x: int) -> tracks.TrackTile:
        """See `track`."""
        with self._request():
            return tracks.track(self.trace, layer, head, name, level, x)

    def row(
        self, layer: int, head: int, queries: Iterable[int], how: str = "mean", *,
        check: Check | None = None,
    ) -> rows.Row:  # fmt: skip
        """See `row`."""
        with self._request():
            return rows.row(self.trace, layer, head, queries, how, check=check)

    def column(
        self, layer: int, head: int, keys: Iterable[int], how: str = "mean", *,
        check: Check | None = None,
    ) -> np.ndarray:  # fmt: skip
        """See `column`."""
        with self._request():
            return rows.column(self.trace, layer, head, keys, how, check=check)

    def flow(
        self, queries: Iterable[int], how: str = "mean", *, check: Check | None = None
    ) -> rows.Flow:
        """See `flow`."""
        with self._request():
            return rows.flow(self.trace, queries, how, check=check)

    def cell(self, layer: int, head: int, query: int, key: int) -> rows.Cell:
        """See `cell`."""
        with self._request():
            return rows.cell(self.trace, layer, head, query, key)

    def window(
        self, layer: int, head: int, measure: str, queries: slice, keys: slice
    ) -> np.ndarray:
        """See `window`."""
        with self._request():
            return tiling.window(self.trace, layer, head, measure, queries, keys)

    def handout(
        self, layer: int, head: int, start: int, *, check: Check | None = None
    ) -> dict[str, Any]:
        """See `handout`; one head."""
        with self._request():
            return handouts.handout(
                self.trace, [(layer, head)], start=start, table=self.heads(), check=check
            )

    def similar(
        self, layer: int, head: int, count: int, *, check: Check | None = None
    ) -> list[compare.Alike]:
        """See `similar`; all heads are compared at the first call, and kept."""

        def make() -> list[compare.Alike]:
            return compare.similar(self.trace, layer, head, 1 << 30, check=check)

        head_of(self.trace, layer, head)
        compare.check_count(count)
        return self._answer(("similar", layer, head), make, check)[:count]

    def expected(self, layer: int, head: int, *, check: Check | None = None) -> compare.Expected:
        """See `expected`; kept."""

        def make() -> compare.Expected:
            shop = Workshop(self._scratch, self._helper, check)
            return compare.expected(self.trace, layer, head, shop=shop)

        head_of(self.trace, layer, head)
        return self._answer(("expected", layer, head), make, check)

    def settle(self, timeout: float = 60.0) -> bool:
        """Wait until all that is made ahead is made; whether it is."""
        return self._ahead is None or self._ahead.settle(timeout)

    def close(self) -> None:
        """End the threads; answers are still given after it."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        helpers, self._helper, self._second = (self._helper, self._second), None, None
        for helper in helpers:
            if helper is not None:
                helper.shutdown(wait=True)

    def __enter__(self) -> Tiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bytes(self) -> int:
        """What the caches hold."""
        caches = *self._caches.values(), self._answers, self._heads
        return sum(cache.bytes for cache in caches)

    def _request(self) -> AbstractContextManager[None]:
        return nullcontext() if self._ahead is None else self._ahead.request()

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """An answer about the whole trace, made at the first call."""
        if name not in self._whole:
            with self._turns.turn(name), self._request():
                if name not in self._whole:
                    self._whole[name] = make()
        return self._whole[name]

    def _answer(self, key: tuple, make: Callable[[], Any], check: Check | None) -> Any:
        """A small answer that took long, kept."""
        kept = self._answers.get(key)
        if kept is None:
            with self._request(), self._turns.turn(key, check):
                kept = self._answers.get(key)
                if kept is None:
                    kept = (make(),)
                    size = 64 * len(kept[0]) if isinstance(kept[0], list) else 1 << 13
                    self._answers.put(key, kept[0], size)
        return kept[0]

    def _head(self, layer: int, head: int) -> Head:
        kept = self._heads.get((layer, head))
        if kept is not None:
            return kept[0]
        made = Head(self.trace.layer(layer), head, self.trace.header.sink_keys)
        self._heads.put((layer, head), made, 12 * made.queries)  # after_sink and sight
        return made

    def _planes(self, key: Key, shop: Workshop) -> Triple | None:
        """A tile's planes, kept or made."""

        def lookup(measure: str, level: int, x: int, y: int) -> Triple | None:
            return self._planes(key._replace(measure=measure, level=level, x=x, y=y), shop)

        source = Source(self._head(key.layer, key.head), lookup)
        place = source.grid.place(key.level, key.x, key.y)
        if source.reads(key.measure, key.level):
            return source.planes(key.measure, place, shop)
        cache = self._caches["dear" if source.dear(key.measure, key.level) else "plain"]
        kept = cache.get(key)
        if kept is not None:
            return kept[0]
        with self._turns.turn(key, shop.check):
            kept = cache.get(key)
            if kept is not None:
                return kept[0]
            made = source.planes(key.measure, place, shop)
            size = 0
            if made is not None:
                made = tuple(np.ascontiguousarray(plane) for plane in made)  # type: ignore[assignment]
                size = sum(plane.nbytes for plane in made)
            cache.put(key, made, size)
            return made

    def _steps(self, want: Focus) -> Iterator[Step]:
        """The tiles to make ahead that are not there."""
        source = Source(self._head(want.key.layer, want.key.head))
        room = {name: cache.limit * 3 // 4 // _TILE_BYTES for name, cache in self._caches.items()}
        for key in plan(source, want, dear=room["dear"], plain=room["plain"]):
            name = "dear" if source.dear(key.measure, key.level) else "plain"
            if self._caches[name].get(key) is None:
                yield Step(partial(self._make, key), partial(self._turns.waited_for, key))

    def _make(self, key: Key, check: Check) -> None:
        self._planes(key, Workshop(self._scratch, self._second, check))
