"""The register of figures: what each declares, that its formula gives its value, and what it costs.

Values are compared with somebody else's arithmetic in test_figures_values.py; here a figure is held
against itself: its formula, evaluated on its own inputs, is a second way to its value.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnscope.lessons import figures
from attnscope.lessons.figures import Figure, registry
from attnscope.lessons.figures.prose import literals

SOURCE = Path(figures.__file__).parents[2]
FILES = sorted(path.stem for path in Path(figures.__file__).parent.glob("*.py"))

FUNCTIONS = {
    "exp": np.exp, "sqrt": np.sqrt, "ln": np.log, "cos": np.cos, "sum": np.sum, "max": np.max,
    "min": np.min,
}  # fmt: skip

IN_WORDS = {
    "world.embedding.cosines", "world.embedding.self", "world.embedding.order", "world.qk.scores",
    "world.qk.order", "world.names.keys", "world.names.values", "world.unmasked.row",
    "world.unmasked.answer", "world.causal.row", "world.causal.apple", "world.causal.giver",
    "world.heads.a", "world.heads.a.row", "world.heads.b", "world.heads.b.row",
    "world.shared.a", "world.shared.b", "world.sink.scores", "world.sink.row", "world.sink.keys",
    "cache.bits.rows", "cache.bits.product", "stable.run.most",
    *(f"variance.{what}.{d}" for what in ("std", "scaled", "var", "gap") for d in (4, 64, 256)),
}  # fmt: skip
"""Figures whose formula speaks of vectors of the world or of draws; no arithmetic of numbers."""


@pytest.fixture(scope="module")
def every() -> dict[str, Figure]:
    return {one.id: one for one in figures.all()}


def evaluated(formula: str, inputs: Mapping[str, Any]) -> Any:
    """What a formula gives on its inputs.

    Raises:
        SyntaxError: it is no arithmetic.
        KeyError: it names something that is no input.
    """
    tree = ast.parse(formula.replace("×", "*").replace("^", "**"), mode="eval")

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name):
                found = inputs[name]
                return np.array(found) if isinstance(found, tuple) else found
            case ast.Tuple(elts=parts):
                return np.array([value(part) for part in parts])
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -value(inner)
            case ast.Call(func=ast.Name(id=name), args=[inner]):
                return FUNCTIONS[name](value(inner))
            case ast.BinOp(left=left, op=op, right=right):
                a, b = value(left), value(right)
                if isinstance(op, ast.Pow):
                    return float(a) ** b if b < 0 else a**b
                return {
                    ast.Add: lambda: a + b, ast.Sub: lambda: a - b, ast.Mult: lambda: a * b,
                    ast.Div: lambda: a / b,
                }[type(op)]()  # fmt: skip
        raise SyntaxError(f"no arithmetic: {ast.dump(node)}")

    with np.errstate(under="ignore"):
        return value(tree.body)


def test_a_field_of_a_config_is_reported_and_what_follows_from_it_computed(
    every: dict[str, Figure],
) -> None:
    """The makers say how many heads there are; that the cache takes so many bytes, we do."""
    fields = set()
    for one in every.values():
        [*inputs] = one.inputs.items()
        alone = len(inputs) == 1 and one.formula == inputs[0][0]
        if one.source.startswith("config of") and alone and one.value == inputs[0][1].value:
            fields.add(one.id)
            assert one.kind == "reported", one.id
        elif one.inputs:
            assert one.kind != "reported", one.id
    assert {"shape.qwen38.heads", "shape.gemma270m.window", "rope.qwen38.theta"} <= fields
    assert every["shape.qwen38.full_layers"].kind == "computed"
    assert every["shape.qwen38.rotated"].kind == "computed"


def test_every_formula_gives_the_value(every: dict[str, Figure]) -> None:
    in_words = set()
    for one in every.values():
        if one.kind == "reported" and not one.inputs:
            assert one.formula in ("as reported", "as chosen"), one.id
            continue
        try:
            found = evaluated(one.formula, {name: i.value for name, i in one.inputs.items()})
        except (SyntaxError, KeyError):
            in_words.add(one.id)
            continue
        # Two orders of the same few float64 operations.
        np.testing.assert_allclose(
            np.array(found, dtype=np.float64), np.array(one.value, dtype=np.float64), rtol=1e-13,
            err_msg=one.id,
        )  # fmt: skip
    assert in_words == IN_WORDS


def test_a_wrong_formula_or_value_would_be_caught(every: dict[str, Figure]) -> None:
    one = every["kv.qwen38.gqa.per_token"]
    inputs = {name: i.value for name, i in one.inputs.items()}
    assert evaluated(one.formula, inputs) == one.value
    assert evaluated(one.formula.replace("× 2", "× 3"), inputs) != one.value
    assert evaluated(one.formula, inputs | {"heads": 3}) != one.value
    with pytest.raises(KeyError, match="experts"):
        evaluated(one.formula + " × experts", inputs)
    with pytest.raises(SyntaxError):
        evaluated("q · k", {})


def test_formulas_name_their_inputs(every: dict[str, Figure]) -> None:
    silent = {
        (one.id, name)
        for one in every.values()
        for name in one.inputs
        if one.kind == "computed" and not re.search(rf"(?<![A-Za-z]){name}\b", one.formula)
    }
    # At which length FLOPs were counted does not change their coefficient.
    assert silent == {
        (f"flops.qwen306b.{what}", "T") for what in ("prefill", "prefill.causal", "decode")
    }


def test_every_figure_is_whole(every: dict[str, Figure]) -> None:
    assert len(every) == len(figures.ids()) >= 140
    for id, one in every.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z0-9_-]+)+", id), id
        assert one.kind in figures.KINDS
        assert one.formula
        assert one.source
        assert set(one.text) == set(one.title) == set(one.note) == {"zh", "en"}
        assert all(one.text.values())
        assert all(one.title.values())
        assert bool(one.note["zh"]) == bool(one.note["en"])
        assert not re.search(r"[一-鿿]", one.note["en"] + one.formula)
        assert re.search(r"[一-鿿]", one.title["zh"]), id
        assert "{" not in "".join([*one.text.values(), *one.note.values(), *one.title.values()])
        assert all(i.source for i in one.inputs.values())
        json.dumps(one.to_json(), allow_nan=False)
        if one.kind == "computed":
            assert one.inputs, f"{id}: computed from nothing"


def test_chinese_is_punctuated_as_chinese() -> None:
    """Full-width commas, colons and brackets; a half-width one only inside a number (1,024)."""
    half = re.compile(r"(?<!\d)[,:;?!()]|[,:;?!()](?!\d)")
    assert half.search("Qwen3.8-27B,MHA")
    assert not half.search("共 1,024 个")
    texts = {f"topic {name}": chinese for name, (_, chinese, _) in figures.TOPICS.items()}
    for one in figures.entries():
        texts[f"{one.id}, title"] = one.title["zh"]
        texts[f"{one.id}, note"] = registry.REFERENCE.sub("X", one.note["zh"])
    assert not {name: text for name, text in texts.items() if half.search(text)}


def test_titles_tell_figures_apart(every: dict[str, Figure]) -> None:
    for language in figures.LANGUAGES:
        titles = [one.title[language] for one in every.values()]
        assert {t for t in titles if titles.count(t) > 1} == set()
        relative = [t for t in titles if re.match(r"(The same|Of the|同上|其中)", t)]
        assert relative == []


def test_ids_that_others_rest_on_are_there() -> None:
    named = [
        "rnn.steps", "rnn.updates", "additive.bytes", "dot_product.bytes", "softmax.8_7_9",
        "proportional.10_3_-4", "variance.std.256", "world.unmasked.answer",
        "world.causal.apple", "world.heads.a", "world.heads.b", "cache.without",
        "cache.recomputed", "cache.with", "kv.qwen38.mha.per_token", "kv.qwen38.mha.total",
        "kv.qwen38.mqa.per_token", "kv.qwen38.gqa.per_token", "kv.qwen38.gqa.total",
        "kv.ds67b.gqa.per_token", "kv.ds67b.gqa.total", "kv.dsv2.per_token",
        "kv.dsv3.per_token", "kv.glm53.per_token", "kv.glm53.total", "state.qwen38.bytes",
        "kv.dsv41flash.per_token", "gqa.paper.mha", "gqa.paper.mqa", "gqa.paper.gqa8",
        "world.sink.row",
    ]  # fmt: skip
    assert set(named) - set(figures.ids()) == set()


def abouts(source: str) -> list[dict[str, Any]]:
    """The words of each `About(...)` of a mechanism's file, those that are literals."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "About":
            said = {}
            for word in node.keywords:
                with contextlib.suppress(ValueError):
                    said[str(word.arg)] = ast.literal_eval(word.value)
            found.append(said)
    return found


