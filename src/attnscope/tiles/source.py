"""Where the tiles of one head and measure come from: read, pooled, or computed.

The idea: one level of a map is the base. Below it tiles are computed from queries and keys, at it
they are read from the captured map (or computed, where there is none or the measure is another),
and above it each tile is pooled from four of the level below. So a whole map is gone through once
at most, whatever is asked for, and every level says the same.

`weight-no-sink` and `arrived-no-sink` differ from `weight` and `arrived` in the few cells that hold
a left-out pair; those alone are computed anew at the base.

Not here: what stays in memory (cache.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from attnscope.errors import TraceError
from attnscope.tiles import strips, uniform
from attnscope.tiles.grid import TILE, Grid, Place
from attnscope.tiles.head import Head
from attnscope.tiles.pool import Triple, pooled
from attnscope.tiles.strips import Region, Workshop
from attnscope.trace import LayerRecord
from attnscope.trace.values import check_map

Lookup = Callable[[str, int, int, int], Triple | None]
"""Another tile of the same head: measure, level, x, y. None where every cell is masked."""

NO_SINK: Final = "-no-sink"


def stored_level(record: LayerRecord, grid: Grid) -> int | None:
    """The level of the captured map, or None where there is none that fits the pyramid."""
    if not record.has("map_cell"):
        return None
    level = int(record.arrays.read("map_cell")[0]).bit_length() - 1
    return level if level < grid.levels else None


class Source:
    """The tiles of one head.

    Args:
        head: the head.
        lookup: gives other tiles of the same head, from memory or by `planes`.
    """

    def __init__(self, head: Head, lookup: Lookup | None = None) -> None:
        self.head, self.record = head, head.record
        self.grid = Grid(head.queries, head.keys)
        self.stored = stored_level(head.record, self.grid)
        self._lookup = lookup

    def base(self, measure: str) -> int:
        """The finest level that is not computed for every request."""
        if measure.startswith("weight") and self.stored is not None:
            return self.stored
        return self.grid.whole

    def reads(self, measure: str, level: int) -> bool:
        """Whether a tile is only read."""
        return measure == "weight" and level == self.stored

    def dear(self, measure: str, level: int) -> bool:
        """Whether a tile cost a pass over weights of a level that others are pooled from."""
        return (
            measure != "uniform"
            and level >= self.base(measure)
            and not (self.stored is not None and measure.startswith("weight"))
        )

    def planes(self, measure: str, place: Place, shop: Workshop) -> Triple | None:
        """mean, max and argmax of a tile ([height, width] each), None where all is masked.

        Raises:
            TraceError: the trace is damaged.
        """
        if place.width == 0 or place.height == 0 or not self.in_sight(place):
            return None
        found = self._find(measure, place, shop)
        return None if found is None or np.isnan(found[0]).all() else found

    def _find(self, measure: str, place: Place, shop: Workshop) -> Triple | None:
        base, plain = self.base(measure), measure.removesuffix(NO_SINK)
        if measure == "uniform" or place.level < base:
            return self._computed(measure, Region(place.level, place.rows, place.columns), shop)
        if place.level > base:
            return self._pooled(measure, place, shop)
        if measure != plain:
            return self._without_sink(measure, plain, place, shop)
        if self.reads(measure, place.level):
            return self._read(place)
        return self._computed(measure, Region(place.level, place.rows, place.columns), shop)

    def in_sight(self, place: Place) -> bool:
        """Whether an interval of a row reaches the tile: most of what is masked is known so."""
        rows, keys = place.span(self.grid)
        first, end = self.head.first[rows], self.head.end[rows]
        low, high = np.maximum(first, keys.start), np.minimum(end, keys.stop)
        return bool((high > low).any())

    def _computed(self, measure: str, region: Region, shop: Workshop) -> Triple:
        head = self.head
        options = {"arrived": measure.startswith("arrived"), "no_sink": measure.endswith(NO_SINK)}
        if region.level > 0:
            if measure == "uniform":
                return uniform.cells(head, region, shop)
            return strips.cells(head, region, shop, **options)
        queries, keys = region.span(head)
        if measure == "uniform":
            plane = uniform.window(head, queries, keys)
        else:
            plane = strips.weights(head, queries, keys, **options)
        return plane, plane, np.where(np.isnan(plane), -1, 0).astype(np.int32)

    def _read(self, place: Place) -> Triple:
        """A tile of the captured map."""
        arrays, cell = self.record.arrays, 1 << place.level
        planes = {
            name: arrays.read(name, self.head.head, place.rows)[:, place.columns]
            for name in ("map_mean", "map_max", "map_argmax")
        }
        check_map(planes, cell=cell, where=arrays.where)
        mean, most, argmax = planes.values()
        rows, keys = place.span(self.grid)
        for side, (size, name) in enumerate(((rows.stop % cell, "row"), (keys.stop % cell, "key"))):
            rim = argmax[-1] // cell if side == 0 else argmax[:, -1] % cell
            known = (argmax[-1] if side == 0 else argmax[:, -1]) >= 0
            if size and bool(np.any(known & (rim >= size))):
                raise TraceError(f"{arrays.where}: map_argmax: names a {name} that is not there.")
        return (
            mean.astype(np.float32, copy=False),
            most.astype(np.float32, copy=False),
            argmax.astype(np.int32, copy=False),
        )

    def _pooled(self, measure: str, place: Place, shop: Workshop) -> Triple | None:
        """A tile from four of the level below."""
        level = place.level - 1
        high, wide = self.grid.cells(level)
        rows = slice(2 * place.rows.start, min(2 * place.rows.stop, high))
        columns = slice(2 * place.columns.start, min(2 * place.columns.stop, wide))
        shape = rows.stop - rows.start, columns.stop - columns.start
        mean = np.full(shape, np.nan, np.float32)
        most, argmax = mean.copy(), np.full(shape, -1, np.int32)
        below = [
            (y, x)
            for y in range(2 * place.y, -(-rows.stop // TILE))
            for x in range(2 * place.x, -(-columns.stop // TILE))
        ]
        seen: list[tuple[int, int]] = []

        def fill(one: tuple[int, int]) -> None:
            y, x = one
            part = self._other(measure, level, x, y, shop)
            if part is None:
                return
            top, left = y * TILE - rows.start, x * TILE - columns.start
            at = slice(top, top + part[0].shape[0]), slice(left, left + part[0].shape[1])
            mean[at], most[at], argmax[at] = part
            seen.append(one)

        shop.share(below, fill)  # most of a first look at a head is to verify what is read
        if not seen:
            return None
        start = np.arange(rows.start, rows.stop) << level
        counts = np.minimum(start + (1 << level), self.grid.queries) - start
        return pooled((mean, most, argmax), counts, 1 << level)

    def _without_sink(
        self, measure: str, plain: str, place: Place, shop: Workshop
    ) -> Triple | None:
        """A tile whose cells without a left-out pair are those of the plain measure."""
        whole = self._other(plain, place.level, place.x, place.y, shop)
        if whole is None:
            return None
        mean, most, argmax = (plane.copy() for plane in whole)
        for rows, columns in self._touched(place):
            region = Region(place.level, rows, columns)
            at = (
                slice(rows.start - place.rows.start, rows.stop - place.rows.start),
                slice(columns.start - place.columns.start, columns.stop - place.columns.start),
            )
            mean[at], most[at], argmax[at] = self._computed(measure, region, shop)
        return mean, most, argmax

    def _touched(self, place: Place) -> list[tuple[slice, slice]]:
        """Rectangles of cells that hold a pair which `-no-sink` leaves out."""
        head, cell = self.head, 1 << place.level
        rows, keys = place.span(self.grid)
        low = np.maximum(head.first[rows], keys.start)
        high = np.minimum(np.minimum(head.after_sink[rows], head.end[rows]), keys.stop)
        bare = high <= low
        low = np.where(bare, keys.stop, low)
        high = np.where(bare, 0, high)
        edges = np.arange(0, rows.stop - rows.start, cell)
        left = np.minimum.reduceat(low, edges) // cell
        right = -(-np.maximum.reduceat(high, edges) // cell)
        found: list[tuple[slice, slice]] = []
        for y, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
            if b <= a:
                continue
            at = y + place.rows.start
            if found and found[-1][0].stop == at and found[-1][1] == slice(a, b):
                found[-1] = slice(found[-1][0].start, at + 1), slice(a, b)
            else:
                found.append((slice(at, at + 1), slice(a, b)))
        return found

    def _other(self, measure: str, level: int, x: int, y: int, shop: Workshop) -> Triple | None:
        if self._lookup is not None:
            return self._lookup(measure, level, x, y)
        return self.planes(measure, self.grid.place(level, x, y), shop)
