"""What layers of several kinds share: weights taken over, positions, a norm.

The idea: a weight that is missing or of another shape is named in one sentence, so that a layer
built from somebody else's weights is theirs exactly or is not built at all.

Shapes: x [B, T, C]; positions int64 [T] or [B, T].

Not here: transformers; a layer's config is read by its attributes, its weights as tensors. The
fields of a config (model_fields.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


def config_of(layer: nn.Module) -> dict[str, Any]:
    """The fields of the config object that a Hugging Face layer carries.

    Raises:
        TypeError: the layer has none.
    """
    config = getattr(layer, "config", None)
    if config is None:
        raise TypeError(
            f"layer: expected a Hugging Face attention layer with a .config, got "
            f"{type(layer).__name__}; build the module from a config and load its weights instead"
        )
    read = getattr(config, "to_dict", None)
    return dict(read() if callable(read) else vars(config))


def take_weights(own: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Give a module copies of these values, with their dtypes and devices, name by name.

    Raises:
        ValueError: a weight is missing, has another shape, or has no place; nothing is changed.
    """
    places, kind = dict(own.named_parameters()), type(own).__name__
    if places.keys() != weights.keys():
        missing = ", ".join(sorted(places.keys() - weights.keys())) or "none"
        extra = ", ".join(sorted(weights.keys() - places.keys())) or "none"
        raise ValueError(
            f"weights: {kind} expects {', '.join(places)}; missing: {missing}; "
            f"without a place: {extra}"
        )
    for name, place in places.items():
        if place.shape != weights[name].shape:
            raise ValueError(
                f"weights: {kind} expects {name} of shape {list(place.shape)}, "
                f"got {list(weights[name].shape)}"
            )
    for name, place in places.items():
        place.data = weights[name].detach().clone()


def positions_of(
    x: torch.Tensor, positions: torch.Tensor | None, *, start: int, model: int
) -> torch.Tensor:
    """The positions of the tokens of x: start, start + 1, ..., if none are given.

    Args:
        x: [B, T, C].
        positions: int64 [T] or [B, T], or None.
        start: of the first token, if none are given.
        model: C, as the layer has it.

    Raises:
        ValueError, TypeError: x or positions do not fit.
    """
    if x.ndim != 3 or x.shape[-1] != model:
        raise ValueError(f"x: expected [B, T, {model}], got {list(x.shape)}")
    B, T, _ = x.shape
    if positions is None:
        return torch.arange(start, start + T, device=x.device)
    if positions.dtype != torch.int64:
        raise TypeError(f"positions: expected int64, got {positions.dtype}")
    if positions.shape not in ((T,), (B, T)):
        raise ValueError(
            f"positions: expected [{T}] or [{B}, {T}], one per token, got {list(positions.shape)}"
        )
    return positions


def rms_normed(x: torch.Tensor, eps: float) -> torch.Tensor:
    """x over the root of its mean square, [..., D], in float32 or wider.

    >>> rms_normed(torch.tensor([3.0, -3.0]), 0.0).tolist()
    [1.0, -1.0]
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)


class RMSNorm(nn.Module):
    """weight * x / sqrt(mean x^2 + eps), normalised in float32 and rounded before the weight.

    Args:
        width: D of the last axis.
        late: round after the weight and not before (DeepSeek-V4, whose weight is float32).
    """

    def __init__(
        self,
        width: int,
        *,
        eps: float = 1e-6,
        late: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=dtype, device=device))
        self.eps, self.late = eps, late

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = rms_normed(x, self.eps)
        if self.late:
            return (self.weight * normed).to(x.dtype)
        return self.weight * normed.to(x.dtype)
