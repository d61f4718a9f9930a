"""Read the header of a GGUF file: its keys and its tensors' names, shapes and types, no data.

The idea: the file is mapped, and every length in it is checked against what is left of the file
before it is believed, so a hostile length costs nothing. Long arrays (a tokenizer's words) are
stepped over and stand as their count.

Units: bytes.

Source: the layout is that of the GGUF specification, versions 2 and 3.

Not here: what the keys mean (gguf_model.py).
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from attnscope.errors import ConfigError

MAGIC: Final = b"GGUF"
KEPT_ARRAY: Final = 4096
"""Arrays up to this length are kept (a value per layer); longer ones stand as `Skipped`."""
MOST_KEYS: Final = 100_000
MOST_TENSORS: Final = 1_000_000
MOST_NESTED: Final = 4
STRING, ARRAY = 8, 9

SCALARS: Final[dict[int, struct.Struct]] = {
    number: struct.Struct("<" + code)
    for number, code in {
        0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
    }.items()
}  # fmt: skip

BLOCKS: Final[dict[int, tuple[int, int]]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 40), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
    40: (64, 36), 41: (128, 18),
}  # fmt: skip
"""Numbers in a block and bytes of it, by ggml's type number."""


@dataclass(frozen=True)
class Skipped:
    """An array that was stepped over: how many items it has."""

    count: int


