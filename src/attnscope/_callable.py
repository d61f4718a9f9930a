"""Lets a subpackage be called like its one function, and imports parts when they are first used.

The idea: `attnscope.capture` is a folder of modules and also the documented function
`attnscope.capture(model, text)`. A module may have a class of its own; giving it one with
`__call__` makes both true without importing the function before it is needed. What is imported
late may find that a package was not installed; then the message says which extra brings it.

Not here: which function (the subpackage names it in its own `__init__`).
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, Final

EXTRAS: Final = {
    "torch": "look",
    "transformers": "look",
    "tokenizers": "look",
    "huggingface_hub": "look",
    "gguf": "look",
    "numba": "look",
    "pyarrow": "table",
    "pandas": "table",
    "starlette": "serve",
    "uvicorn": "serve",
    "anywidget": "notebook",
    "traitlets": "notebook",
    "markdown_it": "lessons",
}
"""Which extra brings a package that may be missing."""


def missing_package(error: ModuleNotFoundError) -> str | None:
    """Say which extra brings the package, or None when it is not one of ours to install.

    >>> missing_package(ModuleNotFoundError("no", name="torch.nn"))
    "This needs the package torch: pip install 'attnscope[look]'."
    """
    name = (error.name or "").split(".")[0]
    if name not in EXTRAS:
        return None
    return f"This needs the package {name}: pip install 'attnscope[{EXTRAS[name]}]'."


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Let a package that is missing be reported with the extra that brings it.

    Raises:
        ModuleNotFoundError: as it was, with a message that says what to install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        said = missing_package(error)
        if said is None:
            raise
        raise ModuleNotFoundError(said, name=error.name, path=error.path) from None


def late_import(module: str) -> ModuleType:
    """Import a part of the package that may need more than is installed; see `explained`."""
    with explained():
        return importlib.import_module(module)


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
        found: Callable[..., Any] = getattr(late_import(home), name)
        return found

    class CallableModule(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            with explained():  # the function, too, imports what not every call needs
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
        function = getattr(late_import(home), name)
        return function if instance is None else partial(function, instance)
