"""What a lesson folds: a second reading opens by keyboard, is counted in no minutes, is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lessons_site import address, faults, number
from looks import every_look

from attnscope.lessons.site import load

FOLDED = [
    lesson.slug
    for lesson in load().lessons["en"]
    if any(block.name == "deeper" for block in lesson.document.blocks())
]
OPEN = "[...document.querySelectorAll({0})].map((one) => one.open)"
PRINTED = OPEN.format("'.deeper, .question, .design > details'")
SOLUTIONS = OPEN.format("'.exercise details'")


def as_it_opens(page: Any, site: Path, language: str, slug: str) -> None:
    page.goto(address(site, language, f"{slug}.html"))
    page.wait_for_selector(".course.live")


@every_look
@pytest.mark.parametrize("slug", FOLDED)
def test_a_second_reading_is_closed_and_opens_by_keyboard(
    page: Any, site: Path, language: str, theme: str, slug: str
) -> None:
    as_it_opens(page, site, language, slug)
    folded = page.locator("main details.deeper")
    assert folded.count() > 0
    for at in range(folded.count()):
        one = folded.nth(at)
        assert one.locator(":scope > div").is_hidden()
        one.locator(":scope > summary").focus()
        page.keyboard.press("Enter")
        assert one.locator(":scope > div").is_visible()
    assert faults(page) == []
    page.keyboard.press("Space")
    assert folded.last.locator(":scope > div").is_hidden()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_widget_in_a_second_reading_works(page: Any, site: Path, language: str) -> None:
    as_it_opens(page, site, language, "03-softmax")
    page.locator("#deeper-base-two > summary").click()
    widget = page.locator("#widget-temperature")
    before = number(widget, "base.0")
    widget.locator('input[type="range"][data-name="base"]').press("ArrowLeft")
    assert number(widget, "base.0") < before


def test_what_is_folded_is_open_on_paper_but_for_solutions(page: Any, site: Path) -> None:
    as_it_opens(page, site, "en", "03-softmax")
    before = page.evaluate(PRINTED)
    assert True in before
    assert False in before
    page.evaluate(
        "window.addEventListener('beforeprint', () => {"
        f" window.printed = {PRINTED}; window.solutions = {SOLUTIONS}; }})"
    )
    page.pdf()
    assert set(page.evaluate("window.printed")) == {True}
    assert set(page.evaluate("window.solutions")) == {False}
    assert page.evaluate(PRINTED) == before


def test_a_link_into_a_second_reading_opens_it(page: Any, site: Path) -> None:
    page.goto(address(site, "en", "03-softmax.html") + "#widget-temperature")
    page.wait_for_selector(".course.live")
    page.wait_for_selector("#deeper-base-two[open]")
