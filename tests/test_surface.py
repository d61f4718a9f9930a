"""The public surface is frozen: a flag, a name, a field that comes or goes is named here.

A change on purpose is made by `make docs`, and told to users in CHANGELOG.md.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = _load()


def changes(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """What was removed, added or changed between two JSON values, each by its place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() - after.keys():
            yield f"{where}/{key}: removed"
        for key in after.keys() - before.keys():
            yield f"{where}/{key}: added"
        for key in before.keys() & after.keys():
            yield from changes(before[key], after[key], f"{where}/{key}")
    elif isinstance(before, list) and isinstance(after, list):
        yield from (f"{where}: {entry} removed" for entry in before if entry not in after)
        yield from (f"{where}: {entry} added" for entry in after if entry not in before)
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"


@pytest.fixture(scope="module")
def frozen() -> Any:
    return json.loads(build.SURFACE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("part", ["flags", "names", "trace", "json"])
def test_nothing_came_or_went(frozen: Any, part: str) -> None:
    made = {"trace": build.trace_fields, "json": build.json_fields}.get(part) or getattr(
        build, part
    )
    now = json.loads(json.dumps(made()))
    assert sorted(changes(frozen[part], now)) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a": ["--x"]}, {"a": ["--y"]}, ["/a: --x removed", "/a: --y added"]),
        ({"a": 1}, {"b": 1}, ["/a: removed", "/b: added"]),
        ({"a": {"b": "[H, T]"}}, {"a": {"b": "[T]"}}, ["/a/b: '[H, T]' became '[T]'"]),
    ],
)
def test_a_change_is_named(before: Any, after: Any, said: list[str]) -> None:
    assert sorted(changes(before, after)) == said


def test_cli_page_is_what_the_help_pages_say() -> None:
    assert build.CLI.read_text(encoding="utf-8") == build.cli_page(), "run: make docs"


def test_every_command_has_a_help_page_with_its_options() -> None:
    page = build.CLI.read_text(encoding="utf-8")
    for command, found in build.flags().items():
        assert f"## `{command}`" in page
        section = page.split(f"## `{command}`\n")[1].split("\n## ")[0]
        for flag in found:
            if not flag.startswith("<"):
                for name in flag.split("|"):
                    assert name in section, f"{command} does not explain {name}"


CONTRACT = {
    "model": {"name", "architecture", "layers", "query_heads", "kv_heads", "head_width"},
    "tokens": {"index", "id", "text", "start", "end"},
    "heads": {
        "layer", "head", "kind", "entropy", "max_weight", "max_logit", "sink_mass", "self_mass",
        "previous_mass", "mean_distance", "jacobian_norm",
    },
    "attended": {"query", "key", "weight", "arrived"},
    "timing": {"load_s", "forward_s"},
    "memory": {"peak_bytes"},
}  # fmt: skip
"""What ARCHITECTURE promises of `attnscope look --json`, written down apart from the code."""


def test_look_keeps_the_contract(frozen: Any) -> None:
    look = frozen["json"]["look"]
    for name, fields in CONTRACT.items():
        value = look[name][0] if isinstance(look[name], list) else look[name]
        assert set(value) == fields, name
    assert set(look) == {*CONTRACT, "schema", "layers", "next", "chosen"}


@pytest.mark.parametrize("command", ["look", "generate", "plan", "models"])
def test_every_json_names_its_schema(frozen: Any, command: str) -> None:
    assert next(iter(frozen["json"][command])) == "schema"
