"""The gate lets this server's own page in, and nobody else; every answer carries the policy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from attnscope.serve.security import MOST_BODY, POLICY, Guard

TOKEN, PORT = "0123456789abcdef0123456789abcdef", 8123
HOST = f"127.0.0.1:{PORT}"


class Inner:
    """What lies behind the gate: reads the body and answers with the path that it was given."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["path"])
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
        own = [(b"content-security-policy", b"default-src *"), (b"x-own", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body", "body": scope["path"].encode()})


def ask(
    path: str = f"/{TOKEN}/api/traces",
    headers: dict[str, str] | None = None,
    *,
    method: str = "GET",
    chunks: tuple[bytes, ...] = (b"",),
    inner: Inner | None = None,
    more: tuple[tuple[bytes, bytes], ...] = (),
) -> tuple[int, dict[str, str], bytes]:
    """Send one request through a gate; returns status, headers, body."""
    given = {"host": HOST, **(headers or {})}
    pairs = [(k.encode(), v.encode()) for k, v in given.items() if v is not None]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [*pairs, *more],
    }  # fmt: skip
    waiting = list(chunks)
    sent: list[Any] = []

    async def receive() -> Any:
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Guard(inner or Inner(), token=TOKEN, port=PORT)(scope, receive, send))
    starts = [one for one in sent if one["type"] == "http.response.start"]
    assert len(starts) == 1
    said = {k.decode().lower(): v.decode() for k, v in starts[0]["headers"]}
    assert len(said) == len(starts[0]["headers"]), "a header is there twice"
    return starts[0]["status"], said, b"".join(one.get("body", b"") for one in sent)


def test_its_own_page_passes_and_the_prefix_is_taken_off() -> None:
    assert ask()[0::2] == (200, b"/api/traces")
    assert ask(f"/{TOKEN}/")[0::2] == (200, b"/")
    for headers in (
        {"host": f"localhost:{PORT}"},
        {"origin": f"http://{HOST}"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ):
        assert ask(headers=headers)[0] == 200


def test_without_its_slash_the_address_leads_to_the_page() -> None:
    status, headers, _ = ask(f"/{TOKEN}")
    assert (status, headers["location"]) == (308, f"/{TOKEN}/")


@pytest.mark.parametrize(
    "path",
    [
        "/", "/api/traces", "/static/js/main.js", f"/{TOKEN[:-1]}/", f"/{TOKEN}0/", "//", "/../",
        f"//{TOKEN}/", f"/x/{TOKEN}/", f"/{TOKEN.upper()}/", f"/%30{TOKEN[1:]}/", "/" + "a" * 600,
        f"/{TOKEN}/" + "a" * 600,
    ],
)  # fmt: skip
def test_without_the_secret_there_is_nothing(path: str) -> None:
    inner = Inner()
    assert ask(path, inner=inner)[0] == 404
    assert inner.paths == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": f"evil.example:{PORT}"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": f"127.0.0.1:{PORT + 1}"}, 421),
        ({"host": f"127.0.0.1.evil.example:{PORT}"}, 421),
        ({"host": f"{HOST}@evil.example"}, 421),
        ({"host": ""}, 421),
        ({"host": None}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"https://{HOST}"}, 403),
        ({"origin": f"http://localhost:{PORT}"}, 403),  # the other name is another origin
        ({"origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        ({"origin": ""}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate",
          "sec-fetch-dest": "document"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors",
          "sec-fetch-dest": "image"}, 403),
        ({"sec-fetch-site": "unheard-of"}, 403),
    ],
)  # fmt: skip
def test_a_foreign_host_or_page_is_refused(headers: dict[str, Any], status: int) -> None:
    inner = Inner()
    assert ask(headers=headers, inner=inner)[0] == status
    assert inner.paths == []


def test_two_hosts_are_refused() -> None:
    assert ask(more=((b"host", HOST.encode()),))[0] == 421


def test_a_link_from_another_local_page_may_be_followed() -> None:
    visit = {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}
    assert ask(headers={**visit, "sec-fetch-dest": "document"})[0] == 200
    assert ask(headers={**visit, "sec-fetch-dest": "iframe"})[0] == 403
    assert ask(headers={**visit, "sec-fetch-dest": "document"}, method="POST")[0] == 403


@pytest.mark.parametrize("length", [str(MOST_BODY + 1), "100000000", "9" * 5000, "1" * 13])
def test_a_long_body_is_refused_before_it_is_read(length: str) -> None:
    status, headers, _ = ask(headers={"content-length": length}, method="POST")
    assert (status, headers["connection"]) == (413, "close")


def test_a_body_that_does_not_say_its_length_is_cut_off() -> None:
    piece = b"x" * (1 << 18)
    assert ask(chunks=(piece,) * 4, method="POST")[0] == 200
    assert ask(chunks=(piece,) * 5, method="POST")[0] == 413


def test_every_answer_carries_the_policy() -> None:
    for path, headers in (
        (f"/{TOKEN}/", {}), (f"/{TOKEN}", {}), ("/", {}), (f"/{TOKEN}/", {"host": "evil"}),
    ):  # fmt: skip
        _, said, _ = ask(path, headers)
        assert said["content-security-policy"] == POLICY
        assert said["x-content-type-options"] == "nosniff"
        assert said["referrer-policy"] == "no-referrer"
        assert said["cross-origin-opener-policy"] == "same-origin"
        assert said["cross-origin-resource-policy"] == "same-origin"
        assert said["cache-control"] == "no-store"
    directives = dict(part.strip().split(" ", 1) for part in POLICY.split(";"))
    for name in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert directives[name] == "'none'", name
    for name in ("script-src", "style-src", "connect-src"):
        assert directives[name] == "'self'", name
    assert not any(word in POLICY for word in ("unsafe", "http:", "https:", "*"))


def test_other_protocols_get_no_answer() -> None:
    async def nothing(*_: Any) -> Any:
        raise AssertionError("was used")

    guard = Guard(nothing, token=TOKEN, port=PORT)
    asyncio.run(guard({"type": "websocket"}, nothing, nothing))
