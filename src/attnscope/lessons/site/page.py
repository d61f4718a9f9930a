"""A page: what a document knows while it is drawn, and the HTML around it.

The idea: one `Page` per document gathers what its blocks refer to (figures, terms, widgets), so
that the page carries exactly those as JSON and works without asking anybody.

Not here: blocks (blocks.py), text (inline.py), files (build.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any, Final

from attnscope.lessons import figures
from attnscope.lessons.site import inline, mathml, values
from attnscope.lessons.site.course import Course
from attnscope.lessons.site.source import Document, Place, Text
from attnscope.lessons.site.words import say

STYLES: Final = (
    "base", "lessons", "blocks", "course-parts", "widgets", "plots", "widgets-more", "decoding",
    "charts", "reading", "own",
)  # fmt: skip
"""The style sheets of a page, in the order that they are read."""
OWN_STYLES: Final = {"planner": ("planner", "planner-plot")}
"""Style sheets of the pages that a script brings to life, behind those of every page."""


@dataclass
class Page:
    """What one document refers to, in one language, while it is drawn.

    Attributes:
        number: of the lesson; 0 for other pages.
        figures: ids in the order of their first use.
        introduced: terms that this document introduces, in order.
        ids: every id on the page, to where it was given.
        widgets: what the script mounts.
    """

    course: Course
    document: Document
    language: str
    number: int = 0
    figures: dict[str, None] = field(default_factory=dict)
    terms: dict[str, None] = field(default_factory=dict)
    introduced: dict[str, Place] = field(default_factory=dict)
    ids: dict[str, Place] = field(default_factory=dict)
    widgets: list[dict[str, Any]] = field(default_factory=list)

    def say(self, key: str, **values: object) -> str:
        """A word of the page's language, as HTML."""
        return escape(say(self.language, key, **values), quote=False)

    def id(self, wanted: str, place: Place) -> str:
        """Take an id for an element.

        Raises:
            ContentError: it is taken.
        """
        if wanted in self.ids:
            raise place.error(f"the id {wanted!r} is there twice, first in line "
                              f"{self.ids[wanted].line}.")  # fmt: skip
        self.ids[wanted] = place
        return escape(wanted)

    def figure(self, id: str) -> str:
        """What a figure prints; the page will carry what stands behind it.

        Raises:
            ValueError: there is none of this id.
        """
        text = figures.get(id).text[self.language]
        self.figures[id] = None
        return text

    def formula(self, source: str, place: Place, *, block: bool = False) -> str:
        """A formula as MathML.

        Raises:
            ContentError: it cannot be read.
        """
        try:
            return mathml.mathml(source, figure=self.figure, block=block)
        except ValueError as error:
            raise place.error(str(error)) from None

    def reference(self, kind: str, body: str, place: Place) -> str:
        """The HTML of `{kind:body}`; see inline.py."""
        found: str = getattr(self, f"_{kind}")(body, place)
        return found

    def render(self, text: Text) -> str:
        """A piece of Markdown."""
        return inline.render(text, self)

    def title(self, title: str, place: Place) -> str:
        """A line of Markdown."""
        return inline.render_title(title, place, self)

    def _fig(self, id: str, place: Place) -> str:
        text = self.figure(id)
        return (
            f'<button type="button" class="fig" data-figure="{escape(id)}">{escape(text)}</button>'
        )

    def _exp(self, body: str, place: Place) -> str:
        return f'<span class="measured">{escape(values.field_text(body))}</span>'

    def _math(self, source: str, place: Place) -> str:
        return self.formula(source, place)

    def _new(self, body: str, place: Place) -> str:
        id, _, shown = body.partition("|")
        name = self.course.term(self.language, id).name
        if id in self.introduced:
            raise place.error(f"the term {id!r} is introduced twice; write {{term:{id}}} here.")
        self.introduced[id] = place
        self.terms[id] = None
        return (
            f'<dfn id="{self.id(f"term-{id}", place)}"><button type="button" class="term" '
            f'data-term="{escape(id)}">{escape(shown or name)}</button></dfn>'
        )

    def _term(self, body: str, place: Place) -> str:
        id, _, shown = body.partition("|")
        name = self.course.term(self.language, id).name
        self.terms[id] = None
        return (
            f'<button type="button" class="term" data-term="{escape(id)}">'
            f"{escape(shown or name)}</button>"
        )

    def _lesson(self, body: str, place: Place) -> str:
        id, _, shown = body.partition("|")
        number, there = self.course.lesson(self.language, id)
        label = escape(shown or say(self.language, "lesson", number=number))
        return f'<a href="{there.slug}.html">{label}</a>' if there else label

    def data(self) -> dict[str, Any]:
        """What the page carries for its script."""
        meanings = {
            id: self.render(self.course.term(self.language, id).meaning) for id in tuple(self.terms)
        }
        return {
            "language": self.language,
            "page": self.document.fields.get("id", ""),
            "title": self.document.fields.get("title", ""),
            "figures": {id: values.about(id, self.language) for id in self.figures},
            "terms": {
                id: {
                    "name": self.course.term(self.language, id).name,
                    "meaning": _text_of(meanings[id]),
                }
                for id in self.terms
            },
            "widgets": self.widgets,
        }


