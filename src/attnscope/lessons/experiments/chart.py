"""Small charts as SVG text: panels of lines or steps side by side, with one legend below.

The idea: as in plan/plot.py, a picture of a few lines needs no library; colours and dashes are the
planner's, so that the pictures of one page look alike and read without colour.

Not here: logarithmic axes across (plan/plot.py), the widgets of the lessons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

import numpy as np

from attnscope.plan.plot import COLOURS, DASHES

PANEL: Final = (340, 250)
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 30, 42
HEAD: Final = 40
ROW: Final = 20
"""Height of the title, and of one line of the legend."""


@dataclass(frozen=True)
class Line:
    """One curve: `style` picks colour and dash; a negative `style` is a thin grey reference.

    With `steps` a value holds until the next x, as in a histogram, and the line has no dashes.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    style: int = 0
    steps: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes; a range that is None spans the finite points."""

    title: str
    lines: Sequence[Line]
    x_label: str = ""
    y_label: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    log_y: bool = False


@dataclass(frozen=True)
class _Axes:
    """From numbers to places on the page; up is logarithmic if `log`."""

    corner: tuple[float, float]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log: bool = field(default=False)

    def x(self, value: float) -> float:
        low, high = self.x_range
        share = (value - low) / (high - low)
        return self.corner[0] + LEFT + share * (PANEL[0] - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = (math.log10(v) if self.log else v for v in self.y_range)
        place = math.log10(max(value, self.y_range[0])) if self.log else value
        share = min(1.0, max(0.0, (place - low) / (high - low)))
        return self.corner[1] + PANEL[1] - BOTTOM - share * (PANEL[1] - TOP - BOTTOM)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two ends, at most `most` + 1 of them.

    >>> ticks(0.0, 1.0, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def chart(panels: Sequence[Panel], *, columns: int, title: str) -> str:
    """The panels in rows of `columns`, row by row, as SVG text.

    Lines of the same label and style share one entry of the legend.

    Raises:
        ValueError: no panel, a panel without a finite point, or less than one column.
    """
    if not panels:
        raise ValueError("panels: expected at least one, got none")
    if columns < 1:
        raise ValueError(f"columns: expected at least 1, got {columns}")
    rows = -(-len(panels) // columns)
    labels = {line.label: line for panel in panels for line in panel.lines if line.label}
    per_row = max(1, columns * PANEL[0] // 300)
    width = columns * PANEL[0]
    legend_rows = -(-len(labels) // per_row)
    height = HEAD + rows * PANEL[1] + legend_rows * ROW + 12
    parts = [f'<text x="14" y="26" font-size="15" fill="#111">{escape(title)}</text>']
    for number, panel in enumerate(panels):
        corner = (number % columns * PANEL[0], HEAD + number // columns * PANEL[1])
        parts += _panel(panel, corner)
    for number, line in enumerate(labels.values()):
        x = 16 + number % per_row * (width // per_row)
        y = HEAD + rows * PANEL[1] + ROW * (number // per_row) + 10
        parts.append(
            f'<path d="M{x} {y}h26" {_stroke(line)}/>'
            f'<text x="{x + 32}" y="{y + 4}" fill="#111">{escape(line.label)}</text>'
        )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="12">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _stroke(line: Line) -> str:
    if line.style < 0:
        return 'stroke="#555" stroke-width="1.2" fill="none" stroke-dasharray="3 3"'
    # The corners of steps and the gaps of dashes would look alike.
    dash = "" if line.steps else DASHES[line.style % len(DASHES)]
    shown = f' stroke-dasharray="{dash}"' if dash else ""
    return f'stroke="{COLOURS[line.style % len(COLOURS)]}" stroke-width="1.8" fill="none"{shown}'


def _span(values: list[np.ndarray], name: str, *, log: bool = False) -> tuple[float, float]:
    """The range of the finite values (above 0 on a logarithmic axis), never empty."""
    flat = np.concatenate([np.asarray(v, dtype=np.float64).ravel() for v in values])
    flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
    if not flat.size:
        raise ValueError(f"panel {name!r}: expected a finite point, got none")
    low, high = float(flat.min()), float(flat.max())
    if low == high:
        return (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    return low, high


def _number(value: float) -> str:
    return f"{value:,.10g}" if abs(value) < 1e6 else f"{value:.0e}"


def _panel(panel: Panel, corner: tuple[float, float]) -> list[str]:
    x_range = panel.x_range or _span([line.x for line in panel.lines], panel.title)
    y_range = panel.y_range or _span([line.y for line in panel.lines], panel.title, log=panel.log_y)
    axes = _Axes(corner, x_range, y_range, panel.log_y)
    left, right = corner[0] + LEFT, corner[0] + PANEL[0] - RIGHT
    top, bottom = corner[1] + TOP, corner[1] + PANEL[1] - BOTTOM
    parts = [
        f'<text x="{left}" y="{top - 9}" font-size="13" fill="#111">{escape(panel.title)}</text>'
    ]
    for value in ticks(*x_range, 5):
        parts.append(
            f'<path d="M{axes.x(value):.1f} {top}V{bottom}" stroke="#e4e4e4"/>'
            f'<text x="{axes.x(value):.1f}" y="{bottom + 16}" text-anchor="middle" '
            f'fill="#333">{_number(value)}</text>'
        )
    for value in _levels(panel, y_range):
        parts.append(
            f'<path d="M{left} {axes.y(value):.1f}H{right}" stroke="#e4e4e4"/>'
            f'<text x="{left - 6}" y="{axes.y(value) + 4:.1f}" text-anchor="end" '
            f'fill="#333">{_number(value)}</text>'
        )
    parts.append(f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#333"/>')
    parts += [_curve(line, axes) for line in panel.lines]
    middle = (top + bottom) / 2
    parts.append(
        f'<text x="{(left + right) / 2:.0f}" y="{bottom + 34}" text-anchor="middle" '
        f'fill="#111">{escape(panel.x_label)}</text>'
        f'<text x="{corner[0] + 13}" y="{middle:.0f}" text-anchor="middle" fill="#111" '
        f'transform="rotate(-90 {corner[0] + 13} {middle:.0f})">{escape(panel.y_label)}</text>'
    )
    return parts


def _levels(panel: Panel, y_range: tuple[float, float]) -> list[float]:
    if not panel.log_y:
        return ticks(*y_range, 5)
    first, last = math.ceil(math.log10(y_range[0])), math.floor(math.log10(y_range[1]))
    found = [10.0**p for p in range(first, last + 1)]
    return found if len(found) > 1 else ticks(*y_range, 4)


def _curve(line: Line, axes: _Axes) -> str:
    """A polyline; it stops where a number is missing and goes on after it."""
    points: list[str] = []
    drawing = False
    previous = 0.0
    for x, y in zip(np.asarray(line.x, float), np.asarray(line.y, float), strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            drawing = False
            continue
        place = f"{axes.x(x):.1f} {axes.y(y):.1f}"
        if line.steps and drawing:
            points.append(f"L{axes.x(x):.1f} {axes.y(previous):.1f}")
        points.append(("L" if drawing else "M") + place)
        drawing, previous = True, float(y)
    return f'<path class="line" d="{"".join(points)}" {_stroke(line)}/>'
