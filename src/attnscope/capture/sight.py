"""From the mask that a call carries to the keys that each query sees.

The idea: whatever the mask is (one of ours, a boolean or additive tensor, or none at all), it
becomes an interval per query where it can, a boolean mask where it cannot, and a bias where it
holds numbers.

Shapes
    spans [B or 1, T]; mask bool [B or 1, H or 1, T, S]; bias [B or 1, H or 1, T, S].

Not here: keywords (keywords.py), sequences within a batch (watch.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from attnscope.capture.compact import CompactMask, Described
from attnscope.capture.keywords import Meaning
from attnscope.core.masks import Spans, as_spans, spans
from attnscope.errors import UnsupportedModelError


@dataclass(frozen=True)
class Sight:
    """Which keys the queries of one call see, and what is added to their scores.

    Attributes:
        keys: how many of the keys take part; a static cache may hold more.
        spans: an interval per query, in local key numbers.
        mask: a further restriction, or None.
        bias: added to the scores, or None.
        described: the pattern's name.
    """

    keys: int
    spans: Spans
    mask: torch.Tensor | None
    bias: torch.Tensor | None
    described: Described


class Masks:
    """Remembers what a mask tensor meant, because all layers of one kind share it."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Sight]] = {}

    def forget(self) -> None:
        """Drop everything; a new forward has new masks."""
        self._known.clear()

    def note(self, mask: torch.Tensor, compact: CompactMask) -> None:
        """Remember that this tensor says the same as a mask of ours."""
        if compact.spans is not None:
            sight = Sight(compact.spans.keys, compact.spans, None, None, compact.described)
            self._known[_name(mask)] = (mask, sight)

    def sight(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        mask: torch.Tensor | None,
        meaning: Meaning,
        *,
        none_is_causal: bool = True,
    ) -> Sight:
        """What a call sees.

        Args:
            none_is_causal: whether a missing mask leaves causality to `is_causal`, as SDPA does;
                eager functions take a missing mask as none.

        Raises:
            UnsupportedModelError: a mask of a shape that does not fit the call.
        """
        if mask is None:
            found = _without_mask(q, k, meaning, none_is_causal)
        elif isinstance(mask, CompactMask) and mask.spans is not None:
            found = Sight(mask.spans.keys, mask.spans, None, None, mask.described)
        else:
            found = self._tensor(q, k, mask)
        if found.keys != found.spans.keys or found.keys > k.shape[2]:
            raise UnsupportedModelError(
                f"the mask is for {found.spans.keys} keys, and the call has {k.shape[2]}."
            )
        if meaning.indices is not None:
            found = _selected(found, q, meaning.indices)
        if meaning.bias is not None:
            bias = meaning.bias[..., : found.keys]
            found = replace(found, bias=bias if found.bias is None else found.bias + bias)
        return replace(found, described=_named(found, q, meaning))

    def _tensor(self, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> Sight:
        name = (_name(mask), q.shape[2], k.shape[2])
        if name[0] in self._known:
            return self._known[name[0]][1]
        if name not in self._known:
            plain = mask.dense() if isinstance(mask, CompactMask) else mask
            self._known[name] = (mask, _read_tensor(q, k, plain))
        return self._known[name][1]


def _name(mask: torch.Tensor) -> Any:
    if isinstance(mask, CompactMask):
        return ("compact", id(mask))
    return (mask.data_ptr(), tuple(mask.shape), mask.stride(), mask.dtype)


def _without_mask(
    q: torch.Tensor, k: torch.Tensor, meaning: Meaning, none_is_causal: bool
) -> Sight:
    """SDPA's rule: causal from the upper left, one query sees all."""
    T, S = q.shape[2], k.shape[2]
    causal = none_is_causal and meaning.causal and T > 1
    keys = min(T, S) if causal else S
    seen = spans(T, keys, causal=causal, device=q.device)
    return Sight(keys, seen, None, None, Described(causal=causal or meaning.causal))


def _read_tensor(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> Sight:
    T, S = q.shape[2], k.shape[2]
    while mask.ndim < 4:
        mask = mask[None]
    mask = mask[..., :S]
    if mask.shape[-1] != S or mask.shape[-2] not in (1, T):
        raise UnsupportedModelError(
            f"a mask of shape {list(mask.shape)} does not fit {T} queries and {S} keys."
        )
    bias = None
    if mask.dtype == torch.bool:
        seen = mask
    elif mask.dtype.is_floating_point:
        hidden = mask <= torch.finfo(mask.dtype).min / 2
        seen = ~hidden
        rest = mask.masked_fill(hidden, 0.0)
        bias = rest if bool(rest.any()) else None
    else:
        raise UnsupportedModelError(f"a mask of {mask.dtype} has no meaning here.")
    if seen.shape[-2] != T:
        seen = seen.expand(*seen.shape[:2], T, S)
    found = as_spans(seen, T, S, batch=q.shape[0], device=q.device)
    if found is None:
        causal = T <= S and not bool(seen.flatten(0, 1).any(dim=0).triu(S - T + 1).any())
        around = spans(T, S, causal=causal, device=q.device)
        return Sight(S, around, seen, bias, Described("other", causal=causal))
    return Sight(S, found, None, bias, Described("unknown", causal=False))


def _selected(sight: Sight, q: torch.Tensor, indices: torch.Tensor) -> Sight:
    """Only the keys that an indexer chose for each query, integer [B, T, n] or [B, h, T, n]."""
    chosen = indices if indices.ndim == 4 else indices[:, None]
    heads = chosen.shape[1]
    shape = (q.shape[0], heads, q.shape[2], sight.keys)
    valid = (chosen >= 0) & (chosen < sight.keys)
    seen = torch.zeros(shape, dtype=torch.uint8, device=q.device)
    seen.scatter_add_(-1, chosen.clamp(0, sight.keys - 1).long(), valid.to(torch.uint8))
    mask = seen > 0
    if sight.mask is not None:
        mask = mask & sight.mask
    return replace(sight, mask=mask, described=Described("sparse", causal=True))


def _named(sight: Sight, q: torch.Tensor, meaning: Meaning) -> Described:
    """The pattern's name, where it has to be found out from the intervals."""
    T, S = q.shape[2], sight.keys
    i = torch.arange(S - T, S, device=sight.spans.end.device)
    causal = bool((sight.spans.end <= i + 1).all())
    said = sight.described
    if said.kind != "unknown":
        return replace(said, causal=causal or (said.causal and T == 1))
    width = int((sight.spans.end - sight.spans.first).max()) if T else 0
    window = meaning.window
    if window is not None and width <= window and causal:
        return Described("sliding", int(window), True)
    windowed = causal and T > 1 and 0 < width < T
    start = torch.maximum(sight.spans.origin, i - width + 1)
    if windowed and bool((sight.spans.first == start)[sight.spans.end > sight.spans.first].all()):
        return Described("sliding", width, True)
    return Described("full", None, causal)