def _text_of(html: str) -> str:
    """The text of rendered Markdown, without its tags: a card's meaning is plain text."""
    return unescape(re.sub(r"<[^>]*>", "", html)).strip()


def carried(data: dict[str, Any]) -> str:
    """JSON that may stand in a page: no `<` can end its element.

    >>> carried({"a": "</script>"})
    '{"a":"\\\\u003c/script>"}'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


@dataclass(frozen=True)
class Frame:
    """What stands around a page's content.

    Attributes:
        title: of the window.
        language: of the page.
        root: the way to the top of the site, "" or "../".
        other: the same page in the other language, from this one; it has the same name.
        links: label and address in the bar, the page itself among them.
    """

    title: str
    language: str
    root: str
    other: str
    links: tuple[tuple[str, str], ...]


def html(frame: Frame, content: str, data: dict[str, Any], *, script: str = "course") -> str:
    """A whole page.

    Args:
        frame: its surroundings.
        content: HTML of what stands between the bar and the end.
        data: what its script needs.
        script: the one that brings it to life; see OWN_STYLES for styles.
    """
    return "\n".join([*_head(frame, script), content, *_tail(frame, data, script)])


def _head(frame: Frame, script: str) -> Iterator[str]:
    def word(key: str) -> str:
        return escape(say(frame.language, key))

    yield f'<!doctype html>\n<html lang="{word("lang")}">\n<head>'
    yield '<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escape(frame.title)}</title>"
    yield '<link rel="icon" href="data:,">'
    for name in (*STYLES, *OWN_STYLES.get(script, ())):
        yield f'<link rel="stylesheet" href="{frame.root}assets/{name}.css">'
    yield '</head>\n<body>\n<div class="attnscope course" id="course">'
    yield f'<script src="{frame.root}assets/scheme.js"></script>'
    yield f'<a class="skip" href="#content">{word("skip")}</a>'
    yield '<header class="bar">'
    yield f'<a class="mark" href="{frame.root}{frame.language}/index.html">attnscope</a>'
    yield f'<nav class="ways" aria-label="{word("lessons")}">'
    for label, address in frame.links:
        here = ' aria-current="page"' if address == frame.other.rpartition("/")[2] else ""
        yield f'<a href="{escape(address)}"{here}>{escape(label)}</a>'
    yield '</nav><span class="switches">'
    yield (
        f'<a class="language" href="{escape(frame.other)}" lang="{word("other.lang")}" '
        f'hreflang="{word("other.lang")}">{word("other")}</a>'
    )
    yield f'<button type="button" class="quiet scheme" aria-label="{word("theme")}">◐</button>'
    yield "</span></header>"


def _tail(frame: Frame, data: dict[str, Any], script: str) -> Iterator[str]:
    yield f"<noscript>{escape(say(frame.language, 'noscript'))}</noscript>"
    yield f'<script type="application/json" class="carried">{carried(data)}</script>'
    yield f'<script src="{frame.root}assets/{script}.js" defer></script>'
    yield "</div>\n</body>\n</html>\n"
