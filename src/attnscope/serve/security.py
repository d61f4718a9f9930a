"""The gate in front of the server: who may ask, how much they may send, and what every answer says.

The idea: the server is for one reader on this machine, while every page of the open web can make
that reader's browser send requests to 127.0.0.1. A request passes when it names this server as its
host (a foreign name is a rebinding attack), comes from a page of this server or from none, and
knows the random prefix that was printed. Every answer carries a policy that lets the page run this
server's scripts alone and be framed by nobody.

Not here: what lies behind the gate (app.py).
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

MOST_BODY: Final = 1 << 20
"""Bytes of a request's body."""
MOST_PATH: Final = 512
"""Bytes of a path; the longest real one has a hundred."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"cache-control", b"no-store"),
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class TooLargeError(Exception):
    """The body of a request is longer than it may be."""


class Guard:
    """An ASGI application that lets through what may pass, with the prefix taken off its path.

    Args:
        app: what lies behind.
        token: the prefix of every path, without slashes.
        port: where this server listens; part of the host's name.
    """

    def __init__(self, app: App, *, token: str, port: int) -> None:
        if not token.isalnum():
            raise ValueError("token: expected letters and digits")
        self._app = app
        self._token = token.encode()
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return  # no websockets here, and nothing to do at start-up
        send = _with_headers(send)
        refused = self._refusal(scope)
        if refused is not None:
            await refuse(send, *refused)
            return
        path = scope["path"]
        inner = path[len(self._token) + 1 :]
        if not inner:
            await _redirect(send, f"{path}/")
            return
        passed = dict(scope, path=inner, raw_path=inner.encode(), root_path="")
        await self._limited(passed, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """The status and the sentence for a request that may not pass."""
        headers = scope["headers"]
        hosts = _all(headers, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "This server answers to 127.0.0.1 and localhost with its own port alone."
        own = b"http://" + hosts[0].lower()
        if any(origin.lower() != own for origin in _all(headers, b"origin")):
            return 403, "Another page may not ask this server."
        for site in _all(headers, b"sec-fetch-site"):
            if site not in (b"same-origin", b"none") and not _is_a_visit(scope, site):
                return 403, "Another page may not ask this server."
        raw = scope.get("raw_path") or scope["path"].encode()
        first = raw[1:].split(b"/", 1)[0]
        if len(raw) > MOST_PATH or not hmac.compare_digest(first, self._token):
            return 404, "There is nothing here. Open the address that attnscope printed."
        if any(len(n) > 12 or int(n) > MOST_BODY for n in _all(headers, b"content-length")):
            return 413, f"A request may have {MOST_BODY} bytes at most."
        return None

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, counting its body and whether an answer has begun."""
        taken, begun = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BODY:
                raise TooLargeError
            return message

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, counted, watched)
        except TooLargeError:
            if not begun:
                await refuse(send, 413, f"A request may have {MOST_BODY} bytes at most.")


def _all(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


def _is_a_visit(scope: Scope, site: bytes) -> bool:
    """Whether somebody follows a link from another local page (a notebook's) to open this one."""
    headers = scope["headers"]
    return (
        site == b"same-site"
        and scope["method"] == "GET"
        and _all(headers, b"sec-fetch-mode") == [b"navigate"]
        and _all(headers, b"sec-fetch-dest") == [b"document"]
    )


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in HEADERS}
            kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in own]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return sending


async def refuse(send: Send, status: int, sentence: str) -> None:
    """Answer with an error, and close: what the other side may still be sending is not read."""
    body = json.dumps({"error": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Send, place: str) -> None:
    headers = [(b"location", place.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 308, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
