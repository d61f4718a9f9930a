"""The timeline: every generation with what it solved, the number at which it got stuck, its lesson.

The idea: the catalogue of mechanisms says which generations there are, when and in what paper; the
words stand in content/{zh,en}/timeline.md, one block a generation, with their numbers as figures.

    :::generation dot_product lesson=2 short=Q·K | Self-attention (year= and paper= where the
    catalogue has no such mechanism, or a later one)
    :::solved
    :::
    :::stuck
    :::
    :::

A lesson links to its own generation; the page then says "you are here" beside it, by its style
alone (`:target`), so that it also does where no script runs.

Not here: the mechanisms (attnscope.mechanisms).
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from attnscope.lessons.figures.chinese import chinese
from attnscope.lessons.site.blocks import draw, options, parts_of, titled, word
from attnscope.lessons.site.course import Course
from attnscope.lessons.site.page import Page
from attnscope.lessons.site.source import Block
from attnscope.mechanisms import CATALOGUE


@dataclass(frozen=True)
class Generation:
    """A block of the timeline, before it is drawn."""

    name: str
    short: str
    lesson: int
    when: str
    paper: str
    block: Block


def generations(course: Course, language: str) -> list[Generation]:
    """The generations of a language's timeline, in its order.

    Raises:
        ContentError: a block is malformed, or names no mechanism of the catalogue.
    """
    if language not in course.timelines:
        return []
    known = {about.name: about for about in CATALOGUE}
    found = []
    for block in course.timelines[language].blocks():
        if block.name != "generation":
            continue
        options(block, "year", "paper", needed=("lesson", "short"))
        name = word(block, "a mechanism's name")
        about, given = known.get(name), block.options
        if about is None and not {"year", "paper"} <= set(given):
            raise block.place.error(
                f"there is no mechanism {name!r} in the catalogue; give year= and paper=."
            )
        if not given["lesson"].isdigit():
            raise block.place.error("generation: lesson expects a number.")
        when = given.get("year") or str(about.year if about else "")
        paper = given.get("paper") or (about.paper if about else "")
        paper = chinese(paper) if language == "zh" else paper
        found.append(Generation(name, given["short"], int(given["lesson"]), when, paper, block))
    return found


def timeline(page: Page) -> str:
    """The content of the timeline's page."""
    lessons = {one.number: one for one in page.course.lessons[page.language]}
    items = []
    for one in generations(page.course, page.language):
        parts = parts_of(one.block, "solved", "stuck")
        there = lessons.get(one.lesson)
        label = page.say("lesson", number=one.lesson)
        way = f'<a href="{there.slug}.html">{label}</a>' if there else f"<span>{label}</span>"
        rows = "".join(
            f"<dt>{page.say(name)}</dt><dd>{draw(part.children, page)}</dd>"
            for name, part in parts.items()
        )
        items.append(
            f'<li id="{page.id(one.name, one.block.place)}">'
            f'<p class="when">{escape(one.when)}</p><div><h2>{titled(one.block, page)} {way}'
            f'<mark class="here">{page.say("here")}</mark></h2>'
            f"<dl>{rows}<dt>{page.say('paper')}</dt>"
            f'<dd class="paper">{escape(one.paper)}</dd></dl></div></li>'
        )
    return f'<ol class="timeline">{"".join(items)}</ol>'
