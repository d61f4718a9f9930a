"""What a reader reads on a page: its words, signs and ways, judged by the content's own files.

Not here: whether pages are whole (test_site_build.py), formulas that cannot be read
(test_site_source.py).
"""

from __future__ import annotations

import doctest
import importlib
import json
import re
from dataclasses import replace
from html import escape, unescape
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import torch

from attnscope.lessons import figures
from attnscope.lessons.site import code, load, mathml, values
from attnscope.lessons.site.build import (
    draw_lesson,
    front_page,
    index_page,
    lesson_page,
    timeline_page,
)
from attnscope.lessons.site.course import CONTENT, Course, Lesson
from attnscope.lessons.site.flow import steps
from attnscope.lessons.site.page import Page
from attnscope.lessons.site.source import Text, parse
from attnscope.lessons.site.words import LANGUAGES, say
from attnscope.plan.find import CONFIGS

FRONT = "---\nid: softmax\nnumber: 3\ntitle: T\nquestion: Q\nallow: 9\nsummary: S\n---\n"
EXAMPLES = (
    "code", "flow", "inline", "mathml", "pace", "page", "source", "values", "words",
)  # fmt: skip


@pytest.fixture(scope="module")
def course() -> Course:
    return load()


def drawn(text: str, course: Course, language: str = "en") -> str:
    """What a lesson of this text shows, without its opening and its notes."""
    document = parse(FRONT + text, Path(language) / "03-softmax.md")
    html = draw_lesson(course, Lesson(document, language))[1]
    return html[html.index("</header>") : html.index('<section class="notes">')]


