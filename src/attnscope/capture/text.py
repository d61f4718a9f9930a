"""The text to look at: read exactly, and refused with a reason where a model cannot read it.

The idea: what is refused is refused early. A file is measured before it is read, and of a text that
is far too long only as much is tokenized as shows it.

Units: bytes and tokens.

Not here: byte spans of tokens (tokens.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, Final

from attnscope.errors import ModelError

MOST_BYTES: Final = 64 << 20
"""Of a text that is read at all: 16 million tokens, more than any model's context."""
CHARACTERS_PER_TOKEN: Final = 8
"""Ordinary text has 4 or 5; a beginning this long shows nearly every text that is too long."""
MARGIN: Final = 64
"""Tokens by which a cut-off beginning may differ from the same part of the whole text."""


def read_text(source: str | Path | IO[bytes]) -> str:
    """Read a whole text as UTF-8, line ends as they are; a byte-order mark is left out.

    Args:
        source: a file's path, or an open binary stream.

    Raises:
        ModelError: no such file, not UTF-8, binary, or larger than any model could read.
    """
    if isinstance(source, str | Path):
        name = str(source)
        try:
            with open(source, "rb") as file:
                raw = file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ModelError(f"{name}: {why}.") from error
    else:
        name = getattr(source, "name", "the input")
        name = "the standard input" if name == "<stdin>" else str(name)
        raw = source.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ModelError(
            f"{name} has more than {MOST_BYTES:,} bytes, more than any model reads. Give a part."
        )
    return _decode(raw, name)


def _decode(raw: bytes, name: str) -> str:
    zero = raw.find(b"\0")
    if zero >= 0:
        raise ModelError(
            f"{name} is not text: byte {zero:,} is NUL. If it is UTF-16, convert it to UTF-8."
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{name} is not UTF-8: byte {error.start:,} is 0x{raw[error.start]:02x}. Convert it "
            "(iconv -t utf-8)."
        ) from None
    return text.removeprefix("\ufeff")


def check_text(text: str) -> None:
    """See that a text can be given to a model at all.

    Raises:
        ValueError: empty, with a NUL in it, or not Unicode.
    """
    if not text:
        raise ValueError("The text is empty, so there is nothing to read.")
    zero = text.find("\0")
    if zero >= 0:
        raise ValueError(f"The text has a NUL at character {zero:,}; it is not text.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The text has half a character at {error.start:,} ({text[error.start]!a}): it was not "
            "UTF-8. Give it in a file, in UTF-8."
        ) from None


def token_ids(
    tokenizer: Any, text: str, *, context: int | None = None, name: str = "this model"
) -> list[int]:
    """The ids of a text, special tokens included; a text that cannot fit is refused early.

    Args:
        tokenizer: of transformers.
        text: any length.
        context: the most tokens the model reads; None if that is not known.
        name: the model, for the message.

    Raises:
        ValueError: the text is empty or not text, or gives no tokens.
        ModelError: it has more tokens than the context.

    Cost: time and memory of tokenizing the text, or 8 characters per token of context if the
    beginning alone shows that it is too long.
    """
    check_text(text)
    if context is not None and len(text) > context * CHARACTERS_PER_TOKEN:
        begin = text[: context * CHARACTERS_PER_TOKEN]
        count = len(_ids(tokenizer, begin))
        if count > context + MARGIN:
            about = round(round(count * len(text) / len(begin)), -3)
            raise _too_long(text, f"about {about:,}", context, name)
    ids = _ids(tokenizer, text)
    if not ids:
        raise ValueError(f"The text {text[:40]!r} gives no tokens, so there is nothing to read.")
    if context is not None and len(ids) > context:
        raise _too_long(text, f"{len(ids):,}", context, name)
    return ids


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, return_attention_mask=False)["input_ids"])


def _too_long(text: str, count: str, context: int, name: str) -> ModelError:
    return ModelError(
        f"The text has {count} tokens ({len(text.encode()):,} bytes), and {name} reads at most "
        f"{context:,}. Give a shorter text, or a model with a longer context."
    )
