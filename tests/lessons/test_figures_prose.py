"""Prose that types a number or refers to a figure that is not there is caught; the rest is not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscope.lessons import figures
from attnscope.lessons.figures.prose import literals

CLEAN = [
    "",
    "每 token {kv.qwen38.gqa.per_token},{shape.qwen38.context} 上下文 {kv.qwen38.gqa.total}。",
    "GQA-8 of the 67B, of Qwen3.8-27B and V2; T5-XXL in BF16 and FP4",
    "第 16 层、第 10 课、图 24;lesson 24, table 16 and section 48; eq. (24); Layer 16",
    "the 3 questions and 5 tokens, in 1 pass",  # single digits are words
    "\\frac{QK^T}{\\sqrt{d}} and {ij}, {d.}",
    "in 2017, 1999 and at 12:34; 7,777 and 33 others",
    "version 2.13.1; x16 and w_24; 0x40",
]

TYPED = [
    ("每 token 64 KiB", "64 KiB", "kv.qwen38.gqa.per_token"),
    ("每 token 64KiB", "64 KiB", "kv.qwen38.gqa.per_token"),
    ("24.5% of the weight", "24.5 %", "softmax.8_7_9"),
    ("24.50 % of it", "24.50 %", "softmax.8_7_9"),
    ("给「汽车」−44.4%", "44.4 %", "proportional.10_3_-4"),
    ("降 82.2%", "82.2 %", "kv.dsv2.saving"),
    ("8 GiB,点积 32 MiB", "8 GiB", "additive.bytes"),
    ("389,120 B", "389120 B", "kv.ds67b.gqa.per_token"),
    ("389120 字节", "389120", "kv.ds67b.gqa.per_token"),
    ("余弦 0.995", "0.995", "world.names.keys"),
    ("约 4.9 亿倍", "4.9 亿", "softmax.gap.20"),
    ("485 million", "485 million", "softmax.gap.20"),
    ("9.0%", "9.0 %", "softmax.8_7_9"),
    ("逐个喂要 15 个位置", "15", "prefix.positions"),
    ("4,095 updates", "4095", "rnn.updates"),
    ("8192T², 或 8192 T²", "8192 T²", "flops.qwen306b.prefill"),
    ("推理 1.51 s", "1.51 s", "gqa.paper.mha.seconds"),
    ("√256 = 16", "16", ""),
]


@pytest.mark.parametrize("text", CLEAN)
def test_clean_prose_passes(text: str) -> None:
    assert figures.complaints(text) == []
    figures.check_prose(text)


@pytest.mark.parametrize(("text", "shown", "id"), TYPED)
def test_a_typed_number_is_named_with_what_to_write(text: str, shown: str, id: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{shown} is typed by hand; write {{{id}")):
        figures.check_prose(text)


def test_every_complaint_comes_with_its_line() -> None:
    text = "一\n每 token {kv.qwen38.gqa.per_token}\n64 KiB\n和 {no.such.figure}、0.995"
    assert [said.split(":")[0] for said in figures.complaints(text)] == [
        "line 4", "line 3", "line 4",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"no figure 'no\.such\.figure'(.|\n)*64 KiB(.|\n)*0\.995"):
        figures.check_prose(text)


@pytest.mark.parametrize(
    "text", ["{kv.qwen38.gqa.per_tokn}", "{KV.qwen38.gqa.total}", "{a.b} and {c.d-e}"]
)
def test_an_unknown_id_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="There is no figure"):
        figures.check_prose(text)
    with pytest.raises(ValueError, match="There is no figure"):
        figures.fill(text, "en")


def test_an_allowed_number_may_stand() -> None:
    figures.check_prose("16 steps of 0.995", allow={"16", "0.995"})
    with pytest.raises(ValueError, match=r"0\.995"):
        figures.check_prose("16 steps of 0.995", allow={"16"})


def test_fill_prints_in_the_language_asked_for() -> None:
    text = "{softmax.gap.20}, {world.qk.order}; {ij}"
    assert figures.fill(text, "zh") == "4.9 亿, 苹果、小王、小明、把、给了; {ij}"
    assert figures.fill(text, "en").startswith("485 million, the apple, Xiao Wang")
    with pytest.raises(ValueError, match="language: expected one of zh, en, got 'fr'"):
        figures.fill(text, "fr")


def test_what_fill_prints_check_prose_refuses() -> None:
    """Every figure that prints two digits or more is guarded, in both languages."""
    for one in figures.all():
        for language in figures.LANGUAGES:
            found = list(literals(one.text[language]))
            guarded = [x for x in found if x.unit or sum(c.isdigit() for c in x.spelled) > 1]
            complaints = figures.complaints(one.text[language])
            assert len(complaints) == len(guarded), (one.id, language, complaints)


def test_notes_and_titles_type_no_result() -> None:
    """They refer to figures by id; what titles may spell are the inputs they are about."""
    inputs = {"8", "7", "9", "10", "3", "4", "20", "64", "256"}
    said = {
        f"{one.id} {language}": found
        for one in figures.entries()
        for language in figures.LANGUAGES
        for text in (one.title[language], one.note[language])
        if (found := figures.complaints(text, allow=inputs))
    }
    assert said == {}


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    for literal in literals(text):
        assert literal.value >= 0
        assert 1 <= literal.line <= text.count("\n") + 1


@given(st.integers(10, 10**9), st.sampled_from(["", " KiB", "%", " 个"]))
def test_commas_make_no_difference(number: int, unit: str) -> None:
    plain, grouped = (next(iter(literals(f"x {n}{unit} y"))) for n in (number, f"{number:,}"))
    assert plain == grouped
    assert plain.value == number