def fronts(language: str) -> dict[str, dict[str, str]]:
    """Each lesson's front matter as its file has it, by the file's name, first to last."""
    found = {}
    for file in sorted((CONTENT / language).glob("[0-9]*.md")):
        front = file.read_text("utf-8").split("---\n")[1]
        found[file.stem] = dict(re.findall(r"^(\w+): *(.*)$", front, re.M))
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"attnscope.lessons.site.{name}")).failed == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_lesson_leads_to_the_one_before_and_the_one_after(course: Course, language: str) -> None:
    known = fronts(language)
    names = [None, *known, None]
    for before, one, after in zip(names, course.lessons[language], names[2:], strict=False):
        html = draw_lesson(course, one)[1]
        ways = re.findall(
            r'<a class="(\w+)" href="([^"]+)\.html"><small>([^<]+)</small> ([^<]+)</a>',
            html[html.index('<nav class="around">') :],
        )
        assert ways == [
            (key, name, say(language, key), escape(known[name]["title"]))
            for key, name in (("previous", before), ("next", after))
            if name is not None
        ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_window_and_the_list_name_a_lesson_as_its_file_does(
    course: Course, language: str
) -> None:
    known = fronts(language)
    first = course.lessons[language][0]
    title = re.search("<title>(.*)</title>", lesson_page(course, first))
    assert title is not None
    assert unescape(title[1]).startswith(known[first.slug]["title"] + " · ")
    rows = re.findall(
        r'<li><a href="([^"]+)\.html"><b>(\d+)</b><span>(.*?)<small>(.*?)</small>',
        index_page(course, language),
    )
    assert [(name, int(number), unescape(a), unescape(b)) for name, number, a, b in rows] == [
        (name, at, front["title"], front["question"])
        for at, (name, front) in enumerate(known.items(), 1)
    ]


def test_a_page_says_in_which_language_the_other_one_is(course: Course) -> None:
    for language, lang in (("en", "en"), ("zh", "zh-Hans")):
        assert f'<a href="{language}/index.html" lang="{lang}">' in front_page(course)
    for language, other in (("en", "zh-Hans"), ("zh", "en")):
        html = index_page(course, language)
        assert f'lang="{other}" hreflang="{other}"' in html
        assert html.count(f'lang="{other}"') == 2  # the link's own and where it leads, no more


def test_a_reference_is_shown_in_the_words_that_it_gives(course: Course) -> None:
    html = drawn("{new:softmax|one} {term:softmax|two} {lesson:masking|three}", course)
    shown = re.findall(r">(\w+)</(?:button|a)>", html)
    assert shown == ["one", "two", "three"]
    html = drawn("{new:softmax} {term:softmax} {lesson:masking}", course)
    assert re.findall(r">([\w ]+)</(?:button|a)>", html) == ["softmax", "softmax", "Lesson 4"]


def test_a_terms_meaning_is_carried_as_it_reads(course: Course) -> None:
    """On a card it is plain text, so no sign of it may be written as in HTML."""
    term = course.terms["en"]["softmax"]
    changed = replace(term, meaning=Text(term.meaning.place, "a < b & *c*"))
    terms = {**course.terms, "en": MappingProxyType({**course.terms["en"], "softmax": changed})}
    document = parse(FRONT + "{term:softmax}", Path("en/03-softmax.md"))
    page = Page(replace(course, terms=terms), document, "en", 3)
    page.reference("term", "softmax", term.place)
    assert page.data()["terms"]["softmax"]["meaning"] == "a < b & c"


def test_the_answer_of_an_exercise_is_in_the_unit_that_is_asked_for(course: Course) -> None:
    text = (
        ":::exercise a answer=exp:rules/weights/softmax/0 within=0.06{} unit=% | T\nQ\n---\nA\n:::"
    )
    share = np.exp(10) / np.exp([10, 3, -4]).sum()
    for scale, factor in ((" scale=100", 100), ("", 1)):
        given = re.search(
            r'data-answer="([^"]+)" data-within="0.06"', drawn(text.format(scale), course)
        )
        assert given is not None
        assert float(given[1]) == pytest.approx(factor * share, rel=1e-9)


def test_a_design_opens_at_its_first_step_and_steps_give_reasons(course: Course) -> None:
    parts = "\n".join(f":::{one}\n{one} text\n:::" for one in ("naive", "fails", "fix"))
    html = drawn(f":::design\n{parts}\n:::", course)
    assert re.findall(r'<details class="(\w+)" open>', html) == ["naive"]
    html = drawn(":::steps\na = b || because *c*\nb = d || so\n:::", course)
    assert re.findall("<p>(.*?)</p></li>", html) == ["because <em>c</em>", "so"]


def test_right_is_the_choice_that_the_lesson_marks(course: Course) -> None:
    html = drawn(":::predict a\nQ\n- [ ] one\n- [x] two\n- [ ] three\n---\nb\n:::", course)
    assert re.findall(r"data-right> <span>(\w+)</span>", html) == ["two"]
    assert html.count('type="radio"') == 3


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("zh", "**先看这里。** 再看那里", "<strong>先看这里。</strong>再看那里"),
        ("en", '**This.** Then "that"', "<strong>This.</strong> Then “that”"),
        ("en", "## A heading {#its-id}", '<h2 id="its-id">A heading</h2>'),
        ("en", "| a | b |\n|---|--:|\n| c | 1 |", '<td>c</td>\n<td class="number">1</td>'),
    ],
)
def test_markdown_reads_as_print(course: Course, language: str, text: str, wanted: str) -> None:
    assert wanted in drawn(text, course, language)


BAR = '<mo stretchy="false">|</mo>'
SUM = '<mo movablelimits="false">∑</mo>'
SIGNS = {
    "a - b": "<mi>a</mi><mo>−</mo><mi>b</mi>",
    "|x|": f"{BAR}<mi>x</mi>{BAR}",
    r"\sum_i x": f"<munder>{SUM}<mi>i</mi></munder><mi>x</mi>",
    r"\sum_i^n x": f"<munderover>{SUM}<mi>i</mi><mi>n</mi></munderover><mi>x</mi>",
    r"\sum^n x": f"<munderover>{SUM}<mrow></mrow><mi>n</mi></munderover><mi>x</mi>",
    r"\max x": '<mi mathvariant="normal">max</mi><mspace width="0.17em"></mspace><mi>x</mi>',
    r"\max_i": '<msub><mi mathvariant="normal">max</mi><mi>i</mi></msub>',
    r"a \le b \ge c": "<mi>a</mi><mo>≤</mo><mi>b</mi><mo>≥</mo><mi>c</mi>",
    r"\row{a & b \\ c & d}": '<mrow><mo stretchy="true">(</mo><mtable>'
    "<mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr>"
    "<mtr><mtd><mi>c</mi></mtd><mtd><mi>d</mi></mtd></mtr>"
    '</mtable><mo stretchy="true">)</mo></mrow>',
}


