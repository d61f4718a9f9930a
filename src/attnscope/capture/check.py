"""Sampled rows against the model's own attention, before anything is written.

The idea: a mask, a scale or a soft-cap that was misread would give a whole trace of plausible
numbers. The model's own function is asked for a few rows; if it says something else, the capture
stops with a sentence.

Formula: two ways of computing a weight differ by at most p |ds|, with ds the rounding of a score,
    |ds| <= 2 u ((D + 4) |scale| |q| max|k| + 4 max|s|)
and u half an epsilon of the dtype in which the model computes.

Not here: the model's function itself (interface.py finds it).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, Final

import torch

from attnscope.capture.calls import Call, Cut
from attnscope.capture.compact import CompactMask
from attnscope.core.problem import Attention
from attnscope.errors import UnsupportedModelError

Own = tuple[torch.Tensor, torch.Tensor | None]
"""What a model's own function returned: output [B, T, H, E], and weights [B, H, T, S] or None."""

SAMPLED: Final = 5
"""Rows that are compared."""


def eager_of(module: torch.nn.Module) -> Callable[..., Any] | None:
    """The eager attention function that belongs to a module's own source file."""
    for kind in type(module).__mro__:
        source = sys.modules.get(kind.__module__)
        for name in ("eager_attention_forward", "simple_eager_attention_forward"):
            found = getattr(source, name, None)
            if callable(found):
                result: Callable[..., Any] = found
                return result
    return None


def sampled_rows(queries: int) -> torch.Tensor:
    """Some rows, the first and the last among them."""
    return torch.linspace(0, max(queries - 1, 0), min(SAMPLED, queries)).round().long().unique()


