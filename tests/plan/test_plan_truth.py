"""The planner against weighed caches of fifteen real models: exact, logical and as held.

The numbers come from models built on the meta device and run once (kv_truth.json), not from here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnscope.plan import read
from attnscope.plan.bytes import sequence_bytes
from attnscope.plan.engines.transformers import held_bytes

TRUTH: dict[str, Any] = {
    name: value
    for name, value in json.loads(
        (Path(__file__).parent / "kv_truth.json").read_text("utf-8")
    ).items()
    if not name.startswith("_")
}
KINDS = {
    "full": "full",
    "sliding": "sliding",
    "mla": "mla",
    "mla+idx": "mla-indexer",
    "gdn": "gated-deltanet",
}


@pytest.mark.parametrize("name", TRUTH)
def test_logical_bytes_are_exact(name: str) -> None:
    model, truth = read(name), TRUTH[name]
    answer = model.kv(context=32_768)
    assert answer.total_bytes == truth["logical_32k"]
    assert answer.per_token_bytes == truth["bytes_per_token_long"]
    assert answer.per_token_bytes_within_window == truth["bytes_per_token_short"]
    assert answer.capped_bytes == truth["window_bytes"]
    assert answer.fixed_bytes == truth["state_bytes"] + truth["conv_bytes"]
    windows = sorted({layer.window for layer in model.layers if layer.window})
    assert windows == truth["window"]


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize(("tokens", "field"), [(1_024, "measured_1024"), (32_768, "measured_32k")])
def test_bytes_as_transformers_holds_them_are_exact(name: str, tokens: int, field: str) -> None:
    assert held_bytes(read(name), tokens) == TRUTH[name][field]


@pytest.mark.parametrize("name", TRUTH)
def test_layers_are_of_the_right_kinds(name: str) -> None:
    counted: dict[str, int] = {}
    for layer in read(name).layers:
        counted[layer.kind] = counted.get(layer.kind, 0) + 1
    assert counted == {KINDS[kind]: count for kind, count in TRUTH[name]["layers"].items()}


@pytest.mark.parametrize("name", TRUTH)
def test_total_follows_from_the_pieces_past_the_windows(name: str) -> None:
    answer = read(name).kv(context=32_768, batch=3)
    one = answer.per_token_bytes * 32_768 + answer.capped_bytes + answer.fixed_bytes
    assert answer.sequence_bytes == one
    assert answer.total_bytes == 3 * one


def test_a_wrong_config_would_be_caught() -> None:
    """The checks above can fail: the usual mistakes of planners change the numbers."""
    from attnscope.plan import from_config

    fields = dict(read("qwen3-0.6b").fields)
    fields.pop("head_dim")  # the library's default is 128 for this family; 64 is hidden / heads
    fields["head_dim"] = 64
    assert from_config(fields).kv(context=32_768).total_bytes != TRUTH["qwen3-0.6b"]["logical_32k"]
    fields = dict(read("gemma-3-270m").fields)
    fields["layer_types"] = ["full_attention"] * 18
    fields.pop("_sliding_window_pattern")
    changed = from_config(fields).kv(context=32_768).total_bytes
    assert changed != TRUTH["gemma-3-270m"]["logical_32k"]


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("glm-5.3", 89_856 + 21 * 128 * 2),  # latents, and keys of 21 indexers on top
        ("deepseek-v4.1-flash", 890),
        ("kimi-k2", 70_272),
        ("gpt-oss-120b", 18 * 2 * 8 * 64 * 2),
        ("smollm2", 30 * 2 * 3 * 64 * 2),
        ("deepseek-v4-flash", 21 * (512 + 128) * 2 // 4 + 20 * 512 * 2 // 128),
    ],
)
def test_published_sizes_per_token(name: str, per_token: int) -> None:
    assert read(name).kv(context=1_000_000).per_token_bytes == per_token


def test_v41_entries_as_published() -> None:
    """3 sources at ratio 2 and one at ratio 1: 2.5 entries of 288 + 68 bytes a token."""
    model = read("deepseek-v4.1-flash")
    rows = [row for row in model.kv(context=4).layers if row.per_token_bytes]
    assert [row.index for row in rows] == [2, 8, 14, 20]
    assert [float(row.per_token_bytes) for row in rows] == [178, 178, 178, 356]
    assert model.layers[0].kind == "sliding"
    assert model.layers[9].kind == "compressed-shared"
    assert model.layers[9].shares == 8
    # Asked for another format, the entries are counted in that.
    assert model.kv(context=4, kv_dtype="bf16").per_token_bytes == 2.5 * (512 + 128) * 2


def test_formats_count_their_scales() -> None:
    model = read("llama-3-8b")
    bf16 = model.kv(context=1000).total_bytes
    sizes = {
        name: model.kv(context=1000, kv_dtype=name).total_bytes
        for name in ("bf16", "fp16", "fp8", "int8", "int4", "fp32")
    }
    # 1.0625 and 0.5625 bytes a number: what quanto, hqq, q8_0 and q4_0 were measured at.
    assert sizes == {
        "bf16": bf16,
        "fp16": bf16,
        "fp8": bf16 // 2,
        "int8": bf16 * 1.0625 / 2,
        "int4": bf16 * 0.5625 / 2,
        "fp32": bf16 * 2,
    }


def test_states_stay_float32_whatever_the_cache() -> None:
    model = read("qwen3.8-27b")
    for kv_dtype in ("bf16", "int4"):
        assert model.kv(context=1, kv_dtype=kv_dtype).fixed_bytes == 150_994_944 + 3_932_160
    assert model.kv(context=1, dtype="fp32").fixed_bytes == 150_994_944 + 2 * 3_932_160


def test_compressed_totals_step_once_per_group() -> None:
    model = read("deepseek-v4-flash")
    assert sequence_bytes(model, 131) == sequence_bytes(model, 128) + 0
    answer = model.kv(context=128 * 1000)
    whole = answer.per_token_bytes * answer.context + answer.capped_bytes
    assert answer.sequence_bytes == whole
