"""The map by link, by keyboard and by mouse: what is chosen, where one is, what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import axe
import pytest
from fakes import open_fake
from looks import every_look
from map_page import View, map_link, place_of, point_at, wait_drawn, written

SAID = "() => [...document.querySelectorAll('[aria-live]')].map((one) => one.textContent).join(' ')"


def address(page: Any) -> str:
    """The view in the URL, once it has been written."""
    page.wait_for_timeout(600)  # the camera rests 200 ms, the store writes after 250
    return str(page.evaluate("location.hash"))


def wait_said(page: Any, text: str) -> None:
    """Until the live region says this."""
    page.wait_for_function(f"(text) => ({SAID})().includes(text)", arg=text)


def picture(page: Any) -> bytes:
    return bytes(page.locator(".map-figure").screenshot())


def test_a_link_reopens_exactly_what_was_seen(open_app: Callable[..., Any]) -> None:
    page = open_app(map_link("llama-long", 1, 2))
    wait_drawn(page)
    page.get_by_role("button", name="Raw", exact=True).click()
    page.get_by_role("button", name="Largest", exact=True).click()
    page.get_by_label("Colours").select_option("cividis")
    page.get_by_label("Without the sink").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    box = page.locator(".map-tiles").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 300)
    page.mouse.wheel(0, -900)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 260, steps=4)
    page.mouse.up()
    page.mouse.click(box["x"] + 200, box["y"] + 400)
    page.mouse.move(1, 1)
    dark = page.get_by_role("slider", name="Dark end")
    dark.press("ArrowRight")
    dark.blur()
    before = address(page)
    for part in ["scale=raw", "plane=max", "palette=cividis", "measure=weight-no-sink", "with=",
                 "lock=1", "view=", "q=", "k=", "range="]:  # fmt: skip
        assert part in before
    wait_drawn(page)
    page.wait_for_selector(".map-readout[data-exact]")
    seen, text = picture(page), page.locator(".map-readout").inner_text()
    open_app(before)
    wait_drawn(page)
    page.wait_for_selector(".map-readout[data-exact]")
    assert address(page) == before
    assert page.locator(".map-readout").inner_text() == text
    assert picture(page) == seen


def test_every_step_works_with_the_keyboard_alone(open_app: Callable[..., Any]) -> None:
    page = open_app(map_link("llama-long", 1, 2))
    wait_drawn(page)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('map-proxy')"):
            break
    else:
        pytest.fail("Tab does not reach the map")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".map-readout[data-exact]")
    first = address(page)
    assert "lock=1" in first
    query, key = (int(first.split(f"{name}=")[1].split("&")[0]) for name in ("q", "k"))
    wait_said(page, f"query {query}, key {key}, ")
    page.keyboard.press("ArrowUp")
    wait_said(page, f"query {query - 1}, key {key}, ")
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_function("(k) => !location.hash.includes(k)", arg=f"k={key}&")
    zoomed = address(page)
    assert int(zoomed.split("k=")[1].split("&")[0]) < key
    page.keyboard.press("+")
    page.keyboard.press("d")
    assert address(page).split("view=")[1] != zoomed.partition("view=")[2]
    page.keyboard.press("Enter")  # flies to the chosen pair, without movement: at once
    pixels = float(address(page).split("view=")[1].split("&")[0].split(",")[2])
    assert pixels >= 24
    page.keyboard.press("c")
    assert "with=llama-long/1.3" in address(page)
    page.keyboard.press("c")
    page.keyboard.press("f")
    fitted = address(page)
    assert "with=" not in fitted
    assert "view=" not in fitted
    page.keyboard.press("Escape")
    assert "lock=1" not in address(page)
    page.keyboard.press("Escape")
    assert "q=" not in address(page)


def test_finding_in_a_text_that_is_all_in_sight_leaves_the_map_where_it_is(page: Any) -> None:
    page.set_viewport_size({"width": 1400, "height": 1000})
    open_fake(page, "#map/made/1.2?lang=en", tokens=20)
    page.wait_for_selector(".map-proxy")
    page.wait_for_timeout(300)
    page.locator(".map-proxy").focus()
    page.keyboard.press("/")
    page.keyboard.type("a")
    page.wait_for_function("() => /of \\d+/.test(document.querySelector('.map-search').innerText)")
    for _ in range(4):
        page.keyboard.press("Enter")
    page.wait_for_timeout(600)
    assert "k=" in address(page)
    assert "view=" not in address(page)


def test_a_piece_of_text_is_found_and_gone_to(open_app: Callable[..., Any], served: Any) -> None:
    page = open_app(map_link("llama-long", 1, 2))
    wait_drawn(page)
    page.locator(".map-proxy").focus()
    page.keyboard.press("/")
    page.keyboard.type("xiao WANG")
    page.wait_for_function("() => /of \\d+/.test(document.querySelector('.map-search').innerText)")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.classList.contains('map-proxy')")
    chosen = address(page).split("k=")[1].split("&")[0].split("-")
    tokens = served.traces["llama-long"].tokens
    raw = served.traces["llama-long"].text.encode()
    found = raw[tokens[int(chosen[0])].start : tokens[int(chosen[-1])].end].decode()
    assert found.strip() == "Xiao Wang"
    assert raw[: tokens[int(chosen[0])].start].decode().count("Xiao Wang") == 1  # the second


def test_pointing_is_free_until_a_click_locks_it(open_app: Callable[..., Any]) -> None:
    view = View(700, 900, 20)
    page = open_app(map_link("llama-long", 1, 2, view))
    wait_drawn(page)
    point_at(page, view, 900, 700)
    first = written(page, "map-weight")
    page.mouse.click(*place_of(page, view, 900, 700))
    page.mouse.move(*place_of(page, view, 905, 707))
    assert "q=900&k=700&lock=1" in address(page)
    page.wait_for_selector(".map-readout[data-exact]")
    assert written(page, "map-weight") == first
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelector('.map-pair').innerText.includes('905')")


def test_a_range_is_dragged_on_an_axis(open_app: Callable[..., Any]) -> None:
    view = View(700, 900, 20)
    page = open_app(map_link("llama-long", 1, 2, view))
    wait_drawn(page)
    box = page.locator(".map-tiles").bounding_box()
    start, end = (place_of(page, view, 900, key)[0] for key in (697, 703))
    page.mouse.move(end, box["y"] - 20)
    page.mouse.down()
    page.mouse.move(start, box["y"] - 20, steps=5)
    page.mouse.up()
    assert "k=697-703" in address(page)
    page.wait_for_selector(".map-row-table caption")
    assert "697–703" in page.locator(".map-row-table caption").inner_text()


def test_enter_flies_to_the_largest_pair_of_a_coarse_cell(open_app: Callable[..., Any]) -> None:
    view = View(900, 1000, 0.3)
    page = open_app(map_link("llama-long", 2, 1, view))
    wait_drawn(page)
    point_at(page, view, 1201, 400)
    page.wait_for_selector(".map-fly", state="visible")
    named = page.locator(".map-fly span").first.inner_text()
    page.locator(".map-proxy").focus()
    page.keyboard.press("Enter")
    there = address(page)
    query, key = (int(there.split(f"{name}=")[1].split("&")[0]) for name in ("q", "k"))
    assert f"query {query}, key {key}" in named
    x, y, pixels = (float(one) for one in there.split("view=")[1].split("&")[0].split(","))
    assert (x, y) == (key + 0.5, query + 0.5)
    assert pixels >= 12


def test_a_new_scale_fetches_no_tile(page: Any, open_app: Callable[..., Any]) -> None:
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if "/tiles?" in one.url else None)
    open_app(map_link("llama-long", 1, 2, View(900, 1000, 0.5)))
    wait_drawn(page)
    while asked:  # neighbours are fetched ahead, until none is left
        asked.clear()
        page.wait_for_timeout(1500)
    for name in ["Raw", "× uniform", "Log"]:
        page.get_by_role("button", name=name, exact=True).click()
        page.wait_for_timeout(200)
        wait_drawn(page)
    page.get_by_role("button", name="Largest", exact=True).click()
    page.get_by_label("Colours").select_option("cividis")
    wait_drawn(page)
    assert asked == []


def test_the_sink_is_removed_and_it_says_so(open_app: Callable[..., Any]) -> None:
    page = open_app(map_link("llama-long", 1, 2))
    wait_drawn(page)
    assert page.locator(".map-sink").is_hidden()
    page.get_by_label("Without the sink").check()
    assert "left out" in page.locator(".map-sink").inner_text()
    assert "measure=weight-no-sink" in address(page)


def test_what_arrived_is_compared_with_nothing(open_app: Callable[..., Any]) -> None:
    page = open_app(map_link("llama-long", 1, 2, None, "scale=uniform&measure=arrived"))
    wait_drawn(page)
    uniform = page.get_by_role("button", name="× uniform", exact=True)
    assert uniform.is_disabled()
    assert "Only for weights" in str(uniform.get_attribute("title"))
    assert (
        page.get_by_role("button", name="Raw", exact=True).get_attribute("aria-pressed") == "true"
    )


@every_look
def test_the_map_is_there_in_every_look(
    open_app: Callable[..., Any], language: str, theme: str
) -> None:
    page = open_app(map_link("llama-short", 0, 0, None, "q=50&k=3&lock=1&with=llama-short/1.1"))
    wait_drawn(page)
    page.wait_for_selector(".map-readout[data-exact]")
    words = {"en": ["Compare", "Weight", "Find"], "zh": ["对比", "权重", "查找"]}[language]
    text = page.locator(".screen.map").inner_text()
    assert all(word in text for word in words)
    assert "�" not in text
    wide = page.evaluate("document.querySelector('.stage').scrollWidth")
    assert wide <= page.viewport_size["width"]
    ground = page.evaluate("getComputedStyle(document.querySelector('.attnscope')).backgroundColor")
    light = sum(json.loads("[" + ground.partition("(")[2].rstrip(")") + "]")) > 384
    assert light == (theme == "light")
    assert axe.faults(page) == []
    page.keyboard.press(
        "/"
    )  # the search, the menu and a coarse cell's button are there only when asked
    page.locator(".map-export summary").click()
    assert axe.faults(page) == []


@every_look
def test_a_chosen_range_and_a_coarse_cell_are_readable(
    open_app: Callable[..., Any], language: str, theme: str
) -> None:
    page = open_app(map_link("llama-long", 1, 2, None, "q=50-60&k=3-9&lock=1"))
    wait_drawn(page)
    page.wait_for_selector(".map-row-table tbody tr")
    assert axe.faults(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    box = page.locator(".map-tiles").bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 300)
    page.wait_for_selector(".map-fly:not([hidden])")
    assert axe.faults(page) == []
