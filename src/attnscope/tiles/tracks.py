"""The tracks beside a map: one statistic along its queries or keys, with the map's own pyramid.

The idea: a track's cell of level n covers the same 2^n positions as the map's, so both zoom as one.

Formula
    mean, max over the positions of a cell; a query that sees nothing has no statistic and does not
    count; a cell of none but such is NaN

Not here: which statistics there are (about.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnscope.tiles.about import TRACKS, tracks_of
from attnscope.tiles.grid import TILE, Grid, bounded, record_of
from attnscope.trace import Trace


@dataclass(frozen=True)
class TrackTile:
    """256 cells of a track.

    Attributes:
        state: "values", or "missing" where the trace has no such map or statistic.
        name, index: which track; its place among `info`'s tracks, 0 where missing.
        mean, max: float32 [width]; None where missing.
    """

    state: str
    name: str
    index: int
    level: int
    x: int
    width: int
    mean: np.ndarray | None = None
    max: np.ndarray | None = None


def track(trace: Trace, layer: int, head: int, name: str, level: int, x: int) -> TrackTile:
    """A piece of a track.

    Args:
        name: one of TRACKS; "received" runs along keys, the others along queries.
        level, x: the piece: 256 cells of 2^level positions.

    Raises:
        ValueError: an unknown name, or a head, level or x that is out of range.
        TraceError: the trace is damaged.

    Cost: one pass over the statistic's part under the piece.
    """
    if not isinstance(name, str) or name not in TRACKS:
        raise ValueError(f"names: expected some of {', '.join(TRACKS)}, got {ascii(name)[:64]}")
    record, have = record_of(trace, layer), tracks_of(trace)
    if record is None or name not in have:
        place = bounded("level", level, 64), bounded("x", x, 1 << 31)
        return TrackTile("missing", name, 0, *place, width=0)
    head = bounded("head", head, record.info.query_heads)
    grid = Grid(record.queries, record.keys)
    level = bounded("level", level, grid.levels)
    length = record.keys if name == "received" else record.queries
    count = -(-length >> level)
    x = bounded("x", x, max(1, -(-count // TILE)))
    width, cell = min(TILE, count - x * TILE), 1 << level
    start = x * TILE * cell
    stop = min(start + width * cell, length)
    values = record.statistic(name)[head, start:stop].astype(np.float64)
    alive = np.ones(len(values), bool)
    if name != "received":
        alive = record.sight[start:stop] > 0
    edges = np.arange(0, len(values), cell)
    if not len(edges):
        empty = np.empty(0, np.float32)
        return TrackTile("values", name, have.index(name), level, x, width, empty, empty)
    number = np.add.reduceat(alive.astype(np.int64), edges)
    total = np.add.reduceat(np.where(alive, values, 0.0), edges)
    most = np.maximum.reduceat(np.where(alive, values, -np.inf), edges)
    mean = np.divide(total, number, out=np.full(len(edges), np.nan), where=number > 0)
    most[number == 0] = np.nan
    return TrackTile(
        "values", name, have.index(name), level, x, width,
        mean.astype(np.float32), most.astype(np.float32),
    )  # fmt: skip
