"""Grouped heads: several query heads share one key head and one value head.

The idea: what a decoding step waits for is reading the cache, and the cache holds keys and values
alone. So keep all the query heads and fewer key/value heads: G = H is multi-head attention, G = 1
is multi-query, anything between is grouped. One class is all three.

Formula (n = H / G query heads per group)
    o_h = softmax(q_h k_g^T / sqrt(D) + mask) v_g        g = h // n
    from multi-head weights: W_k,g = mean of W_k,h over the n heads of the group

Shapes
    q [B, H, T, D]    k, v [B, G, S, D]    o [B, H, T, D]

Paper
    Shazeer 2019, arXiv 1911.02150 (one key/value head); Ainslie et al. 2023, arXiv 2305.13245
    (groups, and the mean pooling of a checkpoint).

Keeps: per token and layer 2 G D numbers, a key and a value for each group.

Not here: a norm on q and k (qk_norm.py), a window (sliding.py), the rotation itself (positions/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import torch

from attnscope.caches import FullCache
from attnscope.core.head_inputs import check_heads
from attnscope.core.heads import HeadAttention, HeadShape, head_attention
from attnscope.core.mechanism import About
from attnscope.core.model_fields import Families, ModelFields
from attnscope.core.picture import bars
from attnscope.positions import Rope

ABOUT: Final = About(
    name="grouped",
    title_en="Grouped-query attention (MHA, GQA and MQA)",
    title_zh="分组查询注意力（MHA、GQA、MQA）",
    year=2023,
    paper="Shazeer 2019 (arXiv 1911.02150); Ainslie et al. 2023 (arXiv 2305.13245)",
    solved="Dividing the cache by the query heads per key head: in the shape of Qwen3.8-27B "
    "64 KiB per token in place of 384 KiB, at nearly the quality of all heads.",
    stuck="Fewer groups end at one, and eight are still dear: DeepSeek LLM 67B keeps 389,120 B "
    "per token, 380 GiB at a million tokens.",
    keeps="2 G D numbers: a key and a value per group",
    figures=(
        "kv.qwen38.mha.per_token", "kv.qwen38.mqa.per_token", "kv.qwen38.gqa.per_token",
        "kv.qwen38.gqa.total", "kv.ds67b.gqa.per_token", "kv.ds67b.gqa.total",
        "gqa.paper.mha", "gqa.paper.mqa", "gqa.paper.gqa8",
    ),
)  # fmt: skip

IMPLS: Final = ("reference", "fast")

FAMILIES: Final[Families] = {
    "llama": {
        "num_key_value_heads": None, "head_dim": None, "attention_bias": False,
    },
    "qwen2": {
        "num_key_value_heads": 32, "head_dim": None, "use_sliding_window": False,
        "sliding_window": 4096, "max_window_layers": 28,
    },
}  # fmt: skip
"""What is served, and what their config.json may leave out (the library's own defaults)."""


def grouped_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = True,
    impl: str = "fast",
) -> torch.Tensor:
    """Attention of H query heads to G key heads.

    Args:
        q: [B, H, T, D]; the T queries stand at the end of the S keys.
        k: [B, G, S, D], H a multiple of G.
        v: [B, G, S, E].
        scale: of the scores; 1 / sqrt(D) if not given.
        causal: whether a query is blind to later keys.
        impl: "reference" (the formula, group by group, T x S memory) or "fast".

    Returns:
        [B, H, T, E].

    Raises:
        ValueError, TypeError: an unknown impl, or as `check_heads`.

    Cost: 2 T S (D + E) H FLOPs, whatever G is; the cache that is read shrinks by H / G.

    >>> q, k = torch.ones(1, 4, 2, 8), torch.ones(1, 2, 2, 8)
    >>> grouped_attention(q, k, k).shape
    torch.Size([1, 4, 2, 8])
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    check_heads(q, k, v, causal=causal)
    if impl == "fast":
        return head_attention(q, k, v, scale=scale, causal=causal)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    (H, G), T, S = (q.shape[1], k.shape[1]), q.shape[2], k.shape[2]
    hidden = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1)
    heads = []
    for h in range(H):
        g = h // (H // G)
        scores = scale * q[:, h] @ k[:, g].mT
        if causal:
            scores = scores.masked_fill(hidden, -torch.inf)
        heads.append(scores.softmax(-1) @ v[:, g])
    return torch.stack(heads, 1)


def pool_heads(weight: torch.Tensor, *, heads: int, groups: int) -> torch.Tensor:
    """Fewer key (or value) heads from a checkpoint's many: the mean of each group's.

    Ainslie et al. found it better than keeping the first head, much better than new weights; the
    model is then trained a little more (5 % of its steps), which no pooling replaces.

    Args:
        weight: of `k_proj` or `v_proj`, [heads * D, C], or its bias, [heads * D].
        heads: how many it has.
        groups: how many are wanted.

    Returns:
        [groups * D, C] or [groups * D].

    Raises:
        ValueError: the groups do not divide the heads, or the heads the rows.

    >>> pool_heads(torch.tensor([[1.0], [3.0]]), heads=2, groups=1)
    tensor([[2.]])
    """
    if groups < 1 or heads % groups:
        raise ValueError(f"groups: expected a divisor of the {heads} heads, got {groups}")
    if weight.shape[0] % heads:
        raise ValueError(
            f"weight: expected a multiple of {heads} rows, one block per head, "
            f"got {list(weight.shape)}"
        )
    blocks = weight.unflatten(0, (groups, heads // groups, -1))
    return blocks.mean(1).flatten(0, 1)


class GroupedAttention(HeadAttention):
    """Llama's layer: grouped heads, rotated; with biases as Qwen2 has them, if told so.

    Args: as `HeadAttention`; `shape.groups` makes it MHA (= heads), GQA or MQA (= 1).
    """

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The layer that a config.json describes.

        Args:
            config: of a family in `FAMILIES`.
            layer: which layer.

        Raises:
            ConfigError: a field is missing, the family is not served, or this layer has a window.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        if fields.window is not None:
            raise fields.error(f"layer {layer} has a window; sliding.SlidingAttention builds it")
        bias = (True, False) if fields.kind == "qwen2" else bool(fields["attention_bias"])
        shape = HeadShape.of(fields)
        return cls(shape, rope=Rope.from_config(fields.rope(), width=shape.width), bias=bias)

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache for any batch and dtype; the first tokens decide."""
        return FullCache()

    def to_groups(self, groups: int) -> Self:
        """The same layer with fewer key/value heads, pooled from its own.

        Raises:
            ValueError: `groups` does not divide the key/value heads that are there.
        """
        old = self.shape
        shape = HeadShape(model=old.model, heads=old.heads, groups=groups, width=old.width)
        pooled = {
            name: pool_heads(weight, heads=old.groups, groups=groups)
            if name.startswith(("k_proj", "v_proj"))
            else weight
            for name, weight in self.state_dict().items()
        }
        bias = (self.q_proj.bias is not None, self.o_proj.bias is not None)
        return type(self)(shape, rope=self.rope, scale=self.scale, bias=bias).load(pooled)


