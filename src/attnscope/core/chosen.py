"""Attention to chosen keys: score cheaply, choose the best few, attend to those alone.

The idea: an indexer with a few narrow heads reads every key; the attention proper reads the k keys
it chose. What is chosen has no gradient, so the choice is a set of integers.

Formula (DeepSeek-V3.2, arXiv 2512.02556)
    I_ts = sum_h w_th relu(q_th . k_s)          chosen_t = the k keys in sight with the largest I_ts

Shapes
    q [B, T, h, d] and keys [B, S, d] of the indexer; weights [B, T, h]; scores [B, T, S];
    chosen int64 [B, T, k]; sight bool [B, T, S].

Dtypes: scores in float32 or wider, since a rounding there changes the set.

Not here: projections, positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional

from attnscope.core.attend import attend
from attnscope.core.heads import head_attention
from attnscope.core.mechanism import Seen
from attnscope.core.problem import Attention
from attnscope.core.request import Request

BAND = 1 << 24
"""Numbers that one band of index scores, or of gathered keys, may hold at once."""


@dataclass(frozen=True)
class SeenChosen(Seen):
    """A call of attention in which every query sees keys of its own choice.

    Attributes:
        sight: bool [B, 1, T, S], True where the query may see the key; it already holds causality.
            `start` counts tokens; which token a key stands for is the mechanism's matter.
    """

    sight: torch.Tensor | None = None

    def attend(self, statistics: Request | str | None = None) -> Attention:
        """The same attention once more, with statistics."""
        return attend(
            self.q, self.k, self.v, scale=self.scale, causal=self.causal, mask=self.sight,
            softcap=self.softcap, sinks=self.sinks, statistics=statistics,
        )  # fmt: skip


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    sight: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale q.k) v over the keys in sight, [B, H, T, E].

    In memory that grows with S; but on the meta device, where shapes alone exist and
    FlopCounterMode counts, it is the two products written out.

    Args:
        sight: bool [B, T, S]; causal, with the queries at the end of the keys, if not given.
        sinks: a logit per head in the denominator, [H].
    """
    if sight is None and sinks is None:
        return head_attention(q, k, v, scale=scale)
    if q.is_meta:
        repeats = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(repeats, dim=1) for x in (k, v))
        return (q @ k.mT).softmax(-1) @ v
    mask = None if sight is None else sight[:, None]
    return attend(q, k, v, scale=scale, causal=sight is None, mask=mask, sinks=sinks).output


def bands(rows: int, numbers_per_row: int) -> Iterator[slice]:
    """Slices of rows, each of which needs at most `BAND` numbers (or is one row).

    >>> [band.stop for band in bands(5, BAND // 2)]
    [2, 4, 5]
    """
    height = max(1, BAND // max(1, numbers_per_row))
    for start in range(0, rows, height):
        yield slice(start, min(start + height, rows))


def index_scores(
    q: torch.Tensor, keys: torch.Tensor, weights: torch.Tensor, *, scale: float = 1.0
) -> torch.Tensor:
    """How much every query wants every key: sum_h w_h relu(scale q_h . k).

    Args:
        q: [B, T, h, d].
        keys: [B, S, d], one for all heads.
        weights: [B, T, h].
        scale: of the products, 1 / sqrt(d) in the models that use this.

    Returns: [B, T, S] in float32 or wider.

    Cost: 2 T S h (d + 1) FLOPs; memory for T S h numbers (`choose` goes by bands).

    >>> q, keys = torch.tensor([[[[2.0], [-1.0]]]]), torch.tensor([[[1.0], [-3.0]]])
    >>> index_scores(q, keys, torch.tensor([[[1.0, 10.0]]])).tolist()
    [[[2.0, 30.0]]]
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    wanted = functional.relu(q.to(wide) @ keys.to(wide).mT[:, None] * scale)
    return (weights.to(wide).unsqueeze(-2) @ wanted).squeeze(-2)


@torch.no_grad()
def choose(
    q: torch.Tensor,
    keys: torch.Tensor,
    weights: torch.Tensor,
    *,
    count: int,
    visible: torch.Tensor,
    scale: float = 1.0,
) -> torch.Tensor:
    """The `count` keys in sight with the largest index scores, for every query.

    Args:
        q, keys, weights, scale: as `index_scores` takes them.
        count: k.
        visible: how many of the first keys each query may see, int64 [T] or [B, T].

    Returns:
        int64 [B, T, min(k, S)], best first, and -1 where a query sees fewer keys than that. Of two
        keys with equal scores, `torch.topk` decides.
    """
    B, T = q.shape[:2]
    S = keys.shape[1]
    limit = visible.expand(B, T)
    place = torch.arange(S, device=q.device)
    best = min(count, S)
    found = []
    for rows in bands(T, B * S * q.shape[2]):
        scores = index_scores(q[:, rows], keys, weights[:, rows], scale=scale)
        blind = place >= limit[:, rows, None]
        indices = scores.masked_fill(blind, -torch.inf).topk(best, dim=-1).indices
        found.append(indices.masked_fill(indices >= limit[:, rows, None], -1))
    return torch.cat(found, dim=1) if found else place.new_zeros(B, T, best)


def sight_of(chosen: torch.Tensor, keys: int) -> torch.Tensor:
    """The choice as a mask: bool [B, T, S].

    >>> sight_of(torch.tensor([[[2, -1]]]), 3).tolist()
    [[[False, False, True]]]
    """
    # The column after the last takes what was no choice, and is cut off.
    column = torch.where(chosen < 0, keys, chosen)
    seen = torch.zeros(*chosen.shape[:2], keys + 1, dtype=torch.bool, device=chosen.device)
    return seen.scatter_(-1, column, True)[..., :keys]
