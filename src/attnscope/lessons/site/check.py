"""What must hold of the course as a whole: both languages alike, no typed number, words in order.

The idea: each check returns sentences, so that a test can count them and the build can say all of
them at once.

    alike      the same lessons, and in each the same ids, headings, blocks, figures, formulas
    numbers    no number is typed that a figure holds (figures/prose.py)
    in_order   a term of the glossary is spelled nowhere before the place that introduces it

Not here: what is wrong with a single block (blocks.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final

from attnscope.lessons import figures
from attnscope.lessons.site.course import Course, Lesson, Term
from attnscope.lessons.site.inline import HEADING, references
from attnscope.lessons.site.source import Block, ContentError, Document, Node, Text, walk

HEAD: Final = re.compile(r"^(#{2,4}) (.*)$", re.MULTILINE)
TEX_FIGURE: Final = re.compile(r"\\fig\{([^}]*)\}")
FENCE: Final = re.compile(r"^:::[^|\n]*", re.MULTILINE)
FRONT: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
LATIN: Final = re.compile(r"[A-Za-z]")


def check(course: Course) -> None:
    """Refuse a course that is not whole.

    Raises:
        ContentError: with a line for each thing that is wrong.
    """
    said = [*alike(course), *numbers(course), *in_order(course)]
    if said:
        raise ContentError("\n".join(said))


def outline(document: Document) -> list[tuple[str, ...]]:
    """What must be the same in both languages, in reading order."""
    found: list[tuple[str, ...]] = []
    for node in walk(document.children):
        if isinstance(node, Block):
            options = tuple(f"{k}={v}" for k, v in node.options.items() if k not in TRANSLATED)
            found.append(("block", node.name, *node.words, *options))
            found += _references(node.title)
            continue
        for head in HEAD.finditer(node.source):
            id = HEADING.search(head[2])
            found.append(("heading", head[1], id[1] if id else ""))
        found += _references(node.source)
    return found


TRANSLATED: Final = ("short", "names", "also", "unit")
"""Options whose words are a language's own."""


def _references(source: str) -> list[tuple[str, ...]]:
    named = [
        (kind, body.partition("|")[0] if kind != "exp" else body)
        for kind, body, _, _ in references(source)
        if kind in ("fig", "exp", "new")
    ]
    return [*sorted(named), *(("fig", one) for one in TEX_FIGURE.findall(source))]


def alike(course: Course) -> list[str]:
    """Where the two languages differ."""
    said = []
    zh, en = ({one.id: one for one in course.lessons[at]} for at in ("zh", "en"))
    said += [f"lesson {id}: there in one language only." for id in sorted(zh.keys() ^ en.keys())]
    pairs = [(zh[id].document, en[id].document) for id in zh.keys() & en.keys()]
    if set(course.timelines) == {"zh", "en"}:
        pairs.append((course.timelines["zh"], course.timelines["en"]))
    for a, b in pairs:
        for one, other in zip_longest(outline(a), outline(b)):
            if one != other:
                said.append(f"{a.file.name}: zh has {_shown(one)} where en has {_shown(other)}.")
                break
        for name in ("id", "number"):
            if a.fields.get(name) != b.fields.get(name):
                said.append(f"{a.file.name}: the field {name!r} differs between the languages.")
    terms = course.terms["zh"].keys() ^ course.terms["en"].keys()
    return said + [f"glossary: {id} is there in one language only." for id in sorted(terms)]


def _shown(part: tuple[str, ...] | None) -> str:
    return "nothing" if part is None else " ".join(part)


def numbers(course: Course) -> list[str]:
    """Numbers typed by hand that a figure holds; a lesson's `allow` lists its own inputs."""
    said = []
    documents = [one.document for at in course.lessons.values() for one in at]
    for document in (*documents, *course.timelines.values()):
        text = document.file.read_text(encoding="utf-8") if document.file.is_file() else ""
        allow = {one.strip() for one in document.fields.get("allow", "").split(",")}
        name = f"{document.file.parent.name}/{document.file.name}"
        said += [f"{name}: {one}" for one in figures.complaints(bare(text), allow=allow)]
    return said


