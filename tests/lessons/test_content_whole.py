"""Both languages say the same, no number is typed, words come in order; and damage is noticed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from attnscope.lessons import figures
from attnscope.lessons.site import ContentError, load
from attnscope.lessons.site.check import alike, bare, check, in_order, numbers, outline
from attnscope.lessons.site.course import CONTENT, PLAN, Course, Lesson, glossary
from attnscope.lessons.site.source import Block, Document, Text, parse, walk
from attnscope.lessons.site.timeline import generations
from attnscope.mechanisms import CATALOGUE

PATTERN = {
    "not-yet": 1, "flow": 1, "design": 1, "naive": 1, "fails": 1, "fix": 1, "predict": 1,
    "formula": 1, "widget": 3, "misconception": 1, "evidence": 1, "problem": 1, "mathematics": 1,
    "experiment": 1, "one-sentence": 1, "gap": 1, "questions": 1, "question": 1, "exercise": 1,
    "code": 1, "here": 1,
}  # fmt: skip
"""What every lesson has, and at least how many of it."""

SOFTMAX = {"predict": 3, "widget": 6, "misconception": 2, "steps": 1, "correction": 1, "code": 3,
           "question": 4, "exercise": 3}  # fmt: skip


@pytest.fixture(scope="module")
def course() -> Course:
    return load()


def lessons(course: Course) -> list[Lesson]:
    return [one for at in course.lessons.values() for one in at]


def damaged(course: Course, id: str, language: str, before: str, after: str, tmp: Path) -> Course:
    """The course with one lesson's text changed in one place."""
    changed = []
    for one in course.lessons[language]:
        if one.id == id:
            text = one.document.file.read_text(encoding="utf-8")
            assert before in text
            file = tmp / language / one.document.file.name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text.replace(before, after, 1), encoding="utf-8")
            one = Lesson(parse(file.read_text(encoding="utf-8"), file), language)
        changed.append(one)
    return replace(course, lessons={**course.lessons, language: tuple(changed)})


def test_the_course_is_whole(course: Course) -> None:
    check(course)


def test_every_lesson_has_the_whole_pattern(course: Course) -> None:
    for lesson in lessons(course):
        there = Counter(block.name for block in lesson.document.blocks())
        short = {name: there[name] for name, least in PATTERN.items() if there[name] < least}
        assert short == {}, f"{lesson.language}/{lesson.slug}: {short}"


def test_the_softmax_lesson_has_all_that_its_source_has(course: Course) -> None:
    [lesson] = [one for one in course.lessons["zh"] if one.id == "softmax"]
    there = Counter(block.name for block in lesson.document.blocks())
    assert {name for name, least in SOFTMAX.items() if there[name] < least} == set()
    widgets = {b.words[0] for b in lesson.document.blocks() if b.name == "widget"}
    assert widgets >= {"rules", "properties", "spread", "jacobian", "temperature", "growth"}
    text = lesson.document.file.read_text(encoding="utf-8")
    for id in ("proportional.10_3_-4", "softmax.8_7_9", "softmax.8_7_9.claimed", "softmax.base_2",
               "softmax.gap.20", "variance.law.256", "world.unmasked.answer"):  # fmt: skip
        assert f"{{fig:{id}}}" in text


def test_lessons_are_those_of_the_plan(course: Course) -> None:
    for lesson in lessons(course):
        assert PLAN[lesson.number - 1] == lesson.id


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("{fig:softmax.8_7_9.sum}", "{fig:softmax.8_7_9.largest}", "zh has fig softmax.8_7_9"),
        (":::widget jacobian", ":::widget growth", "zh has block widget jacobian"),
        ("{#saturation}", "{#other}", "zh has heading ## saturation where en has heading ## other"),
        ("number: 3", "number: 4", "the field 'number' differs"),
        ("scores=8,7,9", "scores=8,7,8", "scores=8,7,9"),
        (":::exercise sixty-four", ":::exercise sixty-five", "exercise sixty-four"),
        ("law.64 within=0.01", "law.64 within=0.5", "within=0.01"),
        ("{exp:variance/std/0/1@.2}", "{exp:variance/std/0/2@.2}", "exp variance/std/0/1@.2"),
        ("{exp:variance/std/0/1@.2}", "{exp:variance/std/0/1@.1}", "exp variance/std/0/1@.2"),
    ],
)
def test_a_difference_between_the_languages_is_noticed(
    course: Course, before: str, after: str, said: str, tmp_path: Path
) -> None:
    found = alike(damaged(course, "softmax", "en", before, after, tmp_path))
    assert any(said in one for one in found), found


