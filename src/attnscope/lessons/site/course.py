"""All documents of the course in their languages, with the glossary, and how they belong together.

The idea: everything is read once; a page asks the course for another lesson's title, a term's
definition, a lesson's neighbours.

Not here: parsing (source.py), pages (page.py), what must be equal in both languages (check.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from attnscope.lessons.site.source import Block, ContentError, Document, Place, Text, read
from attnscope.lessons.site.words import LANGUAGES

CONTENT: Final = Path(__file__).parents[1] / "content"
TWO_WAYS: Final = re.compile(r"(.+?)\s*[（(](.+)[)）]")
FIELDS: Final = ("id", "number", "title", "question", "summary")
OPTIONAL: Final = ("allow",)
"""What a lesson's front matter has, and what it may have."""
PLAN: Final = (
    "embeddings", "projections", "softmax", "masking", "whole", "rope", "heads", "cache",
    "grouped", "latent", "linear", "stability", "reading",
)  # fmt: skip
"""The lessons that the course is to have, first to last; one may be referred to before it is
written."""


@dataclass(frozen=True)
class Term:
    """An entry of the glossary.

    Attributes:
        id: as `{term:id}` names it.
        name: what it is called.
        spellings: the ways in which a text may spell it, for the check that a term is introduced
            before it is used; at least one.
        meaning: Markdown.
    """

    id: str
    place: Place
    name: str
    spellings: tuple[str, ...]
    meaning: Text


@dataclass(frozen=True)
class Lesson:
    """One lesson in one language."""

    document: Document
    language: str

    @cached_property
    def id(self) -> str:
        return self.document.field("id")

    @cached_property
    def number(self) -> int:
        return int(self.document.field("number"))

    @property
    def title(self) -> str:
        return self.document.field("title")

    @property
    def slug(self) -> str:
        """The page's name: two digits and the id."""
        return f"{self.number:02d}-{self.id}"


@dataclass(frozen=True)
class Course:
    """The whole course.

    Attributes:
        lessons: by language, in order.
        terms: by language and id.
        timelines: by language, where there is one.
    """

    lessons: Mapping[str, tuple[Lesson, ...]]
    terms: Mapping[str, Mapping[str, Term]]
    timelines: Mapping[str, Document]

    def lesson(self, language: str, id: str) -> tuple[int, Lesson | None]:
        """The number of a lesson, and the lesson if it is written.

        Raises:
            ValueError: there is none of this id.
        """
        if id not in PLAN:
            raise ValueError(f"there is no lesson {id!r}; there are {', '.join(PLAN)}.")
        written = (one for one in self.lessons[language] if one.id == id)
        return PLAN.index(id) + 1, next(written, None)

    def term(self, language: str, id: str) -> Term:
        """A glossary term by id.

        Raises:
            ValueError: there is none.
        """
        if id not in self.terms[language]:
            raise ValueError(
                f"there is no term {id!r}; add it to content/{language}/glossary.md, or use one of "
                f"{', '.join(self.terms[language])}."
            )
        return self.terms[language][id]


def load(folder: Path = CONTENT) -> Course:
    """Read every document below a folder with one subfolder per language.

    Raises:
        ContentError: a file is malformed, or two lessons have the same id or number.
    """
    lessons, terms, timelines = {}, {}, {}
    for language in LANGUAGES:
        at = folder / language
        lessons[language] = _lessons(at, language)
        terms[language] = glossary(read(at / "glossary.md"))
        if (at / "timeline.md").is_file():
            timelines[language] = read(at / "timeline.md")
    return Course(lessons, terms, timelines)


def _lessons(folder: Path, language: str) -> tuple[Lesson, ...]:
    found: dict[str, Lesson] = {}
    for file in sorted(folder.glob("[0-9][0-9]-*.md")):
        one = Lesson(read(file), language)
        start = Place(file, 1)
        for name in FIELDS:
            one.document.field(name)
        for name in one.document.fields.keys() - {*FIELDS, *OPTIONAL}:
            there = ", ".join((*FIELDS, *OPTIONAL))
            raise start.error(f"the front matter has no field {name!r}; there are {there}.")
        number = one.document.field("number")
        if not number.isdigit():
            raise start.error(f"number: expected a whole number, got {number!r}.")
        if file.stem != one.slug:
            raise start.error(f"expected the file name {one.slug}.md, from its number and id.")
        if one.id not in PLAN or PLAN.index(one.id) + 1 != one.number:
            raise start.error(
                f"lesson {one.id!r} is not number {one.number} of the plan (course.py)."
            )
        found[one.id] = one
    return tuple(sorted(found.values(), key=lambda one: one.number))


def glossary(document: Document) -> dict[str, Term]:
    """The terms of a glossary file: blocks `:::define id also=… check=also | Name`.

    A name may say itself in two ways, "MQA (multi-query attention)"; `also` has further ones. Where
    the name is an everyday word as well, `check=also` has only those of `also` looked for.

    Raises:
        ContentError: a block of another name, a term without a name or meaning, or one twice.
    """
    found: dict[str, Term] = {}
    for block in document.children:
        if not isinstance(block, Block):
            raise block.place.error("expected nothing but :::define blocks in the glossary.")
        term = _term(block)
        if term.id in found:
            raise block.place.error(f"the term {term.id!r} is defined twice.")
        found[term.id] = term
    return found


def _term(block: Block) -> Term:
    if block.name != "define" or len(block.words) != 1 or not block.title:
        raise block.place.error("expected `:::define id also=… | Name`.")
    if len(block.children) != 1 or not isinstance(block.children[0], Text):
        raise block.place.error(f"the term {block.words[0]!r} needs its meaning, as text.")
    also = tuple(filter(None, block.options.get("also", "").split(",")))
    own = TWO_WAYS.fullmatch(block.title)
    spellings = {"all": (*(own.groups() if own else (block.title,)), *also), "also": also}
    checked = spellings.get(block.options.get("check", "all"))
    if not checked:
        raise block.place.error(
            f"the term {block.words[0]!r} needs a spelling that can be looked for: write no "
            "check=, or check=also with also=…."
        )
    return Term(block.words[0], block.place, block.title, checked, block.children[0])


__all__ = ["CONTENT", "PLAN", "ContentError", "Course", "Lesson", "Term", "glossary", "load"]
