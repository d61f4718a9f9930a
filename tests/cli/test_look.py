"""`attnscope look`: its arguments, its JSON, and the whole of it on the real model."""

from __future__ import annotations

import json
import resource
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from generate_samples import write_model
from transformers import LlamaForCausalLM

import attnscope
from attnscope.cli import gather, look
from attnscope.cli.report import HEAD_VALUES, NextToken, Report
from attnscope.errors import TraceError
from attnscope.trace import Trace

TEXT = "Xiao Ming gave the apple to Xiao Wang. Who has the apple now? The apple is with"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, trace: Trace) -> list[dict[str, Any]]:
    """Put a small trace in the place of a model's run; what was asked of the run is kept."""
    calls: list[dict[str, Any]] = []

    def run(text: str, **options: Any) -> Report:
        calls.append({"text": text, **options})
        named = {name: options[name] for name in ("layer", "head", "query")}
        chosen, attended = gather.choose(trace, **named)
        return Report(
            model=gather.model_line(trace),
            tokens=gather.token_lines(trace),
            layers=gather.layer_lines(trace),
            heads=gather.head_lines(trace),
            next=[NextToken(7, "' mat'", 0.5)],
            chosen=chosen,
            attended=attended,
            labels=gather.labels(trace),
            timing={"load_s": 1.0, "forward_s": 0.5},
            peak_bytes=12345,
        )

    monkeypatch.setattr(look, "run", run)
    return calls


def test_json_is_the_trace(
    run: Callable[..., Any], asked: list[dict[str, Any]], trace: Trace
) -> None:
    shown = run("look", "hello", "--json", "--layer", "0", "--head", "2")
    assert (shown.code, shown.err) == (0, "")
    said = json.loads(shown.out)
    assert said["schema"] == "attnscope.look/1"
    assert said["model"]["architecture"] == "FakeForCausalLM"
    assert [token["text"] for token in said["tokens"]] == [token.text for token in trace.tokens]
    assert len(said["heads"]) == 12
    means = trace.statistics.mean()
    for row, head in enumerate(said["heads"]):
        assert (head["layer"], head["head"]) == (means["layer"][row], means["head"][row])
        for name in HEAD_VALUES:
            assert head[name] == pytest.approx(means[name][row], rel=1e-15)
    assert said["chosen"] == {"layer": 0, "head": 2, "query": len(trace.tokens) - 1}
    weights = trace.weights(0, 2, [-1])[0]
    assert len(said["attended"]) == len(trace.tokens)
    for part in said["attended"]:
        # float64 here, float32 there: a few of its roundings
        assert part["weight"] == pytest.approx(weights[part["key"]], rel=1e-5)
    assert said["memory"] == {"peak_bytes": 12345}
    assert said["timing"] == {"load_s": 1.0, "forward_s": 0.5}


def test_people_get_the_picture(run: Callable[..., Any], asked: list[dict[str, Any]]) -> None:
    shown = run("look", "hello")
    assert (shown.code, shown.err) == (0, "")
    for part in ("Next token", "Heads by kind", "What the last token", "To open the rest"):
        assert part in shown.out
    assert "\x1b" not in shown.out  # a pipe gets no colour


def test_the_last_lines_can_be_done_as_they_stand(
    run: Callable[..., Any], asked: list[dict[str, Any]], trace: Trace, tmp_path: Path
) -> None:
    """Options are taken by the command, Python's lines by Python, the folder by `serve`."""
    lines = run("look", "hello").out.splitlines()
    lines = lines[lines.index("To open the rest  add to the command") + 1 :]
    options = [shlex.split(line.split("  ")[1]) for line in lines if line.startswith("  --")]
    assert [option[0] for option in options] == ["--layer", "--json", "--open", "--save"]
    for option in options[:2]:
        assert run("look", "hello", *option).code == 0
    assert asked[1]["layer"] in (0, 1, 3)
    trace.save(tmp_path / "my-trace")
    python = [line for line in lines if line.startswith(("import", "trace."))]
    assert len(python) == 3
    found: dict[str, Any] = {}
    for line in python:
        where = line.replace("'my-trace'", repr(str(tmp_path / "my-trace")))
        exec(f"found = {where}" if line.startswith("trace.") else where, found)
        assert "found" not in found or len(found["found"])
    assert "attnscope serve my-trace" in lines


def test_options_reach_the_run(
    run: Callable[..., Any], asked: list[dict[str, Any]], tmp_path: Path
) -> None:
    shown = run("look", "hi", "-m", "gemma3", "--layer", "1", "--head", "0", "--query", "-2",
        "--save", str(tmp_path / "new"), "--handout", str(tmp_path / "new.json"))  # fmt: skip
    assert asked == [
        {"text": "hi", "model": "gemma3", "layer": 1, "head": 0, "query": -2,
         "places": (tmp_path / "new", tmp_path / "new.json")}
    ]  # fmt: skip
    assert "new.json: written; a page of the course opens it." in shown.err


