"""The tokens of a trace as columns: ids, spans of whole characters, and what to show for each.

The idea: a byte-level token may be a piece of a character, and half a character is nothing a person
can read. So each token stands for the whole characters that its bytes touch; pieces of one
character share its span and its label. A capture already wrote the whole characters as the token's
own text (an emoji with its skin tone, a letter with its accents); where that text is found over the
token's bytes it is believed, and elsewhere the bytes are widened to whole code points.

Units: bytes of the text's UTF-8.

Not here: where a character ends by Unicode's rules (capture/characters.py).
"""

from __future__ import annotations

from typing import Any, Final

from attnscope.trace import Token, Trace

BROKEN: Final = "\ufffd"
"""What decoders put for bytes that they cannot read. It never reaches a label."""
NAMED: Final = "<U+FFFD>"
"""What a label shows where the text itself holds that character."""


def token_table(trace: Trace) -> dict[str, Any]:
    """The tokens, in columns.

    Returns:
        `TokenTable` of the browser side: `text`, and lists of equal length: `ids`, `start` and
        `end` (bytes of the text's UTF-8, whole characters; empty for a token without text),
        `labels` (whole characters; never U+FFFD), and `own_start` and `own_end` (the token's own
        bytes, which may begin or end inside a character).

    Cost: one pass over the tokens.
    """
    raw = trace.text.encode("utf-8")
    starts, ends, labels = [], [], []
    before = (0, 0)
    for token in trace.tokens:
        if token.start < token.end:
            before = start, end = _characters(token, raw, before)
            label = raw[start:end].decode("utf-8")
        else:
            start, end, label = token.start, token.end, token.text
        starts.append(start)
        ends.append(end)
        labels.append(label.replace(BROKEN, NAMED))
    return {
        "text": trace.text,
        "ids": [token.id for token in trace.tokens],
        "start": starts,
        "end": ends,
        "labels": labels,
        "own_start": [token.start for token in trace.tokens],
        "own_end": [token.end for token in trace.tokens],
    }


def _characters(token: Token, raw: bytes, before: tuple[int, int]) -> tuple[int, int]:
    """The span of the whole characters over a token's bytes.

    Args:
        before: the span of the last token that had text; a label that would fit in two places (the
            second letter of two equal flags) continues it.
    """
    label = token.text.encode("utf-8")
    start, end = token.start, token.end
    extra = len(label) - (end - start)
    if extra >= 0:
        places = [
            at for at in range(max(0, start - extra), start + 1) if raw.startswith(label, at)
        ] if extra <= _LONGEST else []  # fmt: skip
        for wanted in before:
            if wanted in places:
                return wanted, wanted + len(label)
        if places:
            return places[-1], places[-1] + len(label)
    while start > 0 and _inside(raw[start]):
        start -= 1
    while end < len(raw) and _inside(raw[end]):
        end += 1
    return start, end


_LONGEST: Final = 512
"""Bytes that a character may add to a token; more is no character, and not searched for."""


def _inside(byte: int) -> bool:
    """Whether a byte continues a code point."""
    return byte & 0xC0 == 0x80
