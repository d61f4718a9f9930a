"""`attnscope serve`: open saved traces in the app, in the browser.

Not here: the server (attnscope.serve), the page (attnscope/serve/static).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from attnscope.serve.run import Settings
    from attnscope.serve.store import Store

MOST_PORT = 65535


def serve(
    traces: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Saved traces; without one, those that were captured in the app before.",
            metavar="TRACE",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes any that is free.")] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Only print the address; open no browser.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--traces",
            help="Save what is captured in the app in this folder (default: the user's cache).",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="Offer this model for captures too.", show_default=False
        ),
    ] = None,
) -> None:
    """Open the app: an overview of the heads, a map that zooms, the flow into one token.

    Listens on this machine alone. The address holds a secret; whoever has it can read the traces.
    """
    if not 0 <= port <= MOST_PORT:
        raise typer.BadParameter(f"--port: expected 0 to {MOST_PORT}, got {port}")
    # Two threads make tiles, each with products of its own; BLAS threads of theirs would fight.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attnscope.serve.run import Settings, open_all, open_saved, traces_folder
    from attnscope.serve.store import Store

    settings = Settings(folder or traces_folder(), port=port, models=tuple(model or ()))
    store = Store()
    if traces:
        open_all(store, traces)
    else:
        for said in open_saved(store, settings.folder):
            typer.echo(f"Left out: {said}", err=True)
    show(store, settings, browse=not no_open)


def show(store: Store, settings: Settings, *, browse: bool) -> None:
    """Serve until interrupted; prints the address, and opens it where there is a browser."""
    from attnscope.serve.run import serve as run

    def ready(address: str) -> None:
        typer.echo(address)
        typer.echo("Ctrl-C ends it.", err=True)
        sys.stdout.flush()
        if browse and has_screen():
            import webbrowser

            webbrowser.open(address)

    run(store, settings, ready=ready)


def has_screen() -> bool:
    """Whether a browser could show a window here."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
