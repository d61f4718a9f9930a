"""What fits, what if, weights, explanations, formats and the picture."""

from __future__ import annotations

import json
import random
import struct
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from attnscope.errors import ConfigError
from attnscope.plan import from_config, read
from attnscope.plan.explain import explain, explain_cost
from attnscope.plan.find import built_in_names
from attnscope.plan.fit import largest_context, parse_bytes
from attnscope.plan.flops import cost
from attnscope.plan.numbers import FORMATS, find_format, model_format
from attnscope.plan.plot import Curve, draw
from attnscope.plan.report import Asked, report
from attnscope.plan.weights import count, from_files, quantised, safetensors_bytes, weights_of
from attnscope.plan.what_if import schemes, with_heads, with_latent, with_share, with_window

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.parametrize("name", built_in_names())
def test_fit_is_the_inverse(name: str) -> None:
    """What fits does fit, and one token more does not."""
    model, rng = read(name), random.Random(name)
    corners = [model.bytes_at(n) for n in (1, 127, 128, 129, 4096, 4097, 100_001)]
    budgets = corners + [c + d for c in corners for d in (-1, 1)]
    budgets += [int(10 ** rng.uniform(3, 12)) for _ in range(30)]
    for budget in budgets:
        found = largest_context(model, budget)
        if found.tokens is None:
            assert model.bytes_at(10**11) <= budget
        elif found.tokens == 0:
            assert model.bytes_at(1) > budget
        else:
            assert model.bytes_at(found.tokens) <= budget < model.bytes_at(found.tokens + 1)
            assert found.bytes_used == model.bytes_at(found.tokens)


def test_fit_takes_weights_batch_and_limits_into_account() -> None:
    model = read("llama-3-8b")
    alone = largest_context(model, 10**11).tokens
    assert alone is not None
    shared = largest_context(model, 10**11, weights=10**10, batch=4)
    assert shared.tokens == (9 * 10**10) // 4 // 131_072
    assert shared.usable == 8192
    assert largest_context(model, 10, weights=20).tokens == 0
    assert largest_context(read("mistral-7b-v0.1"), 10**9).tokens is None
    with pytest.raises(ValueError, match="negative"):
        largest_context(model, -1)


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1.2.3GB", "12XB", "1e9", "9" * 40])
def test_bytes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="bytes must"):
        parse_bytes(text)


def test_schemes_have_the_textbooks_numbers() -> None:
    rows = {row.scheme: row for row in schemes(read("qwen3.8-27b"), context=262_144)}
    assert rows["MHA"].per_token_bytes == 384 * 1024
    assert rows["as published"].per_token_bytes == 64 * 1024
    assert rows["MQA"].per_token_bytes == 16 * 1024
    fixed = rows["MQA"].model.kv(context=1).fixed_bytes
    assert rows["MHA"].total_bytes - fixed == 96 * 2**30
    assert rows["as published"].total_bytes - fixed == 16 * 2**30
    assert rows["MQA"].total_bytes - fixed == 4 * 2**30
    old = {row.scheme: row for row in schemes(read("deepseek-67b"), context=2**20)}
    assert old["MHA"].per_token_bytes == 3_112_960
    assert old["as published"].total_bytes == 380 * 2**30
    assert old["MLA(512+64)"].per_token_bytes == 95 * 576 * 2
    mla = {row.scheme: row for row in schemes(read("deepseek-v2"), context=2**20)}
    assert mla["MLA expanded"].per_token_bytes == 60 * 128 * (192 + 128) * 2
    assert mla["MLA(512+64)"].per_token_bytes == mla["as published"].per_token_bytes == 69_120


def test_groups_that_do_not_divide_the_heads_are_said() -> None:
    found = report(read("smollm2"), Asked(context=10, groups=(3, 8, 1, 9)))
    schemes_there = [row["scheme"] for row in found["what_if"]]
    assert schemes_there == ["as published", "MHA", "GQA-3", "MQA", "MLA(512+64)"]
    said = [note for note in found["notes"] if "GQA" in note]
    assert said == ["GQA-8 is no scheme of this model: 8 does not divide its query heads"]
    assert not report(read("smollm2"), Asked(context=10))["notes"]


