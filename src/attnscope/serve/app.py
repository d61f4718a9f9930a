"""The server's routes: the page, questions about traces, and captures.

The idea: thin. What is asked is answered by answers.py in the threads of work.py; here a question
waits for its turn, its pieces go out one by one, and everything stops when the client has gone.

    GET  /                              the page
    GET  /static/{path}                 its files
    GET  /api/traces… /api/models       see answers.py
    … /api/captures…                    see capture_routes.py

An error is a status and {"error": sentence}. Where records are on their way already, the error is a
last record: magic ATER, u16 version, u16 status, 16 bytes 0, u32 length, u32 0, the sentence.

Not here: who may ask (security.py), starting and ending (run.py).
"""

from __future__ import annotations

import asyncio
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router

from attnscope.errors import AttnscopeError
from attnscope.link import link
from attnscope.serve.answers import BYTES, Answer, Answers, Part, UnknownPathError
from attnscope.serve.capture_routes import capture_routes
from attnscope.serve.captures import Captures, OccupiedError, UnknownCaptureError
from attnscope.serve.files import STATIC, TYPES, Files
from attnscope.serve.notes import ChangedNoteError, NotesError, NotTextError
from attnscope.serve.security import (
    App,
    Guard,
    Message,
    Receive,
    Scope,
    Send,
    TooLargeError,
    refuse,
)
from attnscope.serve.store import UnknownTraceError
from attnscope.serve.work import BusyError, Workers

PAGE: Final = "page.js"
"""The module that starts the app; it is sent joined with all that it imports."""
ERROR: Final = struct.Struct("<4sHH16xII")
SEND_SECONDS: Final = 30.0
"""A client that takes nothing for so long has gone, whatever its socket says."""
_HEAVY: Final = ("column", "flow", "similar", "expected", "heads", "head", "table")
"""Questions that may take a second; one at a time, so that a thread is always free for tiles."""


def make_app(
    answers: Answers, captures: Captures, workers: Workers, *, token: str, port: int
) -> App:
    """The whole application, with its gate.

    Args:
        token: the prefix of every path.
        port: where it will listen.
    """
    files = Files(STATIC)
    # Eighty modules one by one would take a second; each is served too, for who reads them.
    script = link(STATIC / "js", [PAGE]).encode("utf-8")

    async def index(_: Request) -> Response:
        return _file(files, "index.html")

    async def static(request: Request) -> Response:
        path = request.path_params["path"]
        if path == f"js/{PAGE}":
            return Response(script, headers={"content-type": TYPES[".js"]})
        return _file(files, path)

    routes = [
        Route("/", index),
        Route("/static/{path:path}", static),
        *capture_routes(captures),
        Route("/api/{path:path}", Asking(answers, workers), methods=["GET"]),
    ]
    return Guard(Explaining(Router(routes, redirect_slashes=False)), token=token, port=port)


_STATUS: Final[dict[type[Exception], int]] = {
    UnknownPathError: 404,
    UnknownTraceError: 404,
    UnknownCaptureError: 404,
    OccupiedError: 409,
    BusyError: 429,
    ChangedNoteError: 412,
    NotTextError: 415,
    NotesError: 409,
    AttnscopeError: 422,
    ValueError: 400,
}


def explain(error: Exception) -> tuple[int, str]:
    """The status and the sentence of an error; what is a defect of ours is written to stderr."""
    if isinstance(error, HTTPException):
        return error.status_code, _WORDS.get(error.status_code, "This cannot be done.")
    if isinstance(error, BusyError):
        return 429, "Too much is asked at once; ask again in a moment."
    if isinstance(error, MemoryError):
        return 413, "There is not enough memory for this; ask for a smaller part."
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status, str(error)
    traceback.print_exception(error, file=sys.stderr)
    return 500, "This is a defect of attnscope; the terminal that it runs in says more."


_WORDS: Final = {404: "There is nothing here.", 405: "This is not done in that way."}


class Explaining:
    """Turns what a route raises into a status and a sentence."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        scope["app"] = self  # so that the router raises where nothing fits, rather than answers
        try:
            await self._app(scope, receive, watched)
        except (TooLargeError, ClientDisconnect):
            raise
        except Exception as error:
            if begun:
                raise
            await refuse(send, *explain(error))


def _file(files: Files, name: str) -> Response:
    found = files.read(name)
    if found is None:
        raise HTTPException(404)
    return Response(found[0], headers={"content-type": found[1]})


class _LeftError(Exception):
    """The client has gone."""


class Asking:
    """The endpoint of all questions about traces."""

    def __init__(self, answers: Answers, workers: Workers) -> None:
        self._answers, self._workers = answers, workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, until it is done or the client has gone."""
        answering = asyncio.ensure_future(self._answer(scope, send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done() and not answering.done():
                leaving.result()  # a body that is too large says so here
                return
            await answering
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _answer(self, scope: Scope, send: Send) -> None:
        path = "/" + scope["path_params"]["path"]
        query = scope["query_string"].decode("latin-1")
        gone = False

        def check() -> None:
            if gone:
                raise _LeftError

        async with self._workers.place(heavy=path.rpartition("/")[2] in _HEAVY):
            try:
                answer = await self._workers.run(
                    lambda: self._answers.ask(path, query, check=check)
                )
                parts = iter(answer.parts)
                first = await self._next(parts)
                await _start(answer, send)
                await self._pass_on(answer, first, parts, send)
            finally:
                gone = True  # whatever a thread still computes ends at its next check

    async def _pass_on(
        self, answer: Answer, piece: bytes | None, parts: Iterator[Part], send: Send
    ) -> None:
        """Send the pieces; an error on the way is the last of them."""
        try:
            while piece is not None:
                await _send(send, piece, more=True)
                piece = await self._next(parts)
        except (OSError, TimeoutError):
            raise  # of the sending: nobody takes it
        except Exception as error:
            status, sentence = explain(error)
            if answer.media != BYTES:
                raise ConnectionAbortedError from None  # half a file must not look whole
            said = sentence.encode()
            await _send(send, ERROR.pack(b"ATER", 1, status, len(said), 0) + said, more=True)
        await _send(send, b"", more=False)

    async def _next(self, parts: Iterator[Part]) -> bytes | None:
        """The next piece, computed in a thread; None after the last."""

        def work() -> bytes | None:
            part: Callable[[], bytes] | None = next(parts, None)
            return None if part is None else part()

        return await self._workers.run(work)


async def _gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(answer: Answer, send: Send) -> None:
    headers = [(b"content-type", answer.media.encode())]
    if answer.file is not None:
        headers.append((b"content-disposition", f'attachment; filename="{answer.file}"'.encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send(send: Send, body: bytes, *, more: bool) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": more})
