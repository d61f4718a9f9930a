"""What an experiment returns: a frozen record that turns into JSON and into a picture.

The idea: a lesson must not change what a test has checked, so the record is frozen and its arrays
are read-only; the same record serves a terminal, a notebook and a page in the browser.

Not here: what any experiment measures.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


class Result:
    """The base of every experiment's record; subclasses are `@dataclass(frozen=True, eq=False)`."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            _lock(getattr(self, field.name))

    def to_dict(self) -> dict[str, Any]:
        """The record in the words of JSON; see `plain`."""
        found: dict[str, Any] = plain(self)
        return found

    def picture(self) -> str:
        """A few lines for a terminal, made of the record's numbers."""
        raise NotImplementedError

    def svg(self) -> str | None:
        """A plot, where one says more than the lines of `picture`; else None."""
        return None


def _lock(value: Any) -> None:
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif isinstance(value, dict):
        for entry in value.values():
            _lock(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            _lock(entry)


def plain(value: Any) -> Any:
    """Records, arrays and numbers as dicts, lists and numbers that JSON has.

    NaN becomes None and an infinity the text "inf" or "-inf", since JSON knows neither.

    Raises:
        TypeError: something else is inside, which would not survive the journey.

    >>> plain({"a": np.array([1.0, np.nan, -np.inf]), "b": (np.int64(2), True)})
    {'a': [1.0, None, '-inf'], 'b': [2, True]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"result: expected numbers, text or arrays, got {type(value).__name__}")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a count that is too small, or no whole number.

    >>> at_least("keys", 0, 1)
    Traceback (most recent call last):
    ValueError: keys: expected at least 1, got 0
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: expected a whole number, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")


def positive(name: str, value: float) -> None:
    """Refuse a number that is not above zero, or not finite.

    >>> positive("sigma", -1.0)
    Traceback (most recent call last):
    ValueError: sigma: expected a finite number above 0, got -1.0
    """
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}: expected a finite number above 0, got {value}")
