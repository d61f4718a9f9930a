"""What numbers a page may print: figures, and fields of experiments that ran when it was made.

The idea: a lesson names a number and never types it. Figures print as they are registered; a field
of an experiment is reached by a path, `variance/max_weight/0/2`, and printed to the digits asked.

Not here: how a number looks on the page (page.py).
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any, Final

from attnscope.lessons import figures, reading, runs
from attnscope.lessons.experiments import EXPERIMENTS
from attnscope.lessons.records import KEPT, recorded

SLOW: Final = ("sweep",)
"""Experiments that take minutes; no page waits for them, and nothing of them is kept for one."""
ELSEWHERE: Final = {"training": runs.kept, "reading": reading.kept}
"""Records that have a file of their own: what keeps them."""
CHOSEN: Final = "as chosen"
"""The formula of a number that is an example's."""
FORMAT: Final = re.compile(r"(?P<percent>%?)\.(?P<digits>\d)$")


@cache
def experiment(name: str) -> dict[str, Any]:
    """The record of an experiment with its defaults: run once, or kept.

    `records.py` keeps those of seconds; of the training, which takes minutes, `runs.py` keeps a
    summary, and `reading.py` what was captured of a real model.

    Raises:
        ValueError: there is none of this name, or it takes minutes.
    """
    if name in ELSEWHERE:
        return ELSEWHERE[name]()
    if name not in EXPERIMENTS or name in SLOW:
        known = ", ".join([*(one for one in EXPERIMENTS if one not in SLOW), "reading"])
        raise ValueError(f"there is no experiment {name!r} for pages; there are {known}.")
    found: dict[str, Any] = recorded()[name] if name in KEPT else EXPERIMENTS[name]().to_dict()
    return found


def field(path: str) -> float:
    """A number in an experiment's record.

    Raises:
        ValueError: the path leads nowhere, or to something that is no number.

    >>> field("rules/weights/proportional/2")
    -0.4444444444444444
    """
    name, *steps = path.split("/")
    value: Any = experiment(name)
    for step in steps:
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, ValueError, TypeError):
            there = (
                f"0 to {len(value) - 1}"
                if isinstance(value, list)
                else ", ".join(value)
                if isinstance(value, dict)
                else "nothing below"
            )
            raise ValueError(f"{path}: there is no {step!r}; expected {there}.") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{path}: expected a number, got {type(value).__name__}.")
    return float(value)


def field_text(body: str) -> str:
    """`path@format` as text: @.3 three decimals, @%.1 percent with one, @.0 whole.

    >>> field_text("rules/weights/proportional/2@%.1")
    '-44.4%'
    """
    path, _, wanted = body.partition("@")
    value = field(path.strip())
    found = FORMAT.match(wanted.strip())
    if found is None:
        raise ValueError(f"{body}: expected a format such as @.3 or @%.1 behind the path.")
    digits = int(found["digits"])
    return f"{100 * value:,.{digits}f}%" if found["percent"] else f"{value:,.{digits}f}"


def number(reference: str) -> float:
    """The number that `fig:id`, `fig:id/index` or `exp:path` names, for an exercise's answer.

    Raises:
        ValueError: it names none.

    >>> round(number("fig:softmax.8_7_9/2"), 1)
    66.5
    """
    kind, _, body = reference.partition(":")
    if kind == "exp":
        return field(body)
    if kind != "fig":
        raise ValueError(f"{reference}: expected fig:id, fig:id/index or exp:path.")
    id, _, index = body.partition("/")
    value = figures.get(id).value
    if index:
        try:
            value = value[int(index)]
        except (IndexError, TypeError, ValueError):
            raise ValueError(f"{reference}: the figure has no entry {index!r}.") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{reference}: expected one number, got {value!r}.")
    return float(value)


def plain_input(value: Any) -> str:
    """An input of a figure as a reader sees it.

    >>> plain_input((8, 7, 9)), plain_input(4096), plain_input(1.0)
    ('8, 7, 9', '4,096', '1')
    """
    if isinstance(value, tuple | list):
        shown = ", ".join(plain_input(one) for one in value[:12])
        return shown if len(value) <= 12 else f"{shown}, … ({len(value)})"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def about(id: str, language: str) -> dict[str, Any]:
    """What stands behind a figure, in the words of JSON: for the card that opens on a click.

    A number that the lesson chose for an example is reported by nobody: its mark is "chosen".

    >>> about("example.tokens", "en")["kind"], about("clip.paper.tau", "en")["kind"]
    ('chosen', 'reported')
    """
    one = figures.get(id)
    told = one.told(language)
    return {
        "title": one.title[language],
        "text": one.text[language],
        "kind": "chosen" if one.formula == CHOSEN else one.kind,
        "formula": "" if one.formula in (CHOSEN, "as reported") else told.formula,
        "inputs": [
            {"name": name, "value": plain_input(given.value), "source": given.source}
            for name, given in told.inputs.items()
        ],
        "source": told.source,
        "note": one.note[language],
    }