def test_a_lesson_or_term_in_one_language_alone_is_noticed(course: Course) -> None:
    kept = tuple(one for one in course.lessons["en"] if one.id != "softmax")
    found = alike(replace(course, lessons={**course.lessons, "en": kept}))
    assert "lesson softmax: there in one language only." in found
    terms = {id: term for id, term in course.terms["en"].items() if id != "entropy"}
    found = alike(replace(course, terms={**course.terms, "en": terms}))
    assert found == ["glossary: entropy is there in one language only."]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("{fig:softmax.8_7_9.sum}", "12181", "12181"),
        ("{fig:softmax.8_7_9.largest}", "66.5%", "66.5 %"),
        (r"{math: e^7}", r"{math: e^7 = 1097}", "1097"),
        ("question: How", "question: 66.5% or how", "66.5 %"),
        ("summary: Weights", "summary: 66.5% or weights", "66.5 %"),
        ('| "Dividing', '| 24.5% "Dividing', "24.5 %"),
    ],
)
def test_a_typed_number_is_noticed(
    course: Course, before: str, after: str, shown: str, tmp_path: Path
) -> None:
    found = numbers(damaged(course, "softmax", "en", before, after, tmp_path))
    assert any(f"{shown} is typed by hand" in one for one in found), found
    assert all(one.startswith("en/03-softmax.md: line ") for one in found)


def test_what_is_left_for_the_check_keeps_its_lines() -> None:
    text = "---\nid: a\nquestion: 5 what\n---\na {fig:x.y} b\n:::widget z a=12 | 7 title\nc"
    lines = bare(text).split("\n")
    assert len(lines) == len(text.split("\n"))
    assert [lines[2], lines[5].strip()] == ["question: 5 what", "| 7 title"]
    assert lines[4].split() == ["a", "b"]


def test_a_word_used_before_it_is_introduced_is_noticed(course: Course, tmp_path: Path) -> None:
    for language, before, after, word in (
        ("en", "So this lesson builds", "By its Jacobian this lesson builds", "Jacobian"),
        ("zh", "所以这一课要造的", "按雅可比，这一课要造的", "雅可比"),
        ("en", "So this lesson builds", "With {term:variance} it builds", "variance"),
    ):
        found = in_order(damaged(course, "softmax", language, before, after, tmp_path))
        assert len(found) == 1, found
        assert f"{word!r} is used before {{new:" in found[0]
        assert found[0].startswith(f"{language}/03-softmax.md:")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_term_that_no_lesson_introduces_is_noticed(course: Course, language: str) -> None:
    """Not while lessons before it are still to be written."""
    known = dict(course.terms[language])
    known["of_nobody"] = replace(known["entropy"], id="of_nobody", spellings=("of nobody",))
    changed = replace(course, terms={**course.terms, language: known})
    [said] = in_order(changed)
    assert said.startswith(f"{language}/glossary.md:")
    assert "nothing introduces the term 'of_nobody'; write {new:of_nobody}" in said
    fewer = {**course.lessons, language: course.lessons[language][1:]}
    assert "of_nobody" not in " ".join(in_order(replace(changed, lessons=fewer)))


@pytest.mark.parametrize(
    ("language", "id", "before", "after", "word"),
    [
        ("en", "embeddings", "There are two ways", "Weights: there are two ways", "weight"),
        ("en", "embeddings", "There are two ways", "With two queries, there are two ways", "query"),
        ("en", "heads", "## Two jobs", "With MHA.\n\n## Two jobs", "MHA"),
        ("zh", "cache", "训练时整句话都在", "训练时整句话都在，预填充", "预填充"),
        ("zh", "embeddings", "量法有两种。", "量法有两种，每层一种。", "层"),
    ],
)
def test_words_are_looked_for_in_all_their_forms(
    course: Course, language: str, id: str, before: str, after: str, word: str, tmp_path: Path
) -> None:
    """Several of a thing, either half of a name in two ways, and further spellings."""
    [said] = in_order(damaged(course, id, language, before, after, tmp_path))
    assert re.search(rf"'{word}(?:（.*）| \(.*\))?' is used before", said), said


