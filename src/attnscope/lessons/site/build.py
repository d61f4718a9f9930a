"""The whole site in memory: one page a lesson and language, indexes, the timeline, the scripts.

The idea: a site is a table from path to bytes, so that a folder, a server and a test see the same.
Every page is drawn from the content; whatever is wrong there is an error with file and line, and
nothing is written then.

Not here: the pages' parts (blocks.py and its neighbours), writing to a folder (write.py), serving.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

from attnscope.lessons.site import asking, showing  # noqa: F401 (they register their blocks)
from attnscope.lessons.site.blocks import draw
from attnscope.lessons.site.browser_python import SCRIPT, planner_script
from attnscope.lessons.site.check import check
from attnscope.lessons.site.course import PLAN, Course, Lesson, load
from attnscope.lessons.site.pace import reading_minutes
from attnscope.lessons.site.page import OWN_STYLES, STYLES, Frame, Page, html
from attnscope.lessons.site.planner import planner_page
from attnscope.lessons.site.source import Place
from attnscope.lessons.site.timeline import timeline
from attnscope.lessons.site.words import LANGUAGES, say
from attnscope.link import link

STATIC: Final = Path(__file__).parents[2] / "serve" / "static"
SCRIPTS: Final = {
    "course": "widgets/course.js",
    "scheme": "widgets/scheme.js",
    "planner": "planner/page.js",
}
"""Scripts of the site, and the modules that they begin with."""
OTHER: Final = {"zh": "en", "en": "zh"}


def build(
    course: Course | None = None, *, notes: bool = False, served: bool = False
) -> dict[str, bytes]:
    """Every file of the site, by its path.

    Args:
        course: what to build; the course that comes with the package if not given.
        notes: whether a server keeps the reader's notes, at notes/{language}/{page}.
        served: whether a server answers the planner's questions, at planner.ADDRESS, and those of
            widgets about captured texts; else the planner's page runs it, and widgets open files.

    Raises:
        AttnscopeError: what runs the planner in a page is not installed.
        ContentError: something in the content is wrong; the message names file and line.

    Cost: some seconds, for the experiments whose numbers the pages print.
    """
    course = course or load()
    check(course)
    files = {f"assets/{name}": text.encode() for name, text in assets().items()}
    if not served:
        files[f"assets/{SCRIPT}"] = planner_script().encode()
    for language in LANGUAGES:
        for lesson in course.lessons[language]:
            files[f"{language}/{lesson.slug}.html"] = lesson_page(
                course, lesson, notes=notes, served=served
            ).encode()
        if language in course.timelines:
            files[f"{language}/timeline.html"] = timeline_page(course, language).encode()
        files[f"{language}/planner.html"] = planner_page(
            language, _planner_frame(course, language), served=served
        ).encode()
        files[f"{language}/index.html"] = index_page(course, language).encode()
    files["index.html"] = front_page(course).encode()
    return files


def assets() -> dict[str, str]:
    """Scripts and styles."""
    css = STATIC / "css"
    styles = (*STYLES, *(name for names in OWN_STYLES.values() for name in names))
    return {
        **{f"{name}.js": link(STATIC / "js", [begin]) for name, begin in SCRIPTS.items()},
        **{f"{name}.css": (css / f"{name}.css").read_text(encoding="utf-8") for name in styles},
    }


def lesson_page(
    course: Course, lesson: Lesson, *, notes: bool = False, served: bool = False
) -> str:
    """One lesson's page."""
    page, content = draw_lesson(course, lesson, notes=notes)
    language = lesson.language
    frame = Frame(
        title=f"{lesson.title} · {say(language, 'course.short')}",
        language=language,
        root="../",
        other=f"../{OTHER[language]}/{lesson.slug}.html",
        links=_links(course, language),
    )
    data = page.data()
    if notes:
        data["notes"] = f"../notes/{language}/{lesson.slug}"
    if served:
        data["server"] = "../"
    return html(frame, content, data)


