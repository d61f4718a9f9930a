"""`attnscope plan`: the contract of its JSON, its speed, and a sentence for every mistake."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnscope.cli.main import run

CODE = "import sys; from attnscope.cli.main import main; sys.argv[0] = 'attnscope'; main()"


def call(*arguments: str, **extra: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", CODE, "plan", *arguments],
        capture_output=True, text=True, timeout=120, **extra,
    )  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON of a command run here."""
    assert run(["plan", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


FIELDS = {
    "schema": str, "model": dict, "context": int, "batch": int, "dtype": str, "kv_dtype": str,
    "kv": dict, "formats": list, "layers": list, "flops": dict, "engines": dict,
    "engine_details": list, "what_if": list, "weights": dict, "notes": list, "assumed": list,
}  # fmt: skip


def test_json_contract(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "gemma-3-27b", "--context", "32768")
    assert {key: type(value) for key, value in found.items()} == FIELDS
    assert found["schema"] == "attnscope.plan/1"
    kv = found["kv"]
    assert set(kv) == {
        "per_token_bytes", "per_token_bytes_within_window", "capped_bytes", "fixed_bytes",
        "sequence_bytes", "total_bytes",
    }  # fmt: skip
    assert kv["total_bytes"] == 3_120_562_176
    assert kv["total_bytes"] == (
        kv["per_token_bytes"] * 32_768 + kv["capped_bytes"] + kv["fixed_bytes"]
    )
    assert len(found["layers"]) == 62
    assert set(found["layers"][0]) == {
        "index", "kind", "per_token_bytes", "capped_bytes", "fixed_bytes", "window",
    }  # fmt: skip
    for part in ("per_token_bytes", "capped_bytes", "fixed_bytes"):
        assert sum(layer[part] for layer in found["layers"]) == kv[part]
    assert {"prefill", "prefill_dense", "decode_step"} <= set(found["flops"])
    assert found["engines"]["vllm"] == 7_222_067_200
    assert found["engines"]["transformers"] == 3_120_136_192
    assert found["what_if"][0]["scheme"] == "as published"
    assert set(found["what_if"][0]) == {"scheme", "per_token_bytes", "total_bytes"}
    assert found["weights"]["parameters"] == 27_009_346_304


def test_json_of_every_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "out.svg"
    found = said(
        capsys, "qwen3.8-27b", "--context", "262144", "--batch", "2", "--kv-dtype", "fp8",
        "--fit", "h200", "--weights", "54GB", "--device", "h100", "--heads", "2,8",
        "--share", "1/2", "--window", "4096", "--versus", "llama-3-8b", "--explain",
        "--plot", str(picture),
    )  # fmt: skip
    schemes = [row["scheme"] for row in found["what_if"]]
    assert schemes[:5] == ["as published", "MHA", "GQA-2", "GQA-8", "MQA"]
    assert schemes[-1] == "llama-3-8b"
    assert any("1 full in 2" in one for one in schemes)
    assert found["versus"]["kv"]["total_bytes"] == 2 * 262_144 * 131_072 // 2
    assert found["fit"]["budget"] == 141 * 10**9
    assert found["fit"]["weights"] == 54 * 10**9
    assert found["device"]["decode_bound"] == "memory"
    assert found["explain"]
    assert found["kv_dtype"] == "fp8"
    assert picture.read_text("utf-8").startswith("<svg")


def test_text_shows_what_json_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "deepseek-v3.2", "--explain", "--fit", "8TB", "--dtype", "bf16"]) == 0
    text = capsys.readouterr().out
    for words in ("85,888", "mla-indexer", "index_head_dim = 128", "MLA absorbed", "MLA expanded",
                  "indexer's scan", "What engines allocate", "tokens fit", "int4"):  # fmt: skip
        assert words in text, words
    assert "\x1b" not in text
    assert run(["plan", "gemma-3-27b", "--versus", "qwen3.8-27b", "--device", "h100"]) == 0
    both = capsys.readouterr().out
    assert "Side by side" in both
    assert "52 sliding, 10 full" in both
    assert "48 gated-deltanet, 16 full" in both
    assert "ridge point 295" in both
    assert max(len(line) for line in text.splitlines()) <= 120


def test_what_is_not_known_is_said_where_one_looks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "deepseek-v4.1-flash", "--context", "2000000"]) == 0
    text = capsys.readouterr().out
    assert "Weights: not known (deepseek_v41 is not counted, and no files)" in text
    assert text.count("no number: see the notes") == 4
    assert "2,000,000 tokens are more than the model's own limit of 1,048,576" in text
    assert run(["plan", "llama-3-8b", "--fit", "10GB"]) == 0
    assert "the weights alone do not fit" in capsys.readouterr().out
    assert run(["plan", "llama-3-8b", "--fit", "10000", "--weights", "0"]) == 0
    assert "not one token fits" in capsys.readouterr().out
    assert run(["plan", "mistral-7b-v0.1", "--fit", "80GB"]) == 0
    assert "every length fits: this cache stops growing" in capsys.readouterr().out
    assert not [note for note in said(capsys, "llama-3-8b")["notes"] if "limit" in note]


