"""The plot of the planner's page: its lines as bytes at chosen lengths, and the texts of its axes.

Not here: how it is drawn (serve/static/js/planner/plot.js), the command's own picture (plot.py).
"""

from __future__ import annotations

import math
from typing import Any, Final

from attnscope.plan.bytes import bytes_by_length
from attnscope.plan.fit import corners, size_text
from attnscope.plan.page_numbers import Numbers
from attnscope.plan.texts import lengths, tokens_text

POINTS: Final = 96


def picture(every: list[Numbers]) -> dict[str, Any]:
    """The lines of the plot: every scheme of the first model, and the second as it is.

    Returns:
        lengths and, for each line, `sizes` of the whole batch at them; `rooms`, what the weights of
        each model leave of the room; the bytes of the axis as powers of two, with their texts.
    """
    asked = every[0].asked
    most = max(asked.context, 1024, *(one.model.context_limit or 0 for one in every))
    curves = [(row.scheme, row.model, 0) for row in every[0].rows()]
    curves += [(one.model.name, one.model, at) for at, one in enumerate(every) if at]
    bends = {n for _, one, _ in curves for n in corners(one) if n <= most}
    at = sorted({*lengths(most, POINTS), *bends, asked.context})
    rooms = [_left(one) for one in every]
    lines: list[dict[str, Any]] = []
    for label, one, number in curves:
        size = bytes_by_length(one, dtype=asked.dtype, kv_dtype=asked.kv_dtype)
        sizes = [asked.batch * size(n) for n in at]
        lines.append({"label": label, "model": number, "sizes": sizes})
    shown = [size for line in lines for size in line["sizes"] if size > 0]
    shown += [room for room in rooms if room]
    low, high = (min(shown), max(shown)) if shown else (1, 2)
    first = math.floor(math.log2(low))
    last = max(math.ceil(math.log2(high)), first + 1)
    return {
        "lengths": at,
        "lines": lines,
        "rooms": rooms,
        "bytes": [
            {"power": power, "text": size_text(2.0**power)} for power in range(first, last + 1)
        ],
        "tokens": [
            {"tokens": 2**power, "text": tokens_text(2**power)}
            for power in range(math.floor(math.log2(most)) + 1)
        ],
    }


def _left(one: Numbers) -> int | None:
    """What a model's weights leave of the room."""
    if one.asked.budget is None or one.known is None:
        return None
    return max(one.asked.budget - int(one.known["size"]), 0)
