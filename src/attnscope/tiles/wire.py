"""Tiles as bytes, for a browser that reads them without parsing: a header of 32 bytes, then planes.

The idea: little-endian numbers in the order that a typed array takes them, so that what arrives is
drawn as it is. NaN is masked and 0 is a value. Records stand one behind the other; each says how
long it is. docs/tiles.md describes the same for other programs.

Not here: what is in a tile (tile.py), how records travel (serve, widget).
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from attnscope.tiles.tile import STATES, Tile

VERSION: Final = 1
HEADER: Final = 32
_TILE: Final = struct.Struct("<4sHHHHHHIIII")


def encode(tile: Tile) -> bytes:
    """One tile: magic b"ATTL", and the planes mean, max (float32) and argmax (int32).

    Level 0 has one plane (max is the same as mean); masked and missing tiles have none.

    >>> len(encode(Tile.missing(level=3, x=0, y=0)))
    32
    """
    planes = [] if tile.mean is None else [tile.mean]
    if tile.level > 0 and tile.max is not None and tile.argmax is not None:
        planes += [tile.max, tile.argmax]
    payload = b"".join(_plane(plane) for plane in planes)
    head = _TILE.pack(
        b"ATTL", VERSION, STATES.index(tile.state), len(planes), tile.level, tile.width,
        tile.height, tile.x, tile.y, len(payload), 0,
    )  # fmt: skip
    return head + payload


def decode(data: bytes) -> list[Tile]:
    """The tiles that stand one behind the other in these bytes.

    Raises:
        ValueError: bytes that `encode` does not write.
    """
    found, at = [], 0
    while at < len(data):
        if len(data) - at < HEADER:
            raise ValueError(f"data: expected {HEADER} bytes of header, got {len(data) - at}")
        magic, version, state, count, level, width, height, x, y, size, zero = _TILE.unpack_from(
            data, at
        )
        if magic != b"ATTL" or version != VERSION or zero or state >= len(STATES):
            raise ValueError("data: not a tile of this version")
        if size != 4 * width * height * count or count not in (0, 1, 3):
            raise ValueError(f"data: {size} bytes are not {count} planes of {width} by {height}")
        if len(data) - at - HEADER < size:
            raise ValueError(f"data: expected {size} bytes of planes; it is cut short")
        planes = np.frombuffer(data, "<f4", width * height * count, at + HEADER)
        planes = planes.reshape(count, height, width)
        mean = planes[0] if count else None
        largest = planes[min(count, 2) - 1] if count else None
        place = planes[2].view("<i4") if count == 3 else None
        found.append(
            Tile(STATES[state], level, x, y, width, height, mean=mean, max=largest, argmax=place)
        )
        at += HEADER + size
    return found


def _plane(plane: np.ndarray) -> bytes:
    dtype = "<i4" if plane.dtype.kind == "i" else "<f4"
    return plane.astype(dtype, copy=False).tobytes()
