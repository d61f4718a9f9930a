"""Writes what the docs and the frozen tests take from the program itself: run by `make docs`.

    docs/cli.md                  the help page of every command
    docs/figures.md              every figure of the course
    tests/golden/surface.json    the public surface: flags, names, trace fields, JSON fields
    README.md                    the block between the marks, as the first command prints it

The tests build the same and compare, so none of it can say what is no longer true.

Not here: the tables of model families, each of which has a script of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
CLI: Final = ROOT / "docs" / "cli.md"
FIGURES: Final = ROOT / "docs" / "figures.md"
SURFACE: Final = ROOT / "tests" / "golden" / "surface.json"
README: Final = ROOT / "README.md"
TEXT: Final = "Xiao Ming gave the apple to Xiao Wang. Who has the apple now? The apple is with"
BEGIN: Final = "<!-- printed by the command above: make docs -->\n```text\n"
END: Final = "```\n<!-- end -->"
PACKAGES: Final = (
    "attnscope",
    "attnscope.core",
    "attnscope.decoder",
    "attnscope.trace",
    "attnscope.plan",
    "attnscope.lessons.figures",
    "attnscope.testing",
)
PRINTED: Final[dict[str, tuple[str, ...]]] = {
    "plan": ("plan", "smollm2"),
    "models": ("models", "list"),
    "figures": ("figures", "dot_product.bytes"),
}
"""Commands that are quick enough to be run for the fields of their JSON."""
WIDTH: Final = "80"


def attnscope(*arguments: str) -> str:
    """What a command prints on a plain terminal of 80 columns.

    Raises:
        RuntimeError: the command failed; the message holds what it said.
    """
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-m", "attnscope", *arguments],
        capture_output=True,
        env=environment,
        check=False,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"attnscope {arguments}: {done.stderr.decode()[-2000:]}")
    return done.stdout.decode("utf-8")


def commands() -> list[tuple[str, ...]]:
    """Every command line that has a help page: the root, each command, and their subcommands."""
    from attnscope.cli.main import COMMANDS

    found: list[tuple[str, ...]] = [()]
    for name in COMMANDS:
        found.append((name,))
        found += [(name, inner) for inner in sorted(_subcommands(name))]
    return found


def _command(name: str) -> Any:
    from attnscope.cli.main import COMMANDS, LazyCommand

    return LazyCommand(name, COMMANDS[name]).load()


def _subcommands(name: str) -> dict[str, Any]:
    return dict(getattr(_command(name), "commands", {}))


def cli_page() -> str:
    """docs/cli.md."""
    parts = ["# The command line\n\nMade from the help pages by `make docs`.\n"]
    for words in commands():
        title = " ".join(("attnscope", *words))
        page = "\n".join(line.rstrip() for line in attnscope(*words, "-h").splitlines())
        parts.append(f"## `{title}`\n\n```text\n{page.strip()}\n```\n")
    return "\n".join(parts)


def figures_page() -> str:
    """docs/figures.md."""
    from attnscope.lessons import figures

    parts = [
        "# Figures\n\nEvery number of the course, as `attnscope figures` prints it; made by "
        "`make docs`. `attnscope figures ID` shows one with its inputs and its source. What is "
        "measured was measured when this page was made.\n"
    ]
    every = figures.all()
    for topic, (english, chinese, _) in figures.TOPICS.items():
        rows = [one for one in every if figures.topic_of(one.id) == topic]
        parts.append(f"## {english}\n\n{chinese}\n")
        parts.append(
            "| id | number | what it is | 这是什么 | kind | formula |\n|---|---|---|---|---|---|"
        )
        parts += [_figure_row(one) for one in rows]
        notes = [one for one in rows if one.note["en"]]
        parts += ["", *(f"- `{one.id}`: {one.note['en']} {one.note['zh']}" for one in notes), ""]
    return re.sub("\n{3,}", "\n\n", "\n".join(parts)).strip("\n") + "\n"


def _figure_row(one: Any) -> str:
    text = "; ".join(dict.fromkeys((one.text["en"], one.text["zh"])))
    formula = "; ".join(dict.fromkeys((f"`{one.formula}`", f"`{one.told('zh').formula}`")))
    cells = (f"`{one.id}`", text, one.title["en"], one.title["zh"], one.kind, formula)
    return f"| {' | '.join(cells)} |"


def flags() -> dict[str, list[str]]:
    """Every argument and option of every command."""
    from typer.main import get_command

    from attnscope.cli.main import app

    found = {"attnscope": _parameters(get_command(app))}
    for words in commands()[1:]:
        command = _command(words[0])
        if len(words) == 2:
            command = command.commands[words[1]]
        found[" ".join(("attnscope", *words))] = _parameters(command)
    return found


def _parameters(command: Any) -> list[str]:
    said = []
    for parameter in command.params:
        names = [*parameter.opts, *parameter.secondary_opts]
        option = parameter.param_type_name == "option"
        said.append("|".join(names) if option else f"<{parameter.name}>")
    return sorted(said)


def names() -> dict[str, list[str]]:
    """What each public package exports."""
    return {package: sorted(importlib.import_module(package).__all__) for package in PACKAGES}


def trace_fields() -> dict[str, Any]:
    """The fields of trace.json and the arrays of a layer's file."""
    from attnscope.trace import Header, LayerInfo, ModelInfo, Token, format

    fields: dict[str, Any] = {
        kind.__name__: [field.name for field in dataclasses.fields(kind)]
        for kind in (Header, ModelInfo, LayerInfo, Token)
    }
    fields["version"] = format.VERSION
    fields["arrays"] = {name: spec.axes for name, spec in format.ARRAYS.items()}
    return fields


