"""The planner's picture: bytes against context, one line per scheme, both axes logarithmic.

The idea: a picture of a few lines needs no library; it is text in SVG. The device's memory (less
the weights) is a dashed line; where a scheme crosses it, its largest context is marked, and stands
in the legend. A model with other weights has another line, in its own colour. Schemes whose bytes
are the same everywhere are one line with both names.

Units: tokens across, bytes up (binary GiB written GiB).

Not here: the planner's page in the browser.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from attnscope.plan.bytes import bytes_by_length
from attnscope.plan.fit import Fit, corners, largest_context, size_text
from attnscope.plan.model import Model
from attnscope.plan.texts import lengths, tokens_text

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 86, 230, 52, 56
LETTER: Final = 6.2
"""Pixels of a letter of the legend, on average, at 12 pixels."""
COLOURS: Final = ("#0b62a4", "#c1440e", "#2a7f3f", "#7b3fa0", "#8a6d00", "#00808a", "#b0287a")
DASHES: Final = ("", "8 3", "2 3", "10 3 2 3", "5 2", "1 2", "12 4")
"""Lines differ in their dashes too, so the picture reads without colour."""


@dataclass(frozen=True)
class Curve:
    """One scheme: its label and the model whose bytes it draws.

    Args:
        budget: bytes there are for its cache, where that is not the picture's budget.
    """

    label: str
    model: Model
    budget: int | None = None


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
    at = sorted({*lengths(most_tokens), *bends})
    form: dict[str, Any] = {"dtype": dtype, "kv_dtype": kv_dtype}
    drawn: dict[tuple[int | None, tuple[int, ...]], list[Curve]] = {}
    for curve in curves:
        size = bytes_by_length(curve.model, **form)
        line = tuple(batch * size(n) for n in at)
        drawn.setdefault((curve.budget or budget, line), []).append(curve)
    rooms = {room for room, _ in drawn if room}
    sizes = [one for _, line in drawn for one in line if one > 0] + sorted(rooms)
    low, high = (min(sizes), max(sizes)) if sizes else (1, 2)
    axes = _Axes(1, most_tokens, 2.0 ** math.floor(math.log2(low)), 2.0 ** _above(low, high))
    parts = _frame(axes, title)
    if budget:
        parts += _budget(axes, budget, budget_label)
    for number, ((room, line), same) in enumerate(drawn.items()):
        fit = largest_context(same[0].model, room, batch=batch, **form) if room else None
        if room and room != budget:
            text = f"{size_text(room)} beside the weights of {same[0].label}"
            parts += _budget(axes, room, text, colour=_style(number)[0], shift=230)
        label = " = ".join(one.label for one in same)
        parts += _line(axes, at, line, number=number, label=label, fit=fit)
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
    parts = [f'<text x="{LEFT}" y="24" font-size="15" fill="#111">{escape(title)}</text>']
    most = int(axes.most_tokens)
    step = max(1, round(math.log2(most) / 8))
    ticks = [2**power for power in range(0, math.floor(math.log2(most)) + 1, step)]
    if axes.x(most) - axes.x(ticks[-1]) > 28:
        ticks.append(most)
    for tick in ticks:
        x = axes.x(tick)
        parts.append(
            f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#ddd"/><text x="{x:.1f}" '
            f'y="{bottom + 18}" text-anchor="middle" fill="#333">{tokens_text(tick)}</text>'
        )
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


def _budget(
    axes: _Axes, budget: int, label: str, *, colour: str = "#111", shift: int = 0
) -> list[str]:
    y = axes.y(budget)
    # Above the line, unless that is where the title stands.
    at = y - 6 if y > TOP + 18 else y + 15
    return [
        f'<path class="device" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{colour}" '
        'stroke-width="1.5" stroke-dasharray="6 4"/>'
        f'<text x="{LEFT + 6 + shift}" y="{at:.1f}" fill="{colour}">{escape(label)}</text>'
    ]


def _style(number: int) -> tuple[str, str]:
    """Colour and dashes of a line; no two of the first forty-nine have both in common."""
    return COLOURS[number % len(COLOURS)], DASHES[(number + number // len(COLOURS)) % len(DASHES)]


def _legend(label: str) -> str:
    """A label as far as there is room for it."""
    most = int((RIGHT - 54) / LETTER)
    return label if len(label) <= most else label[: most - 1] + "\u2026"


def _line(
    axes: _Axes,
    at: list[int],
    sizes: tuple[int, ...],
    *,
    number: int,
    label: str,
    fit: Fit | None,
) -> list[str]:
    colour, dash = _style(number)
    points = " ".join(
        f"{axes.x(n):.1f},{axes.y(s):.1f}" for n, s in zip(at, sizes, strict=True) if s > 0
    )
    style = f' stroke-dasharray="{dash}"' if dash else ""
    parts = [
        f'<polyline class="scheme" points="{points}" fill="none" stroke="{colour}" '
        f'stroke-width="2"{style}/>'
    ]
    said = ""
    if fit is not None:
        said = "every length fits" if fit.tokens is None else f"{fit.tokens:,} tokens fit"
    if fit is not None and fit.tokens is not None and 1 <= fit.tokens <= axes.most_tokens:
        parts.append(
            f'<circle cx="{axes.x(fit.tokens):.1f}" cy="{axes.y(fit.bytes_used):.1f}" r="4" '
            f'fill="{colour}"><title>{escape(label)}: {said}</title></circle>'
        )
    y = TOP + 14 + (36 if fit is not None else 20) * number
    x = WIDTH - RIGHT + 14
    parts.append(
        f'<path d="M{x} {y - 4}h26" stroke="{colour}" stroke-width="2"{style}/>'
        f'<text x="{x + 32}" y="{y}" fill="#111">{escape(_legend(label))}'
        f"<title>{escape(label)}</title></text>"
    )
    if said:
        parts.append(f'<text x="{x + 32}" y="{y + 14}" font-size="11" fill="#555">{said}</text>')
    return parts
