"""Traces for the tile tests, and the same maps by a formula of our own: dense float64, no package.

The pyramid is tested with tiles of 8 cells and blocks of a few rows, so that texts of fifty tokens
have every rim, every block edge and four levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from attnscope.trace import Trace

STATISTICS = ("logsumexp", "entropy", "sink_mass", "received")


@dataclass(frozen=True)
class Case:
    """What a layer is like."""

    H: int = 2
    G: int = 1
    T: int = 24
    S: int = 24
    D: int = 4
    dtype: str = "F32"
    causal: bool = True
    cross: bool = False
    window: int | None = None
    softcap: float | None = None
    scale: float = 0.5
    sinks: bool = False
    bias: str | None = None
    mask: float | None = None
    documents: tuple[int, ...] = ()
    sink_keys: int = 1
    norms: bool = True
    stored: int | None = None
    seed: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Truth:
    """A layer's arrays, and its map: all float64 [H, T, S]."""

    arrays: dict[str, np.ndarray]
    weights: np.ndarray
    scores: np.ndarray
    seen: np.ndarray
    sink: np.ndarray
    origin: np.ndarray

    def measure(self, name: str, case: Case, head: int) -> tuple[np.ndarray, np.ndarray]:
        """The value of every pair, and whether it counts: [T, S] each."""
        seen = self.seen[head]
        value = self.weights[head]
        if name.startswith("arrived"):
            value = value * self.arrays["value_norms"][head].astype(np.float64)
        if name.endswith("no-sink"):
            j = np.arange(case.S)
            seen = seen & (j >= self.origin[:, None] + case.sink_keys)
        if name == "uniform":
            value = 1 / np.maximum(self.seen[head].sum(axis=1, keepdims=True), 1)
        return np.where(seen, value, 0), seen


def bits16(array: np.ndarray) -> np.ndarray:
    """The bits of a bfloat16, by rounding to nearest even."""
    raw = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    return ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype(np.uint16)


