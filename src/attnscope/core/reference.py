"""Attention as the formula stands, with every statistic by its definition.

The idea: nothing here is clever. The whole matrix of weights is made, in float64, and each number
is read off it; the fast implementations are measured against this one.

Formula
    s_ij = softcap(scale * q_i . k_j) + bias_ij          for the keys j in sight of query i
    p_ij = exp s_ij / (sum_k exp s_ik + exp sink)        o_i = sum_j p_ij v_j

Shapes: those of problem.py; weights p are [B, H, T, S].

Dtypes: float64 inside (float32 on devices that have no float64); outputs as `Attention` says.

Not here: speed, and lengths beyond a few thousand (memory is O(T x S)).
"""

from __future__ import annotations

from typing import Final

import torch

from attnscope.core.masks import mask_rows
from attnscope.core.problem import Attention, PooledMap, Problem, map_cell

WITHOUT_FLOAT64: Final = frozenset({"mps"})
"""Kinds of devices that have no float64."""


def wide(device: torch.device) -> torch.dtype:
    """The widest float of a device."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def attend_reference(problem: Problem) -> Attention:
    """Attention by the formula; every statistic by its definition. Cost: memory of [B, H, T, S]."""
    with torch.no_grad():
        seen = _sight(problem)
        scores = _scores(problem).masked_fill(~seen, -torch.inf)
        weights, logsumexp = _softmax(scores, problem.sinks)
        # exp(-inf - NaN) is NaN: a row that is NaN has weights on the keys it sees only.
        weights = weights.masked_fill(~seen, 0.0)
        values = problem.v.to(weights.dtype).repeat_interleave(_repeats(problem), dim=1)
        # A key out of sight must not matter even if it is NaN, and 0 * NaN is NaN.
        if bool(values.isfinite().all()):
            output = weights @ values
        else:
            output = _careful_product(weights, values, seen)
        rows = [row % problem.q.shape[2] for row in problem.request.rows]
        wanted = weights[:, :, rows].to(problem.accumulate) if rows else None
        return Attention(
            output=output.to(problem.v.dtype),
            empty=scores.amax(-1) == -torch.inf if scores.shape[-1] else _all_empty(problem),
            statistics=_statistics(problem, scores, weights, logsumexp),
            map=_pooled(problem, weights, seen) if problem.request.pool else None,
            rows=wanted,
        )


def _repeats(problem: Problem) -> int:
    return problem.q.shape[1] // problem.k.shape[1]


def _all_empty(problem: Problem) -> torch.Tensor:
    return torch.ones(problem.q.shape[:3], dtype=torch.bool, device=problem.q.device)


def _sight(problem: Problem) -> torch.Tensor:
    """Which keys each query may see, bool [B, H, T, S]."""
    B, H, _, T, S, _, _ = problem.sizes
    seen = problem.spans.visible()
    if problem.mask is not None:
        seen = seen & mask_rows(
            problem.mask, slice(0, T), T, S, batch=B, heads=H, device=problem.q.device
        )
    return seen.expand(B, H, T, S)


def _scores(problem: Problem) -> torch.Tensor:
    dtype = wide(problem.q.device)
    q, k = problem.q.to(dtype), problem.k.to(dtype).repeat_interleave(_repeats(problem), dim=1)
    scores = problem.scale * (q @ k.transpose(-1, -2))
    if problem.softcap is not None:
        scores = problem.softcap * torch.tanh(scores / problem.softcap)
    return scores if problem.bias is None else scores + problem.bias.to(dtype)


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights [B, H, T, S] and the logarithm of the denominator [B, H, T]."""
    columns = scores
    if sinks is not None:
        sink = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        columns = torch.cat([scores, sink], dim=-1)
    if columns.shape[-1] == 0:
        return scores, torch.full_like(scores[..., :0].sum(-1), -torch.inf)
    logsumexp = torch.logsumexp(columns, dim=-1)
    weights = torch.exp(scores - logsumexp[..., None])
    # -inf - -inf is NaN: a row that sees nothing, and has no sink, has weights 0.
    return weights.masked_fill((logsumexp == -torch.inf)[..., None], 0.0), logsumexp


def _careful_product(
    weights: torch.Tensor, values: torch.Tensor, seen: torch.Tensor
) -> torch.Tensor:
    """weights @ values, with NaN and infinities of unseen keys left out."""
    products = weights[..., None] * values[:, :, None]
    return torch.where(seen[..., None], products, 0.0).sum(dim=-2)


