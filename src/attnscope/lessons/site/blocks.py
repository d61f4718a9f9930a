"""The blocks of a lesson, each drawn by the function that is registered under its name.

The idea: `draw` walks the tree; a block's function gets the block and the page and returns HTML.
What a block needs (words, options, parts) is checked where it is drawn, so an error has its line.

    not-yet  flow  predict  design(naive, fails, fix)  widget  formula(explain)  equation  steps
    misconception  correction  try  evidence(problem, mathematics, experiment)  one-sentence  gap
    questions(question)  exercise  code  walk(lines)  here  deeper

`deeper` folds what is a second reading, under a title that says what waits there; a lesson is whole
without it, and its minutes do not count it. Anything may stand inside. What the lesson goes on with
(a term, a number of the next section) belongs before it.

Not here: answers and choices (asking.py), the diagram and code (showing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

from attnscope.lessons.site.page import Page
from attnscope.lessons.site.source import Block, Node, Text

Draw = Callable[[Block, Page], str]
BLOCKS: Final[dict[str, Draw]] = {}


def block(name: str) -> Callable[[Draw], Draw]:
    """Register the function below as what draws the blocks of a name."""

    def register(function: Draw) -> Draw:
        BLOCKS[name] = function
        return function

    return register


def draw(nodes: tuple[Node, ...], page: Page) -> str:
    """The HTML of some nodes.

    Raises:
        ContentError: a block is unknown, or one of them is wrong.
    """
    parts = []
    for node in nodes:
        if isinstance(node, Text):
            html = page.render(node)
            parts.append(f'<div class="prose">{html}</div>')
        elif node.name not in BLOCKS:
            raise node.place.error(
                f"there is no block {node.name!r}; there are {', '.join(sorted(BLOCKS))}."
            )
        else:
            parts.append(BLOCKS[node.name](node, page))
    return "\n".join(parts)


def options(block: Block, *known: str, needed: tuple[str, ...] = ()) -> None:
    """Refuse an option that a block does not know, or one that is missing."""
    for name in block.options:
        if name not in (*known, *needed):
            there = ", ".join((*known, *needed)) or "none"
            raise block.place.error(f"{block.name}: no option {name!r}; there are {there}.")
    for name in needed:
        if name not in block.options:
            raise block.place.error(f"{block.name}: the option {name!r} is missing.")


def word(block: Block, what: str) -> str:
    """The one word behind a block's name."""
    if len(block.words) != 1:
        raise block.place.error(f"{block.name}: expected {what} behind the name.")
    return block.words[0]


def titled(block: Block, page: Page) -> str:
    """A block's title, which it must have."""
    if not block.title:
        raise block.place.error(f"{block.name}: expected a title behind ` | `.")
    return page.title(block.title, block.place)


def text_of(block: Block, what: str) -> Text:
    """The one text inside a block."""
    if len(block.children) != 1 or not isinstance(block.children[0], Text):
        raise block.place.error(f"{block.name}: expected {what} and nothing else inside.")
    return block.children[0]


def parts_of(block: Block, *names: str) -> dict[str, Block]:
    """The parts of a block, each once and in this order."""
    found = [one.name for one in block.parts()]
    if found != list(names) or len(found) != len(block.children):
        raise block.place.error(f"{block.name}: expected the blocks {', '.join(names)} inside.")
    return {one.name: one for one in block.parts()}


def _callout(kind: str) -> Draw:
    """A box with a heading of its own kind, and a title where the block gives one."""

    def drawn(block: Block, page: Page) -> str:
        title = (
            f"<p class='claim'>{page.title(block.title, block.place)}</p>" if block.title else ""
        )
        return (
            f'<aside class="callout {kind}"><h3>{page.say(kind)}</h3>{title}'
            f"{draw(block.children, page)}</aside>"
        )

    return drawn


for _kind in ("not-yet", "misconception", "correction", "try"):
    BLOCKS[_kind] = _callout(_kind)


def _section(kind: str) -> Draw:
    """A section of the lesson's pattern, with its heading."""

    def drawn(block: Block, page: Page) -> str:
        id = page.id(kind, block.place)
        return (
            f'<section class="{kind}"><h2 id="{id}">{page.say(kind)}</h2>'
            f"{draw(block.children, page)}</section>"
        )

    return drawn


for _kind in ("one-sentence", "gap", "questions", "exercises"):
    BLOCKS[_kind] = _section(_kind)


