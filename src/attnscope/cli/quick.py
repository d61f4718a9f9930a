"""A command that starts in a blink: plain values are converted without typer's validation library.

The idea: typer converts every value through pydantic, whose import takes longer than the planner's
whole answer. For the few plain types that a quick command uses (str, int, Path) the conversion is
a line, so it is put in place of typer's before the arguments are parsed. Where typer has no such
place (other versions), nothing is changed and the command is merely slower.

Not here: the commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand

PLAIN = (str, int, bool, Path)


class Plain:
    """Converts one value to str, int, bool or Path; None stays None."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """What typer calls."""
        if value is None or isinstance(value, self.kind):
            return value
        try:
            return self.kind(value)
        except (TypeError, ValueError):
            what = "a whole number" if self.kind is int else f"a {self.kind.__name__}"
            raise typer.BadParameter(f"{value!r} is not {what}.", ctx=ctx, param=param) from None


def plain_kind(annotation: Any) -> type | None:
    """str, int, bool or Path behind an annotation that may allow None; None for all else.

    >>> plain_kind(int | None)
    <class 'int'>
    """
    kinds = [one for one in get_args(annotation) or (annotation,) if one is not type(None)]
    return kinds[0] if len(kinds) == 1 and kinds[0] in PLAIN else None


class Quick:
    """Put before typer's command or group: converts plain parameters here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the conversions in place, then parse."""
        for param in self.get_params(ctx):  # type: ignore[attr-defined]
            kind = plain_kind(getattr(getattr(param, "type_descriptor", None), "annotation", None))
            if kind is not None and getattr(param, "_runtime_param", False) is None:
                param._runtime_param = Plain(kind)
        found: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return found


class QuickCommand(Quick, TyperCommand):
    """A typer command whose plain parameters are converted here."""
