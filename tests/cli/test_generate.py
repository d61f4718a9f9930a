"""`attnscope generate`: the text, its JSON, its trace, and what it says to a mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from generate_samples import TEMPLATE, tokenizer_of_bytes, write_model
from transformers import AutoModelForCausalLM, AutoTokenizer

import attnscope
from attnscope.capture.session import capture
from attnscope.capture.tokens import printable
from attnscope.cli import generation
from attnscope.cli.stream import bytes_of_tokens
from attnscope.trace import Trace

Run = Callable[..., Any]
TEXT = "小明 gave the apple"
FAMILIES = ["llama", "qwen3", "gemma3"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A small model of each family; `chatty` has a template."""
    base = tmp_path_factory.mktemp("models")
    made = {family: str(write_model(base / family, family)) for family in FAMILIES}
    made["chatty"] = str(write_model(base / "chatty", "llama", template=TEMPLATE))
    return made


def theirs(folder: str, ids: list[int], tokens: int) -> list[int]:
    """What transformers' own generate says follows."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    given = torch.tensor([ids])
    found = model.generate(
        given, attention_mask=torch.ones_like(given), max_new_tokens=tokens, do_sample=False
    )
    return found[0, len(ids) :].tolist()


def shown_text(ids: list[int]) -> str:
    """Ids as text, bytes that are no character written out."""
    bytes_of = bytes_of_tokens(tokenizer_of_bytes())
    return printable(b"".join(map(bytes_of, ids)))[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_text_is_that_of_transformers(run: Run, folders: dict[str, str], family: str) -> None:
    shown = run("generate", TEXT, "-m", folders[family], "-n", "30")
    assert shown.code == 0, shown.err
    ids = tokenizer_of_bytes()(TEXT)["input_ids"]
    expected = theirs(folders[family], ids, 30)
    assert shown.out == shown_text(expected) + "\n"
    assert f"{len(expected)} token" in shown.err
    assert "per second" in shown.err


def test_json_tells_all_of_it(run: Run, folders: dict[str, str]) -> None:
    shown = run("generate", TEXT, "-m", folders["gemma3"], "-n", "12", "--json")
    assert shown.code == 0, shown.err
    said = json.loads(shown.out)
    assert next(iter(said)) == "schema"
    assert said["schema"] == "attnscope.generate/1"
    assert said["model"] == {
        "name": folders["gemma3"], "architecture": "Gemma3ForCausalLM", "layers": 3,
        "query_heads": 4, "kv_heads": 2, "head_width": 8,
    }  # fmt: skip
    assert said["prompt"]["text"] == TEXT
    ids = [token["id"] for token in said["prompt"]["tokens"]]
    made = said["generated"]["tokens"]
    assert [token["id"] for token in made] == theirs(folders["gemma3"], ids, 12)
    assert [token["index"] for token in made] == list(range(len(ids), len(ids) + 12))
    whole = (TEXT + said["generated"]["text"]).encode()
    spans = [whole[t["start"] : t["end"]] for t in [*said["prompt"]["tokens"], *made]]
    assert b"".join(spans) == whole
    assert (said["ended"], said["sampling"], said["trace"]) == ("length", None, None)
    assert set(said["timing"]) == {"load_s", "prefill_s", "decode_s", "tokens_per_s"}
    assert said["timing"]["tokens_per_s"] > 0
    assert said["memory"]["peak_bytes"] > 0


def test_a_seed_draws_the_same_again(run: Run, folders: dict[str, str]) -> None:
    asked = ("generate", TEXT, "-m", folders["llama"], "-n", "20", "--json", "--top-k", "50")
    first = json.loads(run(*asked, "--temperature", "1.5").out)
    assert first["sampling"]["temperature"] == 1.5
    assert first["sampling"]["top_p"] == 1.0
    seed = str(first["sampling"]["seed"])
    again = json.loads(run(*asked, "--temperature", "1.5", "--seed", seed).out)
    assert again["generated"] == first["generated"]
    assert again["sampling"] == first["sampling"]
    others = [json.loads(run(*asked, "--seed", str(n)).out)["generated"] for n in (1, 2)]
    assert others[0] != others[1]


def test_a_stop_ends_the_text_before_it(run: Run, folders: dict[str, str]) -> None:
    asked = ("generate", TEXT, "-m", folders["qwen3"], "-n", "40", "--json")
    whole = json.loads(run(*asked).out)["generated"]["text"]
    stop = whole[10:12]
    said = json.loads(run(*asked, "--stop", "never said", "--stop", stop).out)
    assert said["generated"]["text"] == whole[: whole.find(stop)]
    assert said["ended"] == "stop"
    plain = run(*[one for one in asked if one != "--json"], "--stop", stop)
    assert plain.out == whole[: whole.find(stop)] + "\n"
    assert "up to --stop" in plain.err


def test_the_models_own_end_is_said(run: Run, folders: dict[str, str], tmp_path: Path) -> None:
    folder = write_model(tmp_path / "ends", "llama")
    asked = ("generate", TEXT, "-m", str(folder), "-n", "20", "--json")
    tokens = json.loads(run(*asked).out)["generated"]["tokens"]
    (folder / "generation_config.json").write_text(
        json.dumps({"eos_token_id": tokens[4]["id"]}), "utf-8"
    )
    said = json.loads(run(*asked).out)
    first = [token["id"] for token in tokens].index(tokens[4]["id"])
    assert said["ended"] == "end"
    assert len(said["generated"]["tokens"]) == first + 1


def test_chat_asks_in_the_models_template(run: Run, folders: dict[str, str]) -> None:
    asked = ("-m", folders["chatty"], "--chat", "-n", "20", "--json")
    said = json.loads(run("generate", "why?", *asked).out)
    assert said["prompt"]["text"] == "<|user|>why?<|answer|>"
    ids = [token["id"] for token in said["prompt"]["tokens"]]
    assert ids == tokenizer_of_bytes()("<|user|>why?<|answer|>")["input_ids"]
    made = [token["id"] for token in said["generated"]["tokens"]]
    assert made == theirs(folders["chatty"], ids, len(made))


def test_text_comes_from_a_file(run: Run, folders: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    asked = ("-m", folders["llama"], "-n", "8")
    shown = run("generate", "--file", str(tmp_path / "text.txt"), *asked)
    assert shown.out == run("generate", TEXT, *asked).out


def test_pieces_come_as_they_are_made(folders: dict[str, str]) -> None:
    """The first ones before the last token is computed: `write` is called once per token or so."""
    given: list[str] = []
    wanted = generation.Wanted(tokens=20)
    report = generation.run(TEXT, model=folders["llama"], wanted=wanted, write=given.append)
    assert "".join(given) == report.generated["text"]
    assert len([piece for piece in given if piece]) > 5


# -- the trace ------------------------------------------------------------------------------------


def by_hand(folder: str, ids: list[int]) -> list[torch.Tensor]:
    """The weights of transformers' eager attention over the whole text, [H, T, T] per layer."""
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        found = model(input_ids=torch.tensor([ids]), use_cache=False, output_attentions=True)
    return [weights[0] for weights in found.attentions]


