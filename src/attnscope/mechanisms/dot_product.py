"""Scaled dot product: what I look for times what you offer decides how much I take of what you are.

The idea: compared directly, every token is most like itself, and liking is mutual. Two projections
let a verb ask for a thing and a thing answer; a third says what is handed over. All pairs are one
matrix product. The sum of D products has a standard deviation of sqrt(D), so it is divided by that.

Formula
    q_i = x_i W_q    k_j = x_j W_k    v_j = x_j W_v
    p_ij = softmax_j(q_i . k_j / sqrt(D))              o_i = sum_j p_ij v_j
    Var(q . k) = D sigma^4 for independent components of mean 0 and variance sigma^2

Shapes: q [B, H, T, D], k [B, H, S, D], v [B, H, S, E]; x [B, T, C], y [B, T, E].

Dtypes: "reference" computes in float32 (float64 for float64); results in the dtype of v.

Paper: Vaswani et al. 2017, arXiv 1706.03762, section 3.2, eq. 1.

Keeps: D + E numbers per token: a key and a value.

Not here: several heads (multi_head.py), wrong ways to mask (masking.py), other ways from scores to
weights (rivals.py), statistics (core/attend.py, through `watch`).
"""

from __future__ import annotations

from typing import Final

import torch

from attnscope.caches import FullCache
from attnscope.core.heads import head_attention
from attnscope.core.mechanism import About
from attnscope.core.one_head import OneHead
from attnscope.core.picture import map_picture

ABOUT = About(
    name="dot_product",
    title_en="Self-attention: queries, keys, values and the scaled dot product",
    title_zh="自注意力：Q、K、V 三种投影与缩放点积",
    year=2017,
    paper="Vaswani et al. 2017, arXiv 1706.03762, section 3.2, eq. 1",
    solved=(
        "Every pair scored in one matrix product, 32 MiB of scores at T = 4,096; two projections, "
        "because a token compared with itself directly has cosine 1, more than with any other."
    ),
    stuck=(
        "Unscaled, the scores of heads 256 wide have a standard deviation of 16: the softmax is "
        "nearly one-hot, and hardly any gradient reaches the projections."
    ),
    keeps="2 D numbers per token: a key and a value",
    figures=("dot_product.bytes", "variance.std.256", "shape.qwen38.head_width"),
)

IMPLS: Final = ("reference", "fast")


def dot_product(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    impl: str = "fast",
) -> torch.Tensor:
    """Attention of T queries, which stand at the end of the S keys if causal.

    Args:
        q: [B, H, T, D].
        k: [B, H, S, D].
        v: [B, H, S, E].
        scale: of the scores; 1 / sqrt(D) if not given, 1.0 for the plain dot product.
        causal: whether a query is blind to later keys.
        impl: "reference" (the formula, T x S memory) or "fast" (the kernel that fits).

    Returns:
        [B, H, T, E].

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.

    Cost: 2 T S (D + E) H FLOPs; the fast form skips most of the pairs out of sight.

    >>> x = torch.eye(2)[None, None]
    >>> dot_product(x, x, x, scale=0.0)[0, 0].tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    _check(q, k, v, causal)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if impl == "fast":
        return head_attention(q, k, v, scale=scale, causal=causal)
    weights = dot_product_weights(q, k, scale=scale, causal=causal)
    return (weights @ v.to(weights.dtype)).to(v.dtype)


def dot_product_weights(
    q: torch.Tensor, k: torch.Tensor, *, scale: float | None = None, causal: bool = False
) -> torch.Tensor:
    """The weights p [B, H, T, S] in float32 (float64 for float64), by the formula."""
    _check(q, k, k, causal)
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * (q.to(wide) @ k.to(wide).mT)
    if causal:
        T, S = scores.shape[-2:]
        future = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1)
        scores = scores.masked_fill(future, -torch.inf)
    return scores.softmax(-1)


class DotProductAttention(OneHead):
    """One head of scaled dot-product attention with projections q_proj, k_proj and v_proj.

    See `OneHead` for the arguments; scale=1.0 is the plain dot product.
    """

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """See `dot_product`."""
        return dot_product(q, k, v, scale=self.scale, causal=self.causal)

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache; batch and dtype are those of the first tokens."""
        return FullCache()


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(f"{name}: expected [B, H, T, D], got {list(x.shape)}")
        if x.dtype != q.dtype or not x.dtype.is_floating_point:
            raise TypeError(f"{name}: expected a floating dtype like q's {q.dtype}, got {x.dtype}")
    B, H, T, D = q.shape
    if k.shape[:2] != (B, H) or k.shape[3] != D or k.shape[2] == 0:
        raise ValueError(f"k: expected [{B}, {H}, S, {D}] like q, S >= 1, got {list(k.shape)}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v: expected {list(k.shape[:3])} and a width like k, got {list(v.shape)}")
    if causal and k.shape[2] < T:
        raise ValueError(f"causal: {T} queries cannot stand at the end of {k.shape[2]} keys")


def picture() -> str:
    """Why there are two projections, and why sqrt(D): both computed here."""
    tokens = ["boy", "apple", "gave", "girl"]
    # Features: person, thing, action, female.
    x = torch.tensor(
        [[1.0, 0, 0.1, 0], [0, 1, 0, 0.1], [0.2, 0.2, 1, 0], [1, 0, 0.1, 0.9]], dtype=torch.float64
    )
    unit = x / x.norm(dim=-1, keepdim=True)
    # An action asks for things first, then persons; a thing or a person says that it is one.
    w_q = torch.tensor([[0.0, 0], [0, 0], [2, 4], [0, 0]], dtype=torch.float64)
    w_k = torch.tensor([[2.0, 0], [0, 2], [-2, -2], [0, 0]], dtype=torch.float64)
    weights = dot_product_weights((x @ w_q)[None, None], (x @ w_k)[None, None])[0, 0]
    lines = [
        "compared directly, in percent of cosine 1: each is most like itself",
        map_picture((unit @ unit.T).tolist(), rows=tokens, columns=tokens, numbers=True),
        "weights in percent after W_q and W_k: gave asks, apple answers",
        map_picture(weights.tolist(), rows=tokens, columns=tokens, numbers=True),
        "standard deviation of q . k, and of q . k / sqrt(D), over 100,000 random pairs",
    ]
    random = torch.Generator().manual_seed(0)
    for D in (4, 64, 256):
        q, k = torch.randn(2, 100_000, D, generator=random)
        raw = float((q * k).sum(-1).std())
        lines.append(f"  D = {D:3}   {raw:6.2f}   {raw / D**0.5:.2f}")
    lines.append(f"law: rows sum to 1: off by {float((weights.sum(-1) - 1).abs().max()):.1e}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
