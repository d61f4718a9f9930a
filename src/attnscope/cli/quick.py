"""A command that starts in a blink: plain values are converted without typer's validation library.

The idea: typer converts every value through pydantic, whose import takes longer than the planner's
whole answer. For the few plain types that a quick command uses (str, int, Path, and lists of them)
the conversion is a line, so it is put in place of typer's before the arguments are parsed. Where
typer has no such place (other versions), nothing is changed and the command is merely slower.

Not here: the commands.
"""

from __future__ import annotations

from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

PLAIN = (str, int, bool, Path)


class Plain:
    """Converts one value, or each of a list, to str, int, bool or Path; None stays None."""

    def __init__(self, kind: type, *, many: bool = False) -> None:
        self.kind = kind
        self.many = many

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """What typer calls."""
        if value is None:
            return None
        if self.many:
            return [self._one(each, param=param, ctx=ctx) for each in value]
        return self._one(value, param=param, ctx=ctx)

    def _one(self, value: Any, *, param: Any, ctx: Any) -> Any:
        if isinstance(value, self.kind):
            return value
        try:
            return self.kind(value)
        except (TypeError, ValueError):
            what = "a whole number" if self.kind is int else f"a {self.kind.__name__}"
            raise typer.BadParameter(f"{value!r} is not {what}.", ctx=ctx, param=param) from None


def plain(annotation: Any) -> Plain | None:
    """The conversion to a plain type, to a list of one, or to either or None; None for all else.

    >>> plain(int | None).kind, plain(list[str]).many, plain(dict[str, int])
    (<class 'int'>, True, None)
    """
    union = get_origin(annotation) in (Union, UnionType)
    kinds = (
        [one for one in get_args(annotation) if one is not type(None)] if union else [annotation]
    )
    if len(kinds) != 1:
        return None
    [kind] = kinds
    many = get_origin(kind) is list
    inner = get_args(kind)[0] if many else kind
    return Plain(inner, many=many) if inner in PLAIN else None


class Quick:
    """Put before typer's command or group: converts plain parameters here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the conversions in place, then parse."""
        for param in self.get_params(ctx):  # type: ignore[attr-defined]
            found = plain(getattr(getattr(param, "type_descriptor", None), "annotation", None))
            if found is not None and getattr(param, "_runtime_param", False) is None:
                param._runtime_param = found
        rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return rest


class QuickCommand(Quick, TyperCommand):
    """A typer command whose plain parameters are converted here."""
