"""The widget in a stand-in for VS Code's notebook: a sandboxed frame, its policy, its styles.

What is real: the widget, its kernel side, and anywidget's own front end as it comes with the Python
package. What stands in: the frame (of another origin than the editor, sandboxed, allowed to fetch
nothing and to import nothing but what is inline or a blob), the messages between frame and editor
(structured clones, buffers as ArrayBuffers), and the few methods of `@jupyter-widgets/base` that
anywidget calls. VS Code itself was not tried.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anywidget
import axe
import numpy as np
import pytest
from looks import every_look
from map_page import READY, View, as_number, half_a_digit, place_of

import attnscope
from attnscope.widget import Widget

EDITOR, FRAME = "https://editor.test/", "https://webview.test/"
RUNTIME = Path(anywidget.__file__).parent / "nbextension" / "index.js"
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' https: http: data:; font-src 'self' https:; "
    "connect-src 'none'; child-src https: data:"
)
OUTER = f"""<!doctype html><meta charset="utf-8"><title>editor</title>
<link rel="icon" href="data:,">
<style>html, body, iframe {{ margin: 0; width: 100%; height: 100%; border: 0 }}</style>
<iframe id="frame" src="{FRAME}" sandbox="allow-scripts allow-same-origin allow-forms
 allow-pointer-lock allow-downloads"></iframe>
