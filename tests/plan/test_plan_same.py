"""The same question by the command and by the page: every number of one stands in the other.

The command's JSON is walked leaf by leaf, and each number (and each formula) is looked up on the
page by a rule for its place; a place without a rule fails, so a number that the command learns to
say must come to the page too. And every option of the command is asked.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from test_plan_read import RAW

from attnscope.cli.main import run
from attnscope.cli.plan import app
from attnscope.plan.find import CONFIGS, built_in_names
from attnscope.plan.page import Question, ask

Path_ = tuple[Any, ...]


def page(**question: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(json.dumps(question)))
    assert found["error"] is None, found["error"]
    return found


def leaves(value: Any, at: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(one, (*at, key))
    else:
        yield at, value


class Shown:
    """One model of the page's answer, its numbers by where the command's JSON has them."""

    def __init__(self, answer: dict[str, Any], at: int) -> None:
        self.answer, self.model = answer, answer["models"][at]
        self.at = at
        self.layers = {number: group for group in self.model["groups"]
                       for number in group["numbers"]}  # fmt: skip
        self.flops = {one["what"]: one["number"] for one in self.model["flops"]}
        self.engines = {one["engine"]: one for one in self.model["engines"]}

    def find(self, at: Path_, said: dict[str, Any]) -> Any:
        """What the page shows for a leaf of the command's JSON; KeyError where there is no rule."""
        model = self.model
        match at:
            case ("schema",):
                return said["schema"]
            case ("model", "name" | "architecture" | "layers" | "width" | "vocabulary"
                  | "context_limit" as name):  # fmt: skip
                return model[name]
            case ("model", "source"):
                return model["source"]
            case ("context" | "batch" as name,):
                return self.answer["asked"][name]
            case ("dtype" | "kv_dtype" as name,):
                return model[name]
            case ("kv", name):
                short = {"total_bytes": "total", "sequence_bytes": "sequence",
                         "per_token_bytes_within_window": "within"}  # fmt: skip
                return model["cache"][short.get(name, name.removesuffix("_bytes"))]["value"]
            case ("formats", number, name):
                row = model["formats"][number]
                if name == "format":
                    return row["format"]
                if name == "note":
                    return row["total"]["note"]
                return row[name.removesuffix("_bytes")]["value"]
            case ("layers", number, name):
                if name == "index":
                    return number
                group = self.layers[number]
                if name in ("kind", "window"):
                    return group[name]
                return group[name.removesuffix("_bytes")]["value"] if name != WITHIN else SAME
            case ("flops", "decode_variant"):
                return SAME  # in words: "absorbed" in the names of the inputs
            case ("flops", name):
                return self.flops[name]["value"] if name in self.flops else 0
            case ("engines", name):
                return self.engines[name]["total"]["value"]
            case ("engine_details", number, *rest):
                return self._engine(model["engines"][number], rest)
            case ("what_if", number, name):
                return self._scheme(number, name)
            case ("weights",):  # not known
                return model["weights"]
            case ("weights", name):
                return self._weights(name)
            case ("notes" | "assumed" as name, number):
                return model[name][number]
            case ("fit", name):
                return self._fit(name, said)
            case ("device", name):
                return self._device(name)
            case ("explain", number, name):
                return self._explain(said["explain"], number, name)
            case ("explain_flops", number, name):
                return self._cost(said["explain_flops"][number], name)
        raise KeyError(at)

    def _engine(self, engine: dict[str, Any], rest: list[Any]) -> Any:
        match rest:
            case ["engine" | "version" as name]:
                return engine[name]
            case ["size"]:
                return engine["total"] and engine["total"]["value"]
            case ["formula"]:
                return engine["total"]["formula"] if engine["total"] else engine["reason"]
            case ["parts", number, 0]:
                return engine["total"]["inputs"][number]["name"]
            case ["parts", number, 1]:
                return whole(engine["total"]["inputs"][number]["value"])
        raise KeyError(rest)

    def _scheme(self, number: int, name: str) -> Any:
        if number == len(self.model["schemes"]):  # the second model, whose own first row it is
            row = self.answer["models"][1]["schemes"][0]
            row = {**row, "scheme": self.answer["models"][1]["name"]}
        else:
            row = self.model["schemes"][number]
        return row["scheme"] if name == "scheme" else row[name.removesuffix("_bytes")]["value"]

    def _weights(self, name: str) -> Any:
        weights = self.model["weights"]
        inputs = {one["name"]: whole(one["value"]) for one in weights["inputs"]}
        if name == "size":
            return weights["value"]
        if name == "source":
            return weights["formula"]
        active = inputs.get("of these a token uses", inputs.get("parameters"))
        return {"parameters": inputs.get("parameters"), "active": active}[name]

    def _fit(self, name: str, said: dict[str, Any]) -> Any:
        fit = self.model["fit"]
        inputs = {one["name"]: one["value"] for one in fit["inputs"]}
        match name:
            case "tokens":
                return fit["value"]
            case "budget":
                return whole(inputs["room"])
            case "weights":
                return whole(inputs["weights"])
            case "batch":
                return self.answer["asked"]["batch"]
            case "bytes_used":
                return fit["used"]
            case "limit" | "usable":
                return fit[name]
        raise KeyError(name)

    def _device(self, name: str) -> Any:
        device = self.model["device"]
        match name:
            case "name":
                return self.answer["asked"]["device"]
            case "memory":
                return next(one["memory"]["value"] for one in self.model["devices"]
                            if one["device"] == self.answer["asked"]["device"])  # fmt: skip
            case "sheet":
                return device["peak"]["source"]
            case "bandwidth" | "peak" | "ridge":
                return device[name]["value"]
            case "decode_bound":
                return device["bound"]
            case "decode_cache_read_s":
                return device["reads"]["value"]
        raise KeyError(name)

    def _explain(self, lines: list[dict[str, Any]], number: int, name: str) -> Any:
        line = lines[number]
        group = next(one for one in self.model["groups"]
                     if (one["layers"], one["kind"]) == (line["layers"], line["kind"]))  # fmt: skip
        if name in ("layers", "kind", "count"):
            return group[name]
        if line["store"] == "nothing":
            assert group["per_token"]["inputs"] == []
            return SAME if name != "formula" else group["per_token"]["note"]
        stores = [one["store"] for one in lines
                  if (one["layers"], one["kind"]) == (line["layers"], line["kind"])]  # fmt: skip
        entry = group["per_token"]["inputs"][stores.index(line["store"])]
        if name == "bytes_per_entry":
            found = re.search(r" = ([\d,]+) B", entry["value"])
            assert found is not None
            return whole(found[1])
        return {"store": entry["name"], "formula": entry["value"], "source": entry["source"]}[name]

    def _cost(self, line: dict[str, Any], name: str) -> Any:
        wanted = f"layers {line['layers']}: {line['kind']}, {line['what']}"
        value = next(one["value"] for number in self.flops.values() for one in number["inputs"]
                     if one["name"] == wanted)  # fmt: skip
        formula, _, flops = value.rpartition(" = ")
        return {"formula": formula, "flops": whole(flops)}.get(name, line[name])


