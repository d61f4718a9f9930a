"""A number of the planner's page with what stands behind it.

    value, text, exact    as it is, in short, and with all digits and its unit
    kind                  "computed", "measured" (real tensors, weighed), "reported" (a data sheet)
                          or "given" (by the reader)
    formula, inputs, source, note

Units: bytes, tokens, FLOPs.

Not here: which numbers there are (page_numbers.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attnscope.plan.texts import bytes_cells

Number = dict[str, Any]
Input = dict[str, str]


def number(
    value: float | None,
    text: str,
    exact: str,
    *,
    formula: str,
    inputs: Iterable[Input] = (),
    source: str = "",
    kind: str = "computed",
    note: str = "",
) -> Number:
    """A number; it is computed unless `kind` says otherwise."""
    return {
        "value": value, "text": text, "exact": exact, "kind": kind, "formula": formula,
        "inputs": list(inputs), "source": source, "note": note,
    }  # fmt: skip


def bytes_number(value: float, *, formula: str, **about: Any) -> Number:
    """A number of bytes.

    >>> bytes_number(2**30, formula="1 GiB")["exact"]
    '1,073,741,824 B'
    """
    exact, short = bytes_cells(value)
    return number(value, short or exact, exact, formula=formula, **about)


def said_input(name: str, value: str, source: str = "") -> Input:
    """What a number was made of."""
    return {"name": name, "value": value, "source": source}
