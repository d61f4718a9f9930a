"""What may be asked of `attend` beyond its output: the names, and the parameters they need.

The idea: a statistic that nobody asked for costs nothing, so the question is an object of its own.

Not here: how a statistic is computed (statistics.py for the formulas, strip.py and fused.py for
the two fast ways).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import torch

ROW_STATISTICS: Final[tuple[str, ...]] = (
    "logsumexp",
    "max_logit",
    "max_weight",
    "argmax",
    "entropy",
    "effective_keys",
    "participation",
    "jacobian_norm",
    "self_mass",
    "previous_mass",
    "local_mass",
    "sink_mass",
    "induction_mass",
    "mean_distance",
)
"""Statistics with one value per batch row, head and query: `[B, H, T]`."""

KEY_STATISTICS: Final[tuple[str, ...]] = ("received",)
"""Statistics with one value per batch row, head and key: `[B, H, S]`."""

STATISTICS: Final[tuple[str, ...]] = ROW_STATISTICS + KEY_STATISTICS

NEEDS_TOKENS: Final = frozenset({"induction_mass"})

MAP_CELLS: Final = 1024
"""The pooled map has at most this many cells on each side."""


@dataclass(frozen=True)
class Request:
    """What is wanted of one call of `attend`.

    Args:
        names: which of STATISTICS; `"all"` means all that can be had (`induction_mass` is left out
            of `"all"` when `tokens` is missing).
        pool: whether the pooled map (mean, max and argmax planes) is wanted.
        rows: query indices (0 <= r < T, negative counts from the end) whose full rows of weights
            are wanted.
        local: how many of the last keys, the query's own included, count as local in `local_mass`.
        sink_keys: how many of the first keys of a document count as sink in `sink_mass`.
        tokens: token ids of the keys, integer `[B, S]` or `[S]`; needed by `induction_mass`.

    Raises:
        ValueError: an unknown name (the message lists the known ones), a count below one, or
            `induction_mass` without `tokens`.
    """

    names: tuple[str, ...] = ()
    pool: bool = False
    rows: tuple[int, ...] = ()
    local: int = 8
    sink_keys: int = 1
    tokens: torch.Tensor | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        unknown = [name for name in self.names if name not in STATISTICS]
        if unknown:
            known = ", ".join(STATISTICS)
            raise ValueError(
                f"statistics: unknown name {unknown[0]!r}; known are {known}, or 'all'"
            )
        for name in ("local", "sink_keys"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        missing = NEEDS_TOKENS.intersection(self.names)
        if missing and self.tokens is None:
            raise ValueError(
                f"statistics: {min(missing)!r} needs the token ids of the keys; give tokens= "
                "to Request"
            )

    @staticmethod
    def of(wanted: Request | str | Iterable[str] | None, /, **parameters: object) -> Request:
        """Read what a caller wrote: nothing, a name, "all", several names, or a Request.

        >>> Request.of("entropy").names
        ('entropy',)
        >>> "induction_mass" in Request.of("all").names
        False
        """
        if isinstance(wanted, Request):
            return replace(wanted, **parameters) if parameters else wanted  # type: ignore[arg-type]
        if wanted is None:
            names: tuple[str, ...] = ()
        elif wanted == "all":
            skipped = NEEDS_TOKENS if parameters.get("tokens") is None else frozenset()
            names = tuple(name for name in STATISTICS if name not in skipped)
        elif isinstance(wanted, str):
            names = (wanted,)
        else:
            names = tuple(wanted)
        return Request(names, **parameters)  # type: ignore[arg-type]
