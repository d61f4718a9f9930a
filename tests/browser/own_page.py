"""The hands of a reader on a widget's panel: a file dropped, fields chosen.

Not here: what is shown (own_truth.py), the tests (test_lesson_own*.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from lessons_site import numbers
from own_truth import SHOWN

HEADS = [(2, 3), (0, 1), (2, 2), (3, 0)]
STARTS = [0, 36]
"""Heads of the long text that files are made of, and where their parts begin (conftest.py)."""
Open = Callable[..., Any]


def drop(widget: Any, text: str) -> None:
    """Drop a file of this text on a widget's panel."""
    if widget.locator('[data-name="own"]').get_attribute("aria-expanded") == "false":
        widget.locator('[data-name="own"]').click()
    carried = widget.page.evaluate_handle(
        "(text) => { const data = new DataTransfer();"
        " data.items.add(new File([text], 'mine.json', { type: 'application/json' }));"
        " return data; }",
        text,
    )
    widget.locator(".own-panel").dispatch_event("drop", {"dataTransfer": carried})


def select(widget: Any, name: str, value: object) -> None:
    """Choose in one of the panel's fields."""
    widget.locator(f'select[data-name="own.{name}"]').select_option(str(value))


def check(widget: Any, name: str, wanted: Any) -> None:
    """A row of outputs has these values."""
    np.testing.assert_allclose(numbers(widget, name, len(wanted)), wanted, **SHOWN)


def all_own(page: Any, text: str) -> Iterator[Any]:
    """Every widget of a page that runs on the text, on it."""
    widgets = page.locator(".widget:has(> .own)")
    for at in range(widgets.count()):
        widget = widgets.nth(at)
        drop(widget, text)
        widget.and_(page.locator(".of-own")).wait_for()
        yield widget
