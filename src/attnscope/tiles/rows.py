"""Whole rows and columns of the map, the flow into a token, and one cell with all its digits.

The idea: a row is computed over all keys it sees, one block of keys after another, and then its sum
is known: it must be one less the learned sink's share, or the trace is wrong. Several rows are
joined as they pass by, so that a thousand selected tokens need the memory of one row.

Formula
    how = "mean" | "sum" over the chosen queries (row, flow) or keys (column)
    arrived_j = how of w_ij times |W_O v_j|

Not here: tiles and windows (tiling.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from attnscope.errors import TraceError
from attnscope.tiles.grid import bounded, head_of
from attnscope.tiles.head import NOTHING, Head, Part
from attnscope.trace import Trace

HOW: Final = ("mean", "sum")
KEYS: Final = 4096
ROWS: Final = 128
"""Keys and rows of one block: 2 MiB of float32."""
QUICK: Final = 1e-5
"""A row this near to one is right, whatever rounding would allow."""

Check = Callable[[], None]


@dataclass(frozen=True)
class Row:
    """One row of a map, or the mean or sum of several.

    Attributes:
        weights: float32 [S], 0 out of sight.
        arrived: float32 [S]: weight times the norm of the projected value; None where unknown.
        sink: the share of a learned sink logit; 0 where there is none.
    """

    weights: np.ndarray
    arrived: np.ndarray | None
    sink: float


@dataclass(frozen=True)
class Flow:
    """What flows into some tokens, layer by layer.

    Attributes:
        layers: the layers' numbers, int32 [L].
        weights: float32 [L, S]: the mean over a layer's heads.
        arrived: float32 [L, S]: the sum over a layer's heads; NaN in a layer where it is unknown,
            None where it is unknown in all.
    """

    layers: np.ndarray
    weights: np.ndarray
    arrived: np.ndarray | None


@dataclass(frozen=True)
class Cell:
    """One pair.

    Attributes:
        weight: in float64; 0 out of sight.
        arrived: weight times the norm of the projected value; None where unknown.
        score: scaled, soft-capped and biased, as it enters the softmax; None out of sight.
        visible: whether the query sees the key.
    """

    weight: float
    arrived: float | None
    score: float | None
    visible: bool


def row(
    trace: Trace, layer: int, head: int, queries: Iterable[int], how: str = "mean", *,
    check: Check | None = None,
) -> Row:  # fmt: skip
    """The weights of some queries on all keys.

    Args:
        queries: one or several, each 0 <= query < T.
        how: "mean" or "sum" of several.
        check: called between blocks; what it raises ends the work.

    Raises:
        ValueError: a layer, head or query that is not there, or another `how`.
        TraceError: the rows do not sum to what the log-sum-exp says.

    Cost: 2 t n D FLOPs for n keys in sight; memory of a few MiB beyond the answer.
    """
    record, head = head_of(trace, layer, head)
    rows, share = chosen("queries", queries, record.queries, how)
    view = Head(record, head, trace.header.sink_keys)
    total, sink = summed(view, rows, check)
    weights = total * share
    arrived = weights * view.norms if record.has("value_norms") else None
    return Row(
        weights.astype(np.float32),
        None if arrived is None else arrived.astype(np.float32),
        sink * share,
    )


def column(
    trace: Trace, layer: int, head: int, keys: Iterable[int], how: str = "mean", *,
    check: Check | None = None,
) -> np.ndarray:  # fmt: skip
    """Who looks at some keys, float32 [T].

    Args:
        keys: one or several, each 0 <= key < S.
        how: "mean" or "sum" of several.
        check: as in `row`.

    Raises:
        ValueError: a layer, head or key that is not there, or another `how`.
        TraceError: a weight is above one or no number.

    Cost: 2 T n D FLOPs; reads all queries that may see a key.
    """
    record, head = head_of(trace, layer, head)
    wanted, share = chosen("keys", keys, record.keys, how)
    view = Head(record, head, trace.header.sink_keys)
    total = np.zeros(record.queries)
    for run in runs(wanted):
        for at in range(run.start, run.stop, KEYS):
            total += _looks(view, slice(at, min(at + KEYS, run.stop)), check)
    return (total * share).astype(np.float32)


def _looks(view: Head, keys: slice, check: Check | None) -> np.ndarray:
    """The sum over some keys of the weights of every query, float64 [T]."""
    total = np.zeros(view.queries)
    k = view.k(keys)
    height = max(1, ROWS * KEYS // (keys.stop - keys.start))
    for at in range(0, view.queries, height):
        if check is not None:
            check()
        rows = slice(at, min(at + height, view.queries))
        if not bool(((view.first[rows] < keys.stop) & (view.end[rows] > keys.start)).any()):
            continue
        part = view.part(rows)
        out = np.empty((rows.stop - rows.start, keys.stop - keys.start), view.dtype)
        view.log_weights(part, keys, k, out)
        view.check(out.max(), part, keys, k)
        total[rows] = np.exp(out, out=out).sum(axis=1, dtype=np.float64)
    return total


def flow(
    trace: Trace, queries: Iterable[int], how: str = "mean", *, check: Check | None = None
) -> Flow:
    """What flows into some tokens in every layer that has a map of the text.

    Args:
        queries: one or several, each 0 <= query < T.
        how: "mean" or "sum" of several.
        check: as in `row`.

    Returns:
        The layers whose queries and keys are those of the first layer with a map that is no
        cross-attention; others have other rows.

    Raises:
        ValueError: no such layer, a query that is not there, or another `how`.
        TraceError: the rows do not sum to what the log-sum-exp says.

    Cost: as a row of every head of every layer.
    """
    records = [trace.layer(i.index) for i in trace.layers if i.has_map and not i.cross]
    if not records:
        raise ValueError("flow: this trace has no layer with a map of its own text")
    size = records[0].queries, records[0].keys
    records = [record for record in records if (record.queries, record.keys) == size]
    rows, share = chosen("queries", queries, size[0], how)
    weights = np.zeros((len(records), size[1]), np.float32)
    arrived = np.full_like(weights, np.nan)
    for place, record in enumerate(records):
        both = np.zeros((2, size[1]))
        for head in range(record.info.query_heads):
            view = Head(record, head, trace.header.sink_keys)
            total, _ = summed(view, rows, check)
            both[0] += total
            if record.has("value_norms"):
                both[1] += total * view.norms
        weights[place] = both[0] * (share / record.info.query_heads)
        if record.has("value_norms"):
            arrived[place] = both[1] * share
    known = any(record.has("value_norms") for record in records)
    layers = np.array([record.info.index for record in records], np.int32)
    return Flow(layers, weights, arrived if known else None)


def cell(trace: Trace, layer: int, head: int, query: int, key: int) -> Cell:
    """One pair, in float64.

    Raises:
        ValueError: a layer, head, query or key that is not there.
        TraceError: the weight is above one or no number.
    """
    record, head = head_of(trace, layer, head)
    query, key = bounded("query", query, record.queries), bounded("key", key, record.keys)
    view = Head(record, head, trace.header.sink_keys)
    norm = float(view.norms[key]) if record.has("value_norms") else None
    keys = slice(key, key + 1)
    part, k = view.part(slice(query, query + 1), dtype=np.float64), view.k(keys, np.float64)
    log = view.log_weights(part, keys, k, np.empty((1, 1)))
    if np.isneginf(log[0, 0]):
        return Cell(0.0, None if norm is None else 0.0, None, False)
    view.check(log[0, 0], part, keys, k)
    weight = float(np.exp(log[0, 0]))
    score = float(log[0, 0] + part.logsumexp[0])
    return Cell(weight, None if norm is None else weight * norm, score, True)


def chosen(name: str, numbers: Iterable[int], count: int, how: str) -> tuple[np.ndarray, float]:
    """The numbers asked for, rising and each once, and what a sum over them is multiplied by.

    Raises:
        ValueError: none, one out of range, or another `how`; TypeError: no whole number.
    """
    if how not in HOW:
        raise ValueError(f"how: expected mean or sum, got {ascii(how)[:64]}")
    wanted = sorted({bounded(name, number, count) for number in numbers})
    if not wanted:
        raise ValueError(f"{name}: expected at least one, got none")
    return np.array(wanted, np.int64), 1.0 / len(wanted) if how == "mean" else 1.0


def runs(numbers: np.ndarray) -> list[slice]:
    """Rising numbers as stretches without a gap.

    >>> runs(np.array([3, 5, 6, 7]))
    [slice(3, 4, None), slice(5, 8, None)]
    """
    edges = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
    return [slice(int(numbers[a]), int(numbers[b - 1]) + 1) for a, b in pairwise(edges)]


def summed(view: Head, rows: np.ndarray, check: Check | None = None) -> tuple[np.ndarray, float]:
    """The sum over some rows of their weights, float64 [S], and of the learned sink's shares."""
    total, sink = np.zeros(view.keys), 0.0
    for parts in _batches(rows):
        part = view.part(parts)
        mass = np.zeros(len(part.rows))
        for keys, block in blocks(view, part, check):
            total[keys] += block.sum(axis=0, dtype=np.float64)
            mass += block.sum(axis=1, dtype=np.float64)
        sink += float(shares(view, part, mass).sum())
    return total, sink


