"""`attnscope models`: which models there are, fetching one, and where one is.

Not here: how they are fetched and read (attnscope.capture).
"""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from attnscope.cli.console import write_json

SCHEMA = "attnscope.models/1"
LINE_SECONDS = 2.0
"""Where stderr is not a terminal, a line of progress comes at most this often."""
MEGA = 1e6

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="List, fetch and find models.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="smollm2, gemma3, or a model of the hub: org/name.", show_default=False
    ),
]


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """List the models that go by a short name, with their licences."""
    from attnscope.capture.models import listing

    models = listing()
    if as_json:
        write_json({"schema": SCHEMA, "models": models})
        return
    for model in models:
        state = model["folder"] or f"not here; attnscope models pull {model['name']}"
        typer.echo(f"{model['name']:<10}{model['title']}, {model['size'] / MEGA:.0f} MB to fetch")
        typer.echo(f"{'':<10}disk: {_disk(model['needed'], model['kept'])}")
        typer.echo(f"{'':<10}licence: {model['licence']} ({model['terms']})")
        typer.echo(f"{'':<10}{state}")
    typer.echo("A folder with safetensors, a .gguf file or a hub id (org/name) works the same way.")


@app.command("pull")
def pull_model(name: Name, as_json: Json = False) -> None:
    """Fetch a model once, and print its folder.

    Its licence and its size are said before anything is fetched. The path of a model that lies on
    this machine already is accepted too, and fetches nothing.
    """
    from attnscope.capture.models import offer, pull, resolve

    offered = offer(name)
    if offered is None:
        folder, fetched = resolve(name, progress=Progress()).folder, False
    else:
        _announce(name, offered)
        with Progress() as progress:
            folder, fetched = pull(name, progress=progress), True
    if as_json:
        write_json({"schema": SCHEMA, "name": name, "folder": str(folder), "fetched": fetched})
    else:
        typer.echo(str(folder))


@app.command("path")
def path_of(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A short name, a folder, a .gguf file or a hub id.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:  # fmt: skip
    """Print the folder that a model is loaded from; fetch nothing."""
    from attnscope.capture.models import path

    folder = str(path(name))
    if as_json:
        write_json({"schema": SCHEMA, "name": name, "folder": folder})
    else:
        typer.echo(folder)


def _announce(name: str, offered: Any) -> None:
    """Say whose licence a model has and how large it is, before anything is fetched."""
    disk = "" if offered.needed is None else f" On disk: {_disk(offered.needed, offered.kept)}."
    typer.echo(
        f"{name}: licence {offered.licence} ({offered.terms}); {offered.size / MEGA:.0f} MB to "
        f"fetch.{disk} By fetching it you take it under that licence.",
        err=True,
    )


def _disk(needed: int, kept: int | None) -> str:
    """How much disk a model takes while it is converted and afterwards.

    >>> _disk(885_261_888, 538_060_032)
    'up to 885 MB while it is converted, about 538 MB afterwards'
    """
    after = "" if kept is None else f", about {kept / MEGA:,.0f} MB afterwards"
    return f"up to {needed / MEGA:,.0f} MB while it is converted{after}"


class Progress:
    """A bar on a terminal, a line now and then elsewhere; always on stderr."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.task: Any = None
        self.what = self.line = ""
        self.said = 0.0

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self.bar = Bar(console=Console(stderr=True), transient=True)
            self.bar.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say how far it is; `total` is 0 when nobody knows."""
        if self.bar is not None:
            if what != self.what:
                self.task = self.bar.add_task(what, total=total or None)
            self.bar.update(self.task, completed=done)
        elif what != self.what or time.monotonic() - self.said > LINE_SECONDS:
            line = what + (f" {done / total:.0%}" if total else "")
            if line != self.line:
                typer.echo(line, err=True)
            self.line, self.said = line, time.monotonic()
        self.what = what
