"""A stand-alone page opened from the disk, offline: the same screens, and the exact numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from map_page import View, as_number, half_a_digit, map_link, point_at, wait_drawn, written

from attnscope.trace import Trace


@pytest.fixture
def offline(page: Any) -> Any:
    """A page whose browser has no network; whoever asks for something fails the test."""
    page.context.set_offline(True)
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    yield page
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_one_head_opens_as_its_map_with_exact_numbers(
    offline: Any, served: Any, tmp_path: Path
) -> None:
    trace = served.traces["llama-long"]
    place = trace.to_html(tmp_path / "page.html", layers=1, heads=2)
    offline.goto(place.as_uri())
    wait_drawn(offline)
    view = View(700, 900, 24.0)
    offline.goto("about:blank")
    offline.goto(place.as_uri() + map_link("page", 1, 2, view))
    wait_drawn(offline)
    for query, key in [(900, 700), (895, 707), (911, 690)]:
        point_at(offline, view, query, key)
        weight = trace.weights(1, 2, [query], dtype=np.float64)[0, key]
        text = written(offline, "map-weight")
        assert abs(as_number(text) - weight) <= half_a_digit(text)


def test_several_heads_open_as_the_overview_and_the_rest_is_said_to_be_missing(
    offline: Any, served: Any, tmp_path: Path
) -> None:
    trace = served.traces["hybrid-short"]
    place = trace.to_html(tmp_path / "page.html", layers=[1], heads=[0, 3])
    offline.goto(place.as_uri())
    offline.wait_for_selector(".overview", state="visible")
    offline.goto("about:blank")
    offline.goto(place.as_uri() + "#flow/page/1.3?q=20")
    offline.wait_for_selector(".flow .text", state="visible")


HOSTILE = (
    "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
)


def renamed(trace: Trace) -> Trace:
    """The same numbers under a stranger's names."""
    text = "".join(f"{HOSTILE}{n} " for n in range(len(trace.tokens)))
    at, tokens = 0, []
    for token in trace.tokens:
        said = f"{HOSTILE}{token.index} "
        tokens.append(replace(token, text=said, start=at, end=at + len(said)))
        at += len(said)
    model = replace(trace.model, name=HOSTILE, architecture=HOSTILE)
    header = replace(trace.header, model=model, text=text, tokens=tuple(tokens))
    return Trace(header, {layer.index: trace.layer(layer.index) for layer in trace.layers})


def test_a_strangers_words_are_shown_and_never_run(
    offline: Any, served: Any, tmp_path: Path
) -> None:
    trace = renamed(served.traces["llama-short"])
    place = trace.to_html(tmp_path / "page.html", name=HOSTILE)
    for view in ("", map_link("page", 0, 1), "#flow/page/0.1?q=9", "#home"):
        offline.goto("about:blank")
        offline.goto(place.as_uri() + view)
        offline.wait_for_selector(".attnscope .stage > *", state="attached")
        offline.wait_for_timeout(200)
        assert offline.title() != "taken"
        assert offline.locator("img").count() == 0
        assert offline.locator("script").count() <= 3