@pytest.mark.parametrize(("source", "wanted"), SIGNS.items())
def test_signs_stand_where_they_are_read(source: str, wanted: str) -> None:
    assert mathml.mathml(source, figure=str) == f"<math>{wanted}</math>"


def test_code_is_marked_and_begins_at_its_decorator() -> None:
    shown = code.highlight('a = "one"  # two\n')
    assert shown == 'a = <span class="string">"one"</span>  <span class="remark"># two</span>\n'
    found = code.excerpt("attnscope.lessons.site.flow:Sizes")
    assert found.text.splitlines()[:2] == ["@dataclass(frozen=True)", "class Sizes:"]
    lines = (code.ROOT / found.path).read_text("utf-8").splitlines()
    assert lines[found.first - 1] == "@dataclass(frozen=True)"


def test_a_card_is_in_the_pages_language_and_shows_no_more_than_a_reader_reads() -> None:
    for id in figures.ids():
        one = figures.get(id)
        for language in LANGUAGES:
            shown = values.about(id, language)
            assert (shown["title"], shown["note"]) == (one.title[language], one.note[language])
            # A formula that only says where a number comes from is said by its kind.
            assert (shown["formula"] == "") == (one.formula in ("as chosen", "as reported")), id
    assert values.plain_input(tuple(range(12))).endswith("10, 11")
    assert values.plain_input(tuple(range(13))).endswith("10, 11, … (13)")


def test_each_step_of_the_flow_belongs_to_the_lesson_that_explains_it(course: Course) -> None:
    """By what its own lesson introduces: the term that the step is about."""
    terms = {
        "embeddings": "embedding", "projections": "projection", "latent": "latent",
        "rope": "rope", "cache": "kvcache", "groups": "gqa", "choice": "indexer",
        "scores": "score", "mask": "mask", "softmax": "softmax", "gate": "gate",
    }  # fmt: skip
    texts = {one.number: one.document.file.read_text("utf-8") for one in course.lessons["en"]}
    for step in steps():
        if step.id in terms:
            new = re.compile(rf"\{{new:{terms[step.id]}[|}}]")
            assert [at for at, text in texts.items() if new.search(text)] == [step.lesson], step.id


def test_a_latent_and_an_indexer_learn_what_the_librarys_do() -> None:
    """From transformers' own modules, made of the published configs."""
    from transformers.models.deepseek_v2.configuration_deepseek_v2 import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention
    from transformers.models.glm_moe_dsa.configuration_glm_moe_dsa import GlmMoeDsaConfig
    from transformers.models.glm_moe_dsa.modeling_glm_moe_dsa import GlmMoeDsaIndexer

    old, new = (json.loads((CONFIGS / f"{name}.json").read_text("utf-8"))
                for name in ("deepseek-v2", "glm-5.3"))  # fmt: skip
    with torch.device("meta"):
        latent = DeepseekV2Attention(DeepseekV2Config(**old), 0)
        indexer = GlmMoeDsaIndexer(GlmMoeDsaConfig(**new), 0)
    by_id = {one.id: one for one in steps()}
    made = latent.kv_a_proj_with_mqa.weight.numel() + latent.kv_b_proj.weight.numel()
    assert by_id["latent"].real_parameters == made
    assert by_id["latent"].real == f"T × {latent.kv_a_proj_with_mqa.out_features}"
    assert by_id["choice"].real_parameters == sum(one.numel() for one in indexer.parameters())


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_timeline_gives_years_papers_and_lessons_as_they_are_written(
    course: Course, language: str
) -> None:
    html = timeline_page(course, language)
    text = (CONTENT / language / "timeline.md").read_text("utf-8")
    written = re.findall(r"^:::generation (\w+) lesson=(\d+)(.*?) \|", text, re.M)
    assert len(written) >= 18
    slugs = list(fronts(language))
    for name, lesson, options in written:
        item = html[html.index(f'<li id="{name}">') :].partition("</li>")[0]
        assert f'href="{slugs[int(lesson) - 1]}.html"' in item
        if year := re.search(r"year=(\S+)", options):
            assert f'<p class="when">{year[1]}</p>' in item
        paper = re.search(r'<dd class="paper">(.*?)</dd>', item)
        assert paper is not None
        if language == "zh":
            assert " et al." not in paper[1], "in Chinese it is 等"
