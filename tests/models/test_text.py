"""Texts: read exactly, or refused in a sentence, early."""

from __future__ import annotations

import io
import time
import tracemalloc
from pathlib import Path

import model_samples as samples
import pytest

from attnscope.capture import text as texts
from attnscope.capture.text import check_text, read_text, token_ids
from attnscope.errors import ModelError

TOKENIZER = samples.fast(samples.byte_level())


def test_read_exactly(tmp_path: Path) -> None:
    """Line ends and spaces as they are; only a byte-order mark goes."""
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeff国\r\n\t b \n".encode())
    assert read_text(file) == "国\r\n\t b \n"
    assert read_text(str(file)) == read_text(io.BytesIO(file.read_bytes()))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"abc\xff", r"a.txt is not UTF-8: byte 3 is 0xff. Convert it \(iconv"),
        ("国".encode()[:2], "is not UTF-8: byte 0 is 0xe5"),
        ("国".encode("utf-16-le") + b"a\0", "is not text: byte 3 is NUL"),
        (b"a\0b", "is not text: byte 1 is NUL. If it is UTF-16"),
        (b"\0a", "is not text: byte 0 is NUL"),
    ],
)
def test_files_that_are_not_text(tmp_path: Path, raw: bytes, says: str) -> None:
    (tmp_path / "a.txt").write_bytes(raw)
    with pytest.raises(ModelError, match=says):
        read_text(tmp_path / "a.txt")


def test_a_stream_is_called_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc\xff")
    with (
        (tmp_path / "a.txt").open("rb") as stream,
        pytest.raises(ModelError, match=r"a\.txt is not"),
    ):
        read_text(stream)
    for name, said in (("<stdin>", "^the standard input is not"), (None, "^the input is not")):
        stream = io.BytesIO(b"abc\xff")
        if name is not None:
            stream.name = name  # type: ignore[attr-defined]
        with pytest.raises(ModelError, match=said):
            read_text(stream)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        read_text(tmp_path / "none")
    with pytest.raises(ModelError, match="Is a directory"):
        read_text(tmp_path)
    with pytest.raises(ModelError, match="null"):
        read_text("a\0b")


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MOST_BYTES", 10)
    (tmp_path / "a.txt").write_bytes(b"0123456789")
    assert read_text(tmp_path / "a.txt") == "0123456789"
    (tmp_path / "a.txt").write_bytes(b"0123456789+")
    with pytest.raises(ModelError, match="has more than 10 bytes"):
        read_text(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "The text is empty"),
        ("a\0b", "The text has a NUL at character 1"),
        ("a\udce5", "half a character at 1"),
    ],
)
def test_texts_that_are_none(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_text(text)
    with pytest.raises(ValueError, match=says):
        token_ids(TOKENIZER, text)


def test_the_context_to_the_token() -> None:
    """As many tokens as the context fit, one more does not; without a context anything does."""
    assert len(token_ids(TOKENIZER, "a" * 64, context=64)) == 64
    with pytest.raises(ModelError, match=r"has 65 tokens \(65 bytes\), and tiny reads at most 64"):
        token_ids(TOKENIZER, "a" * 65, context=64, name="tiny")
    assert len(token_ids(TOKENIZER, "a" * 65)) == 65


def test_a_long_text_that_fits_is_not_refused() -> None:
    """More than 8 characters a token, which the early look must let through."""
    from tokenizers import Tokenizer, models

    words = samples.fast(Tokenizer(models.WordLevel({"a" * 1000: 0, "?": 1}, unk_token="?")))
    assert token_ids(words, "a" * 1000, context=1) == [0]


def test_ten_megabytes_are_refused_early() -> None:
    """A beginning decides: far less memory than the ids of the whole, and within a moment."""
    text = "the cat " * 1_310_720
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(ModelError, match=r"about [\d,]+ tokens \(10,485,760 bytes\)"):
        token_ids(TOKENIZER, text, context=8192)
    seconds = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 5  # some 0.1 s when nothing else runs; tokenizing all of it takes 20
    assert peak < 60e6  # the text once more as bytes, and the ids of 65,536 characters


def test_a_text_that_gives_no_tokens() -> None:
    from tokenizers import Tokenizer, models, normalizers

    nothing = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    nothing.normalizer = normalizers.Strip()
    with pytest.raises(ValueError, match="gives no tokens"):
        token_ids(samples.fast(nothing), "   ")
