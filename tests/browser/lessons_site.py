"""The course as it is exported, for the tests that walk it from disk.

Not here: the walk (test_lessons_*.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from axe import SCRIPT

SHOWN = 1e-9
"""What a page holds is a float64 written in full; its sums run in another order than Python's.

Cosines of a thousand radians, and eigenvectors (test_twins_latent.py), agree to some ten digits.
"""


def address(site: Path, language: str, page: str) -> str:
    return (site / language / page).as_uri()


def opened(page: Any, site: Path, language: str, slug: str) -> Any:
    """A lesson's page, alive, with all that is folded open."""
    page.goto(address(site, language, f"{slug}.html"))
    page.wait_for_selector(".course.live")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    return page


def faults(page: Any) -> list[str]:
    """What axe-core finds wrong, without fetching styles: a page from disk may not."""
    if not page.evaluate("typeof window.axe !== 'undefined'"):
        page.evaluate(SCRIPT.read_text("utf-8"))
    found = page.evaluate(
        "window.axe.run(document, { resultTypes: ['violations'], preload: false })"
    )
    return [
        f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:2]
    ]


def number(widget: Any, name: str) -> float:
    """The exact value behind an output of a widget."""
    return float(widget.locator(f'output[data-name="{name}"]').get_attribute("data-value"))


def numbers(widget: Any, name: str, count: int) -> list[float]:
    """The exact values behind a row of outputs."""
    return [number(widget, f"{name}.{at}") for at in range(count)]


def choose(widget: Any, choice: str, group: int | None = None) -> None:
    """Press a button of a switch; `group` says of which where two have one of that name."""
    switch = widget.locator(".switch")
    switch = switch if group is None else switch.nth(group)
    switch.locator(f'button[data-choice="{choice}"]').click()


def move(widget: Any, name: str, value: float) -> None:
    """Set a slider as a hand would: the event that follows a drag or an arrow key."""
    slider = widget.locator(f'input[type="range"][data-name="{name}"]')
    slider.evaluate(
        "(one, value) => { one.value = value;"
        " one.dispatchEvent(new Event('input', { bubbles: true })); }",
        str(value),
    )
