"""The reader's notes on the course: one Markdown file a lesson and language, in a folder of theirs.

The idea: the files are the reader's own, and may be edited elsewhere meanwhile. So a note comes
with a mark of what was read, and is replaced only where the file still has that mark; what cannot
be read as text is never replaced.

Not here: the page's side (static/js/widgets/notes.js), which lessons there are (course.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import AttnscopeError


class NotesError(AttnscopeError):
    """The folder or a file of notes cannot be read or written."""


class NotTextError(NotesError):
    """A file that stands where a note should is no text."""


class ChangedNoteError(NotesError):
    """A note has changed since the page read it."""


@dataclass(frozen=True)
class Note:
    """A note as its file holds it; without a file it is empty.

    Attributes:
        mark: tells one content of the file from another.
    """

    text: bytes
    mark: str


def prepare(folder: Path) -> None:
    """Make the folder, and see that it can be written.

    Raises:
        NotesError: it cannot.
    """
    probe = folder / f".attnscope-{os.getpid()}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise NotesError(
            f"Notes cannot be kept in {folder}: {_why(error)}. Give another folder as --notes."
        ) from error


def read(place: Path) -> Note:
    """A note, empty where there is no file yet.

    Raises:
        NotTextError: what stands there is no file of text.
        NotesError: it cannot be read.
    """
    try:
        text = place.read_bytes()
        text.decode("utf-8")
    except FileNotFoundError:
        text = b""
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise NotTextError(
            f"{place} is no text in UTF-8 and is left as it is; move it away and reload the page."
        ) from error
    except OSError as error:
        raise NotesError(f"{place} cannot be read: {_why(error)}.") from error
    return Note(text, hashlib.sha256(text).hexdigest())


def write(place: Path, text: bytes, *, known: str | None = None) -> Note:
    """Replace a note, whole or not at all.

    Args:
        known: the mark of what the page has read; without one, whatever is there is replaced.

    Raises:
        ChangedNoteError: the file has another mark by now.
        NotTextError: what would be replaced, or replace it, is no text.
        NotesError: it cannot be written.
    """
    now = read(place)
    if known is not None and now.mark != known:
        raise ChangedNoteError(
            f"{place} has changed since this page read it; copy what you wrote and reload the page."
        )
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotTextError("A note is text in UTF-8.") from error
    new = place.with_name(f".{place.name}.new")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(text)
        os.replace(new, place)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise NotesError(f"{place} cannot be written: {_why(error)}.") from error
    return Note(text, hashlib.sha256(text).hexdigest())


def _why(error: OSError) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a file stands where a folder should"
    return (error.strerror or str(error)).lower()
