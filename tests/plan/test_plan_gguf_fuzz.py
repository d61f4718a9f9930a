"""Damaged GGUF keys: whatever stands in one, the answer is a model or a sentence that names it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from attnscope.errors import ConfigError
from attnscope.plan.gguf_header import Header, Skipped
from attnscope.plan.gguf_model import from_header
from attnscope.plan.model import Model
from attnscope.plan.report import Asked, report

pytest.importorskip("gguf", reason="the gguf package is not installed")

import gguf_files
import gguf_kinds

GONE = object()
JUNK: list[Any] = [
    GONE, None, True, False, 0, -1, 1, 3, 2**31, 2**63 - 1, 0.5, float("nan"), "", "x", [], [0],
    [1, 2], [True], [1.5] * 64, [None] * 64, ["a"] * 64, [[1]] * 64, [-1] * 64, [2**40] * 64,
    Skipped(10**6), {},
]  # fmt: skip
FILES = {
    **gguf_kinds.windows(), **gguf_kinds.listed(), **gguf_kinds.states(), **gguf_kinds.others(),
    "mla": gguf_files.deepseek2(2, 16, latents=True),
    "mla-expanded": gguf_files.deepseek2(2, 4, latents=False),
    "qwen35": gguf_files.qwen35(4, 24, 4, 256),
}  # fmt: skip


def keys_of(name: str) -> dict[str, Any]:
    small = FILES[name]
    own = {"embedding_length": small.width, "context_length": 4096, **small.keys}
    return {"general.architecture": small.arch, **{f"{small.arch}.{k}": v for k, v in own.items()}}


def model_of(keys: dict[str, Any]) -> Model:
    return from_header(Header(3, keys, (), 0), name="it")


def changed(name: str, **changes: Any) -> Model:
    """A file's model with some of its keys changed; `__` stands for a point."""
    keys = keys_of(name)
    for key, value in changes.items():
        full = f"{FILES[name].arch}.{key.replace('__', '.')}"
        keys[full] = value
        if value is GONE:
            del keys[full]
    return model_of(keys)


def answers_or_says(keys: dict[str, Any]) -> bool:
    """True for a model whose every question is answered, False for a sentence."""
    try:
        model = model_of(keys)
        report(model, Asked(context=5000, explain=True))
    except ConfigError as error:
        said = str(error)
        assert said.startswith("it: ")
        assert len(said) < 400
        return False
    for layer in model.layers:
        assert all(one.entries(5000) * one.entry_bytes(*formats()) >= 0 for one in layer.stores)
        assert layer.heads is None or min(layer.heads.query, layer.heads.kv, layer.heads.qk) > 0
        assert layer.latent is None or layer.latent.nope >= 0
    return True


def formats() -> tuple[Any, Any]:
    from attnscope.plan.numbers import FORMATS

    return FORMATS["fp16"], FORMATS["fp16"]


@pytest.mark.parametrize("name", FILES)
def test_one_key_of_junk(name: str) -> None:
    keys, rng = keys_of(name), random.Random(name)
    assert answers_or_says(keys)
    for key in keys:
        for junk in rng.sample(JUNK, 8):
            damaged = {**keys, key: junk}
            if junk is GONE:
                del damaged[key]
            answers_or_says(damaged)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"attention__head_count": 0}, "attention.head_count must be from 1"),
    ("llama", {"attention__head_count_kv": 0}, "attention.head_count_kv must be from 1"),
    ("llama", {"attention__head_count_kv": 3}, "head_count = 4 is not a multiple"),
    ("llama", {"attention__key_length": GONE}, "attention.key_length is missing"),
    ("llama", {"attention__value_length": GONE}, "attention.value_length is missing"),
    ("llama", {"block_count": 0}, "block_count must be from 1"),
    ("llama", {"block_count": 2.0}, "block_count must be from 1"),
    ("deci", {"attention__head_count_kv": [1, 2]}, "has 2 items but block_count is 3"),
    ("gemma4", {"attention__key_length_swa": GONE}, "attention.key_length_swa is missing"),
    ("gemma4", {"attention__value_length_swa": GONE}, "attention.value_length_swa is missing"),
    ("jamba", {"attention__head_count_kv": GONE}, "attention.head_count_kv is missing"),
    ("jamba", {"attention__head_count_kv": 2}, "must list one number per layer, got 2"),
    ("kimi-linear", {"attention__head_count_kv": 1}, "must list one number per layer, got 1"),
    ("qwen35", {"attention__head_count_kv": 0}, "attention.head_count_kv must be from 1"),
    ("qwen35", {"full_attention_interval": 0}, "full_attention_interval must be from 1"),
    ("qwen35", {"ssm__inner_size": 6145}, "is not a multiple of ssm.time_step_rank"),
    ("falcon-h1", {"attention__head_count_kv": 0}, "attention.head_count_kv must be from 1"),
    ("mla", {"attention__head_count": 0}, "attention.head_count must be from 1"),
    ("mla", {"rope__dimension_count": 193}, "193 is more than the 192 of a key"),
    ("mla-expanded", {"rope__dimension_count": 500}, "500 is more than the 192 of a key"),
    ("deepseek32", {"attention__key_length_mla": GONE}, "key_length_mla is missing"),
    ("deepseek32", {"attention__indexer__key_length": GONE}, "indexer.key_length is missing"),
    ("glm-dsa", {"attention__indexer__types": [True]}, "has 1 items but block_count is 3"),
    ("nemotron_h", {"feed_forward_length": [0, 0]}, "has 2 items but block_count is 3"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "words"), REFUSED)
def test_contradictions_are_refused_with_their_key(
    name: str, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        changed(name, **changes)
    assert words in str(caught.value)
    assert FILES[name].arch in str(caught.value)


def test_what_is_left_open_is_said() -> None:
    model = changed("llama", attention__head_count_kv=GONE)
    assert model.layers[0].heads is not None
    assert model.layers[0].heads.kv == 4
    assert "head_count_kv is absent" in model.notes[0]
    whole = changed("nemotron_h", feed_forward_length=32)
    assert [layer.kind for layer in whole.layers] == ["mlp", "full", "mlp"]
    assert not changed("mamba", attention__head_count_kv=0).notes
