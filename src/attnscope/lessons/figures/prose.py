"""Prose refers to figures by id; a number typed by hand, or an unknown id, is an error.

The idea: `{kv.qwen38.gqa.per_token}` in a text stands for "64 KiB". A literal 64 KiB in the same
text would go on saying so when the config changes, so it is refused, with the id to write instead.

What counts as a literal
    with its unit    "9.0%", "8 GiB": equal in value to a printed number of the same unit
    bare             "389,120", "24", "0.995": spelled as a figure prints it (commas do not
                     matter), and of two digits or more; single digits are words
    never            part of a name (GQA-8, V2, 67B), an ordinal (第 16 层, lesson 10, table 1), and
                     what stands in `allow`

A sign does not matter: "82.2% less" is the figure -82.2%.

Not here: the figures.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Final

from attnscope.lessons.figures import index
from attnscope.lessons.figures.registry import LANGUAGES, REFERENCE

UNITS: Final = r"\s?(?:%|KiB|MiB|GiB|亿)|\s(?:million|B|s|T²)"
"""Units of printed numbers; the short ones stand apart, since 67B is a name."""

NUMBER: Final = re.compile(
    r"(?<![A-Za-z0-9_.])(?<![A-Za-z][-−])"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?P<power>e[+-]?\d+)?"
    rf"(?:(?P<unit>{UNITS})(?![A-Za-z0-9_])|(?![A-Za-z0-9_]))"
)
ORDINAL: Final = re.compile(
    r"(?:第|§|图|表|式|\b(?:chapter|lesson|section|table|figure|equation|eq\.|step|layer|head|arXiv)"
    r")[\s(]*$",
    re.IGNORECASE,
)
"""What stands before a number that counts places, not things."""


@dataclass(frozen=True)
class Literal:
    """A number as it stands in a text."""

    spelled: str
    unit: str
    line: int

    @property
    def value(self) -> Decimal:
        return Decimal(self.spelled)


def literals(text: str) -> Iterator[Literal]:
    """The numbers of a text that are neither names nor ordinals, signs and commas left out.

    >>> [(one.spelled, one.unit) for one in literals("GQA-8 of 67B: 389,120 B, 第 16 层 -82.2 %")]
    [('389120', 'B'), ('82.2', '%')]
    """
    for found in NUMBER.finditer(text):
        if ORDINAL.search(text, max(0, found.start() - 12), found.start()):
            continue
        power = found["power"]
        spelled = found["digits"].replace(",", "") + (f"e{int(power[1:])}" if power else "")
        yield Literal(
            spelled, (found["unit"] or "").strip(), text.count("\n", 0, found.start()) + 1
        )


@cache
def _printed() -> tuple[dict[str, str], dict[tuple[Decimal, str], str]]:
    """Every number that a figure prints, to an id: as spelled, and as value and unit."""
    bare: dict[str, str] = {}
    measured: dict[tuple[Decimal, str], str] = {}
    for one in index.all():
        for text in one.text.values():
            for literal in literals(text):
                bare.setdefault(literal.spelled, one.id)
                if literal.unit:
                    measured.setdefault((literal.value, literal.unit), one.id)
    return bare, measured


def complaints(text: str, *, allow: Collection[str] = ()) -> list[str]:
    """What is wrong with a text's numbers, one sentence each; empty when nothing is.

    Args:
        allow: numbers that this text may spell out, as they stand there without commas.
    """
    said = []
    for found in REFERENCE.finditer(text):
        try:
            index.entry(found[1])
        except ValueError as error:
            line = text.count("\n", 0, found.start()) + 1
            said.append(f"line {line}: {error}")
    bare, measured = _printed()
    # Of the same length, so that lines stay where they are.
    rest = REFERENCE.sub(lambda found: " " * len(found[0]), text)
    for literal in literals(rest):
        if literal.spelled in allow:
            continue
        id = measured.get((literal.value, literal.unit)) if literal.unit else None
        if id is None and sum(c.isdigit() for c in literal.spelled) > 1:
            id = bare.get(literal.spelled)
        if id is not None:
            shown = f"{literal.spelled} {literal.unit}".strip()
            said.append(f"line {literal.line}: {shown} is typed by hand; write {{{id}}}.")
    return said


def check_prose(text: str, *, allow: Collection[str] = ()) -> None:
    """Refuse a text that types a registered number or refers to an unknown id.

    Args:
        allow: numbers that this text may spell out all the same.

    Raises:
        ValueError: with a line for each place and what to write there.

    >>> check_prose("每 token {kv.qwen38.gqa.per_token}")
    >>> check_prose("每 token 64 KiB")
    Traceback (most recent call last):
    ValueError: line 1: 64 KiB is typed by hand; write {kv.qwen38.gqa.per_token}.
    """
    said = complaints(text, allow=allow)
    if said:
        raise ValueError("\n".join(said))


def fill(text: str, language: str) -> str:
    """The text with every reference replaced by what its figure prints.

    Args:
        language: "zh" or "en".

    Raises:
        ValueError: an unknown id, or another language.

    >>> fill("{softmax.8_7_9.largest} of the weight", "en")
    '66.5% of the weight'
    """
    if language not in LANGUAGES:
        raise ValueError(f"language: expected one of {', '.join(LANGUAGES)}, got {language!r}")
    return REFERENCE.sub(lambda found: index.get(found[1]).text[language], text)
