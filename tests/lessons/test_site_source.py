"""Documents are read to a tree; what is malformed is named with its file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscope.lessons.site import inline, mathml
from attnscope.lessons.site.source import Block, ContentError, Text, parse

FILE = Path("en/09-some.md")
FRONT = "---\nid: some\n---\n"


def test_blocks_nest_and_know_their_lines() -> None:
    document = parse(
        f"{FRONT}First\n\n:::design x | A *title*\n:::naive\nText\n:::\n:::\nLast", FILE
    )
    first, design, last = document.children
    assert isinstance(design, Block)
    assert (design.name, design.words, design.title) == ("design", ("x",), "A *title*")
    assert (first.place.line, design.place.line, last.place.line) == (4, 6, 11)
    [naive] = design.children
    assert isinstance(naive, Block)
    assert naive.children == (Text(naive.children[0].place, "Text"),)
    assert [one.name for one in document.blocks()] == ["design", "naive"]


def test_options_are_read_with_quotes() -> None:
    [block] = parse(f'{FRONT}:::widget rules scores=1,2 names="a b,c"\n:::', FILE).children
    assert isinstance(block, Block)
    assert block.options == {"scores": "1,2", "names": "a b,c"}


def test_a_fence_of_code_is_not_read_as_blocks() -> None:
    [text] = parse(f"{FRONT}```\n:::no\n```", FILE).children
    assert isinstance(text, Text)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("no front", "en/09-some.md:1: expected a front matter"),
        ("---\nid some\n---\n", "en/09-some.md:2: expected `name: value`"),
        ("---\nid: a\nid: b\n---\n", "en/09-some.md:3: the field 'id' is there twice"),
        ("---\nid: a", "en/09-some.md:1: the front matter is not closed"),
        (f"{FRONT}text\n:::gap\ntext", "en/09-some.md:5: the block 'gap' is not closed"),
        (f"{FRONT}text\n:::", "en/09-some.md:5: a block is closed here, but none is open"),
        (f"{FRONT}:::Gap", "en/09-some.md:4: expected `:::name`"),
        (f"{FRONT}:::gap a=1 a=2\n:::", "en/09-some.md:4: 'a' is given twice"),
        (f'{FRONT}:::gap "a\n:::', "en/09-some.md:4:"),
    ],
)
def test_what_is_malformed_is_named_with_its_line(source: str, said: str) -> None:
    with pytest.raises(ContentError, match=re.escape(said)):
        parse(source, FILE)


@given(st.text(alphabet="{}:a\\ \n", max_size=40))
def test_references_lie_apart_and_inside_the_text(source: str) -> None:
    end = 0
    for _, _, start, stop in inline.references(source):
        assert end <= start < stop <= len(source)
        assert source[start] == "{"
        assert source[stop - 1] == "}"
        end = stop


FORMULAS = {
    "x_i^2": "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>",
    r"\frac{a}{b}": "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac>",
    r"\sqrt{d}": "<msqrt><mrow><mi>d</mi></mrow></msqrt>",
    r"\text{权重}": "<mtext>权重</mtext>",
    "12.5": "<mn>12.5</mn>",
    "a < b": "<mi>a</mi><mo>&lt;</mo><mi>b</mi>",
    "分": "<mtext>分</mtext>",
}


@pytest.mark.parametrize(("source", "wanted"), FORMULAS.items())
def test_formulas_become_mathml(source: str, wanted: str) -> None:
    assert mathml.mathml(source, figure=str) == f"<math>{wanted}</math>"


def test_a_term_and_a_figure_are_marked_in_a_formula() -> None:
    found = mathml.mathml(r"\term{root}{\sqrt{d}} = \fig{a.b}", figure=lambda id: f"<{id}>")
    assert 'class="ask" data-ask="root"' in found
    assert "<mn>&lt;a.b&gt;</mn>" in found


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (r"\nonsense", r"\\nonsense is not known"),
        ("{a", "'}' is missing"),
        ("a}", "a } too many"),
        ("a^", "expected something before ''"),
        (r"\text{a", "'}' is missing"),
        (r"\row{a & b", "'}' is missing"),
    ],
)
def test_a_formula_that_cannot_be_read_says_why(source: str, said: str) -> None:
    with pytest.raises(mathml.FormulaError, match=said):
        mathml.mathml(source, figure=str)


@given(st.text(alphabet="ab12{}_^\\& +x()<", max_size=25))
def test_a_formula_is_well_formed_or_refused(source: str) -> None:
    import xml.etree.ElementTree as Tree

    try:
        found = mathml.mathml(source, figure=str)
    except mathml.FormulaError:
        return
    Tree.fromstring(found)
