"""The course as it is exported, for the tests that walk it from disk.

Not here: the walk (test_lessons_*.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from axe import SCRIPT

from attnscope.lessons.site import export

SITES: dict[Path, Path] = {}


def exported(folder: Path) -> Path:
    """The exported site below a folder, written once."""
    if folder not in SITES:
        export(folder)
        SITES[folder] = folder
    return SITES[folder]


def address(site: Path, language: str, page: str) -> str:
    return (site / language / page).as_uri()


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


def move(widget: Any, name: str, value: float) -> None:
    """Set a slider as a hand would: the event that follows a drag or an arrow key."""
    slider = widget.locator(f'input[type="range"][data-name="{name}"]')
    slider.evaluate(
        "(one, value) => { one.value = value;"
        " one.dispatchEvent(new Event('input', { bubbles: true })); }",
        str(value),
    )