def picture() -> str:
    """Who reads whose keys, what is kept, and that sharing is a tie and nothing else."""
    lines = ["8 query heads and the key/value head that each reads"]
    for groups in (8, 2, 1):
        name = {8: "MHA", 1: "MQA"}.get(groups, "GQA")
        reads = " ".join(str(h // (8 // groups)) for h in range(8))
        lines.append(f"  {name}  G = {groups}   {reads}")
    kept, flops = {}, []
    for groups in (24, 4, 1):
        with torch.device("meta"):
            layer = GroupedAttention(HeadShape(model=5120, heads=24, groups=groups, width=256))
        counts = layer.counts(1, 4095)
        kept[f"G = {groups}"] = 16 * counts.bytes_per_token / 1024
        flops.append(f"{counts.flops:,}")
    lines += ["", "Qwen3.8-27B's 16 full layers of 24 heads of 256, kept per token (bfloat16):"]
    lines.append(bars(kept, unit=" KiB"))
    random = torch.Generator().manual_seed(0)
    q = torch.randn(1, 8, 6, 4, generator=random, dtype=torch.float64)
    k, v = torch.randn(2, 1, 2, 6, 4, generator=random, dtype=torch.float64)
    shared = grouped_attention(q, k, v)
    repeated = (x.repeat_interleave(4, 1) for x in (k, v))
    gap = float((shared - grouped_attention(q, *repeated, impl="reference")).abs().max())
    lines += [
        "",
        f"law: groups are heads whose keys and values are tied: largest difference {gap:.0e}",
        "law: bytes kept are proportional to G; the FLOPs of a step do not depend on it, in one",
        f"     layer at 4,096 tokens: {', '.join(flops)}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
