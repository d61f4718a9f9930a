"""What the commands that serve pages share: their options, and what they say once they listen.

Not here: what is served (serve.py, lessons.py), and how (attnscope.serve).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from attnscope.serve.store import Store

MOST_PORT = 65535

Port = Annotated[int, typer.Option(help="The port to listen on; 0 takes any that is free.")]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Only print the address; open no browser.")]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Offer this model for captures too.", show_default=False),
]


def check_port(port: int) -> None:
    """Raises typer.BadParameter where there is no such port."""
    if not 0 <= port <= MOST_PORT:
        raise typer.BadParameter(f"--port: expected 0 to {MOST_PORT}, got {port}")


def open_texts(store: Store, traces: Sequence[Path], folder: Path) -> None:
    """Open the traces that were named, or those of the folder; says which of these are left out.

    Raises:
        TraceError: one that was named is no trace, or a broken one.
    """
    from attnscope.serve.run import open_all, open_saved

    if traces:
        open_all(store, traces)
        return
    for said in open_saved(store, folder):
        typer.echo(f"Left out: {said}", err=True)


def announce(*, browse: bool) -> Callable[[str], None]:
    """What to do with the address: print it, and open it where there is a browser."""

    def ready(address: str) -> None:
        typer.echo(address)
        typer.echo("Ctrl-C ends it.", err=True)
        sys.stdout.flush()
        if browse and has_screen():
            import webbrowser

            webbrowser.open(address)

    return ready


def has_screen() -> bool:
    """Whether a browser could show a window here."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
