"""Blocks that show: widgets, the data flow so far, lines of code, the place in the timeline.

Not here: what widgets draw (serve/static/js/widgets), the steps (flow.py), the excerpts (code.py).
"""

from __future__ import annotations

from html import escape
from typing import Any

from attnscope.lessons.site import code as source_code
from attnscope.lessons.site import flow as data_flow
from attnscope.lessons.site.blocks import block, draw, options, word
from attnscope.lessons.site.page import Page
from attnscope.lessons.site.source import Block
from attnscope.lessons.site.widgets import WIDGETS


@block("widget")
def widget(block: Block, page: Page) -> str:
    """A place that the script fills; `id` where a page has two of a name, the rest is its own."""
    name = word(block, "a widget's name")
    if name not in WIDGETS:
        raise block.place.error(f"there is no widget {name!r}; there are {', '.join(WIDGETS)}.")
    given = dict(block.options)
    id = page.id(f"widget-{given.pop('id', name)}", block.place)
    about: dict[str, Any] = {"id": id, "name": name, "options": given}
    data = WIDGETS[name](page.language)
    if data:
        about["data"] = data
    page.widgets.append(about)
    title = page.title(block.title, block.place) if block.title else page.say("widget")
    inside = draw(block.children, page)
    below = f'<div class="guide">{inside}</div>' if inside else ""
    return (
        f'<section class="widget" id="{id}" data-widget="{name}"><h3>{title}</h3>'
        f'<div class="stand"></div>{below}</section>'
    )


@block("code")
def code(block: Block, page: Page) -> str:
    """Lines of attnscope's own source; what stands inside is said below them."""
    options(block, "last")
    try:
        found = source_code.excerpt(
            word(block, "module:name"), last=int(block.options.get("last", "0"))
        )
        marked = source_code.highlight(found.text)
    except ValueError as error:
        raise block.place.error(str(error)) from None
    inside = draw(block.children, page)
    return (
        f'<figure class="code"><figcaption>{page.say("code")} '
        f"<code>{escape(found.path)}:{found.first}</code></figcaption>"
        f"<pre><code>{marked}</code></pre>{inside}</figure>"
    )


@block("walk")
def walk(block: Block, page: Page) -> str:
    """A whole function, passage by passage, each with what it does; no line is left out."""
    options(block)
    parts = tuple(block.parts())
    if not parts or len(parts) != len(block.children) or {one.name for one in parts} != {"lines"}:
        raise block.place.error("walk: expected blocks `:::lines from=…` and nothing else inside.")
    for part in parts:
        options(part, needed=("from",))
    try:
        whole, passages = source_code.passages(
            word(block, "module:name"), [one.options["from"] for one in parts]
        )
    except ValueError as error:
        raise block.place.error(str(error)) from None
    marked = source_code.highlight(whole.text).split("\n")
    items = []
    for part, passage in zip(parts, passages, strict=True):
        at = whole.numbers.index(passage.first)
        lines = "\n".join(marked[at : at + passage.text.count("\n") + 1])
        items.append(
            f'<li value="{passage.first}"><pre><code>{lines}</code></pre>'
            f"{draw(part.children, page)}</li>"
        )
    return (
        f'<figure class="code walk"><figcaption>{page.say("code")} '
        f"<code>{escape(whole.path)}:{whole.first}</code></figcaption>"
        f"<ol>{''.join(items)}</ol></figure>"
    )


@block("flow")
def flow(block: Block, page: Page) -> str:
    """The steps up to this lesson, with shapes and what is learned; later ones stand by."""
    options(block)
    id = page.id("flow", block.place)
    cells = []
    for step in data_flow.steps(page.number):
        later = step.lesson > page.number
        state = "later" if later else "now" if step.lesson == page.number else "known"
        cells.append(f'<li class="{state}">{_step(step, page, state)}</li>')
    choose = "".join(
        f'<button type="button" aria-pressed="{"true" if name == "small" else "false"}" '
        f'data-shape="{name}">{page.say(f"flow.{name}")}</button>'
        for name in ("small", "real")
    )
    return (
        f'<section class="flow" data-shape="small"><h2 id="{id}">{page.say("flow")}</h2>'
        f"{draw(block.children, page)}"
        f'<div class="choose" role="group" aria-label="{page.say("flow.choose")}">'
        f"<span>{page.say('flow.choose')}</span>"
        f'<span class="choices">{choose}</span></div>'
        f"<ol>{''.join(cells)}</ol></section>"
    )


def _step(step: data_flow.Step, page: Page, state: str) -> str:
    title = escape(step.title[page.language])
    if state == "later":
        return (
            f"<b>{title}</b><span>{page.say('flow.later', number=step.lesson)}</span>"
        )  # fmt: skip
    learned = {
        name: page.say("flow.parameters", count=f"{count:,}") if count else page.say("flow.none")
        for name, count in (("small", step.small_parameters), ("real", step.real_parameters))
    }
    now = f" <mark>{page.say('flow.now')}</mark>" if state == "now" else ""
    shapes = "".join(
        f'<span class="{name}"><code>{escape(shape)}</code><small>{learned[name]}</small></span>'
        for name, shape in (("small", step.small), ("real", step.real))
    )
    return f"<b>{title}{now}</b><span>{escape(step.says[page.language])}</span>{shapes}"


@block("here")
def here(block: Block, page: Page) -> str:
    """The timeline in one line of names, this lesson's marked, with a way to the whole."""
    options(block)
    name = word(block, "a mechanism's name")
    from attnscope.lessons.site.timeline import generations

    all_of_them = generations(page.course, page.language)
    if not any(one.name == name for one in all_of_them):
        known = ", ".join(one.name for one in all_of_them)
        raise block.place.error(f"there is no generation {name!r}; there are {known}.")
    items = "".join(
        f"<li{' aria-current=true' if one.name == name else ''}>"
        f'<a href="timeline.html#{escape(one.name)}">{escape(one.short)}</a></li>'
        for one in all_of_them
    )
    id = page.id("here", block.place)
    return (
        f'<section class="here"><h2 id="{id}">{page.say("here")}</h2>'
        f"{draw(block.children, page)}<ol>{items}</ol>"
        f'<p><a href="timeline.html#{escape(name)}">{page.say("here.all")}</a></p></section>'
    )
