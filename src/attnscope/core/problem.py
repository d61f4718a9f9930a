"""The front of `attend`: arguments are checked and brought to one form, and results have one shape.

The idea: the three implementations (reference, strip, fused) get a `Problem` in which nothing is
left to interpret, and fill an `Attention`.

Not here: any arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from attnscope.core.masks import MaskFunction, Spans, as_spans, spans
from attnscope.core.request import MAP_CELLS, Request

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True)
class Problem:
    """One call of `attend`, checked.

    Attributes:
        q: [B, H, T, D].
        k: [B, G, S, D] with H a multiple of G; query head h reads key head h // (H / G).
        v: [B, G, S, E].
        scale: what a score q.k is multiplied by.
        spans: the interval of keys in sight of each query; always there.
        mask: further restriction, bool broadcastable to [B, H, T, S] (True: may see) or a function
            `f(b, h, i, j)`; None in almost every real case.
        bias: added to the scaled, soft-capped scores, broadcastable to [B, H, T, S].
        softcap: c of c * tanh(s / c), or None.
        sinks: learned sink logits, [H], or None; not scaled.
        request: what is wanted.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    spans: Spans
    mask: torch.Tensor | MaskFunction | None
    bias: torch.Tensor | None
    softcap: float | None
    sinks: torch.Tensor | None
    request: Request

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int, int]:
        """B, H, G, T, S, D, E."""
        (B, H, T, D), (_, G, S, E) = self.q.shape, self.v.shape
        return B, H, G, T, S, D, E

    @property
    def accumulate(self) -> torch.dtype:
        """The dtype of scores and statistics: float64 for float64, else float32."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32


@dataclass(frozen=True)
class PooledMap:
    """The map of weights pooled to at most 1024 x 1024 cells.

    Attributes:
        cell: queries (and keys) per cell side, a power of two.
        mean: [B, H, y, x]; averages over the queries of a cell and sums over its keys. A cell none
            of whose pairs is in sight is NaN; 0 is a value.
        max: the largest weight of the cell, NaN where masked.
        argmax: where it is: (row in the cell) * cell + (key in the cell), int32; -1 where masked.
    """

    cell: int
    mean: torch.Tensor
    max: torch.Tensor
    argmax: torch.Tensor


@dataclass(frozen=True)
class Attention:
    """What `attend` returns.

    Attributes:
        output: [B, H, T, E], in the dtype of v.
        statistics: by name, [B, H, T] (per query) or [B, H, S] (`received`), float32 or float64;
            `argmax` is int64.
        map: the pooled map, if asked for.
        rows: full rows of weights [B, H, len(rows), S], if asked for.
        empty: bool [B, H, T]: the rows that see no key. Their output and statistics are 0, their
            `argmax` is -1, their `max_logit` -inf and their `logsumexp` the sink logit or -inf.
    """

    output: torch.Tensor
    empty: torch.Tensor
    statistics: dict[str, torch.Tensor] = field(default_factory=dict)
    map: PooledMap | None = None
    rows: torch.Tensor | None = None

    def __getitem__(self, name: str) -> torch.Tensor:
        try:
            return self.statistics[name]
        except KeyError:
            have = ", ".join(self.statistics) or "none"
            raise KeyError(f"{name!r} was not asked for; computed here: {have}") from None


def map_cell(queries: int, keys: int) -> int:
    """The side of a pooled map's cell: the smallest power of two that keeps it within 1024 cells.

    >>> map_cell(1024, 1024), map_cell(1025, 1025), map_cell(1, 32768)
    (1, 2, 32)
    """
    return 1 << max(0, math.ceil(math.log2(max(queries, keys, 1) / MAP_CELLS)))


def pose(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None,
    causal: bool,
    window: int | None,
    documents: torch.Tensor | None,
    mask: Spans | torch.Tensor | MaskFunction | None,
    bias: torch.Tensor | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
    request: Request,
) -> Problem:
    """Check the arguments of `attend` and bring them to one form.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.
    """
    _check_tensors(q, k, v)
    B, H, T, D = q.shape
    S = k.shape[2]
    if softcap is not None and not softcap > 0:
        raise ValueError(f"softcap: expected a positive number, got {softcap}")
    if sinks is not None and sinks.shape != (H,):
        raise ValueError(
            f"sinks: expected one logit per query head, [{H}], got {list(sinks.shape)}"
        )
    for name, extra in (("mask", mask), ("bias", bias)):
        if isinstance(extra, torch.Tensor):
            _check_broadcast(name, extra, (B, H, T, S))
    if isinstance(mask, torch.Tensor) and mask.dtype != torch.bool:
        raise TypeError(
            f"mask: expected bool (True: may see), got {mask.dtype}; numbers go to bias"
        )
    for row in request.rows:
        if not -T <= row < T:
            raise ValueError(f"rows: {row} is not one of the {T} queries")
    seen = spans(T, S, causal=causal, window=window, documents=documents, device=q.device)
    if isinstance(mask, Spans):
        if (mask.queries, mask.keys) != (T, S):
            raise ValueError(
                f"mask: spans of {mask.queries} queries and {mask.keys} keys do not fit "
                f"{T} queries and {S} keys"
            )
        seen, mask = seen.restrict(mask), None
    elif mask is not None:
        simple = as_spans(mask, T, S, batch=B, heads=H, device=q.device)
        if simple is not None:
            seen, mask = seen.restrict(simple), None
    scale = D**-0.5 if scale is None else float(scale)
    return Problem(q, k, v, scale, seen, mask, bias, softcap, sinks, request)


def _check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
        if tensor.ndim != 4:
            layout = {"q": "[B, H, T, D]", "k": "[B, G, S, D]", "v": "[B, G, S, E]"}[name]
            raise ValueError(f"{name}: expected four axes {layout}, got shape {list(tensor.shape)}")
        if tensor.dtype not in DTYPES:
            raise TypeError(
                f"{name}: expected float32, bfloat16, float16 or float64, got {tensor.dtype}"
            )
        if tensor.dtype != q.dtype:
            raise TypeError(f"{name}: expected the dtype of q, {q.dtype}, got {tensor.dtype}")
        if tensor.device != q.device:
            raise ValueError(
                f"{name}: expected on the device of q, {q.device}, got {tensor.device}"
            )
    B, H, _, D = q.shape
    if k.shape[0] != B or v.shape[0] != B:
        raise ValueError(f"batch: q has {B}, k has {k.shape[0]}, v has {v.shape[0]}")
    if k.shape[3] != D:
        raise ValueError(f"k: expected the width of q, {D}, got {k.shape[3]}")
    G, S = k.shape[1:3]
    if v.shape[1:3] != (G, S):
        raise ValueError(
            f"v: expected the heads and length of k, [{G}, {S}], got {list(v.shape[1:3])}"
        )
    if G == 0 or H % G:
        raise ValueError(f"q: {H} query heads are not a multiple of {G} key/value heads")


def _check_broadcast(name: str, tensor: torch.Tensor, target: tuple[int, ...]) -> None:
    shape = (1,) * (4 - tensor.ndim) + tuple(tensor.shape)
    if tensor.ndim > 4 or any(
        have not in (1, want) for have, want in zip(shape, target, strict=False)
    ):
        raise ValueError(
            f"{name}: expected a shape that broadcasts to [B, H, T, S] = {list(target)}, "
            f"got {list(tensor.shape)}"
        )
