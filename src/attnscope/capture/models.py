"""Find a model by name and load it: a short name, a folder, a GGUF file or a hub id.

The idea: whatever the name, loading reads one folder with config.json, safetensors and a tokenizer;
a GGUF file becomes such a folder once. Nothing here calls out to a network: what is not on the disk
is an error that says which `attnscope models pull` fetches it. No pickle is ever read, and no code
that comes with a model runs unless `trust_remote_code` is given.

Dtypes: float32 unless asked otherwise.

Not here: fetching (pull.py), converting (convert.py), which families can be observed
(interface.py).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attnscope.capture import hub
from attnscope.capture.checks import check_config, check_folder, first_layer
from attnscope.capture.convert import Progress, quiet_transformers, silent
from attnscope.capture.known import KNOWN
from attnscope.capture.names import is_hub_id, unknown
from attnscope.capture.pull import (
    convert_local,
    disk_kept,
    disk_needed,
    known_folder,
    pull,
    source_of,
)
from attnscope.capture.store import is_whole
from attnscope.errors import ModelError
from attnscope.trace import ModelInfo

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["Loaded", "ModelFiles", "listing", "load", "offer", "path", "pull", "resolve"]

DTYPES: Final = ("float32", "bfloat16", "float16", "float64", "auto")


@dataclass(frozen=True)
class ModelFiles:
    """Where a model is: its folder, and what the user called it."""

    name: str
    folder: Path


@dataclass(frozen=True)
class Loaded:
    """A model ready to run, its tokenizer, and its facts."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    info: ModelInfo
    files: ModelFiles
    seconds: float


def resolve(name: str | Path, *, progress: Progress = silent) -> ModelFiles:
    """Find the folder of a model, converting the user's own GGUF file the first time.

    Args:
        name: a short name, the path of a folder or of a .gguf file, or a hub id that was fetched.
            A short name wins over a folder of that name; write `./smollm2` for the folder.
        progress: told about a conversion.

    Raises:
        ModelError: there is nothing, or not a model that can be read safely.
    """
    text = str(name)
    if text in KNOWN:
        model = KNOWN[text]
        folder = known_folder(model)
        if not is_whole(folder, source=source_of(model)):
            raise ModelError(
                f"{text} is not here yet. `attnscope models pull {text}` fetches it once "
                f"({model.size / 1e6:.0f} MB)."
            )
        return ModelFiles(text, folder)
    place = _existing(text)
    if place is not None:
        return ModelFiles(text, _from_path(place, progress))
    if text.lower().endswith(".gguf"):
        raise ModelError(f"There is no file {text}.")
    if not is_hub_id(text):
        raise unknown(text)
    cached = hub.cached(text)
    if cached is None:
        raise ModelError(
            f"There is no folder {text}, and it is not in the hub's cache on this machine. "
            f"`attnscope models pull {text}` fetches it from the hub."
        )
    return ModelFiles(text, cached)


def _existing(text: str) -> Path | None:
    try:
        place = Path(text).expanduser()
        return place if text and place.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, a NUL byte, no such user
        return None


def _from_path(place: Path, progress: Progress) -> Path:
    if place.is_dir():
        ggufs = sorted(place.glob("*.gguf"))
        if ggufs and not any(place.glob("*.safetensors")):
            if len(ggufs) > 1:
                raise ModelError(f"{place} holds {len(ggufs)} GGUF files; give one by its path.")
            return convert_local(ggufs[0], progress=progress)
        return place
    with place.open("rb") as file:
        begins = file.read(4)
    if begins == b"GGUF" or place.suffix.lower() == ".gguf":
        return convert_local(place, progress=progress)
    raise ModelError(
        f"{place} is a file but not a GGUF. Give the folder of a model, with its config.json and "
        "safetensors."
    )


def path(name: str | Path) -> Path:
    """The folder a model is loaded from.

    Raises:
        ModelError: as `resolve`.
    """
    return resolve(name).folder