@dataclass(frozen=True)
class Tensor:
    """A tensor as the header describes it."""

    name: str
    shape: tuple[int, ...]
    kind: int

    @property
    def size(self) -> int | None:
        """Bytes of its data, None for a type this reader does not know."""
        if self.kind not in BLOCKS:
            return None
        numbers, size = BLOCKS[self.kind]
        count = 1
        for one in self.shape:
            count *= one
        return -(-count // numbers) * size


@dataclass(frozen=True)
class Header:
    """What a GGUF header holds."""

    version: int
    keys: dict[str, Any]
    tensors: tuple[Tensor, ...]
    data_offset: int

    def weight_bytes(self) -> int | None:
        """Bytes of all tensors, None where a type is unknown or the file is a part of several."""
        if self.keys.get("split.count", 1) not in (0, 1):
            return None
        sizes = [tensor.size for tensor in self.tensors]
        if not sizes or any(size is None for size in sizes):
            return None
        return sum(size for size in sizes if size is not None)


class _Cursor:
    """A place in a mapped file that never reads past the end."""

    def __init__(self, data: mmap.mmap, name: str) -> None:
        self.data, self.name, self.at, self.size = data, name, 0, len(data)

    def need(self, count: int, what: str) -> int:
        """Step over `count` bytes and return where they begin."""
        if count > self.size - self.at:
            raise ConfigError(
                f"{self.name}: {what} at byte {self.at:,} needs {count:,} bytes, but the file ends "
                f"after {self.size - self.at:,} more. The file is cut off or damaged."
            )
        begin, self.at = self.at, self.at + count
        return begin

    def scalar(self, kind: int, what: str) -> Any:
        form = SCALARS[kind]
        return form.unpack_from(self.data, self.need(form.size, what))[0]

    def text(self, what: str) -> str:
        length = self.scalar(10, f"the length of {what}")
        begin = self.need(length, what)
        return bytes(self.data[begin : begin + length]).decode("utf-8", "replace")

    def skip_texts(self, count: int, what: str) -> None:
        """Step over `count` strings, quickly: a tokenizer has some hundred thousand."""
        if count > (self.size - self.at) // 8:
            self.need(count * 8, what)
        data, at, size = self.data, self.at, self.size
        unpack = SCALARS[10].unpack_from
        for _ in range(count):
            if at + 8 > size:
                break
            at += 8 + unpack(data, at)[0]
        if at > size:
            self.need(at - self.at, what)
        self.at = at


def _value(cursor: _Cursor, kind: int, key: str, depth: int = 0) -> Any:
    if kind in SCALARS:
        return cursor.scalar(kind, key)
    if kind == STRING:
        return cursor.text(key)
    if kind != ARRAY:
        raise ConfigError(f"{cursor.name}: the key {key} has type {kind}, which GGUF has not.")
    if depth >= MOST_NESTED:
        raise ConfigError(f"{cursor.name}: the key {key} nests arrays deeper than {MOST_NESTED}.")
    inner = cursor.scalar(4, key)
    count = cursor.scalar(10, f"the length of {key}")
    if inner in SCALARS:
        form = SCALARS[inner]
        begin = cursor.need(count * form.size, key)
        if count > KEPT_ARRAY:
            return Skipped(count)
        return [form.unpack_from(cursor.data, begin + i * form.size)[0] for i in range(count)]
    if inner == STRING and count > KEPT_ARRAY:
        cursor.skip_texts(count, key)
        return Skipped(count)
    if count > KEPT_ARRAY:
        raise ConfigError(f"{cursor.name}: the key {key} holds {count:,} arrays, more than fit.")
    return [_value(cursor, inner, key, depth + 1) for _ in range(count)]


def _tensor(cursor: _Cursor) -> Tensor:
    name = cursor.text("a tensor's name")
    dimensions = cursor.scalar(4, f"the shape of {name}")
    if dimensions > 8:
        raise ConfigError(f"{cursor.name}: the tensor {name} claims {dimensions:,} dimensions.")
    shape = tuple(cursor.scalar(10, f"the shape of {name}") for _ in range(dimensions))
    kind = cursor.scalar(4, f"the type of {name}")
    cursor.scalar(10, f"the place of {name}")
    return Tensor(name, shape, kind)


def _bytes_text(data: bytes) -> str:
    """Bytes for a person: in hex, and as letters where they are.

    >>> _bytes_text(b"GGML"), _bytes_text(b"k\\xe1")
    ('47 47 4d 4c (GGML)', '6b e1')
    """
    text = data.decode("ascii", "replace")
    return data.hex(" ") + (f" ({text})" if text.isascii() and text.isalnum() else "")


def _parse(cursor: _Cursor) -> Header:
    begin = cursor.need(4, "the magic number")
    magic = bytes(cursor.data[begin : begin + 4])
    if magic != MAGIC:
        raise ConfigError(
            f"{cursor.name} is not a GGUF file: it begins with the bytes {_bytes_text(magic)}, "
            f"not with {_bytes_text(MAGIC)}."
        )
    version = cursor.scalar(4, "the version")
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        why = "big-endian" if swapped in (2, 3) else f"of version {version:,}"
        raise ConfigError(f"{cursor.name} is {why}; versions 2 and 3, little-endian, can be read.")
    tensors = cursor.scalar(10, "the number of tensors")
    keys = cursor.scalar(10, "the number of keys")
    for count, most, what in ((tensors, MOST_TENSORS, "tensors"), (keys, MOST_KEYS, "keys")):
        if count > most:
            raise ConfigError(
                f"{cursor.name} claims {count:,} {what}; more than {most:,} are not believed."
            )
    found: dict[str, Any] = {}
    for _ in range(keys):
        key = cursor.text("a key's name")
        found[key] = _value(cursor, cursor.scalar(4, f"the type of {key}"), key)
    described = tuple(_tensor(cursor) for _ in range(tensors))
    return Header(version, found, described, cursor.at)


def read_header(path: str | Path) -> Header:
    """Read a GGUF file's header.

    Args:
        path: the file; of a file in several parts, the first.

    Raises:
        ConfigError: no GGUF file, another version, cut off, or with lengths past its end.

    Cost: the header only, whatever the file's size; memory for the keys that are kept.
    """
    path = Path(path)
    if path.stat().st_size < 24:
        raise ConfigError(f"{path} is not a GGUF file: it has {path.stat().st_size} bytes.")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _parse(_Cursor(data, str(path)))
