"""Which keys a query may see, in O(T) memory wherever that is possible.

The idea: under every mask in common use (causal, sliding window, chunks, packed documents, left
and right padding, a bidirectional prefix) the keys in sight of one query form one interval. Two
integers per query say everything, and a strip knows at once where it begins and ends. The rest
(dilated patterns, top-k selections) is a boolean mask or a function, evaluated strip by strip.

Formula
    query r stands at key position i = S - T + r and sees the keys first[r] <= j < end[r].

Shapes
    first, end, origin: int32 [B or 1, T].

Not here: additive biases (they are numbers, not a question of sight).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

MaskFunction = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""`f(b, h, i, j) -> bool`, broadcasting: may query position i see key j? Positions count keys."""


@dataclass(frozen=True)
class Spans:
    """The interval of keys that each query sees.

    Attributes:
        first: first key in sight, int32 [B or 1, T].
        end: one past the last key in sight; a row with end <= first sees nothing.
        origin: first key of the document that the row belongs to; `sink_mass` counts from it.
        keys: S, the number of keys.
    """

    first: torch.Tensor
    end: torch.Tensor
    origin: torch.Tensor
    keys: int

    @property
    def queries(self) -> int:
        """T, the number of queries."""
        return self.first.shape[-1]

    @functools.cached_property
    def extent(self) -> tuple[int, int, int]:
        """The first key that anybody sees, one past the last, and the most that one query sees."""
        first, end, _ = self.arrays
        seen = end > first
        low = int(first.min(where=seen, initial=self.keys))
        high = int(end.max(where=seen, initial=0))
        return low, high, int((end - first).max(initial=0))

    @functools.cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`first`, `end` and `origin` as contiguous arrays."""
        three = (self.first, self.end, self.origin)
        first, end, origin = (np.ascontiguousarray(x.cpu().numpy()) for x in three)
        return first, end, origin

    def visible(self, rows: slice = slice(None)) -> torch.Tensor:
        """The same as a boolean mask, bool [B or 1, 1, t, S], for the rows asked for."""
        keys = torch.arange(self.keys, device=self.first.device, dtype=torch.int32)
        first, end = self.first[:, rows, None], self.end[:, rows, None]
        return ((keys >= first) & (keys < end))[:, None]

    def empty(self) -> torch.Tensor:
        """Which rows see nothing, bool [B or 1, T]."""
        return self.end <= self.first

    def restrict(self, other: Spans) -> Spans:
        """Both masks at once: an intersection of intervals is an interval."""
        return Spans(
            torch.maximum(self.first, other.first),
            torch.minimum(self.end, other.end),
            torch.maximum(self.origin, other.origin),
            self.keys,
        )


def spans(
    queries: int,
    keys: int,
    *,
    causal: bool = True,
    window: int | None = None,
    documents: torch.Tensor | None = None,
    device: torch.device | str = "cpu",
) -> Spans:
    """The spans of a causal, windowed, packed or padded mask.

    Args:
        queries: T; the queries stand at the end of the keys.
        keys: S.
        causal: whether a query is blind to later keys.
        window: how many keys a query may see, itself included; without `causal` it reaches as far
            forward as back.
        documents: integer [B, S] or [S], the document of each key. A query sees its own document
            only; a negative id is padding, which sees nothing and is seen by nobody. The members of
            one document must stand together.

    Raises:
        ValueError: more queries than keys under a causal mask, a window below 1, documents of a
            wrong length, or a document in several pieces.

    >>> spans(3, 3, window=2).first.tolist(), spans(3, 3, window=2).end.tolist()
    ([[0, 0, 1]], [[1, 2, 3]])
    """
    if causal and queries > keys:
        raise ValueError(
            f"causal: {queries} queries cannot stand at the end of {keys} keys; "
            "give causal=False for cross-attention"
        )
    if window is not None and window < 1:
        raise ValueError(f"window: expected at least 1 key (the query itself), got {window}")
    result = _regular(queries, keys, causal, window)
    if torch.device(device).type != "cpu":
        first, end, origin = (x.to(device) for x in (result.first, result.end, result.origin))
        result = Spans(first, end, origin, keys)
    if documents is None:
        return result
    return result.restrict(_document_spans(queries, keys, documents.to(device)))


@functools.lru_cache(maxsize=8)
def _regular(queries: int, keys: int, causal: bool, window: int | None) -> Spans:
    """Spans without documents, made once for all layers of a forward; nobody writes to them."""
    position = np.arange(keys - queries, keys, dtype=np.int64)[None]
    first, end = np.zeros_like(position), np.full_like(position, keys)
    if causal:
        end = position + 1
    if window is not None:
        first = np.maximum(position - (window - 1), 0)
        end = end if causal else np.minimum(position + window, keys)
    origin = np.zeros_like(position)
    one, two, three = (torch.from_numpy(x.astype(np.int32)) for x in (first, end, origin))
    return Spans(one, two, three, keys)


def _document_spans(queries: int, keys: int, documents: torch.Tensor) -> Spans:
    """Where each query's document begins and ends, [B, T]."""
    ids = documents[None] if documents.ndim == 1 else documents
    if ids.ndim != 2 or ids.shape[1] != keys or ids.dtype.is_floating_point:
        raise ValueError(
            f"documents: expected integers of shape [B, {keys}] (one id per key), got "
            f"{list(documents.shape)} {documents.dtype}"
        )
    change = torch.ones_like(ids, dtype=torch.bool)
    change[:, 1:] = ids[:, 1:] != ids[:, :-1]
    for row, starts in zip(ids.tolist(), change.tolist(), strict=True):
        begun = [name for name, start in zip(row, starts, strict=True) if start and name >= 0]
        if len(begun) != len(set(begun)):
            twice = next(name for name in begun if begun.count(name) > 1)
            raise ValueError(
                f"documents: document {twice} stands in several pieces; sort its tokens together "
                "or give a mask function instead"
            )
    place = torch.arange(keys, dtype=torch.int32, device=ids.device).expand_as(ids)
    first = torch.where(change, place, 0).cummax(dim=1).values
    last_of_piece = torch.ones_like(change)
    last_of_piece[:, :-1] = change[:, 1:]
    end = torch.where(last_of_piece, place + 1, keys).flip(1).cummin(dim=1).values.flip(1)
    end = torch.where(ids < 0, 0, end)
    rows = slice(keys - queries, keys)
    first, end = first[:, rows].to(torch.int32), end[:, rows].to(torch.int32)
    return Spans(first, end, first, keys)


