"""What one layer did to one sequence: pieces as they come, arrays as a trace wants them.

The idea: a prefill is one piece; every decoded step is one more, with a query row and the key that
came with it. All numbers of positions count from the sequence's first token, so that padding before
it and keys that a sliding cache has dropped leave no trace in the record.

Shapes
    of a piece: q [H, t, D]; k [G, t', D], the keys that are new; statistics [H, t];
    received [H, s] for the keys from `at`.

Not here: computing them (watch.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import torch

from attnscope.capture.rotation import Turning
from attnscope.core.attend import attend
from attnscope.core.masks import Spans
from attnscope.core.problem import PooledMap
from attnscope.core.request import Request
from attnscope.errors import UnsupportedModelError

MOST_BIAS: Final = 2 << 30
"""Bytes of a bias [H, T, S] that a trace holds at most."""


@dataclass
class Piece:
    """Some query rows of one layer and one sequence.

    Attributes:
        start: the first row's number.
        q, k, norms: None where queries and keys are not kept.
        first, end, origin: int32 [t], numbers of keys.
        statistics: by name, [H, t]; `received` apart.
        received: [H, s] for the keys from `at`, or None.
        map: the pooled map of these rows, or None.
        mask, bias: [1 or H, t, s] for the keys from `at`, or None.
    """

    start: int
    rows: int
    at: int
    q: torch.Tensor | None
    k: torch.Tensor | None
    norms: torch.Tensor | None
    first: torch.Tensor
    end: torch.Tensor
    origin: torch.Tensor
    statistics: dict[str, torch.Tensor]
    received: torch.Tensor | None = None
    map: PooledMap | None = None
    mask: torch.Tensor | None = None
    bias: torch.Tensor | None = None


@dataclass
class LayerRecord:
    """One layer and one sequence.

    Attributes:
        index: the layer's number in the model.
        about: its fields in trace.json.
        sinks: learned logits [H], or None.
        turning: how queries and keys were turned by their positions, or None where unknown.
    """

    index: int
    about: dict[str, Any]
    sinks: torch.Tensor | None = None
    turning: Turning | None = None
    pieces: list[Piece] = field(default_factory=list)

    def cut(self, tokens: int) -> LayerRecord:
        """The same without rows from `tokens` on; later pieces are single rows and go whole."""
        kept = [piece for piece in self.pieces if piece.start + piece.rows <= tokens]
        return replace(self, pieces=kept)

    def arrays(self, *, pool: bool = False) -> dict[str, np.ndarray]:
        """Everything that trace.format.ARRAYS names.

        Args:
            pool: whether a pooled map is wanted where the pieces hold none together.
        """
        pieces = self.pieces
        if any(piece.q is None for piece in pieces):
            raise ValueError("queries and keys were not kept, so there is no trace of them")
        q, k = _joined(pieces, "q", 1), _joined(pieces, "k", 1)
        S = k.shape[1]
        arrays = {"q": as_numpy(q), "k": as_numpy(k)}
        for name in ("first", "end", "origin"):
            joined = torch.cat([getattr(piece, name) for piece in pieces])
            arrays[name] = as_numpy(joined.clamp(0, S).to(torch.int32))
        for name in pieces[0].statistics:
            parts = [piece.statistics[name] for piece in pieces]
            arrays[name] = as_numpy(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
        if pieces[0].received is not None:
            arrays["received"] = self._received(S)
        if all(piece.norms is not None for piece in pieces):
            arrays["value_norms"] = as_numpy(_joined(pieces, "norms", 1))
        if self.sinks is not None:
            arrays["sinks"] = as_numpy(self.sinks.detach().float())
        if self.turning is not None:
            arrays |= self.turning.arrays(S)
        arrays |= self._mask(S) | self._bias(S)
        if pool:
            arrays |= self._map(q, k, arrays)
        return arrays

    def _received(self, keys: int) -> np.ndarray:
        first = self.pieces[0].received
        assert first is not None
        total = torch.zeros(first.shape[0], keys, dtype=torch.float64)
        for piece in self.pieces:
            assert piece.received is not None
            total[:, piece.at : piece.at + piece.received.shape[1]] += piece.received.cpu()
        return as_numpy(total.to(first.dtype))

    def _spread(self, name: str, keys: int, fill: float | bool) -> torch.Tensor | None:
        """Pieces of [1 or H, t, s] on the whole [1 or H, T, S]."""
        parts = [getattr(piece, name) for piece in self.pieces]
        if all(part is None for part in parts):
            return None
        given = next(part for part in parts if part is not None)
        rows = sum(piece.rows for piece in self.pieces)
        whole = torch.full((given.shape[0], rows, keys), fill, dtype=given.dtype)
        begin = self.pieces[0].start
        for piece, part in zip(self.pieces, parts, strict=True):
            at = slice(piece.start - begin, piece.start - begin + piece.rows)
            if part is None:  # every key of the interval is in sight; nothing is added
                whole[:, at] = fill
            else:
                whole[:, at, piece.at : piece.at + part.shape[-1]] = part.cpu()
        return whole

    def _mask(self, keys: int) -> dict[str, np.ndarray]:
        mask = self._spread("mask", keys, True)
        if mask is None:
            return {}
        if not bool((mask == mask[:1]).all()):
            raise UnsupportedModelError(
                f"layer {self.index}: its heads see different keys, which a trace does not hold."
            )
        return {"mask": np.packbits(mask[0].numpy(), axis=-1)}

    def _bias(self, keys: int) -> dict[str, np.ndarray]:
        bias = self._spread("bias", keys, 0.0)
        if bias is None:
            return {}
        heads, rows = int(self.about["query_heads"]), bias.shape[1]
        bias = bias.float().expand(heads, rows, keys)
        by_offset = _by_offset(bias)
        if by_offset is not None:
            return {"bias_by_offset": as_numpy(by_offset)}
        if bias.numel() * 4 > MOST_BIAS:
            raise UnsupportedModelError(
                f"layer {self.index}: its position bias takes {bias.numel() * 4 / 2**30:.1f} GiB; "
                "a trace holds up to 2 GiB per layer."
            )
        return {"bias": as_numpy(bias.contiguous())}

    def _map(self, q: torch.Tensor, k: torch.Tensor, arrays: dict[str, Any]) -> dict[str, Any]:
        pooled = self.pieces[0].map if len(self.pieces) == 1 else self._pooled(q, k, arrays)
        if pooled is None:
            return {}
        planes = {
            "map_mean": pooled.mean,
            "map_max": pooled.max,
            "map_argmax": pooled.argmax,
        }
        result = {name: as_numpy(p[0] if p.ndim == 4 else p) for name, p in planes.items()}
        return result | {"map_cell": np.array([pooled.cell], np.int32)}

    def _pooled(self, q: torch.Tensor, k: torch.Tensor, arrays: dict[str, Any]) -> PooledMap | None:
        """The map of a record that came in pieces: one more pass over its queries and keys."""
        first, end, origin = (
            torch.from_numpy(arrays[name])[None].to(q.device) for name in ("first", "end", "origin")
        )
        spans = Spans(first, end, origin, k.shape[1])
        bias = self._spread("bias", k.shape[1], 0.0)
        mask = self._spread("mask", k.shape[1], True)
        if mask is not None:
            shape = (1, 1, q.shape[1], k.shape[1])
            mask = (mask[None] & spans.visible()).expand(shape)
        result = attend(
            q[None], k[None], torch.zeros_like(k[None, ..., :1]),
            scale=self.about["scale"], causal=False, mask=spans if mask is None else mask,
            bias=None if bias is None else bias[None], softcap=self.about["softcap"],
            sinks=self.sinks, statistics=Request((), pool=True),
        )  # fmt: skip
        return result.map


def _joined(pieces: list[Piece], name: str, axis: int) -> torch.Tensor:
    parts = [getattr(piece, name) for piece in pieces]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=axis)


def _by_offset(bias: torch.Tensor) -> torch.Tensor | None:
    """[H, T + S - 1] where the bias depends on key minus query alone, else None."""
    heads, T, S = bias.shape
    offsets = torch.cat([bias[:, 1:, 0].flip(1), bias[:, 0]], dim=1)  # from -(T - 1) to S - 1
    place = torch.arange(S) - torch.arange(T)[:, None] + T - 1
    for head in range(heads):
        if not torch.equal(offsets[head][place], bias[head]):
            return None
    return offsets.contiguous()


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A numpy view of a tensor; the bits of a bfloat16 as uint16."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()
