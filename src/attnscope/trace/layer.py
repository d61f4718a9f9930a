"""One layer of a trace: its arrays with their rules applied, and any of its weights on demand.

The idea: an array is checked when it is first used, and only the part that is used; so opening
costs nothing and an answer never rests on numbers that nobody looked at.

Shapes
    query r of T stands at key position S - T + r; query head h reads key head h // (H / G).

Not here: files and checksums (arrays.py), several layers at once (trace.py).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from attnscope.errors import TraceError
from attnscope.trace import values
from attnscope.trace.arrays import Arrays, check_shapes
from attnscope.trace.format import MAP, OWN_ARRAY
from attnscope.trace.header import Header, LayerInfo
from attnscope.trace.weights import Rows, weights, wrong_rows

_BAND_BYTES: Final = 32 << 20
"""Scores that exist at one time, so that many rows at once need little beyond their result."""
_SAMPLED: Final = 3


class MapPlanes(NamedTuple):
    """The pooled map, [H, y, x] each: see core.problem.PooledMap."""

    cell: int
    mean: np.ndarray
    max: np.ndarray
    argmax: np.ndarray


class Rotation(NamedTuple):
    """How RoPE turned a layer's queries and keys: pair m by position times frequencies[m].

    The pair (m, n) of a vector x at position p became x_m cos - x_n sin, x_n cos + x_m sin of the
    angle p f (positions/turn.py). Numbers in no pair were not turned.
    """

    frequencies: np.ndarray
    """[R] angles per position, in radians."""
    pairs: np.ndarray
    """[R, 2] places within a head's D numbers, none twice."""


