"""The Chinese page of the planner says everything in Chinese but names, symbols and fields."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from planner_words import chinese, texts
from test_plan_read import RAW

from attnscope.lessons.site.browser_python import LEFT_OUT
from attnscope.plan import page
from attnscope.plan.find import built_in_names
from attnscope.plan.model import KINDS
from attnscope.plan.page import ask

PLAN = Path(page.__file__).parent
NAMES = frozenset((
    "token", "config", "json", "KV", "MHA", "GQA", "MQA", "MLA", "SXM", "FLOPs", "FLOP", "TFLOP",
    "GFLOP", "MFLOP", "PFLOP", "EFLOP", "GiB", "KiB", "MiB", "TiB", "GB", "TB", "MB", "ms", "key",
    "value", "query", "mod", "bytes", "min", "meta", "auto", "null", "true", "false", "JSON", "UTF",
    "BOM", "GGUF", "dtype", "transformers", "vLLM", "SGLang", "vllm", "sglang", "llama", "cpp",
    "QuantizedCache", "Mamba", "DeltaNet", "Gated", "KDA", "Kimi", "Delta", "Attention",
    "lightning", "delta", "NVIDIA", "AMD", "Instinct", "Blackwell", "Ada", "uXXXX", "mems",
))  # fmt: skip
"""What a Chinese text says in Latin letters: units, names, and words of the field as lesson 2 has
them."""


def english(text: str) -> list[str]:
    """The words of a text that are no names, fields, values or quotations."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "", text)
    text = re.sub(r"[A-Za-z]\w*(?:[._-]\w+)+|\b\w*\d\w*\b|\w+ = \S+", "", text)
    return [one for one in re.findall(r"[A-Za-z]{2,}", text) if one not in NAMES]


