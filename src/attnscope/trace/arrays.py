"""The arrays of one file, in memory or mapped, behind the same three questions.

The idea: `names`, `entry` (dtype and shape) and `read` are all the rest of the package needs. A
mapped file verifies the checksums of the blocks that a read touches, once, so that opening is
instant, a small read stays small, and damaged bytes never become an answer.

Not here: what the values must be (values.py).
"""

from __future__ import annotations

import mmap
import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from attnscope.errors import TraceError
from attnscope.trace.format import (
    ARRAYS,
    BLOCK,
    MAP,
    NUMPY,
    OWN_ARRAY,
    ROPE,
    SIZES,
    dtype_name,
)
from attnscope.trace.header import FileInfo, LayerInfo
from attnscope.trace.tensors import Entry, read_table, view

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening a file that must be a plain file: no links, and no waiting on a pipe."""


class Arrays(Protocol):
    """Where arrays come from."""

    where: str

    def names(self) -> tuple[str, ...]:
        """Which arrays there are."""
        ...

    def entry(self, name: str) -> Entry:
        """The dtype and shape of one."""
        ...

    def read(self, name: str, outer: int | None = None, rows: slice | None = None) -> np.ndarray:
        """One array, or its part `outer` along the first axis, or rows of that along the next."""
        ...

    def verify(self) -> None:
        """Check everything that `read` would check."""
        ...


class MemoryArrays:
    """Arrays that somebody handed over."""

    def __init__(self, arrays: Mapping[str, np.ndarray], where: str) -> None:
        self.where = where
        self._arrays = {name: _plain(name, array) for name, array in arrays.items()}

    def names(self) -> tuple[str, ...]:
        """Which arrays there are."""
        return tuple(self._arrays)

    def entry(self, name: str) -> Entry:
        """The dtype and shape of one."""
        array = self._arrays[name]
        return Entry(dtype_name(array), array.shape, 0)

    def read(self, name: str, outer: int | None = None, rows: slice | None = None) -> np.ndarray:
        """A view of one array or of a part of it."""
        return _part(self._arrays[name], outer, rows)

    def verify(self) -> None:
        """Memory has no checksums."""


def _plain(name: str, array: Any) -> np.ndarray:
    """A numpy array of a dtype the format knows; bfloat16 becomes its bits."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: expected a numpy array, got {type(array).__name__}")
    try:
        known = dtype_name(array)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    return array.view(NUMPY[known]) if array.dtype.name == "bfloat16" else array


class MappedArrays:
    """The arrays of a file of the trace, mapped; bytes are read when they are used."""

    def __init__(self, folder: Path, stored: FileInfo) -> None:
        """Open, check the length, the first block and the table.

        Raises:
            TraceError: no plain file, another length than trace.json says, or a broken table.
        """
        self.where = f"{folder}: {stored.file}"  # who has several traces open must know of which
        self._crc = _checksums(stored)
        self._good = bytearray(len(self._crc))
        self._map = _map(folder / stored.file, stored)
        self._touch(0, 1)
        self._entries = read_table(self._map[:BLOCK], stored.bytes, self.where)

    def names(self) -> tuple[str, ...]:
        """Which arrays there are."""
        return tuple(self._entries)

    def entry(self, name: str) -> Entry:
        """The dtype and shape of one."""
        return self._entries[name]

    def read(self, name: str, outer: int | None = None, rows: slice | None = None) -> np.ndarray:
        """A read-only view, its blocks verified.

        Raises:
            TraceError: the bytes are not those that were written.
        """
        entry = self._entries[name]
        start, length = entry.offset, entry.nbytes
        if outer is not None:
            length //= max(entry.shape[0], 1)
            start += outer * length
            if rows is not None:
                length //= max(entry.shape[1], 1)
                start += rows.start * length
                length *= rows.stop - rows.start
        self._touch(start, start + length)
        return _part(view(self._map, entry), outer, rows)

    def verify(self) -> None:
        """Check every block."""
        self._touch(0, len(self._map))

    def _touch(self, start: int, stop: int) -> None:
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            if self._good[block]:
                continue
            with memoryview(self._map) as whole:
                found = zlib.crc32(whole[block * BLOCK : (block + 1) * BLOCK])
            if found != self._crc[block]:
                raise TraceError(
                    f"{self.where}: bytes {block * BLOCK} and on are not those that were written; "
                    "the file is damaged."
                )
            self._good[block] = 1


def _part(array: np.ndarray, outer: int | None, rows: slice | None) -> np.ndarray:
    if outer is None:
        return array
    return array[outer] if rows is None else array[outer, rows]


