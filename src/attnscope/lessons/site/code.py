"""Lines of attnscope's own code, read from the source when a page is made.

The idea: a lesson names a function, `attnscope.mechanisms.rivals:jacobian`; what is shown is what
runs. The docstring is left out, since the lesson is one.

Not here: where it stands on the page (blocks.py).
"""

from __future__ import annotations

import ast
import importlib.util
import io
import keyword
import textwrap
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
MOST: Final = 40
"""Lines that can be read beside a formula."""


@dataclass(frozen=True)
class Excerpt:
    """A piece of source.

    Attributes:
        path: of the file, below the source folder.
        first: its first line's number.
        text: without indentation, without the docstring.
        numbers: of the lines of the text in the file; 0 for the mark of what is left out.
    """

    path: str
    first: int
    text: str
    numbers: tuple[int, ...]


def excerpt(target: str, *, last: int = 0) -> Excerpt:
    """The source of `module:name` or `module:Class.method`.

    Args:
        last: show the signature and this many last lines, … for what lies between; 0 for all.

    Raises:
        ValueError: there is no such module or name, or it is too long to read beside a formula.

    >>> excerpt("attnscope.mechanisms.rivals:_exponential").text.splitlines()[-1].strip()
    'return torch.exp(_below_largest(s, seen) / t)'
    """
    module, _, name = target.partition(":")
    file = _file(module)
    source = file.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        node = _inside(node, part, target)
    assert isinstance(node, ast.stmt)
    lines = source.splitlines()
    first, end = node.lineno, node.end_lineno or node.lineno
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list:
        first = node.decorator_list[0].lineno
    kept = list(range(first, end + 1))
    body = getattr(node, "body", None)
    if body and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
        said = body[0]
        kept = [at for at in kept if not said.lineno <= at <= said.end_lineno]
    head = [at for at in kept if at < (body[0].lineno if body else first + 1)]
    if 0 < last < len(kept) - len(head):
        kept = [*head, 0, *kept[-last:]]
    if len(kept) > MOST:
        raise ValueError(f"{target} has {len(kept)} lines; show one of at most {MOST}.")
    indent = " " * (node.col_offset + 4)
    text = textwrap.dedent("\n".join(lines[at - 1] if at else f"{indent}# …" for at in kept))
    return Excerpt(file.relative_to(ROOT).as_posix(), first, text, tuple(kept))


@dataclass(frozen=True)
class Passage:
    """Some lines of a function in a row.

    Attributes:
        first: the number of the first line in its file.
        text: the lines, indented as in the function.
    """

    first: int
    text: str


def passages(target: str, starts: Sequence[str]) -> tuple[Excerpt, tuple[Passage, ...]]:
    """A whole function cut before the lines that begin with these words, none left out.

    Args:
        starts: how the first line of each passage begins, in order; the first passage begins where
            the function does, whatever its words.

    Raises:
        ValueError: as `excerpt`, or a line that begins so is not there exactly once, or comes
            before the passage that it should follow.

    >>> whole, parts = passages("attnscope.lessons.world:World.scores", ["def", "return"])
    >>> [part.text.strip()[:12] for part in parts]
    ['def scores(s', 'return q @ k']
    """
    whole = excerpt(target)
    lines = whole.text.splitlines()
    cuts = [0]
    for start in starts[1:]:
        found = [at for at, line in enumerate(lines) if line.strip().startswith(start)]
        if len(found) != 1:
            raise ValueError(f"{target}: {len(found)} lines begin with {start!r}; expected one.")
        if found[0] <= cuts[-1]:
            raise ValueError(f"{target}: {start!r} stands before the passage that it follows.")
        cuts.append(found[0])
    if not lines[0].strip().startswith(starts[0]):
        raise ValueError(f"{target}: the first line does not begin with {starts[0]!r}.")
    ends = [*cuts[1:], len(lines)]
    parts = (
        Passage(whole.numbers[begin], "\n".join(lines[begin:end]))
        for begin, end in zip(cuts, ends, strict=True)
    )
    return whole, tuple(parts)


def _file(module: str) -> Path:
    if not module.startswith("attnscope."):
        raise ValueError(f"{module}: expected a module of attnscope.")
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None or found.origin is None:
        raise ValueError(f"there is no module {module!r}.")
    return Path(found.origin)


def _inside(node: ast.AST, name: str, target: str) -> ast.AST:
    for one in ast.iter_child_nodes(node):
        if getattr(one, "name", None) == name:
            return one
        targets = (
            one.targets
            if isinstance(one, ast.Assign)
            else [one.target]
            if isinstance(one, ast.AnnAssign)
            else []
        )
        if any(isinstance(to, ast.Name) and to.id == name for to in targets):
            return one
    raise ValueError(f"{target}: there is no {name!r}.")


def highlight(text: str) -> str:
    """Python as HTML with its comments, strings and keywords marked.

    Raises:
        ValueError: lines were left out so that the rest is no Python.

    >>> highlight("return 1  # one")
    '<span class="word">return</span> 1  <span class="remark"># one</span>'
    """
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parts, at = [], 0
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, IndentationError) as error:
        said = f"these lines are no Python by themselves ({error}); show more of them."
        raise ValueError(said) from None
    for token in tokens:
        kind = {tokenize.COMMENT: "remark", tokenize.STRING: "string"}.get(token.type)
        if token.type == tokenize.NAME and keyword.iskeyword(token.string):
            kind = "word"
        if kind is None:
            continue
        begin = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        parts.append(escape(text[at:begin], quote=False))
        parts.append(f'<span class="{kind}">{escape(text[begin:end], quote=False)}</span>')
        at = end
    return "".join([*parts, escape(text[at:], quote=False)])
