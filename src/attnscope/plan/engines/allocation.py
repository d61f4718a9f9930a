"""One engine's answer: bytes and the arithmetic behind them, or the reason there are none.

Not here: the engines (files beside this one).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Allocation:
    """What an engine allocates for a cache.

    Args:
        size: bytes, None where the engine cannot hold this model's cache, or its way is not known.
        formula: the arithmetic, or the reason.
        parts: the bytes by what they are for.
    """

    engine: str
    version: str
    size: int | None
    formula: str
    parts: tuple[tuple[str, int], ...] = ()
