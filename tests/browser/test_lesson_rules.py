"""Lesson 3's rules side by side: what breaks is said, and no bar is cut off.

Not here: the weights themselves (test_lessons_walk.py, test_lesson_own.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lessons_site import move, number, opened

RULES = ("proportional", "shifted", "softmax")


@pytest.mark.parametrize(
    ("language", "said"), [("en", "“B” gets exactly 0"), ("zh", "「乙」的权重正好是 0")]
)
def test_a_weight_of_zero_is_what_breaks(page: Any, site: Path, language: str, said: str) -> None:
    opened(page, site, language, "03-softmax")
    widget = page.locator("#widget-rules-879")
    assert number(widget, "shifted.1") == 0
    verdict = widget.locator('[data-name="shifted.verdict"]')
    assert verdict.inner_text().startswith(said)
    assert "bad" in str(verdict.get_attribute("class"))
    move(widget, "score.2", 6)  # now C is the lowest
    assert said not in verdict.inner_text()
    third = {"B": "C", "乙": "丙"}[said[1]]
    assert verdict.inner_text().startswith(said.replace(said[1], third))
    softmax = widget.locator('[data-name="softmax.verdict"]')
    assert "good" in str(softmax.get_attribute("class"))


def test_bars_beyond_the_whole_are_as_long_as_their_numbers(page: Any, site: Path) -> None:
    """Of all rules on one scale, with 100 % marked where a bar of 1 would end."""
    opened(page, site, "en", "03-softmax")
    widget = page.locator("#widget-rules-car")
    for scores in ((10, 3, -4), (7, 9, -12), (7, -12, 9)):
        for at, score in enumerate(scores):
            move(widget, f"score.{at}", score)
        page.wait_for_timeout(200)
        bars = widget.evaluate(
            "(one) => [...one.querySelectorAll('.bar:not([hidden])')].map((bar) => ["
            "Number(bar.querySelector('output').dataset.value),"
            " bar.querySelector('i').getBoundingClientRect().width"
            " / bar.querySelector('.track').getBoundingClientRect().width,"
            " parseFloat(bar.parentElement.style.getPropertyValue('--one')) / 100,"
            " parseFloat(bar.parentElement.style.getPropertyValue('--zero')) / 100])"
        )
        assert len(bars) == 9
        for value, width, one, zero in bars:
            assert width == pytest.approx(abs(value) * (one - zero), abs=5e-3)
            assert 0 < zero < one < 1
    assert max(abs(value) for value, *_ in bars) > 1.5
