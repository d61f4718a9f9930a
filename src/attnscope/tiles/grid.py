"""The pyramid of one map: how many levels, how many tiles, and what a request may ask for.

The idea: level 0 has one cell per (query, key); a cell of level n is 2^n queries by 2^n keys. A
tile is 256 x 256 cells. Levels go up to the first that fits one tile, so the whole of any map is
one picture.

Shapes
    a tile [height, width] of cells; y counts tiles along the T queries, x along the S keys.

Not here: what is in a cell (tiling.py).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Final

from attnscope.trace import LayerRecord, Trace

TILE: Final = 256
"""Cells along a side of a tile."""

MEASURES: Final = ("weight", "arrived", "weight-no-sink", "arrived-no-sink", "uniform")
"""What a cell can be about."""

STORED_CELLS: Final = 1024
"""Cells along a side of the finest level that is kept whole; captures store one of that size."""

COARSEST: Final = 15
"""The last level: a place in a cell of 2^15 by 2^15 still fits an int32."""


@dataclass(frozen=True)
class Grid:
    """The cells of one map.

    Attributes:
        queries, keys: T and S.
    """

    queries: int
    keys: int

    @property
    def levels(self) -> int:
        """How many levels there are; the last fits one tile (of up to 8 million tokens).

        >>> [Grid(n, n).levels for n in (1, 256, 257, 8192, 32768)]
        [1, 1, 2, 6, 8]
        """
        cells = -(-max(self.queries, self.keys, 1) // TILE)
        return 1 + min((cells - 1).bit_length(), COARSEST)

    @property
    def whole(self) -> int:
        """The finest level of at most 1024 x 1024 cells: coarser ones are pooled from it.

        >>> [Grid(n, n).whole for n in (1, 1024, 1025, 32768)]
        [0, 0, 1, 5]
        """
        cells = -(-max(self.queries, self.keys, 1) // STORED_CELLS)
        return min((cells - 1).bit_length(), COARSEST)

    def cells(self, level: int) -> tuple[int, int]:
        """Rows and columns of cells of a level.

        >>> Grid(5, 9).cells(2)
        (2, 3)
        """
        return -(-self.queries >> level), -(-self.keys >> level)

    def tiles(self, level: int) -> tuple[int, int]:
        """Rows and columns of tiles of a level; at least one of each."""
        rows, columns = self.cells(level)
        return max(1, -(-rows // TILE)), max(1, -(-columns // TILE))

    def place(self, level: int, x: int, y: int) -> Place:
        """A tile of this map.

        Raises:
            ValueError: level, x or y is not in the pyramid; the message says the range.
        """
        level = bounded("level", level, self.levels)
        rows, columns = self.tiles(level)
        x, y = bounded("x", x, columns), bounded("y", y, rows)
        high, wide = self.cells(level)
        return Place(
            level, x, y, width=min(TILE, wide - x * TILE), height=min(TILE, high - y * TILE)
        )


@dataclass(frozen=True)
class Place:
    """One tile's place: which cells, and which queries and keys these are."""

    level: int
    x: int
    y: int
    width: int
    height: int

    @property
    def rows(self) -> slice:
        """The rows of cells, counted in this level."""
        return slice(self.y * TILE, self.y * TILE + self.height)

    @property
    def columns(self) -> slice:
        """The columns of cells, counted in this level."""
        return slice(self.x * TILE, self.x * TILE + self.width)

    def span(self, grid: Grid) -> tuple[slice, slice]:
        """The queries and the keys under the tile.

        >>> Grid(600, 600).place(1, 1, 1).span(Grid(600, 600))
        (slice(512, 600, None), slice(512, 600, None))
        """
        return (
            slice(self.rows.start << self.level, min(self.rows.stop << self.level, grid.queries)),
            slice(
                self.columns.start << self.level, min(self.columns.stop << self.level, grid.keys)
            ),
        )


def bounded(name: str, value: Any, count: int) -> int:
    """A whole number 0 <= value < count.

    Raises:
        TypeError: not a whole number.
        ValueError: out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        came = type(value).__name__
        raise TypeError(f"{name}: expected a whole number, got {came}") from None
    if not 0 <= number < count:
        came = str(number) if abs(number) < 1 << 63 else f"a number of {number.bit_length()} bits"
        there = f"from 0 to {count - 1}" if count else "and there is none"
        raise ValueError(f"{name}: expected a whole number {there}, got {came}")
    return number


def measure_of(value: Any) -> str:
    """One of MEASURES.

    Raises:
        ValueError: another; the message lists them.
    """
    if not isinstance(value, str) or value not in MEASURES:
        raise ValueError(f"measure: expected one of {', '.join(MEASURES)}, got {ascii(value)[:64]}")
    return value


def record_of(trace: Trace, layer: Any) -> LayerRecord | None:
    """The layer's arrays, or None where the trace has no map of that layer.

    Raises:
        TypeError: `layer` is not a whole number.
    """
    try:
        layer = operator.index(layer)
    except TypeError:
        came = type(layer).__name__
        raise TypeError(f"layer: expected a whole number, got {came}") from None
    if any(info.index == layer and info.has_map for info in trace.layers):
        return trace.layer(layer)
    return None


def head_of(trace: Trace, layer: Any, head: Any) -> tuple[LayerRecord, int]:
    """A layer that has a map, and one of its heads.

    Raises:
        ValueError: the layer is not in the trace or has no map, or it has no such head.
    """
    record = record_of(trace, layer)
    if record is None:
        trace.layer(layer)  # says why there is none
        raise ValueError(f"layer: {layer} has no map")
    return record, bounded("head", head, record.info.query_heads)
