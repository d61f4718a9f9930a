"""The planner's page asks in JSON: its numbers are the command's, and their summands add up."""

from __future__ import annotations

import json
import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscope.cli.main import run
from attnscope.plan.find import CONFIGS, built_in_names
from attnscope.plan.fit import three_digits
from attnscope.plan.page import MOST_TEXT, SAFE, ask

ROOM = "h200"
UNITS = {
    "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "MFLOP": 10**6,
    "GFLOP": 10**9, "TFLOP": 10**12, "PFLOP": 10**15, "TFLOP/s": 10**12, "GB/s": 10**9,
    "ms": 1e-3, "FLOPs/B": 1,
}  # fmt: skip
"""What stands behind a number in short, written down apart from the planner's own."""


def asked(**question: Any) -> dict[str, Any]:
    question.setdefault("model", {"name": "llama-3-8b"})
    found: dict[str, Any] = json.loads(ask(json.dumps(question)))
    return found


def answered(**question: Any) -> dict[str, Any]:
    found = asked(**question)
    assert found["error"] is None
    return found


def command(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["plan", *words, "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def check_equal(part: dict[str, Any], said: dict[str, Any]) -> None:
    """A model of the page against the report of `attnscope plan`."""
    kv = said["kv"]
    shown = {name: one["value"] for name, one in part["cache"].items()}
    assert shown["total"] == kv["total_bytes"]
    assert shown["sequence"] == kv["sequence_bytes"]
    assert shown["per_token"] == kv["per_token_bytes"]
    assert shown["within"] == kv["per_token_bytes_within_window"]
    assert (shown["capped"], shown["fixed"]) == (kv["capped_bytes"], kv["fixed_bytes"])
    rows = [(r["scheme"], r["per_token"]["value"], r["total"]["value"]) for r in part["schemes"]]
    assert rows == [
        (row["scheme"], row["per_token_bytes"], row["total_bytes"]) for row in said["what_if"]
    ]
    engines = {one["engine"]: one["total"]["value"] for one in part["engines"] if one["total"]}
    assert engines == said["engines"]
    assert [one["total"]["value"] for one in part["formats"]] == [
        one["total_bytes"] for one in said["formats"]
    ]
    for one in part["flops"]:
        assert one["number"]["value"] == said["flops"][one["what"]]
    every = sum(one["count"] * one["per_token"]["value"] for one in part["groups"])
    assert every == pytest.approx(sum(one["per_token_bytes"] for one in said["layers"]))
    if "fit" in said:
        assert part["fit"]["value"] == said["fit"]["tokens"]
        assert part["weights"]["value"] == said["weights"]["size"]


@pytest.mark.parametrize("name", built_in_names())
def test_the_page_says_what_the_command_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = command(capsys, name, "--context", "20000", "--batch", "3", "--kv-dtype", "int8",
                   "--heads", "4,8", "--device", ROOM)  # fmt: skip
    question = {"context": 20000, "batch": 3, "kv_dtype": "int8", "heads": "4,8", "room": ROOM}
    built_in = answered(model={"name": name}, **question)
    check_equal(built_in["models"][0], said)
    text = (CONFIGS / f"{name}.json").read_text("utf-8")
    pasted = answered(model={"name": name, "config": text}, **question)
    assert pasted["models"][0]["source"] == "config"
    check_equal(pasted["models"][0], said)
    if built_in["models"][0]["fit"] is not None:
        said = command(capsys, name, "--context", "20000", "--batch", "3", "--kv-dtype", "int8",
                       "--heads", "4,8", "--fit", ROOM)  # fmt: skip
        check_equal(built_in["models"][0], said)


def product(value: str) -> Fraction:
    """`3 x 1/4 x 100 B = ...`, multiplied."""
    found = Fraction(1)
    for one in value.partition(" = ")[0].removesuffix(" B").split(" x "):
        found *= Fraction(one.replace(",", ""))
    return found


@pytest.mark.parametrize("name", built_in_names())
def test_the_summands_of_a_number_add_up_to_it(name: str) -> None:
    part = answered(model={"name": name}, context=12345, batch=7)["models"][0]
    for key in ("sequence", "per_token", "within", "capped", "fixed"):
        number = part["cache"][key]
        total = sum(product(one["value"]) for one in number["inputs"])
        assert float(total) == number["value"], key
    for scheme in part["schemes"]:
        sequences, *rest = scheme["total"]["inputs"]
        total = int(sequences["value"]) * sum(product(one["value"]) for one in rest)
        assert total == scheme["total"]["value"], scheme["scheme"]
    for line in part["flops"]:
        parts = [one["value"].rpartition(" = ")[2] for one in line["number"]["inputs"]]
        if parts and not line["what"].startswith("recurrence_prefill"):
            assert sum(int(one.replace(",", "")) for one in parts) == line["number"]["value"]


def test_every_number_says_what_it_is() -> None:
    answer = answered(room=ROOM, versus={"name": "deepseek-v3.2"}, weights="16GB", batch=2)

    def numbers(value: Any) -> Any:
        if isinstance(value, dict):
            if "exact" in value:
                yield value
            for one in value.values():
                yield from numbers(one)
        if isinstance(value, list):
            for one in value:
                yield from numbers(one)

    found = list(numbers(answer))
    assert len(found) > 100
    units = set()
    for one in found:
        assert one["kind"] in ("computed", "measured", "reported", "given")
        assert one["formula"] or one["kind"] != "computed"
        assert one["source"] or one["inputs"] or one["kind"] == "given"
        digits = re.sub(r"[^0-9.]", "", one["exact"].split()[0])
        if isinstance(one["value"], int) and digits:
            assert int(digits) == one["value"]
        short, _, unit = one["text"].partition(" ")
        if unit and isinstance(one["value"], int | float):
            meant = float(short.replace(",", "")) * UNITS[unit]
            assert meant == pytest.approx(one["value"], rel=0.006), one["text"]
            units.add(unit)
    assert {"GiB", "GFLOP", "TFLOP/s", "GB/s", "ms", "B"} <= units
    kinds = {one["kind"] for one in found}
    assert kinds == {"computed", "measured", "reported", "given"}
    assert answer["models"][0]["weights"]["kind"] == "given"


def test_the_picture_draws_the_planners_own_values() -> None:
    from attnscope.plan import read

    answer = answered(model={"name": "gemma-3-27b"}, versus={"name": "llama-3-8b"},
                      context=3000, batch=2, room="h100")  # fmt: skip
    picture = answer["picture"]
    assert 3000 in picture["lengths"]
    assert 1024 in picture["lengths"]  # Gemma's window: a corner of the line
    by_label = {(one["model"], one["label"]): one["sizes"] for one in picture["lines"]}
    for at, name, label in ((0, "gemma-3-27b", "as published"), (1, "llama-3-8b", "llama-3-8b")):
        model = read(name)
        wanted = [2 * model.bytes_at(n) for n in picture["lengths"]]
        assert by_label[at, label] == wanted
    weights = [one["weights"]["value"] for one in answer["models"]]
    assert picture["rooms"] == [80 * 10**9 - one for one in weights]
    low, high = picture["bytes"][0]["power"], picture["bytes"][-1]["power"]
    sizes = [one for line in picture["lines"] for one in line["sizes"]]
    assert 2**low <= min(sizes)
    assert max(sizes) <= 2**high


def test_numbers_that_a_browser_would_round_are_text() -> None:
    answer = answered(context=10**12, batch=10**6)
    total = answer["models"][0]["cache"]["total"]
    assert total["value"] == str(131072 * 10**18)
    assert total["exact"] == f"{131072 * 10**18:,} B"
    assert all(
        isinstance(one, str) or one <= SAFE for one in answer["picture"]["lines"][0]["sizes"]
    )


@pytest.mark.parametrize(
    ("question", "field", "said"),
    [
        ({"model": {"name": "nothing"}}, "model", "There is no built-in model 'nothing'."),
        ({"model": {"name": ""}}, "model", "The model has no name."),
        ({"model": "llama-3-8b"}, "model", "The question names no model."),
        ({"model": {"name": "../llama-3-8b"}}, "model", "There is no built-in model"),
        ({"model": {"name": "c", "config": " "}}, "model", "c is empty: paste the text"),
        ({"model": {"name": "c", "config": "{'a': 1}"}}, "model",
         "c is not JSON: Expecting property name enclosed in double quotes at line 1, column 2."),
        ({"model": {"name": "c", "config": "[]"}}, "model", "c holds a list, not an object"),
        ({"model": {"name": "c", "config": 3}}, "model", "A config has at most"),
        ({"model": {"name": "c", "config": '{"a":' + "9" * 5000 + "}"}}, "model",
         "c holds a number that cannot be one: it has 5,000 digits."),
        ({"model": {"name": "c", "config": '{"model_type": "new"}'}}, "model",
         "c: model_type 'new' is not an architecture the planner knows."),
        ({"versus": {"name": "nothing"}}, "versus", "There is no built-in model 'nothing'."),
        ({"versus": "gpt"}, "versus", "versus must name a model."),
        ({"context": 0}, "context", "context must be a whole number from 1 to"),
        ({"context": 1.5}, "context", "context must be a whole number from 1 to"),
        ({"batch": True}, "batch", "batch must be a whole number from 1 to"),
        ({"kv_dtype": "int3"}, "kv_dtype", "kv_dtype must be one of fp32, bf16"),
        ({"kv_dtype": 4}, "kv_dtype", "kv_dtype must be text, got 4."),
        ({"heads": "4;8"}, "heads", "heads must be numbers such as 4,8, got '4;8'."),
        ({"heads": "0"}, "heads", "heads must be numbers such as 4,8, got '0'."),
        ({"room": "h1000"}, "room", "room must be bytes such as 141GB or 80GiB"),
        ({"weights": "heavy"}, "weights", "bytes must look like 141GB, 80GiB"),
        ({"colour": "red"}, "model", "The question has an unknown field 'colour'."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_sentence_with_its_field(
    question: dict[str, Any], field: str, said: str
) -> None:
    found = asked(**question)
    assert found["error"]["field"] == field
    assert found["error"]["sentence"].startswith(said)
    assert "models" not in found


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_a_question_that_is_none_is_a_sentence(text: str) -> None:
    assert json.loads(ask(text))["error"]["field"] == "model"


def test_a_config_that_is_too_long_is_refused() -> None:
    found = asked(model={"name": "c", "config": " " * (MOST_TEXT + 1)})
    assert (
        "A config has at most 262,144 characters here; `attnscope plan`"
        in (found["error"]["sentence"])
    )


def test_unknown_weights_leave_what_fits_open_and_say_so() -> None:
    config = json.dumps({
        "model_type": "new", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    })  # fmt: skip
    part = answered(model={"name": "c", "config": config}, assume_full=True, room=ROOM)["models"][0]
    assert part["fit"] is None
    assert part["weights"] is None
    assert "The weights of c are not known" in part["weights_unknown"]
    assert "unknown; every layer is taken as full attention" in part["assumed"][0]
    zero = answered(model={"name": "c", "config": config}, assume_full=True, room=ROOM, weights="0")
    assert zero["models"][0]["fit"]["value"] == 141 * 10**9 // (3 * 2 * 64 * 2)


def test_a_model_that_does_not_fit_says_why() -> None:
    part = answered(model={"name": "deepseek-v2"}, room="h100")["models"][0]
    assert (part["fit"]["value"], part["fit"]["why"]) == (0, "weights")
    assert {one["device"]: one["fit"]["why"] for one in part["devices"]}["b200"] == "weights"


@given(st.integers(min_value=1, max_value=10**30), st.integers(min_value=1, max_value=10**18))
def test_three_digits_are_rounded_as_decimals_are(top: int, below: int) -> None:
    value = Decimal(top) / Decimal(below)
    if not Decimal("1e-9") < value < Decimal("999.4"):
        return
    exact = Context(prec=60)
    rounded = Context(prec=3, rounding=ROUND_HALF_EVEN).plus(
        exact.divide(Decimal(top), Decimal(below))
    )
    assert Decimal(three_digits(top, below)) == rounded


def test_numbers_of_four_digits_stay_whole() -> None:
    assert three_digits(1023_600, 1000) == "1,024"
    assert three_digits(999_500, 1000) in ("1,000", "999")
    assert three_digits(0) == "0"
    assert three_digits(-5, 2) == "-2.5"
    assert three_digits(0.5) == "0.5"
