"""docs/figures.md says what the figures say; a page that does not is caught."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from attnscope.lessons import figures

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


@pytest.fixture(scope="module")
def made() -> str:
    spec = importlib.util.spec_from_file_location("figures_docs_build", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    page: str = build.figures_page()
    return page


def stable(page: str) -> str:
    """The page without the one number that depends on the processor's order of sums."""
    said = re.sub(r"(`cache\.bits\.product` \| )[^|]+\|", r"\1 |", page)
    return re.sub(r"`cache\.bits\.rows`: .*", lambda found: NUMBER.sub("0", found[0]), said)


def test_the_page_is_what_the_figures_say(made: str) -> None:
    assert stable(PAGE) == stable(made), "run: make docs"


def test_every_figure_has_a_row_in_both_languages() -> None:
    for one in figures.all():
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{one.id}` |")]
        assert one.title["en"] in row
        assert one.title["zh"] in row
        assert one.kind in row


def test_a_page_that_lies_is_caught(made: str) -> None:
    assert "64 KiB" in PAGE
    assert stable(PAGE.replace("64 KiB", "65 KiB")) != stable(made)
    assert stable(PAGE.replace("384 KiB", "385 KiB", 1)) != stable(made)
