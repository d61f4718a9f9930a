"""What texts name is there: modules, what is in them, commands with their options.

Read are the docs, the lessons in both languages, the words of the pages, and the sources that
figures and the planner's numbers give. A lesson must not promise what only a plan has.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_surface import build

from attnscope import lessons, serve
from attnscope.lessons import figures
from attnscope.plan.page import ask

ROOT = Path(__file__).parents[1]
CONTENT = Path(lessons.__file__).parent
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(CONTENT.glob("content/*/*.md")),
    CONTENT / "site/words.py",
    *sorted((Path(serve.__file__).parent / "static/js/text").rglob("*.js")),
]
NAME = re.compile(r"(?<![\w/.-])attnscope(?:\.[A-Za-z_]\w*)+(?::[\w.]+)?(?![\w/])")
COMMAND = re.compile(r"`(attnscope [^`\n]+)`")
NO_NAMES = {
    "attnscope.mechanisms.NAME": "a place for a name",
}
"""What looks like a name and is none; each with what it is."""


def resolve(name: str) -> bool:
    """Whether there is such a module, or such a thing in one."""
    words = name.replace(":", ".").split(".")
    for length in range(len(words), 0, -1):
        try:
            found: object = importlib.import_module(".".join(words[:length]))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("attnscope"):
                raise
            continue
        for word in words[length:]:
            if not hasattr(found, word):
                return False
            found = getattr(found, word)
        return True
    return False


def names(text: str) -> Iterator[str]:
    for found in NAME.findall(text):
        if found not in NO_NAMES and not re.search(r"\.(?:md|html|js|py|json)$", found):
            yield found


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", TEXTS, ids=short)
def test_every_name_is_there(path: Path) -> None:
    # What a :::code or :::walk shows, the course itself looks up when it is made.
    text = re.sub(r"^:::(?:code|walk) .*$", "", path.read_text("utf-8"), flags=re.MULTILINE)
    assert [name for name in names(text) if not resolve(name)] == []


def missing(line: str) -> str:
    """What of a command's line does not exist; nothing where all of it does."""
    flags: dict[str, list[str]] = build.flags()
    try:
        words = shlex.split(line.replace("…", " "))
    except ValueError:
        return "no line of a shell"
    known = {part for flag in flags["attnscope"] for part in flag.split("|")} | {"-h", "--help"}
    if words[1].startswith("-"):
        return "" if words[1] in known else words[1]
    command = f"attnscope {words[1]}"
    if not any(one == command or one.startswith(f"{command} ") for one in flags):
        return command
    if f"{command} {' '.join(words[2:3])}" in flags:
        command = f"{command} {words[2]}"
    options = {part for flag in flags.get(command, []) for part in flag.split("|")}
    used = {word.split("=")[0] for word in words[2:] if re.match(r"--?[a-zA-Z]", word)}
    return " ".join(sorted(used - options - {"-h", "--help"}))


@pytest.mark.parametrize("path", TEXTS, ids=short)
def test_every_command_is_there(path: Path) -> None:
    said = COMMAND.findall(path.read_text("utf-8"))
    assert {line: gone for line in said if (gone := missing(line))} == {}


def test_sources_of_numbers_are_there() -> None:
    said = {text for one in figures.entries() for text in (one.source, one.formula)}
    said.add(ask(json.dumps({"model": {"name": "qwen3.8-27b"}, "room": "h100", "batch": 2})))
    found = {name for text in said for name in names(text)}
    assert len(found) > 4
    assert [name for name in sorted(found) if not resolve(name)] == []
    files = {
        one for text in said for one in re.findall(r"\b(?:lessons|plan|tests)/[\w/]+\.\w+", text)
    }
    assert files
    package = CONTENT.parent
    assert [
        one for one in files if not (package / one).is_file() and not (ROOT / one).is_file()
    ] == []


def test_what_is_not_there_is_noticed() -> None:
    assert not resolve("attnscope.monitor")
    assert not resolve("attnscope.mechanisms.qk_clip:QKClip.nothing")
    assert resolve("attnscope.mechanisms.qk_clip:QKClip.step")
    assert missing("attnscope watch") == "attnscope watch"
    assert missing("attnscope plan smollm2 --energy") == "--energy"
    assert missing("attnscope -x") == "-x"
    assert missing("attnscope models pull smollm2") == missing("attnscope look … --open") == ""
    assert list(names("see attnscope.plan.fit, docs/attnscope.plan.md")) == ["attnscope.plan.fit"]