def test_what_if_changes_attention_and_nothing_else() -> None:
    model = read("qwen3.8-27b")
    changed = with_heads(model, 2)
    assert changed.kv(context=9).fixed_bytes == model.kv(context=9).fixed_bytes
    assert changed.source == "what-if"
    with pytest.raises(ValueError, match="divide"):
        with_heads(model, 5)
    gemma = read("gemma-3-27b")
    assert with_window(gemma, 512).kv(context=9).capped_bytes * 2 == (
        gemma.kv(context=9).capped_bytes
    )
    half = with_share(gemma, 1, 2)
    assert sum(layer.kind == "full" for layer in half.layers) == 31
    assert [layer.kind for layer in with_share(gemma, 1, 4).layers[:4]] == [
        "sliding", "sliding", "sliding", "full",
    ]  # fmt: skip
    assert {layer.kind for layer in with_share(gemma, 0, 1).layers} == {"sliding"}
    with pytest.raises(ValueError, match="window"):
        with_share(read("llama-3-8b"), 1, 4)
    with pytest.raises(ValueError, match="no sliding layer"):
        with_window(read("llama-3-8b"), 8)
    assert with_latent(read("llama-3-8b"), 256, 32).kv(context=1).per_token_bytes == 32 * 288 * 2


PARAMETERS = {
    "llama-3-8b": 8_030_261_248,
    "qwen3-0.6b": 596_049_920,
    "smollm2": 134_515_008,
    "mistral-7b-v0.1": 7_241_732_096,
    "gemma-3-270m": 268_098_176,
    "gemma-2-9b": 9_241_705_984,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_as_published(name: str) -> None:
    assert count(read(name)) == (PARAMETERS[name], PARAMETERS[name])
    found = weights_of(read(name))
    assert found is not None
    assert found.size == 2 * PARAMETERS[name]


COUNTED = [name for name in built_in_names() if count(read(name)) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(COUNTED) - {"kimi-k2"}))
def test_parameters_of_the_built_model(name: str) -> None:
    """Every counted family against the model that transformers builds, on the meta device."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = read(name)
    skip = ("model_type", "architectures", "torch_dtype", "dtype", "quantization_config")
    fields = {k: v for k, v in model.fields.items() if k not in skip and v is not None}
    config = transformers.AutoConfig.for_model(model.architecture, **fields)
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(config)
    size = sum(p.numel() for p in built.parameters())
    # The bias that balances experts is a buffer there, and stands in the checkpoint's files.
    size += sum(b.numel() for n, b in built.named_buffers() if "e_score_correction" in n)
    found = count(model)
    assert found is not None
    assert found[0] == size
    assert found[1] <= size


def test_active_parameters_of_experts() -> None:
    total, active = count(read("deepseek-v3")) or (0, 0)
    assert round(total / 1e9) == 671
    assert round(active / 1e9) == 38  # 37 billion as published, without the output embedding


def test_unknown_weights_are_not_guessed() -> None:
    assert weights_of(read("deepseek-v4-flash")) is None
    with pytest.raises(ValueError, match="give --weights"):
        report(read("deepseek-v4-flash"), Asked(context=10, budget=10**12))
    assert "fit" in report(
        read("deepseek-v4-flash"), Asked(context=10, budget=10**12, weights=10**11)
    )


def test_parameters_are_no_bytes_of_quantised_weights() -> None:
    """gpt-oss-20b's files have 13.8 GB; its parameters would have 41.8 in bf16."""
    model = read("gpt-oss-20b")
    assert weights_of(model) is None
    counted = weights_of(model, dtype="bf16")
    assert counted is not None
    assert counted.size == 2 * 20_914_757_184
    with pytest.raises(ValueError, match=r"quantization_config says mxfp4.*give --weights"):
        report(model, Asked(context=10, budget=10**12))
    notes = report(model, Asked(context=10))["notes"]
    assert [note for note in notes if note.startswith("weights: quantization_config says mxfp4")]
    plain = {name: value for name, value in model.fields.items() if "quant" not in name}
    for table, how in ((None, None), ({}, None), ({"bits": 4}, "a format not named"),
                       ({"quant_method": "fp8"}, "fp8")):  # fmt: skip
        one = read({**plain, "quantization_config": table})
        assert quantised(one) == how
        assert (weights_of(one) is None) == (how is not None)
    outside = {"model_type": "llava", "text_config": plain, "quantization_config": {"bits": 4}}
    assert quantised(read(outside)) == "a format not named"
    assert quantised(read({**plain, "compression_config": {"format": "pack"}})) == "pack"
    notes = report(read(plain), Asked(context=10))["notes"]
    assert not [note for note in notes if note.startswith("weights")]


