"""Where the characters that a person sees begin and end in a text.

The idea: a person sees 👍🏽 and 🇨🇳 as one character each, though they are several code points and
many bytes. A label shows whole characters only, so a token that is a part of one is shown as the
whole.

The rules are those of Unicode's annex 29 (extended grapheme clusters) as far as the standard
library knows the properties: marks, joiners, variation selectors, skin tones, flags, Hangul,
CR LF. A cluster longer than `LONGEST` code points is cut, so that a hostile text stays readable.

Units: code points and bytes, as named.

Not here: tokens (tokens.py).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from attnscope.trace import Token

LONGEST: Final = 32
ZWJ, ZWNJ = "\u200d", "\u200c"
CONTROLS: Final = frozenset({"Cc", "Zl", "Zp"})
MARKS: Final = frozenset({"Mn", "Me", "Mc"})


@dataclass(frozen=True)
class Character:
    """Tokens that share characters, and the whole text they stand for.

    Attributes:
        first, last: the tokens, both included.
        start, end: bytes of the text.
    """

    first: int
    last: int
    text: str
    start: int
    end: int


def _extends(character: str) -> bool:
    """Whether a code point belongs to the one before it."""
    return (
        character in (ZWJ, ZWNJ)
        or unicodedata.category(character) in MARKS
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags, as in the flag of Wales
    )


def _hangul(character: str) -> str:
    """L, V or T for a part of a syllable, S for a syllable, nothing for all else."""
    code = ord(character)
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6:
        return "V"
    if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB:
        return "T"
    if not 0xAC00 <= code <= 0xD7A3:
        return ""
    return "V" if (code - 0xAC00) % 28 == 0 else "T"  # as what it ends with


def _hangul_joins(before: str, after: str) -> bool:
    left, right = _hangul(before), _hangul(after)
    if left == "L" and not 0xAC00 <= ord(before) <= 0xD7A3:
        return right in ("L", "V") or (right == "T" and 0xAC00 <= ord(after) <= 0xD7A3)
    if 0xAC00 <= ord(after) <= 0xD7A3:
        return False
    return (left == "V" and right in ("V", "T")) or (left == "T" and right == "T")


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def boundaries(text: str) -> list[int]:
    """Code points at which a character begins, and the length of the text at the end.

    >>> boundaries("ae\u0301\U0001f44d\U0001f3fd!")
    [0, 1, 3, 5, 6]
    """
    found = [0] if text else []
    flags = 1 if text and _is_flag_letter(text[0]) else 0
    for place, (before, after) in enumerate(pairwise(text), start=1):
        flag = _is_flag_letter(after)
        joined = _joins(before, after) or (flag and flags % 2 == 1)
        if not joined or place - found[-1] >= LONGEST:
            found.append(place)
        flags = flags + 1 if flag else 0
    return [*found, len(text)]


def _joins(before: str, after: str) -> bool:
    if before < "\u0300" and after < "\u0300":  # the common case
        return before == "\r" and after == "\n"
    if unicodedata.category(before) in CONTROLS or unicodedata.category(after) in CONTROLS:
        return False
    if _extends(after):
        return True
    if before == ZWJ:
        return unicodedata.category(after) in ("So", "Sk")
    return _hangul_joins(before, after)


def byte_boundaries(text: str) -> list[int]:
    """As `boundaries`, in bytes of the text's UTF-8."""
    places = boundaries(text)
    found, at = [0] if text else [], 0
    for start, end in pairwise(places):
        at += len(text[start:end].encode("utf-8"))
        found.append(at)
    return found or [0]


def characters(tokens: Sequence[Token], text: str) -> list[Character]:
    """Group tokens so that every group is whole characters.

    Args:
        tokens: in order, with byte spans into `text`.
        text: what they were made from.

    Returns:
        One entry for each token that is whole by itself, one for each run of tokens that share a
        character; tokens without text (special ones) stand alone, with their own label.
    """
    starts = set(byte_boundaries(text))
    raw = text.encode("utf-8")
    groups: list[list[Token]] = []
    open_until = -1  # where the last group ends, if that is inside a character
    for token in tokens:
        inside = token.start < token.end and bool(groups) and open_until == token.start
        overlaps = bool(groups) and token.start < token.end and token.start < open_until
        if inside or overlaps:
            groups[-1].append(token)
        else:
            groups.append([token])
        if token.start < token.end:
            ends_inside = token.end not in starts
            open_until = token.end if ends_inside or overlaps else -1
            if not ends_inside:
                open_until = -1
    return [_character(group, raw) for group in groups]


def _character(group: list[Token], raw: bytes) -> Character:
    first, last = group[0], group[-1]
    start = min(token.start for token in group)
    end = max(token.end for token in group)
    if start == end:
        return Character(first.index, last.index, first.text, start, end)
    shown = raw[start:end]
    try:
        text = shown.decode("utf-8")
    except UnicodeDecodeError:  # a lone piece of a character: its own label is the whole
        text = first.text
    return Character(first.index, last.index, text, start, end)
