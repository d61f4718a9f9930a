"""A part of some heads as one JSON value: what the course's pages need to run on a reader's text.

The idea: up to 64 tokens of a text and all pairs among them are little enough to be carried as
numbers, and a page that has the scores can do the rest itself: other rules than softmax, other
masks, other temperatures. A pair that the mask hides has a score too, as it would be. What a row
sees beyond these tokens stands beside them as one entry: the log of the sum of the exponentials of
its scores behaves in a softmax as one key with that score, so the weights shown are those of the
whole row.

Formula
    s_ij = softcap(scale * q_i . k_j) + b_ij                        every pair of the part
    m_i = log sum of exp s_ij over the keys in sight outside it     null where there are none
    w_ij = exp s_ij / (exp m_i + sum of exp s_ij in sight + exp sink)
    cosine_ij = e_i . e_j / (|e_i| |e_j|)                           of the tokens' embeddings

Dtypes: computed in float64; written with the nine digits that a float32 needs.

Not here: reading it (serve/static/js/widgets/own), writing files (cli), the whole map (tiling.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from attnscope.tiles.about import UNKNOWN
from attnscope.tiles.about import heads as all_heads
from attnscope.tiles.grid import bounded, head_of
from attnscope.tiles.head import Head, Part
from attnscope.tiles.rows import shares
from attnscope.tiles.tokens import token_table
from attnscope.trace import Trace
from attnscope.trace.kinds import KINDS
from attnscope.trace.values import widen

SCHEMA: Final = "attnscope.head/1"
MOST_TOKENS: Final = 64
MOST_HEADS: Final = 16
KEYS: Final = 4096
"""Keys outside the part that are looked at together: 2 MiB of scores."""

Check = Callable[[], None]


def handout(
    trace: Trace,
    heads: Sequence[tuple[int, int]],
    *,
    start: int | None = None,
    table: Sequence[dict[str, Any]] | None = None,
    check: Check | None = None,
) -> dict[str, Any]:
    """Some heads on up to 64 tokens of the text, from one of them on.

    Args:
        heads: layer and head of each, 1 to 16; of self-attention.
        start: the first token, 0 <= start < S; the first that asked something if not given.
        table: what `attnscope.tiles.heads` says of the trace, from who has it already.
        check: called between blocks; what it raises ends the work.

    Returns:
        JSON-ready, with no number in it that is not finite; the fields are in docs/handout.md.

    Raises:
        ValueError: a layer, head or token that is not there, none or too many, or a layer whose
            keys belong to another sequence.
        TraceError: a row does not sum to what its log-sum-exp says.

    Cost: 2 n S D FLOPs a head for n tokens of S, and a pass over all statistics for the table.
    """
    if not 0 < len(heads) <= MOST_HEADS:
        raise ValueError(f"heads: expected 1 to {MOST_HEADS}, got {len(heads)}")
    records = [head_of(trace, layer, head) for layer, head in heads]
    for record, _ in records:
        if record.info.cross:
            raise ValueError(
                f"layer: {record.info.index} looks at another sequence; a part of its map has no "
                "text of its own"
            )
    if not trace.tokens:
        raise ValueError("start: this trace does not say what its tokens are")
    first = max(record.keys - record.queries for record, _ in records)
    start = bounded("start", first if start is None else start, len(trace.tokens))
    if start < first:
        raise ValueError(f"start: the tokens before {first} asked nothing here; begin with it")
    stop = min(start + MOST_TOKENS, len(trace.tokens))
    labelled = token_table(trace)
    every = all_heads(trace) if table is None else table
    kinds = {(one["layer"], one["head"]): one["kind"] for one in every}
    return {
        "schema": SCHEMA,
        "model": trace.model.name,
        "tokens": {
            "count": len(trace.tokens),
            "start": start,
            "labels": labelled["labels"][start:stop],
            "spans": [list(span) for span in zip(
                labelled["start"][start:stop], labelled["end"][start:stop], strict=True)],
        },
        "embeddings": _embeddings(trace.embeddings(slice(start, stop))),
        "heads": [
            _head(Head(record, head, trace.header.sink_keys), slice(start, stop), check)
            | {"kind": kinds.get((record.info.index, head), UNKNOWN)}
            for record, head in records
        ],
        "all": [
            {
                "layer": one["layer"], "head": one["head"], "kind": one["kind"],
                "share": _digits(one["score"]),
                "first": _number(one["statistics"].get("sink_mass")),
            }
            for one in every
        ],
    }  # fmt: skip


def clearest(trace: Trace) -> list[tuple[int, int]]:
    """The clearest head of each kind in the order of KINDS; the first head if no kind is known."""
    try:
        kinds = trace.kinds()
    except ValueError:  # the statistics that the rules need were not captured
        kinds = []
    found = []
    for kind in KINDS:
        of_kind = [one for one in kinds if one.kind == kind]
        if of_kind:
            best = max(of_kind, key=lambda one: one.share)
            found.append((best.layer, best.head))
    return found or [(info.index, 0) for info in trace.layers if info.has_map][:1]


def _head(view: Head, tokens: slice, check: Check | None) -> dict[str, Any]:
    """One head on some tokens."""
    record, info = view.record, view.record.info
    offset = record.keys - record.queries
    rows = slice(tokens.start - offset, tokens.stop - offset)
    part = view.part(rows, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = view.scores(part, tokens, view.k(tokens, np.float64), _empty(part, tokens))
    seen = view.visible(rows, tokens) & (scores > -np.inf)
    outside, count, arrived = _outside(view, part, tokens, check)
    total = np.logaddexp(_logsumexp(np.where(seen, scores, -np.inf)), outside)
    _agree(view, part, total)
    total = np.logaddexp(total, view.sink)
    alive = total > -np.inf
    total = np.where(alive, total, 0.0)
    weights = np.exp(np.where(seen, scores - total[:, None], -np.inf))
    norms = view.norms[tokens] if record.has("value_norms") else None
    return {
        "layer": info.index,
        "head": view.head,
        "kv_head": view.group,
        "attention": info.kind,
        "causal": info.causal,
        "window": info.window,
        "scale": _digits(info.scale),
        "softcap": _number(info.softcap),
        "sink": _number(view.sink),
        "scores": [[_number(one) for one in row] for row in scores],
        "weights": [
            [_digits(one) if here else None for one, here in zip(row, sight, strict=True)]
            for row, sight in zip(weights, seen, strict=True)
        ],
        "norms": None if norms is None else [_digits(one) for one in norms],
        "outside": {
            "keys": count.tolist(),
            "logsumexp": [_number(one) for one in outside],
            "weights": [_digits(one) for one in np.exp(outside - total)],
            "arrived": None if arrived is None else [
                _digits(one) for one in arrived * np.exp(part.logsumexp - total)],
        },
        "sink_weights": [_digits(one) for one in np.where(alive, np.exp(view.sink - total), 0.0)],
        "rotary": _rotary(view, rows, tokens),
    }  # fmt: skip


def _rotary(view: Head, rows: slice, tokens: slice) -> dict[str, Any] | None:
    """Queries and keys as captured, pairs as halves; None where the angles are not known."""
    rotation = view.record.rotation
    if rotation is None:
        return None
    pairs = rotation.pairs
    others = np.setdiff1d(np.arange(view.record.info.head_width), pairs)
    order = np.concatenate([pairs[:, 0], pairs[:, 1], others])
    q = widen(view.record.arrays.read("q", view.head, rows))[:, order]  # checked by view.part
    k = view.k(tokens, np.float64)[:, order]
    return {
        "turns": [_digits(one) for one in rotation.frequencies],
        "q": [[_digits(one) for one in row] for row in q],
        "k": [[_digits(one) for one in row] for row in k],
    }


def _embeddings(vectors: np.ndarray | None) -> dict[str, Any] | None:
    """Lengths and cosines of embeddings [n, C]; a vector of zeros has no cosine."""
    if vectors is None:
        return None
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        units = wide / norms[:, None]
    cosines = units @ units.T
    np.fill_diagonal(cosines, np.where(norms > 0, 1.0, np.nan))
    return {
        "norms": [_digits(one) for one in norms],
        "cosines": [[_number(one) for one in row] for row in cosines],
    }


def _outside(
    view: Head, part: Part, tokens: slice, check: Check | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """What the rows see beyond some tokens: its log-sum-exp, how many keys, and what arrives."""
    height = len(part.rows)
    norms = view.norms if view.record.has("value_norms") else None
    total, count, arrived = np.full(height, -np.inf), np.zeros(height, np.int64), np.zeros(height)
    for side in (slice(0, tokens.start), slice(tokens.stop, view.keys)):
        low, high = max(side.start, part.reach.start), min(side.stop, part.reach.stop)
        for at in range(low, high, KEYS):
            if check is not None:
                check()
            keys = slice(at, min(at + KEYS, high))
            k = view.k(keys, np.float64)
            out = view.log_weights(part, keys, k, _empty(part, keys))
            count += (out > -np.inf).sum(axis=1)
            total = np.logaddexp(total, _logsumexp(out) + part.logsumexp)
            if norms is not None:
                arrived += np.exp(out) @ norms[keys].astype(np.float64)
    return total, count, None if norms is None else arrived


def _agree(view: Head, part: Part, total: np.ndarray) -> None:
    """The rows sum to what the trace's own log-sum-exps say.

    Raises:
        TraceError: one does not.
    """
    with np.errstate(over="ignore"):
        shares(view, part, np.exp(total - part.logsumexp))


def _empty(part: Part, keys: slice) -> np.ndarray:
    return np.empty((len(part.rows), keys.stop - keys.start))


def _logsumexp(scores: np.ndarray) -> np.ndarray:
    """Log of the sum of exponentials of each row; -inf where all of it is."""
    top = scores.max(axis=1, initial=-np.inf)
    safe = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        result: np.ndarray = safe + np.log(np.exp(scores - safe[:, None]).sum(axis=1))
    return result


def _number(value: float | None) -> float | None:
    """A number, or None for one that is not finite."""
    return None if value is None or not np.isfinite(value) else _digits(value)


def _digits(value: float) -> float:
    """A number with nine digits.

    >>> _digits(0.12345678912345), _digits(np.float64(-0.0))
    (0.123456789, 0.0)
    """
    return float(f"{float(value):.9g}") + 0.0


__all__ = ["MOST_HEADS", "MOST_TOKENS", "SCHEMA", "clearest", "handout"]
