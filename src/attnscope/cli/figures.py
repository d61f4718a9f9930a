"""`attnscope figures`: every number of the course, with its formula, inputs and source.

The idea: all figures as a table by topic; those that are named, each with all that stands behind
it. A figure is computed when it is asked for, so a config's number comes without numpy or torch.

Not here: the figures (attnscope.lessons.figures), how they look (figures_table.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from attnscope.cli.console import write_json
from attnscope.cli.quick import QuickCommand

if TYPE_CHECKING:
    from attnscope.lessons.figures import Entry

SCHEMA: Final = "attnscope.figures/1"

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID",
        help="Figures to show with all that stands behind them: an id, or the beginning of some, "
        "as kv.qwen38.",
        show_default=False,
    ),
]
KindOption = Annotated[
    str | None,
    typer.Option("--kind", help="Only these: computed, measured or reported.", show_default=False),
]
Language = Annotated[str, typer.Option("--lang", help="zh or en.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("figures", cls=QuickCommand, context_settings={"help_option_names": ["-h", "--help"]})
def figures(
    ids: Ids = None, kind: KindOption = None, lang: Language = "en", as_json: AsJson = False
) -> None:
    """Every number of the course: what it is, how it is computed, and from what.

    A figure is computed (from a model's config or the teaching world), measured (by an experiment
    with a seed, run now) or reported (by a paper, cited).
    """
    from attnscope.lessons.figures import KINDS, LANGUAGES, get

    if kind is not None and kind not in KINDS:
        raise typer.BadParameter(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    if lang not in LANGUAGES:
        raise typer.BadParameter(f"--lang must be one of {', '.join(LANGUAGES)}, got {lang!r}.")
    entries = [one for one in _named(ids or []) if kind in (None, one.kind)]
    found = [get(one.id) for one in entries]
    if as_json:
        write_json({"schema": SCHEMA, "figures": [one.told(lang).to_json() for one in found]})
        return
    from attnscope.cli.figures_table import show_each, show_table

    if ids:
        show_each(found, lang)
    else:
        show_table(found, lang)


def _named(names: list[str]) -> list[Entry]:
    """The figures of these ids and beginnings of ids, each once; all of them for no name."""
    from attnscope.lessons.figures import entries, entry

    if not names:
        return list(entries())
    found: dict[str, Entry] = {}
    for name in names:
        try:
            chosen = [entry(name)]
        except ValueError as error:
            chosen = [one for one in entries() if one.id.startswith(f"{name}.")]
            if not chosen:
                raise typer.BadParameter(str(error)) from None
        found.update((one.id, one) for one in chosen)
    return list(found.values())
