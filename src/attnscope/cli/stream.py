"""From the bytes of tokens, as they come, to text that may be shown at once.

The idea: a character may be cut into several tokens, a person's character into several code points,
and a stop may lie across tokens. So what could still change is held back: the last character, which
the next token may continue, and whatever may be the beginning of a stop.

Units: bytes in, whole characters out.

Not here: where characters begin (capture/characters.py), what a terminal can show (console.py).
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any

SURROGATES = "\udc80", "\udcff"


class TextStream:
    """Text in the making.

    Args:
        stops: texts that end it; neither they nor what follows is given out.

    Attributes:
        text: all that was given out.
        stopped: whether a stop was found.

    Raises:
        ValueError: an empty stop.

    >>> stream = TextStream(["."])
    >>> [stream.add(part) for part in (b"\\xe5\\x9b", b"\\xbd!", b" ab.c")]
    ['', '国', '! ab']
    >>> stream.end(), stream.text, stream.stopped
    ('', '国! ab', True)
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        if "" in stops:
            raise ValueError("stop: expected some text, got none")
        self.stops = tuple(stops)
        self.text = ""
        self.stopped = False
        self._bytes = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""

    def add(self, part: bytes) -> str:
        """What may be shown now that these bytes have come."""
        return self._take(self._bytes.decode(part), final=False)

    def end(self) -> str:
        """What was held back; bytes that are no character are written out, like <0xE5>."""
        return self._take(self._bytes.decode(b"", True), final=True)

    def _take(self, fresh: str, *, final: bool) -> str:
        if self.stopped:
            return ""
        self._held += "".join(map(_written, fresh))
        found = [at for at in (self._held.find(stop) for stop in self.stops) if at >= 0]
        self.stopped = bool(found)
        until = min(found) if found else len(self._held) if final else self._settled()
        given, self._held = self._held[:until], self._held[until:]
        self.text += given
        return given

    def _settled(self) -> int:
        """How many of the held code points nothing can change any more."""
        from attnscope.capture.characters import boundaries

        held = self._held
        settled = boundaries(held)[-2] if held else 0
        for stop in self.stops:
            for size in range(min(len(stop) - 1, len(held)), 0, -1):
                if held.endswith(stop[:size]):
                    settled = min(settled, len(held) - size)
                    break
        return settled


def _written(character: str) -> str:
    """A byte that is no character, as tokenizers write it."""
    if SURROGATES[0] <= character <= SURROGATES[1]:
        return f"<0x{ord(character) - 0xDC00:02X}>"
    return character


def bytes_of_tokens(tokenizer: Any) -> Callable[[int], bytes]:
    """How to get the bytes that a generated token adds to its text; a special one adds none.

    Args:
        tokenizer: of transformers.
    """
    from attnscope.capture.pieces import notation

    written = notation(tokenizer)

    def bytes_of(token: int) -> bytes:
        if token in written.special:
            return b""
        piece = tokenizer.convert_ids_to_tokens([token])[0]
        if piece is None:  # a vocabulary may be narrower than the model's head
            return f"#{token}".encode()
        part = written.bytes_of(token, piece, first=False)
        return str(piece).encode("utf-8") if part is None else part

    return bytes_of
