"""The planner's picture: bytes against context, one line per scheme, both axes logarithmic.

The idea: a picture of a few lines needs no library; it is text in SVG. The device's memory (less
the weights) is a dashed line; where a scheme crosses it, its largest context is marked.

Units: tokens across, bytes up (binary GiB written GiB).

Not here: the planner's page in the browser.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from attnscope.plan.bytes import sequence_bytes
from attnscope.plan.fit import corners, largest_context, size_text
from attnscope.plan.model import Model

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 86, 200, 48, 56
COLOURS: Final = ("#0b62a4", "#c1440e", "#2a7f3f", "#7b3fa0", "#8a6d00", "#00808a", "#b0287a")
DASHES: Final = ("", "8 3", "2 3", "10 3 2 3", "5 2", "1 2", "12 4")
"""Lines differ in their dashes too, so the picture reads without colour."""
POINTS: Final = 160


@dataclass(frozen=True)
class Curve:
    """One scheme: its label and the model whose bytes it draws."""

    label: str
    model: Model


@dataclass(frozen=True)
class _Axes:
    least_tokens: float
    most_tokens: float
    least: float
    most: float

    def x(self, tokens: float) -> float:
        span = math.log(self.most_tokens / self.least_tokens)
        share = math.log(tokens / self.least_tokens) / span
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, size: float) -> float:
        share = math.log(max(size, self.least) / self.least) / math.log(self.most / self.least)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _lengths(most: int) -> list[int]:
    steps = [round(most ** (i / POINTS)) for i in range(POINTS + 1)]
    return sorted({max(one, 1) for one in steps})


def draw(
    curves: Sequence[Curve],
    *,
    most_tokens: int,
    batch: int = 1,
    budget: int | None = None,
    budget_label: str = "device",
    dtype: str | None = None,
    kv_dtype: str | None = None,
    title: str = "",
) -> str:
    """The picture as SVG text.

    Args:
        curves: schemes or models, each a line.
        most_tokens: the right end of the axis.
        budget: bytes there are for the cache, drawn across; None for no line.

    Raises:
        ValueError: no curve, or an axis of less than two tokens.
    """
    if not curves:
        raise ValueError("curves must hold at least one model.")
    if most_tokens < 2:
        raise ValueError(f"most_tokens must be at least 2, got {most_tokens}.")
    bends = {n for curve in curves for n in corners(curve.model) if n <= most_tokens}
    lengths = sorted({*_lengths(most_tokens), *bends})
    lines = [
        [batch * sequence_bytes(c.model, n, dtype=dtype, kv_dtype=kv_dtype) for n in lengths]
        for c in curves
    ]
    sizes = [one for line in lines for one in line if one > 0] + ([budget] if budget else [])
    low, high = (min(sizes), max(sizes)) if sizes else (1, 2)
    axes = _Axes(1, most_tokens, 2.0 ** math.floor(math.log2(low)), 2.0 ** _above(low, high))
    parts = [*_frame(axes, title)]
    if budget:
        parts += _budget(axes, budget, budget_label)
    for number, (curve, line) in enumerate(zip(curves, lines, strict=True)):
        fit = None
        if budget:
            fit = largest_context(
                curve.model, budget, batch=batch, dtype=dtype, kv_dtype=kv_dtype
            ).tokens
        parts += _line(axes, lengths, line, number=number, label=curve.label, fit=fit)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" font-size="12">\n'
        f"<title>{escape(title or 'Bytes of the cache against context')}</title>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _above(low: float, high: float) -> int:
    """The power of two above `high`, at least one above that below `low`."""
    return max(math.ceil(math.log2(high)), math.floor(math.log2(low)) + 1)


def _frame(axes: _Axes, title: str) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [f'<text x="{LEFT}" y="26" font-size="15" fill="#111">{escape(title)}</text>']
    power = 0
    step = max(1, round(math.log2(axes.most_tokens) / 8))
    while 2**power <= axes.most_tokens:
        x = axes.x(2**power)
        label = f"{2**power // 1024}k" if power >= 10 else str(2**power)
        if power >= 20:
            label = f"{2**power // 2**20}M"
        parts.append(
            f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#ddd"/>'
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#333">{label}</text>'
        )
        power += step
    first, last = round(math.log2(axes.least)), round(math.log2(axes.most))
    step = max(1, round((last - first) / 8))
    for power in range(first, last + 1, step):
        y = axes.y(2.0**power)
        parts.append(
            f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/><text x="{LEFT - 8}" '
            f'y="{y + 4:.1f}" text-anchor="end" fill="#333">{size_text(2.0**power)}</text>'
        )
    parts.append(
        f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#333"/>'
        f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle" '
        'fill="#111">context, tokens</text>'
        f'<text x="16" y="{(TOP + bottom) / 2:.0f}" text-anchor="middle" fill="#111" '
        f'transform="rotate(-90 16 {(TOP + bottom) / 2:.0f})">bytes of the cache</text>'
    )
    return parts


def _budget(axes: _Axes, budget: int, label: str) -> list[str]:
    y = axes.y(budget)
    return [
        f'<path class="device" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#111" '
        'stroke-width="1.5" stroke-dasharray="6 4"/>'
        f'<text x="{LEFT + 6}" y="{y - 6:.1f}" fill="#111">{escape(label)}</text>'
    ]


def _line(
    axes: _Axes,
    lengths: list[int],
    sizes: list[int],
    *,
    number: int,
    label: str,
    fit: int | None,
) -> list[str]:
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    points = " ".join(
        f"{axes.x(n):.1f},{axes.y(s):.1f}" for n, s in zip(lengths, sizes, strict=True) if s > 0
    )
    style = f' stroke-dasharray="{dash}"' if dash else ""
    parts = [
        f'<polyline class="scheme" points="{points}" fill="none" stroke="{colour}" '
        f'stroke-width="2"{style}/>'
    ]
    if fit is not None and 1 <= fit <= axes.most_tokens:
        y = axes.y(sizes[min(range(len(lengths)), key=lambda i: abs(lengths[i] - fit))])
        parts.append(
            f'<circle cx="{axes.x(fit):.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
            f"<title>{escape(label)}: {fit:,} tokens fit</title></circle>"
        )
    y = TOP + 14 + 20 * number
    x = WIDTH - RIGHT + 14
    parts.append(
        f'<path d="M{x} {y - 4}h26" stroke="{colour}" stroke-width="2"{style}/>'
        f'<text x="{x + 32}" y="{y}" fill="#111">{escape(label[:26])}</text>'
    )
    return parts
