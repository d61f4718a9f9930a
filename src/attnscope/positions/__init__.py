"""Where a token stands, told to q and k."""

from attnscope.positions.rope import Rope, rotate

__all__ = ["Rope", "rotate"]
