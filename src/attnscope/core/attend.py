"""Exact attention with its statistics, whatever the length, in memory that grows with T, not T x S.

Formula (Vaswani et al. 2017, arXiv 1706.03762, eq. 1, with the additions in use since)
    s_ij = softcap(scale * q_i . k_j) + bias_ij          for the keys j in sight of query i
    p_ij = exp s_ij / (sum_k exp s_ik + exp sink)        o_i = sum_j p_ij v_j

Not here: projections, positions, norms; a caller has applied them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import torch

from attnscope.core.gradient import attend_with_gradient, wanted
from attnscope.core.masks import MaskFunction, Spans
from attnscope.core.problem import Attention, pose
from attnscope.core.request import Request

Impl = Literal["auto", "reference", "strip", "fused"]
IMPLS: Final[tuple[str, ...]] = ("reference", "strip", "fused")


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = True,
    window: int | None = None,
    documents: torch.Tensor | None = None,
    mask: Spans | torch.Tensor | MaskFunction | None = None,
    bias: torch.Tensor | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    statistics: Request | str | Iterable[str] | None = None,
    impl: Impl = "auto",
) -> Attention:
    """Attention of T queries that stand at the end of S keys, with the statistics asked for.

    Prefill (T = S), chunked prefill (T < S) and decode (T = 1) are the same call.

    Args:
        q: [B, H, T, D] in float32, bfloat16, float16 or float64.
        k: [B, G, S, D]; H is a multiple of G, and query head h reads key head h // (H / G).
        v: [B, G, S, E].
        scale: multiplies q.k; 1 / sqrt(D) if not given.
        causal: whether a query is blind to keys after its own position.
        window: how many keys a query sees, itself included.
        documents: integer [B, S] or [S]: packed sequences; negative ids are padding.
        mask: a further restriction: `Spans`, bool broadcastable to [B, H, T, S] (True: may see), or
            a function `f(b, h, i, j) -> bool` of positions that count keys.
        bias: numbers added to the scores, broadcastable to [B, H, T, S].
        softcap: c of c * tanh(s / c), applied after the scale and before the bias.
        sinks: a learned logit per query head, [H], that joins the denominator only. Not scaled.
        statistics: names (see `attnscope.core.STATISTICS`), "all", or a `Request`.
        impl: "reference" (the formula, O(T x S) memory), "strip" (PyTorch operations, any device),
            "fused" (Numba, CPU), or "auto": fused where it can run, else strip.

    Returns:
        An `Attention`: output, statistics, and which rows saw nothing.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.
        NotImplementedError: inside a transform of torch.func.

    The output can be differentiated once in q, k, v, sinks and bias, in memory that grows with T;
    statistics, map and rows are detached.

    Cost: 2 T S (D + E) H FLOPs (half of it when causal); memory O(T + S), but for "reference".

    >>> x = torch.eye(4)[None, None]
    >>> result = attend(x, x, x, scale=0.0, statistics=["entropy", "participation"])
    >>> result["participation"].round().tolist()
    [[[1.0, 2.0, 3.0, 4.0]]]
    """
    problem = pose(
        q, k, v,
        scale=scale, causal=causal, window=window, documents=documents, mask=mask, bias=bias,
        softcap=softcap, sinks=sinks, request=Request.of(statistics),
    )  # fmt: skip
    _refuse_transforms()
    if impl == "reference":
        from attnscope.core.reference import attend_reference as run
    elif impl == "strip":
        from attnscope.core.strip import attend_strip as run
    elif impl in ("fused", "auto"):
        from attnscope.core import fused
        from attnscope.core.strip import attend_strip

        reason = fused.unable(problem)
        if impl == "fused" and reason:
            raise ValueError(f"impl: 'fused' cannot do this: {reason}; 'strip' can")
        run = attend_strip if reason else fused.attend_fused
    else:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)} and 'auto'")
    if wanted(problem):
        return attend_with_gradient(problem, run)
    return run(problem)


def _refuse_transforms() -> None:
    """Under torch.func the tensors are wrappers that a band cannot be cut from."""
    if torch._C._are_functorch_transforms_active():
        raise NotImplementedError(
            "attend cannot run inside torch.func transforms (grad, vmap, jvp); call it on plain "
            "tensors and use backward() or torch.autograd.grad"
        )