def as_spans(
    mask: MaskFunction | torch.Tensor,
    queries: int,
    keys: int,
    *,
    batch: int,
    heads: int = 1,
    device: torch.device | str = "cpu",
) -> Spans | None:
    """Read a boolean mask or a mask function as spans, or None where a row is not one interval.

    Heads must agree: a mask that differs between heads gives None.

    Args:
        mask: bool broadcastable to [B, H, T, S] (True: may see), or `f(b, h, i, j)`.
        heads: how many heads a mask function is asked for.
        device: where the spans, and the positions given to a mask function, are wanted.

    Cost: T x S comparisons (times the heads, if a mask function looks at them), a few rows at a
    time; memory O(S).
    """
    firsts, ends = [], []
    height = max(1, (1 << 20) // max(keys, 1))
    for start in range(0, queries, height):
        rows = slice(start, min(start + height, queries))
        seen = mask_rows(mask, rows, queries, keys, batch=batch, heads=heads, device=device)
        if seen.shape[1] != 1 and not bool((seen == seen[:, :1]).all()):
            return None
        first, end, whole = _interval(seen[:, 0])
        if not whole:
            return None
        firsts.append(first.to(device))
        ends.append(end.to(device))
    if not firsts:
        nothing = torch.zeros(1, 0, dtype=torch.int32, device=device)
        return Spans(nothing, nothing, nothing, keys)
    first, end = torch.cat(firsts, dim=1), torch.cat(ends, dim=1)
    empty = end <= first
    # A query at position i that sees [f, i] under a window has its document's start at or before f.
    # Without knowing the documents, the smallest first key of the batch row is the honest origin.
    origin = torch.where(empty, keys, first).min(dim=1, keepdim=True).values.expand_as(first)
    return Spans(first, end, origin.clamp(max=keys).to(torch.int32), keys)


def _interval(seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """First and end of the keys in sight, rows [B, t, S], and whether none between is hidden."""
    keys = seen.shape[-1]
    if keys == 0:
        nothing = torch.zeros(seen.shape[:-1], dtype=torch.int32, device=seen.device)
        return nothing, nothing, True
    count = seen.sum(dim=-1, dtype=torch.int32)
    first = seen.to(torch.uint8).argmax(dim=-1).to(torch.int32)
    last = keys - 1 - seen.flip(-1).to(torch.uint8).argmax(dim=-1).to(torch.int32)
    end = torch.where(count > 0, last + 1, first)
    return first, end, torch.equal(end - first, count)


def mask_rows(
    mask: MaskFunction | torch.Tensor,
    rows: slice,
    queries: int,
    keys: int,
    *,
    batch: int,
    heads: int,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """The rows of a mask as bool [B or 1, H or 1, t, S].

    Args:
        rows: which queries; its start and stop are numbers.
        heads: how many heads a function is asked for; it may answer for all at once (axis of 1).
    """
    height = rows.stop - rows.start
    if isinstance(mask, torch.Tensor):
        while mask.ndim < 4:
            mask = mask[None]
        part = mask if mask.shape[-2] == 1 else mask[..., rows, :]
        return part.expand(*part.shape[:2], height, keys)
    b = torch.arange(batch, device=device).view(-1, 1, 1, 1)
    h = torch.arange(heads, device=device).view(1, -1, 1, 1)
    shift = keys - queries
    i = torch.arange(shift + rows.start, shift + rows.stop, device=device).view(1, 1, -1, 1)
    j = torch.arange(keys, device=device).view(1, 1, 1, -1)
    seen = mask(b, h, i, j)
    while seen.ndim < 4:
        seen = seen[None]
    return seen.expand(*seen.shape[:2], height, keys)
