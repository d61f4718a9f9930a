"""Every attention mechanism from the RNN to linear and sparse attention, one file each.

The idea: a file holds the formula as a function that can be read, the module that a real layer's
weights load into, and what both cost; `CATALOGUE` lists them in the order in which each solved what
the one before got stuck at.

Not here: what two mechanisms share (core/), positions (positions/), what is kept between calls
(caches/). No mechanism imports another.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from attnscope.core.mechanism import About

    CATALOGUE: tuple[About, ...]

NAMES: Final[tuple[str, ...]] = (
    "rnn",
    "additive",
    "dot_product",
    "rivals",
    "masking",
    "rope",
    "multi_head",
    "qk_norm",
    "qk_clip",
    "sinks",
    "gated",
    "cache",
    "grouped",
    "sliding",
    "latent",
    "gated_delta",
    "sparse",
    "compressed",
)
"""The files, in the order of the catalogue."""

__all__ = ["CATALOGUE", "NAMES"]


def __getattr__(name: str) -> Any:
    """`CATALOGUE` is gathered when somebody asks; so `python -m` finds its module fresh."""
    if name == "CATALOGUE":
        found = tuple(importlib.import_module(f"{__name__}.{n}").ABOUT for n in NAMES)
        globals()[name] = found
        return found
    if name in NAMES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