@block("design")
def design(block: Block, page: Page) -> str:
    """Three steps that unfold one after the other."""
    parts = parts_of(block, "naive", "fails", "fix")
    id = page.id(block.words[0] if block.words else "design", block.place)
    steps = []
    for at, (name, part) in enumerate(parts.items(), 1):
        title = f" <span>{page.title(part.title, part.place)}</span>" if part.title else ""
        steps.append(
            f'<details class="{name}"{" open" if at == 1 else ""}><summary>'
            f'<b class="count">{at}</b><i>{page.say(f"design.{name}")}</i>{title}</summary>'
            f"<div>{draw(part.children, page)}</div></details>"
        )
    title = page.title(block.title, block.place) if block.title else page.say("design")
    return f'<section class="design"><h2 id="{id}">{title}</h2>{"".join(steps)}</section>'


@block("evidence")
def evidence(block: Block, page: Page) -> str:
    """Three questions with their answers."""
    parts = parts_of(block, "problem", "mathematics", "experiment")
    id = page.id("evidence", block.place)
    items = "".join(
        f"<dt>{page.say(f'evidence.{name}')}</dt><dd>{draw(part.children, page)}</dd>"
        for name, part in parts.items()
    )
    return (
        f'<section class="evidence"><h2 id="{id}">{page.say("evidence")}</h2>'
        f"<dl>{items}</dl></section>"
    )


@block("question")
def question(block: Block, page: Page) -> str:
    """A folded question."""
    id = page.id(f"question-{word(block, 'an id')}", block.place)
    return (
        f'<details class="question" id="{id}"><summary>{titled(block, page)}</summary>'
        f"<div>{draw(block.children, page)}</div></details>"
    )


@block("deeper")
def deeper(block: Block, page: Page) -> str:
    """A second reading, folded; open when printed."""
    options(block)
    id = page.id(f"deeper-{word(block, 'an id')}", block.place)
    return (
        f'<details class="deeper" id="{id}"><summary><i>{page.say("deeper")}</i> '
        f"<span>{titled(block, page)}</span></summary>"
        f"<div>{draw(block.children, page)}</div></details>"
    )


@block("equation")
def equation(block: Block, page: Page) -> str:
    """A formula on a line of its own; its title, if any, is the remark below."""
    text = text_of(block, "a formula")
    remark = (
        f"<figcaption>{page.title(block.title, block.place)}</figcaption>" if block.title else ""
    )
    return (
        f'<figure class="equation">{page.formula(text.source, text.place, block=True)}'
        f"{remark}</figure>"
    )


@block("steps")
def steps(block: Block, page: Page) -> str:
    """A derivation: lines of `formula || reason`."""
    text = text_of(block, "lines of formula || reason")
    rows = []
    for at, line in enumerate(text.source.split("\n")):
        if not line.strip():
            continue
        place = text.place.below(at)
        formula, bars, reason = line.partition("||")
        if not bars:
            raise place.error("steps: expected `formula || reason`.")
        rows.append(
            f"<li><div>{page.formula(formula, place, block=True)}</div>"
            f"<p>{page.title(reason.strip(), place)}</p></li>"
        )
    return f'<ol class="steps">{"".join(rows)}</ol>'


@block("formula")
def formula(block: Block, page: Page) -> str:
    """A formula whose terms explain themselves; each `explain` is one of them."""
    name = word(block, "an id")
    texts = [one for one in block.children if isinstance(one, Text)]
    explained = {word(one, "a term"): one for one in block.parts() if one.name == "explain"}
    if len(texts) != 1 or len(explained) + 1 != len(block.children):
        raise block.place.error("formula: expected the formula, then one `explain` for each term.")
    asked = mathml_terms(texts[0].source)
    if sorted(set(asked)) != sorted(explained):
        missing = ", ".join(sorted(set(asked) ^ set(explained)))
        raise block.place.error(f"formula: terms and explanations differ in {missing}.")
    id = page.id(f"formula-{name}", block.place)
    cards = "".join(
        f'<div class="card" id="{id}-{escape(term)}" data-term="{escape(term)}">'
        f"<h4>{titled(one, page)}</h4>{draw(one.children, page)}</div>"
        for term, one in explained.items()
    )
    return (
        f'<section class="formula" id="{id}" aria-label="{page.say("formula")}">'
        f"<h3>{titled(block, page)}</h3>"
        f"{page.formula(texts[0].source, texts[0].place, block=True)}"
        f'<p class="ask-hint">{page.say("formula.ask")}</p><div class="cards">{cards}</div>'
        "</section>"
    )


def mathml_terms(source: str) -> list[str]:
    """The terms of a formula (mathml.terms, named here for the block above)."""
    from attnscope.lessons.site.mathml import terms

    return terms(source)
