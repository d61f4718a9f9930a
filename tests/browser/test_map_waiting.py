"""The map while tiles are on their way, without its graphics card, and beside another text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from map_page import (
    READY,
    View,
    as_number,
    half_a_digit,
    map_link,
    point_at,
    wait_drawn,
    written,
)

FINE = "**/tiles?*level=0&*"


class Held:
    """Requests that a test lets through when it wants to."""

    def __init__(self, page: Any, pattern: str) -> None:
        self.routes: list[Any] = []
        self.lost: list[str] = []
        page.route(pattern, lambda one: self.routes.append(one))
        page.on("requestfailed", lambda one: self.lost.append(one.url))


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