def draw_lesson(course: Course, lesson: Lesson, *, notes: bool = False) -> tuple[Page, str]:
    """A lesson's content as HTML, and what it refers to."""
    page = Page(course, lesson.document, lesson.language, lesson.number)
    content = draw(lesson.document.children, page)
    place = Place(lesson.document.file, 1)
    opening = (
        f"<h1>{page.title(lesson.title, place)}</h1>"
        f'<p class="one-question"><span>{page.say("question")}</span> '
        f"{page.title(lesson.document.field('question'), place)}</p>"
        f'<p class="summary">{page.title(lesson.document.field("summary"), place)}</p>'
    )
    minutes = round(reading_minutes(opening + content))
    first = (
        f'<header class="opening"><p class="which">{page.say("lesson", number=lesson.number)} '
        f"<span>{page.say('minutes', minutes=minutes)}</span></p>{opening}</header>"
    )
    last = (
        f'<section class="notes"><h2 id="{page.id("notes", place)}">{page.say("notes")}</h2>'
        f'<p class="note">{page.say("notes.about.server" if notes else "notes.about")}</p>'
        f'<textarea rows="6" aria-label="{page.say("notes.label")}"></textarea>'
        f'<button type="button" class="download">{page.say("notes.download")}</button></section>'
    )
    return page, (
        f'<div class="columns"><nav class="contents" aria-label="{page.say("contents")}"></nav>'
        f'<main id="content" tabindex="-1">{first}{content}{last}{_around(course, lesson)}</main>'
        "</div>"
    )


def _links(course: Course, language: str) -> tuple[tuple[str, str], ...]:
    """The ways in the bar of every page of a language."""
    links = [(say(language, "lessons"), "index.html")]
    if language in course.timelines:
        links.append((say(language, "timeline"), "timeline.html"))
    links.append((say(language, "planner.short"), "planner.html"))
    return tuple(links)


def _planner_frame(course: Course, language: str) -> Frame:
    return Frame(
        f"{say(language, 'planner')} · {say(language, 'course.short')}", language, "../",
        f"../{OTHER[language]}/planner.html", _links(course, language),
    )  # fmt: skip


def _around(course: Course, lesson: Lesson) -> str:
    """Links to the lessons before and after."""
    ways = []
    for key, step in (("previous", -1), ("next", 1)):
        there = [o for o in course.lessons[lesson.language] if o.number == lesson.number + step]
        if there:
            ways.append(
                f'<a class="{key}" href="{there[0].slug}.html">'
                f"<small>{escape(say(lesson.language, key))}</small> {escape(there[0].title)}</a>"
            )
    return f'<nav class="around">{"".join(ways)}</nav>'


def index_page(course: Course, language: str) -> str:
    """The list of lessons in one language."""

    def word(key: str, **values: object) -> str:
        return escape(say(language, key, **values))

    there = {one.number: one for one in course.lessons[language]}
    items = []
    for number in range(1, len(PLAN) + 1):
        one = there.get(number)
        if one is None:
            continue
        items.append(
            f'<li><a href="{one.slug}.html"><b>{number}</b><span>{escape(one.title)}'
            f"<small>{escape(one.document.field('question'))}</small></span></a></li>"
        )
    content = (
        f'<main id="content" class="index" tabindex="-1"><h1>{word("course")}</h1>'
        f'<p class="summary">{word("course.about")}</p><ol>{"".join(items)}</ol>'
        f'<p class="beside"><a href="planner.html"><b>{word("planner.short")}</b> '
        f"<span>{word('planner')}</span></a></p></main>"
    )
    other = f"../{OTHER[language]}/index.html"
    frame = Frame(say(language, "course"), language, "../", other, _links(course, language))
    return html(frame, content, {"language": language, "page": "", "widgets": []})


def front_page(course: Course) -> str:
    """The first page: the course in either language."""
    rows = "".join(
        f'<p><a href="{at}/index.html" lang="{say(at, "lang")}">{escape(say(at, "course"))}</a></p>'
        for at in LANGUAGES
    )
    content = f'<main id="content" class="front" tabindex="-1"><h1>attnscope</h1>{rows}</main>'
    frame = Frame("attnscope", "en", "", "zh/index.html", ())
    return html(frame, content, {"language": "en", "page": "", "widgets": []})


def timeline_page(course: Course, language: str) -> str:
    """The timeline in one language."""
    document = course.timelines[language]
    page = Page(course, document, language)
    title = say(language, "timeline")
    content = (
        f'<main id="content" class="wide" tabindex="-1"><h1>{escape(title)}</h1>'
        f'<p class="summary">{page.say("timeline.about")}</p>{timeline(page)}</main>'
    )
    other = f"../{OTHER[language]}/timeline.html"
    frame = Frame(
        f"{title} · {say(language, 'course.short')}", language, "../", other,
        _links(course, language),
    )  # fmt: skip
    return html(frame, content, page.data())