def shape(value: Any) -> Any:
    """The skeleton of a JSON value: an object's fields, a list's entries as one, a leaf as "value".

    >>> shape({"a": [{"b": 1}, {"c": None}], "d": True, "e": []})
    {'a': [{'b': 'value', 'c': 'value'}], 'd': 'value', 'e': []}
    """
    if isinstance(value, dict):
        return {key: shape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        entries = [shape(entry) for entry in value]
        objects = [entry for entry in entries if isinstance(entry, dict)]
        if objects:
            return [{key: part for entry in objects for key, part in entry.items()}]
        return entries[:1]
    return "value"


def json_fields() -> dict[str, Any]:
    """What each command prints with --json, as skeletons."""
    from attnscope.cli import generate, generation, report

    token = report.TokenLine(0, 1, "a", 0, 1)
    head = report.HeadLine(0, 0, "mixed", dict.fromkeys(report.HEAD_VALUES, 0.0))
    layer = report.LayerLine(0, "full", 1, 1)
    look = report.Report(
        model=dict.fromkeys(report.MODEL_FACTS, 0),
        tokens=[token], layers=[layer], heads=[head], labels=["'a'"],
        next=[report.NextToken(1, "'b'", 0.5)],
        chosen=report.Chosen(0, 0, 0, None), attended=[report.Attended(0, 0, 1.0, 1.0)],
        timing=dict.fromkeys(report.TIMES, 0.0), peak_bytes=1,
    )  # fmt: skip
    made = {"text": "a", "tokens": [dataclasses.asdict(token)]}
    generated = generation.Generated(
        model=dict.fromkeys(report.MODEL_FACTS, 0), prompt=made, generated=made, ended="length",
        sampling=dict.fromkeys(("temperature", "top_k", "top_p", "seed"), 1),
        timing=dict.fromkeys(generation.TIMES, 0.0), peak=1,
    )  # fmt: skip
    printed = {name: json.loads(attnscope(*words, "--json")) for name, words in PRINTED.items()}
    return {
        "look": shape(report.to_json(look)),
        "generate": shape(generate.to_json(generated)),
        **{n: shape(v) for n, v in printed.items()},
    }


def surface() -> dict[str, Any]:
    """All that other people's programs may rest on."""
    return {
        "flags": flags(),
        "names": names(),
        "trace": trace_fields(),
        "json": json_fields(),
    }


def readme() -> str:
    """README.md with its block printed anew."""
    printed = attnscope("look", TEXT)
    text = README.read_text(encoding="utf-8")  # after the run, which leaves time for an edit
    found = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), text, re.DOTALL)
    if found is None:
        raise RuntimeError("README.md: the marks around the printed block are gone")
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    return text[: found.start(1)] + lines.strip("\n") + "\n" + text[found.end(1) :]


def main() -> None:
    """Write all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-model", action="store_true", help="leave README.md as it is")
    arguments = parser.parse_args()
    CLI.write_text(cli_page(), encoding="utf-8")
    FIGURES.write_text(figures_page(), encoding="utf-8")
    SURFACE.parent.mkdir(exist_ok=True)
    SURFACE.write_text(json.dumps(surface(), indent=1) + "\n", encoding="utf-8")
    if not arguments.no_model:
        README.write_text(readme(), encoding="utf-8")


if __name__ == "__main__":
    main()