def test_what_announces_a_word_does_not_use_it(course: Course, tmp_path: Path) -> None:
    """A heading, and what a lesson says it does not touch; the text below them does."""
    for before, after, count in (
        ("## How to measure", "## Jacobians, or how to measure", 0),
        ("- **What is fetched.**", "- **Jacobians.** - **What is fetched.**", 0),
        ("A language model does not read", "Jacobians are for later. A model does not read", 1),
    ):
        found = in_order(damaged(course, "embeddings", "en", before, after, tmp_path))
        assert len(found) == count, (after, found)


@pytest.mark.parametrize(
    "fence", ["define a check=no | A", "define a check=also | A", "define a check=none also=b | A"]
)
def test_a_term_that_nothing_could_find_is_refused(fence: str) -> None:
    document = parse(f"---\nid: glossary\n---\n:::{fence}\nMeaning.\n:::", Path("en/glossary.md"))
    with pytest.raises(ContentError, match=r"4: the term 'a' needs a spelling that can be looked"):
        glossary(document)


def test_all_that_is_wrong_is_said_at_once(course: Course, tmp_path: Path) -> None:
    broken = damaged(course, "softmax", "en", "{fig:softmax.8_7_9.sum}", "12181", tmp_path)
    with pytest.raises(ContentError, match=r"typed by hand(.|\n)*|(.|\n)*zh has") as error:
        check(broken)
    assert len(str(error.value).split("\n")) >= 2


def test_the_timeline_has_every_mechanism_in_both_languages(course: Course) -> None:
    zh, en = (generations(course, at) for at in ("zh", "en"))
    assert [(one.name, one.lesson) for one in zh] == [(one.name, one.lesson) for one in en]
    assert {about.name for about in CATALOGUE} <= {one.name for one in zh}
    assert all(1 <= one.lesson <= len(PLAN) for one in zh)


def test_every_stuck_has_a_real_number(course: Course) -> None:
    """Each generation got stuck at a figure."""
    for language in ("zh", "en"):
        for one in generations(course, language):
            stuck = next(part for part in one.block.parts() if part.name == "stuck")
            text = "".join(n.source for n in walk(stuck.children) if isinstance(n, Text))
            assert "{fig:" in text, (language, one.name)


def test_an_outline_names_what_must_be_equal() -> None:
    text = "---\nid: a\n---\n## H {#h}\n{fig:x.y} {new:z|w}\n:::widget rules names=a k=1\n:::"
    document: Document = parse(text, Path("en/a.md"))
    assert outline(document) == [
        ("heading", "##", "h"), ("fig", "x.y"), ("new", "z"), ("block", "widget", "rules", "k=1"),
    ]  # fmt: skip
    assert isinstance(document.children[1], Block)


def test_content_is_where_it_is_looked_for() -> None:
    assert (CONTENT / "zh").is_dir()
    assert (CONTENT / "en").is_dir()


def test_a_kind_of_head_has_one_name_in_chinese() -> None:
    """An attention sink is 注意力汇, whatever says it: lessons, glossary, figures, widgets."""
    folder = CONTENT.parents[1] / "serve/static/js/text/zh"
    files = [*(CONTENT / "zh").iterdir(), *folder.iterdir()]
    texts = {one.name: one.read_text("utf-8") for one in files if one.name != "overview.js"}
    texts |= {one.id: one.title["zh"] for one in figures.entries()}
    assert len(texts) > 200
    gone = re.compile("沉(?!默)|注意力汇聚|前一 token|平均（摊")
    assert {name: found for name, text in texts.items() if (found := gone.findall(text))} == {}
    kinds = {"sink": "注意力汇", "uniform": "均匀", "previous-token": "前一个 token"}
    for kind, said in kinds.items():
        assert f'"kind.{kind}": "{said}",' in texts["reading.js"]
