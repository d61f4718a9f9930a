"""Heads that look at the same keys, and what a head gives on average at a distance.

The idea: two heads are alike as far as their weights overlap: the share of a row's weight that both
put on the same keys, exactly computed for rows spread over the text. And a head's weight falls with
distance; what it gives on average at each distance is what a pair is compared with.

Formula
    similarity = mean over 64 rows of sum_j min(p_ij, p'_ij), learned sinks' shares included
    density(d) = (sum of the weights of all pairs in sight whose |i - j| lies in the bin) / (number
        of such pairs)

Not here: kinds of heads (trace.kinds).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from attnscope.tiles.grid import Grid, bounded, head_of
from attnscope.tiles.head import Head
from attnscope.tiles.rows import Check, blocks, shares
from attnscope.tiles.strips import Workshop
from attnscope.trace import LayerRecord, Trace

SAMPLED: Final = 64
HEIGHT: Final = 128
WIDTH: Final = 1024


@dataclass(frozen=True)
class Alike:
    """A head and how much of its weight lies where another's does."""

    layer: int
    head: int
    similarity: float


@dataclass(frozen=True)
class Expected:
    """The mean weight of a pair by distance.

    Attributes:
        cell: positions per bin.
        density: float32; entry d for distances from d * cell to (d + 1) * cell - 1; NaN where no
            pair of that distance is in sight.
    """

    cell: int
    density: np.ndarray


def similar(
    trace: Trace, layer: int, head: int, count: int, *, check: Check | None = None
) -> list[Alike]:
    """The heads that look at the same keys, the most alike first, without the head itself.

    Args:
        count: how many at most, from 1.
        check: called between pieces of work; what it raises ends it.

    Returns:
        Heads of layers whose rows and keys are the same as this layer's.

    Raises:
        ValueError: a layer or head that is not there, or a count below 1.
        TraceError: the trace is damaged.

    Cost: 64 rows of every head: 128 S D FLOPs each; memory of those rows.
    """
    record, head = head_of(trace, layer, head)
    count = check_count(count)
    rows = _spread(record.queries)
    own = Head(record, head, trace.header.sink_keys)
    mine, sinks = _rows(own, rows, check)
    found = []
    for entry in trace.layers:
        other = trace.layer(entry.index) if entry.has_map else None
        if other is None or not _same_rows(record, other):
            continue
        for number in range(entry.query_heads):
            if (entry.index, number) == (record.info.index, head):
                continue
            view = Head(other, number, trace.header.sink_keys)
            overlap = _overlap(view, rows, mine, sinks, check)
            found.append(Alike(entry.index, number, overlap))
    found.sort(key=lambda one: (-one.similarity, one.layer, one.head))
    return found[:count]


def expected(trace: Trace, layer: int, head: int, *, shop: Workshop | None = None) -> Expected:
    """What the head gives a pair on average, by the distance between query and key.

    Raises:
        ValueError: a layer or head that is not there, or cross-attention, which has no distances.
        TraceError: the trace is damaged.

    Cost: every weight of the head once, 2 D FLOPs each; memory of a few MiB.
    """
    record, head = head_of(trace, layer, head)
    if record.info.cross:
        raise ValueError(f"layer: {layer} is cross-attention: queries and keys have no distance")
    view = Head(record, head, trace.header.sink_keys)
    grid = Grid(record.queries, record.keys)
    cell = 1 << grid.whole
    sums, pairs = distances(view, shop or Workshop.alone())
    edges = np.arange(0, len(sums), cell)
    if not len(edges):
        return Expected(cell, np.empty(0, np.float32))
    total, number = np.add.reduceat(sums, edges), np.add.reduceat(pairs, edges)
    density = np.divide(total, number, out=np.full(len(edges), np.nan), where=number > 0)
    return Expected(cell, density.astype(np.float32))


def check_count(count: int) -> int:
    """How many heads are wanted: at least one."""
    count = bounded("count", count, 1 << 31)
    if count < 1:
        raise ValueError(f"count: expected at least 1, got {count}")
    return count


