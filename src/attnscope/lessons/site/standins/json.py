"""JSON as CPython reads it, so that what is broken is said in the same words at the same place.

Brython's own takes texts that are no JSON, says other things of the rest, and writes a text with an
emoji without its quotes. Here are no regular expressions and no int(text, 16): neither is always
right there.
"""

from pathlib import FILES  # type: ignore[attr-defined]  # the stand-in's
from typing import Any

DEEPEST = 900
"""CPython gives up a little below a thousand."""
SPACES = " \t\n\r"
DIGITS = "0123456789"
HEX = "0123456789abcdefABCDEF"
WORDS = {
    "null": None, "true": True, "false": False,
    "NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf"),
}  # fmt: skip
ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
WRITTEN = {letter: f"\\{name}" for name, letter in ESCAPES.items() if name != "/"}


class JSONDecodeError(ValueError):
    """What is wrong, and where: line and column from 1."""

    def __init__(self, msg: str, text: str, at: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.lineno = text.count("\n", 0, at) + 1
        self.colno = at - text.rfind("\n", 0, at)


def loads(text: str, *, parse_int: Any = int) -> Any:
    """The value that a text holds."""
    if text.startswith("\ufeff"):
        raise JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
    reader = _Reader(text, parse_int)
    value, at = reader.value(reader.behind_spaces(0), 0)
    at = reader.behind_spaces(at)
    if at != len(text):
        raise JSONDecodeError("Extra data", text, at)
    return value


def dumps(value: Any, *, ensure_ascii: bool = True, default: Any = None) -> str:
    """The text of a value; no letter is escaped that need not be."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), repr(value))
    if isinstance(value, dict):
        rows = [f"{_quoted(str(key))}: {dumps(one, default=default)}" for key, one in value.items()]
        return "{" + ", ".join(rows) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join([dumps(one, default=default) for one in value]) + "]"
    return dumps(default(value), default=default)


def _quoted(text: str) -> str:
    if '"' in text or "\\" in text or (text and min(text) < " "):
        text = "".join([_escaped(one) for one in text])
    return f'"{text}"'


def _escaped(one: str) -> str:
    if one in WRITTEN:
        return WRITTEN[one]
    return f"\\u{ord(one):04x}" if one < " " else one


class _Reader:
    """A text; each method reads what begins at a place, and says where it ends."""

    def __init__(self, text: str, parse_int: Any) -> None:
        self.text, self.end, self.parse_int = text, len(text), parse_int
        # Since 3.13 a comma before the end has a sentence of its own.
        self.names_commas = FILES.get("python", "") >= "3.13"

    def fail(self, message: str, at: int) -> JSONDecodeError:
        return JSONDecodeError(message, self.text, at)

    def behind_spaces(self, at: int) -> int:
        while at < self.end and self.text[at] in SPACES:
            at += 1
        return at

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        if depth > DEEPEST:
            raise RecursionError
        first = self.text[at : at + 1]
        if first == '"':
            return self.string(at + 1)
        if first == "{":
            return self.object(at + 1, depth)
        if first == "[":
            return self.array(at + 1, depth)
        for word, value in WORDS.items():
            if self.text.startswith(word, at):
                return value, at + len(word)
        return self.number(at)

    def object(self, at: int, depth: int) -> tuple[Any, int]:
        found: dict[str, Any] = {}
        at = self.behind_spaces(at)
        if self.text[at : at + 1] == "}":
            return found, at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise self.fail("Expecting property name enclosed in double quotes", at)
            key, at = self.string(at + 1)
            at = self.behind_spaces(at)
            if self.text[at : at + 1] != ":":
                raise self.fail("Expecting ':' delimiter", at)
            found[key], at = self.value(self.behind_spaces(at + 1), depth + 1)
            at, ended = self.next(at, "}", "object")
            if ended:
                return found, at

    def array(self, at: int, depth: int) -> tuple[Any, int]:
        found: list[Any] = []
        at = self.behind_spaces(at)
        if self.text[at : at + 1] == "]":
            return found, at + 1
        while True:
            value, at = self.value(at, depth + 1)
            found.append(value)
            at, ended = self.next(at, "]", "array")
            if ended:
                return found, at

    def next(self, at: int, close: str, what: str) -> tuple[int, bool]:
        """Behind the comma, or behind the end."""
        at = self.behind_spaces(at)
        if self.text[at : at + 1] == close:
            return at + 1, True
        if self.text[at : at + 1] != ",":
            raise self.fail("Expecting ',' delimiter", at)
        comma, at = at, self.behind_spaces(at + 1)
        if self.names_commas and self.text[at : at + 1] == close:
            raise self.fail(f"Illegal trailing comma before end of {what}", comma)
        return at, False

    def string(self, at: int) -> tuple[str, int]:
        start, parts = at - 1, []
        while True:
            quote, escape = self.text.find('"', at), self.text.find("\\", at)
            stop = escape if 0 <= escape < quote or quote < 0 else quote
            chunk = self.text[at : stop if stop >= 0 else self.end]
            if chunk and min(chunk) < " ":
                bad = next(i for i, one in enumerate(chunk) if one < " ")
                raise self.fail("Invalid control character at", at + bad)
            if stop < 0:
                raise self.fail("Unterminated string starting at", start)
            parts.append(chunk)
            if stop == quote:
                return "".join(parts), stop + 1
            if stop + 1 >= self.end:
                raise self.fail("Unterminated string starting at", start)
            one = self.text[stop + 1]
            if one == "u":
                part, at = self.escaped(stop)
                parts.append(part)
            elif one in ESCAPES:
                parts.append(ESCAPES[one])
                at = stop + 2
            else:
                raise self.fail("Invalid \\escape", stop)

    def escaped(self, at: int) -> tuple[str, int]:
        """A letter by its number; two surrogates are one letter."""
        code = self.hex(at)
        low = at + 6
        if 0xD800 <= code <= 0xDBFF and low + 6 < self.end and self.text.startswith("\\u", low):
            second = self.hex(low)
            if 0xDC00 <= second <= 0xDFFF:
                return chr(0x10000 + ((code - 0xD800) << 10) + second - 0xDC00), low + 6
        return chr(code), low

    def hex(self, at: int) -> int:
        digits = self.text[at + 2 : at + 6]
        if at + 6 >= self.end or not all(one in HEX for one in digits):
            raise self.fail("Invalid \\uXXXX escape", at + 1)
        return sum(HEX.index(one.lower()) << (4 * (3 - i)) for i, one in enumerate(digits))

    def digits(self, at: int) -> int:
        while at < self.end and self.text[at] in DIGITS:
            at += 1
        return at

    def number(self, at: int) -> tuple[Any, int]:
        first = at + 1 if self.text[at : at + 1] == "-" else at
        end = first + 1 if self.text[first : first + 1] == "0" else self.digits(first)
        if end == first:
            raise self.fail("Expecting value", at)
        whole = end
        if self.text[end : end + 1] == "." and self.digits(end + 1) > end + 1:
            end = self.digits(end + 1)
        if self.text[end : end + 1] in ("e", "E"):
            power = end + 2 if self.text[end + 1 : end + 2] in ("+", "-") else end + 1
            if self.digits(power) > power:
                end = self.digits(power)
        said = self.text[at:end]
        return (self.parse_int(said) if end == whole else float(said)), end
