"""From logits to the next token: the likeliest, or one drawn by temperature, top-k and top-p.

The idea: a pure function turns logits into the distribution that is drawn from, so that what a
setting does can be seen, and drawing is one line with a generator of its own.

Formula
    s = logits / temperature
    top-k keeps s_i >= the k-th largest (ties are all kept)
    top-p keeps the likeliest tokens until their mass reaches p (the one that reaches it included)
    p_i = exp s_i / sum over the kept                 greedy: argmax, the smallest id of a tie

Paper: top-k, Fan et al. 2018 (arXiv 1805.04833); top-p, Holtzman et al. 2019
(arXiv 1904.09751).

Shapes: logits [..., V].

Not here: the loop (decoder.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn.

    Attributes:
        temperature: what logits are divided by; above 1 flatter, below 1 sharper.
        top_k: how many of the likeliest tokens may be drawn; None for all.
        top_p: the mass that the likeliest tokens which may be drawn have together; 1 for all.

    Raises:
        ValueError: a number that has no meaning.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise ValueError(
                f"temperature: expected a number above 0, got {self.temperature}; for the "
                "likeliest token at each step leave sampling out"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k: expected at least 1 token, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected a mass above 0 and up to 1, got {self.top_p}")


def probabilities(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The distribution that the next token is drawn from.

    Args:
        logits: [..., V], any float dtype.

    Returns:
        float32 (float64 of float64) [..., V]; 0 for what may not be drawn; each row sums to 1.

    Cost: one sort of V where top_p is below 1.

    >>> half = torch.tensor([0.5, 0.3, 0.2]).log()
    >>> probabilities(half, Sampling(top_p=0.6)).tolist()
    [0.625, 0.375, 0.0]
    """
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32)) / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < scores.shape[-1]:
        least = scores.topk(sampling.top_k).values[..., -1:]
        scores = scores.masked_fill(scores < least, -math.inf)
    if sampling.top_p < 1:
        ordered, place = scores.softmax(-1).sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(-1) - ordered
        dropped = torch.empty_like(before, dtype=torch.bool)
        dropped.scatter_(-1, place, before >= sampling.top_p)
        scores = scores.masked_fill(dropped, -math.inf)
    return scores.softmax(-1)


def choose(
    logits: torch.Tensor,
    sampling: Sampling | None = None,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """The next token's id.

    Args:
        logits: [..., V].
        sampling: None for the likeliest.
        generator: draws; the same state gives the same token.

    Returns:
        int64 [...].

    Raises:
        ValueError: a logit is NaN or +inf, so there is nothing to choose by.

    >>> choose(torch.tensor([[0.1, 0.7, 0.7]])).tolist()
    [1]
    """
    largest, likeliest = logits.max(-1)
    if not bool((largest < math.inf).all()):  # NaN is the largest of a row that has one
        raise ValueError("logits: expected finite numbers, got NaN or infinity")
    if sampling is None:
        return likeliest
    weights = probabilities(logits, sampling)
    drawn = torch.multinomial(weights.reshape(-1, weights.shape[-1]), 1, generator=generator)
    return drawn.reshape(likeliest.shape)
