"""Where a token stands, told to q and k.

rope.py      turning pairs of numbers, full or in part
scaled.py    frequencies stretched for longer texts
config.py    the fields of a config.json, old style or new
families.py  what a family's config means where it does not say
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnscope.positions.rope import Rope, Turn, rotate, yarn_mscale

__all__ = ["Rope", "Turn", "rotate", "yarn_mscale"]


def __getattr__(name: str) -> Any:
    """The names come when somebody asks; so `python -m` finds rope.py fresh."""
    if name in __all__:
        from attnscope.positions import rope

        return getattr(rope, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