def bare(text: str) -> str:
    """A lesson's text with references, options and heading ids blanked; lines stay in place."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    text = TEX_FIGURE.sub(blank, FENCE.sub(blank, FRONT.sub(_front, text)))
    text = re.sub(r"\{#[^}]*\}", blank, text)
    for kind, body, start, end in reversed(references(text)):
        if kind in ("new", "term", "lesson"):
            kept = body.partition("|")[2]
        else:
            kept = body if kind == "math" else ""
        text = text[:start] + kept.ljust(end - start)[: end - start] + text[end:]
    return text


def _front(found: re.Match[str]) -> str:
    """The front matter with what is read as prose kept: question, title, summary."""
    lines = found[0].split("\n")
    prose = ("title:", "question:", "summary:")
    return "\n".join(line if line.startswith(prose) else "" for line in lines)


def in_order(course: Course) -> list[str]:
    """Terms that a text spells before it introduces them, and terms that nothing introduces."""
    said = []
    for language, lessons in course.lessons.items():
        known: set[str] = set()
        numbers = {one.number for one in lessons}
        for lesson in lessons:
            said += _early(course, lesson, known)
        # While lessons before it are not written, a term may rest on one of those.
        if numbers == set(range(1, max(numbers, default=0) + 1)):
            said += [
                f"{term.place.file.parent.name}/glossary.md:{term.place.line}: nothing introduces "
                f"the term {id!r}; write {{new:{id}}} where it is explained."
                for id, term in course.terms[language].items()
                if id not in known
            ]
    return said


AHEAD: Final = ("not-yet", "flow")
"""Blocks that name what later lessons bring, to say that it is not here yet."""


def _pieces(nodes: Iterable[Node]) -> Iterator[tuple[str, Text]]:
    """Every text in reading order, titles too, with its place; not what announces things."""
    for node in nodes:
        if isinstance(node, Text):
            yield node.source, node
            continue
        if node.name in AHEAD:
            continue
        if node.title:
            yield node.title, Text(node.place, node.title)
        yield from _pieces(node.children)


def _early(course: Course, lesson: Lesson, known: set[str]) -> list[str]:
    """What this lesson spells too early; adds to `known` what it introduces."""
    introduced_later = {
        body.partition("|")[0]
        for other in course.lessons[lesson.language]
        if other.number >= lesson.number
        for source, _ in _pieces(other.document.children)
        for kind, body, _, _ in references(source)
        if kind == "new"
    }
    waiting = {
        id: term
        for id, term in course.terms[lesson.language].items()
        if id in introduced_later and id not in known
    }
    said = []
    for source, text in _pieces(lesson.document.children):
        for at, id in _uses(source, waiting):
            if id in known:
                continue
            line = text.place.line + source.count("\n", 0, at)
            said.append(
                f"{text.place.file.parent.name}/{text.place.file.name}:{line}: "
                f"{waiting[id].name!r} is used before {{new:{id}}} introduces it."
            )
            known.add(id)  # once is enough to say
        known |= {b.partition("|")[0] for k, b, _, _ in references(source) if k == "new"}
    return said


def _uses(source: str, waiting: dict[str, Term]) -> Iterator[tuple[int, str]]:
    """Where a text spells a waiting term before its own {new:…} of it."""
    news = {b.partition("|")[0]: s for k, b, s, _ in references(source) if k == "new"}
    uses = {b.partition("|")[0]: s for k, b, s, _ in reversed(references(source)) if k == "term"}
    # A heading may name what its section is about to introduce.
    prose = HEAD.sub(lambda found: " " * len(found[0]), bare(source))
    for id, term in waiting.items():
        places = [at for spelling in term.spellings if (at := _find(prose, spelling)) >= 0]
        if id in uses:
            places.append(uses[id])
        if places and min(places) < news.get(id, len(source) + 1):
            yield min(places), id


def _find(text: str, spelling: str) -> int:
    """Where a word stands; a Latin one as a whole word, one or several, whatever its case."""
    if not LATIN.search(spelling):
        return text.find(spelling)
    several = rf"{re.escape(spelling[:-1])}(?:{re.escape(spelling[-1])}(?:e?s)?|ies)"
    found = re.search(rf"(?<![A-Za-z\\])(?:{several})(?![A-Za-z])", text, re.IGNORECASE)
    return found.start() if found else -1
