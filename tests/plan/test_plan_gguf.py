"""GGUF headers: what the gguf package writes is read, hostile files are a sentence."""

from __future__ import annotations

import struct
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnscope.errors import ConfigError
from attnscope.plan import from_config, read
from attnscope.plan.engines import llamacpp
from attnscope.plan.gguf_header import BLOCKS, KEPT_ARRAY, Skipped, read_header
from attnscope.plan.numbers import FORMATS
from attnscope.plan.weights import weights_of

gguf_files = pytest.importorskip("gguf_files", reason="the gguf package is not installed")
Small = gguf_files.Small


def same_as_config() -> dict[str, Any]:
    oss = gguf_files.llama(24, 64, 8, 64)
    glm = gguf_files.deepseek2(78, 64, latents=True)
    keys = {
        **glm.keys, "attention.key_length_mla": 192 + 64, "attention.value_length_mla": 256,
        "attention.indexer.head_count": 32, "attention.indexer.key_length": 128,
        "attention.indexer.top_k": 2048,
    }  # fmt: skip
    return {
        "llama-3-8b": gguf_files.llama(32, 32, 8, 128),
        "smollm2": gguf_files.llama(30, 9, 3, 64),
        "gemma-3-27b": gguf_files.gemma3(62, 32, 16, 128, 1024),
        "gemma-3-270m": gguf_files.gemma3(18, 4, 1, 256, 512),
        "deepseek-v2": gguf_files.deepseek2(60, 128, latents=True),
        "qwen3.8-27b": gguf_files.qwen35(64, 24, 4, 256),
        "gpt-oss-20b": Small("gpt-oss", {**oss.keys, "attention.sliding_window": 128}, {}),
        "glm-5": Small("glm-dsa", keys, {}),
    }


@pytest.mark.parametrize("name", list(same_as_config()))
def test_same_layers_as_the_config(tmp_path: Path, name: str) -> None:
    path = gguf_files.write(tmp_path / "model.gguf", same_as_config()[name], tensors=False)
    model, config = read(path), read(name)
    assert model.layers == config.layers
    assert model.source == "gguf"
    for tokens in (1, 777, 40_000):
        assert model.bytes_at(tokens, dtype="bf16") == config.bytes_at(tokens)


def flags(config: dict[str, Any]) -> list[bool]:
    return [kind == "sliding_attention" for kind in config["layer_types"]]


def of_gemma4(config: dict[str, Any]) -> dict[str, Any]:
    wide = next(iter(config["per_layer_config"].values()))
    keys = {
        "attention.key_length": wide["head_dim"], "attention.value_length": wide["head_dim"],
        "attention.key_length_swa": config["head_dim"],
        "attention.value_length_swa": config["head_dim"],
        "attention.shared_kv_layers": config["num_kv_shared_layers"],
    }  # fmt: skip
    few = wide.get("num_key_value_heads")
    if few is None:
        return keys
    heads = [config["num_key_value_heads"] if one else few for one in flags(config)]
    return {**keys, "attention.head_count_kv": heads}


def of_mimo(config: dict[str, Any]) -> dict[str, Any]:
    few = config["num_key_value_heads"]
    return {
        "attention.key_length": config["head_dim"], "attention.value_length": config["v_head_dim"],
        "attention.head_count_kv": [2 * few if one else few for one in flags(config)],
    }  # fmt: skip


