"""Multi-head latent attention's parts, shared by the dense and the sparse mechanism.

The idea: keys and values of all heads are two linear images of one latent vector per token. Either
expand the latents to keys and values, or bring the query into the latent space and stay there:

Formula (DeepSeek-V2, arXiv 2405.04434; c_j latent, r_j rotated key, per head h)
    expanded   k_j = [U_K c_j, r_j]   v_j = U_V c_j          s_ij = scale q_i . k_j
    absorbed   s_ij = scale ((U_K^T q_i^nope) . c_j + q_i^rope . r_j)    o_i = U_V sum_j p_ij c_j

    Both are the same number, because q . (U_K c) = (U_K^T q) . c and U_V is linear.

Shapes
    q [B, H, T, N + D] in the order [nope, rope]; latents [B, S, R]; rope_keys [B, S, D], already
    rotated; up [H (N + E), R], in which each head's rows are [U_K, U_V] as kv_b_proj has them.

Not here: positions (the caller rotates), the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from attnscope.core.chosen import attention, bands
from attnscope.core.heads import merge_heads, split_heads
from attnscope.core.layer import RMSNorm
from attnscope.core.model_fields import ModelFields
from attnscope.errors import ConfigError

IMPLS: Final[tuple[str, ...]] = ("expanded", "absorbed")


@dataclass(frozen=True)
class LatentSizes:
    """The sizes of one layer.

    Attributes:
        model: C, width of the residual stream.
        heads: H.
        nope, rope: N and D, the parts of a head's query and key without and with positions.
        value: E, width of a head's value.
        rank: R, width of the latent of keys and values.
        query_rank: of the query's latent; None projects straight from the model's width.
        bias: whether the projections into the latents and out of the heads have one.
        eps: of the latents' norms. 1e-6 in every model, whatever its config says of other norms.
    """

    model: int
    heads: int
    nope: int
    rope: int
    value: int
    rank: int
    query_rank: int | None = None
    bias: bool = False
    eps: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("model", "heads", "nope", "rope", "value", "rank"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.query_rank is not None and self.query_rank < 1:
            raise ValueError(f"query_rank: expected at least 1 or None, got {self.query_rank}")
        if self.rope % 2:
            raise ValueError(
                f"rope: a rotation takes pairs, expected an even width, got {self.rope}"
            )

    @property
    def width(self) -> int:
        """N + D: what a query and a key are wide."""
        return self.nope + self.rope

    @staticmethod
    def from_fields(fields: ModelFields) -> LatentSizes:
        """Read from a config's fields.

        Raises:
            ConfigError: a field is missing or contradicts another.
        """
        heads = fields.count("num_attention_heads")
        if fields.get("num_key_value_heads", heads) not in (heads, None):
            raise ConfigError(
                f"model_type {fields.kind!r}: num_key_value_heads = "
                f"{fields['num_key_value_heads']}, but latent attention expands a key for each of "
                f"its {heads} heads"
            )
        rope = fields.count("qk_rope_head_dim")
        if rope % 2:
            raise ConfigError(
                f"model_type {fields.kind!r}: qk_rope_head_dim: expected an even number, since a "
                f"rotation takes pairs, got {rope}"
            )
        return LatentSizes(
            model=fields.count("hidden_size"),
            heads=heads,
            nope=fields.count("qk_nope_head_dim"),
            rope=rope,
            value=fields.count("v_head_dim"),
            rank=fields.count("kv_lora_rank"),
            # null says that queries have no latent; a missing field says nothing.
            query_rank=None if fields["q_lora_rank"] is None else fields.count("q_lora_rank"),
            bias=bool(fields.get("attention_bias", False)),
        )


def softmax_scale(config: Mapping[str, Any], width: int) -> float:
    """1 / sqrt(N + D), times yarn's mscale squared: once for the query and once for the key.

    Args:
        config: the fields, of which `rope_parameters` or `rope_scaling` is read.
        width: N + D.

    >>> yarn = {"type": "yarn", "factor": 40, "mscale_all_dim": 1.0}
    >>> round(softmax_scale({"rope_scaling": yarn}, 192) * 192**0.5, 4)
    1.8739
    """
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    share = rope.get("mscale_all_dim") or 0
    if kind == "default" or not share:
        return float(width**-0.5)
    if "factor" not in rope:
        raise ConfigError(f"mscale_all_dim needs the field factor of the {kind} rope beside it")
    factor = rope["factor"]
    mscale = 0.1 * share * math.log(factor) + 1.0 if factor > 1 else 1.0
    return float(width**-0.5 * mscale * mscale)


def halves(
    q: torch.Tensor, latents: torch.Tensor, rope_keys: torch.Tensor, up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """q_nope, q_rope, and U_K [H, N, R] and U_V [H, E, R], after checking that all fit.

    Raises:
        ValueError: naming the argument, what was expected and what came.
    """
    for name, tensor, axes in (
        ("q", q, "[B, H, T, N + D]"), ("latents", latents, "[B, S, R]"),
        ("rope_keys", rope_keys, "[B, S, D]"), ("up", up, "[H (N + E), R]"),
    ):  # fmt: skip
        if tensor.ndim != axes.count(",") + 1:
            raise ValueError(f"{name}: expected {axes}, got {list(tensor.shape)}")
    B, H, _, width = q.shape
    if latents.shape[0] != B or rope_keys.shape[:2] != latents.shape[:2]:
        raise ValueError(
            f"rope_keys: expected the batch and length of q and latents, {B} x "
            f"{latents.shape[1]}, got {list(rope_keys.shape[:2])} (latents "
            f"{list(latents.shape[:2])})"
        )
    nope = width - rope_keys.shape[-1]
    if nope < 1:
        raise ValueError(
            f"q: expected [nope, rope] wider than the rotated keys' {rope_keys.shape[-1]}, "
            f"got {width}"
        )
    rows, rank = up.shape
    if rank != latents.shape[-1] or rows % H or rows // H <= nope:
        raise ValueError(
            f"up: expected [{H} x ({nope} + E), {latents.shape[-1]}], got {list(up.shape)}"
        )
    per_head = up.view(H, rows // H, rank)
    return q[..., :nope], q[..., nope:], per_head[:, :nope], per_head[:, nope:]


def keys_and_values(
    q: torch.Tensor, latents: torch.Tensor, rope_keys: torch.Tensor, up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The latents expanded: k [B, H, S, N + D] and v [B, H, S, E].

    Cost: 2 S R H (N + E) FLOPs, on every call anew.
    """
    up_key = halves(q, latents, rope_keys, up)[2]
    (B, S, _), H, N = latents.shape, q.shape[1], up_key.shape[1]
    both = nn.functional.linear(latents, up).view(B, S, H, -1).transpose(1, 2)
    rotated = rope_keys[:, None].expand(B, H, S, -1)
    return torch.cat([both[..., :N], rotated], dim=-1), both[..., N:]


