"""The planner in the browser, for pages that no server stands behind: our Python, run by Brython.

The idea: nothing of the planner is written a second time. The package `brython` brings a Python in
JavaScript; here its scripts, the planner's own files and the configs are put into one script that a
page loads when the planner is first asked. It holds the text of a worker, because a page from disk
may start a worker only from a text that it has.

    assets/planner-python.js      self.attnscopePlanner = "…the worker…"
    worker                        receives a question (attnscope.plan.page), posts the answer

Cost: some 2.6 MB on disk; one to two seconds until the first answer.

Not here: the page (planner.py), what is asked (attnscope.plan.page).
"""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Final

from attnscope.errors import AttnscopeError
from attnscope.lessons.site import standins

SCRIPT: Final = "planner-python.js"
SOURCE: Final = Path(__file__).parents[2]
PARTS: Final = ("errors.py", "plan")
"""What of attnscope the page needs."""
LEFT_OUT: Final = ("plan/gguf_header.py", "plan/gguf_keys.py", "plan/gguf_model.py", "plan/plot.py")
"""Files are not read in a page, and its picture is drawn there."""
STANDARD: Final = (
    "__future__", "_codecs", "_collections", "_collections_abc", "_frozen_importlib", "_functools",
    "_imp", "_io", "_io_classes", "_json", "_locale", "_operator", "_py_abc", "_struct", "_thread",
    "_weakref", "_weakrefset", "abc", "browser", "builtins", "codecs", "collections", "enum",
    "errno", "fractions", "functools", "genericpath", "importlib", "importlib._bootstrap",
    "importlib._bootstrap_external", "itertools", "keyword", "marshal",
    "math", "numbers", "operator", "os", "posix", "posixpath", "python_re", "re", "reprlib", "stat",
    "struct", "sys", "time", "types", "warnings",
)  # fmt: skip
"""Modules of Brython's library that the planner's imports lead to, as far as they are run."""

BEFORE: Final = 'self.__BRYTHON__ = { brython_path: "https://attnscope.invalid/" };\n'
"""A worker made from a text has no address of its own, and Brython wants to read one."""
AFTER: Final = """
__BRYTHON__.runPythonSource(STARTING, { name: "attnscope_page" });
self.onmessage = (event) => {
  const { id, question } = event.data;
  try {
    self.postMessage({ id, answer: String(self.attnscopeAsk(question)) });
  } catch (error) {
    self.postMessage({ id, failed: String(error?.message ?? error) });
  }
};
self.postMessage({ ready: true });
"""
STARTING: Final = """
import json
import pathlib
from browser import self as worker
pathlib.FILES.update(json.loads(worker.attnscopeFiles))
from attnscope.plan.page import ask
worker.attnscopeAsk = ask
"""


@cache
def planner_script() -> str:
    """The script of a page that runs the planner.

    Raises:
        AttnscopeError: the package brython is missing, or is not the version that this was tested
            with.
    """
    try:
        data = resources.files("brython") / "data"
        engine = (data / "brython.js").read_text(encoding="utf-8")
        library = (data / "brython_stdlib.js").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        raise AttnscopeError(
            "The planner's page needs the package brython: pip install 'attnscope[lessons]'."
        ) from None
    worker = "".join(
        [
            BEFORE,
            engine,
            "\n__BRYTHON__.use_VFS = true;\n",
            f"__BRYTHON__.update_VFS({_json(_modules(library))});\n",
            f"self.attnscopeFiles = {_json(_json(_files()))};\n",
            AFTER.replace("STARTING", _json(STARTING)),
        ]
    )
    return f"self.attnscopePlanner = {_json(worker)};\n"


def version() -> str:
    """Brython's version, as the page names it."""
    return metadata.version("brython")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _modules(library: str) -> dict[str, list[Any]]:
    """Brython's table of modules: the planner, the stand-ins, and what they need of the library."""
    whole = json.loads(library[library.index("{") : library.rindex("}") + 1])
    found: dict[str, list[Any]] = {name: whole[name] for name in STANDARD if name in whole}
    for file in sorted(Path(standins.__file__).parent.glob("*.py")):
        if file.stem != "__init__":
            found[file.stem] = [".py", file.read_text(encoding="utf-8"), []]
    found["attnscope"] = [".py", "", [], 1]
    for part in PARTS:
        place = SOURCE / part
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            inside = file.relative_to(SOURCE)
            if inside.as_posix() in LEFT_OUT:
                continue
            name = ".".join(("attnscope", *inside.with_suffix("").parts))
            text = file.read_text(encoding="utf-8")
            if file.stem == "__init__":
                found[name.removesuffix(".__init__")] = [".py", text, [], 1]
            else:
                found[name] = [".py", text, []]
    return found


def _files() -> dict[str, str]:
    """The planner's data by path within its folder, and the version of the Python that answers."""
    folder = SOURCE / "plan"
    files = sorted((folder / "data").rglob("*.json"))
    found = {one.relative_to(folder).as_posix(): one.read_text(encoding="utf-8") for one in files}
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor:02d}", **found}
