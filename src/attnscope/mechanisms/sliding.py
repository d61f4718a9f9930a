"""Sliding window: a query sees the last w keys, itself included.

The idea: most of what a token needs is near it. With a window, a layer's cache stops growing and
its work is linear in the length; L such layers still reach L (w - 1) tokens back, and a full layer
now and then (one in six in Gemma 3) reaches everything.

Formula
    key j is in sight of query i when 0 <= i - j < w
    reach of L layers = L (w - 1) tokens back

Shapes
    q [B, H, T, D]    k, v [B, G, S, D], the T queries at the end of the S keys

Paper
    Beltagy et al. 2020 (Longformer), arXiv 2004.05150; Jiang et al. 2023 (Mistral 7B),
    arXiv 2310.06825; Gemma 3 2025, arXiv 2503.19786.

Keeps: per token and layer 2 G D numbers, for the last w tokens only.

Not here: windows that are blocks or dilated (`attend` takes a mask), sinks beside a window
(sinks.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import torch

from attnscope.caches import FullCache, WindowCache
from attnscope.core.head_inputs import check_heads, check_window
from attnscope.core.heads import HeadAttention, HeadNorm, HeadShape, Rotation, head_attention
from attnscope.core.mechanism import About
from attnscope.core.model_fields import Families, ModelFields
from attnscope.core.picture import bars, map_picture
from attnscope.positions import Rope

ABOUT: Final = About(
    name="sliding",
    title_en="Sliding window",
    title_zh="滑动窗口注意力",
    year=2020,
    paper="Beltagy et al. 2020 (arXiv 2004.05150); Mistral 7B 2023 (arXiv 2310.06825)",
    solved="A cache that stops growing and work that is linear in the length.",
    stuck="A token further back than the window is out of sight of the layer: Gemma 3 270M sees "
    "512 keys and needs a full layer in every six to read its 32,768 tokens.",
    keeps="2 G D numbers per token, of the last w tokens only",
    figures=("shape.gemma270m.window", "shape.gemma270m.context"),
)

IMPLS: Final = ("reference", "fast")

FAMILIES: Final[Families] = {
    "mistral": {
        "num_key_value_heads": 8, "head_dim": None, "sliding_window": 4096,
    },
    "qwen2": {
        "num_key_value_heads": 32, "head_dim": None, "use_sliding_window": False,
        "sliding_window": 4096, "max_window_layers": 28,
    },
    "qwen3": {
        "num_key_value_heads": 32, "head_dim": 128, "attention_bias": False, "rms_norm_eps": 1e-6,
        "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28,
    },
    "gemma2": {
        "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
        "sliding_window_pattern": 2, "query_pre_attn_scalar": 256, "attention_bias": False,
        "attn_logit_softcapping": 50.0, "use_bidirectional_attention": None,
    },
    "gemma3_text": {
        "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
        "sliding_window_pattern": 6, "query_pre_attn_scalar": 256, "attention_bias": False,
        "attn_logit_softcapping": None, "use_bidirectional_attention": False,
        "rms_norm_eps": 1e-6,
    },
}  # fmt: skip
"""What is served, and what their config.json may leave out (the library's own defaults)."""


def sliding_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    window: int,
    scale: float | None = None,
    softcap: float | None = None,
    impl: str = "fast",
) -> torch.Tensor:
    """Causal attention to the last `window` keys.

    Args:
        q: [B, H, T, D]; the T queries stand at the end of the S keys.
        k: [B, G, S, D].
        v: [B, G, S, E].
        window: how many keys a query sees, itself included.
        scale: of the scores; 1 / sqrt(D) if not given.
        softcap: c of c * tanh(s / c), as Gemma 2 has it.
        impl: "reference" (the formula, T x S memory) or "fast".

    Returns:
        [B, H, T, E].

    Raises:
        ValueError, TypeError: an unknown impl, or as `check_heads` and `check_window`.

    Cost: 2 T min(S, w) (D + E) H FLOPs over the pairs in sight.

    >>> v = torch.arange(4.0).view(1, 1, 4, 1)
    >>> sliding_attention(torch.zeros(1, 1, 4, 1), v, v, window=2).flatten().tolist()
    [0.0, 0.5, 1.5, 2.5]
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    check_heads(q, k, v)
    check_window(window)
    if impl == "fast":
        return head_attention(q, k, v, scale=scale, window=window, softcap=softcap)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    T, S, repeats = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    distance = torch.arange(S - T, S)[:, None] - torch.arange(S)[None]
    scores = scale * q @ k.repeat_interleave(repeats, 1).mT
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    seen = ((distance >= 0) & (distance < window)).to(q.device)
    return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v.repeat_interleave(repeats, 1)


class SlidingAttention(HeadAttention):
    """A layer of Mistral, Qwen2, Qwen3, Gemma 2 or Gemma 3: sliding, or the full one among them.

    Args: as `HeadAttention`, and
        window: None for a full layer.
        softcap: of the scores (Gemma 2).
        norm_eps: QK-norm with this eps (Gemma 3, Qwen3), or None.
        norm_offset: 1 where the norm's weights are kept as w - 1 (Gemma 3), 0 where as w.
    """

    def __init__(
        self,
        shape: HeadShape,
        *,
        window: int | None,
        rope: Rotation | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        norm_eps: float | None = None,
        norm_offset: float = 1.0,
        bias: bool | tuple[bool, bool] = False,
    ) -> None:
        super().__init__(shape, rope=rope, scale=scale, window=window, bias=bias)
        self.softcap = softcap
        if norm_eps is not None:
            self.q_norm = HeadNorm(shape.width, eps=norm_eps, offset=norm_offset)
            self.k_norm = HeadNorm(shape.width, eps=norm_eps, offset=norm_offset)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The layer that a config.json describes, sliding or full as its place says.

        Qwen2 and Qwen3 slide from layer `max_window_layers` on, where `use_sliding_window` is set.

        Raises:
            ConfigError: a field is missing, the family is not served, or it sees forward.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        if fields.get("use_bidirectional_attention"):
            raise fields.error("use_bidirectional_attention is set; this class is causal")
        shape = HeadShape.of(fields)
        if fields.kind == "mistral":
            window = None if fields["sliding_window"] is None else fields.count("sliding_window")
            rope = Rope.from_config(fields.rope(), width=shape.width)
            return cls(shape, window=window, rope=rope)
        if fields.kind in ("qwen2", "qwen3"):
            return cls(
                shape,
                window=fields.window,
                rope=Rope.from_config(fields.rope(), width=shape.width),
                norm_eps=fields["rms_norm_eps"] if fields.kind == "qwen3" else None,
                norm_offset=0.0,
                bias=(True, False) if fields.kind == "qwen2" else bool(fields["attention_bias"]),
            )
        softcap = fields["attn_logit_softcapping"]
        if softcap is not None and fields.kind == "gemma3_text":
            raise fields.error("attn_logit_softcapping is set, but this family's layers ignore it")
        return cls(
            shape,
            window=fields.window,
            rope=Rope.from_config(fields.rope(), layer_type=fields.layer_type, width=shape.width),
            scale=fields["query_pre_attn_scalar"] ** -0.5,
            softcap=softcap,
            norm_eps=fields["rms_norm_eps"] if fields.kind == "gemma3_text" else None,
            bias=bool(fields["attention_bias"]),
        )

    def new_cache(
        self, batch: int = 1, *, dtype: torch.dtype | None = None
    ) -> FullCache | WindowCache:
        """An empty cache: of the window, or of everything in a full layer."""
        return FullCache() if self.window is None else WindowCache(self.window)


def picture() -> str:
    """The band, how far two layers of it reach, and what a cache weighs as the text grows."""
    T, window = 10, 4
    even, values = torch.zeros(1, 1, T, 1), torch.eye(T)[None, None]
    one = sliding_attention(even, even, values, window=window)[0, 0]
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    bands = map_picture(one.masked_fill(hidden | (one == 0), torch.nan).tolist()).splitlines()
    two = one @ one
    reached = map_picture(two.masked_fill(two == 0, torch.nan).tolist()).splitlines()
    far = max(i - j for i in range(T) for j in range(T) if two[i, j] > 0)
    shape = HeadShape(model=640, heads=4, groups=1, width=256)
    kept = {}
    for tokens in (128, 512, 4096, 32768):
        for name, layer in (
            ("window 512", SlidingAttention(shape, window=512)),
            ("full", SlidingAttention(shape, window=None)),
        ):
            kept[f"{tokens:6,} tokens, {name}"] = layer.counts(tokens).kept_bytes / 1024
    return "\n".join([
        f"one layer, w = {window}: what a query sees      two layers: what reaches it",
        *(f"{a:28}{'':13}{b}" for a, b in zip(bands, reached, strict=True)),
        f"law: L layers reach L (w - 1) back: 2 x {window - 1} = {2 * (window - 1)}, found {far}",
        "",
        "kept by one layer of Gemma 3 270M (a key head of 256, bfloat16):",
        bars(kept, unit=" KiB"),
    ])  # fmt: skip


if __name__ == "__main__":
    print(picture())
