"""Attention in float64, by the formula: what the others are judged by.

The idea: the reference computes each statistic by its definition from the whole matrix of weights;
given inputs that were rounded to a narrow dtype first, it says what the exact answer for those very
inputs is.

Not here: a proof that the reference is right; tests/core compares it with other people's code.
"""

from __future__ import annotations

from typing import Any

import torch

from attnscope.core import Attention, attend


def oracle(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> Attention:
    """`attend` in float64 with impl="reference". Cost: memory of [B, H, T, S] in float64.

    Args:
        q, k, v: in any dtype; they are widened, which is exact.
        options: those of `attend`, without `impl`; bias and sinks are widened too.
    """
    for name in ("bias", "sinks"):
        if isinstance(options.get(name), torch.Tensor):
            options[name] = options[name].detach().double()
    wide = (x.detach().double() for x in (q, k, v))
    return attend(*wide, **options, impl="reference")