def test_weights_given_are_the_first_models(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The second model's are its own; of a model whose weights are not known nothing is fitted."""
    asked = ("--fit", "80GB", "--weights", "54GB", "--versus")
    both = said(capsys, "qwen3.8-27b", *asked, "llama-3-8b")
    assert both["fit"]["weights"] == 54 * 10**9
    assert both["versus"]["fit"]["weights"] == 2 * 8_030_261_248
    assert "fit" not in said(capsys, "qwen3.8-27b", *asked, "deepseek-v4-flash")["versus"]
    none = said(capsys, "qwen3.8-27b", "--fit", "80GB", "--weights", "0", "--versus", "llama-3-8b")
    assert none["fit"]["weights"] == none["versus"]["fit"]["weights"] == 0
    picture = tmp_path / "out.svg"
    assert run(["plan", "qwen3.8-27b", *asked, "llama-3-8b", "--plot", str(picture)]) == 0
    text = picture.read_text("utf-8")
    for found in (both["fit"], both["versus"]["fit"]):
        assert f"{found['tokens']:,} tokens fit" in text
    assert "beside the weights of llama-3-8b" in text
    assert "80GB: 24.2 GiB beside the weights" in text


def test_assuming_is_marked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = {"model_type": "no_such", "hidden_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 4}  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert run(["plan", str(path)]) == 1
    assert "--assume-full" in capsys.readouterr().err
    assert run(["plan", str(path), "--assume-full"]) == 0
    assert "ASSUMED" in capsys.readouterr().out
    assert said(capsys, str(path), "--assume-full")["assumed"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing-here"], 1, "no file and no built-in"),
        (["configs/nothing.json"], 1, "no file 'configs/nothing.json'"),  # and no network for it
        (["llama-3-8b", "--context", "0"], 2, "--context"),
        (["llama-3-8b", "--context", "-3"], 2, "--context"),
        (["llama-3-8b", "--context", "many"], 2, "--context"),
        (["llama-3-8b", "--batch", "0"], 2, "--batch must be at least 1, got 0."),
        (["llama-3-8b", "--kv-dtype", "int3"], 2, "--kv-dtype must be one of fp32, bf16,"),
        (["llama-3-8b", "--fit", "lots"], 2, "--fit must be bytes such as 141GB"),
        (["llama-3-8b", "--device", "abacus"], 2, "--device must be one of a100, h100"),
        (["llama-3-8b", "--heads", "x"], 2, "--heads"),
        (["gemma-3-27b", "--window", "0"], 2, "--window must be at least 1"),
        (["llama-3-8b", "--share", "half"], 2, "--share"),
        (["llama-3-8b", "--share", "1/4"], 2, "--share 1/4 needs --window too"),
        (["llama-3-8b", "--window", "5"], 2, "--window 5 needs --share too"),
        (["llama-3-8b", "--versus", "nothing-here"], 1, "no file"),
        (["llama-3-8b", "--plot", "/no/such/folder/x.svg"], 1, "x.svg"),
        ([], 2, "config"),
    ],
)
def test_mistakes_are_a_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert run(["plan", *arguments]) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "list"]) == 0
    assert "deepseek-v4.1-flash" in capsys.readouterr().out.split()
    assert "glm-5.3" in said(capsys, "list")["built_in"]


def test_a_folder_with_weights(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from test_plan_answers import LLAMA, write_safetensors

    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    write_safetensors(tmp_path / "model.safetensors", [1000])
    found = said(capsys, str(tmp_path), "--fit", "1MB")
    assert found["weights"]["size"] == 1000
    assert found["fit"]["tokens"] == (10**6 - 1000) // (4 * 2 * 2 * 16 * 2)


HEAVY = ("torch", "numpy", "transformers", "numba", "gguf", "pydantic", "rich", "huggingface_hub")


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys\nfrom attnscope.cli.main import run\n"
        "assert run(['plan', 'gemma-3-27b', '--explain', '--fit', '80GB']) == 0\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"


def test_answers_in_a_blink(tmp_path: Path) -> None:
    """0.3 s of processor time, start of Python included; other processes' time is not counted."""
    # As installed: with its bytecode compiled.
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    spent = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert call("gemma-3-27b", env=env).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.3, spent
