"""Where the command line writes: results on stdout, progress on stderr, any token safely.

The idea: stdout is for the answer alone, so that it can be piped; a token is text that a stranger
wrote, so what could move the cursor or turn the writing round is shown as an escape.

Not here: what is written (picture.py, report.py).
"""

from __future__ import annotations

import json
import sys
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

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

    >>> safe("a\n\x1b[2J")
    'a\n\\x1b[2J'
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