class LayerRecord:
    """The arrays of one layer.

    Attributes:
        info: the layer's entry in trace.json.
        arrays: where the numbers come from; each is also readable by `array`.
    """

    def __init__(self, info: LayerInfo, arrays: Arrays, header: Header) -> None:
        check_shapes(arrays, info, header.statistics)
        self.info, self.arrays = info, arrays
        self._header = header
        self.queries = arrays.entry("q").shape[1]
        self.keys = arrays.entry("k").shape[1]
        self._checked: set[str] = set()
        expected = len(header.tokens)
        if expected and not info.cross and self.keys != expected:
            raise TraceError(
                f"{arrays.where}: expected one key per token, {expected}, got {self.keys}."
            )

    def has(self, name: str) -> bool:
        """Whether the layer has this array."""
        return name in self.arrays.names()

    def array(self, name: str) -> np.ndarray:
        """One whole array as stored (bfloat16 as its bits), checked."""
        if not self.has(name):
            raise TraceError(f"{self.arrays.where}: the trace holds no {name}.")
        array = self.arrays.read(name)
        if name not in self._checked:
            values.check(name, array, self.info, self.arrays.where)
            self._checked.add(name)
        return array

    def statistic(self, name: str) -> np.ndarray:
        """One statistic: [H, T] per query, or [H, S] for `received`.

        Raises:
            ValueError: it was not captured; the message lists what was.
        """
        if name == "logsumexp":
            return self.logsumexp
        if name not in self._header.statistics:
            have = ", ".join(self._header.statistics) or "none"
            raise ValueError(f"{name!r} is not in this trace; captured were {have}")
        if name in OWN_ARRAY:
            array = self.array(name)
            if name == "argmax" and array.size and (array.min() < -1 or array.max() >= self.keys):
                raise TraceError(f"{self.arrays.where}: argmax: expected keys, or -1.")
            return array
        place = self._header.block.index(name)
        array = self.arrays.read("statistics", place)
        if name not in self._checked:
            values.check(name, array, self.info, self.arrays.where)
            self._checked.add(name)
        return array

    @cached_property
    def spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """first, end, origin: int32 [T] each."""
        first, end, origin = (self.arrays.read(name) for name in ("first", "end", "origin"))
        values.check_spans(
            first, end, origin, keys=self.keys, layer=self.info, where=self.arrays.where
        )
        return first, end, origin

    @cached_property
    def logsumexp(self) -> np.ndarray:
        """[H, T]; -inf only where a row sees nothing and no sink stands in."""
        array = self.array("logsumexp")
        first, end, _ = self.spans
        if np.any(np.isneginf(array) & (end > first)) and not (
            self.has("mask") or self.has("bias") or self.has("bias_by_offset")
        ):
            raise TraceError(f"{self.arrays.where}: logsumexp: -inf in a row that sees keys.")
        return array

    @cached_property
    def sinks(self) -> np.ndarray | None:
        """The learned sink logits [H], or None."""
        return self.array("sinks") if self.has("sinks") else None

    @cached_property
    def rotation(self) -> Rotation | None:
        """How queries and keys were turned, or None where the capture could not confirm it."""
        if not self.has("rope_pairs"):
            return None
        pairs = self.array("rope_pairs")
        places = pairs.reshape(-1)
        inside = not places.size or (places.min() >= 0 and places.max() < self.info.head_width)
        if not inside or len(set(places.tolist())) != places.size:
            raise TraceError(
                f"{self.arrays.where}: rope_pairs: expected places within a head of "
                f"{self.info.head_width} numbers, none twice."
            )
        return Rotation(self.array("rope_frequencies"), pairs)

    @cached_property
    def sight(self) -> np.ndarray:
        """How many keys each row sees, int64 [T]."""
        first, end, _ = self.spans
        if not self.has("mask"):
            return np.maximum(end.astype(np.int64) - first, 0)
        count = np.empty(self.queries, np.int64)
        for start, stop in self._bands(range(self.queries), self.keys):
            rows = np.arange(start, stop)
            key = np.arange(self.keys)
            seen = (key >= first[rows, None]) & (key < end[rows, None])
            count[start:stop] = (seen & self._seen(rows, 0, self.keys)).sum(axis=1)
        return count

    def map(self) -> MapPlanes | None:
        """The pooled map, or None where none was captured."""
        if not self.has("map_mean"):
            return None
        planes = {name: self.arrays.read(name) for name in MAP}
        cell = int(planes["map_cell"][0])
        if "map" not in self._checked:
            values.check_map(planes, cell=cell, where=self.arrays.where)
            self._checked.add("map")
        return MapPlanes(cell, planes["map_mean"], planes["map_max"], planes["map_argmax"])

    def norms(self, head: int) -> np.ndarray | None:
        """The norm of W_O v_j of each key for one query head, [S], or None."""
        if not self.has("value_norms"):
            return None
        array = self.arrays.read("value_norms", head)
        values.check("value_norms", array, self.info, self.arrays.where)
        return array

    def weights(
        self, head: int, rows: np.ndarray | None = None, *, dtype: type | np.dtype = np.float32
    ) -> np.ndarray:
        """The weights [t, S] of some rows of one head.

        Args:
            head: 0 <= head < H.
            rows: query indices, each 0 <= r < T; all if not given.
            dtype: float32 or float64, in which scores are computed.

        Raises:
            TraceError: a row does not sum to what it must; the trace is damaged.

        Cost: 2 t n D FLOPs for the n keys between the first and the last in sight of these rows.
        """
        rows = np.arange(self.queries) if rows is None else rows
        result = np.zeros((len(rows), self.keys), dtype)
        first, end, _ = self.spans
        for start, stop in self._bands(range(len(rows)), self.keys):
            part = rows[start:stop]
            alive = end[part] > first[part]
            lo = int(first[part][alive].min(initial=self.keys))
            hi = int(end[part][alive].max(initial=0))
            keys = slice(lo, max(lo, hi))
            given = self._rows(head, part, keys, dtype)
            found = weights(given)
            wrong = wrong_rows(given, found)
            if wrong.any():
                row = int(part[int(np.argmax(wrong))])
                raise TraceError(
                    f"{self.arrays.where}: head {head}: the weights of query {row} do not sum to "
                    "what its log-sum-exp says; the trace is damaged or was not captured exactly."
                )
            result[start:stop, keys] = found
        return result

    def window(
        self, head: int, rows: slice, keys: slice, *, dtype: type | np.dtype = np.float32
    ) -> np.ndarray:
        """The weights of a window of the map, [rows, keys], without the rest of these rows.

        Unlike `weights` it cannot check that the rows sum to one; it is for tiles.

        Args:
            rows, keys: start and stop within the T queries and the S keys.

        Cost: 2 t n D FLOPs, whatever the length of the text.
        """
        given = self._rows(head, np.arange(rows.start, rows.stop), keys, dtype)
        return weights(given)

    def verify(self) -> None:
        """Read every byte, apply every rule, and recompute rows of every head.

        Raises:
            TraceError: the first thing that is wrong.
        """
        self.arrays.verify()
        self.check_values()
        self.check_rows(np.unique(np.linspace(0, max(self.queries - 1, 0), 8, dtype=np.int64)))

    def check_values(self) -> None:
        """Apply the rule of every array."""
        for name in self.arrays.names():
            if name != "statistics":  # its planes have rules of their own
                self.array(name)
        for name in self._header.statistics:
            self.statistic(name)
        _ = self.spans, self.logsumexp, self.rotation
        self.map()

    def check_rows(self, rows: np.ndarray | None = None) -> None:
        """Recompute a few rows of every head; they must sum to what the log-sum-exp says."""
        if self.queries == 0:
            return
        if rows is None:
            rows = np.unique(np.linspace(0, self.queries - 1, _SAMPLED, dtype=np.int64))
        for head in range(self.info.query_heads):
            self.weights(head, rows)

    def _bands(self, rows: range, keys: int) -> list[tuple[int, int]]:
        height = max(1, _BAND_BYTES // max(8 * keys, 1))
        return [(at, min(at + height, len(rows))) for at in range(0, len(rows), height)]

    def _rows(self, head: int, rows: np.ndarray, keys: slice, dtype: type | np.dtype) -> Rows:
        """Gather what `weights` needs, each part checked."""
        lo, hi = keys.start, keys.stop
        group = head * self.info.kv_heads // self.info.query_heads
        reach = slice(int(rows.min()), int(rows.max()) + 1) if len(rows) else slice(0, 0)
        q = self.arrays.read("q", head, reach)[rows - reach.start]
        k = self.arrays.read("k", group, keys)
        for name, part in (("q", q), ("k", k)):
            values.check(name, part, self.info, self.arrays.where)
        first, end, _ = self.spans
        return Rows(
            q=values.widen(q, dtype).astype(dtype, copy=False),
            k=values.widen(k, dtype).astype(dtype, copy=False),
            first=first[rows],
            end=end[rows],
            logsumexp=self.logsumexp[head, rows],
            lo=lo,
            scale=self.info.scale,
            softcap=self.info.softcap,
            sink=-np.inf if self.sinks is None else float(self.sinks[head]),
            bias=self._bias(head, rows, lo, hi),
            seen=self._seen(rows, lo, hi) if self.has("mask") else None,
        )

    def _bias(self, head: int, rows: np.ndarray, lo: int, hi: int) -> np.ndarray | None:
        """The bias of these rows and keys, [t, hi - lo], or None."""
        bias: np.ndarray | None = None
        if self.has("bias") and len(rows):
            reach = slice(int(rows.min()), int(rows.max()) + 1)
            bias = self.arrays.read("bias", head, reach)[rows - reach.start, lo:hi]
            values.check("bias", bias, self.info, self.arrays.where)
        if self.has("bias_by_offset"):
            offset = np.arange(lo, hi) - rows[:, None] + self.queries - 1
            by_offset = self.array("bias_by_offset")[head][offset]
            bias = by_offset if bias is None else bias + by_offset
        return bias

    def _seen(self, rows: np.ndarray, lo: int, hi: int) -> np.ndarray:
        """The packed mask of these rows and keys as bool."""
        packed = self.array("mask")[rows]
        return np.unpackbits(packed, axis=1, count=self.keys)[:, lo:hi].astype(bool)
