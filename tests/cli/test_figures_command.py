"""`attnscope figures`: the contract of its JSON, what a person reads, a sentence for mistakes."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from attnscope.cli.quick import plain
from attnscope.lessons import figures

FIELDS = {
    "id": str, "value": (int, float, list), "unit": str, "kind": str, "formula": str,
    "inputs": dict, "source": str, "text": dict, "title": dict, "note": dict,
}  # fmt: skip
"""What ARCHITECTURE promises, and what it is called and what has to be said with it."""

Run = Callable[..., Any]


def said(run: Run, *arguments: str) -> list[dict[str, Any]]:
    """The figures in the JSON of a command."""
    shown = run("figures", *arguments, "--json")
    assert (shown.code, shown.err) == (0, "")
    found = json.loads(shown.out)
    assert list(found) == ["schema", "figures"]
    assert found["schema"] == "attnscope.figures/1"
    return list(found["figures"])


def test_json_contract(run: Run) -> None:
    found = said(run)
    assert [one["id"] for one in found] == list(figures.ids())
    for one in found:
        assert list(one) == list(FIELDS)
        for name, kind in FIELDS.items():
            assert isinstance(one[name], kind), (one["id"], name)
        assert one["kind"] in ("computed", "measured", "reported")
        assert set(one["text"]) == {"zh", "en"}
        for given in one["inputs"].values():
            assert set(given) == {"value", "source"}
    by_id = {one["id"]: one for one in found}
    assert by_id["kv.qwen38.gqa.per_token"]["value"] == 65_536
    assert by_id["kv.qwen38.gqa.per_token"]["inputs"]["heads"] == {
        "value": 4, "source": "Qwen/Qwen3.8-27B config.json: num_key_value_heads",
    }  # fmt: skip
    assert by_id["softmax.gap.20"]["text"]["zh"] == "4.9 亿"
    assert by_id["world.qk.order"]["value"] == ["苹果", "小王", "小明", "把", "给了"]


def test_kinds_part_the_figures(run: Run) -> None:
    parts = [said(run, "--kind", kind) for kind in figures.KINDS]
    assert all(parts)
    for kind, part in zip(figures.KINDS, parts, strict=True):
        assert {one["kind"] for one in part} == {kind}
    assert sorted(one["id"] for part in parts for one in part) == sorted(figures.ids())


def test_ids_and_beginnings_of_ids(run: Run) -> None:
    found = said(run, "rnn.updates", "kv.qwen38", "kv.qwen38.gqa.total", "state")
    ids = [one["id"] for one in found]
    assert ids[0] == "rnn.updates"
    assert len(ids) == len(set(ids)) == 1 + 6 + 3
    assert [one["id"] for one in said(run, "softmax.8_7_9")] == ["softmax.8_7_9"]
    assert [one["id"] for one in said(run, "softmax", "--kind", "reported")] == [
        "softmax.8_7_9.claimed"
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_holds_every_figure_in_80_columns(
    run: Run, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("figures", "--lang", language)
    assert (shown.code, shown.err) == (0, "")
    assert "\x1b" not in shown.out
    assert max(cell_len(line) for line in shown.out.splitlines()) <= 80
    assert [line for line in shown.out.splitlines() if line != line.rstrip()] == []
    for topic in figures.TOPICS.values():
        assert topic[language == "zh"] in shown.out
    for one in figures.all():
        assert re.search(rf"(^|\s){re.escape(one.id)}  ", shown.out), one.id
    assert "64 KiB" in shown.out
    assert str(len(figures.ids())) in shown.out.splitlines()[-1] + shown.out.splitlines()[-2]
    assert ("计算" in shown.out) == (language == "zh")


def test_a_named_figure_comes_with_what_is_behind_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = run("figures", "kv.glm53.total").out
    for words in (
        "87.75 GiB", "94,220,845,056 B", "layers × (latent + rope) × bytes × context",
        "context = 1,048,576", "zai-org/GLM-5.3 config.json: kv_lora_rank", "attnscope.plan",
        "5.25 GiB", "93.00 GiB", "computed",
    ):  # fmt: skip
        assert words in shown, words
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
    chinese = run("figures", "kv.glm53.total", "world.sink.row", "--lang", "zh").out
    for words in ("87.75 GiB", "公式", "indexer 的键还要 5.25 GiB", "30% / 41% / 29%", "苹果"):
        assert words in chinese, words


def test_the_command_speaks_the_language_asked(run: Run) -> None:
    found = {}
    for language in figures.LANGUAGES:
        shown = run("figures", "world.causal.apple", "prefix", "--json", "--lang", language)
        assert (shown.code, shown.err) == (0, "")
        found[language] = json.loads(shown.out)["figures"]
    for zh, en in zip(found["zh"], found["en"], strict=True):
        assert list(zh) == list(en)
        assert zh["inputs"].keys() == en["inputs"].keys()
        for name in ("id", "value", "kind", "text", "title", "note"):
            assert zh[name] == en[name]
    assert found["en"][0]["formula"].endswith("over the keys up to row, at key")
    assert found["zh"][0]["formula"].endswith("，只看 row 及它之前的 key，取落在 key 上的那一个")
    assert "手工写成，不是模型学出来的" in found["zh"][0]["source"]
    terminal = run("figures", "prefix.forwards", "--lang", "zh").out
    assert "5 次前向" in terminal
    assert "数出来的" in terminal
    assert "counted" not in terminal


def test_nothing_of_a_kind_says_so(run: Run) -> None:
    assert "No figure is of this kind" in run("figures", "rnn", "--kind", "reported").out
    assert "没有" in run("figures", "rnn", "--kind", "reported", "--lang", "zh").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["kv.qwen38.gqa.per_tokn"], "Did you mean kv.qwen38.gqa.per_token"),
        (["nothing"], "There is no figure 'nothing'"),
        (["kv."], "There is no figure 'kv.'"),
        (["--kind", "guessed"], "--kind must be one of computed, measured, reported"),
        (["--lang", "fr"], "--lang must be one of zh, en"),
        (["--colour"], "No such option"),
    ],
)
def test_mistakes_are_a_sentence(run: Run, arguments: list[str], words: str) -> None:
    shown = run("figures", *arguments)
    assert shown.code == 2
    assert words in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


HEAVY = ("torch", "numpy", "transformers", "numba", "pydantic")


def imported(*arguments: str) -> list[str]:
    """What of HEAVY a fresh process has imported after the command."""
    code = (
        "import sys\nfrom attnscope.cli.main import run\n"
        f"assert run(['figures', *{arguments!r}]) == 0\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stderr.replace("'", '"'))
    return found


def test_a_figure_of_a_config_imports_nothing_heavy() -> None:
    assert imported("kv.qwen38.gqa.per_token") == []
    assert imported("kv.dsv41flash.per_token", "state.qwen38.bytes", "--json") == []


def test_all_figures_come_without_torch() -> None:
    assert imported() == ["numpy"]


def test_starts_in_a_blink(tmp_path: Path) -> None:
    """Processor time, start of Python and compiled bytecode included, as for the planner."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    spent = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "attnscope", "figures", "kv.qwen38.gqa.per_token", "--json"],
            capture_output=True, env=env, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.3, spent


@pytest.mark.parametrize(
    ("annotation", "kind", "many"),
    [
        (str, str, False), (int | None, int, False), (Path, Path, False), (list[str], str, True),
        (list[int] | None, int, True),
    ],
)  # fmt: skip
def test_plain_types_are_converted_quickly(annotation: Any, kind: type, many: bool) -> None:
    found = plain(annotation)
    assert found is not None
    assert (found.kind, found.many) == (kind, many)


@pytest.mark.parametrize("annotation", [float, int | str, dict[str, int], tuple[str, ...], None])
def test_other_types_are_left_to_typer(annotation: Any) -> None:
    assert plain(annotation) is None


def test_lists_are_converted_one_by_one() -> None:
    import typer

    many = plain(list[int])
    assert many is not None
    assert many.coerce(("1", 2), param=None, ctx=None) == [1, 2]
    assert many.coerce((), param=None, ctx=None) == []
    assert many.coerce(None, param=None, ctx=None) is None
    with pytest.raises(typer.BadParameter, match="'x' is not a whole number"):
        many.coerce(("1", "x"), param=None, ctx=None)
