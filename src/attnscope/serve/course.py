"""The course on this machine: its pages behind the gate, and the reader's notes in Markdown files.

The idea: the site is a table from path to bytes (attnscope.lessons.site), so a request only picks a
name. Notes are the one thing that is written: one file a lesson and language, in a folder that the
reader named, for lessons that there are and no others.

    GET /{path}                   a page, a script, a style
    GET /notes/{language}/{id}    the notes as text; PUT replaces them
    POST /api/plan                a question to the planner (attnscope.plan.page), in JSON

Not here: the pages (lessons/site), the traces' server (app.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from attnscope.plan.page import ask
from attnscope.serve.app import Explaining
from attnscope.serve.files import TYPES
from attnscope.serve.run import HOST, SECONDS_TO_END, bind, ending, tell
from attnscope.serve.security import App, Guard
from attnscope.serve.work import Workers

HTML: Final = "index.html"
MOST_QUESTIONS: Final = 16
"""Questions to the planner that wait; a page has one at a time."""


def make_course_app(
    files: Mapping[str, bytes], notes: Path | None, *, token: str, port: int
) -> App:
    """The course as an application, with its gate.

    Args:
        files: the site.
        notes: the folder of the notes; without one, the pages keep them in the browser.
        token: the prefix of every path.
        port: where it will listen.
    """

    async def page(request: Request) -> Response:
        path = request.path_params["path"]
        name = f"{path}{HTML}" if path == "" or path.endswith("/") else path
        found = files.get(name)
        if found is None:
            raise HTTPException(404)
        return Response(found, headers={"content-type": TYPES[Path(name).suffix]})

    workers = Workers(threads=1, at_work=1, waiting=MOST_QUESTIONS)

    async def plan(request: Request) -> Response:
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        if kind != "application/json":
            raise ValueError("body: expected JSON, with the content type application/json")
        question = await request.body()
        async with workers.place():
            said = await workers.run(lambda: ask(question.decode("utf-8")))
        return Response(said, media_type="application/json")

    async def read(request: Request) -> Response:
        place = _place(notes, request)
        text = place.read_bytes() if place.is_file() else b""
        return Response(text, media_type="text/markdown")

    async def write(request: Request) -> Response:
        place = _place(notes, request)
        body = await request.body()
        await asyncio.to_thread(_replace, place, body)
        return Response(status_code=204)

    known = {name.removesuffix(".html") for name in files}

    def _place(folder: Path | None, request: Request) -> Path:
        language, id = request.path_params["language"], request.path_params["id"]
        if folder is None or f"{language}/{id}" not in known:
            raise HTTPException(404)
        return folder / f"{id}.{language}.md"

    routes = [
        Route("/notes/{language}/{id}", read, methods=["GET"]),
        Route("/notes/{language}/{id}", write, methods=["PUT"]),
        Route("/api/plan", plan, methods=["POST"]),
        Route("/{path:path}", page),
    ]
    return Guard(Explaining(Router(routes, redirect_slashes=False)), token=token, port=port)


def _replace(place: Path, body: bytes) -> None:
    """Write a file whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name}.new")
    new.write_bytes(body)
    os.replace(new, place)


def serve_course(
    files: Mapping[str, bytes],
    notes: Path | None,
    *,
    port: int = 0,
    token: str | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the course until interrupted.

    Args:
        files: the site.
        notes: the folder of the notes, or None.
        port: 0 for any that is free.
        token: the prefix of every path; a new one if not given.
        ready: called with the address once it can be opened.

    Raises:
        AttnscopeError: the port cannot be had.
    """
    prefix = token or secrets.token_hex(16)
    with contextlib.closing(bind(port)) as listening:
        asyncio.run(_serve(files, notes, listening, (prefix, ready)))


async def _serve(
    files: Mapping[str, bytes],
    notes: Path | None,
    listening: socket.socket,
    about: tuple[str, Callable[[str], None]],
) -> None:
    import uvicorn

    token, ready = about
    port = listening.getsockname()[1]
    app = make_course_app(files, notes, token=token, port=port)
    config = uvicorn.Config(
        app,
        http="h11", ws="none", lifespan="off", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, timeout_graceful_shutdown=SECONDS_TO_END,
    )  # fmt: skip
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    server = uvicorn.Server(config)
    server.capture_signals = lambda: ending(server)  # type: ignore[method-assign]
    telling = asyncio.ensure_future(tell(server, f"http://{HOST}:{port}/{token}/", ready))
    try:
        await server.serve(sockets=[listening])
    finally:
        telling.cancel()
