"""Tokens as spans of the bytes of their text, shown as whole characters.

The idea: the pieces themselves say which bytes they stand for (pieces.py); put one behind the other
they must give the text, byte for byte, and then every token's span is exact, even inside a
character. Where they do not (a tokenizer that lowercases, composes or strips), the character
offsets of the fast tokenizer are used, which are coarser: pieces of one character then share its
span. `Encoded.method` says which it was.

Units: bytes of the text in UTF-8.

Not here: what is a text (text.py), where a character ends (characters.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from attnscope.capture.characters import byte_boundaries
from attnscope.capture.pieces import Notation, notation
from attnscope.trace import Token

Span = tuple[int, int]


@dataclass(frozen=True)
class Encoded:
    """A text and its tokens.

    Attributes:
        ids: token ids, special tokens included.
        method: "pieces" where the spans are exact to the byte, "offsets" where they are those of
            whole characters.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[Token, ...]
    method: str


def encode(tokenizer: Any, text: str, *, add_special: bool = True) -> Encoded:
    """Tokenize a text and find the bytes each token stands for.

    Args:
        tokenizer: of transformers.
        text: any text that is valid Unicode.
        add_special: whether the tokens that the tokenizer puts around a text are added; they have
            an empty span.

    Raises:
        ValueError: the pieces do not give the text and the tokenizer knows no offsets.
    """
    raw = text.encode("utf-8")
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return _encode_slow(tokenizer, text, raw, add_special=add_special)
    found = tokenizer(
        text,
        add_special_tokens=add_special,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
    )
    ids = [int(one) for one in found["input_ids"]]
    # the offsets of what was put around the text are empty; a special token that the user wrote
    # out in the text has its place there
    offsets = [(int(start), int(end)) for start, end in found["offset_mapping"]]
    around = [
        bool(special) and start == end
        for special, (start, end) in zip(found["special_tokens_mask"], offsets, strict=True)
    ]
    written = notation(tokenizer)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    spans = spans_by_pieces(written, ids, pieces, raw=raw, around=around)
    method = "pieces"
    if spans is None:
        spans, method = spans_by_offsets(text, offsets), "offsets"
    return Encoded(text, tuple(ids), _tokens(ids, pieces, spans, text), method)


def _encode_slow(tokenizer: Any, text: str, raw: bytes, *, add_special: bool) -> Encoded:
    """For a tokenizer in plain Python, which knows no offsets."""
    ids = [int(one) for one in tokenizer(text, add_special_tokens=add_special)["input_ids"]]
    pieces = tokenizer.convert_ids_to_tokens(ids)
    written = notation(tokenizer)
    around = [one in written.special for one in ids]
    spans = spans_by_pieces(written, ids, pieces, raw=raw, around=around)
    if spans is None:
        raise ValueError(
            f"tokenizer: {type(tokenizer).__name__} has no offsets, and its pieces do not give the "
            "text back; use its fast version (tokenizer.json)"
        )
    return Encoded(text, tuple(ids), _tokens(ids, pieces, spans, text), "pieces")


def token_spans(tokenizer: Any, text: str, *, add_special: bool = True) -> list[Token]:
    """The tokens of a text with their byte spans; see `encode`."""
    return list(encode(tokenizer, text, add_special=add_special).tokens)


def spans_by_pieces(
    written: Notation,
    ids: Sequence[int],
    pieces: Sequence[str],
    *,
    raw: bytes,
    around: Sequence[bool],
) -> list[Span] | None:
    """Spans from the bytes of the pieces; None where these are not the text.

    Args:
        written: how the tokenizer writes its pieces.
        ids, pieces: the tokens.
        raw: the text.
        around: which tokens stand for no text.

    A space that the tokenizer put before the first word is left out of its span.
    """
    parts: list[bytes] = []
    first = True
    for token, piece, empty in zip(ids, pieces, around, strict=True):
        part = b"" if empty else written.bytes_of(token, piece, first=first)
        if part is None:
            return None
        first = first and empty
        parts.append(part)
    whole = b"".join(parts)
    if whole == b" " + raw and whole != raw:
        place = next(place for place, part in enumerate(parts) if part)
        parts[place] = parts[place][1:]
    elif whole != raw:
        return None
    ends = list(accumulate(map(len, parts)))
    return [(end - len(part), end) for part, end in zip(parts, ends, strict=True)]