def _checksums(stored: FileInfo) -> list[int]:
    blocks = -(-stored.bytes // BLOCK)
    try:
        values = bytes.fromhex(stored.crc32)
    except ValueError:
        values = b""
    if len(stored.crc32) != 8 * blocks or len(values) != 4 * blocks:
        raise TraceError(
            f"trace.json: crc32 of {stored.file}: expected {blocks} checksums of eight hex digits "
            f"for {stored.bytes} bytes."
        )
    return [int.from_bytes(values[i : i + 4], "big") for i in range(0, len(values), 4)]


def _map(path: Path, stored: FileInfo) -> mmap.mmap:
    try:
        handle = os.open(path, os.O_RDONLY | NO_FOLLOW)
    except OSError as error:
        raise TraceError(f"{stored.file}: cannot be opened ({error.strerror}).") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise TraceError(f"{stored.file}: expected a plain file.")
        if found.st_size != stored.bytes or stored.bytes < 8:
            raise TraceError(
                f"{stored.file}: expected {stored.bytes} bytes, got {found.st_size}; "
                "it is cut short or belongs to another trace."
            )
        return mmap.mmap(handle, stored.bytes, access=mmap.ACCESS_READ)
    except (OSError, ValueError, OverflowError) as error:
        raise TraceError(f"{stored.file}: cannot be mapped ({error}).") from None
    finally:
        os.close(handle)


def check_shapes(arrays: Arrays, layer: LayerInfo, statistics: tuple[str, ...]) -> None:
    """Every array has the axes and dtype that format.ARRAYS and the layer's header say.

    Args:
        statistics: the header's names; they decide which arrays must be there.

    Raises:
        TraceError: naming the file, the array, what was expected and what came.
    """
    where, names = arrays.where, set(arrays.names())
    _check_names(where, names, statistics)
    sizes = _sizes(arrays, layer, statistics)
    for name in sorted(names):
        entry, spec = arrays.entry(name), ARRAYS[name]
        if entry.dtype not in spec.dtypes:
            raise TraceError(
                f"{where}: {name}: expected {' or '.join(spec.dtypes)}, got {entry.dtype}."
            )
        expected = tuple(sizes[axis] for axis in spec.axes)
        if entry.shape != expected:
            raise TraceError(
                f"{where}: {name}: expected shape {list(expected)}, got {list(entry.shape)}."
            )
    if arrays.entry("q").dtype != arrays.entry("k").dtype:
        raise TraceError(f"{where}: q and k: expected one dtype.")


def _check_names(where: str, names: set[str], statistics: tuple[str, ...]) -> None:
    unknown = sorted(names - set(ARRAYS))
    if unknown:
        raise TraceError(f"{where}: unknown array {unknown[0][:40]!a}.")
    needed = {name for name, spec in ARRAYS.items() if spec.required}
    needed |= {name for name in OWN_ARRAY if name in statistics}
    if any(name not in OWN_ARRAY for name in statistics):
        needed.add("statistics")
    for together in (MAP, ROPE):
        if names & set(together):
            needed |= set(together)
    missing = sorted(needed - names)
    if missing:
        raise TraceError(f"{where}: the array {missing[0]} is missing.")
    extra = {"statistics", "argmax", "received"} & (names - needed)
    if extra:
        raise TraceError(f"{where}: trace.json does not name the statistics of {min(extra)}.")


def _sizes(arrays: Arrays, layer: LayerInfo, statistics: tuple[str, ...]) -> dict[str, int]:
    """What each letter of format.ARRAYS stands for in this layer."""
    where = arrays.where
    for name in ("q", "k"):
        if len(arrays.entry(name).shape) != 3:
            raise TraceError(f"{where}: {name}: expected three axes.")
    queries, keys = arrays.entry("q").shape[1], arrays.entry("k").shape[1]
    if layer.causal and not layer.cross and queries > keys:
        raise TraceError(f"{where}: {queries} queries cannot stand at the end of {keys} keys.")
    sizes = {
        "H": layer.query_heads,
        "G": layer.kv_heads,
        "D": layer.head_width,
        "T": queries,
        "S": keys,
        "N": sum(name not in OWN_ARRAY for name in statistics),
        "O": max(queries + keys - 1, 0),
        "P": -(-keys // 8),
        "1": 1,
        "2": 2,
    }
    if "rope_frequencies" in arrays.names():
        sizes["R"] = next(iter(arrays.entry("rope_frequencies").shape), 0)
        if 2 * sizes["R"] > layer.head_width:
            raise TraceError(
                f"{where}: rope_frequencies: {sizes['R']} pairs are more than the "
                f"{layer.head_width} numbers of a head."
            )
    if "map_cell" in arrays.names():
        entry = arrays.entry("map_cell")
        if entry.shape != (1,) or entry.dtype != "I32":
            raise TraceError(f"{where}: map_cell: expected one I32.")
        cell = int(arrays.read("map_cell")[0])
        if cell < 1 or cell & (cell - 1):
            raise TraceError(f"{where}: map_cell: expected a power of two, got {cell}.")
        sizes["y"], sizes["x"] = -(-queries // cell), -(-keys // cell)
    return sizes


def file_size(arrays: Arrays) -> int:
    """Bytes of all arrays together."""
    return sum(
        int(np.prod(arrays.entry(name).shape, dtype=np.int64)) * SIZES[arrays.entry(name).dtype]
        for name in arrays.names()
    )
