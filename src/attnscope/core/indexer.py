"""The indexer of sparse attention: the learned part that says which keys a query wants.

The idea: a few narrow heads, whose queries come from the latent that MLA's queries come from, scan
one narrow key per token. Layers may share a choice: then only every few layers have an indexer.

Formula (x_t a token, c_t its query's latent; scores and choice are in chosen.py)
    q_th = rotate(W_q c_t)_h        k_s = rotate(layernorm(W_k x_s))        w_t = W_w x_t / sqrt(h)

Shapes: q [B, T, h, d], k [B, T, d], w [B, T, h].

Not here: scores and choice (chosen.py), the rotation, handed in as an object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from attnscope.core.heads import Rotation
from attnscope.core.latent_parts import LatentSizes
from attnscope.core.model_fields import ModelFields
from attnscope.errors import ConfigError


@dataclass(frozen=True)
class IndexSizes:
    """The sizes of an indexer.

    Attributes:
        heads, width: h and d of the formula.
        topk: k, how many keys a query chooses.
        interleaved: whether rotated pairs are neighbours, and not halves.
        own: whether the layer has an indexer; False: it reuses an earlier layer's choice.
    """

    heads: int
    width: int
    topk: int
    interleaved: bool = False
    own: bool = True

    def __post_init__(self) -> None:
        for name in ("heads", "width", "topk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")

    @staticmethod
    def from_fields(fields: ModelFields) -> IndexSizes:
        """Read from a config's fields.

        Raises:
            ConfigError: a field is missing or odd.
        """
        return IndexSizes(
            heads=fields.count("index_n_heads"),
            width=fields.count("index_head_dim"),
            topk=fields.count("index_topk"),
            interleaved=bool(fields["indexer_rope_interleave"]),
            own=indexer_types(fields)[fields.layer] == "full",
        )


class Indexer(nn.Module):
    """The layer's scanner, with the names of its Hugging Face counterpart.

    Args:
        sizes: of the layer.
        index: of the scanner.
    """

    def __init__(self, sizes: LatentSizes, index: IndexSizes, **where: Any) -> None:
        super().__init__()
        if sizes.query_rank is None:
            raise ValueError("query_rank: the indexer reads the query's latent; give its width")
        if index.width < sizes.rope:
            raise ValueError(
                f"width: an index key of {index.width} has no room for the {sizes.rope} rotated "
                "numbers"
            )
        self.index = index
        self.wq_b = nn.Linear(sizes.query_rank, index.heads * index.width, bias=False, **where)
        self.wk = nn.Linear(sizes.model, index.width, bias=False, **where)
        self.k_norm = nn.LayerNorm(index.width, eps=1e-6, **where)
        self.weights_proj = nn.Linear(sizes.model, index.heads, bias=False, **where)

    def forward(
        self, x: torch.Tensor, latent: torch.Tensor, *, rope: Rotation, places: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q [B, T, h, d] and k [B, T, d], rotated, and the weights of the heads [B, T, h]."""
        q = self.wq_b(latent).unflatten(-1, (self.index.heads, -1)).transpose(1, 2)
        k = self.k_norm(self.wk(x))
        weights = self.weights_proj(x) * self.index.heads**-0.5
        return rope(q, places).transpose(1, 2), rope(k, places), weights

    def token_flops(self) -> int:
        """FLOPs per token of the three projections."""
        return sum(2 * m.weight.numel() for m in (self.wq_b, self.wk, self.weights_proj))


def indexer_types(fields: ModelFields) -> tuple[str, ...]:
    """ "full" for every layer with an indexer of its own, "shared" for those that reuse a choice.

    Formula (GLM-5.3, f = index_topk_freq, o = index_skip_topk_offset): layer i is full where
    max(i - o + 1, 0) is a multiple of f; 21 of 78 for f = 4, o = 3.

    Raises:
        ConfigError: a list that does not cover the layers, or names other kinds.
    """
    layers = fields.count("num_hidden_layers")
    given = fields.get("indexer_types") or fields.get("index_topk_pattern")
    if given is None:
        every = int(fields.get("index_topk_freq", 1) or 1)
        offset = int(fields.get("index_skip_topk_offset", 2))
        given = ["F" if max(i - offset + 1, 0) % every == 0 else "S" for i in range(layers)]
    kinds = {"F": "full", "S": "shared", "full": "full", "shared": "shared"}
    odd = [kind for kind in given if kind not in kinds]
    if odd or len(given) != layers or kinds[given[0]] != "full":
        raise ConfigError(
            f"model_type {fields.kind!r}: indexer_types: expected 'full' or 'shared' for each of "
            f"{layers} layers, the first full, got {given!r}"
        )
    return tuple(kinds[kind] for kind in given)
