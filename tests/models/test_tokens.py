"""Token spans: their bytes are the text's, and labels show whole characters."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import model_samples as samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.capture import tokens as tokens_module
from attnscope.capture.characters import LONGEST, boundaries, byte_boundaries, characters
from attnscope.capture.pieces import Notation, byte_level, notation, sentencepiece
from attnscope.capture.tokens import encode, printable, spans_of_ids, token_spans
from attnscope.trace import Token

THUMB = "\U0001f44d\U0001f3fd"  # a thumb and a skin tone
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
TEXTS = [
    "小明把苹果给了小王", "国", f"ok {THUMB}!", FAMILY, "e\u0301te\u0301", "the the",
    "  the\n\nthe", "\U0001f1e8\U0001f1f3\U0001f1e9\U0001f1ea", "각\u1100\u1161\u11a8",
    "\ufffd is in the text", "ไม้",
]  # fmt: skip
TOKENIZERS: dict[str, Any] = {
    "byte-level": samples.fast(samples.byte_level()),
    "byte-level, space before": samples.fast(samples.byte_level(prefix=True)),
    "sentencepiece": samples.fast(samples.sentencepiece()),
    "sentencepiece, no space before": samples.fast(samples.sentencepiece(prefix=False)),
}


def check(tokens: list[Token], text: str) -> None:
    """The spans lie one behind the other and give the text; every label is whole characters."""
    raw = text.encode()
    assert b"".join(raw[token.start : token.end] for token in tokens) == raw
    at = 0
    for index, token in enumerate(tokens):
        assert token.index == index
        assert token.start == at <= token.end
        at = token.end
        if token.start < token.end:
            assert token.text in text
            assert raw[token.start : token.end] in token.text.encode()
    assert "".join(one.text for one in characters(tokens, text) if one.start < one.end) == text


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("text", TEXTS)
def test_spans_give_the_text(kind: str, text: str) -> None:
    found = encode(TOKENIZERS[kind], text)
    assert found.method == "pieces"
    check(list(found.tokens), text)
    if "\ufffd" not in text:
        assert all("\ufffd" not in token.text for token in found.tokens)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
@settings(max_examples=60, deadline=None)
def test_spans_give_any_text(kind: str, text: str) -> None:
    if "<|end|>" in text or "<s>" in text:
        return
    check(token_spans(TOKENIZERS[kind], text), text)


@pytest.mark.parametrize("damage", ["shifted", "dropped", "label"])
def test_the_check_can_fail(damage: str) -> None:
    tokens = token_spans(TOKENIZERS["byte-level"], "国 the")
    if damage == "shifted":
        first = tokens[0]
        tokens[0] = Token(0, first.id, first.text, 1, 2)
    elif damage == "dropped":
        tokens = tokens[:-1]
    else:
        tokens[0] = Token(0, tokens[0].id, "\ufffd", tokens[0].start, tokens[0].end)
    with pytest.raises(AssertionError):
        check(tokens, "国 the")


def test_pieces_of_one_character_by_hand() -> None:
    """国 is e5 9b bd; Ġ and ▁ are spaces."""
    found = token_spans(TOKENIZERS["byte-level"], "国 the")
    assert [(t.text, t.start, t.end) for t in found] == [
        ("国", 0, 1), ("国", 1, 2), ("国", 2, 3), (" the", 3, 7),
    ]  # fmt: skip
    found = token_spans(TOKENIZERS["sentencepiece"], "the 苹")
    assert [(t.text, t.start, t.end) for t in found] == [
        ("<s>", 0, 0), ("the", 0, 3), (" ", 3, 4), ("苹", 4, 5), ("苹", 5, 6), ("苹", 6, 7),
    ]  # fmt: skip


def test_the_space_put_before_is_no_byte_of_the_text() -> None:
    found = token_spans(TOKENIZERS["sentencepiece"], "the")
    assert [(t.text, t.start, t.end) for t in found] == [("<s>", 0, 0), ("the", 0, 3)]
    spaced = token_spans(TOKENIZERS["sentencepiece"], " the")
    check(spaced, " the")


def test_special_tokens() -> None:
    """Put around the text they are empty; written out in it they have their place."""
    assert token_spans(TOKENIZERS["sentencepiece"], "the", add_special=False)[0].text == "the"
    found = token_spans(TOKENIZERS["byte-level"], "a<|end|>b")
    assert [(t.text, t.start, t.end) for t in found] == [
        ("a", 0, 1), ("<|end|>", 1, 8), ("b", 8, 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (samples.composing, "cafe\u0301 x"),
        (samples.wordpiece, "The CAFÉ there 国"),
        (lambda: samples.sentencepiece(unknown=True), "the 苹 the"),
    ],
)
def test_tokenizers_that_change_the_text_fall_back(made: Any, text: str) -> None:
    """Their spans are those of whole characters, in order, and the method says so."""
    found = encode(samples.fast(made()), text)
    assert found.method == "offsets"
    raw, starts = text.encode(), [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    for token in found.tokens:
        assert {token.start, token.end} <= set(starts)
        assert "\ufffd" not in token.text
        assert raw[token.start : token.end].decode() in text
    assert [t.start for t in found.tokens if t.end > t.start] == sorted(
        t.start for t in found.tokens if t.end > t.start
    )


def test_wordpiece_by_hand() -> None:
    found = encode(samples.fast(samples.wordpiece()), "The CAFÉ there")
    spans = [(t.text, t.start, t.end) for t in found.tokens]
    assert spans == [
        ("[CLS]", 0, 0), ("The", 0, 3), ("CAFÉ", 4, 9), ("the", 10, 13), ("re", 13, 15),
        ("[SEP]", 0, 0),
    ]  # fmt: skip


class Slow:
    """A tokenizer in plain Python: no offsets, bytes as SentencePiece writes them."""

    all_special_ids: tuple[int, ...] = (1,)
    added_tokens_decoder: dict[int, str] = {}  # noqa: RUF012

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [1, *range(2, len(self.words))]}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.words[one] for one in ids]


def test_a_tokenizer_without_offsets() -> None:
    slow = Slow(["<unk>", "<s>", "▁the", "<0xE5>", "<0x9B>", "<0xBD>"])
    check(token_spans(slow, "the国"), "the国")
    with pytest.raises(ValueError, match=r"Slow has no offsets"):
        token_spans(slow, "THE国")


def test_notations() -> None:
    assert notation(TOKENIZERS["byte-level"]).kind == "byte-level"
    assert notation(TOKENIZERS["sentencepiece"]).kind == "sentencepiece"
    assert notation(samples.fast(samples.wordpiece())).kind == "wordpiece"
    assert notation(TOKENIZERS["byte-level"]).special == {0}
    assert byte_level("åĽ½") == "国".encode()
    assert byte_level("国") is None
    assert sentencepiece("▁a▁b") == b" a b"
    assert sentencepiece("<0xe5>") == b"\xe5"
    assert Notation("wordpiece").bytes_of(9, "##ing", first=False) == b"ing"
    assert Notation("words").bytes_of(9, "word", first=False) == b" word"


def test_every_byte_has_its_letter() -> None:
    """Against the tokenizers library, which knows the alphabet by itself."""
    from tokenizers import pre_tokenizers

    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("".join(map(chr, range(1, 0x2000))), "国\U0001f44d\U0010ffff"):
        written = "".join(piece for piece, _ in splitter.pre_tokenize_str(text))
        assert byte_level(written) == text.encode()


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_what_a_model_wrote_goes_on_after_the_text(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    before = encode(tokenizer, "the 国")
    added = tokenizer(" the 苹", add_special_tokens=False)["input_ids"]
    tokens, whole = spans_of_ids(tokenizer, [*before.ids, *added], text="the 国")
    assert whole.startswith("the 国")
    assert whole.endswith(" the 苹")
    check(tokens, whole)
    assert tuple(tokens[: len(before.tokens)]) == before.tokens


def test_ids_without_a_text() -> None:
    tokenizer = TOKENIZERS["byte-level"]
    ids = tokenizer("国 the")["input_ids"]
    tokens, whole = spans_of_ids(tokenizer, ids)
    assert whole == "国 the"
    check(tokens, whole)
    assert spans_of_ids(tokenizer, []) == ([], "")


def test_half_a_character_is_written_out() -> None:
    """A run that stops inside 国 shows its bytes, not U+FFFD, and the spans still fit."""
    tokenizer = TOKENIZERS["byte-level"]
    begin = tokenizer("a")["input_ids"]
    half = tokenizer("国")["input_ids"][:2]
    tokens, whole = spans_of_ids(tokenizer, [*begin, *half], text="a")
    assert whole == "a<0xE5><0x9B>"
    assert [(t.text, t.start, t.end) for t in tokens] == [
        ("a", 0, 1), ("<0xE5>", 1, 7), ("<0x9B>", 7, 13),
    ]  # fmt: skip
    check(tokens, whole)


def test_special_tokens_that_a_model_wrote_are_no_text() -> None:
    tokenizer = TOKENIZERS["byte-level"]
    tokens, whole = spans_of_ids(tokenizer, [*tokenizer("a")["input_ids"], 0], text="a")
    assert whole == "a"
    assert tokens[-1] == Token(1, 0, "<|end|>", 1, 1)


def test_ids_of_another_text() -> None:
    tokenizer = TOKENIZERS["byte-level"]
    with pytest.raises(ValueError, match="do not begin with the tokens of the text"):
        spans_of_ids(tokenizer, tokenizer("b")["input_ids"], text="a")


@given(raw=st.binary())
def test_printable(raw: bytes) -> None:
    """Nothing is lost, and every byte has its place."""
    text, places = printable(raw)
    assert len(places) == len(raw) + 1
    assert places == sorted(places)
    assert places[-1] == len(text.encode())
    if text.encode() != raw:
        with pytest.raises(UnicodeDecodeError):
            raw.decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [0]), ("ab", [0, 1, 2]), ("e\u0301x", [0, 2, 3]), (THUMB, [0, 2]), (FAMILY, [0, 5]),
        ("\U0001f1e8\U0001f1f3\U0001f1e9\U0001f1ea", [0, 2, 4]), ("\r\n\n", [0, 2, 3]),
        ("\u1100\u1161\u11a8\u1100", [0, 3, 4]), ("각가", [0, 1, 2]), ("가\u11a8", [0, 2]),
        ("\n\u0301", [0, 1, 2]), ("ไม้", [0, 1, 3]), ("a\u200db", [0, 2, 3]),
    ],
)  # fmt: skip
def test_characters_by_hand(text: str, expected: list[int]) -> None:
    """After the rules of Unicode's annex 29."""
    assert boundaries(text) == expected