def write_safetensors(path: Path, sizes: list[int]) -> None:
    table, at = {}, 0
    for number, size in enumerate(sizes):
        table[f"t{number}"] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(at))


def test_weights_from_headers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert from_files(tmp_path) is None
    write_safetensors(tmp_path / "model-1.safetensors", [10, 20])
    write_safetensors(tmp_path / "model-2.safetensors", [5])
    for path in (tmp_path, tmp_path / "config.json"):
        found = weights_of(read(path), path=path)
        assert found is not None
        assert found.size == 35
        assert "2 safetensors files" in found.source
    (tmp_path / "other.json").write_text(json.dumps(LLAMA))
    assert from_files(tmp_path / "other.json") is None
    index = {"metadata": {"total_size": 99}, "weight_map": {str(i): f"f{i}" for i in range(3)}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = from_files(tmp_path)
    assert found is not None
    assert found.size == 99  # a shard is missing here, and the index knows the whole


def test_weights_agree_with_the_safetensors_package(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    save = pytest.importorskip("safetensors.numpy").save_file
    save(
        {"a": numpy.zeros((3, 5), "float32"), "b": numpy.zeros(7, "int8")},
        tmp_path / "m.safetensors",
    )
    assert safetensors_bytes(tmp_path / "m.safetensors") == 3 * 5 * 4 + 7


@pytest.mark.parametrize(
    "content",
    [b"", b"abc", struct.pack("<Q", 2**63), struct.pack("<Q", 4) + b"{..}",
     struct.pack("<Q", 2) + b"[]",
     struct.pack("<Q", 33) + b'{"a": {"data_offsets": [0, 1000]}}'[:33],
     struct.pack("<Q", 34) + b'{"a": {"data_offsets": [0, 1000]}}'],
)  # fmt: skip
def test_damaged_safetensors(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        safetensors_bytes(path)


@pytest.mark.parametrize("name", built_in_names())
def test_explanations_add_up(name: str) -> None:
    """Each line's bytes, times its layers, are the answer's; and each names a field."""
    model = read(name)
    lines = [line for line in explain(model) if line.bytes_per_entry]
    answer = model.kv(context=1)
    fixed = sum(
        line.bytes_per_entry * line.count for line in lines if line.formula.endswith("once")
    )
    assert fixed == answer.fixed_bytes
    per_token = sum(
        line.bytes_per_entry * line.count for line in lines if line.formula.endswith("per token")
    )
    if not any(layer.every > 1 for layer in model.layers):
        assert per_token == answer.per_token_bytes
    assert all("=" in line.source for line in lines)


@pytest.mark.parametrize("name", built_in_names())
def test_explained_flops_add_up(name: str) -> None:
    found = cost(read(name), context=5000)
    lines = explain_cost(read(name), context=5000)
    for what, total in (
        ("prefill", found.prefill),
        ("decode", found.decode_step),
        ("recurrence", found.recurrence_decode),
    ):
        assert sum(line.flops for line in lines if line.what.startswith(what)) == total


def test_formats_by_name() -> None:
    assert find_format("torch.bfloat16").name == "bf16"
    assert find_format("Q8_0").name == "int8"
    with pytest.raises(ValueError, match="kv_dtype"):
        find_format("int3")
    with pytest.raises(ValueError, match="dtype"):
        model_format("int4")
    assert FORMATS["int4"].vector_bytes(65) == 33 + 8  # two groups, the second of one number


@pytest.mark.parametrize(
    ("context", "batch"), [(0, 1), (-5, 1), (1.5, 1), (True, 1), (10**13, 1), (1, 0), ("8", 1)]
)
def test_absurd_questions(context: object, batch: object) -> None:
    with pytest.raises(ValueError, match=r"context|batch"):
        read("llama-3-8b").kv(context=context, batch=batch)  # type: ignore[arg-type]


SVG = "{http://www.w3.org/2000/svg}"


def picture(curves: list[Curve], **asked: Any) -> ET.Element:
    return ET.fromstring(draw(curves, **asked))


def lines_of(root: ET.Element) -> list[ET.Element]:
    return [one for one in root.iter(f"{SVG}polyline") if one.get("class") == "scheme"]


def labels_of(root: ET.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def devices_of(root: ET.Element) -> list[ET.Element]:
    return [one for one in root.iter(f"{SVG}path") if one.get("class") == "device"]


def test_the_picture() -> None:
    rows = schemes(read("gemma-3-27b"), context=1000)
    curves = [Curve(row.scheme, row.model) for row in rows]
    text = draw(curves, most_tokens=2**20, budget=80 * 10**9, budget_label="80 GB", title="A <b>")
    root = ET.fromstring(text)
    lines, labels = lines_of(root), labels_of(root)
    assert len(lines) == len(rows)
    assert len({one.get("stroke-dasharray") for one in lines}) == len(rows)  # reads without colour
    assert len(devices_of(root)) == 1
    assert {row.scheme for row in rows} <= set(labels)
    assert {"A <b>", "80 GB", "1M"} <= set(labels)
    assert "<script" not in text
    # What fits stands in the legend, and where its line crosses the device's there is a mark.
    fits = [largest_context(row.model, 80 * 10**9).tokens for row in rows]
    assert [one for one in labels if one.endswith("fit")] == [f"{n:,} tokens fit" for n in fits]
    marks = list(root.iter(f"{SVG}circle"))
    assert len(marks) == sum(n is not None and n <= 2**20 for n in fits) > 0
    height = (devices_of(root)[0].get("d") or "").split()[1].split("H")[0]
    assert all(abs(float(one.get("cy") or 0) - float(height)) < 0.5 for one in marks)
    # Log axes: doubling a full cache moves the line by the same step everywhere.
    line = lines_of(picture([Curve("x", read("llama-3-8b"))], most_tokens=2**20))[0]
    points = [tuple(map(float, p.split(","))) for p in (line.get("points") or "").split()]
    slopes = [
        (y1 - y0) / (x1 - x0)
        for (x0, y0), (x1, y1) in zip(points[40::20], points[60::20], strict=False)
    ]
    # Points are rounded to a tenth of a pixel, over some 70 pixels.
    assert max(slopes) - min(slopes) < 0.02


def test_lines_that_are_one_have_both_names() -> None:
    model = read("mistral-7b-v0.1")
    root = picture([Curve("a", model), Curve("b", model)], most_tokens=9999, budget=10**11)
    assert len(lines_of(root)) == 1
    assert {"a = b", "every length fits", "9.76k"} <= set(labels_of(root))


def test_a_model_with_other_weights_has_a_device_line_of_its_own() -> None:
    one, two = read("llama-3-8b"), read("qwen3.8-27b")
    curves = [Curve("one", one), Curve("two", two, budget=3 * 10**9)]
    root = picture(curves, most_tokens=2**20, budget=10**9)
    assert len(devices_of(root)) == 2
    fits = [largest_context(one, 10**9).tokens, largest_context(two, 3 * 10**9).tokens]
    assert {f"{n:,} tokens fit" for n in fits} <= set(labels_of(root))
    assert "2.79 GiB beside the weights of two" in labels_of(root)


def test_long_names_are_cut_and_many_lines_differ() -> None:
    models = [from_config({**LLAMA, "num_hidden_layers": n}) for n in range(1, 20)]
    curves = [Curve(f"a name that is long, number {n}", one) for n, one in enumerate(models)]
    root = picture(curves, most_tokens=1000)
    labels = [one for one in labels_of(root) if one.startswith("a name")]
    assert all(one.endswith("\u2026") and len(one) < 30 for one in labels)
    styles = [(one.get("stroke"), one.get("stroke-dasharray")) for one in lines_of(root)]
    assert len(set(styles)) == len(styles) == 19
    assert "a name that is long, number 7" in {t.text for t in root.iter(f"{SVG}title")}


def test_the_picture_refuses_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="curves"):
        draw([], most_tokens=10)
    with pytest.raises(ValueError, match="most_tokens"):
        draw([Curve("x", read("llama-3-8b"))], most_tokens=1)
    nothing = from_config(
        {"model_type": "mamba", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4,
         "conv_kernel": 4, "expand": 2}
    )  # fmt: skip
    assert ET.fromstring(draw([Curve("x", nothing)], most_tokens=10)) is not None