def test_text_comes_from_a_file(
    run: Callable[..., Any], asked: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "text.txt"
    file.write_text("小明把苹果给了小王", encoding="utf-8")
    assert run("look", "--file", str(file)).code == 0
    assert asked[0]["text"] == "小明把苹果给了小王"


def test_text_comes_from_the_standard_input(
    run: Callable[..., Any],
    asked: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes("国\n".encode())
    with file.open("rb") as buffer:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))
        assert run("look", "--file", "-").code == 0
    assert asked[0]["text"] == "国\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "give a text or --file"),
        (("a", "--file", "b"), 2, "give a text or --file"),
        (("a", "--layer", "x"), 2, "invalid value for '--layer'"),
        (("a", "b"), 2, "unexpected extra argument"),
        (("a", "--layer", "9"), 1, "layer: 9 is not in this trace"),
        (("a", "--head", "9"), 1, "no head 9"),
        (("a", "--query", "99"), 1, "query: 99"),
        (("--file", "no-such-file"), 1, "no-such-file"),
    ],
)
def test_mistakes_get_a_sentence(
    run: Callable[..., Any],
    asked: list[dict[str, Any]],
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    shown = run("look", *arguments)
    assert shown.code == code
    assert said.lower() in shown.err.lower()
    assert shown.out == ""
    assert "Traceback" not in shown.err


def test_what_is_piped_is_not_broken_at_80_columns(
    run: Callable[..., Any],
    asked: list[dict[str, Any]],
    trace: Trace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(gather, "model_line", lambda _: _NAMED)
    wide = run("look", "hello").out.splitlines()
    assert wide[0].startswith("a-long-name-")
    assert wide[0].endswith(f"; {len(trace.tokens)} tokens")
    assert [line for line in wide if line != line.rstrip()] == []
    monkeypatch.setenv("COLUMNS", "80")
    narrow = run("look", "hello").out.splitlines()
    assert " ".join(narrow[:2]) == wide[0]


_NAMED = {
    "name": "a-long-name-of-a-model", "architecture": "FakeForCausalLM", "layers": 4,
    "query_heads": 4, "kv_heads": 2, "head_width": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random model of 3 layers of 4 heads, of which every byte is a token."""
    return str(write_model(tmp_path_factory.mktemp("models") / "llama", "llama"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--layer", "99"), "--layer must be from 0 to 2, got 99."),
        (("--layer", "3", "--head", "0"), "--layer must be from 0 to 2, got 3."),
        (("--layer", "-4"), "--layer must be from 0 to 2, got -4."),
        (("--layer", "2", "--head", "4"), "--head must be from 0 to 3, got 4."),
        (("--head", "-5"), "--head must be from 0 to 3, got -5."),
        (("--query", "11"), "--query must be from 0 to 10, got 11."),
        (("--query", "-12"), "--query must be from 0 to 10, got -12."),
    ],
)
def test_what_is_not_there_is_refused_before_the_model_runs(
    run: Callable[..., Any],
    bytewise: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    forwards: list[str] = []
    monkeypatch.setattr(LlamaForCausalLM, "forward", lambda *_, **__: forwards.append("ran"))
    shown = run("look", "hello there", "-m", bytewise, "--save", str(tmp_path / "t"), *arguments)
    assert (shown.code, shown.out, forwards) == (2, "", [])
    assert said in shown.err
    assert list(tmp_path.iterdir()) == []


def test_negative_numbers_count_from_the_end(run: Callable[..., Any], bytewise: str) -> None:
    named = ("--layer", "-1", "--head", "-4", "--query", "-11")
    shown = run("look", "hello there", "-m", bytewise, "--json", *named)
    assert shown.code == 0, shown.err
    assert json.loads(shown.out)["chosen"] == {"layer": 2, "head": 0, "query": 0}


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({"num_attention_heads": 8}, 8),
        ({"num_attention_heads": 8, "swa_num_attention_heads": 16}, 16),
        ({"num_attention_heads": [4, 0, 6]}, 6),
        ({"hidden_size": 64}, None),
    ],
)
def test_a_head_of_any_kind_of_layer_may_be_named(fields: dict[str, Any], most: int | None) -> None:
    config = SimpleNamespace(**fields, to_dict=lambda: fields)
    assert look._most_heads(config) == most


def test_a_folder_that_is_there_is_not_written_over(
    run: Callable[..., Any], asked: list[dict[str, Any]], tmp_path: Path
) -> None:
    shown = run("look", "a", "--save", str(tmp_path))
    assert shown.code == 1
    assert "stands there already" in shown.err
    assert asked == []  # before the model was loaded


@pytest.mark.parametrize(
    ("name", "said"), [("old.json", "stands there already"), ("none/new.json", "no such folder")]
)
def test_a_handout_takes_no_place_that_is_taken(
    run: Callable[..., Any], asked: list[dict[str, Any]], tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "old.json").write_text("mine")
    shown = run("look", "a", "--handout", str(tmp_path / name))
    assert shown.code == 1
    assert said in shown.err
    assert asked == []
    assert (tmp_path / "old.json").read_text() == "mine"


def test_a_handout_holds_the_head_and_one_of_each_kind(trace: Trace, tmp_path: Path) -> None:
    from attnscope.cli import handout
    from attnscope.tiles import handout as made
    from attnscope.tiles.handouts import clearest

    file = tmp_path / "mine.json"
    chosen = (3, 1)
    handout.write(file, trace, chosen, len(trace.tokens) - 1)
    said = json.loads(file.read_text(encoding="utf-8"))
    heads = [chosen, *(one for one in clearest(trace) if one != chosen)]
    assert said == json.loads(json.dumps(made(trace, heads)))
    assert [(one["layer"], one["head"]) for one in said["heads"]] == heads
    with pytest.raises(attnscope.errors.TraceError, match="cannot be written"):
        handout.write(file, trace, chosen, 0)
    assert json.loads(file.read_text(encoding="utf-8")) == said


def test_bytes_that_are_no_text_are_refused(
    run: Callable[..., Any], asked: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG\r\n\xff\xfe")
    shown = run("look", "--file", str(file))
    assert shown.code == 1
    assert "UTF-8" in shown.err
    assert asked == []


class Answering(torch.nn.Module):
    """A model that says the same logits whatever it reads."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.logits = torch.tensor([[[9.0] * len(logits), logits]])

    def forward(self) -> Any:
        return SimpleNamespace(logits=self.logits)


def test_last_logits_are_those_of_the_last_token() -> None:
    model = Answering([0.0, 1.0])
    with look.last_logits(model) as kept:
        model()
    assert [part.tolist() for part in kept] == [[0.0, 1.0]]
    model()
    assert len(kept) == 1  # the hook is gone


def test_likeliest_are_in_order_with_their_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "next_label", lambda tokenizer, ids, index: f"'{index}'")
    found = look.likeliest(torch.tensor([0.0, 3.0, 1.0, 2.0]), None, [], count=2)
    whole = sum(torch.tensor([0.0, 3.0, 1.0, 2.0]).exp().tolist())
    assert [token.text for token in found] == ["'1'", "'3'"]
    # exp and the division in float32
    assert found[0].probability == pytest.approx(float(torch.tensor(3.0).exp()) / whole, rel=1e-6)


@pytest.mark.real_model
def test_the_real_model(run: Callable[..., Any], tmp_path: Path) -> None:
    """One run says the same as transformers' own eager attention, and can be opened again."""
    from attnscope.capture.models import load

    folder = tmp_path / "kept"
    shown = run("look", TEXT, "--json", "--save", str(folder))
    assert shown.code == 0, shown.err
    said = json.loads(shown.out)
    loaded = load("smollm2", attn_implementation="eager")
    ids = torch.tensor([[token["id"] for token in said["tokens"]]])
    with torch.no_grad():
        out = loaded.model(ids, output_attentions=True)
    chosen = said["chosen"]
    eager = out.attentions[chosen["layer"]][0, chosen["head"], chosen["query"]]
    for part in said["attended"]:
        # float32 through all layers before: some 1e-6 of a weight near 1
        assert part["weight"] == pytest.approx(float(eager[part["key"]]), abs=2e-5)
    best = int(out.logits[0, -1].argmax())
    assert said["next"][0]["id"] == best
    probability = float(out.logits[0, -1].softmax(-1)[best])
    assert said["next"][0]["probability"] == pytest.approx(probability, abs=1e-4)
    spans = [TEXT.encode()[token["start"] : token["end"]] for token in said["tokens"]]
    assert b"".join(spans) == TEXT.encode()
    again = attnscope.open(folder)
    assert len(again.tokens) == len(said["tokens"])


@pytest.mark.real_model
def test_chinese_shows_whole_characters(run: Callable[..., Any]) -> None:
    shown = run("look", "小明把苹果给了小王")
    assert shown.code == 0, shown.err
    assert "\ufffd" not in shown.out
    assert "What the last token '王' " in shown.out  # the last token is a part of it


def test_a_handout_ends_with_the_token_that_asks(trace: Trace, tmp_path: Path) -> None:
    from attnscope.cli import handout

    with mock.patch("attnscope.tiles.handouts.MOST_TOKENS", 5):
        handout.write(tmp_path / "mine.json", trace, (0, 0), 9)
    said = json.loads((tmp_path / "mine.json").read_text(encoding="utf-8"))
    assert said["tokens"]["start"] == 5
    assert len(said["tokens"]["labels"]) == 5


@pytest.mark.parametrize("room", [100, -1])
def test_a_full_disk_leaves_no_handout(trace: Trace, tmp_path: Path, room: int) -> None:
    """A real limit of the system: soon, and at the last character, which is written on closing."""
    from attnscope.cli import handout

    handout.write(tmp_path / "whole.json", trace, (0, 0), 9)
    size = (tmp_path / "whole.json").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room if room > 0 else size + room, before[1]))
    try:
        with pytest.raises(TraceError, match=r"mine\.json: cannot be written \(File too large\)"):
            handout.write(tmp_path / "mine.json", trace, (0, 0), 9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "mine.json").exists()