<script>
addEventListener("message", async ({{ data, source }}) => {{
  for (const [content, buffers] of await ask(data)) {{
    const bodies = buffers.map((one) => Uint8Array.from(atob(one), (c) => c.charCodeAt(0)).buffer);
    source.postMessage({{ content, buffers: bodies }}, "*", bodies);
  }}
}});
</script>
"""
# The rules of the editor for all outputs, which reach into a widget's tables too.
STYLES = """
body { padding: 0 26px; font: 13px/1.4 sans-serif }
body.light { color: #3b3b3b; background: #ffffff }
body.dark { color: #cccccc; background: #1f1f1f }
table, thead, tr, th, td, tbody { border: none; border-spacing: 0; border-collapse: collapse }
table { width: 100% }
table, th, tr { vertical-align: middle; text-align: right }
th, td { padding: 4px 6px; text-align: right }
tr:nth-child(even) { background-color: rgba(130, 130, 130, 0.08) }
tbody th { font-weight: normal }
"""
BASE = """
class Model {
  constructor(state) { this.state = state; this.calls = []; this.initialize(); }
  initialize() {}
  get(name) { return this.state[name]; }
  set(name, value) { this.state[name] = value; }
  save_changes() {}
  on(name, call, context) { this.calls.push({ name, call, context }); }
  once(name, call) { this.on(name, call); }
  off(name, call, context) {
    this.calls = this.calls.filter((one) => (name && one.name !== name)
      || (call && one.call !== call) || (context && one.context !== context));
  }
  send(content) { parent.postMessage(structuredClone(content), "*"); }
  hear(content, buffers) {
    for (const { name, call } of [...this.calls]) {
      if (name === "msg:custom") call(content, buffers.map((one) => new DataView(one)));
    }
  }
}
class View {
  constructor(model, el) {
    Object.assign(this, { model, el, $el: { empty: () => el.replaceChildren() } });
  }
  remove() { this.el.remove(); }
}
window.define = (names, factory) => {
  const { AnyModel, AnyView } = factory({ DOMWidgetModel: Model, DOMWidgetView: View });
  const model = new AnyModel(window.widgetState);
  addEventListener("message", ({ data }) => model.hear(data.content, data.buffers));
  const view = new AnyView(model, document.getElementById("output"));
  view.render();
};
"""
INNER = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>webview</title>
<link rel="icon" href="data:,"><style>{styles}</style></head><body class="{theme}">
<div id="container"><div class="output" id="output"></div></div>
<script>window.widgetState = {state};</script><script>{base}</script><script>{runtime}</script>
</body></html>"""


@pytest.fixture
def notebook(page: Any, theme: str) -> Iterator[Any]:
    """Shows a widget in the frame; gives the frame. Whatever else is fetched fails the test."""
    asked: list[str] = []

    def show(widget: Widget) -> Any:
        state = {
            "_anywidget_id": "attnscope", "_esm": widget._esm, "_css": widget._css,
            "view": widget.view, "height": widget.height,
        }  # fmt: skip
        text = json.dumps(state).replace("</", "<\\/")
        inner = INNER.format(
            styles=STYLES, state=text, base=BASE, runtime=RUNTIME.read_text(), theme=theme
        )

        def answer(route: Any) -> None:
            url = route.request.url
            if url in (EDITOR, FRAME):
                headers = {"content-type": "text/html; charset=utf-8"}
                if url == FRAME:
                    headers["content-security-policy"] = POLICY
                route.fulfill(body=OUTER if url == EDITOR else inner, headers=headers)
            else:
                asked.append(url)
                route.abort()

        def ask(message: Any) -> list[Any]:
            sent: list[Any] = []
            widget.send = lambda content, buffers=None: sent.append(
                (content, [base64.b64encode(bytes(one)).decode() for one in buffers or []])
            )
            widget._handle_custom_msg(message, [])
            return sent

        page.route("**/*", answer)
        page.expose_function("ask", ask)
        page.goto(EDITOR)
        frame = page.frame(url=FRAME)
        frame.wait_for_selector("#output .attnscope")
        return frame

    yield show
    assert asked == []


def test_a_tile_travels_and_the_number_is_exact(notebook: Any, page: Any, served: Any) -> None:
    trace, view = served.traces["llama-long"], View(700, 900, 24.0)
    place = {"x": view.x, "y": view.y, "pixels": view.pixels}
    frame = notebook(Widget({"run": trace}, screen="map", layer=1, head=2, view=place))
    frame.wait_for_function(READY)
    for query, key in [(900, 700), (895, 707)]:
        page.mouse.move(1, 1)
        frame.wait_for_selector(".map-readout:not([data-exact])")
        page.mouse.move(*place_of(frame, view, query, key))
        frame.wait_for_selector(".map-readout[data-exact]")
        text = frame.locator(".map-readout .map-weight").inner_text()
        weight = trace.weights(1, 2, [query], dtype=np.float64)[0, key]
        assert abs(as_number(text) - weight) <= half_a_digit(text)


@every_look
def test_the_three_screens_are_there_and_readable(
    notebook: Any, page: Any, served: Any, language: str, theme: str
) -> None:
    frame = notebook(attnscope.show(served.traces["llama-short"], height=700))
    names = {"en": ("Overview", "Map", "Flow"), "zh": ("总览", "注意力图", "信息流")}[language]
    whole = ("[role=gridcell]", ".map-figure[data-pending='0']", ".flow .keys tbody tr")
    for name, wanted in zip(names, whole, strict=True):
        frame.get_by_role("tab", name=name, exact=True).click()
        frame.wait_for_selector(wanted)
        assert frame.locator(".attnscope").get_attribute("data-scheme") == theme
        assert frame.locator(".attnscope").bounding_box()["height"] == 700
        assert axe.faults(frame) == []
    frame.locator(".flow .text").press("Home")
    frame.wait_for_selector(".token.chosen[data-token='0']")


def test_pictures_and_numbers_are_saved_there_too(notebook: Any, page: Any, served: Any) -> None:
    trace = served.traces["llama-short"]
    frame = notebook(attnscope.show(trace, layer=1, head=2))
    frame.wait_for_function(READY)
    for kind in ("PNG", "SVG", "CSV"):
        frame.locator(".map-export summary").click()
        with page.expect_download() as saved:
            frame.locator(".map-export").get_by_role("button", name=kind).click()
        assert saved.value.path().stat().st_size > 1000