@pytest.fixture(scope="module")
def catalogue() -> list[dict[str, Any]]:
    files = sorted((SOURCE / "mechanisms").glob("*.py"))
    found = [one for path in files for one in abouts(path.read_text(encoding="utf-8"))]
    assert len(found) >= 9
    return found


def test_the_catalogue_of_mechanisms_names_figures_that_exist(
    catalogue: list[dict[str, Any]],
) -> None:
    named = {id for one in catalogue for id in one.get("figures", ())}
    assert named
    assert named - set(figures.ids()) == set()
    assert abouts('A = About(name="x", figures=("a.b",))') == [{"name": "x", "figures": ("a.b",)}]


def unregistered(sentence: str) -> set[tuple[str, str]]:
    """The numbers with a unit in a sentence that no figure prints; 100 % is a definition."""
    printed = {
        (x.value, x.unit)
        for one in figures.all()
        for text in one.text.values()
        for x in literals(text)
    }
    said = {(x.value, x.unit): (x.spelled, x.unit) for x in literals(sentence) if x.unit}
    return {shown for key, shown in said.items() if key not in printed} - {("100", "%")}


def test_bytes_and_percentages_of_the_catalogue_are_figures(
    catalogue: list[dict[str, Any]],
) -> None:
    wrong = {
        one["name"]: found
        for one in catalogue
        if (found := unregistered(" ".join((one["solved"], one["stuck"], one["keeps"]))))
    }
    assert wrong == {}
    assert unregistered("96 GiB, 89.5 % and 100 % of 97 GiB") == {("97", "GiB")}