def _statistics(
    problem: Problem, s: torch.Tensor, p: torch.Tensor, logsumexp: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Each statistic asked for, by its definition, from scores s and weights p [B, H, T, S]."""
    T, S = problem.q.shape[2], problem.k.shape[2]
    request, device = problem.request, p.device
    i = torch.arange(S - T, S, device=device)[:, None]
    j = torch.arange(S, device=device)
    empty = s.amax(-1) == -torch.inf if S else _all_empty(problem)
    entropy = -torch.xlogy(p, p).sum(-1)
    square = (p**2).sum(-1)
    definitions = {
        "logsumexp": lambda: logsumexp,
        "max_logit": lambda: s.amax(-1) if S else torch.full_like(square, -torch.inf),
        "max_weight": lambda: p.amax(-1) if S else square,
        "argmax": lambda: (s.argmax(-1) if S else square.long()).masked_fill(empty, -1),
        "entropy": lambda: entropy,
        "effective_keys": lambda: entropy.exp().masked_fill(empty, 0.0),
        "participation": lambda: (1 / square).masked_fill(square == 0, 0.0),
        "jacobian_norm": lambda: _jacobian_norm(p),
        "self_mass": lambda: (p * (j == i)).sum(-1),
        "previous_mass": lambda: (p * (j == i - 1)).sum(-1),
        "local_mass": lambda: (p * ((j > i - request.local) & (j <= i))).sum(-1),
        "sink_mass": lambda: _sink_mass(problem, p, logsumexp),
        "induction_mass": lambda: (p * _follows_repeat(problem, i, j)).sum(-1),
        "mean_distance": lambda: (p * (i - j)).sum(-1),
        "received": lambda: p.sum(-2),
    }
    result = {name: definitions[name]() for name in request.names}
    kept = problem.accumulate
    return {n: v if v.dtype == torch.int64 else v.to(kept) for n, v in result.items()}


def _jacobian_norm(p: torch.Tensor) -> torch.Tensor:
    """Frobenius norm of diag(p) - p p^T: its diagonal is p (1 - p), the rest -p_i p_j."""
    others = (p**2).sum(-1, keepdim=True) - p**2
    return (p**2 * ((1 - p) ** 2 + others.clamp(min=0.0))).sum(-1).sqrt()


def _sink_mass(problem: Problem, p: torch.Tensor, logsumexp: torch.Tensor) -> torch.Tensor:
    j = torch.arange(p.shape[-1], device=p.device)
    origin = problem.spans.origin[:, None, :, None]
    mass = (p * ((j >= origin) & (j < origin + problem.request.sink_keys))).sum(-1)
    if problem.sinks is None:
        return mass
    share = torch.exp(problem.sinks.to(p.dtype)[:, None] - logsumexp)
    return mass + share.masked_fill(logsumexp == -torch.inf, 0.0)


def _follows_repeat(problem: Problem, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    """Whether the token before key j is the query's own, and j is not later than the query."""
    tokens = problem.request.tokens
    assert tokens is not None, "Request checks this"
    ids = tokens.to(i.device).reshape(-1, j.numel())
    before = torch.roll(ids, 1, dims=-1)[:, None, None, :]
    own = ids[:, i.flatten().clamp(min=0)][:, None, :, None]
    return (before == own) & (j >= 1) & (j <= i) & (i >= 0)


def _pooled(problem: Problem, p: torch.Tensor, seen: torch.Tensor) -> PooledMap:
    """The map, cell by cell: [B, H, y, x]."""
    B, H, T, S = p.shape
    cell = map_cell(T, S)
    y, x = -(-T // cell), -(-S // cell)
    beyond = (0, x * cell - S, 0, y * cell - T)

    def cells(plane: torch.Tensor, fill: float) -> torch.Tensor:
        padded = torch.nn.functional.pad(plane, beyond, value=fill)
        return padded.view(B, H, y, cell, x, cell).transpose(3, 4).flatten(4)

    most, where = cells(p.masked_fill(~seen, -1.0), -1.0).max(-1)
    queries = torch.full((y, 1), cell, device=p.device)
    queries[-1:] = T - (y - 1) * cell
    mean = cells(p, 0.0).sum(-1) / queries
    hidden = most < 0
    kept = problem.accumulate
    return PooledMap(
        cell,
        mean.masked_fill(hidden, torch.nan).to(kept),
        most.masked_fill(hidden, torch.nan).to(kept),
        where.masked_fill(hidden, -1).to(torch.int32),
    )
