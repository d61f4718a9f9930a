"""ES modules made into one classic script, since a page opened from disk may import none.

The idea: the browser side keeps to two forms, `import {a, b as c} from "./x.js"` and `export
function|class|const`, one to a line; so each module becomes a function that returns its exports,
in an order in which every module follows those that it imports. What is served is what is written.

Not here: the modules (serve/static/js).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

IMPORT: Final = re.compile(
    r'^import\s*\{(?P<names>[^}]*)\}\s*from\s*"(?P<path>\.[^"]+)";[ \t]*$', re.MULTILINE
)
EXPORT: Final = re.compile(
    r"^export\s+(?P<what>(?:async\s+)?function\*?|class|const)\s+(?P<name>[A-Za-z_$][\w$]*)",
    re.MULTILINE,
)
LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle(entry: Path) -> str:
    """One classic script that does what the module does.

    Args:
        entry: the module to start with.

    Raises:
        ValueError: an import or export of another form, a name that is not exported, or a circle.
    """
    order: list[Path] = []
    _visit(entry.resolve(), order, ())
    number = {file: f"m{at}" for at, file in enumerate(order)}
    exported: dict[Path, set[str]] = {}
    parts = ["(() => {", '"use strict";']
    for file in order:
        parts.append(_module(file, number, exported))
    return "\n".join([*parts, "})();", ""])


def _imports(file: Path, source: str) -> list[tuple[Path, list[tuple[str, str]]]]:
    found = []
    for one in IMPORT.finditer(source):
        names = []
        for piece in filter(None, (name.strip() for name in one["names"].split(","))):
            name, _, other = piece.partition(" as ")
            names.append((name.strip(), other.strip() or name.strip()))
        found.append(((file.parent / one["path"]).resolve(), names))
    return found


def _visit(file: Path, order: list[Path], above: tuple[Path, ...]) -> None:
    if file in above:
        circle = " -> ".join(one.name for one in (*above[above.index(file) :], file))
        raise ValueError(f"modules import each other in a circle: {circle}")
    if file in order:
        return
    if not file.is_file():
        raise ValueError(f"{above[-1].name if above else 'bundle'}: there is no module {file.name}")
    for other, _ in _imports(file, file.read_text(encoding="utf-8")):
        _visit(other, order, (*above, file))
    order.append(file)


def _module(file: Path, number: dict[Path, str], exported: dict[Path, set[str]]) -> str:
    source = file.read_text(encoding="utf-8")
    lines = []
    for other, names in _imports(file, source):
        for name, _ in names:
            if name not in exported[other]:
                raise ValueError(f"{file.name}: {other.name} exports no {name!r}")
        inside = ", ".join(a if a == b else f"{a}: {b}" for a, b in names)
        lines.append(f"const {{ {inside} }} = {number[other]};")
    exported[file] = {one["name"] for one in EXPORT.finditer(source)}
    body = EXPORT.sub(lambda one: f"{one['what']} {one['name']}", IMPORT.sub("", source))
    odd = LEFT.search(body)
    if odd is not None:
        raise ValueError(f"{file.name}: {odd[0].strip()!r} is no form that can be bundled")
    given = ", ".join(sorted(exported[file]))
    return "\n".join(
        [f"const {number[file]} = (() => {{ // {file.name}", *lines, body.strip(),
         f"return {{ {given} }};", "})();"]
    )  # fmt: skip
