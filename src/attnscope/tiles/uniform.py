"""What a head would give that spreads evenly: the measure `uniform`, counted and not computed.

The idea: a row that sees n keys gives 1/n to each, so a cell's mean is a count of pairs. Where
sight is an interval, the count per row and cell is the overlap of two intervals; and cells that all
rows of a strip see whole, nearly all of a long causal map, are one number for the strip.

Formula
    w_ij = 1 / (keys in sight of row i)

Not here: masks that are no interval (they are unpacked and counted pair by pair, here too).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from attnscope.tiles.head import Head
from attnscope.tiles.strips import Planes, Region, Workshop

_ELEMENTS: Final = 1 << 16
"""Rows times cells that are looked at together."""
_PAIRS: Final = 1 << 20


def window(head: Head, queries: slice, keys: slice) -> np.ndarray:
    """Level 0: 1/n for each pair in sight, NaN elsewhere, float32 [t, n]."""
    even = _even(head)[queries].astype(np.float32)
    return np.where(head.visible(queries, keys), even[:, None], np.float32(np.nan))


def cells(head: Head, region: Region, shop: Workshop) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """mean, max and argmax of a region of level 1 or above.

    Cost: some eight passes over the region's rows times its cells, less where sight has no edge;
    with a mask over its pairs.
    """
    planes, cell = Planes(region), 1 << region.level
    queries, _ = region.span(head)
    even = _even(head)
    if head.narrowed or head.biased:
        step = cell * max(1, _PAIRS // max(cell * head.keys, 1))
        work = _by_pair
    else:
        width = max(region.columns.stop - region.columns.start, 1)
        step = cell * max(1, _ELEMENTS // (cell * width))
        work = _by_overlap

    def job(rows: slice, _: np.ndarray) -> None:
        full = (rows.stop - rows.start) // cell * cell
        for part in (slice(rows.start, rows.start + full), slice(rows.start + full, rows.stop)):
            if part.stop > part.start:
                work(head, region, planes, part, even)

    starts = range(queries.start, queries.stop, step)
    shop.run([slice(at, min(at + step, queries.stop)) for at in starts], job)
    return planes.finish(head, region)


def _even(head: Head) -> np.ndarray:
    """1/n of each row, 0 for a row that sees nothing; float64 [T]."""
    sight = head.sight
    return np.divide(1.0, sight, out=np.zeros(len(sight)), where=sight > 0)


def _by_overlap(head: Head, region: Region, planes: Planes, rows: slice, even: np.ndarray) -> None:
    """Some whole rows of cells, or one that the rim cuts, where sight is an interval."""
    cell = 1 << region.level
    m = max(1, (rows.stop - rows.start) // cell)
    first, end, share = head.first[rows], head.end[rows], even[rows]
    alive = share > 0
    if not alive.any():
        return
    left = np.arange(region.columns.start, region.columns.stop) * cell
    right = np.minimum(left + cell, head.keys)
    y = rows.start // cell - region.rows.start
    whole = (left >= first[alive].max()) & (right <= end[alive].min())
    edge = np.flatnonzero(~whole & (right > first[alive].min()) & (left < end[alive].max()))
    if whole.any():
        shares = share.reshape(m, -1)
        row = shares.argmax(axis=1)[:, None]
        at = slice(y, y + m), slice(int(np.argmax(whole)), int(np.argmax(whole) + whole.sum()))
        wide = (right - left)[whole]
        total = shares.sum(axis=1)[:, None] * wide
        most = np.broadcast_to(shares.max(axis=1)[:, None], total.shape)
        planes.merge(at, total, most.astype(np.float32), np.broadcast_to(row * cell, total.shape))
    if not len(edge):
        return
    low = np.maximum(left[edge], first[:, None])
    count = np.minimum(right[edge], end[:, None]) - low
    np.maximum(count, 0, out=count)
    shape = m, -1, len(edge)
    total = (count * share[:, None]).reshape(shape).sum(axis=1)
    seen = np.where(count > 0, share[:, None], -1.0).reshape(shape)
    row = seen.argmax(axis=1)
    most = np.take_along_axis(seen, row[:, None], axis=1)[:, 0]
    key = np.take_along_axis((low - left[edge]).reshape(shape), row[:, None], axis=1)[:, 0]
    for a, b in _runs(edge):
        at = slice(y, y + m), slice(int(edge[a]), int(edge[b - 1]) + 1)
        planes.merge(at, total[:, a:b], most[:, a:b].astype(np.float32), (row * cell + key)[:, a:b])


def _by_pair(head: Head, region: Region, planes: Planes, rows: slice, even: np.ndarray) -> None:
    """The same where a mask or a bias hides single pairs."""
    cell = 1 << region.level
    _, keys = region.span(head)
    m = max(1, (rows.stop - rows.start) // cell)
    seen = head.visible(rows, keys)
    rim = -seen.shape[1] % cell
    apart = np.pad(seen, ((0, 0), (0, rim))).reshape(m, -1, (seen.shape[1] + rim) // cell, cell)
    share = even[rows].reshape(m, -1, 1)
    count = apart.sum(axis=3)
    value = np.where(count > 0, share, -1.0)
    row = value.argmax(axis=1)
    most = np.take_along_axis(value, row[:, None], axis=1)[:, 0]
    key = np.take_along_axis(apart.argmax(axis=3), row[:, None], axis=1)[:, 0]
    y = rows.start // cell - region.rows.start
    at = slice(y, y + m), slice(0, count.shape[2])
    planes.merge(at, (count * share).sum(axis=1), most.astype(np.float32), row * cell + key)


def _runs(numbers: np.ndarray) -> list[tuple[int, int]]:
    """Where rising numbers follow each other without a gap: places from, to."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    edges = [0, *breaks.tolist(), len(numbers)]
    return [(a, b) for a, b in pairwise(edges) if b > a]
