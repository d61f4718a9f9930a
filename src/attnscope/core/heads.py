"""What every attention by heads shares: project, norm, rotate, remember, attend, project back.

The idea: from Vaswani's multi-head attention to gpt-oss and Qwen3-Next, a layer is the same six
steps. `HeadAttention` walks them; a mechanism says only what is different: fewer key heads, a norm
on q and k, a window, a sink, a gate.

Formula (h one of H query heads, g = h // (H / G) its key head)
    q_h = rotate(norm(x W_q,h))   k_g = rotate(norm(x W_k,g))   v_g = x W_v,g
    o_h = softmax(scale * q_h k_g^T + mask) v_g                 y = gate(o_1 ... o_H) W_o

Shapes
    x, y [B, T, C]    q [B, H, T, D]    k, v [B, G, T, D]; behind a cache [B, G, S, D]

Dtypes: those of x; a norm is computed in float32 and rounded once.

Not here: the rotation (positions/) and the caches (caches/), handed in as objects; the fields of a
config (model_fields.py); the choice of kernel (head_kernel.py); padding and packed documents, which
`attend` has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import nn

from attnscope.core.head_inputs import check_window
from attnscope.core.head_kernel import head_attention
from attnscope.core.layer import take_weights
from attnscope.core.mechanism import Counts, Seen, Watch, pairs_in_sight, parameters_of
from attnscope.core.model_fields import ModelFields


class Rotation(Protocol):
    """What turns q or k by positions, as `attnscope.positions.Rope` does."""

    def __call__(self, x: torch.Tensor, positions: torch.Tensor, /) -> torch.Tensor: ...


class KeyValueCache(Protocol):
    """What keeps keys and values, as `FullCache` and `WindowCache` of `attnscope.caches` do."""

    @property
    def length(self) -> int: ...

    def append(self, k: torch.Tensor, v: torch.Tensor, /) -> tuple[torch.Tensor, torch.Tensor]: ...


@dataclass(frozen=True)
class HeadShape:
    """The four widths of a layer of heads.

    Attributes:
        model: C, the width of x.
        heads: H query heads.
        groups: G key/value heads; each serves H / G query heads in a row.
        width: D of one head; H * D need not be C.

    Raises:
        ValueError: a number below 1, or heads that the groups do not divide.

    >>> HeadShape(model=1024, heads=16, groups=8, width=128).repeats
    2
    """

    model: int
    heads: int
    groups: int
    width: int

    def __post_init__(self) -> None:
        for name in ("model", "heads", "groups", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.heads % self.groups:
            raise ValueError(
                f"heads: expected a multiple of the {self.groups} key/value heads, got {self.heads}"
            )

    @property
    def repeats(self) -> int:
        """How many query heads share a key head."""
        return self.heads // self.groups

    @classmethod
    def of(cls, fields: ModelFields) -> Self:
        """The shape that a config says.

        Raises:
            ConfigError: a field is missing or contradicts another.
        """
        model, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        groups = fields["num_key_value_heads"]
        groups = heads if groups is None else fields.count("num_key_value_heads")
        if fields["head_dim"] is not None:
            width = fields.count("head_dim")
        elif model % heads:
            raise fields.error(
                f"hidden_size {model} is no multiple of num_attention_heads {heads}, and there is "
                "no head_dim"
            )
        else:
            width = model // heads
        try:
            return cls(model=model, heads=heads, groups=groups, width=width)
        except ValueError as error:
            raise fields.error(str(error)) from None


def split_heads(x: torch.Tensor, width: int) -> torch.Tensor:
    """Cut the last axis into heads: [B, T, H * D] -> [B, H, T, D], a view.

    Raises:
        ValueError: the last axis is no multiple of `width`.

    >>> split_heads(torch.zeros(2, 5, 12), 4).shape
    torch.Size([2, 3, 5, 4])
    """
    if x.shape[-1] % width:
        raise ValueError(
            f"x: expected a last axis that is a multiple of the head width {width}, "
            f"got {list(x.shape)}"
        )
    return x.unflatten(-1, (-1, width)).transpose(1, 2)


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Put the heads side by side again: [B, H, T, D] -> [B, T, H * D].

    >>> x = torch.arange(24.0).view(1, 3, 2, 4)
    >>> bool((split_heads(merge_heads(x), 4) == x).all())
    True
    """
    return x.transpose(1, 2).flatten(2)