def test_an_unknown_id_is_an_error_with_a_hint() -> None:
    with pytest.raises(ValueError, match=r"Did you mean kv\.qwen38\.gqa\.per_token"):
        figures.get("kv.qwen38.gqa.per_tokn")
    with pytest.raises(ValueError, match="`attnscope figures` lists them"):
        figures.get("zzz")


def test_a_figure_is_computed_when_asked_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ENTRIES", {})
    calls = []

    @registry.figure(
        "test.twice", en="twice", zh="两倍", formula="x × 2", source="here", show="{:.1f}",
        inputs={"x": lambda: calls.append("input") or registry.given(3, "chosen")},
    )  # fmt: skip
    def twice(x: int) -> int:
        calls.append("value")
        return x * 2

    entry = registry.ENTRIES["test.twice"]
    assert calls == []
    assert (entry.value, entry.text["en"]) == (6, "6.0")
    assert entry.value == 6
    assert calls == ["input", "value"]
    assert twice(4) == 8  # the function is still a function


def test_an_id_is_registered_once_and_a_note_in_both_languages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "ENTRIES", {})
    about = {"en": "a", "zh": "甲", "source": "here"}
    registry.reported("test.once", 1, **about)
    with pytest.raises(ValueError, match=r"'test\.once' is registered twice"):
        registry.reported("test.once", 2, **about)
    with pytest.raises(ValueError, match=r"'test\.note': a note needs both languages"):
        registry.reported("test.note", 2, note="only here", **about)


def test_stores_that_are_not_there_are_refused() -> None:
    from attnscope.lessons.figures.configs import kept, model

    with pytest.raises(ValueError, match="keeps keys, values; asked for"):
        kept(model("deepseek-67b"), "latent")


def test_entries_of_a_topic_stand_together() -> None:
    topics = [figures.topic_of(id) for id in figures.ids()]
    seen = [topic for at, topic in enumerate(topics) if at == 0 or topics[at - 1] != topic]
    assert seen == list(figures.TOPICS)


@pytest.mark.parametrize("name", FILES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(f"attnscope.lessons.figures.{name}")
    assert module.__doc__
    assert "Not here:" in module.__doc__
    assert doctest.testmod(module).failed == 0


def imported(code: str) -> set[str]:
    """What is imported after some code has run in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_a_config_figure_needs_the_standard_library_alone() -> None:
    code = "from attnscope.lessons import figures; figures.get('kv.qwen38.gqa.per_token')"
    assert imported(code) & {"torch", "numpy", "transformers", "rich"} == set()


def test_all_figures_do_without_torch() -> None:
    found = imported("from attnscope.lessons import figures; figures.all()")
    assert "numpy" in found
    assert found & {"torch", "transformers", "numba"} == set()