def stored_as(array: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """An array as a trace holds it, and exactly what that stands for, in float64."""
    if dtype == "BF16":
        bits = bits16(array)
        return bits, (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    kept = array.astype({"F32": np.float32, "F16": np.float16, "F64": np.float64}[dtype])
    return kept, kept.astype(np.float64)


def truth(case: Case) -> Truth:
    """The layer and its dense map."""
    make = np.random.default_rng(case.seed)
    H, T, S = case.H, case.T, case.S
    q, q64 = stored_as(make.standard_normal((H, T, case.D)) * 1.5, case.dtype)
    k, k64 = stored_as(make.standard_normal((case.G, S, case.D)) * 1.5, case.dtype)
    scores = case.scale * q64 @ np.repeat(k64, H // case.G, axis=0).transpose(0, 2, 1)
    if case.softcap:
        scores = case.softcap * np.tanh(scores / case.softcap)
    arrays: dict[str, np.ndarray] = {"q": q, "k": k}
    r, j = np.arange(T)[:, None], np.arange(S)[None]
    i = S - T + r
    if case.bias == "offset":
        line = make.standard_normal((H, T + S - 1)).astype(np.float32)
        line[:, make.random(T + S - 1) < 0.2] = -np.inf
        arrays["bias_by_offset"] = line
        scores = scores + line.astype(np.float64)[:, j - r + T - 1]
    if case.bias == "full":
        full = make.standard_normal((H, T, S)).astype(np.float32)
        full[make.random((H, T, S)) < 0.2] = -np.inf
        arrays["bias"] = full
        scores = scores + full
    first, end = np.zeros(T, np.int64), np.full(T, S)
    if case.causal and not case.cross:
        end = i[:, 0] + 1
    if case.window:
        first = np.maximum(first, i[:, 0] - case.window + 1)
    origin = np.zeros(T, np.int64)
    if case.documents:
        ids = np.array(case.documents)
        here = ids[S - T :]
        start = np.array([np.flatnonzero(ids == one)[0] for one in here])
        last = np.array([np.flatnonzero(ids == one)[-1] + 1 for one in here])
        origin = start
        first, end = np.maximum(first, start), np.minimum(end, last)
        end[here < 0], first[here < 0] = 0, 0
    seen = (j >= first[:, None]) & (j < end[:, None])
    if case.mask is not None:
        allowed = make.random((T, S)) < case.mask
        arrays["mask"] = np.packbits(allowed, axis=1)
        seen = seen & allowed
    seen = np.broadcast_to(seen, (H, T, S)) & (scores > -np.inf)
    # The largest score (or sink) is taken out, so that no exponential overflows.
    top = np.where(seen, scores, -1e9).max(axis=2, initial=-1e9)
    if case.sinks:
        arrays["sinks"] = make.standard_normal(H).astype(np.float32)
        top = np.maximum(top, arrays["sinks"].astype(np.float64)[:, None])
    raised = np.where(seen, np.exp(np.where(seen, scores - top[..., None], 0)), 0)
    sink = np.zeros((H, T))
    if case.sinks:
        sink = np.exp(arrays["sinks"].astype(np.float64)[:, None] - top)
    total = raised.sum(axis=2) + sink
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = np.where(total > 0, np.log(total) + top, -np.inf)
        weights = np.where(seen, raised / total[..., None], 0)
        share = np.where(total > 0, sink / total, 0)
        entropy = -np.where(weights > 0, weights * np.log(weights), 0).sum(axis=2)
    real = np.float64 if case.dtype == "F64" else np.float32
    arrays |= {
        "logsumexp": lse.astype(real),
        "first": first.astype(np.int32),
        "end": end.astype(np.int32),
        "origin": origin.astype(np.int32),
        "received": weights.sum(axis=1).astype(np.float32),
        "entropy": entropy.astype(np.float32),
        "sink_mass": share.astype(np.float32),
    }
    if case.norms:
        arrays["value_norms"] = make.random((H, S)).astype(np.float32)
    found = Truth(arrays, weights, scores, seen, share, origin)
    if case.stored is not None:
        planes = [brute(weights[h], seen[h], case.stored) for h in range(H)]
        for name, place in (("map_mean", 0), ("map_max", 1), ("map_argmax", 2)):
            dtype = np.int32 if place == 2 else real
            arrays[name] = np.stack([one[place] for one in planes]).astype(dtype)
        arrays["map_cell"] = np.array([1 << case.stored], np.int32)
    return found


def brute(value: np.ndarray, seen: np.ndarray, level: int) -> tuple[np.ndarray, ...]:
    """mean, max and argmax of every cell of a level: all its pairs in a row, NaN out of sight."""
    cell, (T, S) = 1 << level, value.shape
    h, w = -(-T // cell), -(-S // cell)
    held = np.full((h * cell, w * cell), np.nan)
    held[:T, :S] = np.where(seen, value, np.nan)
    pairs = held.reshape(h, cell, w, cell).swapaxes(1, 2).reshape(h, w, cell * cell)
    count = [min(cell, T - y * cell) for y in range(h)]
    masked = np.isnan(pairs).all(axis=2)
    mean = np.nansum(pairs, axis=2) / np.array(count).reshape(h, 1)
    filled = np.where(np.isnan(pairs), -1, pairs)
    most, place = filled.max(axis=2, initial=-1), filled.argmax(axis=2)
    return np.where(masked, np.nan, mean), np.where(masked, np.nan, most), np.where(
        masked, -1, place
    )  # fmt: skip


def header(*cases: Case) -> dict[str, Any]:
    """trace.json's fields."""
    return {
        "model": {
            "name": "tiny", "architecture": "TinyForCausalLM", "layers": len(cases) + 1,
            "query_heads": cases[0].H, "kv_heads": cases[0].G, "head_width": cases[0].D,
            "width": 8,
        },
        "mode": "replace", "tokens": [], "text": "", "prompt_tokens": 0,
        "statistics": list(STATISTICS), "sink_keys": cases[0].sink_keys,
        "layers": [
            {
                "index": index, "kind": "sliding" if case.window else "full",
                "window": case.window if case.causal and not case.cross else None,
                "value_width": case.D, "scale": case.scale, "softcap": case.softcap,
                "causal": case.causal, "cross": case.cross,
            }
            for index, case in enumerate(cases)
        ]
        + [{"index": len(cases), "kind": "none", "reason": "a recurrent layer"}],
    }  # fmt: skip


def trace(*cases: Case) -> tuple[Trace, list[Truth]]:
    """A trace with one layer per case, and their maps."""
    truths = [truth(case) for case in cases]
    arrays = {index: found.arrays for index, found in enumerate(truths)}
    return Trace.from_arrays(header(*cases), arrays), truths


def room(case: Case, found: Truth) -> float:
    """How far a weight may be off, relative to itself: the rounding of its score in float32.

    A product of D numbers, scale, cap, bias and the stored log-sum-exp: each rounds the size of
    what it holds by 6e-8, and exp turns that into a relative error.
    """
    unit = 2.0**-53 if case.dtype == "F64" else 2.0**-24
    q, k = (stored_as_64(found.arrays[name]) for name in ("q", "k"))
    size = abs(case.scale) * np.linalg.norm(q, axis=2).max() * np.linalg.norm(k, axis=2).max()
    finite = [np.abs(a[np.isfinite(a)]).max(initial=0) for a in (found.scores, lse(found))]
    return float(2 * unit * ((case.D + 4) * size + 4 * sum(finite) + 4)) + 2.0**-22


def lse(found: Truth) -> np.ndarray:
    """The stored log-sum-exp."""
    return found.arrays["logsumexp"].astype(np.float64)


def stored_as_64(array: np.ndarray) -> np.ndarray:
    """What a stored array stands for."""
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


@contextmanager
def small(tile: int = 8, stored: int = 16, rows: int = 8, columns: int = 16) -> Iterator[None]:
    """Small tiles and small blocks."""
    sizes = {
        "grid.TILE": tile, "source.TILE": tile, "tracks.TILE": tile, "ahead.TILE": tile,
        "grid.STORED_CELLS": stored,
        "strips.ROWS": rows, "strips.COLUMNS": columns, "rows.ROWS": rows, "rows.KEYS": columns,
        "compare.HEIGHT": rows, "compare.WIDTH": 5, "uniform._ELEMENTS": 32,
        "uniform._PAIRS": 64, "head._BAND": 64, "compare.SAMPLED": 5,
    }  # fmt: skip
    with ExitStack() as stack:
        for name, value in sizes.items():
            stack.enter_context(mock.patch(f"attnscope.tiles.{name}", value))
        yield


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any layer that a model may have."""
    S = draw(st.integers(1, 70))
    kind = draw(st.sampled_from(["causal", "sliding", "both ways", "cross", "packed", "chunk"]))
    G = draw(st.sampled_from([1, 2]))
    case = Case(
        H=G * draw(st.sampled_from([1, 2])), G=G, T=S, S=S, D=draw(st.integers(1, 9)),
        dtype=draw(st.sampled_from(["F32", "F32", "BF16", "F16", "F64"])),
        scale=draw(st.sampled_from([0.5, 0.25, -0.7, 1.3, 0.0])),
        softcap=draw(st.sampled_from([None, None, 2.0])),
        sinks=draw(st.booleans()),
        bias=draw(st.sampled_from([None, None, None, "offset", "full"])),
        mask=draw(st.sampled_from([None, None, None, 0.6, 0.1])),
        sink_keys=draw(st.sampled_from([1, 1, 3, 20])),
        norms=True,
        seed=draw(st.integers(0, 1000)),
    )  # fmt: skip
    if kind == "sliding":
        case = replace(case, window=draw(st.integers(1, S)))
    if kind == "both ways":
        case = replace(case, causal=False)
    if kind == "cross":
        case = replace(case, causal=False, cross=True, T=draw(st.integers(1, 70)))
    if kind == "packed":
        cuts = sorted(draw(st.lists(st.integers(0, S), max_size=4)))
        ids = np.searchsorted(cuts, np.arange(S), side="right") - draw(st.integers(0, 1))
        case = replace(case, documents=tuple(ids.tolist()))
    if kind == "chunk":
        case = replace(case, T=draw(st.integers(1, S)))
    return replace(case, stored=draw(st.sampled_from([None, 0, 1, 2, 3])))
