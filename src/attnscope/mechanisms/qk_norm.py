"""QK-norm: RMSNorm on every head of q and k, before the rotation.

The idea: 1 / sqrt(D) keeps scores near 1 only while the numbers in q and k stay near 1, and
training makes them grow. A norm on each head fixes the length of q and k, so a score cannot pass a
bound that the norm's weights alone decide, however large the projections become.

Formula (per head; a and b the learned weights)
    q' = a * q / rms(q)     k' = b * k / rms(k)     rms(x) = sqrt(mean(x^2) + eps)
    |scale * q' . k'| <= scale * D * max|a| * max|b|,  which is sqrt(D) max|a| max|b|
    (|q'| <= sqrt(D) max|a|, and the rotation keeps lengths)

Shapes
    q [B, H, T, D]    k [B, G, T, D]    a, b [D], shared by the heads

Dtypes: the norm is computed in float32 and rounded to that of x.

Paper
    Henry et al. 2020, arXiv 2010.04245 (unit length); Dehghani et al. 2023 (ViT-22B),
    arXiv 2302.05442 (a norm against logits that grow); in Qwen3, arXiv 2505.09388.

Keeps: per token and layer 2 G D numbers, keys after norm and rotation.

Not here: weights kept as w - 1 (sliding.py, gated.py), clipping the projections (qk_clip.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import torch

from attnscope.caches import FullCache
from attnscope.core.heads import HeadAttention, HeadNorm, HeadShape, Rotation
from attnscope.core.mechanism import About
from attnscope.core.model_fields import Families, ModelFields
from attnscope.positions import Rope

ABOUT: Final = About(
    name="qk_norm",
    title_en="QK-norm",
    title_zh="QK 归一化（QK-Norm）",
    year=2020,
    paper="Henry et al. 2020 (arXiv 2010.04245); Dehghani et al. 2023 (arXiv 2302.05442)",
    solved="Scores that cannot explode: with weights of 1 and D = 256 none passes 16, "
    "whatever training does to the projections.",
    stuck="It needs every key in full, so MLA, which keeps 576 numbers and never expands its keys, "
    "cannot have it; and the norm's own weights can still grow.",
    keeps="2 G D numbers: keys after norm and rotation, and values",
    figures=("variance.law.256", "shape.qwen38.head_width", "shape.dsv2.entry"),
)

FAMILIES: Final[Families] = {
    "qwen3": {
        "num_key_value_heads": 32, "head_dim": 128, "attention_bias": False, "rms_norm_eps": 1e-6,
        "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28,
    },
    "glm4_moe": {
        "num_key_value_heads": 8, "head_dim": None, "attention_bias": False, "rms_norm_eps": 1e-5,
        "use_qk_norm": False,
    },
}  # fmt: skip
"""What is served, and what their config.json may leave out (the library's own defaults)."""


def qk_norm(
    q: torch.Tensor,
    k: torch.Tensor,
    *,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Give every head of q and k the length that the weights decide.

    Args:
        q: [B, H, T, D].
        k: [B, G, T, D].
        q_weight, k_weight: [D], shared by all heads.
        eps: keeps a head of zeros finite.

    Returns:
        q and k, normed, in their dtypes.

    Raises:
        ValueError: a weight of another width.

    >>> q, k = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[300.0, 400.0]]]])
    >>> one = torch.ones(2)
    >>> q, k = qk_norm(q, k, q_weight=one, k_weight=one, eps=0.0)
    >>> bool(torch.allclose(q, k)), round(float(q.norm()) ** 2, 5)
    (True, 2.0)
    """

    for name, x, own in (("q", q, q_weight), ("k", k, k_weight)):
        if own.shape != x.shape[-1:]:
            raise ValueError(
                f"{name}_weight: expected [{x.shape[-1]}], the width of {name}, "
                f"got {list(own.shape)}"
            )

    def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rms = (wide.pow(2).mean(-1, keepdim=True) + eps).sqrt()
        return weight * (wide / rms).to(x.dtype)

    return normed(q, q_weight), normed(k, k_weight)


def score_bound(
    q_weight: torch.Tensor, k_weight: torch.Tensor, *, scale: float | None = None
) -> float:
    """What no score's magnitude can pass after QK-norm, whatever q and k are.

    Args:
        q_weight, k_weight: [D], the weights as they multiply (1 + w where a checkpoint keeps w).
        scale: of the scores; 1 / sqrt(D) if not given.

    >>> score_bound(torch.ones(256), torch.ones(256))
    16.0
    """
    D = q_weight.numel()
    scale = D**-0.5 if scale is None else scale
    return scale * D * float(q_weight.abs().max()) * float(k_weight.abs().max())


class QKNormAttention(HeadAttention):
    """Qwen3's layer: grouped heads with QK-norm, rotated.

    Args: as `HeadAttention`, and
        eps: of both norms.
    """

    def __init__(
        self,
        shape: HeadShape,
        *,
        rope: Rotation | None = None,
        eps: float = 1e-6,
        bias: bool | tuple[bool, bool] = False,
    ) -> None:
        super().__init__(shape, rope=rope, bias=bias)
        self.q_norm = HeadNorm(shape.width, eps=eps)
        self.k_norm = HeadNorm(shape.width, eps=eps)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The layer that a config.json describes.

        Raises:
            ConfigError: a field is missing, the family is not served, this layer has a window, or
                the model has no QK-norm.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        if fields.window is not None:
            raise fields.error(f"layer {layer} has a window; sliding.SlidingAttention builds it")
        if not fields.get("use_qk_norm", True):
            raise fields.error("use_qk_norm is false; grouped.GroupedAttention has no norm")
        bias = bool(fields["attention_bias"])
        shape = HeadShape.of(fields)
        return cls(
            shape,
            rope=Rope.from_config(fields.rope(), width=shape.width),
            eps=fields["rms_norm_eps"],
            bias=(bias, bias and fields.kind != "glm4_moe"),
        )

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache for any batch and dtype; the first tokens decide."""
        return FullCache()


def picture() -> str:
    """Projections grow a thousandfold: the largest score with and without QK-norm."""
    random = torch.Generator().manual_seed(0)
    D, T = 256, 64
    q, k = torch.randn(2, T, D, generator=random, dtype=torch.float64)
    one = torch.ones(D, dtype=torch.float64)
    bound = score_bound(one, one)
    lines = [f"{T} tokens, one head of {D}: the largest |score| and weight as W_q and W_k grow", ""]
    lines.append("   grown  plain score  weight   QK-norm score  weight")
    worst = 0.0
    for growth in (1.0, 4.0, 32.0, 1000.0):
        grown = q * growth**0.5, k * growth**0.5
        cells = []
        for qs, ks in (grown, qk_norm(*grown, q_weight=one, k_weight=one)):
            scores = qs @ ks.mT / D**0.5
            cells += [float(scores.abs().max()), float(scores.softmax(-1).max(-1).values.mean())]
        worst = max(worst, cells[2])
        lines.append(
            f"{growth:8,.0f}  {cells[0]:11,.1f}  {cells[1]:6.3f}  {cells[2]:14.1f}  {cells[3]:6.3f}"
        )
    lines += [
        "",
        f"law: |score| <= scale D max|a| max|b| = {bound:g}: the largest above is {worst:.2f}",
        "the rotation comes after the norm and keeps lengths, so the bound holds with it too",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
