"""Markdown with references: figures, experiment fields, glossary terms, formulas, other lessons.

The idea: markdown-it reads the text; one rule of ours turns `{kind:body}` into a token of its own,
and a `Scope` (what this page knows) says what it stands for. HTML in the source is text.

    {fig:softmax.8_7_9}      what a figure prints; asks for its formula on click
    {exp:variance/max_weight/0/2@.3}    an experiment's field to 3 decimals; @%.1 as percent to 1
    {new:softmax}            a glossary term where it is introduced     {new:softmax|other wording}
    {term:softmax}           the term later on                          {term:softmax|other wording}
    {math: a_{ij} + b}       a formula
    {lesson:masking}         the title of another lesson, as a link

A heading ends with its id: `## Why the root {#why-root}`.

Not here: blocks (blocks.py), formulas (mathml.py).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from attnscope.lessons.site.source import ContentError, Place, Text

KINDS: Final = ("fig", "exp", "new", "term", "math", "lesson")
BEGIN: Final = re.compile(r"\{([a-z]+):")
GAP: Final = re.compile(r"(?<=[。！？；：，」]</strong>) (?=[\u3400-\u9fff「<])")
"""The space that Markdown needs behind a Chinese sentence in bold, and that no reader wants."""
BOX: Final = re.compile(
    r"([（「『(]?)((?:<dfn[^>]*>)?<button\b[^>]*>[^<]*</button>(?:</dfn>)?|<math\b.*?</math>)"
    r"([，。；：！？、）」』…,.;:!?)]*)"
)
"""What can be clicked, or a formula, with the signs at its sides that must not stand alone: beside
a box a line may end, whatever stands there."""
HEADING: Final = re.compile(r"\s*\{#([a-z0-9][a-z0-9-]*)\}\s*$")


class Scope(Protocol):
    """What a page knows: from a reference to HTML. A ValueError becomes an error with its line."""

    def reference(self, kind: str, body: str, place: Place) -> str:
        """The HTML that stands for `{kind:body}`."""
        ...


def closing(source: str, start: int) -> int:
    """Where the brace closes that opens at `start`; -1 if it does not.

    >>> closing("{math: a_{ij}} b", 0)
    13
    """
    depth = 0
    for at in range(start, len(source)):
        depth += {"{": 1, "}": -1}.get(source[at], 0)
        if depth == 0:
            return at
    return -1


def references(source: str) -> list[tuple[str, str, int, int]]:
    """Every reference of a text: kind, body, start, end.

    >>> references("a {fig:x.y} b")
    [('fig', 'x.y', 2, 11)]
    """
    found: list[tuple[str, str, int, int]] = []
    for opening in BEGIN.finditer(source):
        end = closing(source, opening.start())
        if end >= 0 and (not found or opening.start() >= found[-1][3]):
            found.append(
                (opening[1], source[opening.end() : end].strip(), opening.start(), end + 1)
            )
    return found


class _MalformedError(ValueError):
    """A brace that begins no reference, with the piece of text to look for."""

    def __init__(self, message: str, piece: str) -> None:
        super().__init__(message)
        self.piece = piece


def _rule(state: StateInline, silent: bool) -> bool:
    found = BEGIN.match(state.src, state.pos)
    if found is None:
        return False
    end = closing(state.src, state.pos)
    if end < 0:
        piece = state.src[state.pos : state.pos + 24]
        raise _MalformedError(f"{piece!r} is not closed by a }}.", found[0])
    if found[1] not in KINDS:
        raise _MalformedError(
            f"{{{found[1]}:…}} is no reference; there are {', '.join(KINDS)}. "
            "Write \\{ for a plain brace.",
            found[0],
        )
    if not silent:
        token = state.push("reference", "", 0)
        token.meta = {"names": (found[1], state.src[found.end() : end].strip())}
    state.pos = end + 1
    return True


def _reference(self: Any, tokens: Sequence[Token], at: int, _: Any, env: Any) -> str:
    found: str = env[tokens[at].meta["names"]]
    return found


def _make() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "typographer": True, "quotes": "“”‘’"})
    reader.enable(["table", "smartquotes"])
    reader.inline.ruler.before("link", "reference", _rule)
    reader.add_render_rule("reference", _reference)
    return reader


READER: Final = _make()


def _headings(tokens: list[Token], place: Place) -> None:
    """Take the id off every heading's text and put it on the element."""
    for opening, inside in itertools.pairwise(tokens):
        if opening.type != "heading_open":
            continue
        found = HEADING.search(inside.content)
        if found is None:
            raise place.below((opening.map or [0])[0]).error(
                f"the heading {inside.content!r} has no id; end it with {{#its-id}}."
            )
        opening.attrSet("id", found[1])
        last = (inside.children or [])[-1]
        last.content = HEADING.sub("", last.content)


def _resolve(source: str, place: Place, scope: Scope) -> dict[tuple[str, str], str]:
    """What every reference stands for; an error has the line of the reference."""
    found: dict[tuple[str, str], str] = {}
    for kind, body, start, _ in references(source):
        if kind not in KINDS:
            continue
        here = place.below(source.count("\n", 0, start))
        try:
            found[kind, body] = scope.reference(kind, body, here)
        except ContentError:
            raise
        except ValueError as error:
            raise here.error(str(error)) from None
    return found


def _whole(found: re.Match[str]) -> str:
    return f'<span class="whole">{found[0]}</span>' if found[1] or found[3] else found[0]


def render(text: Text, scope: Scope) -> str:
    """A piece of Markdown as HTML.

    Raises:
        ContentError: a reference, a formula or a heading is wrong; with file and line.
    """
    env: dict[Any, Any] = dict(_resolve(text.source, text.place, scope))
    try:
        tokens = READER.parse(text.source, env)
    except _MalformedError as error:
        line = text.source[: text.source.index(error.piece)].count("\n")
        raise text.place.below(line).error(str(error)) from None
    _headings(tokens, text.place)
    html = str(READER.renderer.render(tokens, READER.options, env))
    # A page's policy allows no style in an attribute, so a column's side is a class.
    html = html.replace(' style="text-align:right"', ' class="number"')
    html = html.replace("<table>", '<div class="scrolling"><table>')
    return GAP.sub("", BOX.sub(_whole, html.replace("</table>", "</table></div>")))


def render_title(title: str, place: Place, scope: Scope) -> str:
    """A line of Markdown without a paragraph around it."""
    env: dict[Any, Any] = dict(_resolve(title, place, scope))
    try:
        return BOX.sub(_whole, str(READER.renderInline(title, env)))
    except _MalformedError as error:
        raise place.error(str(error)) from None
