"""Makes one file of browser modules: for the app, a notebook's widget, and pages opened from disk.

The idea: the modules are written in a small part of the language, so that joining them needs no
parser. Each becomes a function with a scope of its own, called once, in the order of the imports;
its exports are the object that it returns. Comments are left out, which makes the file a third
smaller. What is outside of that small part is an error that names file and line, not a guess.

    import { a, b as c } from "./x.js";      may run over several lines; at the top of the file
    export { a, b as c };                    of names that the module has
    export function f … / export async function … / export class … / export const NAME = …

Not allowed: other forms of import and export, several names in one `export const`, cycles, a
top-level await, import(), import.meta.

Not here: the modules (serve/static/js), what the file is put into (serve, widget, lessons).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_IMPORT: Final = re.compile(
    r"""import \s* \{ (?P<names> [\w$\s,]*) \} \s* from \s*
        (["'])(?P<place> [^"'\n]*)\2 \s* ;? [ \t]* (?=\n|$)""",
    re.VERBOSE,
)
_NAME: Final = re.compile(r"(?P<name>[A-Za-z_$][\w$]*)(?:\s+as\s+(?P<local>[A-Za-z_$][\w$]*))?")
_EXPORT: Final = re.compile(
    r"export\s+(?P<kind>async\s+function\s*\*?|function\s*\*?|class|const)\s+(?P<name>[A-Za-z_$][\w$]*)"
)
_EXPORTED: Final = re.compile(r"export\s*\{(?P<names>[\w$\s,]*)\}[ \t]*(?:;[ \t]*)?(?=\n|$)")
_FOREIGN: Final = re.compile(r"\bimport\s*\(|\bimport\s*\.\s*meta\b")
_HIDES: Final = re.compile(r"[\"'`/{}]")
_SEEN: Final = re.compile(r"[^\n]")
_REGEX_AFTER: Final = set("(,=:[!&|?{};+-*%<>~^")
_REGEX_WORDS: Final = (
    "return",
    "typeof",
    "case",
    "in",
    "of",
    "delete",
    "void",
    "throw",
    "new",
    "else",
)


class LinkError(ValueError):
    """A module is not written in the part of the language that can be joined."""


@dataclass(frozen=True)
class Module:
    """One module, read.

    Attributes:
        name: its path below the root.
        body: its text, with imports blanked and `export` taken off.
        imports: (module, [(exported name, local name)]) in order.
        exports: (exported name, local name) in order.
    """

    name: str
    body: str
    imports: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    exports: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The exported names."""
        return tuple(name for name, _ in self.exports)


def link(root: Path, entries: list[str], *, expose: bool = False) -> str:
    """Join modules.

    Args:
        root: the folder of the modules.
        entries: where to begin, as paths below root; the last one's exports are the file's own.
        expose: whether the file is an ES module that exports them; else it is a classic script
            (which also runs as a module) that exports nothing.

    Returns:
        JavaScript that imports nothing.

    Raises:
        LinkError: naming file and line.
    """
    modules = ordered(root, entries)
    places = {module.name: number for number, module in enumerate(modules)}
    # A classic script leaves no name behind, so that a page may have several.
    begin = "const attnscopeModules = (() => {" if expose else "(() => {"
    lines = [begin, '"use strict";']
    for module in modules:
        lines += _wrapped(module, places)
    last = places[_normal(entries[-1], ".")]
    lines += [f"return $m{last};", "})();"]
    if expose:
        names = modules[last].names
        lines += [f"export const {name} = attnscopeModules.{name};" for name in names]
    return "\n".join(lines) + "\n"


def _wrapped(module: Module, places: dict[str, int]) -> list[str]:
    """One module as a function that is called at once."""
    lines = [f"// {module.name}", f"const $m{places[module.name]} = (() => {{"]
    for place, names in module.imports:
        if names:
            parts = [name if name == local else f"{name}: {local}" for name, local in names]
            lines.append(f"const {{ {', '.join(parts)} }} = $m{places[place]};")
    given = ", ".join(
        name if name == local else f"{name}: {local}" for name, local in module.exports
    )
    lines += [module.body.strip("\n"), f"return {{ {given} }};", "})();"]
    return lines


def ordered(root: Path, entries: list[str]) -> list[Module]:
    """The modules that the entries need, each after those that it imports.

    Raises:
        LinkError: a module that is missing or cannot be read, a name nobody exports, a cycle.
    """
    done: dict[str, Module] = {}
    under_way: list[str] = []

    def visit(name: str, asked: str) -> None:
        if name in done:
            return
        if name in under_way:
            way = " -> ".join([*under_way[under_way.index(name) :], name])
            raise LinkError(f"{asked}: modules import each other in a circle: {way}")
        under_way.append(name)
        module = read(root, name, asked)
        for place, names in module.imports:
            visit(place, name)
            for wanted, _ in names:
                if wanted not in done[place].names:
                    raise LinkError(f"{name}: {place} exports no {wanted}")
        under_way.pop()
        done[name] = module

    for entry in entries:
        visit(_normal(entry, "."), "the entry")
    return list(done.values())


def read(root: Path, name: str, asked: str = "the entry") -> Module:
    """Read one module.

    Args:
        name: its path below root.
        asked: who imports it, for the message.

    Raises:
        LinkError: it is not there, or not written as said above.
    """
    try:
        text = (root / name).read_text(encoding="utf-8")
    except OSError:
        raise LinkError(f"{asked}: there is no module {name}") from None
    blanker = _Blanker(text, name)
    code = blanker.run()
    imports: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    exports: list[tuple[str, str]] = []
    body = list(text)

    def cut(start: int, stop: int) -> None:
        """Blank a part, keeping its line ends so that lines keep their numbers."""
        body[start:stop] = _SEEN.sub(" ", text[start:stop])

    for found in re.finditer(r"^(?:import|export)\b", code, re.MULTILINE):
        at = found.start()
        line = text.count("\n", 0, at) + 1
        if given := _IMPORT.match(text, at):
            imports.append(
                (_target(name, line, given["place"]), _names(name, line, given["names"]))
            )
            cut(at, given.end())
        elif listed := _EXPORTED.match(code, at):
            exports += [(given, own) for own, given in _names(name, line, listed["names"])]
            cut(at, listed.end())
        elif made := _EXPORT.match(code, at):
            exports.append((made["name"], made["name"]))
            cut(at, at + len("export"))
        else:
            said = text[at:].split("\n", 1)[0].strip()
            raise LinkError(f"{name}:{line}: cannot be joined: {said}")
    for pattern in (_FOREIGN, re.compile(r"^await\b|^for await\b", re.MULTILINE)):
        if wrong := pattern.search(code):
            line = text.count("\n", 0, wrong.start()) + 1
            raise LinkError(f"{name}:{line}: cannot be joined: {wrong.group().strip()}")
    for start, stop in blanker.comments:
        _drop(body, text, start, stop)
    if len({given for given, _ in exports}) != len(exports):
        raise LinkError(f"{name}: exports a name twice")
    return Module(name, "".join(body), tuple(imports), tuple(exports))


def _drop(body: list[str], text: str, start: int, stop: int) -> None:
    """Leave a comment out, with its lines where nothing else stands on them."""
    line, end = text.rfind("\n", 0, start) + 1, text.find("\n", stop)
    end = len(text) if end < 0 else end
    if not text[line:start].strip() and not text[stop:end].strip():
        start, stop = line, min(end + 1, len(text))
    body[start:stop] = [""] * (stop - start)


def _target(name: str, line: int, place: str) -> str:
    if not place.startswith(("./", "../")) or not place.endswith(".js"):
        raise LinkError(f'{name}:{line}: expected a path like "./other.js", got "{place}"')
    found = _normal(place, str(PurePosixPath(name).parent))
    if found.startswith("../"):
        raise LinkError(f"{name}:{line}: {place} is outside of the folder")
    return found


def _names(name: str, line: int, text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        matched = _NAME.fullmatch(part)
        if matched is None:
            raise LinkError(f"{name}:{line}: cannot be joined: import of {part}")
        found.append((matched["name"], matched["local"] or matched["name"]))
    return tuple(found)


def _normal(place: str, folder: str) -> str:
    """A relative path, joined and with its dots resolved."""
    parts: list[str] = []
    for part in (*PurePosixPath(folder).parts, *PurePosixPath(place).parts):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def blank(text: str, name: str = "module") -> str:
    """The text with comments, strings, templates and regular expressions made blank.

    Line ends stay, so places and lines are those of the text.

    Raises:
        LinkError: one of them does not end.

    >>> blank("a('import x') // export y")
    "a('        ')            "
    """
    return _Blanker(text, name).run()


class _Blanker:
    """Walks over a text once; knows of the language only what hides other text."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.out = list(text)
        self.at = 0
        self.comments: list[tuple[int, int]] = []
        self.braces: list[str] = []  # "{" of code, "`" of a template that waits for its "}"

    def run(self) -> str:
        while found := _HIDES.search(self.text, self.at):
            self.at = found.start()
            self.step()
        if "`" in self.braces:
            raise self.fail(len(self.text) - 1, "a template does not end")
        return "".join(self.out)

    def step(self) -> None:
        """One character of code, or all of something that hides text."""
        c = self.text[self.at]
        if self.text.startswith("//", self.at):
            self.comment(self.find("\n", self.at, required=False))
        elif self.text.startswith("/*", self.at):
            self.comment(self.find("*/", self.at + 2) + 2)
        elif c in "'\"":
            self.quoted(c)
        elif c == "`" or (c == "}" and self.braces and self.braces[-1] == "`"):
            self.template(c)
        elif c == "/" and self.regex_may_begin():
            self.regex()
        else:
            if c == "{":
                self.braces.append("{")
            elif c == "}" and self.braces:
                self.braces.pop()
            self.at += 1

    def comment(self, stop: int) -> None:
        self.comments.append((self.at, stop))
        self.hide(stop)

    def hide(self, stop: int) -> None:
        self.out[self.at : stop] = _SEEN.sub(" ", self.text[self.at : stop])
        self.at = stop

    def find(self, what: str, start: int, *, required: bool = True) -> int:
        found = self.text.find(what, start)
        if found < 0 and required:
            raise self.fail(self.at, f"{self.text[self.at : self.at + 2]} does not end")
        return len(self.text) if found < 0 else found

    def quoted(self, quote: str) -> None:
        stop = self.at + 1
        while stop < len(self.text) and self.text[stop] not in (quote, "\n"):
            stop += 2 if self.text[stop] == "\\" else 1
        if stop >= len(self.text) or self.text[stop] != quote:
            raise self.fail(self.at, "a string does not end")
        self.at += 1
        self.hide(stop)
        self.at += 1

    def template(self, begin: str) -> None:
        """From a backtick, or from the } that ends a substitution, to the next ${ or the end."""
        if begin == "}":
            self.braces.pop()
        stop = self.at + 1
        while stop < len(self.text):
            if self.text[stop] == "\\":
                stop += 2
            elif self.text[stop] == "`":
                self.at += 1
                self.hide(stop)
                self.at += 1
                return
            elif self.text.startswith("${", stop):
                self.at += 1
                self.hide(stop + 2)
                self.braces.append("`")
                return
            else:
                stop += 1
        raise self.fail(self.at, "a template does not end")

    def regex_may_begin(self) -> bool:
        """Whether a / here begins a regular expression, by what stands before it."""
        before = "".join(self.out[max(0, self.at - 200) : self.at]).rstrip()
        if not before or before[-1] in _REGEX_AFTER:
            return True
        word = re.search(r"[\w$]+$", before)
        return word is not None and word.group() in _REGEX_WORDS

    def regex(self) -> None:
        stop, inside = self.at + 1, False
        while stop < len(self.text) and (inside or self.text[stop] != "/"):
            c = self.text[stop]
            if c == "\n":
                raise self.fail(self.at, "a regular expression does not end")
            inside = c == "[" or (inside and c != "]")
            stop += 2 if c == "\\" else 1
        self.at += 1
        self.hide(min(stop, len(self.text)))
        self.at += 1

    def fail(self, at: int, what: str) -> LinkError:
        line = self.text.count("\n", 0, at) + 1
        return LinkError(f"{self.name}:{line}: {what}")
