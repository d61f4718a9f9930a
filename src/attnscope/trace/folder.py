"""A folder that appears whole or not at all.

The idea: everything is written into a hidden sibling, each file is forced to the disk, and the
sibling is renamed last. The writer holds a lock on the sibling while it lives, and the system
drops the lock with the process; so a sibling without a lock is what a killed writer left, and the
next writer removes it. An existing trace is exchanged in one step where the system can do that
(Linux); elsewhere it is moved aside first, and opening says where it is if a crash fell between.

Not here: what is in the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from attnscope.errors import TraceError
from attnscope.trace.format import FOLDER, HEADER

try:
    import fcntl
except ImportError:  # Windows: no locks on folders, so leftovers are reported and not removed
    fcntl = None  # type: ignore[assignment]

_NO_SPACE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


class NewFolder:
    """A folder in the making.

    Args:
        path: where it shall stand.
        overwrite: whether a trace that stands there may be replaced. Nothing but a trace (or an
            empty folder) ever is.

    Raises:
        TraceError: something stands there, or the place cannot be written to.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self.path, self.overwrite = path, overwrite
        self._lock: int | None = None
        _check_target(path, overwrite=overwrite)
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path)
            self.temporary = path.parent / f".{path.name}.partial-{secrets.token_hex(6)}"
            try:
                self.temporary.mkdir()
                self._lock = _locked(self.temporary)
                (self.temporary / FOLDER).mkdir()
            except OSError:
                self.discard()
                raise

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write one file, forced to the disk before this returns."""
        target = self.temporary / name
        with explained(self.path), target.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())

    def publish(self) -> None:
        """Give the folder its name.

        Raises:
            TraceError: something came to stand there meanwhile, or the disk refuses.
        """
        with explained(self.path):
            _sync(self.temporary / FOLDER)
            _sync(self.temporary)
            if self.overwrite and self.path.exists():
                _check_target(self.path, overwrite=True)
                exchange(self.temporary, self.path)
            else:
                try:
                    self.temporary.rename(self.path)
                except OSError as error:
                    if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                        raise _exists(self.path) from None
                    raise
            _sync(self.path.parent)
        self._unlock()

    def discard(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's errors into a sentence about the trace."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise TraceError(
                f"{path}: no room left on the disk for this trace; nothing was left behind."
            ) from error
        raise TraceError(f"{path}: cannot be written ({error.strerror or error}).") from error


def leftovers(path: Path) -> list[Path]:
    """Hidden siblings that a writer of this path made: in the making, or left by a crash."""
    prefixes = (f".{path.name}.partial-", f".{path.name}.old-")
    try:
        found = [entry for entry in path.parent.iterdir() if entry.name.startswith(prefixes)]
    except OSError:
        return []
    return sorted(entry for entry in found if entry.is_dir() and not entry.is_symlink())


def remove_leftovers(path: Path) -> None:
    """Remove siblings whose writer is gone; one that is locked is being written, and stays.

    A trace that was moved aside (`.old-`) is removed only when a whole one stands in its place.
    """
    for entry in leftovers(path):
        if entry.name.startswith(f".{path.name}.old-") and not path.exists():
            continue
        handle = _locked(entry)
        if handle is None:
            continue
        try:
            shutil.rmtree(entry, ignore_errors=True)
        finally:
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """A handle that holds the folder's lock, or None where another process has it."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _check_target(path: Path, *, overwrite: bool) -> None:
    if not path.name:
        raise TraceError(f"{path}: expected the name of a folder.")
    if not os.path.lexists(path):
        return
    if path.is_dir() and not path.is_symlink():
        if not any(path.iterdir()) or (overwrite and (path / HEADER).is_file()):
            return
        if overwrite:
            raise TraceError(f"{path}: is a folder, but not a trace; it is not replaced.")
    elif overwrite:
        raise TraceError(f"{path}: is not a trace folder; it is not replaced.")
    raise _exists(path)


def _exists(path: Path) -> TraceError:
    return TraceError(
        f"{path}: already exists; choose another name, or replace a trace with overwrite=True."
    )


def exchange(new: Path, old: Path) -> None:
    """Put the folder `new` in the place of `old`, which comes back if that fails, and remove it."""
    if _swap(new, old):
        shutil.rmtree(new, ignore_errors=True)
        return
    aside = old.parent / f".{old.name}.old-{secrets.token_hex(6)}"
    old.rename(aside)
    try:
        new.rename(old)
    except OSError:
        aside.rename(old)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system has no such call."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)


def _sync(folder: Path) -> None:
    """Force a folder's entries to the disk; systems that cannot do not need it."""
    if fcntl is None:
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
