"""Answers as bytes that a browser draws as they are: 32 bytes of header, then numbers.

The idea: little-endian numbers in the order that a typed array takes them, so that what arrives is
drawn as it is. NaN is masked and 0 is a value. Records stand one behind the other; each says how
long it is. docs/tiles.md describes the same for other programs.

Not here: what is in an answer (tiling.py, tracks.py, rows.py), how it travels (serve, widget).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from attnscope.tiles.rows import Flow, Row
from attnscope.tiles.tiling import STATES, Tile
from attnscope.tiles.tracks import TrackTile

VERSION: Final = 1
HEADER: Final = 32
_TILE: Final = struct.Struct("<4sHHHHHHIIII")
_TRACK: Final = _TILE
_ROW: Final = struct.Struct("<4sHHIf16x")
_FLOW: Final = struct.Struct("<4sHHII16x")
_COLUMN: Final = struct.Struct("<4sHHI20x")

Answer = Tile | TrackTile | Row | Flow | np.ndarray


def encode(tile: Tile) -> bytes:
    """One tile: magic b"ATTL", and the planes mean, max (float32) and argmax (int32).

    Level 0 has one plane (max is the same as mean); masked and missing tiles have none.

    >>> len(encode(Tile.missing(level=3, x=0, y=0)))
    32
    """
    planes = [] if tile.mean is None else [tile.mean]
    if tile.level > 0 and tile.max is not None and tile.argmax is not None:
        planes += [tile.max, tile.argmax]
    payload = b"".join(_numbers(plane) for plane in planes)
    head = _TILE.pack(
        b"ATTL", VERSION, STATES.index(tile.state), len(planes), tile.level, tile.width,
        tile.height, tile.x, tile.y, len(payload), 0,
    )  # fmt: skip
    return head + payload


def encode_track(piece: TrackTile) -> bytes:
    """A piece of a track: magic b"ATTR", and the planes mean and max; none where missing."""
    planes = [] if piece.mean is None or piece.max is None else [piece.mean, piece.max]
    payload = b"".join(_numbers(plane) for plane in planes)
    head = _TRACK.pack(
        b"ATTR", VERSION, STATES.index(piece.state), len(planes), piece.level, piece.width,
        piece.index, piece.x, 0, len(payload), 0,
    )  # fmt: skip
    return head + payload


def encode_row(row: Row) -> bytes:
    """A row: magic b"ATRW", the weights, and what arrived where it is known (flag 1)."""
    flags = int(row.arrived is not None)
    head = _ROW.pack(b"ATRW", VERSION, flags, len(row.weights), row.sink)
    return head + _numbers(row.weights) + (b"" if row.arrived is None else _numbers(row.arrived))


def encode_column(column: np.ndarray) -> bytes:
    """A column: magic b"ATCL", and the weights of every query."""
    return _COLUMN.pack(b"ATCL", VERSION, 0, len(column)) + _numbers(column)


def encode_flow(flow: Flow) -> bytes:
    """A flow: magic b"ATFL", the layers' numbers, their weights, what arrived (flag 1)."""
    flags, (layers, keys) = int(flow.arrived is not None), flow.weights.shape
    head = _FLOW.pack(b"ATFL", VERSION, flags, layers, keys)
    arrived = b"" if flow.arrived is None else _numbers(flow.arrived)
    return head + _numbers(flow.layers) + _numbers(flow.weights) + arrived


def decode(data: bytes, *, tracks: tuple[str, ...] = ()) -> list[Answer]:
    """The answers that stand one behind the other in these bytes.

    Args:
        tracks: the names that a track's index counts, `info`'s tracks.

    Raises:
        ValueError: bytes that no function above writes.
    """
    reader = _Reader(data)
    found: list[Answer] = []
    while reader.at < len(data):
        magic = data[reader.at : reader.at + 4]
        if magic not in _READ:
            raise ValueError(f"data: no record begins with {magic!r}")
        answer: Answer = _READ[magic](reader)
        if isinstance(answer, TrackTile) and answer.index < len(tracks):
            answer = TrackTile(**{**vars(answer), "name": tracks[answer.index]})
        found.append(answer)
    return found


@dataclass
class _Reader:
    """A place in some bytes."""

    data: bytes
    at: int = 0

    def head(self, form: struct.Struct) -> tuple:
        """A record's header behind its magic and version."""
        left = len(self.data) - self.at
        if left < HEADER:
            raise ValueError(f"data: expected {HEADER} bytes of header, got {left}")
        _, version, *rest = form.unpack_from(self.data, self.at)
        if version != VERSION:
            raise ValueError(f"data: expected version {VERSION}, got {version}")
        self.at += HEADER
        return tuple(rest)

    def take(self, dtype: str, *shape: int) -> np.ndarray:
        """The next numbers; a view of the bytes."""
        count = int(np.prod(shape, dtype=np.int64))
        if len(self.data) - self.at < 4 * count:
            raise ValueError(f"data: expected {4 * count} bytes of numbers; it is cut short")
        numbers = np.frombuffer(self.data, dtype, count, self.at).reshape(shape)
        self.at += 4 * count
        return numbers


def _tile(reader: _Reader) -> Tile:
    state, count, level, width, height, x, y, size, zero = reader.head(_TILE)
    if zero or state >= len(STATES) or count not in (0, 1 if level == 0 else 3):
        raise ValueError("data: not a tile of this version")
    if size != 4 * width * height * count:
        raise ValueError(f"data: {size} bytes are not {count} planes of {width} by {height}")
    shape = height, width
    mean = reader.take("<f4", *shape) if count else None
    largest = reader.take("<f4", *shape) if count == 3 else mean
    place = reader.take("<i4", *shape) if count == 3 else None
    return Tile(STATES[state], level, x, y, width, height, mean, largest, place)


def _track(reader: _Reader) -> TrackTile:
    state, count, level, width, index, x, zero, size, other = reader.head(_TRACK)
    if zero or other or state >= len(STATES) or count not in (0, 2):
        raise ValueError("data: not a track of this version")
    if size != 4 * width * count:
        raise ValueError(f"data: {size} bytes are not {count} planes of {width}")
    mean, largest = (reader.take("<f4", width) if count else None for _ in range(2))
    return TrackTile(STATES[state], "", index, level, x, width, mean, largest)


def _row(reader: _Reader) -> Row:
    flags, count, sink = reader.head(_ROW)
    weights = reader.take("<f4", count)
    return Row(weights, reader.take("<f4", count) if flags & 1 else None, sink)


def _column(reader: _Reader) -> np.ndarray:
    _, count = reader.head(_COLUMN)
    return reader.take("<f4", count)


def _flow(reader: _Reader) -> Flow:
    flags, layers, keys = reader.head(_FLOW)
    numbers, weights = reader.take("<i4", layers), reader.take("<f4", layers, keys)
    return Flow(numbers, weights, reader.take("<f4", layers, keys) if flags & 1 else None)


_READ: Final[dict[bytes, Callable[[_Reader], Answer]]] = {
    b"ATTL": _tile, b"ATTR": _track, b"ATRW": _row, b"ATCL": _column, b"ATFL": _flow,
}  # fmt: skip


def _numbers(values: np.ndarray) -> bytes:
    return values.astype("<i4" if values.dtype.kind == "i" else "<f4", copy=False).tobytes()
