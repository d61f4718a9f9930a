"""What the tests of the map do with its page: point at a cell, read numbers, wait till it is drawn,
keep its tiles back.

Not a test itself. The geometry is that of the contract: the view's `x,y,pixels` are the key and
the query in the middle of the tiles' canvas, and CSS pixels per token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

READY = """() => {
  const figure = document.querySelector('.map-figure');
  return figure && figure.dataset.pending === '0';
}"""


FINE = "**/tiles?*level=0&*"
"""Requests for the finest tiles."""


@dataclass(frozen=True)
class View:
    """The key and the query in the middle, and CSS pixels per token."""

    x: float
    y: float
    pixels: float

    @property
    def text(self) -> str:
        """As a link holds it."""
        return f"{self.x:g},{self.y:g},{self.pixels:g}"


class Held:
    """Requests that a test lets through when it wants to."""

    def __init__(self, page: Any, pattern: str) -> None:
        self.routes: list[Any] = []
        self.lost: list[str] = []
        self.open = False
        page.route(pattern, self._take)
        page.on("requestfailed", lambda one: self.lost.append(one.url))

    def _take(self, route: Any) -> None:
        if self.open:
            route.continue_()
        else:
            self.routes.append(route)

    def free(self) -> None:
        """Let through those that wait, and all that come."""
        self.open = True
        while self.routes:
            self.routes.pop().continue_()


def map_link(trace: str, layer: int, head: int, view: View | None = None, more: str = "") -> str:
    """A link to the map of a head."""
    fields = [f"view={view.text}"] if view else []
    return f"#map/{trace}/{layer}.{head}?" + "&".join([*fields, *([more] if more else [])])


def wait_drawn(page: Any) -> None:
    """Until every tile in sight is here and drawn."""
    page.wait_for_selector(".map-figure", state="visible")
    page.wait_for_function(READY)


def place_of(page: Any, view: View, query: float, key: float) -> tuple[float, float]:
    """Where on the page the middle of a pair's cell is."""
    box = page.locator(".map-tiles").bounding_box()
    left = (key + 0.5 - view.x) * view.pixels + box["width"] / 2
    top = (query + 0.5 - view.y) * view.pixels + box["height"] / 2
    assert 0 <= left < box["width"], "the pair is not in sight"
    assert 0 <= top < box["height"], "the pair is not in sight"
    return box["x"] + left, box["y"] + top


def point_at(page: Any, view: View, query: int, key: int) -> None:
    """Move the mouse to a pair and wait for the exact number."""
    page.mouse.move(1, 1)
    page.wait_for_selector(".map-readout:not([data-exact])")
    page.mouse.move(*place_of(page, view, query, key))
    page.wait_for_selector(".map-readout[data-exact]")


def shown(page: Any, name: str) -> float:
    """A number of the readout, as it is written there."""
    return as_number(written(page, name))


def as_number(text: str) -> float:
    """The number of a text with thin groups and a real minus sign."""
    return float(re.sub(r"[^0-9.e-]", "", text.replace("−", "-").replace("e-", "e-")))


def half_a_digit(text: str) -> float:
    """How far a written number may be from what it was rounded from."""
    mantissa, _, exponent = text.replace("−", "-").replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals) * (1 + 1e-6)


def written(page: Any, name: str) -> str:
    """A number of the readout, letter by letter; not the one in the button, which is of the largest
    pair of a coarse cell."""
    return str(page.locator(f".map-readout .map-numbers .{name}").inner_text())
