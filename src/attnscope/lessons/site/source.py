"""A lesson as it is written: front matter, text, and blocks between `:::name` and `:::`.

The idea: a document is a tree of two things, pieces of Markdown and named blocks; each knows the
line it stands on, so that every error can say file and line. Nothing is rendered here, and no name
is judged: which blocks there are is known where they are drawn.

    ---
    id: softmax
    title: From scores to weights
    ---
    Text in Markdown.

    :::predict who-gets-most
    Which token gets the most?
    :::

Blocks nest. Behind the name stand words and `key=value`; behind a ` | ` a title in Markdown.

Not here: Markdown and references (inline.py), blocks (blocks.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

OPENING: Final = re.compile(r":::\s*(?P<name>[a-z][a-z0-9-]*)(?P<rest>(?:\s.*)?)$")
FIELD: Final = re.compile(r"(?P<name>[a-z][a-z_]*):\s*(?P<value>.*)$")


class ContentError(ValueError):
    """Something in a lesson is wrong; the message names the file, the line and the way out."""


@dataclass(frozen=True)
class Place:
    """Where something stands."""

    file: Path
    line: int

    def error(self, message: str) -> ContentError:
        """The error to raise for this place."""
        return ContentError(f"{self.file.parent.name}/{self.file.name}:{self.line}: {message}")

    def below(self, lines: int) -> Place:
        """A place so many lines further down."""
        return Place(self.file, self.line + lines)


@dataclass(frozen=True)
class Text:
    """A piece of Markdown."""

    place: Place
    source: str


@dataclass(frozen=True)
class Block:
    """What stands between `:::name words key=value | title` and `:::`."""

    place: Place
    name: str
    words: tuple[str, ...]
    options: Mapping[str, str]
    title: str
    children: tuple[Node, ...]

    def parts(self) -> Iterator[Block]:
        """The blocks right inside."""
        return (one for one in self.children if isinstance(one, Block))


Node = Text | Block


@dataclass(frozen=True)
class Document:
    """A whole file: its fields, and what follows."""

    file: Path
    fields: Mapping[str, str]
    children: tuple[Node, ...]

    def field(self, name: str) -> str:
        """A field of the front matter.

        Raises:
            ContentError: it is not there.
        """
        if not self.fields.get(name):
            raise Place(self.file, 1).error(f"the front matter has no {name!r}.")
        return self.fields[name]

    def blocks(self) -> Iterator[Block]:
        """Every block, in reading order."""
        return (one for one in walk(self.children) if isinstance(one, Block))


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Every node below, in reading order."""
    for node in nodes:
        yield node
        if isinstance(node, Block):
            yield from walk(node.children)


def read(file: Path) -> Document:
    """Read and parse one file.

    Raises:
        ContentError: its front matter or its blocks are malformed.
    """
    return parse(file.read_text(encoding="utf-8"), file)


def parse(source: str, file: Path) -> Document:
    """Parse a document; `file` is for messages.

    >>> parse("---\\nid: x\\n---\\nHello\\n:::gap\\nWhy?\\n:::", Path("en/x.md")).children[1].name
    'gap'
    """
    lines = source.split("\n")
    fields, start = _front(lines, file)
    return Document(file, fields, _Parser(lines, start, file).run())


def _front(lines: list[str], file: Path) -> tuple[dict[str, str], int]:
    if lines[0].strip() != "---":
        raise Place(file, 1).error("expected a front matter that begins with ---.")
    fields: dict[str, str] = {}
    for at, line in enumerate(lines[1:], 2):
        if line.strip() == "---":
            return fields, at
        found = FIELD.match(line)
        if found is None:
            raise Place(file, at).error(f"expected `name: value`, got {line!r}.")
        if found["name"] in fields:
            raise Place(file, at).error(f"the field {found['name']!r} is there twice.")
        fields[found["name"]] = found["value"].strip()
    raise Place(file, 1).error("the front matter is not closed by ---.")


@dataclass
class _Open:
    """A block whose end has not been read yet."""

    place: Place
    name: str
    rest: str
    children: list[Node] = field(default_factory=list)


class _Parser:
    """Reads lines into nodes; a stack holds the blocks that are open."""

    def __init__(self, lines: list[str], start: int, file: Path) -> None:
        self.lines, self.start, self.file = lines, start, file
        self.stack = [_Open(Place(file, start), "", "")]
        self.text: list[str] = []
        self.first = start + 1

    def run(self) -> tuple[Node, ...]:
        fenced = False
        for at, line in enumerate(self.lines[self.start :], self.start + 1):
            fenced ^= line.lstrip().startswith("```")
            if fenced or not line.startswith(":::"):
                if not self.text:
                    self.first = at
                self.text.append(line)
                continue
            self._flush()
            if line.strip() == ":::":
                self._close(Place(self.file, at))
            else:
                self._open(line, Place(self.file, at))
        self._flush()
        if len(self.stack) > 1:
            raise self.stack[-1].place.error(f"the block {self.stack[-1].name!r} is not closed.")
        return tuple(self.stack[0].children)

    def _flush(self) -> None:
        while self.text and not self.text[0].strip():
            self.text.pop(0)
            self.first += 1
        if self.text:
            place = Place(self.file, self.first)
            self.stack[-1].children.append(Text(place, "\n".join(self.text)))
        self.text = []

    def _open(self, line: str, place: Place) -> None:
        found = OPENING.match(line.rstrip())
        if found is None:
            raise place.error(f"expected `:::name`, got {line!r}.")
        self.stack.append(_Open(place, found["name"], found["rest"]))

    def _close(self, place: Place) -> None:
        if len(self.stack) == 1:
            raise place.error("a block is closed here, but none is open.")
        done = self.stack.pop()
        head, _, title = done.rest.partition(" | ")
        words, options = _arguments(head, done.place)
        self.stack[-1].children.append(
            Block(done.place, done.name, words, options, title.strip(), tuple(done.children))
        )


def _arguments(text: str, place: Place) -> tuple[tuple[str, ...], dict[str, str]]:
    try:
        pieces = shlex.split(text)
    except ValueError as error:
        raise place.error(f"{text.strip()!r} cannot be read: {error}.") from None
    words, options = [], {}
    for piece in pieces:
        name, equals, value = piece.partition("=")
        if not equals:
            words.append(piece)
        elif name in options:
            raise place.error(f"{name!r} is given twice.")
        else:
            options[name] = value
    return tuple(words), options
