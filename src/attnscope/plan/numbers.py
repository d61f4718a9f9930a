"""Number formats of a cache: how many bytes a vector of n numbers takes, scales included.

The idea: a cache stores vectors (a key of one head, a latent, a row of a state). A quantised format
stores a scale, and sometimes a zero point, for each group of numbers, so its size is a property of
the vector and not of the single number.

Formula
    bytes(n) = ceil(n * bits / 8) + ceil(n / group) * scale_bytes

Units: bytes.

Not here: what an engine makes of them (engines/).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Format:
    """One number format: bits a number, and what each group of numbers adds."""

    name: str
    bits: int
    group: int = 0
    scale_bytes: int = 0
    note: str = ""

    def vector_bytes(self, width: int) -> int:
        """Bytes of one vector of `width` numbers.

        >>> FORMATS["bf16"].vector_bytes(128), FORMATS["int4"].vector_bytes(128)
        (256, 72)
        """
        scales = -(-width // self.group) * self.scale_bytes if self.group else 0
        return -(-width * self.bits // 8) + scales


FORMATS: Final[dict[str, Format]] = {
    one.name: one
    for one in (
        Format("fp32", 32),
        Format("bf16", 16),
        Format("fp16", 16),
        Format("fp8", 8, note="one scale per tensor, kept with the weights: no byte per token"),
        Format("int8", 8, 64, 4, note="a 2-byte scale and a 2-byte zero point per 64 numbers"),
        Format("int4", 4, 64, 4, note="a 2-byte scale and a 2-byte zero point per 64 numbers"),
    )
}
"""The formats a person may ask for. Groups of 64 are what quanto and hqq use by default, and cost
as much as llama.cpp's q8_0 and q4_0 blocks (1.0625 and 0.5625 bytes a number)."""

PUBLISHED: Final[dict[str, Format]] = {
    one.name: one
    for one in (
        Format("fp4+e4m3/16", 4, 16, 1, note="FP4 numbers, an E4M3 scale per 16"),
        Format("fp4+e8m0/32", 4, 32, 1, note="FP4 numbers, an E8M0 scale per 32"),
    )
}
"""Layouts that came with a model and are used when no other format is asked for."""

ALIASES: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "float32": "fp32",
    "f32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "q8_0": "int8",
    "q4_0": "int4",
}

MODEL_FORMATS: Final = ("fp32", "bf16", "fp16")


def _plain(name: str) -> str:
    """A format's name here, where it has one."""
    plain = str(name).removeprefix("torch.").lower()
    return ALIASES.get(plain, plain)


def find_format(name: str, *, argument: str = "kv_dtype") -> Format:
    """The format called `name`, through its other names.

    Args:
        name: bf16, fp16, fp8, int8, int4, fp32, or a name torch or llama.cpp uses for one.
        argument: what the caller calls it, for the error.

    Raises:
        ValueError: for any other name.

    >>> find_format("bfloat16").name
    'bf16'
    """
    plain = _plain(name)
    if plain not in FORMATS:
        raise ValueError(f"{argument} must be one of {', '.join(FORMATS)}, got {name!r}.")
    return FORMATS[plain]


def model_format(name: str) -> Format:
    """The format of weights and activations: fp32, bf16 or fp16.

    Raises:
        ValueError: for any other name, or a format in which no activation is kept.
    """
    plain = _plain(name)
    if plain not in MODEL_FORMATS:
        smaller = " For a smaller cache, give kv_dtype." if plain in FORMATS else ""
        raise ValueError(
            f"dtype must be one of {', '.join(MODEL_FORMATS)} (what activations are kept in), "
            f"got {name!r}.{smaller}"
        )
    return FORMATS[plain]
