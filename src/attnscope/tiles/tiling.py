"""One tile of one head's map: its cells' mean, largest weight, and where that is.

The idea: a captured map gives its own level, and coarser ones by pooling it; finer ones are
computed from queries, keys and log-sum-exps for the window that is asked for. All three say the
same of the same cell.

Formula (a cell has 2^level queries and 2^level keys; fewer at the rim; w is the measure of a pair)
    mean = (sum over its queries and keys of w) / (number of its queries)
    max  = the largest w in sight;  argmax = (row in the cell) * 2^level + (key in the cell)
    a cell none of whose pairs is in sight is NaN, its argmax -1

Not here: which of the three it is (source.py), bytes (wire.py), what is kept (cache.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from attnscope.tiles import strips, uniform
from attnscope.tiles.grid import Grid, Place, bounded, head_of, measure_of, record_of
from attnscope.tiles.head import Head
from attnscope.tiles.pool import Triple
from attnscope.tiles.source import NO_SINK, Source
from attnscope.tiles.strips import Workshop
from attnscope.trace import LayerRecord, Trace

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
    asked = ask(trace, layer, head, measure, level, x, y)
    if isinstance(asked, Tile):
        return asked
    source = Source(Head(asked.record, asked.head, trace.header.sink_keys))
    return as_tile(asked.place, source.planes(asked.measure, asked.place, Workshop.alone()))


class Asked(NamedTuple):
    """A tile that there is: what was asked for, checked."""

    record: LayerRecord
    head: int
    measure: str
    place: Place


def ask(
    trace: Trace, layer: int, head: int, measure: str, level: int, x: int, y: int
) -> Asked | Tile:
    """Check what was asked for; the tile itself where it is missing."""
    measure = measure_of(measure)
    record = record_of(trace, layer)
    if record is None or (measure.startswith("arrived") and not record.has("value_norms")):
        limit = 1 << 31
        return Tile.missing(
            level=bounded("level", level, 64), x=bounded("x", x, limit), y=bounded("y", y, limit)
        )
    head = bounded("head", head, record.info.query_heads)
    return Asked(record, head, measure, Grid(record.queries, record.keys).place(level, x, y))


WINDOW: Final = 4 << 20
"""Pairs that one window may have; a whole long map is a mistake."""


def window(
    trace: Trace, layer: int, head: int, measure: str, rows: slice, keys: slice
) -> np.ndarray:
    """A window of the map with one value per pair, for tables and files.

    Args:
        measure: one of MEASURES.
        rows, keys: start and stop, within the T queries and the S keys.

    Returns:
        float32 [rows, keys], NaN out of sight.

    Raises:
        ValueError: no such map or measure, a range that is not there, or more than 4M pairs.
        TraceError: the trace is damaged.
    """
    measure = measure_of(measure)
    record, head = head_of(trace, layer, head)
    if measure.startswith("arrived") and not record.has("value_norms"):
        raise ValueError(f"measure: layer {layer} does not know how much arrived")
    queries = _within("rows", rows, record.queries)
    columns = _within("keys", keys, record.keys)
    count = (queries.stop - queries.start) * (columns.stop - columns.start)
    if count > WINDOW:
        raise ValueError(f"rows, keys: expected at most {WINDOW} pairs, got {count}")
    view = Head(record, head, trace.header.sink_keys)
    if measure == "uniform":
        return uniform.window(view, queries, columns)
    arrived, no_sink = measure.startswith("arrived"), measure.endswith(NO_SINK)
    return strips.weights(view, queries, columns, arrived=arrived, no_sink=no_sink)


def _within(name: str, part: slice, count: int) -> slice:
    start, stop = bounded(name, part.start, count + 1), bounded(name, part.stop, count + 1)
    if part.step not in (None, 1) or stop < start:
        raise ValueError(f"{name}: expected a start and a stop after it, got {start} and {stop}")
    return slice(start, stop)


def as_tile(place: Place, planes: Triple | None) -> Tile:
    """The answer from its planes, [height, width] each; None is masked."""
    at: dict[str, Any] = {name: getattr(place, name) for name in Place.__dataclass_fields__}
    if planes is None:
        return Tile("masked", **at)
    mean, most, argmax = (np.ascontiguousarray(plane) for plane in planes)
    if place.level == 0:
        return Tile("values", **at, mean=mean, max=mean)
    return Tile("values", **at, mean=mean, max=most, argmax=argmax)