ROOM = 3e-5
"""Two float32 computations of one weight: u (|lse| + 2 sqrt(D) |scale| max|q| max|k|), u = 6e-8,
with D = 8 and scores up to 60 here: 6e-8 (60 + 6 * 60) = 2.5e-5."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_step_is_in_the_trace(
    run: Run, folders: dict[str, str], family: str, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    shown = run(
        "generate", TEXT, "-m", folders[family], "-n", "15", "--trace", str(folder), "--json"
    )
    assert shown.code == 0, shown.err
    said = json.loads(shown.out)
    assert said["trace"] == str(folder)
    trace = attnscope.open(folder)
    trace.verify()
    ids = [token.id for token in trace.tokens]
    told = [*said["prompt"]["tokens"], *said["generated"]["tokens"]]
    assert ids == [token["id"] for token in told]
    assert trace.prompt_tokens == len(said["prompt"]["tokens"])
    assert len(ids) == trace.prompt_tokens + 15  # the last token is a row, too
    for layer, expected in enumerate(by_hand(folders[family], ids)):
        for head in range(4):
            found = trace.weights(layer, head)
            np.testing.assert_allclose(found, expected[head].numpy(), atol=ROOM)
    following = theirs(folders[family], ids, 1)
    assert [trace.about["next_token_id"]] == following


@pytest.mark.parametrize("family", FAMILIES)
def test_the_trace_is_that_of_a_capture(
    run: Run, folders: dict[str, str], family: str, tmp_path: Path
) -> None:
    """The same layers, intervals, statistics and maps as observing transformers' generate gives."""
    asked = ("-m", folders[family], "-n", "14", "--trace", str(tmp_path / "t"))
    assert run("generate", TEXT, *asked).code == 0
    ours = attnscope.open(tmp_path / "t")
    other = capture(folders[family], TEXT, generate=14, mode="beside")
    assert isinstance(other, Trace)
    assert [t.id for t in ours.tokens] == [t.id for t in other.tokens]
    assert (ours.text, ours.prompt_tokens) == (other.text, other.prompt_tokens)
    assert ours.about["next_token"] == other.about["next_token"]
    assert ours.header.statistics == other.header.statistics
    assert ours.model == other.model
    np.testing.assert_array_equal(ours.embeddings(), other.embeddings())
    for layer in other.layers:
        mine, own = ours.layer(layer.index), other.layer(layer.index)
        for name in ("kind", "name", "window", "scale", "softcap", "causal", "value_width"):
            assert getattr(mine.info, name) == getattr(own.info, name), name
        for found, expected in zip(mine.spans, own.spans, strict=True):
            np.testing.assert_array_equal(found, expected)
        for name in other.header.statistics:
            # q and k were computed in products of another order; logits reach 60 here
            np.testing.assert_allclose(
                mine.statistic(name), own.statistic(name), rtol=2e-4, atol=2e-4, err_msg=name
            )
        for name, room in (("value_norms", 1e-4), ("map_mean", ROOM), ("map_max", ROOM)):
            np.testing.assert_allclose(mine.array(name), own.array(name), rtol=1e-4, atol=room)
        for name in ("rope_frequencies", "rope_pairs"):
            np.testing.assert_array_equal(mine.array(name), own.array(name))