LISTED: list[tuple[str, str, dict[str, Any], Any]] = [
    ("gemma4_text", "gemma4", {}, of_gemma4),
    ("gemma4_text", "gemma4", {"num_kv_shared_layers": 12, "num_hidden_layers": 30}, of_gemma4),
    ("gemma4_text", "gemma4", {"num_global_key_value_heads": 2, "attention_k_eq_v": True},
     of_gemma4),
    ("mimo_v2_flash", "mimo2", {}, of_mimo),
    ("granite_swa", "granite_swa", {}, lambda _: {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "arch", "changes", "own"), LISTED)
def test_same_layers_as_the_librarys_config(
    tmp_path: Path, kind: str, arch: str, changes: dict[str, Any], own: Any
) -> None:
    """The config is transformers'; the keys are those that llama.cpp's converter makes of it."""
    auto = pytest.importorskip("transformers").AutoConfig
    config = auto.for_model(kind, **changes).to_dict()
    keys = {
        "block_count": config["num_hidden_layers"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": flags(config), **own(config),
    }  # fmt: skip
    small = Small(arch, keys, {}, width=config["hidden_size"])
    file = read(gguf_files.write(tmp_path / "m.gguf", small, tensors=False))
    ours = from_config(config)
    for one, other in zip(file.layers, ours.layers, strict=True):
        assert replace(one, note="") == replace(other, note="")
    assert file.layers != ours.layers[::-1]


def test_windows_that_contradict_or_are_not_read(tmp_path: Path) -> None:
    base = gguf_files.llama(4, 8, 2, 16).keys
    window = {"attention.sliding_window": 8}
    pattern = "attention.sliding_window_pattern"
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("gemma4", {**window, pattern: [True, False]}, "has 2 items but block_count is 4"),
        ("gemma4", {**window, pattern: 4}, "must list one flag per layer, got 4"),
        ("gemma3", {**window, pattern: [1, 0, 7, 0]}, r"pattern\[2\] must be true or false, got 7"),
        ("gemma3", {**window, pattern: 0}, "pattern must be from 1"),
        ("gemma3n", {**window, pattern: [True, True, True, False],
                     "attention.shared_kv_layers": 1}, "leaves layer 3 .full. no layer"),
        ("gemma3n", {**window, "attention.shared_kv_layers": 9}, "leaves layer 0"),
    ]  # fmt: skip
    for arch, keys, words in refused:
        path = gguf_files.write(
            tmp_path / "m.gguf", Small(arch, {**base, **keys}, {}), tensors=False
        )
        with pytest.raises(ConfigError, match=words):
            read(path)
    path = gguf_files.write(tmp_path / "m.gguf", Small("llama", {**base, **window}, {}))
    assert {layer.kind for layer in read(path).layers} == {"full"}
    assert "sliding_window = 8 is not read for llama" in read(path).notes[0]
    path = gguf_files.write(tmp_path / "m.gguf", Small("cohere2moe", {**base, **window}, {}))
    assert [layer.kind for layer in read(path).layers] == ["full"] + ["sliding"] * 3
    two = {**base, **window, pattern: 2}
    path = gguf_files.write(tmp_path / "m.gguf", Small("gemma3", two, {}))
    assert [layer.kind for layer in read(path).layers] == ["sliding", "full"] * 2


def test_llama_4_says_nothing_of_its_chunks(tmp_path: Path) -> None:
    base = gguf_files.llama(4, 8, 2, 16).keys
    for keys, wanted in (
        ({}, 8192), ({"attention.chunk_size": 16}, 16), ({"attention.sliding_window": 0}, None)
    ):  # fmt: skip
        small = Small("llama4", {**base, **keys}, {})
        model = read(gguf_files.write(tmp_path / "m.gguf", small, tensors=False))
        assert [layer.window for layer in model.layers] == [wanted] * 3 + [None]


def test_a_changed_key_changes_the_layers(tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "m.gguf", gguf_files.llama(32, 32, 4, 128), tensors=False)
    assert read(path).layers != read("llama-3-8b").layers


def test_an_old_mla_file_is_named_expanded(tmp_path: Path) -> None:
    small = gguf_files.deepseek2(2, 4, latents=False)
    model = read(gguf_files.write(tmp_path / "m.gguf", small, tensors=False))
    assert [layer.kind for layer in model.layers] == ["mla-expanded"] * 2
    assert model.kv(context=1).per_token_bytes == 2 * 4 * (192 + 128) * 2
    # Measured by running it: 600 MiB for 60 layers, 360 of keys and 240 of values.
    whole = gguf_files.deepseek2(60, 4, latents=False)
    old = read(gguf_files.write(tmp_path / "m.gguf", whole, tensors=False))
    parts = llamacpp.buffers(old, context=4096, batch=1, name="fp16", options=llamacpp.Options())
    assert parts == {"full": 600 * 2**20}
    assert [store.entry_bytes(FORMATS["fp16"], FORMATS["fp16"]) * 4096 * 60 // 2**20
            for store in old.layers[0].stores] == [360, 240]  # fmt: skip


def test_other_kinds_of_layers(tmp_path: Path) -> None:
    base = gguf_files.llama(4, 8, 2, 16).keys
    ssm = {"ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 16}
    cases: list[tuple[str, dict[str, Any], list[str]]] = [
        ("jamba", {**base, **ssm, "ssm.time_step_rank": 4,
                   "attention.head_count_kv": [0, 2, 0, 0]}, ["mamba", "full", "mamba", "mamba"]),
        ("nemotron_h", {**base, **ssm, "ssm.time_step_rank": 4, "ssm.group_count": 1,
                        "attention.head_count_kv": [0, 0, 2, 0],
                        "feed_forward_length": [0, 64, 0, 0]}, ["mamba2", "mlp", "full", "mamba2"]),
        ("mamba", {"block_count": 2, **ssm, "ssm.time_step_rank": 4}, ["mamba", "mamba"]),
        ("lfm2", {**base, "shortconv.l_cache": 3, "attention.head_count_kv": [0, 2, 0, 2]},
         ["conv", "full", "conv", "full"]),
        ("gemma3n", {**base, "attention.sliding_window": 8, "attention.shared_kv_layers": 1,
                     "attention.sliding_window_pattern": [True, False, True, False]},
         ["sliding", "full", "sliding", "shared"]),
        ("llama4", {**base, "attention.chunk_size": 8}, ["chunked"] * 3 + ["full"]),
        ("falcon-h1", {**base, **ssm, "ssm.time_step_rank": 4, "ssm.group_count": 1},
         ["full+mamba2"] * 4),
    ]  # fmt: skip
    for arch, keys, wanted in cases:
        path = gguf_files.write(tmp_path / f"{arch}.gguf", Small(arch, keys, {}), tensors=False)
        assert [layer.kind for layer in read(path).layers] == wanted, arch


def test_header_agrees_with_the_gguf_package(tmp_path: Path) -> None:
    import gguf

    path = gguf_files.write(tmp_path / "m.gguf", gguf_files.llama(2, 8, 2, 16))
    header, reader = read_header(path), gguf.GGUFReader(str(path))
    assert {t.name: t.size for t in header.tensors} == {t.name: t.n_bytes for t in reader.tensors}
    assert header.weight_bytes() == sum(int(t.n_bytes) for t in reader.tensors)
    found = weights_of(read(path), path=path)
    assert found is not None
    assert found.size == header.weight_bytes()
    known = {int(kind): size for kind, size in gguf.GGML_QUANT_SIZES.items()}
    assert {kind: known[kind] for kind in BLOCKS} == BLOCKS


def test_a_tokenizers_words_are_stepped_over(tmp_path: Path) -> None:
    import gguf

    path = tmp_path / "words.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    for key, value in gguf_files.llama(2, 8, 2, 16).keys.items():
        (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(
            f"llama.{key}", value
        )
    writer.add_uint32("llama.embedding_length", 64)
    writer.add_array("tokenizer.ggml.tokens", [f"word{i}" for i in range(200_000)])
    writer.add_array("tokenizer.ggml.scores", [0.5] * 200_000)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    header = read_header(path)
    assert header.keys["tokenizer.ggml.tokens"] == Skipped(200_000)
    assert header.keys["tokenizer.ggml.scores"] == Skipped(200_000)
    assert read(path).vocabulary == 200_000
    assert KEPT_ARRAY < 200_000


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def file(*keys: bytes, version: int = 3, tensors: int = 0, count: int | None = None) -> bytes:
    number = len(keys) if count is None else count
    return b"GGUF" + struct.pack("<IQQ", version, tensors, number) + b"".join(keys)


HUGE = struct.pack("<Q", 2**63)
HOSTILE = {
    "wrong magic": (b"GGML" + bytes(60), ["not a GGUF file", "GGML"]),
    "tiny": (b"GGUF", ["not a GGUF file", "4 bytes"]),
    "version 1": (file(version=1), ["version 1"]),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + bytes(60), ["big-endian"]),
    "cut off": (file(key("general.architecture", 8, text("llama")))[:-3], ["cut off", "ends"]),
    "key of 2^63": (file(HUGE + b"x" * 64), ["key's name", "9,223,372,036,854,775,808"]),
    "text of 2^63": (file(key("a", 8, HUGE)), ["cut off or damaged"]),
    "array of 2^63 numbers": (file(key("a", 9, struct.pack("<I", 4) + HUGE)), ["cut off"]),
    "array of 2^63 texts": (file(key("a", 9, struct.pack("<I", 8) + HUGE)), ["cut off"]),
    "array of 2^63 arrays": (file(key("a", 9, struct.pack("<I", 9) + HUGE)), ["arrays"]),
    "2^63 keys": (b"GGUF" + struct.pack("<IQ", 3, 0) + HUGE, ["keys", "not believed"]),
    "2^63 tensors": (b"GGUF" + struct.pack("<I", 3) + HUGE + bytes(8), ["tensors"]),
    "unknown type": (file(key("a", 77, bytes(8))), ["type 77"]),
    "no architecture": (file(key("a", 4, bytes(4))), ["general.architecture"]),
    "unknown architecture": (file(key("general.architecture", 8, text("clip"))), ["clip"]),
    "architecture is a number": (file(key("general.architecture", 4, bytes(4))), ["missing"]),
    "no layers": (file(key("general.architecture", 8, text("llama"))), ["block_count"]),
    "a billion layers": (
        file(key("general.architecture", 8, text("llama")),
             key("llama.block_count", 4, struct.pack("<I", 10**8))), ["layers"]),
    "nested arrays": (
        file(key("a", 9, (struct.pack("<IQ", 9, 1)) * 50 + bytes(64))), ["nests"]),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_a_sentence_in_bounded_time_and_memory(tmp_path: Path, name: str) -> None:
    content, words = HOSTILE[name]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    began = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert peak < 4 << 20
    assert time.monotonic() - began < 5  # a loaded machine's second is long; a hang is longer


def test_truncated_anywhere_is_an_error_and_never_an_answer(tmp_path: Path) -> None:
    whole = gguf_files.write(tmp_path / "m.gguf", gguf_files.llama(2, 8, 2, 16)).read_bytes()
    end = read_header(tmp_path / "m.gguf").data_offset
    path = tmp_path / "cut.gguf"
    for at in range(0, end, 97):
        path.write_bytes(whole[:at])
        with pytest.raises(ConfigError):
            read(path)
    path.write_bytes(whole[:end])
    assert read(path).layers
