"""What bytes a tokenizer's pieces stand for, without decoding.

The idea: decoding one token of a character that is cut into several gives U+FFFD. The piece itself
says which bytes it stands for, in one of a few notations; which one a tokenizer uses is read from
the description it gives of itself.

    byte-level    every byte is written as one printable character: Ġ is a space, å is 0xe5
    sentencepiece ▁ is a space, <0xE5> is one byte, everything else is itself
    wordpiece     ##ing continues a word, everything else begins one after a space
    words         every piece is a word

Not here: where the bytes lie in a text (tokens.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

SPACE: Final = "\u2581"
BYTE: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
CONTINUES: Final = "##"


@cache
def byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in byte-level pieces, after GPT-2.

    Printable Latin-1 characters stand for themselves; the other 68 bytes, in order, for the
    characters from U+0100 on.

    >>> byte_alphabet()["Ġ"], byte_alphabet()["å"]
    (32, 229)
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + place): byte for place, byte in enumerate(others)})
    return table


def byte_level(piece: str) -> bytes | None:
    """The bytes of a byte-level piece; None for one that is not written that way.

    >>> byte_level("Ġå")
    b' \\xe5'
    """
    table = byte_alphabet()
    try:
        return bytes(table[character] for character in piece)
    except KeyError:
        return None


def sentencepiece(piece: str) -> bytes:
    """The bytes of a SentencePiece piece.

    >>> sentencepiece("▁the"), sentencepiece("<0xE5>")
    (b' the', b'\\xe5')
    """
    one = BYTE.fullmatch(piece)
    if one:
        return bytes([int(one[1], 16)])
    return piece.replace(SPACE, " ").encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Notation:
    """How one tokenizer writes its pieces.

    Attributes:
        kind: "byte-level", "sentencepiece", "wordpiece" or "words".
        added: pieces that stand for themselves, by id (special tokens and words added later).
        special: ids of those that stand for no text when a model writes them.
    """

    kind: str
    added: dict[int, str] = field(default_factory=dict)
    special: frozenset[int] = frozenset()

    def bytes_of(self, token: int, piece: str, *, first: bool) -> bytes | None:
        """The bytes of a token; None if they cannot be known from the piece.

        Args:
            token: its id.
            piece: as the vocabulary writes it.
            first: whether it is the first of a text, where no space comes before a word.
        """
        if token in self.added:
            return self.added[token].encode()
        return _READERS[self.kind](piece, first)


def _word(piece: str, first: bool) -> bytes:
    return (piece if first else " " + piece).encode()


def _wordpiece(piece: str, first: bool) -> bytes:
    if piece.startswith(CONTINUES):
        return piece.removeprefix(CONTINUES).encode()
    return _word(piece, first)


_READERS: Final[dict[str, Callable[[str, bool], bytes | None]]] = {
    "byte-level": lambda piece, first: byte_level(piece),
    "sentencepiece": lambda piece, first: sentencepiece(piece),
    "wordpiece": _wordpiece,
    "words": _word,
}


def notation(tokenizer: Any) -> Notation:
    """Find out how a tokenizer writes its pieces.

    Args:
        tokenizer: of transformers, or of the tokenizers library.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    described = _described(backend)
    added = {
        int(one["id"]): str(one["content"]) for one in described.get("added_tokens") or []
    } or {number: str(one) for number, one in _added(tokenizer).items()}
    special = {int(one["id"]) for one in described.get("added_tokens") or [] if one["special"]}
    special |= set(getattr(tokenizer, "all_special_ids", []) or [])
    return Notation(_kind(described), added, frozenset(special))


def _added(tokenizer: Any) -> dict[int, Any]:
    return getattr(tokenizer, "added_tokens_decoder", None) or {}


def _described(backend: Any) -> dict[str, Any]:
    """The tokenizer's own description, without its vocabulary where it can be had without."""
    parts = {}
    for name in ("decoder", "pre_tokenizer", "normalizer"):
        part = getattr(backend, name, None)
        state = part.__getstate__() if part is not None and hasattr(part, "__getstate__") else None
        parts[name] = json.loads(state) if isinstance(state, bytes | str) else None
    model = getattr(backend, "model", None)
    parts["model"] = {"type": type(model).__name__}
    if hasattr(backend, "get_added_tokens_decoder"):
        parts["added_tokens"] = [
            {"id": number, "content": one.content, "special": one.special}
            for number, one in backend.get_added_tokens_decoder().items()
        ]
    return parts


def _kind(described: dict[str, Any]) -> str:
    names = set(_types(described.get("decoder"))) | set(_types(described.get("pre_tokenizer")))
    if "ByteLevel" in names:
        return "byte-level"
    if "WordPiece" in names or described["model"]["type"] == "WordPiece":
        return "wordpiece"
    if described["model"]["type"] == "WordLevel":
        return "words"
    return "sentencepiece"


def _types(part: Any) -> list[str]:
    """The names of all steps in a description, however deep."""
    if isinstance(part, dict):
        own = [part["type"]] if isinstance(part.get("type"), str) else []
        return own + [name for value in part.values() for name in _types(value)]
    if isinstance(part, list):
        return [name for value in part for name in _types(value)]
    return []
