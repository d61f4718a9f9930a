"""safetensors files, written in one pass and read without trusting a byte.

The idea: the format is eight bytes of length, a JSON table, and the arrays one after another. The
reader checks the table completely (known dtypes, sizes that fit, no gap, no overlap, nothing left
over) before any array exists, so a hostile file costs its own size at most. Files written here
open in every safetensors library.

Dtypes
    those of format.SIZES; the bits of a bfloat16 are uint16 in numpy.

Not here: which arrays a layer has (format.py), checksums (arrays.py), fsync (folder.py).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from attnscope.errors import TraceError
from attnscope.trace.document import parse_json
from attnscope.trace.format import MAX_COUNT, MAX_TENSOR_HEADER, NUMPY, SIZES, dtype_name

_ALIGN: Final = 64
_CHUNK: Final = 1 << 22


@dataclass(frozen=True)
class Entry:
    """One array in a file: dtype, shape, and the byte offset from the file's start."""

    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return math.prod(self.shape) * SIZES[self.dtype]


def plan_file(arrays: Mapping[str, np.ndarray]) -> tuple[bytes, list[str]]:
    """The file's head (length and table) and the order in which the arrays follow it.

    Wider dtypes come first, so every array is aligned to its element.
    """
    names = sorted(arrays, key=lambda name: (-SIZES[dtype_name(arrays[name])], name))
    table: dict[str, Any] = {"__metadata__": {"format": "attnscope.trace"}}
    offset = 0
    for name in names:
        array = arrays[name]
        table[name] = {
            "dtype": dtype_name(array),
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGN)
    return struct.pack("<Q", len(text)) + text, names


def file_bytes(arrays: Mapping[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """The file in pieces of a few MiB; an array that is not contiguous is copied by pieces only."""
    head, names = plan_file(arrays)
    yield head
    for name in names:
        array = arrays[name]
        if array.nbytes == 0:
            continue
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        if array.flags.c_contiguous:
            flat = _bytes(array)
            for start in range(0, len(flat), _CHUNK):
                yield flat[start : start + _CHUNK]
        else:
            yield from _pieces(array)


def _pieces(array: np.ndarray) -> Iterator[memoryview]:
    """A strided array in its logical order, one contiguous copy of a part at a time."""
    if array.ndim > 1 and array.nbytes > _CHUNK:
        for part in array:
            yield from _pieces(part)
    else:
        yield _bytes(np.ascontiguousarray(array))


def _bytes(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return memoryview(array.reshape(-1).view(np.uint8).data)


def read_table(head: bytes, size: int, where: str) -> dict[str, Entry]:
    """Check a file's head and say where each array is.

    Args:
        head: the first bytes of the file, at least 8 + MAX_TENSOR_HEADER of them, or all.
        size: the file's length.
        where: the file's name, for complaints.

    Raises:
        TraceError: naming the file and what is wrong with it.
    """
    if size < 8 or len(head) < 8:
        raise TraceError(f"{where}: {size} bytes are too few for a safetensors file.")
    (length,) = struct.unpack("<Q", head[:8])
    if length > MAX_TENSOR_HEADER or length + 8 > min(size, len(head)):
        raise TraceError(f"{where}: says that its table has {length} bytes, which cannot be.")
    table = parse_json(head[8 : 8 + length], where)
    _check_metadata(table.pop("__metadata__", {}), where)
    start = 8 + length
    entries, ranges = {}, []
    for name, value in table.items():
        entry, begin, end = _entry(value, start, f"{where}: {name[:40]!a}")
        entries[name] = entry
        ranges.append((begin, end))
    expected = 0
    for begin, end in sorted(ranges):
        if begin != expected:
            raise TraceError(f"{where}: its arrays overlap or leave a gap.")
        expected = end
    if start + expected != size:
        raise TraceError(
            f"{where}: expected {start + expected} bytes, got {size}; it is cut short or not whole."
        )
    return entries


def view(buffer: Any, entry: Entry) -> np.ndarray:
    """An array over a buffer, without a copy."""
    return np.ndarray(entry.shape, NUMPY[entry.dtype], buffer=buffer, offset=entry.offset)


def _entry(value: Any, start: int, where: str) -> tuple[Entry, int, int]:
    """One line of the table, checked."""
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise TraceError(f"{where}: expected dtype, shape and data_offsets, and nothing else.")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise TraceError(f"{where}: dtype: expected one of {', '.join(SIZES)}.")
    if not _counts(shape) or len(shape) > 4:
        raise TraceError(f"{where}: shape: expected at most four whole numbers.")
    if not _counts(offsets, most=1 << 48) or len(offsets) != 2:
        raise TraceError(f"{where}: data_offsets: expected two whole numbers.")
    begin, end = offsets
    entry = Entry(dtype, tuple(shape), start + begin)
    if end - begin != entry.nbytes:
        raise TraceError(f"{where}: {end - begin} bytes cannot hold {dtype} {list(shape)}.")
    return entry, begin, end


def _counts(value: Any, most: int = MAX_COUNT) -> bool:
    return isinstance(value, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= most for n in value
    )


def _check_metadata(value: Any, where: str) -> None:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise TraceError(f"{where}: __metadata__: expected names with strings.")
