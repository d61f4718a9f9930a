"""What stands behind a figure speaks Chinese where Chinese is asked for, with the same numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from attnscope.lessons import figures
from attnscope.lessons.figures import Figure, chinese
from attnscope.lessons.figures.configs import HUB
from attnscope.lessons.site.course import load
from attnscope.lessons.site.timeline import generations
from attnscope.lessons.site.values import about
from attnscope.mechanisms import CATALOGUE

NAMES = frozenset((
    # Words of the field as the lessons have them, units, formats.
    "token", "key", "value", "config", "json", "bit", "FLOP", "KV", "MQA", "ms", "SXM",
    "arXiv", "softmax", "float", "bfloat", "full", "gated", "deltanet", "mla", "indexer",
    # Functions and symbols of formulas.
    "cos", "exp", "ln", "sqrt", "sum", "max", "min", "abs", "mean", "std", "var", "tanh", "Var",
    "sigma",
    # Models, makers, authors.
    "DeepSeek", "AI", "NVIDIA", "Flash", "XXL", "Kimi", "Team", "Mistral", "gpt", "oss",
    "Ainslie", "Bahdanau", "Beltagy", "Bridle", "Cho", "Dehghani", "Elman", "Hatamizadeh", "Henry",
    "Kautz", "Qiu", "Shazeer", "Su", "Sutskever", "Vaswani", "Xiao", "Yang",
))  # fmt: skip
"""What a Chinese text says in Latin letters."""
NUMBER = re.compile(r"(?<![A-Za-z_])\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def every() -> tuple[Figure, ...]:
    return figures.all()


def words_of(one: Figure) -> Iterator[str]:
    """What a card or a terminal says of a figure beside its title and note."""
    yield from (one.unit, one.formula, one.source)
    yield from (given.source for given in one.inputs.values())


def english(text: str, names: frozenset[str] = frozenset()) -> list[str]:
    """The words of a text that are no names, modules, files, fields or ids."""
    for id in sorted(HUB.values(), key=len, reverse=True):
        text = text.replace(id, "")
    text = re.sub(r"(\.json)：\w+", r"\1", text, flags=re.ASCII)
    text = re.sub(r"\w*\d\w*|\w+(?:[./]\w+|_\w+)+|_\w+", "", text, flags=re.ASCII)
    return [one for one in re.findall(r"[A-Za-z]{2,}", text) if one not in NAMES | names]


def papers() -> set[str]:
    return {one.paper for one in CATALOGUE}


def test_no_english_is_left_of_any_figure(every: tuple[Figure, ...]) -> None:
    left = {}
    for one in every:
        names = frozenset(one.inputs)  # what the formula calculates with
        told = one.told("zh")
        for text in words_of(told):
            said = english(text, names if text == told.formula else frozenset())
            if said:
                left[f"{one.id}: {text}"] = said
    assert left == {}


def test_no_english_is_left_of_the_timeline() -> None:
    course = load()
    there = {language: generations(course, language) for language in figures.LANGUAGES}
    assert len(there["zh"]) == len(there["en"]) >= 13
    assert {one.paper: left for one in there["zh"] if (left := english(one.paper))} == {}
    for zh, en in zip(there["zh"], there["en"], strict=True):
        assert Counter(NUMBER.findall(zh.paper)) == Counter(NUMBER.findall(en.paper))
    assert {text for text in papers() if english(chinese.chinese(text))} == set()


def test_english_that_is_left_is_noticed() -> None:
    assert english(chinese.chinese("a sentence that nobody has translated"))
    assert english(chinese.chinese("config of Qwen/Qwen3.8-27B, as somebody says")) == [
        "as", "somebody", "says",
    ]  # fmt: skip
    assert english("attnscope.plan，Qwen/Qwen3.8-27B 的 config；head_dim") == []
    assert english("the number of heads", frozenset({"heads"})) == ["the", "number", "of"]


def test_both_forms_have_the_same_numbers(every: tuple[Figure, ...]) -> None:
    for one in every:
        told = one.told("zh")
        assert told.value == one.value
        assert {n: i.value for n, i in told.inputs.items()} == {
            n: i.value for n, i in one.inputs.items()
        }
        for zh, en in zip(words_of(told), words_of(one), strict=True):
            assert Counter(NUMBER.findall(zh)) == Counter(NUMBER.findall(en)), (one.id, zh)
    assert Counter(NUMBER.findall("第 2 节，3.5")) == {"2": 1, "3.5": 1}


def test_arithmetic_is_the_same_in_both_languages(every: tuple[Figure, ...]) -> None:
    """A formula that is no sentence is one string in both, so what it gives is too."""
    same = [one for one in every if one.told("zh").formula == one.formula]
    in_words = {one.formula for one in every} - {one.formula for one in same}
    assert len(same) > 150
    assert all(re.search(r"[a-z]{2,} [a-z]", formula) or "row by row" in formula
               or ", at key" in formula for formula in in_words)  # fmt: skip


def test_pauses_are_full_width(every: tuple[Figure, ...]) -> None:
    for one in every:
        for text in words_of(one.told("zh")):
            if not re.search(r"[一-鿿]", text):
                continue
            inside = re.sub(r"\([^()]*\)", "", text)  # arguments of a function
            assert not re.search(r"[,;:]", inside), (one.id, text)


def test_every_translation_is_needed(every: tuple[Figure, ...]) -> None:
    said = {text for one in every for text in words_of(one)} | papers()
    said |= {one.paper for one in generations(load(), "en")}
    together = "\n".join(sorted(said))
    assert {one for one in chinese.PIECES if one not in together} == set()
    assert {one for one in chinese.FIELDS if f".json: {one}" not in together} == set()
    assert {one.unit for one in every} >= set(chinese.UNITS)
    for pattern, _ in chinese.PATTERNS:
        assert re.search(pattern, together), pattern


def test_a_card_speaks_the_language_of_its_page() -> None:
    zh, en = (about("gqa.paper.mha.seconds", language) for language in figures.LANGUAGES)
    assert zh["source"] == "Ainslie 等 2023，arXiv 2305.13245，表 1，T5-XXL：每个样本的推理时间"
    assert en["source"].endswith("table 1, T5-XXL: inference time per sample")
    assert about("cache.without", "zh")["inputs"][0] == {
        "name": "prompt", "value": "2", "source": "课程里的例子：提示的 token 数",
    }  # fmt: skip
    for id in figures.ids():
        card = about(id, "zh")
        names = frozenset(one["name"] for one in card["inputs"])
        assert english(card["formula"], names) == english(card["source"]) == [], id
        assert [one for one in card["inputs"] if english(one["source"])] == [], id
