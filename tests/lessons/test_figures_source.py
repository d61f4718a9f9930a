"""Every number of the two texts that the course grew from is a figure that prints it as they do."""

from __future__ import annotations

import re

import pytest
from source_numbers import CHAPTER, DEFINITION, LESSON, PART

from attnscope.lessons import figures
from attnscope.lessons.figures.prose import literals

NUMBER = re.compile(r"(?<![A-Za-z0-9.])(?<![A-Za-z]-)\d+(?:,\d{3})*(?:\.\d+)?")
QUOTES = [*(("chapter", *one) for one in CHAPTER), *(("lesson", *one) for one in LESSON)]


def numbers(quotation: str) -> list[str]:
    """The numbers of a quotation, without commas; digits in names are none."""
    plain = quotation.replace("\\times", "×").replace("27B", "")
    return [found.replace(",", "") for found in NUMBER.findall(plain)]


def said(number: str, what: str) -> str | None:
    """What is wrong with a number of the source, or None."""
    if what in (DEFINITION, PART):
        return None
    if what.startswith("= "):
        id, name = what.removeprefix("= ").rsplit(".", 1)
        value = figures.get(id).inputs[name].value
        values = value if isinstance(value, tuple) else (value,)
        return None if float(number) in [abs(v) for v in values] else f"{what} is {value}"
    printed = [one.spelled for one in literals(figures.get(what).text["zh"])]
    return None if number in printed else f"{what} prints {printed}"


@pytest.mark.parametrize(
    ("text", "line", "quotation", "whats"), QUOTES, ids=[f"{t}-{n}" for t, n, _, _ in QUOTES]
)
def test_each_number_is_a_figure(text: str, line: int, quotation: str, whats: list[str]) -> None:
    found = numbers(quotation)
    assert len(found) == len(whats), f"{text} {line}: {found}"
    wrong = [(n, why) for n, what in zip(found, whats, strict=True) if (why := said(n, what))]
    assert wrong == []


def test_a_number_that_a_figure_does_not_print_is_noticed() -> None:
    assert said("64", "kv.qwen38.gqa.per_token") is None
    assert said("63", "kv.qwen38.gqa.per_token")
    assert said("24.6", "softmax.8_7_9")
    assert said("6", "= softmax.8_7_9.scores")
    assert said("8", "= softmax.8_7_9.scores") is None


def test_the_quotations_read_as_numbers() -> None:
    assert numbers("提示 2 个、389,120 B(GQA-8,Qwen3.8-27B)−44.4%") == ["2", "389120", "44.4"]
    assert len(QUOTES) > 60
