"""`attnscope serve`: open saved traces in the app, in the browser.

Not here: the server (attnscope.serve), the page (attnscope/serve/static).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnscope.cli.serving import Models, NoOpen, Port, announce, check_port, open_texts

if TYPE_CHECKING:
    from attnscope.serve.run import Settings
    from attnscope.serve.store import Store


def serve(
    traces: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Saved traces; without one, those that were captured in the app before.",
            metavar="TRACE",
            show_default=False,
        ),
    ] = None,
    port: Port = 0,
    no_open: NoOpen = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--traces",
            help="Save what is captured in the app in this folder (default: the user's cache).",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    model: Models = None,
) -> None:
    """Open the app: an overview of the heads, a map that zooms, the flow into one token.

    Listens on this machine alone. The address holds a secret; whoever has it can read the traces.
    """
    check_port(port)
    # Two threads make tiles, each with products of its own; BLAS threads of theirs would fight.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attnscope.serve.run import Settings, traces_folder
    from attnscope.serve.store import Store

    settings = Settings(folder or traces_folder(), port=port, models=tuple(model or ()))
    store = Store()
    open_texts(store, traces or (), settings.folder)
    show(store, settings, browse=not no_open)


def show(store: Store, settings: Settings, *, browse: bool) -> None:
    """Serve until interrupted; prints the address, and opens it where there is a browser."""
    from attnscope.serve.run import serve as run

    run(store, settings, ready=announce(browse=browse))
