"""The gradient of attention, recomputed band by band, so that training needs no T x S memory.

The idea: nothing is kept from the way forward but the inputs. On the way back each band of weights
is made once more, used for its share of every gradient, and forgotten.

Formula (dO the gradient of the output; p, s as in attend.py; r the scores before cap and bias)
    dv_j = sum_i p_ij dO_i             dp_ij = dO_i . v_j        delta_i = sum_j p_ij dp_ij
    ds_ij = p_ij (dp_ij - delta_i)     dr_ij = ds_ij (1 - tanh^2(r_ij / c))
    dq_i = scale sum_j dr_ij k_j       dk_j = scale sum_i dr_ij q_i
    dbias = ds, summed over the axes that were broadcast         dsink = - sum_i p_i,sink delta_i

Shapes: those of bands.py.

Dtypes: float32 inside (float64 for float64); each gradient in the dtype of its input.

Not here: gradients of statistics (they are detached), second derivatives, torch.func.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from attnscope.core.bands import Band, Part, parts
from attnscope.core.problem import Attention, Problem
from attnscope.core.softmax import exponentials
from attnscope.core.strip import Buffers, full_precision, sink_of

Run = Callable[[Problem], Attention]


def wanted(problem: Problem) -> bool:
    """Whether somebody will differentiate the output."""
    tensors = (problem.q, problem.k, problem.v, problem.sinks, problem.bias)
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def attend_with_gradient(problem: Problem, run: Run) -> Attention:
    """`run(problem)`, whose output can be differentiated once in q, k, v, sinks and bias.

    Raises:
        RuntimeError: when the gradient itself is differentiated.

    Cost: backward 2 T S (3 D + 2 E) H FLOPs over the pairs in sight, and the memory of three
    strips beside the gradients.
    """
    box: list[Attention] = []
    p = problem
    output = _Attend.apply(p.q, p.k, p.v, p.sinks, p.bias, run, problem, box)
    return replace(box[0], output=output)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q, k, v, sinks, bias, run: Run, problem: Problem, box):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(q, k, v, sinks, bias)
        ctx.problem = problem
        sinks, bias = (None if t is None else t.detach() for t in (sinks, bias))
        plain = replace(problem, q=q.detach(), k=k.detach(), v=v.detach(), sinks=sinks, bias=bias)
        box.append(run(plain))
        return box[0].output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor):  # type: ignore[no-untyped-def]
        q, k, v, sinks, bias = ctx.saved_tensors
        problem = replace(ctx.problem, q=q, k=k, v=v, sinks=sinks, bias=bias)
        found = gradients(problem, gradient, needed=ctx.needs_input_grad[:5])
        five = [found.q, found.k, found.v, found.sinks, found.bias]
        if torch.is_grad_enabled():  # create_graph=True: somebody may differentiate these
            roots = (gradient, *(t for t in ctx.saved_tensors if t is not None))
            five = [None if g is None else _Once.apply(g, *roots) for g in five]
        return *five, None, None, None


class _Once(torch.autograd.Function):
    """Passes a gradient on, tied to what it was made of, and refuses to be differentiated.

    Were it silent, a second derivative would be a wrong zero.
    """

    @staticmethod
    def forward(ctx: Any, found: torch.Tensor, *roots: torch.Tensor) -> torch.Tensor:
        return found.view_as(found)

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor):  # type: ignore[no-untyped-def]
        raise RuntimeError(
            "attend has no second derivative; for one, compute the attention with "
            "torch.nn.functional.scaled_dot_product_attention and its math kernel"
        )


@dataclass
class Gradients:
    """Gradients of q, k, v, sinks and bias; None where not needed."""

    q: torch.Tensor | None
    k: torch.Tensor | None
    v: torch.Tensor | None
    sinks: torch.Tensor | None
    bias: torch.Tensor | None


def gradients(
    problem: Problem,
    gradient: torch.Tensor,
    *,
    needed: tuple[bool, ...] = (True,) * 5,
    budget: int | None = None,
) -> Gradients:
    """The gradients of sum(output * gradient).

    Args:
        gradient: [B, H, T, E].
        needed: which of q, k, v, sinks and bias to compute.
        budget: bytes of one strip; chosen by the device if not given.
    """
    inputs = (problem.q, problem.k, problem.v, problem.sinks, problem.bias)
    dtype = problem.accumulate
    found = Gradients(
        *(
            torch.zeros(t.shape, dtype=dtype, device=t.device) if need and t is not None else None
            for t, need in zip(inputs, needed, strict=True)
        )
    )
    with torch.no_grad(), full_precision(problem.q.device.type):
        buffers = Buffers(dtype, problem.q.device, count=3)
        for part in parts(problem, budget=budget):
            rows = gradient[part.batch, part.heads].to(dtype).unflatten(1, part.sizes[1:])
            for band in part.bands:
                if band.high > band.low:
                    _add_band(part, band, rows[:, :, :, band.rows], buffers=buffers, found=found)
    return Gradients(
        *(
            None if value is None or like is None else value.to(like.dtype)
            for value, like in zip(vars(found).values(), inputs, strict=True)
        )
    )


def _add_band(
    part: Part, band: Band, rows: torch.Tensor, *, buffers: Buffers, found: Gradients
) -> None:
    """Add what one band contributes; `rows` is its piece of dO, [b, g, n, t, E]."""
    b, g, n = part.sizes
    t, s = band.stop - band.start, band.high - band.low
    first, second, third = buffers.of(b * g * n * t * s)
    cap = part.problem.softcap
    scores, slope = part.raw(band, first), None
    if cap is not None:
        scores.div_(cap).tanh_()
        slope = third[: scores.numel()].view(scores.shape)
        torch.mul(scores, scores, out=slope).neg_().add_(1.0)
        scores.mul_(cap)
    part.biased(scores, band)
    sink = sink_of(part)
    e, _, moments = exponentials(scores, scores, sink=sink)
    inverse = moments.inverse.to(e.dtype)
    p = e.mul_(inverse[..., None])
    dO, flat = rows.reshape(b * g, n * t, -1), p.view(b * g, n * t, s)
    if found.v is not None:
        dv = torch.bmm(flat.transpose(1, 2), dO).view(b, g, s, -1)
        found.v[part.batch, part.groups, band.keys] += dv
    dp = second[: p.numel()].view(p.shape)
    values = part.v[:, :, band.keys].flatten(0, 1)
    torch.bmm(dO, values.transpose(1, 2), out=dp.view(b * g, n * t, s))
    # A weight of 0 passes nothing on, even where a value out of sight is NaN and 0 * NaN is not 0.
    dp.masked_fill_(p == 0, 0.0)
    delta = (p * dp).sum(-1)
    if found.sinks is not None and moments.sink is not None:
        share = (moments.sink * moments.inverse).to(delta.dtype)
        found.sinks[part.heads] -= (share * delta).sum((0, 3)).flatten()
    ds = dp.sub_(delta[..., None]).mul_(p)
    if found.bias is not None:
        target = part.cut(found.bias, band)
        target += ds.sum_to_size(target.shape)
    dr = (ds if slope is None else ds.mul_(slope)).view(b * g, n * t, s)
    if found.q is not None:
        keys = part.k[:, :, band.keys].flatten(0, 1)
        if not part.finite:
            keys = torch.where(keys.isfinite(), keys, 0.0)
        dq = torch.bmm(dr, keys).mul_(part.problem.scale).view(b, g * n, t, -1)
        found.q[part.batch, part.heads, band.rows] = dq
    if found.k is not None:
        dk = torch.bmm(dr.transpose(1, 2), part.queries(band)).view(b, g, s, -1)
        found.k[part.batch, part.groups, band.keys] += dk