def test_statistics_of_another_attention_are_refused(
    run: Run, folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the writer recomputes must agree with what was recorded beside it."""
    from attnscope.cli import recorder

    plain = recorder.Recorder._attended

    def wrong(self: Any, seen: Any, *spans: Any) -> Any:
        return plain(self, replace(seen, scale=seen.scale * 1.001), *spans)

    monkeypatch.setattr(recorder.Recorder, "_attended", wrong)
    asked = ("-m", folders["llama"], "-n", "9", "--trace", str(tmp_path / "t"))
    shown = run("generate", TEXT, *asked)
    assert shown.code == 1
    assert "layer 0" in shown.err
    assert not list(tmp_path.iterdir())


def test_an_interrupted_recording_leaves_nothing(
    run: Run, folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnscope.cli import recorder

    def interrupted(self: Any, layer: int, seen: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recorder.Recorder, "watch", interrupted)
    asked = ("-m", folders["llama"], "-n", "9", "--trace", str(tmp_path / "t"))
    shown = run("generate", TEXT, *asked)
    assert shown.code == 130
    assert not list(tmp_path.iterdir())


# -- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "give a text or --file, one of the two"),
        (("a", "--file", "b"), 2, "give a text or --file, one of the two"),
        (("a", "--tokens", "0"), 2, "--tokens: expected at least 1, got 0"),
        (("a", "--temperature", "0"), 2, "--temperature: expected a number above 0, got 0.0"),
        (("a", "--temperature", "-2"), 2, "--temperature: expected a number above 0, got -2.0"),
        (("a", "--temperature", "nan"), 2, "--temperature: expected a number above 0, got nan"),
        (("a", "--temperature", "inf"), 2, "--temperature"),
        (("a", "--top-k", "0"), 2, "--top-k: expected at least 1 token, got 0"),
        (("a", "--top-p", "0"), 2, "--top-p: expected a mass above 0 and up to 1, got 0.0"),
        (("a", "--top-p", "1.5"), 2, "--top-p: expected a mass above 0 and up to 1, got 1.5"),
        (("a", "--seed", "3"), 2, "--seed: nothing is drawn; give --temperature"),
        (("a", "--top-k", "3", "--seed", "-3"), 2, "--seed: expected a whole number from 0 on"),
        (("a", "--stop", ""), 2, "--stop: expected some text, got none"),
        (("",), 1, "The text is empty"),
        (("a\0b",), 1, "The text has a NUL"),
        (("a", "-m", "smolm2"), 1, "There is no model 'smolm2'; did you mean smollm2?"),
        (("a", "-m", "./nowhere"), 1, "There is no model './nowhere'"),
        (("--file", "no-such-file"), 1, "no-such-file: No such file"),
    ],
)
def test_mistakes_get_a_sentence(
    run: Run, arguments: tuple[str, ...], code: int, said: str
) -> None:
    shown = run("generate", *arguments)
    assert shown.code == code
    assert said in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("model", "arguments", "said"),
    [
        ("llama", ("a" * 97,), "reads at most 96"),
        ("llama", ("a" * 50,), "50 tokens of text and 100 more are beyond the model's context of "
         "96; ask for at most 46"),
        ("llama", ("a", "--chat"), "has no chat template"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_model(
    run: Run, folders: dict[str, str], model: str, arguments: tuple[str, ...], said: str
) -> None:
    shown = run("generate", *arguments, "-m", folders[model])
    assert shown.code == 1
    assert said in shown.err
    assert shown.out == ""


def test_a_family_that_the_decoder_cannot_run(
    run: Run, folders: dict[str, str], tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "other", "llama")
    config = json.loads((folder / "config.json").read_text("utf-8")) | {"model_type": "mamba2"}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    shown = run("generate", "a", "-m", str(folder))
    assert shown.code == 1
    assert "type 'mamba2'; it runs llama, qwen3 and gemma3" in shown.err


def test_a_folder_that_is_there_is_not_written_over(
    run: Run, folders: dict[str, str], tmp_path: Path
) -> None:
    shown = run("generate", "a", "-m", folders["llama"], "--trace", str(tmp_path))
    assert shown.code == 1
    assert "stands there already" in shown.err


def test_a_reader_that_leaves_is_no_error(folders: dict[str, str]) -> None:
    """`attnscope generate … | head -c 1` ends quietly."""
    process = subprocess.Popen(
        [sys.executable, "-m", "attnscope", "generate", TEXT, "-m", folders["llama"], "-n", "60"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(timeout=120) == 141
    assert "Traceback" not in said


@pytest.mark.real_model
@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_the_real_models(run: Run, name: str, tmp_path: Path) -> None:
    """Chinese text is cut within characters; a step's row is eager attention's."""
    text = "小明把苹果给了小王。Now the apple is with"
    shown = run("generate", text, "-m", name, "-n", "12", "--trace", str(tmp_path / "t"), "--json")
    assert shown.code == 0, shown.err
    said = json.loads(shown.out)
    assert "\ufffd" not in shown.out
    trace = attnscope.open(tmp_path / "t")
    trace.verify()
    ids = [token.id for token in trace.tokens]
    from attnscope.capture.models import path

    folder = path(name)
    assert ids[: trace.prompt_tokens] == AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    assert said["generated"]["tokens"][0]["id"] == ids[trace.prompt_tokens]
    weights = by_hand(str(folder), ids)
    row = len(ids) - 3
    for layer in (0, 5, len(weights) - 1):
        for head in range(trace.model.query_heads):
            # float32 through all layers before: some 1e-6 of a weight near 1
            np.testing.assert_allclose(
                trace.weights(layer, head, queries=[row])[0], weights[layer][head, row], atol=3e-5
            )
