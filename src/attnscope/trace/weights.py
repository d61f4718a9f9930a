"""Attention weights of a few rows, recomputed exactly from queries, keys and one log-sum-exp.

The idea: the log-sum-exp of a row is all that a softmax needs to know about the keys that are not
asked for, so any window of the map costs one small product. And because all keys of a row are in
hand, its sum is known too: it must be one, less the learned sink's share, or the trace is wrong.

Formula
    s_ij = softcap(scale * q_i . k_j) + b_ij        w_ij = exp(s_ij - lse_i), 0 where not in sight
    sum_j w_ij = 1 - exp(sink - lse_i)

Shapes
    q [t, D], k [n, D] (the keys from `lo` to `lo + n`), everything else per row [t] or [t, n].

Dtypes
    float32, or float64 on request; the log-sum-exp was rounded when it was stored.

Not here: where the arrays come from (layer.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rows:
    """All that some rows of one head need.

    Attributes:
        q, k: the queries and the keys `lo … lo + n`.
        first, end: keys in sight of each row, counted from key 0.
        logsumexp: of each row, the learned sink included.
        lo: the number of k's first key.
        scale, softcap: as in core.attend.
        sink: the learned sink's logit, or -inf.
        bias: [t, n] or None.
        seen: bool [t, n], a further restriction, or None.
    """

    q: np.ndarray
    k: np.ndarray
    first: np.ndarray
    end: np.ndarray
    logsumexp: np.ndarray
    lo: int
    scale: float
    softcap: float | None = None
    sink: float = -np.inf
    bias: np.ndarray | None = None
    seen: np.ndarray | None = None

    def visible(self) -> np.ndarray:
        """Which keys each row sees, bool [t, n]."""
        key = self.lo + np.arange(len(self.k))
        seen = (key >= self.first[:, None]) & (key < self.end[:, None])
        if self.seen is not None:
            seen &= self.seen
        if self.bias is not None:
            seen &= self.bias > -np.inf
        return seen


def weights(rows: Rows) -> np.ndarray:
    """The weights [t, n] of the rows, in the dtype of q (float32 or float64).

    Cost: 2 t n D FLOPs and about five bytes (nine in float64) per weight.

    >>> one = np.ones((1, 1), np.float32)
    >>> span = np.array([0]), np.array([1])
    >>> weights(Rows(one, one, *span, np.ones(1, np.float32), 0, 1.0))
    array([[1.]], dtype=float32)
    """
    # A number of the header may be absurd; what overflows here is caught as a wrong row.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scores = rows.q @ rows.k.T
        scores *= rows.q.dtype.type(rows.scale)
        if rows.softcap is not None:
            cap = rows.q.dtype.type(rows.softcap)
            scores /= cap
            np.tanh(scores, out=scores)
            scores *= cap
        hidden = ~rows.visible()
        if rows.bias is not None:
            scores += rows.bias
        scores[hidden] = -np.inf
        scores -= rows.logsumexp[:, None].astype(scores.dtype)
        np.exp(scores, out=scores)
    scores[hidden] = 0
    return scores


def wrong_rows(rows: Rows, found: np.ndarray) -> np.ndarray:
    """Which rows do not sum to one less the sink's share, bool [t].

    A row that sees nothing must have the sink's logit (or -inf) as its log-sum-exp.

    The room: each score carries the rounding of a product of width D twice (here and where it was
    captured), at most (D + 4) u |scale| |q| max|k| each; the log-sum-exp and a sum of n terms carry
    n u and a few u of their own size. u is half an epsilon of float32, in which captures compute.
    A bias asks for no more: where a key has a weight, it is no larger than those two together, and
    where it hides a key (models add -1e9 for that) it rounds nothing that counts.
    """
    unit = np.float64(np.finfo(np.float32).eps) / 2
    lse = rows.logsumexp.astype(np.float64)
    empty = ~rows.visible().any(axis=1)
    reach = np.linalg.norm(rows.q.astype(np.float64), axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        widest = np.sqrt(np.einsum("nd,nd->n", rows.k, rows.k).max(initial=0), dtype=np.float64)
        size = abs(rows.scale) * reach * widest
    width = rows.q.shape[1]
    with np.errstate(invalid="ignore", over="ignore"):
        room = 2 * unit * ((width + 4) * size + 4 * np.abs(lse) + len(rows.k) + 16)
        share = np.exp(rows.sink - lse)
        total = found.sum(axis=1, dtype=np.float64)
        # Scores so large that float32 leaves them no digits still may not sum to anything.
        room = np.minimum(room, 0.5)
        off = ~(np.abs(total - (1 - share)) <= room)
        off_empty = ~((lse == rows.sink) | (np.abs(lse - rows.sink) <= 4 * unit * np.abs(lse)))
    return np.where(empty, off_empty, off)
