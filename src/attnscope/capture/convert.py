"""Turn a GGUF file into a folder that loads fast: safetensors, config.json, tokenizer.json.

The idea: transformers can read GGUF, but turns the tokenizer over piece by piece each time, which
takes from ten seconds to a minute. Done once and written down, the same model loads in a second.

Dtypes: the numbers are kept as float32. A dequantised number is scale x integer (+ offset) with
scales of 11 significant bits, which neither float16 nor bfloat16 can hold; float32 is what every
reader of GGUF computes, so the folder gives the same logits bit for bit, and it is read by mapping,
without a conversion.

Not here: where the folder is kept (store.py), fetching (pull.py).
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attnscope.capture.splitting import set_splitting
from attnscope.errors import ConfigError, ModelError, UnsupportedModelError
from attnscope.plan.gguf_header import Header, read_header

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done and how much there is; 0 of 0 when it
cannot be said."""
WEIGHTS: Final = "model.safetensors"
FLOAT_BYTES: Final = 4
SLACK_BYTES: Final = 64 << 20
"""Room for the tokenizer and the config beside the weights."""


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


def checked_header(gguf: Path) -> Header:
    """Read a GGUF header and compare what it claims with the size of the file.

    Raises:
        ModelError: no GGUF file, damaged, cut off, or one part of several.
    """
    try:
        header = read_header(gguf)
    except ConfigError as error:
        raise ModelError(str(error)) from error
    if header.keys.get("split.count", 1) not in (0, 1):
        raise ModelError(
            f"{gguf} is one part of several. Join them into one file first (llama.cpp's "
            "gguf-split --merge does it)."
        )
    weights, size = header.weight_bytes(), gguf.stat().st_size
    if not header.tensors:
        raise ModelError(f"{gguf} holds no tensors: it is a vocabulary, not a model.")
    if weights is None:
        raise UnsupportedModelError(f"{gguf} stores tensors in a type that cannot be read here.")
    if header.data_offset + weights > size:
        raise ModelError(
            f"{gguf} is cut off: its tensors need {header.data_offset + weights:,} bytes and the "
            f"file has {size:,}. Fetch it again."
        )
    return header


def converted_bytes(header: Header) -> int:
    """How much disk the converted folder takes, in bytes, from above."""
    numbers = 0
    for tensor in header.tensors:
        count = 1
        for one in tensor.shape:
            count *= one
        numbers += count
    return numbers * FLOAT_BYTES + SLACK_BYTES


def convert(gguf: Path, folder: Path, *, progress: Progress = silent) -> None:
    """Write the model of a GGUF file into an existing folder.

    Args:
        gguf: the file.
        folder: where config.json, model.safetensors, tokenizer.json and the settings go.
        progress: told which step is running.

    Raises:
        ModelError: the file is damaged, or a tensor the model needs is not in it.
        UnsupportedModelError: transformers cannot read models of this architecture from GGUF.

    Cost: all weights as float32 in memory; half a minute for a model of 49,000 words and two for
    one of 262,000.
    """
    header = checked_header(gguf)
    with quiet_transformers(), _reading_once():
        progress("Converting the weights", 0, 0)
        _weights(gguf, folder)
        progress("Converting the tokenizer", 0, 0)
        _tokenizer(gguf, folder, header)


def _tokenizer(gguf: Path, folder: Path, header: Header) -> None:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(gguf.parent), gguf_file=gguf.name, local_files_only=True
        )
    except (KeyError, ValueError, TypeError, NotImplementedError) as error:
        raise UnsupportedModelError(
            f"The tokenizer in {gguf} cannot be converted ({error}). Give the same model as a "
            "folder with its tokenizer.json."
        ) from error
    set_splitting(tokenizer, header.keys)
    tokenizer.save_pretrained(str(folder))


def _weights(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(
            str(gguf.parent), gguf_file=gguf.name, local_files_only=True
        )
        with torch.device("meta"):  # the shapes and names, without the memory
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        left = _fill(model, _read(gguf, _Whole(model)), gguf)
        if left:  # a family whose names are found only part by part
            left = _fill(model, _read(gguf, model), gguf)
    except (KeyError, ValueError, TypeError, NotImplementedError) as error:
        raise UnsupportedModelError(f"{gguf} cannot be read as a model: {error}") from error
    if left:
        raise ModelError(
            f"{gguf} does not hold the whole model it names: {len(left)} tensors are missing, "
            f"{left[0]} among them."
        )
    config._name_or_path = ""
    model.save_pretrained(str(folder), max_shard_size="1TB")
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"{gguf} could not be written as safetensors.")


def _read(gguf: Path, model: Any) -> dict[str, Any]:
    """All tensors, dequantised, by the names they have in the model."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    with redirect_stderr(io.StringIO()):  # its progress bar has no other switch
        read = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=model)
    tensors: dict[str, Any] = read["tensors"]
    return tensors


class _Whole:
    """A model that shows no parts of itself.

    The reader asks a model for its names and then every part of it again, building the same table
    of names each time: hundreds of times, and most of the time of a conversion.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.config, self.state_dict = model.config, model.state_dict

    def named_children(self) -> tuple[()]:
        return ()


def _fill(model: PreTrainedModel, tensors: dict[str, Any], gguf: Path) -> list[str]:
    """Put the numbers in the model's places, and return the places that stayed empty."""
    try:
        left = model.load_state_dict(tensors, strict=False, assign=True)
    except RuntimeError as error:
        raise ModelError(f"{gguf}: tensors do not have the shapes of the model. {error}") from error
    model.tie_weights()
    tied = model.all_tied_weights_keys or {}  # those that are another tensor once more
    return [name for name in left.missing_keys if name not in tied]


@contextmanager
def _reading_once() -> Iterator[None]:
    """Let the config, the weights and the tokenizer share one reading of the file.

    transformers makes a new `gguf.GGUFReader` for each, and one takes seconds for a vocabulary of
    a usual size; the reader itself is never changed by its users.
    """
    import gguf

    whole = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(whole)
    try:
        yield
    finally:
        gguf.GGUFReader = whole


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from drawing its own progress bars for a while."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    level = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
