"""Multi-head attention: the same projections cut into heads, each with a softmax of its own.

The idea: one softmax hands out one 100 %, so one row cannot look for two things at once. Cut the
columns of the projections into H heads, let each attend by itself, and let W_o mix what they bring.
The cut costs neither parameters nor products. The head width D is a choice of its own: H * D need
not be the model's width (Qwen3-0.6B: 16 heads of 128 = 2048 from a width of 1024).

Formula
    head_h = softmax((x W_q,h) (x W_k,h)^T / sqrt(D) + mask) (x W_v,h)
    y = concat(head_1, ..., head_H) W_o = sum_h head_h W_o,h

Shapes
    x, y [B, T, C]    W_q, W_k, W_v [H D, C], W_o [C, H D] as nn.Linear keeps them

Paper
    Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2.

Keeps: per token and layer 2 H D numbers, a key and a value for every head.

Not here: fewer key heads (grouped.py), positions: they are added to x before, as in 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

import torch
from torch import nn

from attnscope.caches import FullCache
from attnscope.core.heads import HeadAttention, HeadShape, head_attention, merge_heads, split_heads
from attnscope.core.mechanism import About
from attnscope.core.model_fields import Families, ModelFields
from attnscope.core.picture import map_picture

ABOUT: Final = About(
    name="multi_head",
    title_en="Multi-head attention",
    title_zh="多头注意力",
    year=2017,
    paper="Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.2",
    solved="Several softmaxes side by side at no extra cost: of the teaching sentence's two heads "
    "one gives 89.5 % to the giver, the other 77.0 % to the gift.",
    stuck="Generating takes one token at a time, and each step feeds the whole text again: a "
    "prompt of 2 tokens and 3 more take 9 keys and values, 5 of which were computed before.",
    keeps="2 H D numbers: a key and a value per head",
    figures=(
        "world.heads.a", "world.heads.b", "cache.prompt", "cache.generated", "cache.without",
        "cache.recomputed",
    ),
)  # fmt: skip

IMPLS: Final = ("reference", "fast")

FAMILIES: Final[Families] = {
    "gpt2": {
        "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    },
}  # fmt: skip
"""What is served, and what their config.json may leave out (the library's own defaults)."""


class Projections(NamedTuple):
    """The four matrices, as nn.Linear keeps them: q, k and v [H D, C], o [C, H D]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor


def multi_head_attention(
    x: torch.Tensor,
    weights: Projections,
    *,
    heads: int,
    causal: bool = True,
    impl: str = "fast",
) -> torch.Tensor:
    """Multi-head attention of x to itself.

    Args:
        x: [B, T, C].
        weights: the matrices; the rows of q, k and v are cut into `heads` equal blocks.
        heads: H.
        causal: whether a token is blind to later ones.
        impl: "reference" (the formula, head by head, T x T memory) or "fast".

    Returns:
        y, [B, T, C].

    Raises:
        ValueError: an unknown impl, or heads that do not divide the rows.

    Cost: 8 T C H D FLOPs of projections and 4 T^2 H D of attention, whatever H is for one H D.

    >>> one = torch.eye(4)
    >>> y = multi_head_attention(torch.ones(1, 3, 4), Projections(one, one, one, one), heads=2)
    >>> y.shape, bool((y == 1).all())
    (torch.Size([1, 3, 4]), True)
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    rows = weights.q.shape[0]
    if heads < 1 or rows % heads:
        raise ValueError(f"heads: expected a divisor of the {rows} rows of W_q, got {heads}")
    for name, weight in weights._asdict().items():
        wanted = (x.shape[-1], rows) if name == "o" else (rows, x.shape[-1])
        if weight.shape != wanted:
            raise ValueError(f"weights: expected {name} {list(wanted)}, got {list(weight.shape)}")
    if x.ndim != 3:
        raise ValueError(f"x: expected [B, T, C], got {list(x.shape)}")
    D = rows // heads
    if impl == "fast":
        q, k, v = (split_heads(x @ w.mT, D) for w in weights[:3])
        return merge_heads(head_attention(q, k, v, causal=causal)) @ weights.o.mT
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    brought = []
    for h in range(heads):
        own = slice(h * D, (h + 1) * D)
        q, k, v = x @ weights.q[own].mT, x @ weights.k[own].mT, x @ weights.v[own].mT
        scores = q @ k.mT / D**0.5
        if causal:
            scores = scores.masked_fill(hidden, -torch.inf)
        brought.append(scores.softmax(-1) @ v)
    return torch.cat(brought, -1) @ weights.o.mT


class MultiHeadAttention(HeadAttention):
    """Every query head has a key head and a value head of its own.

    Args:
        model: C.
        heads: H.
        width: D; C / H if not given.
        causal: whether a token is blind to later ones.
        scale: of the scores; 1 / sqrt(D) if not given.
        bias: whether the four projections have one.

    Raises:
        ValueError: no width, and heads that do not divide the model's.
    """

    def __init__(
        self,
        model: int,
        heads: int,
        *,
        width: int | None = None,
        causal: bool = True,
        scale: float | None = None,
        bias: bool = False,
    ) -> None:
        if width is None and (heads < 1 or model % heads):
            raise ValueError(
                f"heads: expected a divisor of the model width {model}, got {heads}; or give width"
            )
        shape = HeadShape(model, heads, heads, model // heads if width is None else width)
        super().__init__(shape, scale=scale, bias=bias)
        self.causal = causal

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """A layer of GPT-2, from its config.json.

        Raises:
            ConfigError: a field is missing, or the family is not served.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        model, heads = fields.count("n_embd"), fields.count("n_head")
        if model % heads:
            raise fields.error(f"n_head: expected a divisor of n_embd {model}, got {heads}")
        scale = (model // heads) ** -0.5 if fields["scale_attn_weights"] else 1.0
        if fields["scale_attn_by_inverse_layer_idx"]:
            scale /= layer + 1
        return cls(model, heads, scale=scale, bias=True)

    @classmethod
    def from_hf(cls, layer: nn.Module) -> Self:
        """GPT-2's module, whose `c_attn` holds q, k and v side by side, transposed.

        Raises:
            TypeError, ConfigError: as `HeadAttention.from_hf`.
            ValueError: it attends to another sequence.
        """
        module = cls._of(layer)
        if getattr(layer, "is_cross_attention", False):
            raise ValueError("layer: expected self-attention, got cross-attention")
        own = layer.state_dict()
        weights = {"o_proj.weight": own["c_proj.weight"].mT, "o_proj.bias": own["c_proj.bias"]}
        for kind in ("weight", "bias"):
            for name, part in zip("qkv", own[f"c_attn.{kind}"].chunk(3, -1), strict=True):
                weights[f"{name}_proj.{kind}"] = part.mT if part.ndim == 2 else part
        return module.load(weights)

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention, *, causal: bool = True) -> Self:
        """PyTorch's module, its weights copied.

        Args:
            layer: one whose q, k and v have the model's width, without dropout or extra keys.
            causal: what its caller's mask says.

        Raises:
            ValueError: it is something that this class is not.
        """
        plain = layer.bias_k is None and not layer.add_zero_attn and not layer.dropout
        if layer.in_proj_weight is None or not plain:
            raise ValueError(
                "layer: expected kdim = vdim = embed_dim, dropout 0, and neither add_bias_kv nor "
                "add_zero_attn"
            )
        weights: dict[str, torch.Tensor] = dict(layer.out_proj.named_parameters(prefix="o_proj"))
        joined = {"weight": layer.in_proj_weight, "bias": layer.in_proj_bias}
        for kind, tensor in joined.items():
            if tensor is not None:
                parts = zip("qkv", tensor.chunk(3), strict=True)
                weights |= {f"{name}_proj.{kind}": part for name, part in parts}
        bias = layer.in_proj_bias is not None
        module = cls(layer.embed_dim, layer.num_heads, causal=causal, bias=bias)
        return module.load(weights)

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache for any batch and dtype; the first tokens decide.

        Raises:
            ValueError: not causal, so that earlier outputs would change with every new token.
        """
        if not self.causal:
            raise ValueError("causal: a cache needs causal attention; this module looks both ways")
        return FullCache()


def picture() -> str:
    """A row that wants two things: what one head can do, and what two can."""
    tokens = ["小明", "把", "苹果", "给了"]
    # Columns: is it a person, is it a thing. The row of 给了 asks for both.
    keys = torch.tensor([[4.0, 0.0], [0.0, 0.0], [0.0, 4.0], [0.0, 0.0]], dtype=torch.float64)
    asks = torch.tensor([[0.0, 0.0]] * 3 + [[1.5, 1.5]], dtype=torch.float64)
    values = torch.eye(4, dtype=torch.float64)
    lines = ["given by whom, and what? the row of 给了 must find both", ""]
    for heads, names in ((1, ["one head "]), (2, ["head A   ", "head B   "])):
        q, k = split_heads(asks[None], 2 // heads), split_heads(keys[None], 2 // heads)
        weights = head_attention(q, k, values.expand(1, heads, 4, 4))[0, :, -1]
        lines.append(
            map_picture(weights.tolist(), rows=names, columns=tokens, numbers=True)
            if heads == 1
            else map_picture(weights.tolist(), rows=names, numbers=True)
        )
    module = MultiHeadAttention(1024, 16, width=128)
    counts = {h: MultiHeadAttention(1024, h, width=2048 // h).counts(512) for h in (1, 16)}
    same = counts[1] == counts[16]
    lines += [
        "",
        "Qwen3-0.6B's width of head is a choice: 16 x 128 from 1024",
        f"  q_proj {list(module.q_proj.weight.shape)}   o_proj {list(module.o_proj.weight.shape)}",
        f"law: 1 head of 2048 and 16 of 128 cost the same: {same} "
        f"({counts[16].parameters:,} parameters, {counts[16].flops_dense:,} FLOPs at T = 512)",
        f"law: y is the sum of what each head brings: largest difference {_gap():.0e}",
    ]
    return "\n".join(lines)


def _gap() -> float:
    """Between three heads at once and the sum of each alone, on random numbers."""
    random = torch.Generator().manual_seed(0)
    x, q, k, v, o = torch.randn(5, 6, 6, generator=random, dtype=torch.float64)
    whole = multi_head_attention(x[None], Projections(q, k, v, o), heads=3)
    parts = torch.zeros_like(whole)
    for own in (slice(0, 2), slice(2, 4), slice(4, 6)):
        mine = Projections(q[own], k[own], v[own], o[:, own])
        parts += multi_head_attention(x[None], mine, heads=1)
    return float((whole - parts).abs().max())


if __name__ == "__main__":
    print(picture())
