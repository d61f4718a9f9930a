"""A real server on small saved traces, and a real Chromium in front of it.

    samples    the models and the traces (session)
    served     the server: its address, its traces' ids, and the traces themselves (session)
    site       the course, exported to a folder (session)
    handouts   heads of the long text as files of it are written, by the first token (session)
    on_own_text   a widget of a lesson on such a file: on_own_text("06-rope", "far", handouts[0])
    page       a page that fails the test for any error in its console; nothing is opened yet
    open_app   page.goto with a view: open_app("#map/llama-short/1.2")

`language` ("en", "zh") and `theme` ("light", "dark") are what the browser says of its reader; a
test that wants all four is marked `@every_look` (looks.py).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from app_samples import Samples, make_samples
from lessons_site import opened
from own_page import HEADS, STARTS, Open, drop, select

import attnscope
from attnscope import tiles
from attnscope.trace import Trace

SECONDS_TO_START = 60


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test here, before -m chooses."""
    config.addinivalue_line("markers", "browser: needs Debian's Chromium; part of `make browser`")
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("browser")


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        address: of the page, with the secret, ending in "/".
        ids: of the traces in the app, by the names of `samples.traces`: "llama-short" …
        traces: the same, opened in this process, to compare with.
        captures: the folder that the app saves to.
    """

    address: str
    ids: dict[str, str]
    traces: dict[str, Trace]
    captures: Path
    process: subprocess.Popen[str]


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return make_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture(scope="session")
def served(samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    captures = tmp_path_factory.mktemp("captures")
    process = subprocess.Popen(
        [
            sys.executable, "-m", "attnscope", "serve", *map(str, samples.traces.values()),
            "--no-open", "--traces", str(captures), "--model", str(samples.models["llama"]),
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the server did not start"
        # The ids are the folders' names as they can stand in an address, which these are already.
        ids = {name: name for name in samples.traces}
        traces = {name: attnscope.open(place) for name, place in samples.traces.items()}
        yield Served(address, ids, traces, captures, process)
    finally:
        process.terminate()
        assert process.wait(SECONDS_TO_START) == 0
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course as it is exported; tests read it and leave it as it is."""
    from attnscope.lessons.site import export

    folder = tmp_path_factory.mktemp("course")
    export(folder)
    return folder


@pytest.fixture(scope="session")
def long_trace(samples: Samples) -> Trace:
    return attnscope.open(samples.traces["llama-long"])


@pytest.fixture(scope="session")
def handouts(long_trace: Trace) -> dict[int, str]:
    return {
        start: json.dumps(tiles.handout(long_trace, HEADS, start=start), ensure_ascii=False)
        for start in STARTS
    }


@pytest.fixture
def on_own_text(page: Any, site: Path, language: str) -> Open:
    def go(slug: str, id: str, text: str, *, row: int = 50) -> Any:
        opened(page, site, language, slug)
        widget = page.locator(f"#widget-{id}")
        drop(widget, text)
        widget.and_(page.locator(".of-own")).wait_for()
        select(widget, "row", row)
        return widget

    return go


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for each file: while Playwright is at work its event loop runs in this thread,
    and tests of other files that start a loop of their own could not."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        pytest.fail("This test needs Debian's Chromium: apt-get install -y chromium nodejs npm")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def language() -> str:
    return "en"


@pytest.fixture
def theme() -> str:
    return "light"


@pytest.fixture
def page(browser: Any, language: str, theme: str) -> Iterator[Any]:
    """A page of 1280 x 800; what it writes to its console as an error fails the test."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        locale={"en": "en-GB", "zh": "zh-CN"}[language],
        color_scheme=theme,
        reduced_motion="reduce",
    )
    said: list[str] = []
    made = context.new_page()
    made.set_default_timeout(15_000)
    made.on("console", lambda one: said.append(one.text) if one.type == "error" else None)
    made.on("pageerror", lambda error: said.append(str(error)))
    made.expected_errors = lambda: said.clear()  # for a test that provokes some
    yield made
    context.close()
    assert said == []


@pytest.fixture
def open_app(page: Any, served: Served) -> Callable[..., Any]:
    """Open the app with a view, as a link would."""

    def go(view: str = "") -> Any:
        page.goto("about:blank")  # a change of the part after # alone would not load anything
        page.goto(served.address + view)
        return page

    return go