WITHIN = "per_token_bytes_within_window"
SAME = object()
"""A leaf that is no number of its own on the page."""


def whole(text: str) -> int | float:
    """A number as it is written: `1,234 B`."""
    digits = text.split(" ")[0].replace(",", "")
    return float(digits) if "." in digits else int(digits)


def check(said: dict[str, Any], answer: dict[str, Any]) -> int:
    """Compare every leaf; how many numbers there were."""
    numbers = 0
    for at, one in enumerate([said, *([said["versus"]] if "versus" in said else [])]):
        shown = Shown(answer, at)
        for place, value in leaves({k: v for k, v in one.items() if k != "versus"}):
            if place[-1:] == ("source",) and place[0] == "model":
                continue  # a file there, a pasted text here
            found = shown.find(place, one)
            if found is SAME:
                continue
            if isinstance(found, str) and isinstance(value, int):
                found = int(found)  # above 2^53
            if isinstance(value, float) and isinstance(found, float):
                assert found == pytest.approx(value, rel=1e-12), place
            else:
                assert found == value, place
            numbers += isinstance(value, int | float) and not isinstance(value, bool)
    return numbers


CASES: dict[str, dict[str, Any]] = {
    "context": {"context": 5000},
    "batch": {"batch": 3},
    "dtype": {"dtype": "fp32"},
    "kv_dtype": {"kv_dtype": "int8"},
    "fit": {"room": "h200"},
    "fit bytes": {"room": "1.5TiB"},
    "weights": {"weights": "54GB", "room": "h100"},
    "no weights": {"weights": "0", "room": "24GB"},
    "device": {"device": "mi300x"},
    "device beside room": {"device": "a100", "room": "80GiB", "dtype": "bf16"},
    "heads": {"heads": "2,3,16"},
    "window": {"window": 777, "share": "1/4"},
    "share": {"share": "3/4", "window": 2048},
    "versus": {"versus": {"name": "deepseek-v3.2"}},
    "everything": {
        "versus": {"name": "gemma-3-27b"}, "context": 100_000, "batch": 2, "dtype": "fp16",
        "kv_dtype": "fp8", "room": "b200", "weights": "20GiB", "device": "l40s", "heads": "4,8",
        "window": 4096, "share": "1/3",
    },
}  # fmt: skip
MODELS = ("qwen3.8-27b", "gemma-3-27b", "deepseek-v3.2", "llama-3-8b", "deepseek-v4.1-flash",
          "mistral-7b-v0.1", "gpt-oss-20b")  # fmt: skip


