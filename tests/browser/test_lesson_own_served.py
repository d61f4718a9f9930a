"""The course behind its server: saved texts are listed, a typed one is captured, heads are exact.

The pages are the course's own; the model is the small random one of the app's tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_samples import Samples
from lessons_site import faults, move, number, numbers
from own_page import select
from own_truth import SHOWN, cosines_of, embeddings_of, head_of

import attnscope

SECONDS = 90
UNFOLD = (
    "document.querySelectorAll('main details:not(.own-panel *)')"
    ".forEach((one) => { one.open = true; })"
)
BOTH = pytest.mark.parametrize("language", ["en", "zh"])


@dataclass(frozen=True)
class Course:
    """A running course."""

    address: str
    captures: Path


@pytest.fixture(scope="module")
def course(samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    captures = tmp_path_factory.mktemp("captures")
    traces = [samples.traces[name] for name in ("llama-short", "hybrid-short", "llama-long")]
    process = subprocess.Popen(
        [sys.executable, "-m", "attnscope", "lessons", *map(str, traces), "--no-open",
         "--traces", str(captures), "--model", str(samples.models["llama"])],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:"), "the server did not start"
    yield Course(address, captures)
    process.terminate()
    assert process.wait(SECONDS) == 0
    process.stdout.close()


def widget_of(page: Any, course: Course, language: str, slug: str, id: str) -> Any:
    """A widget with its panel open."""
    page.goto(f"{course.address}{language}/{slug}.html")
    page.wait_for_selector(".course.live")
    page.evaluate(UNFOLD)
    widget = page.locator(f"#widget-{id}")
    widget.locator('[data-name="own"]').click()
    return widget


@BOTH
def test_a_saved_text_is_chosen_with_its_layer_head_and_row(
    page: Any, course: Course, samples: Samples, language: str
) -> None:
    widget = widget_of(page, course, language, "03-softmax", "rules-car")
    options = widget.locator('select[data-name="own.trace"] option')
    options.nth(3).wait_for(state="attached")
    assert ["llama-short" in one or "hybrid" in one or "llama-long" in one
            for one in options.all_inner_texts()] == [False, True, True, True]  # fmt: skip
    select(widget, "trace", "llama-short")
    widget.and_(page.locator(".of-own")).wait_for()
    select(widget, "layer", 3)
    widget.locator(".own-said", has_text="3.").wait_for()
    select(widget, "head", 2)
    widget.locator(".own-said", has_text="3.2").wait_for()
    select(widget, "row", 31)
    widget.locator(".own-said", has_text="32 ").wait_for()
    head = head_of(attnscope.open(samples.traces["llama-short"]), 3, 2)
    named = head.named(31, 5)
    shown = numbers(widget, "softmax", 5)
    np.testing.assert_allclose(shown, head.weights[31, named], **SHOWN)
    assert faults(page) == []


@BOTH
def test_a_part_of_a_long_text_begins_where_the_reader_says(
    page: Any, course: Course, samples: Samples, language: str
) -> None:
    widget = widget_of(page, course, language, "13-reading", "reading")
    select(widget, "trace", "llama-long")
    widget.and_(page.locator(".of-own")).wait_for()
    select(widget, "layer", 1)
    select(widget, "head", 3)
    widget.locator(".own-said", has_text="1.3").wait_for()
    start = widget.locator('input[data-name="own.start"]')
    start.fill("1501")
    start.press("Enter")
    widget.locator(".own-said", has_text="1501").wait_for()
    head = head_of(attnscope.open(samples.traces["llama-long"]), 1, 3, 1500)
    row = 1530
    move(widget, "row", row + 1)
    for key in head.named(row, 8):
        shown = number(widget, f"weight.{key - 1500}")
        assert shown == pytest.approx(head.weights[row, key], rel=1e-6)
    beyond = head.weights[row, :1500].sum()
    assert number(widget, "beyond.weight") == pytest.approx(beyond, rel=1e-5)


def test_embeddings_and_places_of_a_saved_text_are_served(
    page: Any, course: Course, samples: Samples
) -> None:
    trace = attnscope.open(samples.traces["llama-short"])
    widget = widget_of(page, course, "en", "01-embeddings", "grid")
    select(widget, "trace", "llama-short")
    widget.and_(page.locator(".of-own")).wait_for()
    cosines = cosines_of(embeddings_of(trace, samples.models["llama"])[:64])
    shown = [number(widget, f"g.63.{j}") for j in range(52, 64)]
    np.testing.assert_allclose(shown, cosines[63, 52:64], atol=1e-8)
    # The next page offers the text, and the server has another head of it.
    widget = widget_of(page, course, "en", "06-rope", "far")
    widget.and_(page.locator(".of-own")).wait_for()
    select(widget, "layer", 0)
    widget.locator(".own-said", has_text="0.").wait_for()
    select(widget, "head", 1)
    widget.locator(".own-said", has_text="0.1").wait_for()
    head = head_of(trace, 0, 1)
    key = int(head.weights[63].argmax())
    for name in ("real", "here"):
        assert number(widget, name) == pytest.approx(head.scores[63, key], abs=1e-6)
    assert faults(page) == []


def test_layers_without_a_map_are_not_offered(page: Any, course: Course) -> None:
    widget = widget_of(page, course, "en", "04-masking", "weights")
    select(widget, "trace", "hybrid-short")
    widget.and_(page.locator(".of-own")).wait_for()
    layers = widget.locator('select[data-name="own.layer"] option').all_inner_texts()
    assert [one.split()[0] for one in layers] == ["1", "3"]


@BOTH
def test_a_typed_text_is_captured_and_shown(page: Any, course: Course, language: str) -> None:
    widget = widget_of(page, course, language, "04-masking", "weights")
    widget.locator(".own-panel details > summary").click()
    form = widget.locator(".own-capture")
    form.locator('button[type="submit"]').click()
    empty = {"en": "The text is empty", "zh": "文本是空的"}[language]
    form.get_by_text(empty).wait_for()
    before = set(course.captures.iterdir())
    form.locator("textarea").fill("小明把苹果给了小王。The apple is with Wang.")
    # The small model is the last of those that are installed here.
    models = form.locator("select option")
    form.locator("select").select_option(str(models.last.get_attribute("value")))
    form.locator('[data-name="own.capture"]').click()
    widget.and_(page.locator(".of-own")).wait_for(timeout=SECONDS * 1000)
    [place] = set(course.captures.iterdir()) - before
    trace = attnscope.open(place)
    assert trace.text == "小明把苹果给了小王。The apple is with Wang."
    said = widget.locator(".own-said").inner_text()
    layer = int(widget.locator('select[data-name="own.layer"]').input_value())
    head = int(widget.locator('select[data-name="own.head"]').input_value())
    assert f"{layer}.{head}" in said
    truth = head_of(trace, layer, head)
    row = int(widget.locator('select[data-name="own.row"]').input_value())
    assert row == min(len(trace.tokens), 64) - 5
    widget.locator('button[data-choice="before"]').click()
    shown = numbers(widget, "weight", 12)
    np.testing.assert_allclose(shown, truth.weights[row, row - 7 : row + 5], **SHOWN)
    # The next lesson offers it, and the list has it.
    page.goto(f"{course.address}{language}/05-whole.html")
    page.wait_for_selector(".course.live")
    page.evaluate(UNFOLD)
    widget = page.locator("#widget-mixture")
    widget.locator('[data-name="own"]').click()
    widget.and_(page.locator(".of-own")).wait_for()
    assert widget.locator('select[data-name="own.trace"]').input_value() != ""


def test_a_capture_is_cancelled_and_leaves_nothing(page: Any, course: Course) -> None:
    widget = widget_of(page, course, "en", "04-masking", "hide")
    before = set(course.captures.iterdir())
    stand = widget.locator(".stand").inner_html()
    widget.locator(".own-panel details > summary").click()
    form = widget.locator(".own-capture")
    form.locator("textarea").fill("a " * 500)
    models = form.locator("select option")
    form.locator("select").select_option(str(models.last.get_attribute("value")))
    form.locator('[data-name="own.capture"]').click()
    form.locator('[data-name="own.cancel"]').click()
    form.get_by_text("Cancelled; nothing was saved.").wait_for(timeout=SECONDS * 1000)
    assert set(course.captures.iterdir()) == before
    assert widget.locator(".stand").inner_html() == stand
    assert form.locator("textarea").is_enabled()


def test_without_a_model_the_page_says_the_command(page: Any, course: Course) -> None:
    page.route("**/api/models", lambda route: route.fulfill(
        json={"schema": "attnscope.serve/1", "models": [{"name": "smollm2", "installed": False}]}
    ))  # fmt: skip
    widget = widget_of(page, course, "en", "04-masking", "weights")
    widget.locator(".own-panel details > summary").click()
    widget.get_by_text("attnscope models pull smollm2").wait_for()
    assert widget.locator("textarea").is_hidden()


def test_what_the_server_no_longer_has_is_a_sentence(page: Any, course: Course) -> None:
    gone = (
        '{"from": {"kind": "trace", "id": "gone", "start": 0}, "model": "m", "layer": 1,'
        ' "head": 2, "other": {"layer": 1, "head": 3}, "row": 4}'
    )
    page.goto(f"{course.address}en/04-masking.html")
    page.evaluate("(text) => sessionStorage.setItem('attnscope.course.own', text)", gone)
    widget = widget_of(page, course, "en", "04-masking", "weights")
    widget.get_by_text("There is no such trace here").wait_for()
    assert "of-own" not in str(widget.get_attribute("class"))
    assert page.evaluate("sessionStorage.length") == 0
    page.expected_errors()  # the browser writes that an address was not found
