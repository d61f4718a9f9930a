"""From which tokens does a token take information, how much, and at what cost?

Importing this imports the standard library alone; each public name brings what it needs when it
is first used.

    capture(model, text)      run a model and keep its attention: a `Trace`
    observe(model)            the calls of SDPA in any PyTorch code: a list of them
    open(path)                a trace that was saved
    attend(q, k, v)           exact attention with its statistics
    show(trace)               the app in a notebook: overview, map, flow
    to_html(trace, path)      the same as one stand-alone page
    Trace                     what `capture` and `open` give
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # checkers take it for true; importing `typing` would take most of our time
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

__all__ = ["Trace", "__version__", "attend", "capture", "observe", "open", "show", "to_html"]

_HOMES = {
    "Trace": "attnscope.trace:Trace",
    "open": "attnscope.trace:open_trace",
    "attend": "attnscope.core.attend:attend",
    "capture": "attnscope.capture",
    "observe": "attnscope.capture.observe:observe",
    "plan": "attnscope.plan",
    "show": "attnscope.widget:show",
    "to_html": "attnscope.serve.export:to_html",
}
"""Where a public name lives. `capture` is a subpackage that can be called (see _callable.py)."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'attnscope' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        from attnscope._callable import late_import

        found = late_import(module)  # fails once more, with a message that says what to install
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
