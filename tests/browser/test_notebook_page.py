"""The widget in a small page that stands for a notebook: its module, and a channel to a kernel."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from map_page import View, as_number, half_a_digit, point_at, wait_drawn, written

import attnscope
from attnscope.widget import Widget, page_script, page_style

HOST = "https://notebook.test/"
PAGE = """<!doctype html><meta charset="utf-8"><title>notebook</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="widget.css">
<p>A cell above.</p><div class="cell" id="one"></div><div class="cell" id="two"></div>
<script type="module">
import widget from "./widget.js";
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
for (const id of ["one", "two"]) {
  const calls = [];
  const model = {
    get: (name) => window.traits[id][name],
    set() {}, save_changes() {}, off() {},
    on: (name, call) => { if (name === "msg:custom") calls.push(call); },
    send: async (message) => {
      for (const [answer, buffers] of await ask(id, message)) {
        for (const call of calls) call(answer, buffers.map(bytes));
      }
    },
  };
  window[`end_${id}`] = await widget.render({ model, el: document.getElementById(id) });
}
window.ready = true;
</script>
"""


class Kernel:
    """Two widgets, and what their pages were answered."""

    def __init__(self, **widgets: Widget) -> None:
        self.widgets = widgets
        self.asked: list[str] = []

    def ask(self, which: str, message: Any) -> list[Any]:
        """Hand a page's message to its widget; returns what the widget sends back."""
        widget, sent = self.widgets[which], []
        self.asked.append(message["path"])
        widget.send = lambda content, buffers=None: sent.append(
            (content, [base64.b64encode(bytes(one)).decode() for one in buffers or []])
        )
        widget._handle_custom_msg(message, [])
        return sent


def open_notebook(page: Any, kernel: Kernel) -> None:
    """A page with a cell for each widget; anything else that it asks for is refused."""
    files = {
        "": ("text/html", PAGE),
        "widget.js": ("text/javascript", page_script()),
        "widget.css": ("text/css", page_style()),
    }

    def answer(route: Any) -> None:
        name = route.request.url.removeprefix(HOST)
        if name not in files:
            route.abort()
            return
        kind, body = files[name]
        route.fulfill(body=body, content_type=f"{kind}; charset=utf-8")

    page.route("**/*", answer)
    page.expose_function("ask", kernel.ask)
    traits = {
        name: {"view": widget.view, "height": widget.height}
        for name, widget in kernel.widgets.items()
    }
    page.add_init_script(f"window.traits = {json.dumps(traits)}")
    page.goto(HOST)
    page.wait_for_function("window.ready")


def test_two_cells_show_their_own_and_the_numbers_are_exact(page: Any, served: Any) -> None:
    trace, view = served.traces["llama-long"], View(700, 900, 24.0)
    place = {"x": view.x, "y": view.y, "pixels": view.pixels}
    kernel = Kernel(
        one=Widget({"run": trace}, height=600, screen="map", layer=1, head=2, view=place),
        two=attnscope.show(served.traces["hybrid-short"], height=500),
    )
    open_notebook(page, kernel)
    wait_drawn(page)
    page.wait_for_selector("#two .overview", state="visible")
    assert page.locator("#one .map-figure").count() == 1
    assert page.locator("#two .map-figure").count() == 0
    assert page.locator("#one .attnscope").bounding_box()["height"] == 600
    for query, key in [(900, 700), (895, 707)]:
        point_at(page, view, query, key)
        weight = trace.weights(1, 2, [query], dtype=np.float64)[0, key]
        text = written(page, "map-weight")
        assert abs(as_number(text) - weight) <= half_a_digit(text)
    assert any(path.endswith("/tiles") for path in kernel.asked)


def test_a_cell_that_is_run_again_leaves_nothing(page: Any, served: Any) -> None:
    trace = served.traces["llama-short"]
    kernel = Kernel(one=attnscope.show(trace), two=attnscope.show(trace))
    open_notebook(page, kernel)
    page.wait_for_selector("#one .overview", state="visible")
    page.evaluate("window.end_one()")
    assert page.locator("#one > *").count() == 0
    assert page.locator("#two .overview").count() == 1
