"""`attnscope lessons`: open the course in the browser, or write it as a site that needs no server.

Not here: the course (attnscope.lessons), its server (attnscope.serve.course).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

MOST_PORT = 65535
WORKING = "Computing the course's numbers and drawing its pages; this takes some 10 to 20 s ..."


def lessons(
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            help="Write the course into this folder, as pages that open from disk, offline.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    notes: Annotated[
        Path | None,
        typer.Option(
            "--notes",
            help="Keep the reader's notes in this folder, one Markdown file a lesson "
            "(default: in the browser).",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes any that is free.")] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Only print the address; open no browser.")
    ] = False,
) -> None:
    """The course on attention, in Chinese and English, every number computed.

    The pages are made when the command is called, from the content and the code that is installed.
    """
    if not 0 <= port <= MOST_PORT:
        raise typer.BadParameter(f"--port: expected 0 to {MOST_PORT}, got {port}")
    if export is not None and notes is not None:
        raise typer.BadParameter(
            "--notes: an exported page keeps notes in the browser; leave out one of the two"
        )
    from attnscope.lessons import site

    if export is not None:
        written = site.export(export, begin=lambda: typer.echo(WORKING, err=True))
        typer.echo(f"{len(written)} files; open {export / 'index.html'}")
        return
    from attnscope.cli.serve import has_screen
    from attnscope.serve.course import serve_course

    def ready(address: str) -> None:
        typer.echo(address)
        typer.echo("Ctrl-C ends it.", err=True)
        sys.stdout.flush()
        if not no_open and has_screen():
            import webbrowser

            webbrowser.open(address)

    typer.echo(WORKING, err=True)
    serve_course(site.build(notes=notes is not None, served=True), notes, port=port, ready=ready)
