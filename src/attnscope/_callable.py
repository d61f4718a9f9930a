"""Lets a subpackage be called like its one function, and a class have a method of a later part.

The idea: `attnscope.capture` is a folder of modules and also the documented function
`attnscope.capture(model, text)`. A module may have a class of its own; giving it one with
`__call__` makes both true without importing the function before it is needed.

Not here: which function (the subpackage names it in its own `__init__`).
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any


def make_callable(package: str, target: str) -> None:
    """Make an imported module callable; the call goes to `target`, imported at the first call.

    Args:
        package: the module's name, as in `__name__`.
        target: "module:function".

    Raises:
        KeyError: the module is not imported.

    >>> import sys, types
    >>> sys.modules["_example"] = types.ModuleType("_example")
    >>> make_callable("_example", "math:hypot")
    >>> sys.modules["_example"](3, 4)
    5.0
    >>> del sys.modules["_example"]
    """
    home, _, name = target.partition(":")

    def function() -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(importlib.import_module(home), name)
        return found

    class CallableModule(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return function()(*arguments, **options)

        @property
        def __signature__(self) -> inspect.Signature:
            return inspect.signature(function())

    CallableModule.__doc__ = f"A module that is called as {target.replace(':', '.')}."
    sys.modules[package].__class__ = CallableModule


class LateMethod:
    """A method whose function lives in a part that its class may not import.

    The function is imported when the method is first asked for, and gets the object as its first
    argument; so a class of the trace can offer what only the server's part can do.

    Args:
        target: "module:function".

    >>> class Point:
    ...     length = LateMethod("math:hypot")
    ...     def __float__(self): return 3.0
    >>> Point().length(4)
    5.0
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.__doc__ = f"See {target.replace(':', '.')}."

    def __get__(self, instance: Any, owner: type) -> Any:
        home, _, name = self.target.partition(":")
        function = getattr(importlib.import_module(home), name)
        return function if instance is None else partial(function, instance)
