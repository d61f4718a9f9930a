"""GGUF to a folder: the same numbers, the same tokens, and a sentence for each damaged file.

The referee is the model that was written into the GGUF file, with weights of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import model_samples as samples
import numpy as np
import pytest
import torch

from attnscope.capture.convert import WEIGHTS, checked_header, convert, converted_bytes
from attnscope.capture.models import listing, load, path
from attnscope.errors import ModelError, UnsupportedModelError

IDS = torch.tensor([[3, 70, 7, 258, 259, 12]])


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


def test_the_same_logits_bit_for_bit(tmp_path: Path) -> None:
    """float32 in, float32 out: nothing is rounded anywhere."""
    model = samples.llama()
    file = samples.write_gguf(tmp_path / "tiny.gguf", model)
    loaded = load(file)
    assert torch.equal(logits(loaded.model), logits(model))
    assert (loaded.info.query_heads, loaded.info.kv_heads) == (samples.HEADS, samples.GROUPS)
    assert loaded.tokenizer("the the")["input_ids"] == [258, 259]


def test_the_comparison_can_fail(tmp_path: Path) -> None:
    """Without putting the rows of q and k back in order, the logits are others."""
    model = samples.llama()
    loaded = load(samples.write_gguf(tmp_path / "tiny.gguf", model))
    weight = loaded.model.model.layers[0].self_attn.q_proj.weight
    with torch.no_grad():
        weight.copy_(torch.from_numpy(samples.interleave(weight.numpy(), samples.HEADS)))
    assert not torch.allclose(logits(loaded.model), logits(model), rtol=1e-3)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_quantised_numbers_are_kept_exactly(tmp_path: Path, kind: str) -> None:
    """The folder holds the numbers of the gguf package's own dequantiser."""
    quantise = gguf.GGMLQuantizationType[kind]
    model = samples.llama()
    loaded = load(samples.write_gguf(tmp_path / "tiny.gguf", model, quantise=quantise))
    stored = dict(loaded.model.named_parameters())
    name = "model.layers.1.mlp.down_proj.weight"
    original = model.state_dict()[name].numpy()
    expected = gguf.dequantize(gguf.quants.quantize(original, quantise), quantise)
    assert np.array_equal(stored[name].detach().numpy(), expected)
    assert not np.array_equal(expected, original)  # so there was something to lose
    # float32 holds each of them, float16 does not: why the folder is float32
    assert not np.array_equal(expected.astype(np.float16).astype(np.float32), expected)


def test_the_second_load_converts_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = samples.write_gguf(tmp_path / "tiny.gguf", samples.llama())
    first = path(file)
    assert first.parent == cache
    from attnscope.capture import pull

    monkeypatch.setattr(pull, "convert", None)
    assert path(file) == first


def test_a_changed_file_is_converted_anew(tmp_path: Path) -> None:
    file = samples.write_gguf(tmp_path / "tiny.gguf", samples.llama(seed=0))
    before = logits(load(file).model)
    samples.write_gguf(file, samples.llama(seed=1))
    after = logits(load(file).model)
    assert torch.equal(after, logits(samples.llama(seed=1)))
    assert not torch.equal(before, after)


def test_a_folder_with_one_gguf(tmp_path: Path) -> None:
    samples.write_gguf(tmp_path / "tiny.gguf", samples.llama())
    assert path(tmp_path) == path(tmp_path / "tiny.gguf")
    (tmp_path / "second.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="holds 2 GGUF files"):
        path(tmp_path)


def damaged(kind: str, folder: Path) -> Path:
    """A GGUF file with one thing wrong."""
    file = folder / "damaged.gguf"
    if kind == "no tensor":
        return samples.write_gguf(file, samples.llama(), leave_out="blk.1.ffn_up.weight")
    if kind == "splitting":
        return samples.write_gguf(file, samples.llama(), rule="of-tomorrow")
    if kind == "architecture":
        return samples.write_gguf(file, samples.llama(), architecture="mamba2")
    raw = bytearray(samples.write_gguf(file, samples.llama()).read_bytes())
    if kind == "cut off":
        raw = raw[:-1000]
    elif kind == "header cut off":
        raw = raw[:200]
    elif kind == "hostile length":
        raw[24:32] = (2**60).to_bytes(8, "little")
    elif kind == "not a GGUF":
        raw[:4] = b"PK\3\4"
    file.write_bytes(raw)
    return file


@pytest.mark.parametrize(
    ("kind", "says", "error"),
    [
        ("no tensor", r"1 tensors are missing, model.layers.1.mlp.up_proj", ModelError),
        ("architecture", "mamba2", UnsupportedModelError),
        ("splitting", "by the rule 'of-tomorrow', which is not known", UnsupportedModelError),
        ("cut off", "is cut off", ModelError),
        ("header cut off", "cut off or damaged", ModelError),
        ("hostile length", "needs 1,152,921,504,606,846,976 bytes", ModelError),
        ("not a GGUF", "is not a GGUF file", ModelError),
    ],
)
def test_damaged_files(
    tmp_path: Path, cache: Path, kind: str, says: str, error: type[ModelError]
) -> None:
    """Each a sentence, and nothing is left in the cache."""
    with pytest.raises(error, match=says):
        path(damaged(kind, tmp_path))
    assert not cache.exists() or not list(cache.iterdir())


def test_room_needed(tmp_path: Path) -> None:
    """Four bytes for each number that the gguf package counts, and something for the rest."""
    file = samples.write_gguf(tmp_path / "tiny.gguf", samples.llama())
    folder = tmp_path / "made"
    folder.mkdir()
    convert(file, folder)
    written = sum(one.stat().st_size for one in folder.iterdir())
    asked = converted_bytes(checked_header(file))
    assert written <= asked
    assert asked == 4 * sum(int(one.n_elements) for one in gguf.GGUFReader(file).tensors) + (
        64 << 20
    )


def test_progress_is_told_and_stderr_is_quiet(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    file = samples.write_gguf(tmp_path / "tiny.gguf", samples.llama())
    load(file, progress=lambda what, done, total: told.append(what))
    assert told == ["Converting the weights", "Converting the tokenizer"]
    assert capfd.readouterr().err == ""


@pytest.mark.real_model
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_the_disk_that_is_announced_is_what_a_model_takes(name: str) -> None:
    """The weights to the kilobytes of their table of names; the whole folder within a few percent
    (a tokenizer of 262,144 words has 33 MB beside 1,072), and within what is asked to be free."""
    said = next(one for one in listing() if one["name"] == name)
    folder = path(name)
    weights = (folder / WEIGHTS).stat().st_size
    assert 0 < weights - said["kept"] < 100_000
    whole = sum(one.stat().st_size for one in folder.iterdir())
    assert said["kept"] < whole < 1.05 * said["kept"]
    assert whole + said["size"] < said["needed"]


@pytest.mark.real_model
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_real_models_fit_their_config(name: str) -> None:
    """Shapes as the design names them, and text that reads on sensibly."""
    loaded = load(name)
    shape = (loaded.info.query_heads, loaded.info.kv_heads, loaded.info.head_width)
    assert shape == {"smollm2": (9, 3, 64), "gemma3": (4, 1, 256)}[name]
    words = loaded.tokenizer("Once upon a time, there was a little", return_tensors="pt")
    with torch.no_grad():
        best = int(loaded.model(words["input_ids"]).logits[0, -1].argmax())
    assert loaded.tokenizer.convert_ids_to_tokens([best])[0].lstrip("Ġ▁") == "girl"
