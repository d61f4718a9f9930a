"""The map while tiles are on their way, without its graphics card, and beside another text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from map_page import (
    FINE,
    READY,
    Held,
    View,
    as_number,
    half_a_digit,
    map_link,
    place_of,
    point_at,
    wait_drawn,
    written,
)

FLOAT32 = 2.0**-23
STANDS_IN = """() => /[0-9]–[0-9]/.test(document.querySelector('.map-pair').textContent)
  && !document.querySelector('.map-fly').hidden"""


def test_what_is_no_longer_seen_is_taken_back(page: Any, open_app: Callable[..., Any]) -> None:
    held = Held(page, FINE)
    open_app(map_link("llama-long", 1, 2, View(700, 900, 24.0)))
    page.wait_for_selector(".map-figure[data-pending]:not([data-pending='0'])")
    page.locator(".map-proxy").focus()
    page.keyboard.press("f")
    page.wait_for_function(READY)
    page.wait_for_timeout(100)
    assert held.routes, "nothing was asked for"
    assert {one.request.url for one in held.routes} <= set(held.lost)


@pytest.mark.parametrize(("before", "size"), [(None, 8), (0.3, 4), (0.6, 2)])
def test_a_tile_that_is_not_here_is_its_parent_meanwhile(
    page: Any, open_app: Callable[..., Any], served: Any, before: float | None, size: int
) -> None:
    """The nearest coarser cell that is here, said to be one: the whole text's, or what was seen."""
    view = View(896, 900, 24.0)
    held = Held(page, FINE)
    if before is not None:
        open_app(map_link("llama-long", 1, 2, View(896, 900, before)))
        wait_drawn(page)
        page.evaluate("link => { location.hash = link; }", map_link("llama-long", 1, 2, view))
    else:
        open_app(map_link("llama-long", 1, 2, view))
    page.wait_for_selector(".map-figure[data-pending]:not([data-pending='0'])")
    trace = served.traces["llama-long"]
    for query, key in [(909, 885), (902, 890), (901, 899)]:  # the last on the diagonal
        top, left = query // size * size, key // size * size
        block = trace.weights(1, 2, slice(top, top + size), dtype=np.float64)
        block = block[:, left : left + size]
        page.mouse.move(1, 1)
        page.wait_for_selector(".map-readout:not([data-exact]) .map-fly", state="hidden")
        page.mouse.move(*place_of(page, view, query, key))
        page.wait_for_function(STANDS_IN)
        title = page.locator(".map-pair").inner_text()
        assert f"Query {top}–{top + size - 1}" in title
        assert f"Key {left}–{left + size - 1}" in title
        # a cell's two numbers, none of them a pair's: that stands in the button, with its name
        assert page.locator(".map-numbers .map-weight").count() == 0
        for name, wanted in [("map-mean", block.sum() / size), ("map-max", block.max())]:
            text = written(page, name)
            assert abs(as_number(text) - wanted) <= half_a_digit(text) + 32 * FLOAT32 * wanted
        fly = page.locator(".map-fly")
        row, column = np.unravel_index(block.argmax(), block.shape)
        assert f"query {top + row}, key {left + column}" in fly.inner_text()
        text = fly.locator(".map-weight").inner_text()
        assert abs(as_number(text) - block.max()) <= half_a_digit(text)
    # the pointer rests where it is: the tile takes its parent's place by itself
    held.free()
    page.wait_for_function(READY)
    page.wait_for_selector(".map-readout[data-exact] .map-numbers .map-weight")
    assert page.locator(".map-fly").is_hidden()
    title = page.locator(".map-pair").inner_text()
    assert f"Query {query} " in title
    assert f"Key {key} " in title
    weight = trace.weights(1, 2, [query], dtype=np.float64)[0, key]
    text = written(page, "map-weight")
    assert abs(as_number(text) - weight) <= half_a_digit(text)


def test_the_upper_triangle_can_be_another_models_map_of_a_text(
    page: Any, open_app: Callable[..., Any], served: Any
) -> None:
    view = View(900, 900, 20)
    open_app(map_link("llama-long", 1, 2, view, "with=hybrid-long/1.3"))
    wait_drawn(page)
    point_at(page, view, 893, 904)
    other = served.traces["hybrid-long"].weights(1, 3, [904], dtype=np.float64)[0, 893]
    text = written(page, "map-weight")
    assert abs(as_number(text) - other) <= half_a_digit(text)
    assert "hybrid-long" in page.locator(".map-figure").inner_text() + page.locator(
        ".map-readout"
    ).inner_text() + "".join(page.locator(".map select option:checked").all_inner_texts())


def test_a_lost_graphics_card_is_replaced(page: Any, open_app: Callable[..., Any]) -> None:
    """The page goes on with a new canvas, whichever way it draws then."""
    page.add_init_script(
        """addEventListener("DOMContentLoaded", () => {
          const place = document.getElementById("attnscope");
          if (place) place.dataset.draw = "webgl2"; });"""
    )
    open_app(map_link("llama-short", 1, 2, View(40, 50, 12.0)))
    wait_drawn(page)
    figure = page.locator(".map-figure")
    assert figure.get_attribute("data-drawing") == "webgl2"
    before = page.locator(".map-tiles").element_handle()
    page.evaluate(
        """() => document.querySelector(".map-tiles").getContext("webgl2")
          .getExtension("WEBGL_lose_context").loseContext()"""
    )
    page.wait_for_function("before => !before.isConnected", arg=before)
    wait_drawn(page)
    page.keyboard.press("+")
    page.wait_for_function(READY)
    assert figure.get_attribute("data-drawing") in ("webgl2", "canvas2d")
    box = page.locator(".map-tiles").bounding_box()
    assert box["width"] > 300
