"""The planner's page alone, as an export has it (the rest of the course takes its time to make),
and what is read off it.

Not here: the tests (test_planner_page.py, test_planner_python.py).
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from lessons_site import address

from attnscope.lessons.site import load
from attnscope.lessons.site.planner import FIRST
from attnscope.plan.page import ask

STARTING = 60_000
"""Milliseconds until the page's Python answers: two seconds on a quiet machine."""

build = importlib.import_module("attnscope.lessons.site.build")


def written(folder: Path) -> Path:
    """The page in both languages below a folder, with its assets."""
    files = {f"assets/{name}": text for name, text in build.assets().items()}
    files[f"assets/{build.SCRIPT}"] = build.planner_script()
    course = load()
    for language in ("en", "zh"):
        frame = build._planner_frame(course, language)
        files[f"{language}/planner.html"] = build.planner_page(language, frame, served=False)
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def opened(page: Any, site: Path, language: str = "en", view: str = "") -> Any:
    page.set_default_timeout(STARTING)
    page.goto("about:blank")
    page.goto(address(site, language, "planner.html") + view)
    page.wait_for_selector(".course.live:not([aria-busy])")
    return page


def settled(page: Any) -> None:
    """Wait until a change has been asked and answered."""
    page.wait_for_timeout(450)
    page.wait_for_selector(".course:not([aria-busy])")


def shown(page: Any, name: str) -> str:
    """The exact value behind a number of the page."""
    found: str = page.locator(f'.results [data-name="{name}"]').get_attribute("data-value")
    return found


def said(**question: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(ask(json.dumps({**FIRST, **question})))
    return answer


def check_shown(page: Any, answer: dict[str, Any]) -> None:
    """What the page shows, against an answer."""
    for at, model in enumerate(answer["models"]):
        assert shown(page, f"total.{at}") == str(model["cache"]["total"]["value"])
        assert shown(page, f"per_token.{at}") == str(model["cache"]["per_token"]["value"])
        for row, one in enumerate(model["schemes"][: 1 if at else None]):
            assert shown(page, f"scheme.{at}.{row}.total") == str(one["total"]["value"])
            assert (
                page.locator(f'[data-name="scheme.{at}.{row}.total"]').inner_text()
                == (one["total"]["exact"])
            )
        for one in model["engines"]:
            if one["total"]:
                assert shown(page, f"engine.{one['engine']}.{at}") == str(one["total"]["value"])
        for one in model["devices"]:
            if one["fit"]:
                assert shown(page, f"fit.{one['device']}.{at}") == str(one["fit"]["value"])
        for one in model["formats"]:
            name = f"format.{one['format']}.{at}"
            assert shown(page, name) == str(one["total"]["value"])
            assert float(shown(page, f"{name}.per_token")) == float(one["per_token"]["value"])
        for row, one in enumerate(model["groups"] if len(answer["models"]) == 1 else ()):
            for name in ("per_token", "capped", "fixed"):
                assert float(shown(page, f"group.{row}.{name}")) == float(one[name]["value"])
        for name in ("peak", "bandwidth", "ridge", "reads") if model["device"] else ():
            assert float(shown(page, f"{name}.{at}")) == float(model["device"][name]["value"])
        for one in model["weighed"]["rows"] if model["weighed"] else ():
            assert shown(page, f"weighed.{at}.{one['tokens']}") == str(one["measured"]["value"])
            assert shown(page, f"planned.{at}.{one['tokens']}") == str(one["planned"]["value"])
        for one in model["flops"]:
            value = shown(page, f"flops.{one['what']}.{at}")
            assert float(value) == float(one["number"]["value"])
    assert page.locator(".command code").inner_text() == answer["command"]