def spans_by_offsets(text: str, offsets: Sequence[Span]) -> list[Span]:
    """Byte spans from offsets in code points."""
    at = [0, *accumulate(len(character.encode("utf-8")) for character in text)]
    return [(at[start], at[end]) for start, end in offsets]


def _tokens(
    ids: Sequence[int], pieces: Sequence[str], spans: Sequence[Span], text: str
) -> tuple[Token, ...]:
    raw, places = text.encode("utf-8"), byte_boundaries(text)
    return tuple(
        Token(index, int(token), _label(piece, span, raw, places), *span)
        for index, (token, piece, span) in enumerate(zip(ids, pieces, spans, strict=True))
    )


def _label(piece: str, span: Span, raw: bytes, places: Sequence[int]) -> str:
    """The whole characters over a span; the piece's own name where it stands for no text."""
    start, end = span
    if start == end:
        return piece
    start = places[bisect_right(places, start) - 1]
    end = places[bisect_left(places, end)]
    return raw[start:end].decode("utf-8")


def spans_of_ids(
    tokenizer: Any, ids: Sequence[int], *, text: str | None = None
) -> tuple[list[Token], str]:
    """Tokens with their bytes when there are only ids, or ids that go on beyond a text.

    Args:
        tokenizer: of transformers.
        ids: the ids of `text`, as the tokenizer gives them, and those that a model wrote after it.
        text: the text they begin with, if there is one.

    Returns:
        The tokens, and the whole text their spans lie in: `text` and what the model wrote. Special
        tokens that a model wrote stand for no text. Bytes that are no character, as at the end of a
        run that stops within one, are written out, like <0xE5>.

    Raises:
        ValueError: the ids do not begin with those of the text.
    """
    known = None if text is None else _begin(tokenizer, text, ids)
    before = [] if known is None else list(known.tokens)
    rest = [int(one) for one in ids[len(before) :]]
    if not rest:
        return before, text or ""
    written = notation(tokenizer)
    pieces = [
        f"#{one}" if piece is None else str(piece)
        for one, piece in zip(rest, tokenizer.convert_ids_to_tokens(rest), strict=True)
    ]
    parts = [
        _written_bytes(written, one, piece, first=not before and place == 0)
        for place, (one, piece) in enumerate(zip(rest, pieces, strict=True))
    ]
    added, moved = printable(b"".join(parts))
    ends = [moved[end] for end in accumulate(map(len, parts))]
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    base = len((text or "").encode("utf-8"))
    fresh = _tokens(rest, pieces, spans, added)
    shifted = [
        Token(len(before) + token.index, token.id, token.text, base + token.start, base + token.end)
        for token in fresh
    ]
    return before + shifted, (text or "") + added


def _begin(tokenizer: Any, text: str, ids: Sequence[int]) -> Encoded:
    for special in (True, False):
        found = encode(tokenizer, text, add_special=special)
        if tuple(int(one) for one in ids[: len(found.ids)]) == found.ids:
            return found
    raise ValueError("ids: they do not begin with the tokens of the text")


def _written_bytes(written: Notation, token: int, piece: str, *, first: bool) -> bytes:
    """What a generated token adds to the text; a special one adds nothing."""
    if token in written.special:
        return b""
    part = written.bytes_of(token, piece, first=first)
    return piece.encode("utf-8") if part is None else part


def printable(raw: bytes) -> tuple[str, list[int]]:
    """Decode bytes of which some may be no characters; those are written out.

    Returns:
        The text, and for every byte of `raw`, and its end, where it begins in the text's UTF-8.

    >>> printable(b"a\\xe5")
    ('a<0xE5>', [0, 1, 7])
    """
    shown: list[str] = []
    places = [0]
    for character in raw.decode("utf-8", "surrogateescape"):
        if "\udc80" <= character <= "\udcff":
            shown.append(f"<0x{ord(character) - 0xDC00:02X}>")
            places.append(places[-1] + len(shown[-1]))
        else:
            shown.append(character)
            begin = places[-1]
            places += [begin + step for step in range(1, len(character.encode("utf-8")) + 1)]
    return "".join(shown), places
