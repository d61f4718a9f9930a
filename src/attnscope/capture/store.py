"""Where converted models are kept, and how one gets there whole or not at all.

The idea: a model is made in a hidden folder beside its place and renamed when everything is on the
disk. Who reads sees a whole model or none; who makes the same model twice at once makes it twice,
and the second keeps what the first put there.

Not here: what is in a model's folder (convert.py).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attnscope.errors import ModelError

CARD: Final = "attnscope-model.json"
"""Written last into a converted folder: what it was made from, and by which version of this."""
VERSION: Final = 2
"""Of the conversion; a folder of another version is made anew."""
STALE_SECONDS: Final = 24 * 3600
"""A hidden folder this old was left by something that was killed."""


def models_folder() -> Path:
    """The folder of all converted models: `$XDG_CACHE_HOME/attnscope/models` or `~/.cache/...`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"  # as the XDG text asks
    return root / "attnscope" / "models"


def is_whole(folder: Path, *, source: str) -> bool:
    """Whether `folder` holds a conversion of `source` by this version."""
    card = read_card(folder)
    return card.get("version") == VERSION and card.get("source") == source


def read_card(folder: Path) -> dict[str, Any]:
    """What the folder says it was made from; nothing where there is no readable card."""
    try:
        card = json.loads((folder / CARD).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return card if isinstance(card, dict) else {}


def write_card(folder: Path, *, source: str, **facts: Any) -> None:
    """Say what a folder was made from; the last thing written into it."""
    card = {"format": "attnscope.model", "version": VERSION, "source": source, **facts}
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", "utf-8")


@contextmanager
def making(folder: Path, *, needed: int) -> Iterator[Path]:
    """Give a hidden folder to fill; it becomes `folder` when the block ends well, else it goes.

    Args:
        folder: the place of the finished model.
        needed: bytes that will be written.

    Raises:
        ModelError: the disk is full, or may not be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise _cannot_write(folder, error) from error
    try:
        free = shutil.disk_usage(hidden).free
        if free < needed:
            raise ModelError(
                f"{folder.parent} has {free:,} bytes free and the model needs {needed:,}. Make "
                "room, or set XDG_CACHE_HOME to a larger disk."
            )
        yield hidden
        _publish(hidden, folder)
    except OSError as error:
        raise _cannot_write(folder, error) from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _cannot_write(folder: Path, error: OSError) -> ModelError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelError(
            f"The disk of {folder.parent} is full. Make room, or set XDG_CACHE_HOME to a larger "
            "disk; nothing half-written was kept."
        )
    return ModelError(
        f"{folder} cannot be made: {error.strerror or error}. XDG_CACHE_HOME names another place."
    )


def _sweep(folder: Path) -> None:
    """Remove what killed processes left behind for this model."""
    for left in folder.parent.glob(f".{folder.name}-*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _publish(hidden: Path, folder: Path) -> None:
    made = read_card(hidden)
    hidden.chmod(0o755)
    for file in hidden.rglob("*"):
        if file.is_file():
            file.chmod(0o644)
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
    for _ in range(3):
        try:
            os.rename(hidden, folder)
            return
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        if made and is_whole(folder, source=made["source"]):
            return  # somebody else was faster with the same
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        with suppress(FileNotFoundError):
            os.rename(folder, old / "old")
        shutil.rmtree(old, ignore_errors=True)
    raise ModelError(f"{folder} is being made by several processes at once; try again.")