def left(said: list[str], names: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """Texts whose translation has English words, with these."""
    found = {}
    for text, translated in zip(said, chinese(said), strict=True):
        if words := [one for one in english(translated) if one not in names]:
            found[f"{text} => {translated}"] = words
    return found


def asked(**question: object) -> Iterator[str]:
    yield from texts(json.loads(ask(json.dumps(question))))


def test_no_english_is_left_of_any_model() -> None:
    said: set[str] = set()
    for name in built_in_names():
        said |= {*asked(model={"name": name}, room="h200", batch=2, kv_dtype="fp8", heads="3,8")}
        said |= {*asked(model={"name": name}, versus={"name": "smollm2"}, dtype="fp32", window=4096,
                        share="1/3", device="a100", context=10**7)}  # fmt: skip
    families: set[str] = set()
    for name, (config, _) in RAW.items():
        question = {"name": name, "config": json.dumps(config)}
        families.add(str(config.get("model_type")))
        for kv_dtype in (None, "int4"):
            said |= {*asked(model=question, weights="1.5GB", room="80GiB", kv_dtype=kv_dtype)}
    said |= {*asked(model={"name": "own.json", "config": json.dumps({
        "model_type": "new", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    })}, assume_full=True)}  # fmt: skip
    assert len(said) > 2000
    assert left(sorted(said), frozenset(families | {"new"})) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_layer_has_a_name_of_its_own(kind: str) -> None:
    every = chinese(list(KINDS))
    assert len(set(every)) == len(every)
    [name, meaning] = chinese([kind, KINDS[kind]])
    assert english(name) == english(meaning) == []


BROKEN = (
    " ", "{", "[1]", '"x"', "3", "true", "null", '{"a":1,}', "{'a':1}", '{"a":tru}', '{"a":"\x01"}',
    '{"a":"\\x"}', '{"a":"\\uzzzz"}', '{"a":"x', '{"a" 1}', '{"a":1 "b":2}', "[1,]", '{"a":1}{',
    '{"a":' + "9" * 5000 + "}", "[" * 90_000, "\ufeff{}", '{"model_type":"bert"}',
    '{"model_type":"t5"}', '{"model_type":"vit","image_size":3}', '{"image_size":3}',
    '{"model_type":"new","hidden_size":64,"num_hidden_layers":3,"num_attention_heads":4}',
    '{"model_type":"llama","hidden_size":-3,"num_hidden_layers":2,"num_attention_heads":4}',
    '{"model_type":"llama","hidden_size":64,"num_hidden_layers":true,"num_attention_heads":4}',
    '{"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"n_layer":3}',
    '{"model_type":"llama","num_hidden_layers":2}', '{"model_type":"llama"}',
)  # fmt: skip
WRONG = (
    {"context": 0}, {"context": 1.5}, {"batch": 0}, {"window": 0}, {"dtype": "int4"},
    {"dtype": "foo"}, {"kv_dtype": "int3"}, {"kv_dtype": 4}, {"heads": "4;8"}, {"room": "h1000"},
    {"weights": "heavy"}, {"weights": "9999999TB"}, {"device": "abacus"}, {"share": "half"},
    {"share": "5/4"}, {"share": "1/4"}, {"window": 5}, {"versus": {"name": "nothing"}},
    {"versus": "gpt"}, {"model": {"name": ""}}, {"model": "x"}, {"colour": "red"}, {"heads": "0"},
    {"model": {"name": "c", "config": " " * 300_000}},
)  # fmt: skip


def test_no_english_is_left_of_what_is_wrong() -> None:
    said: set[str] = set()
    for text in BROKEN:
        said |= {*asked(model={"name": "国.json", "config": text})}
    for question in WRONG:
        said |= {*asked(**{"model": {"name": "llama-3-8b"}, **question})}
    assert len(said) > 45
    assert left(sorted(said), frozenset({"True"})) == {}


SILENT = {
    "find.py": "files, folders, the hub; what is wrong with a text is asked above",
    "weights.py": "files of weights; styles of models",
    "plot.py": "the command's own picture",
    "page_command.py": "a line for the shell",
}
"""Files whose sentences a page does not show, and why."""
PARTS = (
    "kv_heads must divide", "budget and weights must not", "full must be from",
    "has no sliding layer", "has no window; give one", "attn_config.kv_n_heads",
    "linear_attn_config.{", " = {", ", compress_ratio", " (nor {", "; {peak", "layers a group",
    ": it learned a vector", "x {", "per token", "per {", "once, after", "{, convolutions",
    "; float32 states", "; at most {", " after a prefill; then", " For a smaller cache",
    "; { slots", "; fp8 with scales",
    "{ dense bf16", "{ full in {", "{, window {", "; { B of storage", " scale per 16",
    " scale per 32",
    # With a name or a list in front, all in WRONG or of a model above:
    "{ must be a whole number from 1 to", "the field { is missing{;", "{ must be bytes such as",
    "{ must be one of {, got {", "dtype must be one of", "{ must look like", "{ needs { too",
    "The weights of {name}",
)  # fmt: skip
"""Pieces of a longer sentence (asked for whole above), fields with their values, and sentences of
functions that the page calls with what it has checked before."""


def templates() -> Iterator[tuple[str, str]]:
    """Every text of the planner's files with a space in it, gaps filled with a number."""
    for file in sorted(PLAN.rglob("*.py")):
        inside = file.relative_to(PLAN)
        if f"plan/{inside}" in LEFT_OUT:
            continue
        tree = ast.parse(file.read_text("utf-8"))
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
                 for part in node.values}  # fmt: skip
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in parts or id(node) in docs:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = said = node.value
            elif isinstance(node, ast.JoinedStr):
                pieces = [
                    one.value if isinstance(one, ast.Constant) else None for one in node.values
                ]
                text = "".join("{" if one is None else str(one) for one in pieces)
                said = "".join("7" if one is None else str(one) for one in pieces)
            else:
                continue
            if re.search(r"[A-Za-z]{2,} [A-Za-z]{2,}", text):
                yield f"{inside}: {text}", said


def test_every_sentence_that_the_planner_can_say_has_a_translation() -> None:
    found = []
    for place, text in templates():
        file, _, sentence = place.partition(": ")
        if file not in SILENT and not any(one in sentence for one in PARTS):
            found.append(text)
    assert len(found) > 150
    assert left(found, frozenset({"full", "shared", "recurrent", "attention"})) == {}


def test_english_that_is_left_is_noticed() -> None:
    assert left(["a sentence that nobody has translated"])
    assert left(["c.json: a field is odd."])
    assert chinese(["keys"]) == ["K"]
    said = ["layers 3, 7, ..., 63 (16 layers): full, prefill, exact", "layers 0-2, 5: mla, latent"]
    assert chinese(said) == [
        "第 3, 7, ..., 63 层（共 16 层）：全注意力，预填充，精确", "第 0-2, 5 层：MLA，潜向量",
    ]  # fmt: skip
