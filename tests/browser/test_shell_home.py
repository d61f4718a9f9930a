"""The first screen: what is open, and capturing with progress, cancel and faults in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import axe
from fakes import open_fake


def test_open_traces_are_listed_with_what_they_are(
    open_app: Callable[..., Any], served: Any
) -> None:
    page = open_app("#home/llama-short")
    rows = page.locator(".home tbody tr")
    rows.nth(len(served.ids) - 1).wait_for()
    shown = {row.locator("th").inner_text(): row for row in rows.all()}
    for name, trace in served.traces.items():
        row = shown[name]
        page.wait_for_function("row => row.lastChild.textContent !== ''", arg=row.element_handle())
        cells = row.locator("td").all_inner_texts()
        assert cells[0] == trace.model.name
        assert cells[1] == f"{len(trace.tokens):,}"
        maps = sum(1 for layer in trace.layers if layer.reason is None)
        assert f"{len(trace.layers)} layers, {maps} with a map" in cells[2]


def test_a_listed_text_opens_by_keyboard(open_app: Callable[..., Any]) -> None:
    page = open_app("#home/llama-short")
    button = page.get_by_role("button", name="hybrid-short")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.startsWith('#overview/hybrid-short')")
    page.wait_for_function(
        "() => document.querySelector('.picker select').value === 'hybrid-short'"
    )


def type_and_capture(page: Any, text: str, generate: int) -> None:
    page.keyboard.press("n")
    page.keyboard.type(text)
    page.get_by_label("Tokens to generate").fill(str(generate))
    page.get_by_role("button", name="Capture", exact=True).press("Enter")


def test_a_capture_shows_tokens_as_they_come_and_opens(page: Any) -> None:
    open_fake(page, "#home/made?lang=en", capture="done")
    page.get_by_label("Text", exact=True).wait_for()
    page.evaluate(
        """() => { window.seen = []; new MutationObserver(() => window.seen.push(
            document.querySelector(".running").textContent)
        ).observe(document.querySelector(".running"), {childList: true, subtree: true}); }"""
    )
    type_and_capture(page, "Hello", 6)
    page.wait_for_function("() => location.hash.startsWith('#flow/made2')")
    seen = page.evaluate("window.seen")
    for step in range(1, 7):
        words = "".join(f" word{index}" for index in range(step))
        assert f"Generating: {step} of 6Hello{words}" in seen
    assert "Hello" in page.locator(".picker option").all_inner_texts()[1]


def test_only_installed_models_can_be_chosen(page: Any) -> None:
    open_fake(page, "#home/made?lang=en", capture="done")
    options = page.locator(".capture select option")
    options.nth(1).wait_for(state="attached")
    assert options.all_inner_texts() == ["big (not installed)", "small"]
    assert options.nth(0).is_disabled()
    assert page.locator(".capture select").input_value() == "small"


def test_cancel_ends_a_capture_and_keeps_the_text(page: Any) -> None:
    open_fake(page, "#home/made?lang=en", capture="slow")
    page.get_by_label("Text", exact=True).wait_for()
    type_and_capture(page, "Hello", 2)
    page.get_by_text("word1").wait_for()
    assert axe.faults(page) == []
    page.get_by_role("button", name="Cancel").press("Enter")
    page.get_by_text("Cancelled; nothing was saved.").wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "Hello"
    assert page.locator(".capture progress").is_hidden()


def test_a_capture_goes_on_while_the_language_is_changed(page: Any) -> None:
    open_fake(page, "#home/made?lang=en", capture="slow")
    page.get_by_label("Text", exact=True).wait_for()
    type_and_capture(page, "Hello", 3)
    page.get_by_text("word2").wait_for()
    page.get_by_role("button", name="中文").click()
    page.get_by_text("生成：3 / 3").wait_for()
    assert "word2" in page.locator(".made").inner_text()
    page.locator("body").press("Escape")
    page.get_by_text("已取消").wait_for()


def test_a_capture_that_fails_says_so_in_a_sentence(page: Any) -> None:
    open_fake(page, "#home/made?lang=en", capture="failed")
    page.get_by_label("Text", exact=True).wait_for()
    type_and_capture(page, "Hello", 0)
    page.get_by_text("it needed more memory than there is").wait_for()
    assert page.get_by_role("button", name="Capture", exact=True).is_enabled()


def test_what_cannot_be_captured_is_said_at_once(page: Any) -> None:
    open_fake(page, "#home/made?lang=en", capture="done")
    page.get_by_label("Text", exact=True).wait_for()
    type_and_capture(page, " ", 0)
    page.get_by_text("The text is empty").wait_for()
    page.get_by_label("Text", exact=True).fill("a")
    page.get_by_label("Tokens to generate").fill("99999")
    page.get_by_role("button", name="Capture", exact=True).click()
    page.get_by_text("expected a whole number from 0 to 1,024").wait_for()


def test_a_source_that_cannot_capture_has_no_form(page: Any) -> None:
    open_fake(page, "#home/made?lang=en")
    page.locator(".home tbody tr").wait_for()
    assert page.locator(".capture").count() == 0
