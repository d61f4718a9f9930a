"""Reads the fields of one JSON object, each with a kind and a range; a complaint names the field.

Not here: which fields there are (header.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from attnscope.errors import TraceError
from attnscope.trace.format import MAX_COUNT


class Fields:
    """Reads one object's fields; a complaint says where it stands."""

    def __init__(self, value: Any, where: str, known: Iterable[str]) -> None:
        if not isinstance(value, Mapping):
            raise TraceError(f"{where}: expected an object, got {type(value).__name__}.")
        self.value, self.where = value, where
        known = set(known)
        for name in value:
            if name not in known:
                raise TraceError(
                    f"{where}: unknown field {short(name)}; expected only "
                    f"{', '.join(sorted(known))}."
                )

    def fail(self, name: str, expected: str) -> TraceError:
        """The complaint about one field."""
        came = short(self.value[name]) if name in self.value else "nothing"
        # A name may come from the file itself, and hold what no terminal can print.
        shown = name if name.isprintable() and len(name) <= 64 else short(name)
        return TraceError(f"{self.where}: {shown}: expected {expected}, got {came}.")

    def string(self, name: str, *, optional: bool = False) -> Any:
        """A string that can be written as UTF-8."""
        value = self.value.get(name)
        if value is None and optional:
            return None
        if not isinstance(value, str) or utf8_length(value) is None:
            raise self.fail(name, "a string of valid characters")
        return value

    def count(self, name: str, *, least: int = 0, most: int = MAX_COUNT) -> int:
        """A whole number between two bounds, both allowed."""
        value = self.value.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fail(name, f"a whole number from {least} to {most}")
        return value

    def optional_count(self, name: str, *, least: int = 0) -> int | None:
        """The same, or nothing."""
        return None if self.value.get(name) is None else self.count(name, least=least)

    def number(self, name: str) -> float:
        """A finite number."""
        value: Any = self.value.get(name)
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not plain or abs(value) > 1e300 or not math.isfinite(value):
            raise self.fail(name, "a finite number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.value.get(name, default)
        if not isinstance(value, bool):
            raise self.fail(name, "true or false")
        return value


def utf8_length(text: str) -> int | None:
    """Bytes of the text, or None where a lone surrogate has no UTF-8."""
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return None


def short(value: Any) -> str:
    """What came, short enough for a sentence and printable whatever it is."""
    if isinstance(value, list | tuple | Mapping):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    said = ascii(value[:63] if isinstance(value, str) else value)
    return said if len(said) <= 64 else said[:60] + "…"
