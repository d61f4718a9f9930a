"""The masks that transformers asks for, in memory that grows with T and not with T x S.

The idea: transformers describes a mask by a function of two positions and then evaluates it on all
pairs. The functions in use are known by name, so the interval of keys that each query sees can be
written down, and a few rows of the function are evaluated to make sure. What the model gets is a
tensor without memory of its own; if it does anything with it but hand it on, it turns into the
real boolean mask at that moment, so every model sees what it would have seen.

Shapes
    a mask is bool [B, 1, T, S] (True: may see); its query r stands at position q_offset + r and its
    key j at position kv_offset + j of the sequence.

Not here: who is asked for a mask, and when (interface.py); intervals themselves (core.masks).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from attnscope.core.masks import Spans, as_spans

_SAMPLED: Final = 9
"""Rows of the mask function that are evaluated to confirm an interval read off its name."""

_PROPERTIES: Final = ("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_meta")
_QUESTIONS: Final = frozenset(
    {
        *(getattr(torch.Tensor, name).__get__ for name in _PROPERTIES),
        torch.Tensor.dim,
        torch.Tensor.size,
        torch.Tensor.numel,
        torch.Tensor.__len__,
        torch.Tensor.is_floating_point,
    }
)
"""What may be asked of a mask without its values."""


@dataclass(frozen=True)
class Described:
    """What a mask function says, beside the intervals.

    Attributes:
        kind: "full", "sliding", "chunked" or "other".
        window: keys that a query sees at most, itself included, for "sliding".
        causal: whether a query is blind to later keys.
    """

    kind: str = "full"
    window: int | None = None
    causal: bool = True


class CompactMask(torch.Tensor):
    """A boolean mask [B, 1, T, S] that holds O(T) numbers until somebody needs more.

    Attributes:
        spans: the interval of each query, or None where a row is not one interval.
        described: the pattern's name and window.
    """

    spans: Spans | None
    described: Described
    _rows: Callable[[torch.Tensor], torch.Tensor]

    @staticmethod
    def make(
        shape: tuple[int, int, int, int],
        rows: Callable[[torch.Tensor], torch.Tensor],
        spans: Spans | None,
        described: Described,
        device: torch.device | str = "cpu",
    ) -> CompactMask:
        """A mask of this shape.

        Args:
            rows: gives bool [B, 1, t, S] for t row numbers, by the model's own mask function.
        """
        blank = torch.ones((), dtype=torch.bool, device=device).expand(shape)
        mask: CompactMask = blank.as_subclass(CompactMask)
        mask.spans, mask.described, mask._rows = spans, described, rows
        return mask

    def rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Some rows as the model's own mask function has them, bool [B, 1, t, S]."""
        return self._rows(rows)

    def dense(self) -> torch.Tensor:
        """The real mask, bool [B, 1, T, S]."""
        with torch._C.DisableTorchFunctionSubclass():
            queries, device = self.shape[2], self.device
        if self.spans is not None:
            return self.spans.visible()
        return self._rows(torch.arange(queries, device=device))

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # Called by torch for every operation on a mask.
        kwargs = kwargs or {}
        if func in _QUESTIONS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if func is torch.Tensor.__getitem__ and _is_whole(args[0], args[1]):
            return args[0]
        return func(*_plain(args), **_plain(kwargs))


def _plain(value: Any) -> Any:
    """The same with every compact mask made real."""
    if isinstance(value, CompactMask):
        return value.dense().expand(value.shape)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(part) for part in value)
    return value


def _is_whole(mask: CompactMask, index: Any) -> bool:
    """Whether an index takes all of a mask, as models do to fit it to their keys."""
    if not isinstance(index, tuple) or len(index) > 4:
        return False
    return all(
        part is Ellipsis
        or (
            isinstance(part, slice)
            and part.start in (None, 0)
            and part.step in (None, 1)
            and (part.stop is None or part.stop == size)
        )
        for part, size in zip(index, mask.shape, strict=False)
    ) and (Ellipsis not in index)


def compact_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., torch.Tensor] | None = None,
    attention_mask: torch.Tensor | None = None,
    *,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **_: Any,
) -> CompactMask:
    """The mask function that is registered with transformers; its arguments are theirs.

    Never None: where SDPA would do without a mask, this one costs nothing, and an attention
    function that gets None knows that nobody asked for a mask.
    """
    from transformers import masking_utils as theirs

    function = mask_function or theirs.causal_mask_function
    padding = theirs.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    padded = padding is not None and not bool(padding.all())
    if padding is not None and padded:
        whole = theirs.and_masks(function, theirs.padding_mask_function(padding))
    else:
        whole = function
    q_offset = int(q_offset)
    shape = (batch_size, 1, q_length, kv_length)

    def rows(wanted: torch.Tensor) -> torch.Tensor:
        b, h = torch.arange(batch_size, device=device), torch.arange(1, device=device)
        i, j = wanted + q_offset, torch.arange(kv_length, device=device) + kv_offset
        if use_vmap:
            with theirs.TransformGetItemToIndex():
                return theirs._vmap_expansion_sdpa(whole)(b, h, i, j).expand(-1, 1, -1, -1)
        seen = whole(*theirs._non_vmap_expansion_sdpa(b, h, i, j))
        return seen.expand(batch_size, 1, len(wanted), kv_length)

    place = _Place(batch_size, q_length, kv_length, q_offset, kv_offset, torch.device(device))
    found = None if use_vmap else _read(function, place)
    spans, described = None, Described("other", causal=False)
    if found is not None:
        spans, described = found
        if padding is not None and padded:
            spans = _without_padding(spans, padding, place)
        if spans is not None and not _confirmed(spans, rows, q_length):
            spans = None
    if spans is None:
        spans = _measured(rows, place)
    return CompactMask.make(shape, rows, spans, described, device)


