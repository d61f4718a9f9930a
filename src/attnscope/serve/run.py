"""Starts the server, says where it is, and ends it cleanly.

The idea: the port is bound before anything else, so a busy one is a sentence and the address that
is printed is true; everything that runs is ended in the `finally` of one function.

Not here: the command's options (attnscope.cli.serve).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from attnscope.errors import AttnscopeError
from attnscope.serve.answers import Answers
from attnscope.serve.app import make_app
from attnscope.serve.captures import Captures
from attnscope.serve.models import models
from attnscope.serve.store import Store
from attnscope.serve.work import Workers

HOST: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 512
"""Open connections; a browser opens six."""
SECONDS_TO_END: Final = 2
MOST_HEADERS: Final = 96 << 10
"""Bytes of a request's line and headers; a query string may have 64 KiB."""


@dataclass(frozen=True)
class Settings:
    """How to serve.

    Attributes:
        port: 0 for any that is free.
        folder: where captures are saved.
        models: models beside the known ones that the page may capture with.
        token: the prefix of every path; a new one if not given.
    """

    folder: Path
    port: int = 0
    models: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16))


def traces_folder() -> Path:
    """Where captures are saved unless told otherwise: beside the models, in the user's cache."""
    from attnscope.capture.store import models_folder

    return models_folder().with_name("traces")


def serve(
    store: Store, settings: Settings, *, ready: Callable[[str], None] = lambda address: None
) -> None:
    """Serve until interrupted.

    Args:
        store: the open traces.
        settings: where and how.
        ready: called with the address once it can be opened.

    Raises:
        AttnscopeError: the port cannot be had.
    """
    with contextlib.closing(bind(settings.port)) as listening:
        asyncio.run(_serve(store, settings, listening, ready))


def bind(port: int) -> socket.socket:
    """A listening socket on this machine's own address alone.

    Raises:
        AttnscopeError: another program has the port, or it may not be used.
    """
    # The protocol is named, or asyncio would not see that this is TCP and leave Nagle's algorithm
    # on: an answer whose last piece is small would then wait 40 ms for the reader's delayed ACK.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":  # elsewhere it would let two servers share a port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listening.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise AttnscopeError(
                f"Port {port} is in use by another program. Choose another with --port, or leave "
                "it out and take any that is free."
            ) from None
        why = error.strerror if isinstance(error, OSError) else "there is no such port"
        raise AttnscopeError(f"Port {port} cannot be used: {why}.") from None
    return listening


async def _serve(
    store: Store, settings: Settings, listening: socket.socket, ready: Callable[[str], None]
) -> None:
    import uvicorn

    port = listening.getsockname()[1]

    def known() -> list[dict[str, object]]:
        return models(settings.models)

    captures = Captures(store, settings.folder, known)
    workers = Workers()
    app = make_app(Answers(store, known), captures, workers, token=settings.token, port=port)
    config = uvicorn.Config(
        app,
        http="h11", ws="none", lifespan="off", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=MOST_HEADERS, timeout_graceful_shutdown=SECONDS_TO_END,
    )  # fmt: skip
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # a client's bad request is its own
    server = uvicorn.Server(config)
    # Its own way raises the signal once more when it has ended, in the middle of our cleaning up.
    server.capture_signals = lambda: ending(server)  # type: ignore[method-assign]
    address = f"http://{HOST}:{port}/{settings.token}/"
    telling = asyncio.ensure_future(tell(server, address, ready))
    try:
        await server.serve(sockets=[listening])
    finally:
        telling.cancel()
        await captures.close()
        workers.close()
        store.close()


@contextlib.contextmanager
def ending(server: Any) -> Iterator[None]:
    """Let Ctrl-C and a polite kill end the server; a second one does not wait for anybody."""

    def end(*_: object) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    before = {one: signal.signal(one, end) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


async def tell(server: object, address: str, ready: Callable[[str], None]) -> None:
    while not getattr(server, "started", False):
        await asyncio.sleep(0.01)
    await asyncio.to_thread(ready, address)


def open_all(store: Store, folders: Sequence[Path]) -> None:
    """Open saved traces.

    Raises:
        TraceError: the first that is not one, or a broken one.
    """
    for folder in folders:
        store.open(folder)


def open_saved(store: Store, folder: Path) -> list[str]:
    """Open earlier captures, the newest first; returns a sentence for each that is broken."""
    said = []
    places = sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []
    for place in places:
        if place.is_dir() and not place.name.startswith("."):
            try:
                store.open(place)
            except AttnscopeError as error:
                said.append(str(error))
    return said
