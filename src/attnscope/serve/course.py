"""The course on this machine: its pages behind the gate, the reader's own texts, notes in files.

The idea: the site is a table from path to bytes (attnscope.lessons.site), so a request only picks a
name. Notes are the one thing that is written (notes.py), for lessons that there are and no others.
Widgets run on captured texts too: the questions and captures are those of the app.

    GET /{path}                   a page, a script, a style
    GET /notes/{language}/{id}    the notes as text, with an ETag; PUT replaces them (If-Match)
    POST /api/plan                a question to the planner (attnscope.plan.page), in JSON
    GET  /api/traces… /api/models   see answers.py; widgets ask for heads by /api/traces/{id}/head
    … /api/captures…              see capture_routes.py

Not here: the pages (lessons/site), the app's server (app.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from attnscope.plan.page import ask
from attnscope.serve import notes as notes_of
from attnscope.serve.answers import Answers
from attnscope.serve.app import Asking, Explaining
from attnscope.serve.capture_routes import capture_routes
from attnscope.serve.captures import Captures
from attnscope.serve.files import TYPES
from attnscope.serve.models import models
from attnscope.serve.run import HOST, SECONDS_TO_END, bind, ending, tell
from attnscope.serve.security import App, Guard
from attnscope.serve.store import Store
from attnscope.serve.work import Workers

HTML: Final = "index.html"
MOST_QUESTIONS: Final = 16
"""Questions to the planner that wait; a page has one at a time."""


@dataclass(frozen=True)
class Texts:
    """The reader's captured texts.

    Attributes:
        store: those that are open.
        folder: where new ones are saved.
        models: models beside the known ones that a text may be captured with.
    """

    store: Store
    folder: Path
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """What is served.

    Attributes:
        files: the pages, by path.
        notes: the folder of the notes; without one, the pages keep them in the browser.
        texts: what widgets may open.
    """

    files: Mapping[str, bytes]
    notes: Path | None
    texts: Texts


def make_course_app(
    site: Site, captures: Captures, workers: Workers, *, token: str, port: int
) -> App:
    """The course as an application, with its gate.

    Args:
        site: what is served.
        captures: of the site's texts.
        workers: the threads that answer.
        token: the prefix of every path.
        port: where it will listen.
    """

    files, folder, texts = site.files, site.notes, site.texts

    async def page(request: Request) -> Response:
        path = request.path_params["path"]
        name = f"{path}{HTML}" if path == "" or path.endswith("/") else path
        found = files.get(name)
        if found is None:
            raise HTTPException(404)
        return Response(found, headers={"content-type": TYPES[Path(name).suffix]})

    planner = Workers(threads=1, at_work=1, waiting=MOST_QUESTIONS)

    async def plan(request: Request) -> Response:
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        if kind != "application/json":
            raise ValueError("body: expected JSON, with the content type application/json")
        question = await request.body()
        async with planner.place():
            said = await planner.run(lambda: ask(question.decode("utf-8")))
        return Response(said, media_type="application/json")

    async def read(request: Request) -> Response:
        return _answer(await asyncio.to_thread(notes_of.read, _place(folder, request)))

    async def write(request: Request) -> Response:
        place, known = _place(folder, request), request.headers.get("if-match")
        body, mark = await request.body(), known and known.strip('"')
        note = await asyncio.to_thread(notes_of.write, place, body, known=mark)
        return Response(status_code=204, headers={"etag": f'"{note.mark}"'})

    known = {name.removesuffix(".html") for name in files}

    def _place(folder: Path | None, request: Request) -> Path:
        language, id = request.path_params["language"], request.path_params["id"]
        if folder is None or f"{language}/{id}" not in known:
            raise HTTPException(404)
        return folder / f"{id}.{language}.md"

    answers = Answers(texts.store, lambda: models(texts.models))
    routes = [
        Route("/notes/{language}/{id}", read, methods=["GET"]),
        Route("/notes/{language}/{id}", write, methods=["PUT"]),
        Route("/api/plan", plan, methods=["POST"]),
        *capture_routes(captures),
        Route("/api/{path:path}", Asking(answers, workers), methods=["GET"]),
        Route("/{path:path}", page),
    ]
    return Guard(Explaining(Router(routes, redirect_slashes=False)), token=token, port=port)


def _answer(note: notes_of.Note) -> Response:
    return Response(note.text, media_type="text/markdown", headers={"etag": f'"{note.mark}"'})


def serve_course(
    site: Site,
    *,
    port: int = 0,
    token: str | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the course until interrupted.

    Args:
        site: what is served.
        port: 0 for any that is free.
        token: the prefix of every path; a new one if not given.
        ready: called with the address once it can be opened.

    Raises:
        AttnscopeError: the port cannot be had.
    """
    prefix = token or secrets.token_hex(16)
    with contextlib.closing(bind(port)) as listening:
        asyncio.run(_serve(site, listening, (prefix, ready)))


async def _serve(
    site: Site, listening: socket.socket, about: tuple[str, Callable[[str], None]]
) -> None:
    import uvicorn

    token, ready = about
    port = listening.getsockname()[1]
    texts = site.texts
    captures = Captures(texts.store, texts.folder, lambda: models(texts.models))
    workers = Workers()
    app = make_course_app(site, captures, workers, token=token, port=port)
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
        await captures.close()
        workers.close()
        texts.store.close()
