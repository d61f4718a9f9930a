"""Output gate: what attention brings is multiplied by a sigmoid of the token that asked.

The idea: a softmax must hand out 100 %, but nothing says that all of it must be taken. Each query
computes, beside q, one number between 0 and 1 for every number of its head's output; 0 means "not
this time". It is a second way out for a head with nothing to look for, and the only thing between
the values and W_o that is not linear.

Formula (per head; * element by element)
    [q, z] = x W_q          o = softmax(rotate(norm q) rotate(norm k)^T / sqrt(D) + mask) v
    y = (o * sigmoid(z)) W_o

Shapes
    x, y [B, T, C]    q, z, o [B, H, T, D]    k, v [B, G, S, D]    W_q [2 H D, C], per head [q, z]

Dtypes: those of x; the norm is computed in float32 and rounded once.

Paper
    Qiu et al. 2025 (Gated Attention), arXiv 2505.06708 (there among other places of a gate); in
    Qwen3-Next 2025 and Qwen3.5.

Keeps: per token and layer 2 G D numbers; a gate belongs to its query and is not kept.

Not here: a sink in the softmax (sinks.py), the gate of linear attention (gated_delta.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Self

import torch
from torch import nn

from attnscope.caches import FullCache
from attnscope.core.head_inputs import check_heads
from attnscope.core.heads import (
    HeadAttention,
    HeadNorm,
    HeadShape,
    Rotation,
    head_attention,
    split_heads,
)
from attnscope.core.mechanism import About
from attnscope.core.model_fields import FULL, Families, ModelFields
from attnscope.core.picture import bars
from attnscope.positions import Rope

ABOUT: Final = About(
    name="gated",
    title_en="Output gate",
    title_zh="输出门（门控注意力）",
    year=2025,
    paper="Qiu et al. 2025 (arXiv 2505.06708)",
    solved="A query may refuse what its head brings, so the row of scores 0.04, 0.36, 0.00 need "
    "not count although its weights are still 30 / 41 / 29 %.",
    stuck="The gate eases sinks and does not remove them, by its paper's own word; and it is paid "
    "with 31,457,280 parameters more in each full layer of Qwen3.8-27B.",
    keeps="2 G D numbers: keys after norm and rotation, and values",
    figures=("world.sink.scores", "world.sink.row", "shape.qwen38.gate"),
)

FAMILIES: Final[Families] = {
    "qwen3_next": {
        "num_key_value_heads": 2, "head_dim": 256, "attention_bias": False, "rms_norm_eps": 1e-6,
        "full_attention_interval": 4, "attn_output_gate": True,
    },
    "qwen3_5_text": {
        "num_key_value_heads": 4, "head_dim": 256, "attention_bias": False, "rms_norm_eps": 1e-6,
        "full_attention_interval": 4, "attn_output_gate": True,
    },
}  # fmt: skip
"""What is served, and what their config.json may leave out (the library's own defaults)."""


def gated_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    """Causal attention whose output passes a gate.

    Args:
        q: [B, H, T, D]; the T queries stand at the end of the S keys.
        k: [B, G, S, D].
        v: [B, G, S, E].
        gate: [B, H, T, E] of any real numbers, or [B, H, T, 1] for one gate per head.
        scale: of the scores; 1 / sqrt(D) if not given.

    Returns:
        [B, H, T, E].

    Raises:
        ValueError, TypeError: a gate of another shape, or as `check_heads`.

    >>> x = torch.ones(1, 1, 1, 2)
    >>> gated_attention(x, x, x, torch.tensor([[[[0.0, -200.0]]]])).flatten().tolist()
    [0.5, 0.0]
    """
    check_heads(q, k, v)
    taken = (*q.shape[:3], v.shape[3])
    if gate.shape not in (taken, (*q.shape[:3], 1)):
        raise ValueError(
            f"gate: expected {list(taken)}, or one number per head, got {list(gate.shape)}"
        )
    return head_attention(q, k, v, scale=scale) * torch.sigmoid(gate)


class GatedAttention(HeadAttention):
    """Qwen3-Next's and Qwen3.5's full layer: grouped heads, QK-norm, partly rotated, gated.

    Args: as `HeadAttention`, and
        eps: of both norms, whose weights are kept as w - 1.
    """

    def __init__(
        self,
        shape: HeadShape,
        *,
        rope: Rotation | None = None,
        eps: float = 1e-6,
        bias: bool = False,
    ) -> None:
        super().__init__(shape, rope=rope, bias=bias)
        self.q_proj = nn.Linear(shape.model, 2 * shape.heads * shape.width, bias=bias)
        self.q_norm = HeadNorm(shape.width, eps=eps, offset=1.0)
        self.k_norm = HeadNorm(shape.width, eps=eps, offset=1.0)

    def project(
        self, x: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """q, k and v by heads, and the gates side by side, [B, T, H D]."""
        D = self.shape.width
        q, gate = split_heads(self.q_proj(x), 2 * D).chunk(2, -1)
        k, v = split_heads(self.k_proj(x), D), split_heads(self.v_proj(x), D)
        return q, k, v, gate.transpose(1, 2).flatten(2)

    def finish(self, heads: torch.Tensor, told: torch.Tensor | None) -> torch.Tensor:
        """Let the gates pass what they will, then W_o."""
        assert told is not None
        y: torch.Tensor = self.o_proj(heads * torch.sigmoid(told))
        return y

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The full layer that a config.json describes.

        Raises:
            ConfigError: a field is missing, the family is not served, the layer is a linear one, or
                the model has no gate.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        if fields.layer_type != FULL:
            every = fields.count("full_attention_interval")
            raise fields.error(
                f"layer {layer} is of type {fields.layer_type}, which gated_delta builds; one in "
                f"{every} has softmax and gate, the first is layer {every - 1}"
            )
        if not fields["attn_output_gate"]:
            raise fields.error("attn_output_gate is false; qk_norm.QKNormAttention has no gate")
        shape = HeadShape.of(fields)
        return cls(
            shape,
            rope=Rope.from_config(fields.rope(), width=shape.width),
            eps=fields["rms_norm_eps"],
            bias=bool(fields["attention_bias"]),
        )

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache for any batch and dtype; the first tokens decide."""
        return FullCache()


def picture() -> str:
    """A row that finds nothing: what no gate, a half-open and a closed one let through."""
    scores = torch.tensor([0.04, 0.36, 0.00], dtype=torch.float64)
    q, k = torch.ones(1, 1, 1, 1, dtype=torch.float64), scores.view(1, 1, 3, 1)
    values = torch.eye(3, dtype=torch.float64)[None, None]
    whole = head_attention(q, k, values, scale=1.0)
    shown = {"no gate": float(whole.sum())}
    worst = 0.0
    for z in (2.0, 0.0, -2.0, -6.0):
        gate = torch.full((1, 1, 1, 1), z, dtype=torch.float64)
        taken = gated_attention(q, k, values, gate, scale=1.0)
        shown[f"z = {z:g}"] = float(taken.sum())
        worst = max(worst, abs(float(taken.sum()) - 1 / (1 + math.exp(-z))))
    weights = " / ".join(f"{100 * w:.0f}" for w in whole.flatten().tolist())
    shape = HeadShape(model=64, heads=4, groups=1, width=16)
    plain, gated = HeadAttention(shape).counts(1), GatedAttention(shape).counts(1)
    extra = gated.parameters - plain.parameters - 2 * shape.width
    return "\n".join([
        f"scores 0.04, 0.36, 0.00: weights {weights} %, whatever the gate.",
        "how much of the values is taken, sum over the keys of weight times gate:",
        bars(shown, most=1.0),
        "",
        f"law: what is taken sums to sigmoid(z), below 1: largest difference {worst:.0e}",
        f"its price in a layer of 4 heads of 16 from 64: {extra:,} parameters (H D C), "
        f"{gated.projection_flops - plain.projection_flops:,} FLOPs per token; bytes kept: "
        f"{gated.bytes_per_token - plain.bytes_per_token}",
    ])  # fmt: skip


if __name__ == "__main__":
    print(picture())