def latent_queries(
    q: torch.Tensor, latents: torch.Tensor, rope_keys: torch.Tensor, up: torch.Tensor
) -> torch.Tensor:
    """The queries brought to the latents: [U_K^T q_nope, q_rope], [B, H, T, R + D].

    Cost: 2 T H N R FLOPs.
    """
    q_nope, q_rope, up_key, _ = halves(q, latents, rope_keys, up)
    return torch.cat([q_nope @ up_key, q_rope], dim=-1)


def expanded(
    q: torch.Tensor,
    latents: torch.Tensor,
    rope_keys: torch.Tensor,
    up: torch.Tensor,
    *,
    scale: float,
    sight: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention over expanded keys and values, as the formula says it: [B, H, T, E]."""
    k, v = keys_and_values(q, latents, rope_keys, up)
    return attention(q, k, v, scale=scale, sight=sight)


def absorbed(
    q: torch.Tensor,
    latents: torch.Tensor,
    rope_keys: torch.Tensor,
    up: torch.Tensor,
    *,
    scale: float,
    sight: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same attention in the latent space, as one key head of width R + D: [B, H, T, E]."""
    up_value = halves(q, latents, rope_keys, up)[3]
    wanted = latent_queries(q, latents, rope_keys, up)
    R = latents.shape[-1]
    if q.shape[2] == 1 and sight is None:
        # One query sees all keys: two products per side, and no copy of the cache to join them.
        flat = wanted[:, :, 0]
        scores = (flat[..., :R] @ latents.mT + flat[..., R:] @ rope_keys.mT) * scale
        wide = torch.promote_types(scores.dtype, torch.float32)
        mixed = (scores.softmax(-1, dtype=wide).to(q.dtype) @ latents)[:, :, None]
    else:
        keys = torch.cat([latents, rope_keys], dim=-1)[:, None]
        mixed = attention(wanted, keys, latents[:, None], scale=scale, sight=sight)
    return mixed @ up_value.mT


def gathered(
    q: torch.Tensor,
    latents: torch.Tensor,
    rope_keys: torch.Tensor,
    up: torch.Tensor,
    *,
    chosen: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Every query over the latents it chose, in the latent space: [B, H, T, E]."""
    up_value = halves(q, latents, rope_keys, up)[3]
    wanted = latent_queries(q, latents, rope_keys, up).transpose(1, 2)
    kept = torch.cat([latents, rope_keys], dim=-1)
    B, T, k = chosen.shape
    batch = torch.arange(B, device=q.device)[:, None, None]
    mixed = []
    for rows in bands(T, B * k * kept.shape[-1]):
        picks = chosen[:, rows]
        keys = kept[batch, picks.clamp(min=0)]
        scores = wanted[:, rows] @ keys.mT * scale
        scores = scores.masked_fill((picks < 0)[:, :, None], -torch.inf)
        wide = torch.promote_types(scores.dtype, torch.float32)
        weights = scores.softmax(-1, dtype=wide).to(q.dtype)
        mixed.append(weights @ keys[..., : latents.shape[-1]])
    return torch.cat(mixed, dim=1).transpose(1, 2) @ up_value.mT


class LatentProjections(nn.Module):
    """The learned part of a layer, with the names of its Hugging Face counterpart.

    Args:
        sizes: of the layer.
        dtype, device: of the weights.
    """

    def __init__(
        self,
        sizes: LatentSizes,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.sizes = sizes
        where: dict[str, Any] = {"dtype": dtype, "device": device}

        def linear(inside: int, outside: int, bias: bool = False) -> nn.Linear:
            return nn.Linear(inside, outside, bias=bias, **where)

        s = sizes
        if s.query_rank is None:
            self.q_proj = linear(s.model, s.heads * s.width)
        else:
            self.q_a_proj = linear(s.model, s.query_rank, s.bias)
            self.q_a_layernorm = RMSNorm(s.query_rank, eps=s.eps, **where)
            self.q_b_proj = linear(s.query_rank, s.heads * s.width)
        self.kv_a_proj_with_mqa = linear(s.model, s.rank + s.rope, s.bias)
        self.kv_a_layernorm = RMSNorm(s.rank, eps=s.eps, **where)
        self.kv_b_proj = linear(s.rank, s.heads * (s.nope + s.value))
        self.o_proj = linear(s.heads * s.value, s.model, s.bias)

    def queries(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """q [B, H, T, N + D] before its rotation, and the query's latent [B, T, query_rank]."""
        latent = None
        if self.sizes.query_rank is None:
            flat = self.q_proj(x)
        else:
            latent = self.q_a_layernorm(self.q_a_proj(x))
            flat = self.q_b_proj(latent)
        return split_heads(flat, self.sizes.width), latent

    def latents(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What is kept: the latent [B, T, R], normed, and the key [B, T, D] before its rotation."""
        latent, key = self.kv_a_proj_with_mqa(x).split([self.sizes.rank, self.sizes.rope], dim=-1)
        return self.kv_a_layernorm(latent), key

    def output(self, mixed: torch.Tensor) -> torch.Tensor:
        """The heads [B, H, T, E] brought back to the model's width, [B, T, C]."""
        y: torch.Tensor = self.o_proj(merge_heads(mixed))
        return y

    def token_flops(self) -> int:
        """FLOPs per new token of the projections that do not depend on the implementation."""
        s = self.sizes
        if s.query_rank is None:
            query = s.model * s.heads * s.width
        else:
            query = s.query_rank * (s.model + s.heads * s.width)
        return 2 * (query + s.model * (s.rank + s.rope) + s.heads * s.value * s.model)

    def up_flops(self, tokens: int) -> int:
        """FLOPs of kv_b_proj for this many tokens; absorbed, for this many queries."""
        s = self.sizes
        return 2 * tokens * s.rank * s.heads * (s.nope + s.value)

    def pair_flops(self, impl: str) -> int:
        """FLOPs per pair of query and key."""
        s = self.sizes
        wide = s.width + s.value if impl == "expanded" else 2 * s.rank + s.rope
        return 2 * s.heads * wide
