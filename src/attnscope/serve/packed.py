"""Arrays as text for a stand-alone page: byte planes, deflated, in base64.

The idea: the numbers stay exactly what they are. The upper bytes of floating-point numbers (sign,
exponent) repeat while the lower ones look random, so bytes of one kind stand together and the upper
planes shrink. docs/export.md says the same for the page.

Not here: which arrays (export.py).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

LEVEL: Final = 6


class Pack:
    """Collects arrays; `entries` describes them, `text` holds them.

    >>> pack = Pack()
    >>> pack.add("q", np.array([1, 2], np.float32), layer=3, head=0)
    >>> pack.entries[0]["dtype"], pack.entries[0]["shape"], pack.bytes
    ('f4', [2], 8)
    """

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.bytes = 0
        self._deflate = zlib.compressobj(LEVEL)
        self._parts: list[bytes] = []

    def add(self, name: str, array: np.ndarray, *, layer: int, head: int | None) -> None:
        """One array; float64 and float16 become float32, which holds what captures compute in."""
        dtype, plain = _plain(array)
        size = plain.dtype.itemsize
        planes = plain.reshape(-1).view(np.uint8).reshape(-1, size).T
        body = np.ascontiguousarray(planes).tobytes()
        self.entries.append(
            {
                "name": name, "layer": layer, "head": head, "dtype": dtype,
                "shape": list(array.shape), "at": self.bytes,
            }
        )  # fmt: skip
        self.bytes += len(body)
        self._parts.append(self._deflate.compress(body))

    def text(self) -> Iterator[str]:
        """All of it as base64, in lines; ends the pack."""
        whole = b"".join([*self._parts, self._deflate.flush()])
        self._parts = []
        for at in range(0, len(whole), 3 << 18):
            yield base64.b64encode(whole[at : at + (3 << 18)]).decode("ascii") + "\n"


def _plain(array: np.ndarray) -> tuple[str, np.ndarray]:
    if array.dtype == np.uint8:
        return "u1", np.ascontiguousarray(array)
    if array.dtype == np.uint16:  # the bits of a bfloat16
        return "bf16", np.ascontiguousarray(array, "<u2")
    if array.dtype.kind == "i":
        return "i4", np.ascontiguousarray(array, "<i4")
    return "f4", np.ascontiguousarray(array, "<f4")