def own_rows(
    module: torch.nn.Module,
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    rows: torch.Tensor,
    mask: torch.Tensor,
    keywords: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the model's own eager function makes of some rows.

    Args:
        tensors: q, k, v of the call.
        mask: bool [B, 1 or H, t, S] of these rows, by the model's own mask.
        keywords: of the call, as they came.

    Returns:
        output [B, t, H, E] and weights [B, H, t, S].

    Raises:
        UnsupportedModelError: the model has no such function.
    """
    eager = eager_of(module)
    name = type(module).__name__
    if eager is None:
        raise UnsupportedModelError(
            f"{name}: its own attention function was not found, so nothing can be compared with it."
        )
    q, k, v = tensors
    floor = torch.finfo(q.dtype).min
    additive = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(~mask, floor)
    given = dict(keywords)
    bias = given.get("position_bias")
    if isinstance(bias, torch.Tensor) and bias.shape[-2] == q.shape[2]:
        given["position_bias"] = bias[..., rows, :]
    given.pop("indices", None)  # they are part of the mask already
    if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(eager).parameters.values()):
        known = inspect.signature(eager).parameters
        given = {name: value for name, value in given.items() if name in known}
    with torch.no_grad():
        output, weights = eager(module, q[:, :, rows], k, v, additive, **given)[:2]
    return output, weights


def room(
    q: torch.Tensor, k: torch.Tensor, scale: float | None, extra: torch.Tensor | None
) -> float:
    """How far two honest computations of one weight may be apart."""
    unit = torch.finfo(q.dtype).eps / 2
    D = q.shape[-1]
    factor = D**-0.5 if scale is None else abs(scale)
    reach = q.detach().float().norm(dim=-1).max() * k.detach().float().norm(dim=-1).max()
    size = float(reach) * factor
    offset = 0.0
    if extra is not None:
        finite = extra.detach().float()
        offset = float(finite[finite > torch.finfo(extra.dtype).min / 2].abs().max())
    # Scores are compared at their largest possible size; 0.05 still tells any wrong mask apart.
    return min(2 * unit * ((D + 4) * size + 4 * (size + offset) + 16), 0.05)


def output_room(v: torch.Tensor, allowed: float) -> float:
    """How far two honest outputs may be apart, if scores may be `allowed` apart.

    A weight moves by at most p |ds| and its row's normalisation by as much again, so a mean of
    values moves by at most 2 |ds| times the largest. The output itself is rounded once.
    """
    size = float(v.detach().float().abs().max()) if v.numel() else 0.0
    return 2 * allowed * size + torch.finfo(v.dtype).eps * size


def compare(
    ours: torch.Tensor, theirs: torch.Tensor, allowed: float, *, what: str, model: str
) -> None:
    """Two tensors of the same rows.

    Raises:
        UnsupportedModelError: they differ by more than allowed, or in shape.

    >>> compare(torch.ones(2), torch.zeros(2), 0.1, what="weights", model="m")
    Traceback (most recent call last):
    attnscope.errors.UnsupportedModelError: m: the weights computed here differ from the model's \
own by 1.0e+00, more than rounding explains (1.0e-01); nothing was written.
    """
    if ours.shape != theirs.shape:
        raise UnsupportedModelError(
            f"{model}: the {what} computed here have shape {list(ours.shape)}, the model's own "
            f"{list(theirs.shape)}; nothing was written."
        )
    off = (ours.double() - theirs.double()).abs()
    worst = float(off.max()) if off.numel() else 0.0
    if not worst <= allowed:
        raise UnsupportedModelError(
            f"{model}: the {what} computed here differ from the model's own by {worst:.1e}, more "
            f"than rounding explains ({allowed:.1e}); nothing was written."
        )


def compare_call(
    call: Call,
    cut: Cut,
    result: Attention,
    rows: list[int],
    *,
    own: Own | None,
    model: str,
) -> None:
    """Compare sampled rows of one sequence with the model's own attention.

    Args:
        result: output and full weights of the sampled rows, as computed here.
        rows: which rows, in the numbers of the call.
        own: what the model's own function returned where it ran; otherwise its eager function is
            asked for these rows. Weights are compared where it gives them.

    Raises:
        UnsupportedModelError: they differ.
    """
    sample = torch.tensor(rows, device=call.q.device)
    qkv = call.q[cut.batch], call.k[cut.batch], call.v[cut.batch]
    allowed = room(qkv[0], qkv[1], call.meaning.scale, call.sight.bias)
    local = sample - cut.rows[0]
    mine = result.output[:, :, local].transpose(1, 2)
    hidden = result.empty[:, :, local]
    weights: torch.Tensor | None
    if own is None:
        seen = own_mask(call, sample)[cut.batch]
        theirs, weights = own_rows(call.module, qkv, sample, seen, call.keywords)
    else:
        theirs, weights = own[0][cut.batch][:, sample], None
        if own[1] is not None and own[1].shape[2:] == (call.q.shape[2], call.sight.keys):
            weights = own[1][cut.batch][:, :, sample]
    if weights is not None:
        assert result.rows is not None
        whole = torch.zeros_like(weights, dtype=result.rows.dtype)
        whole[..., slice(*cut.keys)] = result.rows
        if call.meaning.sinks is not None:
            whole = without_sink(whole, weights)
        weights = weights.masked_fill(hidden[..., None], 0.0)
        compare(whole, weights, allowed, what="weights", model=model)
    theirs = theirs.masked_fill(hidden.transpose(1, 2)[..., None], 0.0)
    margin = output_room(qkv[2], allowed)
    compare(mine, theirs, margin, what="outputs", model=model)


def without_sink(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """Our weights as a model reports them that takes the sink's share off the output only.

    GraniteSWA does so: its rows sum to one although its output is smaller. What is looked at is
    what makes the output, so it is ours that a trace holds; the outputs are compared in any case.
    """
    sums, total = theirs.float().sum(-1, keepdim=True), ours.sum(-1, keepdim=True)
    if bool(((sums - 1).abs() < 1e-2).all()):
        return ours / torch.where(total > 0, total, 1.0)
    return ours


def own_mask(call: Call, sample: torch.Tensor) -> torch.Tensor:
    """The sampled rows of the model's own mask, bool [B, 1 or H, t, S]."""
    sight, mask = call.sight, call.mask
    if isinstance(mask, CompactMask):
        seen = mask.rows(sample)
    else:  # only these rows: the whole mask would be T x S
        spans, key = sight.spans, torch.arange(sight.keys, device=sample.device)
        first, end = spans.first[:, sample, None], spans.end[:, sample, None]
        seen = ((key >= first) & (key < end))[:, None]
    if sight.mask is not None:
        seen = seen & (sight.mask if sight.mask.shape[2] == 1 else sight.mask[:, :, sample])
    return seen[..., : sight.keys].expand(call.q.shape[0], -1, -1, -1)
