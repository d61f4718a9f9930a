"""Models of the hub, by `org/name`: found where its own client keeps them, fetched when asked.

The idea: looking at a model never calls out; only `attnscope models pull org/name` does, and it
takes safetensors, settings and tokenizers, never a pickle or code.

Not here: models with a short name (known.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from attnscope.errors import ModelError

WANTED: Final = ("*.safetensors", "*.json", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt")
UNWANTED: Final = ("original/*", "onnx/*", "*/consolidated*", "consolidated*")
"""The same weights once more, in other forms."""


@dataclass(frozen=True)
class Offer:
    """What a download would bring: the licence its page names, and the bytes.

    Attributes:
        size: bytes to fetch.
        needed: bytes of disk that must be free for fetching and converting; None where nothing is
            converted.
        kept: bytes of the weights that stay on the disk; None where that is not known.
    """

    licence: str
    terms: str
    size: int
    needed: int | None = None
    kept: int | None = None


def cached(name: str) -> Path | None:
    """Where the hub's client keeps this model; None when it has not fetched it. No network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    has_weights = any(folder.glob("*.safetensors"))
    return folder if has_weights and (folder / "config.json").is_file() else None


def offer(name: str) -> Offer:
    """Ask the hub about a model before it is fetched.

    Raises:
        ModelError: the hub cannot be reached, has no such model, or does not let this user have it.
    """
    from fnmatch import fnmatch

    from huggingface_hub import HfApi

    with _Said(name):
        page = HfApi().model_info(name, files_metadata=True)
    licence = getattr(page.card_data, "license", None) or "a licence its page does not name"
    size = sum(
        file.size or 0
        for file in page.siblings or []
        if any(fnmatch(file.rfilename, wanted) for wanted in WANTED)
        and not any(fnmatch(file.rfilename, unwanted) for unwanted in UNWANTED)
    )
    return Offer(str(licence), f"the page of {name} on the hub", size)


def pull_from_hub(name: str) -> Path:
    """Fetch a model with the hub's own client, into its own cache.

    Raises:
        ModelError: as `offer`, or the model has no safetensors.
    """
    from huggingface_hub import snapshot_download

    with _Said(name):
        folder = Path(
            snapshot_download(name, allow_patterns=list(WANTED), ignore_patterns=list(UNWANTED))
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{name} has no safetensors; weights in pickles are never loaded.")
    return folder


def fetch_config(name: str) -> Path:
    """Fetch a model's config.json with the hub's own client, and nothing else of it.

    Raises:
        ModelError: as `offer`.
    """
    from huggingface_hub import hf_hub_download

    with _Said(name):
        return Path(hf_hub_download(name, "config.json"))


class _Said:
    """Turn what the hub's client raises into a sentence."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        from huggingface_hub.errors import (
            GatedRepoError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
            RemoteEntryNotFoundError,
            RepositoryNotFoundError,
        )

        if isinstance(error, GatedRepoError):
            raise ModelError(
                f"{self.name} is given only to those who accepted its terms: do so on its page, "
                "then log in with `hf auth login`."
            ) from error
        if isinstance(error, RepositoryNotFoundError):
            raise ModelError(f"The hub has no model {self.name} that this user may see.") from error
        if isinstance(error, RemoteEntryNotFoundError):
            missing = str(error).splitlines()[-1].rstrip(".")
            raise ModelError(
                f"The hub has {self.name}, but not every file that a model needs: {missing}. "
                "Give the id of a model in transformers' format."
            ) from error
        unreachable = (LocalEntryNotFoundError, OfflineModeIsEnabled, OSError)
        transport = (type(error).__module__ or "").startswith(("httpx", "httpcore"))
        if isinstance(error, unreachable) or (error is not None and transport):
            raise ModelError(
                f"The hub could not be reached for {self.name}: {type(error).__name__}. Check the "
                "network, or give the path of a folder."
            ) from error
