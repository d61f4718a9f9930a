"""Write the site into a folder: all of it or nothing, and never over what is not its own.

The idea: the folder is judged before anything is made; the site is written into a hidden folder
beside it, which takes its place when it is whole. A marker lists the files of an export, so that a
later one knows what it may replace.

Not here: what the files hold (build.py).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attnscope.lessons.site.build import build
from attnscope.lessons.site.course import Course
from attnscope.trace.folder import exchange

MARKER: Final = "attnscope-course.json"
FORMAT: Final = "attnscope.course/1"
ADVICE: Final = "Give a new folder, an empty one, or an earlier export's."


def export(
    folder: Path, course: Course | None = None, *, begin: Callable[[], None] | None = None
) -> list[Path]:
    """Write the site into a folder, in the place of an earlier export.

    Args:
        folder: a new one, an empty one, or an earlier export's; folders above it are made.
        course: what to write; the course that comes with the package if not given.
        begin: called when the folder was found fit, before the pages are made.

    Returns:
        The site's files, in the order of their paths; the marker beside them is not one.

    Raises:
        ValueError: the folder is a file, holds what no export put there, or cannot be replaced.
        OSError: the place cannot be written; said before the pages are made.
        ContentError: something in the content is wrong.

    Cost: that of `build`, some twenty seconds. Until it is done the folder stays as it was.
    """
    place = folder.resolve()
    _refuse(place, folder)
    hidden = _beside(place, folder)
    try:
        if begin is not None:
            begin()
        files = build(course)
        for path, content in files.items():
            file = hidden / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        marker = {"format": FORMAT, "files": sorted(files)}
        (hidden / MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
        _refuse(place, folder)  # making the pages took its time
        if place.exists():
            exchange(hidden, place)
        else:
            hidden.rename(place)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return [folder / path for path in sorted(files)]


def _refuse(place: Path, folder: Path) -> None:
    """Raise where the folder may not be replaced."""
    if not place.exists():
        return
    if not place.is_dir():
        raise ValueError(f"{folder} is a file. {ADVICE}")
    if place == Path.cwd() or os.path.ismount(place):
        raise ValueError(f"{folder} cannot be replaced as a whole; give a folder in it.")
    own = _own(place)
    # Where no export was, the first name will do: a home folder is not walked through.
    for one in place.rglob("*") if own else place.iterdir():
        name = one.relative_to(place).as_posix()
        if name not in own and (not own or one.is_symlink() or not one.is_dir()):
            raise ValueError(f"{folder} holds other files: {name}. {ADVICE}")


def _own(place: Path) -> set[str]:
    """The files that an earlier export put into a folder; none where there is no such marker."""
    try:
        marker = json.loads((place / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    if not isinstance(marker, dict) or marker.get("format") != FORMAT:
        return set()
    files = marker.get("files")
    return {MARKER, *map(str, files)} if isinstance(files, list) else set()


def _beside(place: Path, folder: Path) -> Path:
    """A new hidden folder in the same folder, with the rights that a new folder gets."""
    hidden = place.parent / f".{place.name}-{secrets.token_hex(4)}"
    try:
        hidden.mkdir(parents=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None
    return hidden
