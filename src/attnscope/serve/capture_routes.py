"""The routes of captures, for every server that offers them: the app's and the course's.

    POST /api/captures                  {"text", "model", "generate"} -> 202 {"id"}
    GET  /api/captures/{id}/events      server-sent events, from the first one on
    DELETE /api/captures/{id}           cancels

Not here: running a capture (captures.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from attnscope.serve.captures import Captures

PULSE_SECONDS: Final = 15.0
"""A line without meaning that keeps a quiet stream of events open."""


def capture_routes(captures: Captures) -> list[Route]:
    """What begins, follows and ends captures."""

    async def begin(request: Request) -> Response:
        wanted = await _body(request)
        return JSONResponse({"id": await captures.start(wanted)}, status_code=202)

    async def events(request: Request) -> Response:
        captures.check(request.path_params["id"])  # before the answer begins
        found = captures.events(request.path_params["id"])
        return StreamingResponse(_sent(found), media_type="text/event-stream")

    async def cancel(request: Request) -> Response:
        await captures.cancel(request.path_params["id"])
        return Response(status_code=204)

    return [
        Route("/api/captures", begin, methods=["POST"]),
        Route("/api/captures/{id}", cancel, methods=["DELETE"]),
        Route("/api/captures/{id}/events", events),
    ]


async def _body(request: Request) -> Any:
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise ValueError("body: expected JSON, with the content type application/json")
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise ValueError("body: this is not JSON") from None


async def _sent(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Events as a stream, with a pulse while nothing happens."""
    waiting: asyncio.Task[Any] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({waiting}, timeout=PULSE_SECONDS)
            if not done:
                yield b": waiting\n\n"
                continue
            try:
                event = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield b"data: " + json.dumps(event).encode() + b"\n\n"
    finally:
        if waiting is not None:
            waiting.cancel()
