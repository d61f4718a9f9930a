"""One call of an attention function, and the parts of it that belong to one sequence.

The idea: a batch is cut into sequences by plain slices of rows and keys; whatever describes the
call (intervals, masks, biases) is cut the same way, so that `attend` sees one sequence as if alone.

Shapes
    q [B, H, T, D]; k [B, G, S, D]; v [B, G, S, E].
    The call's query r is token `total - T + r` of its batch row, its key j token `total - S + j`.

Not here: what is kept of a call (watch.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from attnscope.capture.keywords import Meaning
from attnscope.capture.sight import Sight
from attnscope.core.attend import attend
from attnscope.core.masks import Spans
from attnscope.core.problem import Attention
from attnscope.core.request import Request
from attnscope.errors import UnsupportedModelError


@dataclass(frozen=True)
class Sequence:
    """Where one sequence stands: batch row, first token, and one past its last (None: open)."""

    batch: int
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class Call:
    """One call of an attention function, with everything read.

    Attributes:
        mask, keywords: as the model gave them.
        total: tokens of each batch row so far, those of this call included.
    """

    module: torch.nn.Module
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None
    sight: Sight
    meaning: Meaning
    keywords: dict[str, Any]
    total: int


@dataclass(frozen=True)
class Cut:
    """One sequence's part of a call, or a whole batch of them: rows and keys count within the call.

    Attributes:
        batch: the batch rows.
        start: the batch row's token that is the sequence's first.
    """

    batch: slice
    start: int
    rows: tuple[int, int]
    keys: tuple[int, int]

    @property
    def size(self) -> tuple[int, int]:
        """How many rows and keys."""
        return self.rows[1] - self.rows[0], self.keys[1] - self.keys[0]


def cut_of(call: Call, place: Sequence) -> Cut:
    """A sequence's rows and keys within a call."""
    T, S = call.q.shape[2], call.sight.keys
    stop = call.total if place.stop is None else min(place.stop, call.total)
    rows = (max(0, place.start - (call.total - T)), max(0, stop - (call.total - T)))
    keys = (max(0, place.start - (call.total - S)), max(0, stop - (call.total - S)))
    return Cut(slice(place.batch, place.batch + 1), place.start, rows, keys)


def check_contained(call: Call, cut: Cut, model: str) -> None:
    """A sequence must see nothing but itself."""
    spans, mask = call.sight.spans, call.sight.mask
    b = cut.batch.start if spans.first.shape[0] > 1 else 0
    rows = slice(*cut.rows)
    first, end = spans.first[b, rows], spans.end[b, rows]
    outside = ((first < cut.keys[0]) | (end > cut.keys[1])) & (end > first)
    if mask is not None and bool(outside.any()):
        part = mask[min(cut.batch.start, mask.shape[0] - 1), :, rows]
        outside = part[..., : cut.keys[0]].any() | part[..., cut.keys[1] :].any()
    if bool(outside.any()):
        raise UnsupportedModelError(
            f"{model}: its mask does not keep the packed sequences (or the padding) apart; "
            "give the sequences one by one."
        )


def attend_call(
    qkv: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    sight: Sight,
    meaning: Meaning,
    request: Request,
) -> Attention:
    """`attend` with everything that a call says."""
    mask: Any = sight.spans
    if sight.mask is not None:
        mask = sight.mask & sight.spans.visible()
    return attend(
        *qkv,
        scale=meaning.scale, causal=False, mask=mask, bias=sight.bias, softcap=meaning.softcap,
        sinks=meaning.sinks, statistics=request,
    )  # fmt: skip


def sight_of(call: Call, cut: Cut) -> Sight:
    """The sight of one sequence.

    Where a cache has dropped the sequence's first keys, a mask of the others cannot say where it
    began; we know, and `sink_mass` counts from there.
    """
    sight = part(call.sight, cut)
    oldest = call.total - call.sight.keys + cut.keys[0]
    if oldest <= cut.start:
        return sight
    origin = torch.full_like(sight.spans.first, cut.start - oldest)
    return replace(sight, spans=replace(sight.spans, origin=origin))


def part(sight: Sight, cut: Cut) -> Sight:
    """The sight of some batch rows, query rows and keys."""
    spans = sight.spans
    b = cut.batch if spans.first.shape[0] > 1 else slice(None)
    rows, n = slice(*cut.rows), cut.size[1]
    first = (spans.first[b, rows] - cut.keys[0]).clamp(0, n)
    end = (spans.end[b, rows] - cut.keys[0]).clamp(0, n)
    return replace(
        sight,
        keys=n,
        spans=Spans(first, end, spans.origin[b, rows] - cut.keys[0], n),
        mask=part_of(sight.mask, cut),
        bias=part_of(sight.bias, cut),
    )


def part_of(tensor: torch.Tensor | None, cut: Cut) -> torch.Tensor | None:
    """The same of a tensor that broadcasts to [B, H, T, S]."""
    if tensor is None:
        return None
    while tensor.ndim < 4:
        tensor = tensor[None]
    if tensor.shape[0] > 1:
        tensor = tensor[cut.batch]
    if tensor.shape[2] > 1:
        tensor = tensor[:, :, slice(*cut.rows)]
    else:
        tensor = tensor.expand(-1, -1, cut.size[0], -1)
    return tensor[..., slice(*cut.keys)] if tensor.shape[3] > 1 else tensor


def shifted(sight: Sight) -> Sight:
    """The same with one more key in front that nobody sees."""
    spans = sight.spans
    moved = Spans(spans.first + 1, spans.end + 1, spans.origin + 1, spans.keys + 1)
    mask = None if sight.mask is None else torch.nn.functional.pad(sight.mask, (1, 0), value=False)
    bias = None if sight.bias is None else torch.nn.functional.pad(sight.bias, (1, 0))
    return replace(sight, keys=sight.keys + 1, spans=moved, mask=mask, bias=bias)


def unshifted(result: Attention, shift: int) -> Attention:
    """Take the keys that `shifted` added out of a result again."""
    statistics = dict(result.statistics)
    if "argmax" in statistics:
        where = statistics["argmax"]
        statistics["argmax"] = torch.where(where < 0, where, where - shift)
    if "received" in statistics:
        statistics["received"] = statistics["received"][..., shift:]
    rows = None if result.rows is None else result.rows[..., shift:]
    return replace(result, statistics=statistics, rows=rows)


def check_counts(model: str, q: torch.Tensor, k: torch.Tensor, *, new: int, total: int) -> None:
    """Whether a call's queries and keys are the forward's tokens."""
    if q.shape[2] != new or k.shape[2] > total:
        raise UnsupportedModelError(
            f"{model}: its attention has {q.shape[2]} queries and {k.shape[2]} keys for "
            f"{new} new tokens of {total}; they are not tokens, so a map of tokens "
            "cannot be drawn."
        )


def about_call(call: Call, name: str) -> dict[str, Any]:
    """The layer's fields of trace.json, from its first call; `name` is the module's."""
    said = call.sight.described
    D = call.q.shape[-1]
    softcap = call.meaning.softcap
    return {
        "kind": said.kind,
        "name": name,
        "window": said.window if said.kind == "sliding" else None,
        "query_heads": call.q.shape[1],
        "kv_heads": call.k.shape[1],
        "head_width": D,
        "value_width": call.v.shape[-1],
        "scale": D**-0.5 if call.meaning.scale is None else float(call.meaning.scale),
        "softcap": None if softcap is None else float(softcap),
        "causal": said.causal,
    }
