"""From a band of scores to exponentials and their sums, with PyTorch operations, in two buffers.

The idea: the exponentials replace the scores and stay unnormalised; one number per row, 1 / Z,
normalises whatever is made of them later. Only the sums that somebody needs are taken.

Formula (m the largest score of the row, or its sink logit if that is larger)
    x = s - m      e = exp x      l = sum e      u = sum x e      s2 = sum e^2      s3 = sum e^3

Shapes: scores [..., s]; every sum [...].

Dtypes: exponentials in the dtype of the scores, sums in float64 where the device has it.

Not here: which sums a statistic needs (statistics.py).
"""

from __future__ import annotations

from typing import Final

import torch

from attnscope.core.reference import wide
from attnscope.core.statistics import Moments

FLOOR: Final = -1000.0
"""exp is 0 here in every dtype; a score of -inf is raised to it, because 0 * -inf is NaN."""

PIECE: Final = 1 << 19
"""PyTorch sums float32 into float64 through a copy of all of it on the CPU; pieces are small."""


def wide_sum(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The sum over the last axis in another dtype; memory of PIECE numbers, not of all."""
    if values.dtype == dtype or values.numel() <= PIECE:
        return values.sum(-1, dtype=dtype)
    lines = values.numel() // values.shape[-1]
    total = torch.zeros(values.shape[:-1], dtype=dtype, device=values.device)
    for piece in values.split(max(1, PIECE // lines), dim=-1):
        total += piece.sum(-1, dtype=dtype)
    return total


def exponentials(
    scores: torch.Tensor,
    spare: torch.Tensor,
    *,
    sink: torch.Tensor | None = None,
    need: frozenset[str] = frozenset(),
) -> tuple[torch.Tensor, torch.Tensor, Moments]:
    """Exponentials of the scores relative to their row's reference, and their sums.

    Args:
        scores: [..., s], overwritten; s is at least 1.
        spare: memory of the same shape, overwritten.
        sink: learned logits that broadcast to [...], or None.
        need: which of "where", "tilted", "square" and "cube" to fill in; see `Moments`.

    Returns:
        The exponentials, the buffer that is now free (one is in `scores`, the other in `spare`),
        and the moments; `where` counts from the first column.

    >>> scores = torch.zeros(1, 4)
    >>> e, _, moments = exponentials(scores, torch.empty(1, 4))
    >>> e.tolist(), moments.keys.tolist()
    ([[1.0, 1.0, 1.0, 1.0]], [4.0])
    """
    dtype = wide(scores.device)
    where = None
    if "where" in need:
        largest, where = scores.max(dim=-1)
    else:
        largest = scores.amax(dim=-1)
    reference = largest
    if sink is not None:
        reference = torch.maximum(largest, sink.to(largest.dtype).expand_as(largest))
    # A row that sees nothing has reference -inf, and -inf - -inf is NaN; 0 keeps its scores -inf.
    scores.sub_(reference.masked_fill(reference == -torch.inf, 0.0)[..., None])
    tilted = None
    if "tilted" in need:
        scores.clamp_(min=FLOOR)
        torch.exp(scores, out=spare)
        tilted = wide_sum(scores.mul_(spare), dtype)
        scores, spare = spare, scores
    else:
        scores.exp_()
    sums: dict[str, torch.Tensor] = {}
    if "square" in need or "cube" in need:
        torch.mul(scores, scores, out=spare)
        sums["square"] = wide_sum(spare, dtype)
        if "cube" in need:
            sums["cube"] = wide_sum(spare.mul_(scores), dtype)
    wide_reference = reference.to(dtype)
    share = None
    if sink is not None:
        floor = wide_reference.masked_fill(wide_reference == -torch.inf, 0.0)
        share = (sink.to(dtype) - floor).exp()
    moments = Moments(
        reference=wide_reference,
        largest=largest.to(dtype),
        keys=wide_sum(scores, dtype),
        sink=share,
        where=where,
        tilted=tilted,
        **sums,
    )
    return scores, spare, moments
