"""Bytes that come in pieces become the same text, in whole characters, up to the first stop."""

from __future__ import annotations

from itertools import pairwise

import pytest
from generate_samples import WORDS, tokenizer_of_bytes
from hypothesis import example, given
from hypothesis import strategies as st

from attnscope.capture.characters import boundaries
from attnscope.capture.tokens import printable
from attnscope.cli.console import safe
from attnscope.cli.stream import TextStream, bytes_of_tokens

TRICKY = "a国é\u0301👍🏽🇨🇳🇩🇪👩\u200d🚀\r\n각\u1100\u1161."


def pieces(raw: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    return [raw[a:b] for a, b in pairwise(places)]


@given(
    text=st.text(alphabet=st.sampled_from(TRICKY) | st.characters(codec="utf-8"), max_size=30),
    cuts=st.lists(st.integers(0, 99), max_size=40),
)
@example(text=TRICKY, cuts=list(range(99)))
def test_any_cut_gives_the_text_in_whole_characters(text: str, cuts: list[int]) -> None:
    stream, given_ = TextStream(), []
    for part in pieces(text.encode(), cuts):
        given_.append(stream.add(part))
    given_.append(stream.end())
    assert "".join(given_) == stream.text == text
    ends, at = set(boundaries(text)), 0
    for part in given_:
        at += len(part)
        assert at in ends or not text
    assert not stream.stopped


@given(raw=st.binary(max_size=20), cuts=st.lists(st.integers(0, 20), max_size=20))
@example(raw=b"\xe5\x9b", cuts=[1])
@example(raw=b"a\xff\xe5b", cuts=[2])
def test_bytes_that_are_no_characters_are_written_out(raw: bytes, cuts: list[int]) -> None:
    stream = TextStream()
    for part in pieces(raw, cuts):
        stream.add(part)
    stream.end()
    assert stream.text == printable(raw)[0]


@given(
    text=st.text(alphabet="abc国é\u0301", max_size=20),
    stops=st.lists(st.text(alphabet="abc国", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(0, 60), max_size=40),
)
@example(text="aab", stops=["ab"], cuts=[1, 2])
@example(text="ab国", stops=["国", "b国"], cuts=[3])
def test_a_stop_ends_the_text_wherever_it_is_cut(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    """One byte at a time there is no later stop in hand, so the first to be complete counts."""
    stream, shown = TextStream(stops), ""
    for part in pieces(text.encode(), [*cuts, *range(99)]):
        shown += stream.add(part)
    shown += stream.end()
    whole = [len(text[: text.find(stop)] + stop) for stop in stops if stop in text]
    if not whole:
        assert (shown, stream.stopped) == (text, False)
        return
    until = text[: min(whole)]
    complete = [stop for stop in stops if until.endswith(stop)]
    assert stream.stopped
    assert shown == until[: min(until.find(stop) for stop in complete)]
    assert stream.add(b"more") == stream.end() == ""


def test_what_could_still_change_is_held_back_and_nothing_else() -> None:
    stream = TextStream(["STOP"])
    given_ = [stream.add(one.encode()) for one in "ab STAR ST"]
    # one character behind; "S" and "ST" might have begun a stop, "STA" could not
    assert given_ == ["", "a", "b", " ", "", "ST", "A", "R", " ", ""]
    assert stream.end() == "ST"


def test_a_stop_without_text_is_refused() -> None:
    with pytest.raises(ValueError, match="stop: expected some text"):
        TextStream(["a", ""])


def test_tokens_become_their_bytes() -> None:
    bytes_of = bytes_of_tokens(tokenizer_of_bytes())
    ids = {word: number for number, word in enumerate(WORDS)}
    assert bytes_of(ids["<|end|>"]) == b""
    assert bytes_of(ids["a"]) == b"a"
    assert bytes_of(ids["Ġ"]) == b" "
    assert bytes_of(ids["å"]) == b"\xe5"
    assert bytes_of(len(WORDS) + 5) == f"#{len(WORDS) + 5}".encode()


def test_a_terminal_is_not_steered() -> None:
    assert safe("a\tb\n国\x1b]0;x\x07\u202e\r") == "a\tb\n国\\x1b]0;x\\x07\\u202e\\r"
