"""Cells of the map from queries and keys: a strip of rows at a time, in the processor's cache.

The idea: a level-4 tile stands for 4096 x 4096 weights. They are made in blocks of 256 rows that
stay in the cache: the product, the largest of every column of a cell, exp, the sum of every column.
After that a column of a cell is one number, and all else costs 1/2^level of the product. The
largest pair of a cell is found through its columns: first the key whose column holds it, then the
row in that column. What no row of a strip may see is never computed.

Shapes
    a block [t, n] of log-weights is m cells high: [m, h, n]; its columns [m, n]; its cells [m, x].

Not here: which cells are wanted (tiling.py), log-weights themselves (head.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from attnscope.tiles.head import Head, Part

ROWS: Final = 256
COLUMNS: Final = 1024
"""A block of float32 log-weights is 1 MiB: it stays in the second-level cache."""

Job = TypeVar("Job")
Check = Callable[[], None]
"""Called between strips; what it raises ends the work."""


@dataclass(frozen=True)
class Region:
    """A rectangle of cells: rows and columns counted in cells of one level."""

    level: int
    rows: slice
    columns: slice

    def span(self, head: Head) -> tuple[slice, slice]:
        """The queries and keys under it."""
        n = self.level
        return (
            slice(self.rows.start << n, min(self.rows.stop << n, head.queries)),
            slice(self.columns.start << n, min(self.columns.stop << n, head.keys)),
        )


class Planes:
    """Sums, largest values and their places of a region, -1 where nothing is in sight."""

    def __init__(self, region: Region) -> None:
        shape = region.rows.stop - region.rows.start, region.columns.stop - region.columns.start
        self.total = np.zeros(shape, np.float64)
        self.most = np.full(shape, -1.0, np.float32)
        self.place = np.full(shape, -1, np.int32)

    def merge(
        self, at: tuple[slice, slice], total: np.ndarray, most: np.ndarray, place: np.ndarray
    ) -> None:
        """Add a part of the pairs of the cells `at`."""
        self.total[at] += total
        better = most > self.most[at]
        np.copyto(self.most[at], most, where=better)
        np.copyto(self.place[at], place, where=better, casting="same_kind")

    def finish(self, head: Head, region: Region) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """mean, max, argmax of the region, NaN and -1 where masked."""
        cell = 1 << region.level
        start = np.arange(region.rows.start, region.rows.stop) * cell
        count = np.minimum(start + cell, head.queries) - start
        hidden = self.place < 0
        mean = (self.total / count[:, None]).astype(np.float32)
        mean[hidden] = np.nan
        self.most[hidden] = np.nan
        return mean, self.most, self.place


class Scratch:
    """Buffers that outlive a block: fresh pages cost more than the arithmetic on them."""

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []
        self._lock = threading.Lock()

    @contextmanager
    def buffer(self) -> Iterator[np.ndarray]:
        """Bytes for one block of float64, for one thread at a time."""
        with self._lock:
            held = self._free.pop() if self._free else None
        if held is None:
            held = np.empty(8 * ROWS * COLUMNS, np.uint8)
        try:
            yield held
        finally:
            with self._lock:
                self._free.append(held)


@dataclass(frozen=True)
class Workshop:
    """Who works, and with what.

    Attributes:
        scratch: buffers, shared by all who work.
        helpers: other threads that may take strips; numpy and BLAS let them run at once.
        check: see Check.
    """

    scratch: Scratch
    helpers: Executor | None = None
    check: Check | None = None

    @staticmethod
    def alone() -> Workshop:
        """One thread with buffers of its own."""
        return Workshop(Scratch())

    def run(self, jobs: list[slice], work: Callable[[slice, np.ndarray], None]) -> None:
        """Do all jobs, each once and with a buffer; an error in one ends all."""

        def one(job: slice) -> None:
            with self.scratch.buffer() as buffer:
                work(job, buffer)

        self.share(jobs, one)

    def share(self, jobs: list[Job], work: Callable[[Job], None]) -> None:
        """Do all jobs, each once; an error in one ends all."""
        waiting, lock, failed = iter(jobs), threading.Lock(), threading.Event()

        def take(check: Check | None) -> None:
            while not failed.is_set():
                if check is not None:
                    check()
                with lock:
                    job = next(waiting, None)
                if job is None:
                    return
                try:
                    work(job)
                except BaseException:
                    failed.set()
                    raise

        other = None
        if self.helpers is not None and len(jobs) > 1:
            with suppress(RuntimeError):  # the helpers have been sent home; then one does it all
                other = self.helpers.submit(take, self.check)
        try:
            take(self.check)
        except BaseException:
            failed.set()
            if other is not None and not other.cancel():
                other.exception()  # wait: it still writes into what the caller holds
            raise
        if other is not None and not other.cancel():
            other.result()


def cells(
    head: Head, region: Region, shop: Workshop, *, arrived: bool = False, no_sink: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """mean, max and argmax of a region of level 1 or above.

    Args:
        arrived: weights times the norm of the projected value.
        no_sink: leave out the first keys of each row's document.

    Raises:
        TraceError: a weight is above one or no number.

    Cost: 2 D FLOPs and some three passes in the cache per pair in sight; memory of the region's
    planes, its keys where they are stored in 16 bits, and one buffer per thread.
    """
    planes, (queries, keys) = Planes(region), region.span(head)
    reach = _reach(head, queries, keys, no_sink=no_sink)
    if reach.stop > reach.start:
        strip = _Strip(head, region, planes, reach, head.k(reach), arrived, no_sink)
        shop.run(_jobs(queries, 1 << region.level), strip.work)
    return planes.finish(head, region)


def weights(
    head: Head, queries: slice, keys: slice, *, arrived: bool = False, no_sink: bool = False
) -> np.ndarray:
    """A window of the map, one value per pair, NaN out of sight; level 0.

    Cost: 2 t n D FLOPs, memory of the window.
    """
    part = head.part(queries, no_sink=no_sink)
    out = np.empty((queries.stop - queries.start, keys.stop - keys.start), head.dtype)
    reach = slice(max(keys.start, part.reach.start), min(keys.stop, part.reach.stop))
    if out.size == 0 or reach.stop <= reach.start:
        return np.full(out.shape, np.nan, np.float32)
    k = head.k(keys)
    head.log_weights(part, keys, k, out)
    head.check(out.max(), part, keys, k)
    hidden = np.isneginf(out)
    np.exp(out, out=out)
    if arrived:
        out *= head.norms[keys]
    out[hidden] = np.nan
    return out.astype(np.float32, copy=False)


def _reach(head: Head, queries: slice, keys: slice, *, no_sink: bool) -> slice:
    """The keys of a window between the first and the last in sight of any of its rows."""
    first, end = (head.after_sink if no_sink else head.first)[queries], head.end[queries]
    alive = end > first
    if not alive.any():
        return slice(0, 0)
    return slice(max(keys.start, int(first[alive].min())), min(keys.stop, int(end[alive].max())))


def _jobs(queries: slice, cell: int) -> list[slice]:
    """Rows that are worked on together: whole rows of cells, so that no two jobs share a cell."""
    height = max(ROWS, cell)
    starts = range(queries.start, queries.stop, height)
    return [slice(at, min(at + height, queries.stop)) for at in starts]


@dataclass(frozen=True)
class _Strip:
    """What all strips of one region share."""

    head: Head
    region: Region
    planes: Planes
    reach: slice
    k: np.ndarray
    arrived: bool
    no_sink: bool

    def work(self, job: slice, buffer: np.ndarray) -> None:
        """All cells of some rows of cells."""
        cell = 1 << self.region.level
        at = job.start
        while at < job.stop:
            # whole cells, or a part of one: the rim, or a cell of more rows than a block
            height = min(ROWS, job.stop - at)
            if height > cell:
                height -= height % cell
            self._rows(slice(at, at + height), buffer)
            at += height

    def _rows(self, rows: slice, buffer: np.ndarray) -> None:
        cell = 1 << self.region.level
        part = self.head.part(rows, no_sink=self.no_sink)
        lo = max(part.reach.start, self.reach.start)
        hi = min(part.reach.stop, self.reach.stop)
        at = lo
        while at < hi:
            # blocks end where cells end, or lie within one cell
            step = min(cell, COLUMNS)
            stop = min(hi, at // step * step + COLUMNS)
            self._block(part, slice(at, stop), buffer)
            at = stop

    def _block(self, part: Part, keys: slice, buffer: np.ndarray) -> None:
        head, cell = self.head, 1 << self.region.level
        t, n = len(part.rows), keys.stop - keys.start
        out = np.ndarray((t, n), head.dtype, buffer)
        k = self.k[keys.start - self.reach.start : keys.stop - self.reach.start]
        head.log_weights(part, keys, k, out)
        m = max(1, t // cell)
        block = out.reshape(m, t // m, n)
        with np.errstate(invalid="ignore"):
            column = np.maximum.reduce(block, axis=1)
        head.check(column.max(), part, keys, k)
        norms = head.norms[keys] if self.arrived else None
        if norms is not None:
            column = _visible_exp(column, norms)
        low = keys.start % cell  # keys of the first cell that lie before the block
        value, key = _largest(column, low, cell)
        row = _row_of(block, key, low, cell)
        if norms is None:
            value = _visible_exp(value, None)
        np.exp(out, out=out)
        sums = np.add.reduce(block, axis=1)
        if norms is not None:
            sums *= norms
        total = _by_cell(sums, low, cell, 0.0).sum(axis=2, dtype=np.float64)
        row += int(part.rows[0]) % cell
        y = int(part.rows[0]) // cell - self.region.rows.start
        x = keys.start // cell - self.region.columns.start
        at = slice(y, y + m), slice(x, x + total.shape[1])
        self.planes.merge(at, total, value, row * cell + key)


def _visible_exp(logs: np.ndarray, norms: np.ndarray | None) -> np.ndarray:
    """exp of log-weights, times the norms of their keys; -1 out of sight."""
    hidden = np.isneginf(logs)
    raised = np.exp(logs)
    if norms is not None:
        raised *= norms
    raised[hidden] = -1.0
    return raised


def _by_cell(columns: np.ndarray, low: int, cell: int, fill: float) -> np.ndarray:
    """[m, n] columns as [m, x, cell], filled where a cell sticks out of the block."""
    m, n = columns.shape
    count = -(-(low + n) // cell)
    if count * cell == n:
        return columns.reshape(m, count, cell)
    padded = np.full((m, count * cell), fill, columns.dtype)
    padded[:, low : low + n] = columns
    return padded.reshape(m, count, cell)


def _largest(columns: np.ndarray, low: int, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each cell, the largest of its columns and the key in the cell, [m, x]."""
    apart = _by_cell(columns, low, cell, -np.inf)
    key = apart.argmax(axis=2)
    return np.take_along_axis(apart, key[..., None], axis=2)[..., 0], key


def _row_of(block: np.ndarray, key: np.ndarray, low: int, cell: int) -> np.ndarray:
    """The row, counted in the block's part of the cell, where a cell's best column is largest."""
    m, h, n = block.shape
    column = np.clip(key + np.arange(key.shape[1]) * cell - low, 0, n - 1)
    index = column[:, None, :] + (np.arange(m * h) * n).reshape(m, h, 1)
    return block.reshape(-1).take(index).argmax(axis=1)
