"""Small pictures in plain text: a map of weights, bars, a histogram.

The idea: `python -m attnscope.mechanisms.<name>` shows what a mechanism does in a terminal, so that
the picture is made of numbers that the mechanism itself computed.

Not here: colour, files, the pictures of the command line (cli/picture.py).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

SHADES = " ░▒▓█"
EIGHTHS = "▏▎▍▌▋▊▉█"


def width(text: str) -> int:
    """How many columns a text takes in a terminal.

    >>> width("apple"), width("苹果")
    (5, 4)
    """
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Fill a text with spaces up to a number of columns."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def shade(share: float) -> str:
    """A cell of two characters for a number from 0 to 1.

    >>> shade(0.0), shade(0.5), shade(1.0)
    ('  ', '▒▒', '██')
    """
    return SHADES[min(len(SHADES) - 1, max(0, round(share * (len(SHADES) - 1))))] * 2


def map_picture(
    weights: Iterable[Sequence[float]],
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    numbers: bool = False,
) -> str:
    """A map of weights, one line per query, one cell per key.

    Args:
        weights: [T, S], numbers from 0 to 1; NaN is drawn as a dot, out of sight.
        rows, columns: names of queries and keys.
        numbers: print percentages in place of shades.

    >>> print(map_picture([[1.0, float("nan")], [0.5, 0.5]], rows=["a", "b"]))
    a  ██ ·
    b  ▒▒▒▒
    """
    table = [list(map(float, row)) for row in weights]
    names = list(rows) if rows is not None else [str(i) for i in range(len(table))]
    left = max((width(n) for n in names), default=0)
    cell = 6 if numbers else 2
    if columns is not None and numbers:
        cell = max(cell, max(width(c) for c in columns) + 1)

    def draw(x: float) -> str:
        if x != x:
            return pad("·", cell, right=True)
        return pad(f"{100 * x:.1f}", cell, right=True) if numbers else shade(x)

    lines = [f"{pad(n, left)}  " + "".join(map(draw, r)) for n, r in zip(names, table, strict=True)]
    if columns is not None and numbers:
        lines.insert(0, " " * (left + 2) + "".join(pad(c, cell, right=True) for c in columns))
    return "\n".join(line.rstrip() for line in lines)


def bar(share: float, columns: int = 24) -> str:
    """A bar of at most `columns` characters for a number from 0 to 1, in eighths.

    >>> bar(0.5, 4), bar(0.03125, 4), bar(0.0, 4)
    ('██', '▏', '')
    """
    eighths = round(max(0.0, min(1.0, share)) * columns * 8)
    whole, part = divmod(eighths, 8)
    return "█" * whole + (EIGHTHS[part - 1] if part else "")


def bars(values: dict[str, float], *, most: float | None = None, unit: str = "") -> str:
    """Named numbers with bars, the longest for `most` (the largest, if not given).

    >>> print(bars({"a": 2.0, "bb": 1.0}, unit=" B"))
    a   2 B  ████████████████████████
    bb  1 B  ████████████
    """
    top = most if most is not None else max((abs(v) for v in values.values()), default=1.0)
    left = max((width(name) for name in values), default=0)
    shown = {name: f"{value:,.6g}{unit}" for name, value in values.items()}
    middle = max((len(text) for text in shown.values()), default=0)
    return "\n".join(
        f"{pad(name, left)}  {shown[name]:>{middle}}  {bar(abs(v) / top if top else 0)}".rstrip()
        for name, v in values.items()
    )