class HeadNorm(nn.Module):
    """RMSNorm over the width of one head (Zhang and Sennrich 2019, arXiv 1910.07467, eq. 4).

    Formula
        y = (offset + w) * x / sqrt(mean(x^2) + eps)

    Args:
        width: D.
        eps: keeps a head of zeros finite.
        offset: 0, or 1 where a checkpoint keeps w - 1 (Gemma, Qwen3-Next). With an offset the
            product is rounded once, in float32; without, x is rounded before it meets w, as each
            family's own code does.
    """

    def __init__(self, width: int, *, eps: float, offset: float = 0.0) -> None:
        super().__init__()
        self.eps, self.offset = eps, offset
        self.weight = nn.Parameter(torch.full((width,), 1.0 - offset))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., D] of any dtype; y likewise."""
        wide = x if x.dtype == torch.float64 else x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.offset:
            return (normed * (self.offset + self.weight.to(wide.dtype))).to(x.dtype)
        return self.weight * normed.to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.weight.numel()}, eps={self.eps}, offset={self.offset:g}"


class HeadAttention(nn.Module):
    """The six steps. A mechanism sets what is different, or overrides `project` and `finish`.

    Args:
        shape: the widths.
        rope: turns q and k by positions; None leaves them.
        scale: of the scores; 1 / sqrt(D) if not given.
        window: how many keys a query sees, itself included.
        bias: whether q, k and v have one; a pair adds whether the output has one.

    Attributes:
        q_norm, k_norm: applied to the heads of q and k before the rotation; None leaves them.
        sinks: a logit per query head in the denominator, or None.
        softcap: of the scores, or None.
        causal: whether a query is blind to later keys.
    """

    def __init__(
        self,
        shape: HeadShape,
        *,
        rope: Rotation | None = None,
        scale: float | None = None,
        window: int | None = None,
        bias: bool | tuple[bool, bool] = False,
    ) -> None:
        super().__init__()
        if window is not None:
            check_window(window)
        self.shape, self.rope, self.window = shape, rope, window
        self.scale = shape.width**-0.5 if scale is None else scale
        self.softcap: float | None = None
        self.causal = True
        inner, outer = bias if isinstance(bias, tuple) else (bias, bias)
        H, G, D = shape.heads, shape.groups, shape.width
        self.q_proj = nn.Linear(shape.model, H * D, bias=inner)
        self.k_proj = nn.Linear(shape.model, G * D, bias=inner)
        self.v_proj = nn.Linear(shape.model, G * D, bias=inner)
        self.o_proj = nn.Linear(H * D, shape.model, bias=outer)
        self.q_norm: nn.Module | None = None
        self.k_norm: nn.Module | None = None
        self.sinks: nn.Parameter | None = None

    def project(
        self, x: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """q [B, H, T, D], k and v [B, G, T, D], and what `finish` is to be told of x."""
        D = self.shape.width
        q, k, v = (split_heads(p(x), D) for p in (self.q_proj, self.k_proj, self.v_proj))
        return q, k, v, None

    def finish(self, heads: torch.Tensor, told: torch.Tensor | None) -> torch.Tensor:
        """From the heads' outputs side by side, [B, T, H * D], to y."""
        y: torch.Tensor = self.o_proj(heads)
        return y

    def forward(
        self,
        x: torch.Tensor,
        *,
        cache: KeyValueCache | None = None,
        positions: torch.Tensor | None = None,
        watch: Watch | None = None,
    ) -> torch.Tensor:
        """Attention of the new tokens x to themselves and to what the cache holds.

        Args:
            x: [B, T, C].
            cache: from `new_cache`; without one, x is all there is.
            positions: int64 [T] or [B, T] for the rotation; cache.length onwards if not given.
            watch: called with what is about to be attended.

        Returns:
            y, [B, T, C].

        Raises:
            ValueError: x or positions have another shape.
        """
        start = 0 if cache is None else cache.length
        positions = self._checked(x, positions, start)
        q, k, v, told = self.project(x)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rope is not None:
            q, k = self.rope(q, positions), self.rope(k, positions)
        if cache is not None:
            k, v = cache.append(k, v)
        if watch is not None:
            watch(Seen(q, k, v, start, self.scale, self.window, self.softcap, self.sinks,
                       self.causal))  # fmt: skip
        heads = head_attention(
            q, k, v, scale=self.scale, causal=self.causal, window=self.window,
            softcap=self.softcap, sinks=self.sinks,
        )  # fmt: skip
        return self.finish(merge_heads(heads), told)

    def _checked(self, x: torch.Tensor, positions: torch.Tensor | None, start: int) -> torch.Tensor:
        if x.ndim != 3 or x.shape[2] != self.shape.model:
            raise ValueError(f"x: expected [B, T, {self.shape.model}], got {list(x.shape)}")
        B, T, _ = x.shape
        if positions is None:
            return torch.arange(start, start + T, device=x.device)
        if positions.shape not in ((T,), (B, T)):
            raise ValueError(
                f"positions: expected [{T}] or [{B}, {T}], one per token of x, "
                f"got {list(positions.shape)}"
            )
        return positions

    def load(self, weights: Mapping[str, torch.Tensor]) -> Self:
        """Copy weights by name, and take their dtype and device.

        Raises:
            ValueError: a weight is missing, has another shape, or has no place here.
        """
        take_weights(self, weights)
        return self

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> KeyValueCache:
        """An empty cache; the first tokens decide its batch and dtype."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it keeps")

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The layer that a config.json describes, with weights of its own."""
        raise NotImplementedError(f"{cls.__name__} does not say how it reads a config")

    @classmethod
    def from_hf(cls, layer: nn.Module) -> Self:
        """The same layer as a Hugging Face module, its weights copied.

        Args:
            layer: an attention module with `.config` and `.layer_idx`.

        Raises:
            TypeError: it has no `.config`, or it is of another kind.
            ConfigError: its family is not served.
        """
        return cls._of(layer).load(layer.state_dict())

    @classmethod
    def _of(cls, layer: nn.Module) -> Self:
        """A module by the config that a Hugging Face module carries, with weights of its own."""
        config: Any = getattr(layer, "config", None)
        if not hasattr(config, "to_dict"):
            raise TypeError(
                "layer: expected an attention module of transformers, with a .config, "
                f"got {type(layer).__name__}"
            )
        return cls.from_config(config.to_dict(), layer=getattr(layer, "layer_idx", None) or 0)

    def counts(
        self, tokens: int, cached: int = 0, *, dtype: torch.dtype = torch.bfloat16
    ) -> Counts:
        """What `tokens` new queries behind `cached` earlier tokens cost, per sequence."""
        H, G, D = self.shape.heads, self.shape.groups, self.shape.width
        matrices = sum(p.numel() for p in self.parameters() if p.ndim == 2)
        keys = tokens + (cached if self.window is None else min(cached, self.window - 1))
        kept = cached + tokens if self.window is None else min(cached + tokens, self.window)
        pairs = pairs_in_sight(tokens, cached, self.window)
        if not self.causal:
            pairs = tokens * keys
        per_token = 2 * G * D * dtype.itemsize
        return Counts(
            parameters=parameters_of(self),
            projection_flops=2 * tokens * matrices,
            flops=4 * H * D * pairs,
            flops_dense=4 * H * D * tokens * keys,
            bytes_per_token=per_token,
            kept_bytes=per_token * kept,
        )
