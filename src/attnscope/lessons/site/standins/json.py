"""JSON read by the library's own decoder in Python, so that what is broken is said in its words.

Brython's decoder is its own: it takes texts that are no JSON and says other things of the rest.
"""

from _json import dumps as _dumps  # type: ignore[attr-defined]  # Brython has it
from json.decoder import JSONDecodeError, JSONDecoder
from typing import Any

__all__ = ["JSONDecodeError", "dumps", "loads"]


def loads(text: str, *, parse_int: Any = None) -> Any:
    """The value that a text holds."""
    if text.startswith("\ufeff"):
        raise JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
    return JSONDecoder(parse_int=parse_int).decode(text)


def dumps(value: Any, *, ensure_ascii: bool = True, default: Any = None) -> str:
    """The text of a value."""
    found: str = _dumps(value, 1, ensure_ascii=ensure_ascii, default=default)
    return found
