"""The files of a model's folder, read without trusting them: config.json and mapped tensors.

The idea: a reader that is asked for each tensor by name and shape, and at the end for what is left
over. A tensor that is missing, misshapen or without a place is named; nothing is ever filled in,
and nothing that could run code (a pickle) is opened.

Units: bytes. Dtypes: as stored, until one is asked for.

Not here: which tensors a model needs (decoder.py); finding and fetching models (capture/).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open

from attnscope.errors import ConfigError, ModelError
from attnscope.plan.find import load_json

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model's folder.

    Raises:
        ModelError: the folder or the file is not there.
        ConfigError: the file is no JSON object.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder. Give the folder of a model.")
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json, so it is not a model's folder.")
    return load_json(folder / "config.json")


def read_ends(folder: Path, config: dict[str, Any]) -> tuple[int, ...]:
    """The ids that end a text: generation_config.json's, else config.json's.

    Raises:
        ConfigError: they are not whole numbers.
    """
    ends = None
    if (folder / "generation_config.json").is_file():
        ends = load_json(folder / "generation_config.json").get("eos_token_id")
    if ends is None:
        ends = config.get("eos_token_id", (config.get("text_config") or {}).get("eos_token_id"))
    found = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
        raise ConfigError(f"{folder}: eos_token_id: expected an id or a list of ids, got {ends!r}.")
    return tuple(found)


class TensorFiles:
    """Every tensor of a folder's safetensors files, by name, mapped and not yet read.

    Args:
        folder: with model.safetensors, or with an index and its shards.

    Raises:
        ModelError: no safetensors, only a pickle, a shard that is missing, damaged or elsewhere.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._taken: set[str] = set()
        self._files: dict[str, Any] = {}
        if (folder / SINGLE).is_file():
            self._open(folder / SINGLE)
        elif (folder / INDEX).is_file():
            self._open_shards()
        else:
            raise self._nothing()

    def _open(self, file: Path, promised: Iterable[str] = ()) -> None:
        try:
            opened = safe_open(str(file), framework="pt")
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{file} is damaged or cut off ({error}). Fetch it again.") from error
        names = set(opened.keys())
        for name in promised:
            if name not in names:
                raise ModelError(f"{file} has no tensor {name}, which {INDEX} places there.")
        for name in names:
            if name in self._files:
                raise ModelError(f"{file} holds the tensor {name} a second time.")
            self._files[name] = opened

    def _open_shards(self) -> None:
        index = self.folder / INDEX
        places = load_json(index).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise ModelError(f"{index} names no tensors.")
        shards: dict[str, list[str]] = {}
        for name, shard in places.items():
            shards.setdefault(str(shard), []).append(name)
        for shard, promised in sorted(shards.items()):
            if Path(shard).name != shard or not shard.endswith(".safetensors"):
                raise ModelError(
                    f"{index} names {shard!r}, which is not a safetensors file beside it."
                )
            if not (self.folder / shard).is_file():
                raise ModelError(f"{self.folder / shard} is missing; fetch the model again.")
            self._open(self.folder / shard, promised)

    def _nothing(self) -> ModelError:
        pickles = sorted(one.name for kind in PICKLES for one in self.folder.glob(kind))
        if pickles:
            return ModelError(
                f"{self.folder} has its weights only as a pickle ({pickles[0]}), which can run any "
                "code when it is opened and is never loaded. Convert it to safetensors."
            )
        return ModelError(
            f"{self.folder} has neither {SINGLE} nor {INDEX}: there are no weights to load."
        )

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def names(self) -> list[str]:
        """Every name, in order."""
        return sorted(self._files)

    def take(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """One tensor, which counts as used from now on.

        Args:
            name: as the file has it.
            shape: what the config says it must be.
            dtype: to convert to; as stored if not given.

        Returns:
            The tensor: where the dtype is the stored one it is the mapped file itself, which
            nobody may write to, and whose pages are read when they are first touched.

        Raises:
            ModelError: missing, of another shape, or stored in a format that is no float.
        """
        if name not in self._files:
            raise ModelError(f"{self.folder} has no tensor {name}, which the config asks for.")
        found = self._files[name].get_slice(name)
        stored = tuple(found.get_shape())
        if stored != tuple(shape):
            raise ModelError(
                f"{self.folder}: the tensor {name} is {list(stored)}, and the config asks for "
                f"{list(shape)}."
            )
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            raise ModelError(
                f"{self.folder}: the tensor {name} is stored as {tensor.dtype}. Quantised weights "
                "are not read; give the model in float32, bfloat16 or float16."
            )
        self._taken.add(name)
        return tensor if dtype is None else tensor.to(dtype)

    def left_over(self) -> list[str]:
        """Names that nobody took."""
        return sorted(self._files.keys() - self._taken)
