"""`attnscope lessons`: open the course in the browser, or write it as a site that needs no server.

The course's widgets run on captured texts too: those that are named, or those that were captured
before, in the app or in the course.

Not here: the course (attnscope.lessons), its server (attnscope.serve.course).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from attnscope.cli.serving import Models, NoOpen, Port, announce, check_port, open_texts

WORKING = "Computing the course's numbers and drawing its pages; this takes some 10 to 20 s ..."


def lessons(
    traces: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Saved traces that widgets can run on; without one, those captured before.",
            metavar="TRACE",
            show_default=False,
        ),
    ] = None,
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
    folder: Annotated[
        Path | None,
        typer.Option(
            "--traces",
            help="Save texts captured in the course in this folder (default: the user's cache).",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    model: Models = None,
    port: Port = 0,
    no_open: NoOpen = False,
) -> None:
    """The course on attention, in Chinese and English, every number computed.

    The pages are made when the command is called, from the content and the code that is installed.
    Widgets that show a row, a head or a mask also run on your own text, typed there or captured
    before; an exported page opens what `attnscope look TEXT --handout FILE` writes.
    """
    check_port(port)
    if export is not None and notes is not None:
        raise typer.BadParameter(
            "--notes: an exported page keeps notes in the browser; leave out one of the two"
        )
    if export is not None and (traces or folder is not None or model):
        raise typer.BadParameter(
            "an exported page has no server; it opens what `attnscope look TEXT --handout FILE` "
            "writes: leave out traces, --traces and --model"
        )
    from attnscope.lessons import site

    if export is not None:
        written = site.export(export, begin=lambda: typer.echo(WORKING, err=True))
        typer.echo(f"{len(written)} files; open {export / 'index.html'}")
        return
    serve(traces or (), folder, notes, models=model or (), port=port, browse=not no_open)


def serve(
    traces: Sequence[Path],
    folder: Path | None,
    notes: Path | None,
    *,
    models: Sequence[str],
    port: int,
    browse: bool,
) -> None:
    """Serve the course until interrupted; prints the address, and opens it where a browser is."""
    from attnscope.lessons import site
    from attnscope.serve.course import Site, Texts, serve_course
    from attnscope.serve.notes import prepare
    from attnscope.serve.run import traces_folder
    from attnscope.serve.store import Store

    if notes is not None:
        prepare(notes)
    store, place = Store(), folder or traces_folder()
    open_texts(store, traces, place)
    typer.echo(WORKING, err=True)
    pages = site.build(notes=notes is not None, served=True)
    served = Site(pages, notes, Texts(store, place, tuple(models)))
    serve_course(served, port=port, ready=announce(browse=browse))
