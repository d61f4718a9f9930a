"""What attention with a single head shares: three projections, a cache, and the order of the steps.

The idea: the first steps of the story (scaled dot product, masking) need no heads and no positions.
`OneHead` projects, remembers and hands over; a mechanism says only how q, k and v become y. It is
also one head of a real layer without rotary positions, such as OPT's.

Formula: q = x W_q    k = x W_k    v = x W_v    y = attend(q, k, v)

Shapes: x [B, T, C], y [B, T, E]; q [B, 1, T, D], k [B, 1, S, D], v [B, 1, S, E].

Not here: several heads, norms, rotation and an output projection (heads.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import torch
from torch import nn

from attnscope.core.heads import HeadShape, KeyValueCache
from attnscope.core.layer import config_of, positions_of, take_weights
from attnscope.core.mechanism import Counts, Seen, Watch, pairs_in_sight, parameters_of
from attnscope.core.model_fields import Families, ModelFields

FAMILIES: Final[Families] = {
    "opt": {"num_key_value_heads": None, "head_dim": None, "enable_bias": True},
}
"""Families whose heads stand alone: positions are added to x, nothing is rotated or normed."""


class OneHead(nn.Module):
    """Three projections and one attention; a mechanism defines `attend`.

    Args:
        model: C, the width of x.
        width: D of queries and keys.
        value: E of values and of y; C if not given.
        scale: of the scores; 1 / sqrt(D) if not given, 1 for none.
        causal: whether a query is blind to later keys.
        bias: whether the projections have one.
    """

    def __init__(
        self,
        model: int,
        width: int,
        *,
        value: int | None = None,
        scale: float | None = None,
        causal: bool = True,
        bias: bool = False,
    ) -> None:
        super().__init__()
        value = model if value is None else value
        for name, size in (("model", model), ("width", width), ("value", value)):
            if size < 1:
                raise ValueError(f"{name}: expected at least 1, got {size}")
        self.model, self.width, self.value, self.causal = model, width, value, causal
        self.scale = width**-0.5 if scale is None else scale
        self.q_proj = nn.Linear(model, width, bias=bias)
        self.k_proj = nn.Linear(model, width, bias=bias)
        self.v_proj = nn.Linear(model, value, bias=bias)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """From q [B, 1, T, D], k and v behind the cache, to [B, 1, T, E]."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it attends")

    def forward(
        self,
        x: torch.Tensor,
        *,
        cache: KeyValueCache | None = None,
        positions: torch.Tensor | None = None,
        watch: Watch | None = None,
    ) -> torch.Tensor:
        """Attention of the new tokens x [B, T, C] to themselves and to the cache: [B, T, E].

        Args:
            cache: from `new_cache`; without one, x is all there is.
            positions: int64 [T] or [B, T]; they change nothing, as nothing is rotated here.
            watch: called with what is about to be attended.

        Raises:
            ValueError, TypeError: x or positions do not fit.
        """
        start = 0 if cache is None else cache.length
        positions_of(x, positions, start=start, model=self.model)
        q, k, v = (p(x)[:, None] for p in (self.q_proj, self.k_proj, self.v_proj))
        if cache is not None:
            k, v = cache.append(k, v)
        if watch is not None:
            watch(self.seen(q, k, v, start))
        return self.attend(q, k, v)[:, 0]

    def seen(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: int) -> Seen:
        """What whoever watches is told."""
        return Seen(q, k, v, start, self.scale, causal=self.causal)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """One head of the layer that a config.json describes, with weights of its own.

        Raises:
            ConfigError: a missing field, or a family whose heads need more than this class has.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        shape = HeadShape.of(fields)
        bias = bool(fields["enable_bias"])
        return cls(shape.model, shape.width, value=shape.width, bias=bias)

    @classmethod
    def from_hf(cls, layer: nn.Module, *, head: int = 0) -> Self:
        """One head of a Hugging Face attention layer, its weights copied.

        Args:
            layer: with `.config`, `q_proj`, `k_proj` and `v_proj`.
            head: which; y is then what this head hands to the layer's output projection.

        Raises:
            TypeError: the layer has no config.
            ConfigError: its family is not served.
            ValueError: the layer has no such head, or its weights are not as its config says.
        """
        config = config_of(layer)
        heads = HeadShape.of(ModelFields(config, families=FAMILIES, reader=cls.__name__)).heads
        if not 0 <= head < heads:
            raise ValueError(f"head: expected 0 to {heads - 1}, got {head}")
        module = cls.from_config(config, layer=getattr(layer, "layer_idx", None) or 0)
        given = layer.state_dict()
        rows = slice(head * module.width, (head + 1) * module.width)
        taken = {}
        for name, own in module.named_parameters():
            expected = [heads * module.width, *own.shape[1:]]
            found = None if name not in given else list(given[name].shape)
            if found != expected:
                raise ValueError(f"layer: expected {name} {expected} by the config, got {found}")
            taken[name] = given[name][rows]
        take_weights(module, taken)
        return module

    def counts(
        self, tokens: int, cached: int = 0, *, dtype: torch.dtype = torch.bfloat16
    ) -> Counts:
        """What `tokens` new queries behind `cached` earlier tokens cost, per sequence."""
        D, E, keys = self.width, self.value, tokens + cached
        pairs = pairs_in_sight(tokens, cached) if self.causal else tokens * keys
        per_token = (D + E) * dtype.itemsize
        return Counts(
            parameters=parameters_of(self),
            projection_flops=2 * tokens * self.model * (2 * D + E),
            flops=2 * (D + E) * pairs,
            flops_dense=2 * (D + E) * tokens * keys,
            bytes_per_token=per_token,
            kept_bytes=per_token * keys,
        )

    def extra_repr(self) -> str:
        """For the module's repr."""
        return f"model={self.model}, width={self.width}, value={self.value}, scale={self.scale:g}"