def _batches(rows: np.ndarray) -> list[slice | np.ndarray]:
    """Rows in the pieces that are computed together: stretches, or scattered ones."""
    found: list[slice | np.ndarray] = []
    scattered: list[int] = []
    for run in runs(rows):
        if run.stop - run.start == 1:
            scattered.append(run.start)
            continue
        for at in range(run.start, run.stop, ROWS):
            found.append(slice(at, min(at + ROWS, run.stop)))
    for place in range(0, len(scattered), ROWS):
        found.append(np.array(scattered[place : place + ROWS], np.int64))
    return found


def blocks(
    view: Head, part: Part, check: Check | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """The weights of whole rows, one block of keys after another; each is gone with the next."""
    buffer = np.empty(len(part.rows) * KEYS, view.dtype)
    for at in range(part.reach.start, part.reach.stop, KEYS):
        if check is not None:
            check()
        keys = slice(at, min(at + KEYS, part.reach.stop))
        width = keys.stop - keys.start
        out = buffer[: len(part.rows) * width].reshape(len(part.rows), width)
        k = view.k(keys)
        view.log_weights(part, keys, k, out)
        view.check(out.max(), part, keys, k)
        yield keys, np.exp(out, out=out)


def shares(view: Head, part: Part, mass: np.ndarray) -> np.ndarray:
    """The learned sink's share of each row, float64 [t].

    Args:
        mass: what each row's weights sum to.

    Raises:
        TraceError: weights and share do not make one. The room for rounding is that of
            trace.weights.wrong_rows.
    """
    lse = part.logsumexp.astype(np.float64)
    with np.errstate(over="ignore"):
        share = np.exp(view.sink - lse)
    blank = (lse <= NOTHING) & (mass == 0)
    wrong = ~(np.abs(mass + share - 1) <= QUICK) & ~blank
    if wrong.any():
        wrong &= ~(np.abs(mass + share - 1) <= _room(view, part, lse))
    if wrong.any():
        row = int(part.rows[int(np.argmax(wrong))])
        raise TraceError(
            f"{view.where}: the weights of query {row} do not sum to what its log-sum-exp says; "
            "the trace is damaged or was not captured exactly."
        )
    return np.where(blank, 0.0, share)


def _room(view: Head, part: Part, lse: np.ndarray) -> np.ndarray:
    """How far from one the rounding of float32 products may take a row."""
    unit = float(np.finfo(np.float32).eps) / 2
    widest = 0.0
    for at in range(part.reach.start, part.reach.stop, KEYS):
        k = view.k(slice(at, min(at + KEYS, part.reach.stop)))
        widest = max(widest, float(np.einsum("nd,nd->n", k, k).max(initial=0.0)) ** 0.5)
    width, count = part.q.shape[1], part.reach.stop - part.reach.start
    size = np.linalg.norm(part.q.astype(np.float64), axis=1) * widest
    size *= view.record.info.softcap or 1.0
    room = 2 * unit * ((width + 4) * size + 4 * np.abs(lse) + count + 16)
    return np.minimum(room, 0.5)