@given(st.text())
def test_boundaries_cover_the_text(text: str) -> None:
    found = boundaries(text)
    assert found[-1] == len(text)
    assert found == sorted(set(found))
    assert byte_boundaries(text)[-1] == len(text.encode("utf-8", "surrogatepass"))


def test_a_tower_of_marks_is_cut() -> None:
    found = boundaries("a" + "\u0301" * 1000)
    assert max(b - a for a, b in pairwise(found)) == LONGEST


def test_groups_by_hand() -> None:
    """Tokens of one character are one group, with its whole text."""
    text = f"国 {THUMB}"
    groups = characters(token_spans(TOKENIZERS["byte-level"], text), text)
    assert [(g.text, g.first, g.last) for g in groups] == [
        ("国", 0, 2), (" ", 3, 3), (THUMB, 4, 11),
    ]  # fmt: skip


def test_no_token_is_decoded_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = samples.fast(samples.byte_level())

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("decode was called")

    monkeypatch.setattr(type(tokenizer), "decode", refuse)
    text, ids = "小明", tokenizer("小明")["input_ids"]
    assert tokens_module.token_spans(tokenizer, text)
    assert spans_of_ids(tokenizer, ids)[1] == text


@pytest.mark.real_model
def test_the_real_tokenizer_shows_no_replacement_character() -> None:
    from transformers import AutoTokenizer

    from attnscope.capture.models import path

    tokenizer = AutoTokenizer.from_pretrained(str(path("smollm2")), local_files_only=True)
    for text in TEXTS:
        found = encode(tokenizer, text)
        assert found.method == "pieces"
        check(list(found.tokens), text)
    shown = [token.text for token in token_spans(tokenizer, "小明把苹果给了小王")]
    assert "".join(dict.fromkeys(shown)) == "小明把苹果给了王"
    assert not any("\ufffd" in label for label in shown)
