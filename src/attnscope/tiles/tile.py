"""One tile of one head's map: its cells' mean, largest weight, and where that is.

The idea: a captured map gives its own level, and coarser ones by pooling it; finer ones are
computed from queries, keys and log-sum-exps for the window that is asked for. All three say the
same of the same cell.

Formula (a cell has 2^level queries and 2^level keys; fewer at the rim; w is the measure of a pair)
    mean = (sum over its queries and keys of w) / (number of its queries)
    max  = the largest w in sight;  argmax = (row in the cell) * 2^level + (key in the cell)
    a cell none of whose pairs is in sight is NaN, its argmax -1

Not here: bytes (wire.py), what stays in memory between requests (cache.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from attnscope.tiles.grid import Grid, Place, bounded, measure_of, record_of
from attnscope.trace import LayerRecord, Trace
from attnscope.trace.values import check_map

STATES: Final = ("values", "masked", "missing")


@dataclass(frozen=True)
class Tile:
    """One answer.

    Attributes:
        state: "values"; "masked" where every cell is out of sight; "missing" where the trace has no
            such map.
        level, x, y: which tile.
        width, height: its cells; 256 but at the rim, 0 where missing.
        mean, max: float32 [height, width]; None unless there are values. At level 0 one array.
        argmax: int32 [height, width]; None at level 0.
    """

    state: str
    level: int
    x: int
    y: int
    width: int
    height: int
    mean: np.ndarray | None = None
    max: np.ndarray | None = None
    argmax: np.ndarray | None = None

    @staticmethod
    def missing(*, level: int, x: int, y: int) -> Tile:
        """The answer where there is no map."""
        return Tile("missing", level, x, y, 0, 0)


def tile(trace: Trace, layer: int, head: int, measure: str, level: int, x: int, y: int) -> Tile:
    """One tile.

    Args:
        measure: one of MEASURES.
        level: 0 is one cell per pair; a cell of level n is 2^n by 2^n.
        x, y: the tile's column (keys) and row (queries) in the level.

    Raises:
        ValueError: an unknown measure, or a head, level, x or y that is out of range.
        TraceError: the trace is damaged.
    """
    measure = measure_of(measure)
    record = record_of(trace, layer)
    if record is None or (measure.startswith("arrived") and not record.has("value_norms")):
        limit = 1 << 31
        return Tile.missing(
            level=bounded("level", level, 64), x=bounded("x", x, limit), y=bounded("y", y, limit)
        )
    head = bounded("head", head, record.info.query_heads)
    grid = Grid(record.queries, record.keys)
    place = grid.place(level, x, y)
    if measure != "weight":
        raise NotImplementedError(measure)
    if _stored(record) == place.level:
        return _read(record, head, place)
    return _slow(record, head, place, grid)


def _stored(record: LayerRecord) -> int | None:
    if not record.has("map_cell"):
        return None
    return int(record.arrays.read("map_cell")[0]).bit_length() - 1


def _read(record: LayerRecord, head: int, place: Place) -> Tile:
    planes = {
        name: record.arrays.read(name, head, place.rows)[:, place.columns]
        for name in ("map_mean", "map_max", "map_argmax")
    }
    check_map(planes, cell=1 << place.level, where=record.arrays.where)
    return finished(place, *planes.values())


def _slow(record: LayerRecord, head: int, place: Place, grid: Grid) -> Tile:
    cell = 1 << place.level
    rows, keys = place.span(grid)
    first, end, _ = record.spans
    mean = np.full((place.height, place.width), np.nan, np.float32)
    most, where = mean.copy(), np.full(mean.shape, -1, np.int32)
    for n in range(place.height):
        r = slice(rows.start + n * cell, min(rows.start + (n + 1) * cell, rows.stop))
        w = record.window(head, r, keys)
        j = np.arange(keys.start, keys.stop)
        seen = (j >= first[r, None]) & (j < end[r, None])
        for c in range(place.width):
            block, see = w[:, c * cell : (c + 1) * cell], seen[:, c * cell : (c + 1) * cell]
            if see.any():
                at = np.unravel_index(np.where(see, block, -1).argmax(), block.shape)
                mean[n, c], most[n, c] = block.sum() / len(block), block[at]
                where[n, c] = at[0] * cell + at[1]
    return finished(place, mean, most, where)


def finished(place: Place, mean: np.ndarray, largest: np.ndarray, argmax: np.ndarray) -> Tile:
    """The answer from its planes."""
    at: dict[str, Any] = {name: getattr(place, name) for name in Place.__dataclass_fields__}
    if np.isnan(mean).all():
        return Tile("masked", **at)
    mean = np.ascontiguousarray(mean, np.float32)
    if place.level == 0:
        return Tile("values", **at, mean=mean, max=mean)
    largest = np.ascontiguousarray(largest, np.float32)
    return Tile("values", **at, mean=mean, max=largest, argmax=np.ascontiguousarray(argmax))
