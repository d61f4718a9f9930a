"""What a trace folder consists of: names, limits and the shape of every array, in one place.

The idea: writer, reader and the checks all read the same tables, so they cannot disagree. The
prose for other programs is docs/trace.md.

Shapes
    letters as in shapes.py; N row statistics stored together; y, x rows and columns of the pooled
    map; O = T + S - 1 offsets; P = ceil(S / 8) bytes of packed bits; R pairs that are turned.

Not here: reading or writing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

FORMAT: Final = "attnscope.trace"
VERSION: Final = 1
HEADER: Final = "trace.json"
FOLDER: Final = "layers"
EMBEDDINGS: Final = "embeddings.safetensors"

BLOCK: Final = 1 << 18
"""Bytes per checksum: a read verifies the blocks that it touches, so small reads stay small."""

MAX_HEADER: Final = 64 << 20
"""Bytes of trace.json; a million tokens take about this much."""
MAX_MARKS: Final = 8_000_000
"""Commas and opening brackets in trace.json: an upper bound on what parsing can allocate."""
MAX_TENSOR_HEADER: Final = BLOCK - 8
"""A file's table of arrays stands within its first checksummed block."""
MAX_LAYERS: Final = 4096
MAX_COUNT: Final = 1 << 31
"""No count of tokens, heads or widths reaches this; it keeps products within 64 bits."""
MAX_STATISTICS: Final = 64

LAYER_FILE: Final = re.compile(r"layers/[0-9]{3,5}\.safetensors")
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")

OWN_ARRAY: Final = ("logsumexp", "argmax", "received")
"""Statistics that have an array of their own; all others share the array `statistics`."""

SIZES: Final[dict[str, int]] = {"F64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "U8": 1}
"""The safetensors dtypes that a trace may hold, and their bytes."""

NUMPY: Final[dict[str, np.dtype]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),  # numpy has no bfloat16: its bits travel as uint16
    "U8": np.dtype("u1"),
}

_VECTORS = ("F32", "F16", "BF16", "F64")
_REAL = ("F32", "F64")


@dataclass(frozen=True)
class Spec:
    """One array of a layer's file: its axes, its possible dtypes, and whether it must be there."""

    axes: str
    dtypes: tuple[str, ...]
    required: bool = False


ARRAYS: Final[dict[str, Spec]] = {
    "q": Spec("HTD", _VECTORS, required=True),
    "k": Spec("GSD", _VECTORS, required=True),
    "logsumexp": Spec("HT", _REAL, required=True),
    "first": Spec("T", ("I32",), required=True),
    "end": Spec("T", ("I32",), required=True),
    "origin": Spec("T", ("I32",), required=True),
    "value_norms": Spec("HS", _REAL),
    "sinks": Spec("H", _REAL),
    "statistics": Spec("NHT", _REAL),
    "argmax": Spec("HT", ("I32",)),
    "received": Spec("HS", _REAL),
    "map_mean": Spec("Hyx", _REAL),
    "map_max": Spec("Hyx", _REAL),
    "map_argmax": Spec("Hyx", ("I32",)),
    "map_cell": Spec("1", ("I32",)),
    "bias_by_offset": Spec("HO", _REAL),
    "bias": Spec("HTS", _REAL),
    "mask": Spec("TP", ("U8",)),
    "rope_frequencies": Spec("R", ("F32",)),
    "rope_pairs": Spec("R2", ("I32",)),
}

MAP: Final = ("map_mean", "map_max", "map_argmax", "map_cell")
"""The pooled map's arrays: all four or none."""

ROPE: Final = ("rope_frequencies", "rope_pairs")
"""How queries and keys were turned: both or none."""


def layer_file(index: int) -> str:
    """The name of a layer's file inside the folder.

    >>> layer_file(7)
    'layers/007.safetensors'
    """
    return f"{FOLDER}/{index:03d}.safetensors"


def dtype_name(array: np.ndarray) -> str:
    """The safetensors name of a numpy dtype; the bits of a bfloat16 come as uint16.

    Raises:
        TypeError: a dtype that a trace does not hold.

    >>> dtype_name(np.zeros(1, np.uint16)), dtype_name(np.zeros(1, np.float16))
    ('BF16', 'F16')
    """
    if array.dtype.name == "bfloat16":  # ml_dtypes' extension type, where somebody uses it
        return "BF16"
    for name, dtype in NUMPY.items():
        if array.dtype.newbyteorder("<") == dtype:
            return name
    known = "float16, float32, float64, int32, uint8, and uint16 for the bits of a bfloat16"
    raise TypeError(f"a trace holds {known}; got {array.dtype}")
