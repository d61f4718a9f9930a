"""The site is whole, needs nothing from outside, and says what is wrong with file and line."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from attnscope.lessons.figures import get
from attnscope.lessons.site import ContentError, build, load
from attnscope.lessons.site import code as excerpts
from attnscope.lessons.site.build import STATIC, draw_lesson, timeline_page
from attnscope.lessons.site.course import Course, Lesson
from attnscope.lessons.site.flow import steps
from attnscope.lessons.site.source import parse
from attnscope.lessons.site.widgets import WIDGETS
from attnscope.lessons.site.words import LANGUAGES, WORDS
from attnscope.plan.find import CONFIGS

FRONT = "---\nid: softmax\nnumber: 3\ntitle: T\nquestion: Q\nallow: 9\nsummary: S\n---\n"
FIRST = 9  # the line of the text behind it


@pytest.fixture(scope="module")
def course() -> Course:
    return load()


@pytest.fixture(scope="module")
def site(course: Course) -> dict[str, bytes]:
    return build(course)


def drawn(text: str, course: Course, language: str = "en") -> str:
    """One lesson of this text, drawn."""
    document = parse(FRONT + text, Path(language) / "03-softmax.md")
    return draw_lesson(course, Lesson(document, language))[1]


class Reader(HTMLParser):
    """Every tag with its attributes, ids, and tags that were left open."""

    VOID = ("meta", "link", "input", "br", "hr", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag, (tag, self.getpos())


def pages(site: dict[str, bytes]) -> dict[str, Reader]:
    return {name: Reader(text.decode()) for name, text in site.items() if name.endswith(".html")}


def test_every_lesson_has_a_page_in_both_languages(course: Course, site: dict[str, bytes]) -> None:
    for language in LANGUAGES:
        assert course.lessons[language]
        for one in course.lessons[language]:
            assert f"{language}/{one.slug}.html" in site


def test_pages_are_well_formed_with_unique_ids(site: dict[str, bytes]) -> None:
    for name, page in pages(site).items():
        assert page.open == [], name
        ids = [about["id"] for _, about in page.tags if "id" in about]
        assert len(ids) == len(set(ids)), name


def test_every_link_leads_to_a_file_of_the_site_or_a_place_on_its_page(
    site: dict[str, bytes],
) -> None:
    read = pages(site)
    for name, page in read.items():
        for tag, about in page.tags:
            link = about.get("href") or about.get("src")
            if not link or link == "data:,":
                continue
            path, _, place = link.partition("#")
            target = (Path(name).parent / path if path else Path(name)).as_posix()
            parts: list[str] = []
            for part in target.split("/"):
                parts = parts[:-1] if part == ".." else [*parts, part]
            there = "/".join(parts)
            assert there in site, (name, tag, link)
            if place:
                assert any(a.get("id") == place for _, a in read[there].tags), (name, link)


def test_nothing_comes_from_outside_and_nothing_is_inline(site: dict[str, bytes]) -> None:
    for name, text in site.items():
        if name == "assets/planner-python.js":
            continue  # Brython names its home; tests/browser sees that nobody is asked
        without = text.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", without) or name.endswith(
            ".html"
        ), name
    for name, page in pages(site).items():
        for tag, about in page.tags:
            assert "style" not in about, (name, tag)
            assert not any(key.startswith("on") for key in about), (name, tag)
            assert tag != "style"
            if tag == "script" and about.get("type") != "application/json":
                assert about.get("src"), name
            for key in ("src", "href"):
                assert not (about.get(key) or "").startswith(("http", "//")), (name, about)


def test_scripts_are_classic(site: dict[str, bytes]) -> None:
    for name in ("assets/course.js", "assets/scheme.js", "assets/planner.js"):
        assert not re.search(rb"^\s*(?:import|export)\s", site[name], re.MULTILINE)


def test_what_a_page_carries_is_what_it_shows(site: dict[str, bytes]) -> None:
    for name, page in pages(site).items():
        text = site[name].decode()
        data = json.loads(re.search(r'class="carried">(.*?)</script>', text)[1])  # type: ignore[index]
        shown = {about["data-figure"] for _, about in page.tags if "data-figure" in about}
        assert shown <= data.get("figures", {}).keys(), name
        terms = {about["data-term"] for tag, about in page.tags
                 if tag == "button" and "data-term" in about}  # fmt: skip
        assert terms == data.get("terms", {}).keys(), name
        mounted = {one["id"]: one["name"] for one in data["widgets"]}
        places = {about["id"]: about["data-widget"] for _, about in page.tags
                  if "data-widget" in about}  # fmt: skip
        assert mounted == places, name


def test_the_script_knows_the_same_widgets() -> None:
    registry = (STATIC / "js/widgets/registry.js").read_text(encoding="utf-8")
    table = registry[registry.index("export const WIDGETS") :]
    assert re.findall(r"^  (\w+): mount", table, re.MULTILINE) == list(WIDGETS)


def test_both_tables_of_words_have_the_same_keys() -> None:
    assert WORDS["zh"].keys() == WORDS["en"].keys()
    for key, text in WORDS["en"].items():
        assert re.findall(r"\{\w+\}", text) == re.findall(r"\{\w+\}", WORDS["zh"][key]), key


def test_a_figures_value_is_printed_and_carried(course: Course) -> None:
    html = drawn("It is {fig:softmax.8_7_9.largest}.", course)
    assert 'data-figure="softmax.8_7_9.largest">66.5%</button>' in html


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n{fig:no.such}", "10: There is no figure 'no.such'"),
        ("{exp:nothing/a@.1}", "9: there is no experiment 'nothing'"),
        ("{exp:rules/weights/softmax/9@.1}", "9: rules/weights/softmax/9: there is no '9'"),
        ("{exp:rules/weights@.1}", "9: rules/weights: expected a number, got dict"),
        ("{exp:sweep/a@.1}", "9: there is no experiment 'sweep' for pages"),
        ("a\n\nb {term:nothing}", "11: there is no term 'nothing'"),
        ("{new:softmax}\n\n{new:softmax}", "11: the term 'softmax' is introduced twice"),
        ("{lesson:nothing}", "9: there is no lesson 'nothing'"),
        ("{math: \\nonsense}", "9: formula '\\\\nonsense': \\nonsense is not known"),
        ("{what:ever}", "9: {what:…} is no reference"),
        ("a\nb {fig:x", "10: '{fig:x' is not closed"),
        ("## No id", "9: the heading 'No id' has no id"),
        (":::nonsense\n:::", "9: there is no block 'nonsense'"),
        (":::widget nonsense\n:::", "9: there is no widget 'nonsense'"),
        (":::widget rules\n:::\n:::widget rules\n:::", "11: the id 'widget-rules' is there twice"),
        (":::design\n:::naive\n:::\n:::", "9: design: expected the blocks naive, fails, fix"),
        (":::predict a\nQ\n- [x] one\n---\nb\n:::", "9: predict: expected two or more choices"),
        (":::predict a\nQ\n- [x] one\n- [x] two\n---\nb\n:::", "9: predict: expected two or more"),
        (":::predict a\nQ\n- [x] one\n- [ ] two\n:::", "9: predict: expected one line ---"),
        (":::predict a why=1\nQ\n:::", "9: predict: no option 'why'"),
        (":::exercise a within=1 | T\nQ\n---\nA\n:::", "9: exercise: the option 'answer' is"),
        (":::exercise a within=1 answer=fig:softmax.8_7_9 | T\nQ\n---\nA\n:::",
         "9: exercise: fig:softmax.8_7_9: expected one number"),
        (":::exercise a within=1 answer=7 | T\nQ\n---\nA\n:::", "9: exercise: 7: expected fig:id"),
        (":::formula a | T\n\\term{x}{y}\n:::", "9: formula: terms and explanations differ in x"),
        (":::steps\na\n:::", "10: steps: expected `formula || reason`"),
        (":::code attnscope.mechanisms.rivals:nothing\n:::", "9: attnscope.mechanisms.rivals:noth"),
        (":::walk attnscope.lessons.world:World.q\n:::", "9: walk: expected blocks `:::lines"),
        (":::walk attnscope.lessons.world:World.q\n:::lines\na\n:::\n:::",
         "10: lines: the option 'from' is missing"),
        (":::walk attnscope.lessons.world:World.q\n:::lines from=no\na\n:::\n:::",
         "9: attnscope.lessons.world:World.q: the first line does not begin with 'no'"),
        (":::code os:path\n:::", "9: os: expected a module of attnscope"),
        (":::code attnscope.core.strip:nothing\n:::", "9: attnscope.core.strip:nothing: there is"),
        (":::question a\nb\n:::", "9: question: expected a title"),
        (":::deeper a\nb\n:::", "9: deeper: expected a title"),
        (":::deeper | T\nb\n:::", "9: deeper: expected an id"),
        (":::deeper a=1 b | T\nb\n:::", "9: deeper: no option 'a'"),
        (":::deeper a | T\n{fig:no.such}\n:::", "10: There is no figure 'no.such'"),
        (":::here nothing\n:::", "9: there is no generation 'nothing'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_file_and_line(text: str, said: str, course: Course) -> None:
    with pytest.raises(ContentError, match=re.escape(f"en/03-softmax.md:{said}")):
        drawn(text, course)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_second_reading_is_folded_and_holds_anything(course: Course, language: str) -> None:
    inside = "*Text* {fig:softmax.8_7_9.largest}\n:::widget growth\n:::"
    html = drawn(f"Before\n:::deeper more | A *title*\n{inside}\n:::", course, language)
    folded = re.search(r'<details class="deeper" id="deeper-more">(.*?)</details>', html, re.DOTALL)
    assert folded is not None
    summary, _, rest = folded[1].partition("</summary>")
    assert WORDS[language]["deeper"] in summary
    assert "A <em>title</em>" in summary
    for piece in ("<em>Text</em>", 'data-figure="softmax.8_7_9.largest"', 'id="widget-growth"'):
        assert piece in rest
    assert "Before" not in folded[0]


def test_html_in_a_lesson_is_text(course: Course) -> None:
    html = drawn('<script>alert(1)</script> <b onclick="x">', course)
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html


def test_code_is_taken_from_the_source() -> None:
    found = excerpts.excerpt("attnscope.lessons.world:World.scores")
    source = (excerpts.ROOT / found.path).read_text(encoding="utf-8")
    first, *_, last = found.text.splitlines()
    assert source.splitlines()[found.first - 1].strip() == first
    assert f"        {last.strip()}\n" in source
    assert '"""' not in found.text
    short = excerpts.excerpt("attnscope.mechanisms.qk_clip:clip_factors", last=2).text
    assert len(short.splitlines()) == 4
    long = excerpts.excerpt("attnscope.mechanisms.grouped:grouped_attention", last=2).text
    assert long.splitlines()[0] == "def grouped_attention("
    assert [line.strip() for line in long.splitlines()[-4:]] == [
        ") -> torch.Tensor:", "# …", "heads.append(scores.softmax(-1) @ v[:, g])",
        "return torch.stack(heads, 1)",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no Python by themselves"):
        excerpts.highlight(long)
    with pytest.raises(ValueError, match=r"has \d+ lines; show one of at most"):
        excerpts.excerpt("attnscope.lessons.world:World")


def test_a_function_is_cut_into_passages_and_no_line_is_lost() -> None:
    target = "attnscope.core.heads:HeadAttention.forward"
    whole, parts = excerpts.passages(target, ["def forward", "if cache is", "return"])
    assert "\n".join(part.text for part in parts) == whole.text
    source = (excerpts.ROOT / whole.path).read_text(encoding="utf-8").splitlines()
    for part in parts:
        assert source[part.first - 1].strip() == part.text.splitlines()[0].strip()
    for starts, said in (
        (["def forward", "q = nothing"], "0 lines begin with 'q = nothing'; expected one"),
        (["def forward", "if "], "4 lines begin with 'if '; expected one"),
        (["def forward", "return", "if cache"], "'if cache' stands before the passage"),
        (["return"], "the first line does not begin with 'return'"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            excerpts.passages(target, starts)


def test_the_flow_counts_what_the_models_learn() -> None:
    by_id = {one.id: one for one in steps()}
    assert by_id["projections"].small_parameters == 3 * 6 * 4
    # q, k and v of Qwen3.8-27B without its gate: 5120 x 256 x (24 + 4 + 4)
    assert by_id["projections"].real_parameters == 5120 * 256 * 32
    assert by_id["heads"].real_parameters == 24 * 256 * 5120


def test_a_full_layer_of_the_flow_is_the_librarys() -> None:
    """Parameters and shapes of the real model's steps, from transformers' own attention."""
    import torch
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5Attention

    fields = json.loads((CONFIGS / "qwen3.8-27b.json").read_text("utf-8"))
    own = Qwen3_5TextConfig(**fields)
    with torch.device("meta"):
        layer = Qwen3_5Attention(own, fields["layer_types"].index("full_attention"))
    by_id = {one.id: one for one in steps(13)}
    made = sum(one.weight.numel() for one in (layer.q_proj, layer.k_proj, layer.v_proj))
    shown = by_id["projections"].real_parameters + by_id["gate"].real_parameters
    assert made == shown  # q_proj makes the gate too
    norms = layer.q_norm.weight.numel() + layer.k_norm.weight.numel()
    assert by_id["qk_norm"].real_parameters == norms
    assert by_id["heads"].real_parameters == layer.o_proj.weight.numel()
    assert by_id["embeddings"].real_parameters == own.vocab_size * own.hidden_size
    keys = layer.k_proj.out_features // layer.head_dim
    q = f"q {own.num_attention_heads} × T × {layer.head_dim}"
    assert by_id["projections"].real == f"{q}; k, v {keys} × T × {layer.head_dim}"
    assert by_id["qk_norm"].real == by_id["rope"].real == f"{q}; k {keys} × T × {layer.head_dim}"
    assert by_id["cache"].real == f"2 × {keys} × T × {layer.head_dim}"
    assert by_id["groups"].real.startswith(f"{keys} × {layer.num_key_value_groups} × ")


@pytest.mark.parametrize("lesson", range(1, 14))
def test_the_teaching_sentence_has_neither_norm_nor_gate_nor_a_table_behind_its_heads(
    lesson: int,
) -> None:
    small = {one.id: (one.small, one.small_parameters) for one in steps(lesson)}
    assert small["qk_norm"] == small["gate"] == ("–", 0)
    assert small["heads"] == ("5 × 4", 0)
    numbers = {name for name, (_, count) in small.items() if count}
    assert numbers == {"embeddings", "projections", "latent", "state"}
    # Five tokens of six features; down to five numbers and up to four of k and four of v; a rate of
    # forgetting and one of correcting for each of two heads, whose tables are 2 x 2.
    assert small["embeddings"] == ("5 × 6", 5 * 6)
    assert small["latent"] == ("5 × 5", 6 * 5 + 5 * (4 + 4))
    assert small["state"] == ("2 × 2 × 2", 2 * 6 * 2)
    assert small["choice"] == ("5 × 5", 0)


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_of_the_timeline_say_what_they_are(course: Course, language: str) -> None:
    """Measured is what a loop of ours counted; reported has somebody to cite; else it follows."""
    html = timeline_page(course, language)
    carried = re.search(r'class="carried">(.*?)</script>', html, re.DOTALL)
    assert carried is not None
    figures: dict[str, dict[str, Any]] = json.loads(carried[1])["figures"]
    shown = re.findall(r'data-figure="([^"]+)"', html)
    assert len(set(shown)) > 50
    assert set(shown) <= set(figures)
    kinds = {figures[id]["kind"] for id in shown}
    assert kinds == {"computed", "measured", "reported", "chosen"}
    cited = ("arXiv", "model card", "data sheet", "config of")
    for id in set(shown):
        one, source = figures[id], get(id).source
        assert one["source"] == get(id).told(language).source != "", id
        if one["kind"] == "computed":
            assert one["formula"], id
            assert one["inputs"], id
        if one["kind"] == "measured":
            ran = (
                "counted in a loop",
                "counted in a recurrence",
                "recorded in a training that ran",
            )
            assert source.startswith(ran), id
        if one["kind"] == "reported":
            assert any(word in source for word in cited), id
        if one["kind"] == "chosen":
            assert "lesson" in source, id
