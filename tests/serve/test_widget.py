"""The widget answers what its page asks, over a mocked channel, as the server would."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from serve_samples import TOKENS, make_trace

import attnscope
from attnscope import tiles
from attnscope.trace import Trace
from attnscope.widget import Widget, page_script


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace()


class Channel:
    """Stands in for the notebook's comm: keeps what the widget sends."""

    def __init__(self, widget: Widget, monkeypatch: pytest.MonkeyPatch) -> None:
        self.widget = widget
        self.sent: list[tuple[Any, list[bytes]]] = []
        monkeypatch.setattr(
            widget, "send", lambda content, buffers=None: self.sent.append((content, buffers))
        )

    def ask(self, path: str, query: str = "", *, number: int = 7) -> tuple[int, str, bytes]:
        """Status, media and body of the answer to one question."""
        self.sent.clear()
        self.hear({"kind": "ask", "id": number, "path": path, "query": query})
        heads = [head for head, _ in self.sent]
        assert [head["more"] for head in heads] == [True] * (len(heads) - 1) + [False]
        assert {head["id"] for head in heads} == {number}
        assert {head["kind"] for head in heads} == {"answer"}
        body = b"".join(bytes(one) for _, buffers in self.sent for one in buffers)
        return heads[-1]["status"], heads[0]["media"], body

    def hear(self, message: Any) -> None:
        self.widget._handle_custom_msg(message, [])


@pytest.fixture
def channel(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> Channel:
    return Channel(attnscope.show(trace), monkeypatch)


def test_questions_are_answered_as_over_http(channel: Channel, trace: Trace) -> None:
    status, media, body = channel.ask("/traces")
    [entry] = json.loads(body)["traces"]
    assert (status, media, entry["tokens"]) == (200, "application/json", TOKENS)
    _, _, body = channel.ask(f"/traces/{entry['id']}/info")
    assert json.loads(body) == tiles.info(trace)
    query = "layer=0&head=1&measure=weight&level=0&at=0.0,0.1"
    status, media, body = channel.ask(f"/traces/{entry['id']}/tiles", query)
    assert (status, media) == (200, "application/octet-stream")
    assert len(channel.sent) == 3  # two tiles, and the end
    for found, y in zip(tiles.decode(body), (0, 1), strict=True):
        expected = tiles.tile(trace, 0, 1, "weight", 0, 0, y)
        assert np.array_equal(found.mean, expected.mean, equal_nan=True)


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        ("/nothing", "", 404, "There is nothing here."),
        ("/traces/other/info", "", 404, "no such trace"),
        ("/traces/trace/info", "x=1", 400, "no such parameter"),
        ("/traces/trace/cell", "layer=1&head=0&query=0&key=0", 400, "layer: 1 has no attention"),
        ("../../etc/passwd", "", 404, "There is nothing here."),
    ],
)
def test_what_is_wrong_is_a_sentence(
    channel: Channel, path: str, query: str, status: int, said: str
) -> None:
    found, media, body = channel.ask(path, query)
    assert (found, media) == (status, "application/json")
    assert said in json.loads(body)["error"]


@pytest.mark.parametrize(
    "message",
    [
        None, 3, "ask", [], {}, {"kind": "ask"}, {"kind": "other", "id": 1, "path": "/traces"},
        {"kind": "ask", "id": "1", "path": "/traces", "query": ""},
        {"kind": "ask", "id": True, "path": "/traces", "query": ""},
        {"kind": "ask", "id": 1, "path": ["/traces"], "query": ""},
    ],
)  # fmt: skip
def test_other_messages_are_let_go(channel: Channel, message: Any) -> None:
    channel.hear(message)
    assert channel.sent == []


def test_a_long_question_is_refused(channel: Channel) -> None:
    status, _, body = channel.ask("/traces", "x" * (1 << 20))
    assert status == 400
    assert len(body) < 300


def test_damage_on_the_way_is_the_answers_end(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnscope.errors import TraceError

    def broken(self: Any, *place: Any, **options: Any) -> Any:
        if place[-1] == 1:
            raise TraceError("layer 0: the trace is damaged.")
        return real(self, *place, **options)

    real = tiles.Tiles.tile
    monkeypatch.setattr(tiles.Tiles, "tile", broken)
    query = "layer=0&head=1&measure=weight&level=0&at=0.0,0.1"
    status, _, body = channel.ask("/traces/trace/tiles", query)
    assert status == 422
    assert b"the trace is damaged" in body


def test_show_says_what_it_cannot_show(trace: Trace) -> None:
    widget = attnscope.show({"one": trace, "two": trace}, layer=2, head=1, height=300)
    assert widget.view == {"screen": "map", "trace": "one", "layer": 2, "head": 1}
    assert widget.height == 300
    for given, kind, said in (
        ({"trace": {}}, ValueError, "trace: expected at least one"),
        ({"trace": 3}, TypeError, "trace: expected an attnscope.Trace, got int"),
        ({"trace": trace, "layer": 0}, ValueError, "layer, head: give both, or neither"),
        ({"trace": trace, "layer": 1, "head": 0}, ValueError, "layer: 1 has no attention map"),
        ({"trace": trace, "layer": 0, "head": 4}, ValueError, "head: 4 is not one of the 4 heads"),
        ({"trace": trace, "height": 10}, ValueError, "height: expected 240 to 2000 pixels, got 10"),
    ):
        with pytest.raises(kind, match=said):
            attnscope.show(**given)


def test_the_script_is_one_module_that_fetches_nothing() -> None:
    script = page_script()
    assert script.endswith("export default { render };\n")
    assert not re.search(r"https?://(?!www\.w3\.org/|notebook\.invalid/)", script)
