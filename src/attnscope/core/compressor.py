"""Compression of several tokens into one entry, and the indexer that chooses entries.

The idea: a group of m tokens becomes one vector, coordinate by coordinate a weighted mean of theirs
with learned weights, so that an entry is a convex combination and no new scale appears. With
overlap every token speaks twice: with its first half in the next group's entry, with its second
half in its own, so that no border between groups is sharp.

Formula (DeepSeek-V4, section 2.3; group w, slot s of m, coordinate by coordinate)
    plain     e_w = sum_s softmax_s(g_ws + b_s) v_ws                                   (eq. 20-23)
    overlap   e_w = the same over 2 m slots: first halves of group w - 1, second halves of group w
    entry     rotate(norm(e_w), position m w)

Shapes: values and gates [B, n, m, W], W = D or with overlap 2 D; entries [B, n, D].

Dtypes: the softmax in float32 or wider; the bias and the norm's weight as loaded.

Not here: the rotation, handed in as an object; the cache of what waits.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from attnscope.core.layer import RMSNorm


class TrailingRotation(Protocol):
    """What turns the last numbers of x by positions, as `attnscope.positions.Rope` does."""

    def __call__(
        self, x: torch.Tensor, positions: torch.Tensor, /, *, trailing: bool
    ) -> torch.Tensor: ...


def compress(
    values: torch.Tensor,
    gates: torch.Tensor,
    bias: torch.Tensor,
    *,
    overlap: bool = False,
    before: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """One entry for every group of tokens, before its norm and rotation.

    Args:
        values, gates: [B, n, m, W].
        bias: [m, W], added to the gates by the place of a token in its group.
        overlap: whether W is 2 D and an entry also reads the first halves of the group before.
        before: first halves of values and gates, [B, m, D], of the group before these; there is
            none before the first group of a text, and its entry reads its own tokens alone.

    Returns: [B, n, D].

    >>> values = torch.tensor([[1.0], [3.0]]).view(1, 1, 2, 1)
    >>> compress(values, torch.zeros(1, 1, 2, 1), torch.zeros(2, 1)).item()
    2.0
    """
    gates = gates + bias
    if overlap:
        D, (B, n, m, _) = values.shape[-1] // 2, values.shape
        earlier = values.new_zeros(B, 1, m, D), gates.new_full((B, 1, m, D), -torch.inf)
        if before is not None:
            earlier = before[0][:, None], (before[1] + bias[:, :D])[:, None]
        first_values = torch.cat([earlier[0], values[:, :, :, :D]], dim=1)[:, :n]
        first_gates = torch.cat([earlier[1], gates[:, :, :, :D]], dim=1)[:, :n]
        values = torch.cat([first_values, values[..., D:]], dim=2)
        gates = torch.cat([first_gates, gates[..., D:]], dim=2)
    wide = torch.promote_types(gates.dtype, torch.float32)
    return (values * gates.softmax(dim=2, dtype=wide).to(values.dtype)).sum(dim=2)


class Compressor(nn.Module):
    """The learned part of a compression, with the names of its Hugging Face counterpart.

    Args:
        model: C.
        width: D of an entry.
        ratio: m, tokens per entry.
        overlap: whether entries overlap.
        eps: of the entries' norm.
        indexer: that chooses among the entries, or None; it stands here for the names of weights.
    """

    def __init__(
        self,
        model: int,
        width: int,
        *,
        ratio: int,
        overlap: bool,
        eps: float,
        indexer: EntryIndexer | None = None,
        **where: Any,
    ) -> None:
        super().__init__()
        self.width, self.ratio, self.overlap = width, ratio, overlap
        wide = 2 * width if overlap else width
        self.kv_proj = nn.Linear(model, wide, bias=False, **where)
        self.gate_proj = nn.Linear(model, wide, bias=False, **where)
        self.position_bias = nn.Parameter(torch.zeros(ratio, wide, **where))
        self.kv_norm = RMSNorm(width, eps=eps, late=True, **where)
        self.indexer = indexer

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Values and gates of the tokens x [B, T, C]: [B, T, W] each."""
        return self.kv_proj(x), self.gate_proj(x)

    def entries(
        self,
        values: torch.Tensor,
        gates: torch.Tensor,
        *,
        first: int,
        before: tuple[torch.Tensor, torch.Tensor] | None,
        rope: TrailingRotation,
    ) -> torch.Tensor:
        """Entries [B, n, D] of n whole groups, of which the first is number `first` of the text."""
        mixed = self.kv_norm(
            compress(values, gates, self.position_bias, overlap=self.overlap, before=before)
        )
        groups = torch.arange(first, first + values.shape[1], device=values.device)
        return rope(mixed, groups * self.ratio, trailing=True)

    def token_flops(self) -> int:
        """FLOPs per token of all products with learned matrices in here."""
        return sum(2 * part.weight.numel() for part in self.modules() if type(part) is nn.Linear)


class Scorer(nn.Module):
    """The weights of the indexer's heads."""

    def __init__(self, model: int, heads: int, **where: Any) -> None:
        super().__init__()
        self.weights_proj = nn.Linear(model, heads, bias=False, **where)


class EntryIndexer(Compressor):
    """An indexer over entries of its own: narrower ones, compressed from the same groups.

    Args:
        query_rank: width of the query's latent, from which the indexer's queries come.
        heads: h.
        more: as `Compressor` takes it.
    """

    def __init__(
        self, model: int, width: int, *, query_rank: int, heads: int, ratio: int, eps: float,
        **where: Any,
    ) -> None:  # fmt: skip
        super().__init__(model, width, ratio=ratio, overlap=True, eps=eps, **where)
        self.heads = heads
        self.q_b_proj = nn.Linear(query_rank, heads * width, bias=False, **where)
        self.scorer = Scorer(model, heads, **where)

    def queries(
        self, x: torch.Tensor, latent: torch.Tensor, *, rope: TrailingRotation, places: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """q [B, T, h, d], rotated, and the weights of the heads [B, T, h]."""
        q = self.q_b_proj(latent).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        weights = self.scorer.weights_proj(x) * self.heads**-0.5
        return rope(q, places, trailing=True).transpose(1, 2), weights


class GroupedLinear(nn.Linear):
    """A product per group of heads: [..., g, a] to [..., g, b], as a weight [g b, a]."""

    def __init__(self, groups: int, inside: int, outside: int, **where: Any) -> None:
        super().__init__(inside, groups * outside, bias=False, **where)
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, T, g, a] to [B, T, g, b]."""
        weight = self.weight.view(self.groups, -1, self.in_features)
        flat = x.flatten(0, 1).transpose(0, 1) @ weight.mT
        return flat.transpose(0, 1).unflatten(0, x.shape[:2])
