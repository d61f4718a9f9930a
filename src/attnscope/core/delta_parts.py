"""What a gated delta layer has beside its rule: widths, a gated norm, other people's weights.

Shapes: x, z [..., E]; weights as transformers keeps them.

Not here: the layer (mechanisms/gated_delta.py), the rule (delta.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import torch
from torch import nn
from torch.nn import functional

from attnscope.core.layer import rms_normed
from attnscope.core.model_fields import LINEAR, ModelFields

SILU: Final = ("silu", "swish")
"""Names of the one activation."""

_FIELDS: Final = {
    "model": "hidden_size",
    "groups": "linear_num_key_heads",
    "heads": "linear_num_value_heads",
    "width": "linear_key_head_dim",
    "value_width": "linear_value_head_dim",
    "taps": "linear_conv_kernel_dim",
}
"""By our name: the field of a config.json."""

_ATTRIBUTES: Final = {
    "model": "hidden_size",
    "groups": "num_k_heads",
    "heads": "num_v_heads",
    "width": "head_k_dim",
    "value_width": "head_v_dim",
    "taps": "conv_kernel_size",
}
"""By our name: the attribute of transformers' layer, which keeps no config."""


@dataclass(frozen=True)
class DeltaShape:
    """The widths of a layer.

    Attributes:
        model: C of x.
        groups: G heads of q and k.
        heads: H heads of v.
        width: D of a query or key.
        value_width: E of a value.
        taps: how many tokens the convolution reads, the present one included.

    Raises:
        ValueError: a number below 1, or value heads that the key heads do not divide.
    """

    model: int
    groups: int
    heads: int
    width: int
    value_width: int
    taps: int = 4

    def __post_init__(self) -> None:
        for name in ("model", "groups", "heads", "width", "value_width", "taps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.heads % self.groups:
            raise ValueError(
                f"heads: expected value heads that are a multiple of the {self.groups} key heads, "
                f"got {self.heads}"
            )

    @classmethod
    def of(cls, fields: ModelFields) -> Self:
        """The widths that a config says.

        Raises:
            ConfigError: a field is missing or contradicts another, this layer is not linear, or its
                activation is another.
        """
        if fields.layer_type != LINEAR:
            raise fields.error(f"layer {fields.layer} is {fields.layer_type}, and not {LINEAR}")
        if fields["hidden_act"] not in SILU:
            raise fields.error(f"hidden_act: expected 'silu', got {fields['hidden_act']!r}")
        sizes = {own: fields.count(name) for own, name in _FIELDS.items()}
        try:
            return cls(**sizes)
        except ValueError as error:
            raise fields.error(str(error)) from None

    @classmethod
    def of_layer(cls, layer: nn.Module) -> Self:
        """The widths of a layer of transformers.

        Raises:
            TypeError: another kind of layer.
            ValueError: its activation is not SiLU.
        """
        missing = [name for name in _ATTRIBUTES.values() if not hasattr(layer, name)]
        if missing:
            raise TypeError(
                "layer: expected a gated delta layer of transformers, such as "
                f"Qwen3_5GatedDeltaNet; {type(layer).__name__} has no {', '.join(missing)}"
            )
        if getattr(layer, "activation", "silu") not in SILU:
            raise ValueError(f"layer: expected activation 'silu', got {layer.activation!r}")
        return cls(**{own: getattr(layer, name) for own, name in _ATTRIBUTES.items()})

    @property
    def parts(self) -> tuple[int, int, int]:
        """Channels of q, k and v side by side."""
        keys = self.groups * self.width
        return keys, keys, self.heads * self.value_width

    @property
    def channels(self) -> int:
        """All of them: what the convolution runs over."""
        return sum(self.parts)

    def kept_bytes(self, dtype: torch.dtype) -> tuple[int, int]:
        """What a layer in this dtype keeps: the state, and the last inputs of the convolution.

        >>> DeltaShape(8, groups=1, heads=2, width=4, value_width=4).kept_bytes(torch.bfloat16)
        (128, 128)
        """
        wide = torch.promote_types(dtype, torch.float32)
        state = self.heads * self.width * self.value_width * wide.itemsize
        return state, self.channels * self.taps * dtype.itemsize


class GatedNorm(nn.Module):
    """weight * x / sqrt(mean x^2 + eps), then times SiLU(z): the norm first, the gate after it."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """x and z [..., E] of one dtype; y likewise."""
        normed = self.weight * rms_normed(x, self.eps).to(x.dtype)
        gate = functional.silu(z.to(torch.promote_types(z.dtype, torch.float32)))
        return (normed * gate).to(x.dtype)


def in_order(given: Mapping[str, torch.Tensor], shape: DeltaShape) -> dict[str, torch.Tensor]:
    """A layer's weights under Qwen3.5's names.

    Qwen3-Next keeps q, k, v and z in one matrix and b and a in another, key head by key head; their
    rows are sorted here. Other weights pass as they are.
    """
    weights = dict(given)
    if "in_proj_qkvz.weight" in weights and "in_proj_ba.weight" in weights:
        G, n = shape.groups, shape.heads // shape.groups
        values = n * shape.value_width
        rows = weights.pop("in_proj_qkvz.weight").unflatten(0, (G, -1))
        q, k, v, z = rows.split([shape.width, shape.width, values, values], 1)
        b, a = weights.pop("in_proj_ba.weight").unflatten(0, (G, -1)).split([n, n], 1)
        weights["in_proj_qkv.weight"] = torch.cat([x.flatten(0, 1) for x in (q, k, v)])
        for name, x in (("z", z), ("b", b), ("a", a)):
            weights[f"in_proj_{name}.weight"] = x.flatten(0, 1)
    return weights