@dataclass(frozen=True)
class _Place:
    """Where a mask stands."""

    batch: int
    queries: int
    keys: int
    q_offset: int
    kv_offset: int
    device: torch.device

    def i(self) -> torch.Tensor:
        """Each query's own place among the keys, int32 [1, T]."""
        shift = self.q_offset - self.kv_offset
        return torch.arange(shift, shift + self.queries, dtype=torch.int32, device=self.device)[
            None
        ]

    def interval(self, first: torch.Tensor, end: torch.Tensor, origin: torch.Tensor) -> Spans:
        """Spans, cut to the keys that exist."""
        origin = origin.expand_as(first).to(torch.int32)
        first, end = first.clamp(0, self.keys), end.clamp(0, self.keys)
        return Spans(first.to(torch.int32), end.to(torch.int32), origin, self.keys)


def _read(function: Callable[..., Any], place: _Place) -> tuple[Spans, Described] | None:
    """The intervals of a mask function of transformers, by its name; None if it is not known."""
    name = getattr(function, "__qualname__", "").split(".")[0]
    i = place.i()
    start = torch.zeros_like(i) - place.kv_offset
    if name == "causal_mask_function":
        return place.interval(start, i + 1, start), Described()
    if name == "bidirectional_mask_function":
        end = torch.full_like(i, place.keys)
        return place.interval(start, end, start), Described(causal=False)
    held = _closure(function)
    if name == "sliding_window_overlay":
        window = int(held["sliding_window"])
        end = torch.full_like(i, place.keys)
        return place.interval(i - window + 1, end, start), Described("sliding", window, False)
    if name == "sliding_window_bidirectional_overlay":
        window = int(held["sliding_window"])  # theirs is a distance; the query itself adds one
        said = Described("sliding", window + 1, False)
        return place.interval(i - window, i + window + 1, start), said
    if name == "chunked_overlay":
        left = held["left_padding"].to(place.device).view(-1, 1).to(torch.int32)
        chunk = int(held["chunk_size"])
        position = i + place.kv_offset
        begin = (position - left).div(chunk, rounding_mode="floor") * chunk + left
        begin = begin - place.kv_offset
        return place.interval(begin, begin + chunk, start), Described("chunked", chunk, False)
    if name == "packed_sequence_mask_function":
        return _read_packed(held["packed_sequence_mask"], place)
    if name == "remap_positions_for_packed_sequence":
        # Within one packed sequence positions rise by one, so causal and window stay as they are;
        # between two of them the packed mask, which always comes along, hides everything.
        return _read(held["mask_function"], place)
    if name == "and_masks":
        return _read_all(held["mask_functions"], place)
    return None


def _closure(function: Any) -> dict[str, Any]:
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


def _read_all(functions: tuple[Any, ...], place: _Place) -> tuple[Spans, Described] | None:
    """Several at once: the intersection."""
    spans: Spans | None = None
    kind, window, causal = "full", None, False
    for function in functions:
        found = _read(function, place)
        if found is None:
            return None
        one, said = found
        spans = one if spans is None else spans.restrict(one)
        causal = causal or said.causal
        if said.kind != "full":
            kind, window = said.kind, said.window
    return None if spans is None else (spans, Described(kind, window, causal))


def _read_packed(ids: torch.Tensor, place: _Place) -> tuple[Spans, Described] | None:
    """Sequences side by side; numbered from 0 upwards, without gaps."""
    if ids.shape[-1] != place.keys or place.queries != place.keys:
        return None
    ids = ids.to(place.device).contiguous()
    first = torch.searchsorted(ids, ids, side="left")
    end = torch.searchsorted(ids, ids, side="right")
    return place.interval(first, end, first), Described(causal=False)


def _without_padding(spans: Spans, padding: torch.Tensor, place: _Place) -> Spans | None:
    """The same where the keys not in `padding` are hidden; None where they lie in between."""
    real = padding[:, place.kv_offset : place.kv_offset + place.keys].to(place.device)
    count = real.sum(-1, keepdim=True)
    first = real.to(torch.uint8).argmax(-1, keepdim=True)
    last = place.keys - real.flip(-1).to(torch.uint8).argmax(-1, keepdim=True)
    if not bool(((last - first == count) | (count == 0)).all()):
        return None
    last = torch.where(count == 0, first, last)
    size = (real.shape[0], place.queries)
    # a cache may have dropped the first token already; its place then counts from before the keys
    begin = padding.to(place.device).to(torch.uint8).argmax(-1, keepdim=True) - place.kv_offset
    first, last, begin = (x.to(torch.int32).expand(size) for x in (first, last, begin))
    return spans.restrict(Spans(first, last, begin, place.keys))


def _confirmed(spans: Spans, rows: Callable[[torch.Tensor], torch.Tensor], queries: int) -> bool:
    """Whether sampled rows of the mask function are these intervals."""
    if queries == 0:
        return True
    device = spans.first.device
    sample = torch.linspace(0, queries - 1, min(_SAMPLED, queries), device=device).round().long()
    seen = rows(sample)
    key = torch.arange(spans.keys, device=device)
    first, end = spans.first[:, sample, None], spans.end[:, sample, None]
    said = ((key >= first) & (key < end))[:, None]
    return torch.equal(said.expand_as(seen), seen)


def _measured(rows: Callable[[torch.Tensor], torch.Tensor], place: _Place) -> Spans | None:
    """Intervals by looking at every pair, a band of rows at a time."""
    shift = place.keys - place.queries

    def seen(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return rows(i.flatten() - shift)

    return as_spans(seen, place.queries, place.keys, batch=place.batch, device=place.device)
