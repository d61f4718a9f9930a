"""Small random models of several families, made once, and their own weights as judges."""

from __future__ import annotations

import functools
from typing import Any

import torch

from attnscope.capture.shrink import build


@functools.cache
def small(family: str) -> Any:
    """A small model; tests leave it as they found it."""
    return build(family)


def ids(count: int = 24, *, batch: int = 1, seed: int = 3) -> torch.Tensor:
    """Token ids that every small vocabulary has."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, 100, (batch, count), generator=generator)


def eager_weights(model: Any, tokens: torch.Tensor, **given: Any) -> list[torch.Tensor]:
    """The weights of the model's own eager attention, [H, T, S] per attention layer."""
    assert model.config._attn_implementation == "eager"
    with torch.no_grad():
        result = model(input_ids=tokens, use_cache=False, output_attentions=True, **given)
    return [weights[0] for weights in result.attentions if weights is not None]


WEIGHT_ROOM = 3e-5
"""Two float32 computations of one weight: u (|lse| + 2 sqrt(D) |scale| max|q| max|k|) as in
sweep.py, with D = 32 and scores up to 40 here: 6e-8 (6 + 2 * 5.7 * 40) = 2.8e-5."""