def distances(view: Head, shop: Workshop) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the weights at each distance |i - j|, and how many pairs in sight it has.

    A block of weights stands in a buffer whose rows are t + 1 elements further apart than they are
    long; read with a stride of one more, its diagonals are columns, and are added as such.
    """
    length = max(view.queries, view.keys)
    sums, pairs = np.zeros((2, 2 * length + 1))  # entry length + d for the signed distance d
    lock = threading.Lock()
    plain = not view.narrowed and not view.biased

    def work(rows: slice, buffer: np.ndarray) -> None:
        part = view.part(rows)
        position = view.keys - view.queries + rows.start
        for at in range(part.reach.start, part.reach.stop, WIDTH):
            keys = slice(at, min(at + WIDTH, part.reach.stop))
            flat = buffer.view(view.dtype)
            out, diagonals = _skewed(flat, len(part.rows), keys.stop - keys.start)
            k = view.k(keys)
            view.log_weights(part, keys, k, out)
            view.check(out.max(), part, keys, k)
            seen = None if plain else (out > -np.inf)
            np.exp(out, out=out)
            found = np.add.reduce(diagonals, axis=0)[::-1]
            low = length + position - (keys.stop - 1)
            with lock:
                sums[low : low + len(found)] += found
            if seen is not None:
                out[:] = seen
                found = np.add.reduce(diagonals, axis=0)[::-1]
                with lock:
                    pairs[low : low + len(found)] += found

    starts = range(0, view.queries, HEIGHT)
    shop.run([slice(at, min(at + HEIGHT, view.queries)) for at in starts], work)
    if plain:
        pairs = _pairs(view, length)
    return _folded(sums, length), _folded(pairs, length)


def _skewed(flat: np.ndarray, t: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A block [t, n], and its diagonals j - r = e - (t - 1) as the columns e of [t, n + t - 1]."""
    apart, step = n + t, flat.strides[0]
    used = flat[: t + t * apart]
    used[:] = 0
    block = used[t:].reshape(t, apart)[:, :n]
    shape, strides = (t, n + t - 1), ((apart + 1) * step, step)
    return block, as_strided(used[1:], shape, strides, writeable=False)


def _pairs(view: Head, length: int) -> np.ndarray:
    """Pairs in sight at each signed distance, where sight is an interval."""
    position = view.keys - view.queries + np.arange(view.queries)
    alive = view.end > view.first
    count = np.zeros(2 * length + 2)
    np.add.at(count, length + position[alive] - view.end[alive] + 1, 1)
    np.add.at(count, length + position[alive] - view.first[alive] + 1, -1)
    return np.cumsum(count)[:-1]


def _folded(signed: np.ndarray, length: int) -> np.ndarray:
    """Both signs of a distance together, [length]."""
    both = signed[length : 2 * length].copy()
    both[1:] += signed[length - 1 : 0 : -1]
    return both


def _spread(count: int) -> np.ndarray:
    """Up to 64 rows, evenly spread, the last one among them."""
    if not count:
        return np.empty(0, np.int64)
    wanted = min(SAMPLED, count)
    return (np.arange(1, wanted + 1) * count) // wanted - 1


def _same_rows(one: LayerRecord, other: LayerRecord) -> bool:
    return (one.queries, one.keys, one.info.cross) == (
        other.queries, other.keys, other.info.cross,
    )  # fmt: skip


def _rows(view: Head, rows: np.ndarray, check: Check | None) -> tuple[np.ndarray, np.ndarray]:
    """Whole rows of weights [t, S], and the sinks' shares [t]."""
    part = view.part(rows)
    weights = np.zeros((len(rows), view.keys), view.dtype)
    for keys, block in blocks(view, part, check):
        weights[:, keys] = block
    return weights, shares(view, part, weights.sum(axis=1, dtype=np.float64))


def _overlap(
    view: Head, rows: np.ndarray, mine: np.ndarray, sinks: np.ndarray, check: Check | None
) -> float:
    """The mean over rows of what both put on the same keys (and on their sinks)."""
    part = view.part(rows)
    shared, mass = np.zeros(len(rows)), np.zeros(len(rows))
    for keys, block in blocks(view, part, check):
        mass += block.sum(axis=1, dtype=np.float64)
        np.minimum(block, mine[:, keys], out=block)
        shared += block.sum(axis=1, dtype=np.float64)
    shared += np.minimum(sinks, shares(view, part, mass))
    alive = view.sight[rows] > 0
    return float(shared[alive].mean()) if alive.any() else 0.0
