"""A lesson's minutes are counted on its page; every lesson reads in 10 to 20, in each language."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from attnscope.lessons.site import ContentError, load
from attnscope.lessons.site.build import draw_lesson
from attnscope.lessons.site.course import CONTENT, Course, Lesson
from attnscope.lessons.site.pace import CHARACTERS, EXPERIMENT, PREDICTION, WORDS, reading_minutes
from attnscope.lessons.site.source import parse
from attnscope.lessons.site.words import LANGUAGES, say

LEAST, MOST = 10, 20


@pytest.fixture(scope="module")
def course() -> Course:
    return load()


def minutes(course: Course, lesson: Lesson) -> float:
    return reading_minutes(draw_lesson(course, lesson)[1])


def outside(course: Course, lessons: list[Lesson]) -> dict[str, float]:
    """Lessons that take too little or too much time."""
    found = {f"{one.language}/{one.slug}": minutes(course, one) for one in lessons}
    return {name: took for name, took in found.items() if not LEAST <= took <= MOST}


def test_every_lesson_reads_in_ten_to_twenty_minutes_in_each_language(course: Course) -> None:
    assert outside(course, [one for at in course.lessons.values() for one in at]) == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_lesson_too_long_or_too_short_is_noticed(course: Course, language: str) -> None:
    [lesson] = [one for one in course.lessons[language] if one.id == "rope"]
    text = lesson.document.file.read_text("utf-8")
    prose = "\n\n".join(
        one for one in re.findall(r"^[^:#{|<\-\n].*$", text, re.M) if "{" not in one
    )
    for changed, short in ((f"{text}\n{prose}\n\n{prose}", False), (cut(text), True)):
        document = parse(changed, lesson.document.file)
        [took] = outside(course, [Lesson(document, language)]).values()
        assert (took < LEAST) is short


def cut(text: str) -> str:
    """The text up to its second heading."""
    return text[: [at.start() for at in re.finditer("^## ", text, re.M)][1]]


def test_a_page_says_its_own_minutes(course: Course) -> None:
    for at in course.lessons.values():
        for lesson in at:
            html = draw_lesson(course, lesson)[1]
            shown = say(lesson.language, "minutes", minutes=round(reading_minutes(html)))
            assert f"<span>{shown}</span>" in html


def test_minutes_cannot_be_typed(tmp_path: Path) -> None:
    for language in LANGUAGES:
        (tmp_path / language).mkdir()
        for name in ("01-embeddings.md", "glossary.md"):
            text = (CONTENT / language / name).read_text("utf-8")
            (tmp_path / language / name).write_text(text, "utf-8")
    load(tmp_path)
    file = tmp_path / "zh/01-embeddings.md"
    file.write_text(file.read_text("utf-8").replace("\nsummary:", "\nminutes: 12\nsummary:"))
    with pytest.raises(ContentError, match="the front matter has no field 'minutes'; there are id"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("html", "words", "characters"),
    [
        ("<p>One two, <b>three</b> don't 1,024 well-known 66.5%.</p>", 7, 0),
        ("<p>一个 token 占 40%。</p>", 2, 3),
        ("<td>389,120</td><td>0.28</td>", 2, 0),
        ("<pre><code>q, k = self.q[:, 0]</code></pre>", 4, 0),
        ("<p>Divide by <math><msqrt><msub><mi>d</mi><mi>k</mi></msub></msqrt></math>.</p>", 5, 0),
        # Q K⊤ over the root of d: a fraction, a root, four signs; no bracket
        ("<math><mo>(</mo><mfrac><mrow><mi>Q</mi><msup><mi>K</mi><mo>⊤</mo></msup></mrow>"
         "<msqrt><mi>d</mi></msqrt></mfrac><mo>)</mo></math>", 6, 0),
        ("<math><mtext>权重</mtext><mo>=</mo><mi>w</mi></math>", 2, 2),
        ("<div class='card'><h4>One</h4><p>two</p></div>", 2, 0),
        ("<section class='predict'><div class='reveal' hidden>a b</div></section>", 2, 0),
        ("<details class='fails'><summary>a</summary><p>b</p></details>", 2, 0),
        ("<details class='question'><summary>a</summary><p>b</p></details>c", 1, 0),
        ("<details class='deeper'>b<br><section class='widget'>b</section></details>c", 1, 0),
        ("<section class='exercises'><p>b</p></section><p>c</p>", 1, 0),
        ("<ol><li class='known'>b</li><li class='now'>c</li><li class='later'>d</li></ol>", 1, 0),
        ("<section class='here'><p>c</p><ol><li>b</li></ol></section><ol><li>c</li></ol>", 2, 0),
        ("<nav class='contents'><a>b</a></nav><p class='which'>b <span>b</span></p>", 0, 0),
    ],
)  # fmt: skip
def test_what_is_read_is_counted_and_nothing_else(html: str, words: int, characters: int) -> None:
    """The counts are made by hand."""
    took = words / WORDS + characters / CHARACTERS
    took += PREDICTION * html.count("class='predict'")
    assert reading_minutes(html) == pytest.approx(took, abs=1e-12)


def test_an_experiment_takes_its_minute_and_its_guide_is_read() -> None:
    html = "<section class='widget'><div class='stand'></div><div class='guide'>a b</div></section>"
    assert reading_minutes(html * 3) == pytest.approx(3 * EXPERIMENT + 6 / WORDS)


def test_the_pace_is_the_papers() -> None:
    """238 words in silence and 183 aloud; 255 characters aloud."""
    assert WORDS == 238
    assert pytest.approx(CHARACTERS, abs=0.5) == 331.6
    assert reading_minutes("<p>" + "字" * 3316 + "</p>") == pytest.approx(10, abs=0.01)


def test_a_second_reading_costs_no_minutes(course: Course) -> None:
    [lesson] = [one for one in course.lessons["en"] if one.id == "rope"]
    text = lesson.document.file.read_text("utf-8")
    more = ":::deeper more | More\nMany words, for whoever wants them.\n:::\n"
    folded = replace(lesson, document=parse(text + more, lesson.document.file))
    assert minutes(course, folded) == minutes(course, lesson)
