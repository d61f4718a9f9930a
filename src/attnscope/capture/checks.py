"""What must be true of a model's folder before anything in it is loaded.

The idea: transformers would fill a missing tensor with random numbers, read a pickle where there is
no safetensors file, and speak of its own classes when a file is broken. So the folder is looked
over first, and each fault gets its own sentence.

Not here: whether a family's attention can be observed (interface.py).
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, Final

from attnscope.errors import ModelError, UnsupportedModelError
from attnscope.plan.find import load_json

PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
HEADS: Final = (
    "num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads",
    "decoder_attention_heads", "num_decoder_attention_heads",
)  # fmt: skip


def check_folder(folder: Path) -> None:
    """Look over the files: a config, whole safetensors, no pickle in their place.

    Raises:
        ModelError: the folder is empty, or its weights are missing, pickled or damaged.
        ConfigError: config.json is not JSON.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        raise ModelError(f"{folder} is empty. A model's folder has config.json and safetensors.")
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json, so it is not a model's folder.")
    load_json(folder / "config.json")
    for file in _weight_files(folder):
        check_safetensors(file)


def _weight_files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if index.is_file():
        return _shards(index)
    pickles = sorted(one.name for pattern in PICKLES for one in folder.glob(pattern))
    if pickles:
        raise ModelError(
            f"{folder} has its weights only as a pickle ({pickles[0]}), which can run any code "
            "when it is opened and is never loaded. Convert it to safetensors."
        )
    raise ModelError(f"{folder} has neither {SINGLE} nor {INDEX}: there are no weights to load.")


def _shards(index: Path) -> list[Path]:
    places = load_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ModelError(f"{index} names no weights.")
    found = []
    for name in sorted({str(one) for one in places.values()}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelError(f"{index} names {name!r}, which is not a safetensors file beside it.")
        if not (index.parent / name).is_file():
            raise ModelError(f"{index.parent / name} is missing; fetch the model again.")
        found.append(index.parent / name)
    return found


def check_safetensors(file: Path) -> None:
    """Read a safetensors header; the length it claims must be the file's.

    Raises:
        ModelError: damaged or cut off.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="numpy") as opened:
            names = list(opened.keys())
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file} is damaged or cut off ({error}). Fetch it again.") from error
    if not names:
        raise ModelError(f"{file} holds no tensors.")


def check_config(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """Read config.json as transformers does, and see that it describes a decoder with attention.

    Returns:
        The transformers config.

    Raises:
        ModelError: fields are missing or have the wrong type.
        UnsupportedModelError: no attention, no text decoder, an unknown family, or one that needs
            code of its own.
    """
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    raw = load_json(folder / "config.json")
    family = raw.get("model_type")
    if not isinstance(family, str) or not family:
        raise ModelError(f"{folder / 'config.json'} has no model_type, so its family is unknown.")
    own_code = "auto_map" in raw
    if family not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not (own_code and trust_remote_code):
        raise UnsupportedModelError(_why_not(family, own_code, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
    try:
        config = AutoConfig.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=trust_remote_code
        )
    except Exception as error:  # config classes validate with exceptions of their own
        words = " ".join(str(error).split())
        raise ModelError(f"{folder / 'config.json'} cannot be read: {words}") from error
    text = first_layer(config)
    heads = getattr(text, "num_attention_heads", None)
    if not isinstance(heads, int) or heads <= 0 or not _has_heads(raw, text):
        raise UnsupportedModelError(
            f"{family!r} models have no attention heads in their config.json: there is no "
            "attention to look at."
        )
    return config


def first_layer(config: Any) -> Any:
    """The text part of a transformers config, as its first layer has it.

    Where layers differ (heads of Gemma 4 are wider in full layers), a config has no answer of its
    own, and says so by an exception.
    """
    text = config.get_text_config(decoder=True)
    return text.per_layer_config[0] if getattr(text, "is_heterogeneous", False) else text


def _has_heads(raw: dict[str, Any], text: Any) -> bool:
    """Whether the heads are the family's own, and not a number every config object has."""
    written = json.dumps(raw)
    return any(f'"{name}"' in written for name in HEADS) or "num_attention_heads" in vars(text)


def _why_not(family: str, own_code: bool, known: Any) -> str:
    if own_code:
        return (
            f"{family!r} models need Python code that comes with the model, which is not run "
            "unless you ask for it (trust_remote_code=True)."
        )
    near = difflib.get_close_matches(family, list(known), 1)
    hint = f" Near: {near[0]}." if near else ""
    return f"transformers has no text decoder of the family {family!r}.{hint}"
