"""The app in a notebook: Jupyter, VS Code, marimo and whatever else speaks anywidget, offline.

The idea: the same page as the server's, joined to one module; its questions come over the
notebook's own channel and are answered here, so nothing listens on a port and nothing is copied
into the notebook's file but the view.

Not here: the questions (attnscope.serve.answers), their messages (docs/export.md).
"""

from __future__ import annotations

import functools
import json
from typing import Any, Final

import anywidget
import traitlets

from attnscope.errors import AttnscopeError
from attnscope.link import link
from attnscope.serve.answers import JSON, Answer, Answers, UnknownPathError
from attnscope.serve.files import STATIC
from attnscope.serve.store import Store, UnknownTraceError
from attnscope.trace import Trace

ENTRY: Final = "widget.js"
STYLES: Final = ("base.css", "shell.css", "overview.css", "map.css", "flow.css", "flow-side.css")
HEIGHTS: Final = (240, 2000)


@functools.cache
def page_script() -> str:
    """The app as one ES module with anywidget's default export."""
    return link(STATIC / "js", [ENTRY], expose=True) + "export default { render };\n"


@functools.cache
def page_style() -> str:
    """The app's styles; all of them apply below its own element alone."""
    return "\n".join((STATIC / "css" / one).read_text(encoding="utf-8") for one in STYLES)


class Widget(anywidget.AnyWidget):
    """The app on one or several traces, as the last value of a notebook's cell.

    Attributes:
        view: what to show first, fields of ViewState (types.js).
        height: CSS pixels.
    """

    view = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)

    def __init__(self, traces: dict[str, Trace], *, height: int = 640, **view: Any) -> None:
        if not HEIGHTS[0] <= height <= HEIGHTS[1]:
            raise ValueError(f"height: expected {HEIGHTS[0]} to {HEIGHTS[1]} pixels, got {height}")
        store = Store()
        entries = [store.add(trace, name=name) for name, trace in traces.items()]
        if view:  # what a view says of layers and heads it says of a trace
            view.setdefault("trace", entries[0]["id"])
        self._answers = Answers(store, lambda: [])
        # set before anywidget looks for them, so that importing this reads and joins nothing
        self._esm, self._css = page_script(), page_style()
        super().__init__(view=view, height=height)
        self.on_msg(self._hear)

    def _hear(self, _: Any, message: Any, buffers: Any) -> None:
        """One message of the page."""
        if not isinstance(message, dict) or message.get("kind") != "ask":
            return
        number, path, query = (message.get(name) for name in ("id", "path", "query"))
        if type(number) is not int or not isinstance(path, str) or not isinstance(query, str):
            return  # no page of ours wrote this, so nobody waits for an answer
        self._answer(number, path, query)

    def _answer(self, number: int, path: str, query: str) -> None:
        """Answer a question, piece by piece; an error on the way replaces what is left."""
        status, media = 200, JSON
        try:
            answer: Answer = self._answers.ask(path, query)
            media = answer.media
            for part in answer.parts:
                self._say(number, status, media, part())
        except Exception as error:
            status, said = _explained(error)
            self._say(number, status, JSON, json.dumps({"error": said}).encode())
        self._say(number, status, media, None)

    def _say(self, number: int, status: int, media: str, body: bytes | None) -> None:
        head = {"kind": "answer", "id": number, "status": status, "media": media}
        self.send({**head, "more": body is not None}, buffers=[] if body is None else [body])


def _explained(error: Exception) -> tuple[int, str]:
    """The status and the sentence; a defect of ours is raised, so that the notebook shows it."""
    if isinstance(error, UnknownPathError | UnknownTraceError):
        return 404, str(error)
    if isinstance(error, ValueError):
        return 400, str(error)
    if isinstance(error, AttnscopeError):
        return 422, str(error)
    if isinstance(error, MemoryError):
        return 413, "There is not enough memory for this; ask for a smaller part."
    raise error


def show(
    trace: Trace | dict[str, Trace],
    *,
    layer: int | None = None,
    head: int | None = None,
    height: int = 640,
) -> Widget:
    """Show the app in a notebook.

    Args:
        trace: what `attnscope.capture` or `attnscope.open` gave, or several by name, to compare.
        layer, head: open the map of this head; the overview if not given.
        height: CSS pixels.

    Returns:
        A widget; the last value of a cell is shown.

    Raises:
        ValueError: a layer or head that is not there, no trace, or a height of no use.
        TypeError: something that is not a trace.
    """
    traces = trace if isinstance(trace, dict) else {_name(trace): trace}
    if not traces:
        raise ValueError("trace: expected at least one")
    for one in traces.values():
        if not isinstance(one, Trace):
            raise TypeError(f"trace: expected an attnscope.Trace, got {type(one).__name__}")
    view: dict[str, Any] = {}
    if layer is not None or head is not None:
        if layer is None or head is None:
            raise ValueError("layer, head: give both, or neither")
        count = next(iter(traces.values())).layer(layer).info.query_heads
        if not 0 <= head < count:
            raise ValueError(f"head: {head} is not one of the {count} heads of layer {layer}")
        view = {"screen": "map", "layer": layer, "head": head}
    return Widget(traces, height=height, **view)


def _name(trace: Any) -> str:
    path = getattr(trace, "path", None)
    return path.name if path is not None else "trace"
