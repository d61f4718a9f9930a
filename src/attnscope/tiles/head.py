"""One head of one layer, ready to be computed with: log-weights of any rows and keys.

The idea: everything a number of the app needs is exp(s - lse) for some rows and some keys. This
module brings q and k to the dtype that is computed in, knows which pairs are in sight, and writes
s - lse into a buffer that the caller keeps; -inf is out of sight. Whoever reads the result has the
largest of them in hand anyway, and asks `check` whether that can be.

Formula
    s_ij = softcap(scale * q_i . k_j) + b_ij        log w_ij = s_ij - lse_i

Shapes
    q [t, D], k [n, D], a block of log-weights [t, n].

Dtypes
    float32; float64 for a capture in float64 and where it is asked for (single cells).

Not here: what is done with the weights (strips.py, rows.py); the sums of whole rows (rows.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from attnscope.errors import TraceError
from attnscope.trace import LayerRecord
from attnscope.trace.values import ROUNDING, check, widen

NOTHING: Final = -1e30
"""The log-sum-exp of a row that sees nothing; -inf would make a NaN of what is out of sight."""
_BAND: Final = 1 << 20
"""Pairs whose visibility is looked at together."""


@dataclass(frozen=True)
class Part:
    """Some rows of a head.

    Attributes:
        rows: which, int64 [t].
        q: their queries, the scale multiplied in.
        logsumexp: [t], in the dtype of q.
        first, end: keys in sight, int64 [t].
    """

    rows: np.ndarray
    q: np.ndarray
    logsumexp: np.ndarray
    first: np.ndarray
    end: np.ndarray

    @cached_property
    def reach(self) -> slice:
        """The keys between the first and the last that any of these rows may see."""
        alive = self.end > self.first
        if not alive.any():
            return slice(0, 0)
        return slice(int(self.first[alive].min()), int(self.end[alive].max()))


class Head:
    """One head.

    Args:
        record: its layer.
        head: 0 <= head < H.
        sink_keys: how many first keys of a document `no_sink` leaves out.

    Attributes:
        dtype: what is computed in.
    """

    def __init__(self, record: LayerRecord, head: int, sink_keys: int) -> None:
        self.record, self.head = record, head
        self.queries, self.keys = record.queries, record.keys
        self.where = f"{record.arrays.where}: head {head}"
        info = record.info
        self.group = head * info.kv_heads // info.query_heads
        double = record.arrays.entry("q").dtype == "F64"
        self.dtype: np.dtype = np.dtype(np.float64 if double else np.float32)
        self.first, self.end, origin = record.spans
        # A document's first keys stand at its origin; rows of another document are not touched.
        after = np.minimum(origin.astype(np.int64) + sink_keys, self.keys)
        self.after_sink = np.maximum(self.first, after).astype(np.int32)
        self.narrowed = record.has("mask")
        self.biased = record.has("bias") or record.has("bias_by_offset")

    @property
    def sink(self) -> float:
        """The learned sink's logit, or -inf."""
        sinks = self.record.sinks
        return -np.inf if sinks is None else float(sinks[self.head])

    @cached_property
    def norms(self) -> np.ndarray:
        """The norm of W_O v_j of each key, [S].

        Raises:
            TraceError: the trace does not hold them.
        """
        norms = self.record.norms(self.head)
        if norms is None:
            raise TraceError(f"{self.where}: the trace holds no value_norms.")
        return norms

    @cached_property
    def sight(self) -> np.ndarray:
        """How many keys each row sees, int64 [T]: by spans, mask and a bias of -inf."""
        count = np.maximum(self.end.astype(np.int64) - self.first, 0)
        if not self.narrowed and not self.biased:
            return count
        height = max(1, _BAND // max(self.keys, 1))
        for start in range(0, self.queries, height):
            rows = slice(start, min(start + height, self.queries))
            count[rows] = self.visible(rows, slice(0, self.keys)).sum(axis=1)
        return count

    def part(
        self,
        rows: slice | np.ndarray,
        *,
        no_sink: bool = False,
        dtype: np.dtype | type | None = None,
    ) -> Part:
        """Bring some rows into the form that is computed with.

        Args:
            rows: a slice of the T queries, or their numbers.
            no_sink: leave out the first keys of the rows' documents.

        Raises:
            TraceError: a query is no number.
        """
        record, dtype = self.record, np.dtype(dtype or self.dtype)
        if isinstance(rows, slice):
            q = record.arrays.read("q", self.head, rows)
            index = np.arange(rows.start, rows.stop)
        else:
            index = rows
            # Far rows are read one by one, so that only the blocks they lie in are verified.
            parts = [record.arrays.read("q", self.head, slice(r, r + 1)) for r in rows.tolist()]
            q = np.concatenate(parts) if parts else record.arrays.read("q", self.head, slice(0, 0))
        check("q", q, record.info, record.arrays.where)
        lse = record.logsumexp[self.head][rows].astype(dtype)
        lse[np.isneginf(lse)] = NOTHING
        factor = record.info.scale
        if record.info.softcap is not None:
            factor /= record.info.softcap
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = widen(q).astype(dtype, copy=False) * np.float64(factor).astype(dtype)
        first = self.after_sink if no_sink else self.first
        return Part(
            index, scaled, lse, first[rows].astype(np.int64), self.end[rows].astype(np.int64)
        )

    def k(self, keys: slice, dtype: np.dtype | type | None = None) -> np.ndarray:
        """Some keys, [n, D], ready to be multiplied with; a view of the file where it can be.

        Raises:
            TraceError: one is no number.
        """
        k = self.record.arrays.read("k", self.group, keys)
        check("k", k, self.record.info, self.record.arrays.where)
        return widen(k).astype(dtype or self.dtype, copy=False)

    def log_weights(self, part: Part, keys: slice, k: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write the log-weights of a block, -inf out of sight.

        Args:
            part: the rows, see `part`.
            keys: which keys.
            k: the same keys, see `k`.
            out: a C-contiguous buffer [t, n] of their dtype.

        Returns:
            `out`. Its largest element is at most `check`'s bound unless the trace is damaged.

        Cost: 2 t n D FLOPs and two passes over `out`, three where sight ends inside.
        """
        # Absurd numbers of a header overflow here; `check` finds what comes of it.
        with np.errstate(over="ignore", invalid="ignore"):
            self.scores(part, keys, k, out)
            out -= part.logsumexp[:, None]
            self.hide(out, part, keys)
        return out

    def scores(self, part: Part, keys: slice, k: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write the scores of a block: scaled, soft-capped and biased, out of sight as well.

        Arguments and cost are those of `log_weights`.
        """
        softcap = self.record.info.softcap
        np.matmul(part.q, k.T, out=out)
        if softcap is not None:
            np.tanh(out, out=out)
            out *= np.float64(softcap).astype(out.dtype)
        if self.biased:
            out += self._bias(part.rows, keys)
        return out

    def hide(self, out: np.ndarray, part: Part, keys: slice) -> None:
        """Put -inf where a pair is out of sight (a bias of -inf has done so itself)."""
        _hide_before(out, part.first - keys.start)
        _hide_after(out, part.end - keys.start)
        if self.narrowed:
            np.copyto(out, -np.inf, where=~self._seen(part.rows, keys))

    def visible(self, rows: slice, keys: slice) -> np.ndarray:
        """Which pairs are in sight, bool [t, n]."""
        key = np.arange(keys.start, keys.stop)
        seen = (key >= self.first[rows, None]) & (key < self.end[rows, None])
        index = np.arange(rows.start, rows.stop)
        if self.narrowed:
            seen &= self._seen(index, keys)
        if self.biased:
            seen &= self._bias(index, keys) > -np.inf
        return seen

    def check(self, largest: float, part: Part, keys: slice, k: np.ndarray) -> None:
        """Whether a block's largest log-weight can be one.

        A window of the map cannot tell whether its rows sum to one. What it can tell is that no
        weight is above one and none is NaN; that finds a wrong log-sum-exp, scale or q wherever
        it makes weights too large.

        The room: a score carries the rounding of a product of width D here and where it was
        captured, (D + 4) u |q| |k| each, and the log-sum-exp a few u of its size.

        Raises:
            TraceError: it cannot.
        """
        if largest <= ROUNDING:
            return
        unit = float(np.finfo(np.float32).eps) / 2
        with np.errstate(over="ignore", invalid="ignore"):
            reach = np.sqrt(np.einsum("td,td->t", part.q, part.q).max(initial=0), dtype=np.float64)
            reach *= np.sqrt(np.einsum("nd,nd->n", k, k).max(initial=0), dtype=np.float64)
            size = reach * (self.record.info.softcap or 1.0)
            heard = np.abs(part.logsumexp[part.logsumexp > NOTHING])
            size += 4 * float(heard.max(initial=0.0)) / (part.q.shape[1] + 4)
            room = min(2 * unit * (part.q.shape[1] + 4) * size + ROUNDING, 0.5)
        if not largest <= room:
            raise TraceError(
                f"{self.where}: a weight of queries {int(part.rows[0])} to {int(part.rows[-1])} on "
                f"keys {keys.start} to {keys.stop - 1} is above one or no number; the trace is "
                "damaged or was not captured exactly."
            )

    def _bias(self, rows: np.ndarray, keys: slice) -> np.ndarray:
        """The bias of these rows and keys, [t, n]."""
        record = self.record
        bias: np.ndarray | None = None
        if record.has("bias") and len(rows):
            reach = slice(int(rows.min()), int(rows.max()) + 1)
            bias = record.arrays.read("bias", self.head, reach)[rows - reach.start][:, keys]
            check("bias", bias, record.info, record.arrays.where)
        if record.has("bias_by_offset"):
            line = record.array("bias_by_offset")[self.head]
            offset = np.arange(keys.start, keys.stop) - rows[:, None] + self.queries - 1
            by_offset = line[offset]
            bias = by_offset if bias is None else bias + by_offset
        return np.zeros((len(rows), 1)) if bias is None else bias

    def _seen(self, rows: np.ndarray, keys: slice) -> np.ndarray:
        """The packed mask of these rows and keys as bool."""
        lo = keys.start // 8
        packed = self.record.array("mask")[rows, lo : -(-keys.stop // 8)]
        bits = np.unpackbits(packed, axis=1)
        return bits[:, keys.start - 8 * lo : keys.stop - 8 * lo].astype(bool)


def _hide_before(out: np.ndarray, start: np.ndarray) -> None:
    """-inf in the columns before start[r] of row r."""
    width = min(int(start.max(initial=0)), out.shape[1])
    if width > 0:
        _hide(out[:, :width], start, before=True)


def _hide_after(out: np.ndarray, stop: np.ndarray) -> None:
    """-inf in the columns from stop[r] on of row r."""
    low = max(int(stop.min(initial=out.shape[1])), 0)
    if low < out.shape[1]:
        _hide(out[:, low:], stop - low, before=False)


def _hide(out: np.ndarray, bound: np.ndarray, *, before: bool) -> None:
    t, n = out.shape
    if t > 1 and bool((np.diff(bound) == 1).all()):
        # The usual edge moves by one key a row: the same line of 0 and -inf, shifted, is added.
        line = np.zeros(t + n, out.dtype)
        place = int(np.clip(bound[0] + t - 1, 0, t + n))
        if before:
            line[:place] = -np.inf
        else:
            line[place:] = -np.inf
        step = line.strides[0]
        out += as_strided(line[t - 1 :], (t, n), (-step, step), writeable=False)
        return
    key = np.arange(n)
    hidden = key < bound[:, None] if before else key >= bound[:, None]
    np.copyto(out, -np.inf, where=hidden)