def load(
    name: str | Path = "smollm2",
    *,
    dtype: str | torch.dtype = "float32",
    attn_implementation: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress = silent,
) -> Loaded:
    """Load a model and its tokenizer from this machine's disk, ready to run (eval mode).

    Args:
        name: see `resolve`.
        dtype: of the weights; "auto" keeps the one they are stored in.
        attn_implementation: transformers' attention to use; None for SDPA where the family has it
            (Gemma 2 and gpt-oss do not) and eager elsewhere.
        trust_remote_code: run Python code that lies in the model's folder. Off: such code is never
            run, and a model that needs it is refused.
        progress: told about a conversion.

    Raises:
        ModelError: not found, damaged, incomplete, or only as a pickle.
        UnsupportedModelError: a family without attention or unknown to transformers.
        ConfigError: config.json is not JSON.
        ValueError: an unknown dtype.

    Cost: one pass over the weights' file; nothing is fetched.
    """
    started = time.perf_counter()
    files = resolve(name, progress=progress)
    check_folder(files.folder)
    wanted = _dtype(dtype)
    with quiet_transformers():
        config = check_config(files.folder, trust_remote_code=trust_remote_code)
        tokenizer = load_tokenizer(files.folder, trust_remote_code=trust_remote_code)
        model = _model(
            files.folder,
            config,
            dtype=wanted,
            attn_implementation=attn_implementation or _implementation(config),
            trust_remote_code=trust_remote_code,
        )
    seconds = time.perf_counter() - started
    return Loaded(model, tokenizer, model_info(files.name, config), files, seconds)


def _dtype(given: Any) -> Any:
    import torch

    if isinstance(given, torch.dtype):
        return given
    if given not in DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(DTYPES)}, got {given!r}")
    return given if given == "auto" else getattr(torch, given)


def load_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a model's folder alone.

    Args:
        folder: of `resolve`.
        trust_remote_code: as in `load`.

    Raises:
        ModelError: it is missing or cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=trust_remote_code
        )
    except Exception as error:  # tokenizers raises bare Exception for a broken file
        raise ModelError(
            f"The tokenizer in {folder} cannot be read: {_first_line(error)} A model needs its "
            "tokenizer.json beside config.json."
        ) from error
    return tokenizer


def _implementation(config: Any) -> str:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    made = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    return "sdpa" if made is None or made._supports_sdpa else "eager"


def _model(folder: Path, config: Any, *, trust_remote_code: bool, **how: Any) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM

    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            str(folder),
            config=config,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            **how,
        )
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise ModelError(f"{folder} cannot be loaded: {_first_line(error)}") from error
    missing = sorted(found["missing_keys"])
    if missing:
        raise ModelError(
            f"{folder} is not whole: {len(missing)} tensors are missing, {missing[0]} among them. "
            "They would be random numbers."
        )
    return model.eval()


def _first_line(error: BaseException) -> str:
    """What an error says first, as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = lines[0] if lines else type(error).__name__
    return words if words.endswith((".", "!", "?")) else words + "."


def model_info(name: str, config: Any) -> ModelInfo:
    """The facts a trace keeps about a model, from its config.

    Args:
        name: what to call it.
        config: a transformers config; of one with several parts, the text part counts, and where
            layers differ, the first.
    """
    text = first_layer(config)
    heads = int(text.num_attention_heads)
    width = int(text.hidden_size)
    named = getattr(config, "architectures", None) or [str(text.model_type)]
    vocabulary = getattr(text, "vocab_size", None)
    return ModelInfo(
        name=name,
        architecture=str(named[0]),
        layers=int(text.num_hidden_layers),
        query_heads=heads,
        kv_heads=int(getattr(text, "num_key_value_heads", None) or heads),
        head_width=int(getattr(text, "head_dim", None) or width // heads),
        width=width,
        vocabulary=None if vocabulary is None else int(vocabulary),
    )


def offer(name: str) -> hub.Offer | None:
    """What `pull` would fetch, its licence and size; None when the model is here already.

    Raises:
        ModelError: an unknown name, or the hub cannot be asked about it.
    """
    if name in KNOWN:
        model = KNOWN[name]
        if is_whole(known_folder(model), source=source_of(model)):
            return None
        return hub.Offer(
            model.licence, model.terms, model.size, disk_needed(model), disk_kept(model)
        )
    if _existing(name) is not None:
        return None
    if not is_hub_id(name):
        raise unknown(name)
    return None if hub.cached(name) is not None else hub.offer(name)


def listing() -> list[dict[str, Any]]:
    """The models with a short name: what they are, whose licence they have, and whether here.

    Returns:
        For each: name, title, licence, terms, size (bytes to fetch), needed (bytes of disk while it
        is converted), kept (bytes of its weights on the disk afterwards, or None), here, folder
        (or None).
    """
    found = []
    for model in KNOWN.values():
        folder = known_folder(model)
        here = is_whole(folder, source=source_of(model))
        found.append(
            {
                "name": model.name,
                "title": model.title,
                "licence": model.licence,
                "terms": model.terms,
                "size": model.size,
                "needed": disk_needed(model),
                "kept": disk_kept(model),
                "here": here,
                "folder": str(folder) if here else None,
            }
        )
    return found
