"""Query parameters: every one is named, read once, and has a bound; nothing is guessed.

The idea: a request is a stranger's text. `Query` takes each parameter by its name and its range,
and at the end refuses what nobody asked for; so a handler sees numbers only, and each in range.

Units: counts of tokens, tiles and cells.

Not here: what a parameter means (answers.py); ranges that depend on the trace (there too).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

MOST_QUERY: Final = 64 << 10
"""Bytes of a query string; a few thousand tokens chosen one by one fit."""
MOST_TILES: Final = 64
MOST_CHOSEN: Final = 4096
"""Rows or columns that one answer joins."""
MOST_NUMBER: Final = (1 << 31) - 1
_DIGITS: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_RANGE: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)


class Query:
    """The parameters of one request; take each, then call `done`.

    >>> query = Query.read("layer=3&queries=3,5-7&how=sum")
    >>> query.integer("layer", most=11), query.chosen("queries"), query.choice("how", ("sum",))
    (3, [3, 5, 6, 7], 'sum')
    >>> query.done()
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._given: dict[str, str] = {}
        for name, value in pairs:
            if name in self._given:
                raise ValueError(f"{_short(name)}: is given twice")
            self._given[name] = value

    @staticmethod
    def read(text: str) -> Query:
        """The parameters of a query string.

        Raises:
            ValueError: it is too long, or names a parameter twice.
        """
        if len(text) > MOST_QUERY:
            raise ValueError(f"the query has {len(text)} characters; at most {MOST_QUERY} are read")
        return Query(parse_qsl(text, keep_blank_values=True, max_num_fields=32))

    def text(self, name: str, default: str | None = None) -> str:
        """One parameter as it stands.

        Raises:
            ValueError: it is missing and has no default.
        """
        found = self._given.pop(name, default)
        if found is None:
            raise ValueError(f"{name}: is missing")
        return found

    def integer(self, name: str, *, most: int = MOST_NUMBER) -> int:
        """A whole number from 0 to `most`."""
        return _number(name, self.text(name), most)

    def choice(self, name: str, allowed: Iterable[str], default: str | None = None) -> str:
        """One of a few words."""
        found = self.text(name, default)
        words = tuple(allowed)
        if found not in words:
            raise ValueError(f"{name}: expected one of {', '.join(words)}, got {_short(found)}")
        return found

    def words(self, name: str, allowed: Iterable[str]) -> list[str]:
        """Several of a few words, with commas between them, each at most once."""
        known = tuple(allowed)
        found = self.text(name).split(",", len(known))
        for word in found:
            if word not in known:
                raise ValueError(f"{name}: expected some of {', '.join(known)}, got {_short(word)}")
        if len(set(found)) != len(found):
            raise ValueError(f"{name}: names one of them twice")
        return found

    def places(self, name: str) -> list[tuple[int, int]]:
        """Tiles by column and row: `0.0,3.2`; 1 to 64 of them."""
        found = []
        for part in self._parts(name, MOST_TILES):
            x, dot, y = part.partition(".")
            if not dot:
                raise ValueError(f"{name}: expected column.row, got {_short(part)}")
            found.append((_number(name, x, MOST_NUMBER), _number(name, y, MOST_NUMBER)))
        return found

    def numbers(self, name: str) -> list[int]:
        """Whole numbers with commas between them; 1 to 64 of them."""
        return [_number(name, part, MOST_NUMBER) for part in self._parts(name, MOST_TILES)]

    def chosen(self, name: str) -> list[int]:
        """Chosen tokens: `3,5-9` is 3, 5, 6, 7, 8, 9; 1 to 4096 different ones."""
        found: dict[int, None] = {}
        for part in self._parts(name, MOST_CHOSEN):
            first, last = self._range(name, part)
            if last - first >= MOST_CHOSEN:
                raise ValueError(f"{name}: {part} are more than {MOST_CHOSEN} tokens; choose fewer")
            found.update(dict.fromkeys(range(first, last + 1)))
            if len(found) > MOST_CHOSEN:
                raise ValueError(f"{name}: these are more than {MOST_CHOSEN} tokens; choose fewer")
        return list(found)

    def span(self, name: str) -> tuple[int, int]:
        """A first and a last number, `3-9`; a single number is both."""
        return self._range(name, self.text(name))

    def done(self) -> None:
        """Refuse what is left.

        Raises:
            ValueError: a parameter that nobody reads.
        """
        if self._given:
            raise ValueError(f"{_short(next(iter(self._given)))}: there is no such parameter here")

    def _parts(self, name: str, most: int) -> list[str]:
        parts = self.text(name).split(",", most)
        if len(parts) > most:
            raise ValueError(f"{name}: names more than {most}; ask in several requests")
        return parts

    @staticmethod
    def _range(name: str, part: str) -> tuple[int, int]:
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ValueError(f"{name}: expected numbers and ranges like 3,5-9, got {_short(part)}")
        first = _number(name, found[1], MOST_NUMBER)
        last = first if found[2] is None else _number(name, found[2], MOST_NUMBER)
        if last < first:
            raise ValueError(f"{name}: {part} ends before it begins")
        return first, last


def _number(name: str, text: str, most: int) -> int:
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"{name}: expected a whole number from 0, got {_short(text)}")
    found = int(text)
    if found > most:
        raise ValueError(f"{name}: expected at most {most}, got {found}")
    return found


def _short(text: str) -> str:
    """A stranger's text as it can stand in a message."""
    said = ascii(text[:60])
    return said if len(text) <= 60 and len(said) <= 60 else f"{said[:50]}…'"