def by_command(answer: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The JSON of the line that the page shows."""
    words = shlex.split(answer["command"])
    assert words[:2] == ["attnscope", "plan"]
    assert run([*words[1:], "--explain", "--json"]) == 0, capsys.readouterr().err
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("case", CASES)
def test_every_number_of_the_command_is_the_pages(
    name: str, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    question = {"room": "", **CASES[case]}
    answer = page(model={"name": name}, **question)
    unknown = answer["models"][0]["weights_unknown"]
    if unknown and question["room"]:
        # The command refuses to fit what it cannot weigh; the page leaves that part out of both.
        assert answer["models"][0]["fit"] is None
    said = by_command(answer, capsys)
    asked = answer["asked"]
    assert ("device" in said) == (asked["device"] is not None)
    assert ("fit" in said) == (bool(asked["room"]) and not unknown)
    assert check(said, answer) > 150


@pytest.mark.parametrize("name", RAW)
def test_a_pasted_config_is_the_file_of_that_name(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _ = RAW[name]
    file = "it's mine.json"
    (tmp_path / file).write_text(json.dumps(config), "utf-8")
    monkeypatch.chdir(tmp_path)
    answer = page(model={"name": file, "config": json.dumps(config)}, context=3000, weights="1GB",
                  room="80GiB", kv_dtype="int4")  # fmt: skip
    assert check(by_command(answer, capsys), answer) > 60


@pytest.mark.parametrize("name", built_in_names())
def test_the_plain_question_is_the_same_of_every_model(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = page(model={"name": name})
    assert answer["command"] == f"attnscope plan {name}"
    text = (CONFIGS / f"{name}.json").read_text("utf-8")
    pasted = page(model={"name": name, "config": text})
    said = by_command(answer, capsys)
    assert check(said, answer) == check(said, pasted)


def test_an_unknown_architecture_is_assumed_by_both(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"model_type": "new", "hidden_size": 64, "num_hidden_layers": 3,
              "num_attention_heads": 4}  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(config), "utf-8")
    monkeypatch.chdir(tmp_path)
    answer = page(model={"name": "c.json", "config": json.dumps(config)}, assume_full=True)
    assert answer["command"].endswith("--assume-full")
    assert check(by_command(answer, capsys), answer) > 50


FIELD = {
    "--context": "context", "--batch": "batch", "--dtype": "dtype", "--kv-dtype": "kv_dtype",
    "--fit": "room", "--weights": "weights", "--device": "device", "--heads": "heads",
    "--window": "window", "--share": "share", "--versus": "versus", "--assume-full": "assume_full",
}  # fmt: skip
OWN = {
    "--explain": "a click on a number",
    "--plot": "the page's plot",
    "--json": "the answer that the page draws",
}
"""Options that are no question: what the page has in their place."""


def test_every_option_of_the_command_is_a_field_of_the_page() -> None:
    command = typer.main.get_command(app)
    options = {name for one in command.params for name in one.opts if name.startswith("--")}
    assert options == {*FIELD, *OWN}
    assert {*FIELD.values(), "model"} == set(Question.__dataclass_fields__)
    asked = {key for case in CASES.values() for key in case} | {"assume_full", "model"}
    assert asked == set(Question.__dataclass_fields__)


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (lambda said: said["kv"].update(total_bytes=1), "kv"),
        (lambda said: said["layers"][3].update(fixed_bytes=7), "layers"),
        (lambda said: said["flops"].update(prefill=1), "flops"),
        (lambda said: said["formats"][2].update(per_token_bytes=1), "formats"),
        (lambda said: said["engine_details"][1]["parts"][0].__setitem__(1, 5), "engine_details"),
        (lambda said: said["fit"].update(bytes_used=1), "fit"),
        (lambda said: said["device"].update(ridge=1.0), "device"),
        (lambda said: said["explain"][0].update(bytes_per_entry=1), "explain"),
        (lambda said: said["explain_flops"][0].update(flops=1), "explain_flops"),
        (lambda said: said["weights"].update(size=1), "weights"),
        (lambda said: said["what_if"][1].update(total_bytes=1), "what_if"),
        (lambda said: said["versus"]["kv"].update(fixed_bytes=1), "versus"),
    ],
)
def test_a_number_that_differs_is_noticed(
    damage: Any, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = page(model={"name": "qwen3.8-27b"}, **CASES["everything"])
    said = by_command(answer, capsys)
    check(said, answer)
    damage(said)
    with pytest.raises(AssertionError, match="kv" if place == "versus" else place):
        check(said, answer)


def test_a_number_without_a_place_on_the_page_is_noticed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = page(model={"name": "smollm2"})
    said = by_command(answer, capsys)
    with pytest.raises(KeyError):
        check({**said, "energy": {"joules": 3}}, answer)
