"""The planner's numbers as a person reads them, alike in the command's tables and on the page.

Units: binary for bytes (GiB written GiB), decimal for FLOPs.

Not here: tables (cli/plan_text.py), the page (page_numbers.py).
"""

from __future__ import annotations

from typing import Final

from attnscope.plan.fit import size_text, three_digits

POINTS: Final = 160
"""Of a curve."""


def bytes_cells(size: float) -> list[str]:
    """Bytes with their digits, and in a binary unit where they are many: two cells of a table.

    >>> bytes_cells(2**30), bytes_cells(178.5)
    (['1,073,741,824 B', '1 GiB'], ['178.500 B', ''])
    """
    plain = f"{size:,} B" if size == int(size) else f"{size:,.3f} B"
    return [plain, "" if size < 1024 else size_text(size)]


def amount(size: float) -> str:
    """Bytes as a sentence has them.

    >>> amount(2**30)
    '1,073,741,824 B (1 GiB)'
    """
    plain, short = bytes_cells(size)
    return f"{plain} ({short})" if short else plain


def flops_cells(count: float) -> list[str]:
    """FLOPs with their digits, and in a decimal unit where they are many.

    >>> flops_cells(1074266112), flops_cells(12)
    (['1,074,266,112', '1.07 GFLOP'], ['12', ''])
    """
    units = (("EFLOP", 18), ("PFLOP", 15), ("TFLOP", 12), ("GFLOP", 9), ("MFLOP", 6))
    for unit, power in units:
        if count >= 10**power:
            return [f"{count:,}", f"{three_digits(count, 10**power)} {unit}"]
    return [f"{count:,}", ""]


def tokens_text(count: int) -> str:
    """A length as an axis has it.

    >>> tokens_text(512), tokens_text(163840), tokens_text(2**20)
    ('512', '160k', '1M')
    """
    if count >= 2**20:
        return f"{three_digits(count, 2**20)}M"
    return f"{three_digits(count, 1024)}k" if count >= 1024 else str(count)


def lengths(most: int, points: int = POINTS) -> list[int]:
    """Lengths from 1 to `most`, evenly spread on a logarithmic axis.

    >>> lengths(1000, 3)
    [1, 10, 100, 1000]
    """
    steps = [round(most ** (i / points)) for i in range(points + 1)]
    return sorted({max(one, 1) for one in steps})
