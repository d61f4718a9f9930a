"""Opens a saved trace: the header whole, every layer's file by memory map.

Not here: what a trace answers (trace.py), what its fields may be (header.py).
"""

from __future__ import annotations

import os
from pathlib import Path

from attnscope.errors import TraceError
from attnscope.trace.arrays import NO_FOLLOW, MappedArrays
from attnscope.trace.document import decode
from attnscope.trace.embeddings import Embeddings
from attnscope.trace.folder import leftovers
from attnscope.trace.format import FOLDER, HEADER, MAX_HEADER
from attnscope.trace.header import read_header
from attnscope.trace.layer import LayerRecord
from attnscope.trace.trace import Trace


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """Open a saved trace by memory map.

    Args:
        path: the folder.

    Returns:
        A `Trace` whose numbers are read, verified and checked when they are used.

    Raises:
        TraceError: no trace there, one of a newer version, or one that is broken; the message
            names the file and what is wrong.

    Cost: the header and the first 256 KiB of each layer, whatever the length of the text.
    """
    folder = Path(path)
    data = _read_header_bytes(folder)
    try:
        header = read_header(decode(data))
        if (folder / FOLDER).is_symlink():
            raise TraceError(f"{FOLDER} is a link; a trace holds its own files.")
        records = {}
        for info in header.layers:
            if info.has_map:
                if info.stored is None:
                    raise TraceError(f"trace.json: layer {info.index}: names no file.")
                arrays = MappedArrays(folder, info.stored)
                records[info.index] = LayerRecord(info, arrays, header)
        embeddings = None
        if header.embeddings is not None:
            embeddings = Embeddings(MappedArrays(folder, header.embeddings))
    except TraceError as error:
        said = str(error).removeprefix(f"{folder}: ")  # a layer's file says it already
        raise TraceError(f"{folder}: {said}") from None
    return Trace(header, records, path=folder, embeddings=embeddings)


def _read_header_bytes(folder: Path) -> bytes:
    if not folder.is_dir():
        said = (
            f"{folder}: there is no such folder."
            if not folder.exists()
            else (f"{folder}: is a file; a trace is a folder.")
        )
        aside = [entry.name for entry in leftovers(folder)]
        if aside:
            said += f" A writer was interrupted and left {aside[-1]} beside it."
        raise TraceError(said)
    try:
        handle = os.open(folder / HEADER, os.O_RDONLY | NO_FOLLOW)
    except FileNotFoundError:
        raise TraceError(f"{folder}: not an attnscope trace (no {HEADER}).") from None
    except OSError as error:
        raise TraceError(f"{folder}: {HEADER} cannot be opened ({error.strerror}).") from None
    with os.fdopen(handle, "rb") as file:
        try:
            return file.read(MAX_HEADER + 1)
        except OSError as error:
            raise TraceError(f"{folder}: {HEADER} cannot be read ({error.strerror}).") from None
