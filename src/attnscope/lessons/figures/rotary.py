"""Rotary positions: an example of two arrows, and how slowly the pairs of a real model turn.

Formula (pair m of r / 2, theta the base)
    angle per token   theta^(-2 m / r)
    full circle       2 pi theta^(2 m / r) tokens, from 2 pi to 2 pi theta^((r - 2) / r)

Not here: the turning itself (attnscope.positions), what it changes (experiments/rotary.py).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from attnscope.lessons.figures.configs import HUB, config
from attnscope.lessons.figures.registry import Ask, figure, given
from attnscope.lessons.figures.shapes import ANCHOR, field

CIRCLE: Final = given(2 * math.pi, "a full circle in radians, 2 pi")
_ROTATED: Final[dict[str, Ask]] = {
    "head_dim": config(ANCHOR, "head_dim"),
    "share": config(ANCHOR, "partial_rotary_factor"),
}
anchor = partial(figure, source=f"config of {HUB[ANCHOR]}")

_EXAMPLE: Final = "chosen for the lesson"


@figure(
    "rope.example.product", formula="a × b × cos(circle × degrees × distance / 360)",
    inputs={"a": given(3, f"{_EXAMPLE}: length of one arrow"),
            "b": given(4, f"{_EXAMPLE}: length of the other"),
            "degrees": given(15, f"{_EXAMPLE}: degrees a token"),
            "distance": given(4, f"{_EXAMPLE}: tokens apart"), "circle": CIRCLE},
    source="Su et al. 2021, arXiv 2104.09864", show="{:.1f}",
    en="Two arrows of one direction, turned 4 tokens apart: dot product",
    zh="同方向的两支箭，各按位置转过之后（相距 4 个 token）的点积",
)  # fmt: skip
def product(a: float, b: float, degrees: float, distance: int, circle: float) -> float:
    return a * b * math.cos(circle * degrees * distance / 360)


field(
    "rope.qwen38.theta", ANCHOR, "rope_theta",
    en="Qwen3.8-27B: base of its rotation", zh="Qwen3.8-27B：旋转的底数",
)  # fmt: skip
field(
    "rope.qwen38.share", ANCHOR, "partial_rotary_factor", show="{:.0%}",
    en="Qwen3.8-27B: share of a head that turns", zh="Qwen3.8-27B：每头转动的比例",
)  # fmt: skip


@anchor(
    "rope.qwen38.pairs", formula="head_dim × share / 2", inputs=_ROTATED,
    en="Qwen3.8-27B: pairs of a head that turn", zh="Qwen3.8-27B：每头转动的对数",
)  # fmt: skip
def pairs(head_dim: int, share: float) -> int:
    return int(head_dim * share) // 2


@anchor(
    "rope.qwen38.still", formula="head_dim - head_dim × share", inputs=_ROTATED,
    en="Qwen3.8-27B: numbers of a head that never turn",
    zh="Qwen3.8-27B：每头从不转动的数",
)  # fmt: skip
def still(head_dim: int, share: float) -> int:
    return head_dim - 2 * pairs(head_dim, share)


figure(
    "rope.circle.fastest", inputs={"circle": CIRCLE}, formula="circle", unit="tokens",
    source="Su et al. 2021, arXiv 2104.09864: the first pair turns by 1 radian a token",
    show="{:.2f}", en="Tokens for a full circle of the fastest pair",
    zh="最快的一对转满一圈要几个 token",
)(lambda circle: circle)  # fmt: skip


@anchor(
    "rope.qwen38.circle", unit="tokens", show="{million:.0f} million",
    show_zh=lambda value: f"{value / 10**4:,.0f} 万",
    formula="circle × theta ^ ((head_dim × share - 2) / (head_dim × share))",
    inputs={**_ROTATED, "theta": config(ANCHOR, "rope_theta"), "circle": CIRCLE},
    en="Qwen3.8-27B: tokens for a full circle of the slowest pair",
    zh="Qwen3.8-27B：最慢的一对转满一圈要几个 token",
)  # fmt: skip
def circle(head_dim: int, share: float, theta: float, circle: float) -> float:
    turned = head_dim * share
    return float(circle * theta ** ((turned - 2) / turned))


@anchor(
    "rope.qwen38.turned", unit="degrees", show="{:.1f}°",
    formula="360 × context / (circle × theta ^ ((head_dim × share - 2) / (head_dim × share)))",
    inputs={**_ROTATED, "theta": config(ANCHOR, "rope_theta"), "circle": CIRCLE,
            "context": config(ANCHOR, "max_position_embeddings")},
    en="Qwen3.8-27B: how far the slowest pair has turned at the native context",
    zh="Qwen3.8-27B：走完原生上下文，最慢的一对转了多少度",
)  # fmt: skip
def turned(context: int, **about: float) -> float:
    return 360 * context / circle(**about)
