"""`attnscope plan`: what an option may be, and the sentence for what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from attnscope.cli.main import run
from attnscope.cli.plan_asked import asked
from attnscope.plan.devices import DEVICES
from attnscope.plan.find import built_in_names
from attnscope.plan.fit import parse_bytes
from attnscope.plan.what_if import parse_share

DTYPES = "--dtype must be one of fp32, bf16, fp16 (what activations are kept in), got"
PLAIN: dict[str, Any] = {
    "context": 1, "batch": 1, "dtype": None, "kv_dtype": None, "fit": None, "weights": "auto",
    "device": None, "heads": "8", "window": None, "share": None, "explain": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--dtype", "foo"], f"{DTYPES} 'foo'."),
        (["--dtype", "int4"], f"{DTYPES} 'int4'. For a smaller cache, give --kv-dtype."),
        (["--kv-dtype", "foo"],
         "--kv-dtype must be one of fp32, bf16, fp16, fp8, int8, int4, got 'foo'."),
        (["--share", "5/4"], "--share must be from 0/4 to 4/4, got '5/4'."),
        (["--share", "3/0"], "--share must look like 1/4, got '3/0'."),
        (["--share", "²/4"], "--share must look like 1/4, got '²/4'."),
        (["--batch", "0"], "--batch must be at least 1, got 0."),
        (["--batch", "9999999999999"],
         "--batch must be at most 1,000,000,000,000, got 9,999,999,999,999."),
        (["--context", "9999999999999"],
         "--context must be at most 1,000,000,000,000, got 9,999,999,999,999."),
        (["--fit", "80XB"],
         "--fit must be bytes such as 141GB or 80GiB (up to 10^18), or a device (a100, h100, h200, "
         "b200, l40s, rtx4090, mi300x), got '80XB'."),
        (["--fit", "9999999TB"],
         "--fit must be bytes such as 141GB or 80GiB (up to 10^18), or a device (a100, h100, h200, "
         "b200, l40s, rtx4090, mi300x), got '9999999TB'."),
        (["--weights", "heavy"],
         "--weights must be bytes such as 54GB or 50GiB (up to 10^18), 0 or auto, got 'heavy'."),
        (["--device", "abacus"],
         "--device must be one of a100, h100, h200, b200, l40s, rtx4090, mi300x, got 'abacus'."),
        (["--heads", "²"], "--heads must be numbers such as 4,8, got '²'."),
    ],
)  # fmt: skip
def test_a_mistake_names_its_option(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert run(["plan", "gemma-3-27b", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.err == f"Error: Invalid value: {sentence}\nTry 'attnscope plan -h'.\n"
    assert shown.out == ""


@pytest.mark.parametrize("name", [*DEVICES, "RTX 4090", "H-100"])
def test_a_device_is_room(name: str) -> None:
    found = asked(**{**PLAIN, "fit": name}).budget
    assert found == DEVICES[name.lower().replace(" ", "").replace("-", "")].memory


@given(st.text(max_size=12))
def test_room_is_bytes_or_a_sentence(text: str) -> None:
    try:
        bytes_meant = parse_bytes(text)
    except ValueError:
        with pytest.raises(typer.BadParameter, match="--fit must be"):
            asked(**{**PLAIN, "fit": text})
    else:
        assert asked(**{**PLAIN, "fit": text}).budget == bytes_meant


@given(st.integers(-2, 10), st.integers(-2, 10))
def test_a_share_is_at_most_all(full: int, of: int) -> None:
    if 0 <= full <= of and of > 0:
        assert parse_share(f"{full}/{of}") == (full, of)
        assert asked(**{**PLAIN, "share": f"{full}/{of}"}).share == (full, of)
    else:
        with pytest.raises(ValueError, match="share must"):
            parse_share(f"{full}/{of}")
        with pytest.raises(typer.BadParameter, match="--share must"):
            asked(**{**PLAIN, "share": f"{full}/{of}"})


def test_a_name_that_is_none_brings_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "nosuch"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: There is no file and no built-in model 'nosuch'. The nearest ")
    assert said.endswith(f"`attnscope plan list` names all {len(built_in_names())}.\n")
    assert sum(name in said for name in built_in_names()) == 3
    assert run(["plan", "quen"]) == 1
    assert "qwen3" in capsys.readouterr().err


def gpt2(folder: Path, **fields: object) -> str:
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99}
    path = folder / "config.json"
    path.write_text(json.dumps({**config, **fields}))
    return str(path)


def test_a_context_beyond_the_model_is_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the title, not behind the tables alone; a table of positions has nothing beyond."""
    path = gpt2(tmp_path)  # the library's own default: 1,024 positions
    assert run(["plan", path, "--context", "100000"]) == 0
    text = capsys.readouterr().out
    head = " ".join(text.split("\n\n")[0].split())
    beyond = "100,000 tokens are more than the model's own limit of 1,024 positions"
    assert f"BEYOND THE MODEL: {beyond}: it learned a vector for each" in head
    assert text.count(beyond) == 2  # in the notes too, which --json has
    assert run(["plan", path, "--context", "1024"]) == 0
    assert "BEYOND" not in capsys.readouterr().out
    # Of positions that are computed it is only said that the model was not made for them.
    alibi = gpt2(tmp_path, position_embedding_type="alibi")
    assert run(["plan", alibi, "--context", "1025"]) == 0
    text = capsys.readouterr().out
    assert "BEYOND THE MODEL: 1,025 tokens are more than" in text
    assert "learned a vector" not in text


def test_a_file_that_is_no_gguf_is_shown_as_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"k\xe1!\xf3" + bytes(100))
    assert run(["plan", str(file)]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"Error: {file} is not a GGUF file: it begins with the bytes 6b e1 21 f3, not with "
        "47 47 55 46 (GGUF).\n"
    )
