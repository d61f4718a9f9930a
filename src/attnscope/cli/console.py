"""Where the command line writes: results on stdout, progress on stderr, any token safely.

The idea: stdout is for the answer alone, so that it can be piped; a token is text that a stranger
wrote, so what could move the cursor or turn the writing round is shown as an escape.

Not here: what is written (picture.py, report.py).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.style import Style

PIPED_COLUMNS: Final = 1000
"""Of output that is no terminal's: a line is not broken for a width that nobody has."""
SILENT_SECONDS = 1.0
"""A step that ends sooner says nothing."""


def write_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout, in UTF-8 whatever the terminal's encoding.

    Raises:
        ValueError: a number is not finite; JSON has no word for it.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(text + "\n")
    else:
        buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
        buffer.flush()


def stdout(*, highlight: bool = True) -> Console:
    """Where a picture or a table is printed: as wide as the terminal, or as COLUMNS says."""
    from rich.console import Console

    told = os.environ.get("COLUMNS", "").isdigit()
    width, height = shutil.get_terminal_size()
    if not (told or sys.stdout.isatty()):
        width = PIPED_COLUMNS
    # With both given, rich does not take a terminal that can do nothing for one of 80 columns.
    return Console(width=width, height=height, highlight=highlight)


class Trimmed:
    """What rich prints, without the blanks it fills up lines with.

    They would be copied along with a text, and wrap in a terminal that is made narrower.
    """

    def __init__(self, *parts: RenderableType) -> None:
        self.parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Each line's segments up to the last that can be seen, as rich asks for them."""
        from rich.console import Group
        from rich.segment import Segment

        for line in console.render_lines(Group(*self.parts), options, pad=False):
            while line and not line[-1].text.rstrip(" ") and not _seen(line[-1].style):
                line.pop()
            if line and not _seen(line[-1].style):
                line[-1] = line[-1]._replace(text=line[-1].text.rstrip(" "))
            yield from line
            yield Segment.line()


def _seen(style: Style | None) -> bool:
    """Whether a blank of this style can be seen."""
    return style is not None and bool(style.bgcolor or style.reverse or style.underline)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say on stderr what is going on while it lasts, and how long it took.

    On a terminal a spinner turns, and is gone when the step is over; elsewhere one line comes
    when the step took more than a second.
    """
    started = time.perf_counter()
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(f"{what} …"):
            yield
        return
    yield
    seconds = time.perf_counter() - started
    if seconds > SILENT_SECONDS:
        typer.echo(f"{what}: {seconds:.1f} s", err=True)


def label(text: str) -> str:
    """A token as it can be printed anywhere: quoted, with what cannot be seen written out.

    >>> label(" Wang"), label("\\n"), label("\\x1b[2J")
    ("' Wang'", "'\\\\n'", "'\\\\x1b[2J'")
    """
    return "'" + "".join(_visible(character) for character in text) + "'"


def safe(text: str) -> str:
    """A text as a terminal may show it: with line ends and tabs, and nothing that could steer it.

    >>> safe("a\\n\\x1b[2J")
    'a\\n\\\\x1b[2J'
    """
    return "".join(one if one in "\n\t" else _visible(one) for one in text)


def _visible(character: str) -> str:
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    if character in named:
        return named[character]
    hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    joiner = character in "\u200c\u200d"  # they hold emoji and words together
    if hidden and not joiner:
        return character.encode("unicode_escape").decode("ascii")
    return character
