"""Imports go strictly down the ladder of layers; every import that does not is named here.

Reading is by syntax tree, so an import inside a function counts too, but for the command line,
whose whole purpose is to import late.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "attnscope"

LAYERS = {
    "shapes": 0,
    "errors": 0,
    "_callable": 0,
    "link": 0,
    "core": 1,
    "positions": 2,
    "caches": 2,
    "trace": 2,
    "plan": 2,
    "mechanisms": 3,
    "capture": 4,
    "decoder": 4,
    "decoder_config": 3,
    "decoder_files": 3,
    "decoder_product": 3,
    "decoder_sampling": 3,
    "monitor": 4,
    "tiles": 4,
    "survey": 5,
    "lessons": 5,
    "serve": 6,
    "widget": 7,
    "cli": 8,
}
"""ARCHITECTURE's ladder, but that a notebook's widget stands on what serves the app: its pages.
`testing` stands beside it: it may read core, and only tests import it."""

CHECKS = {"capture/sweep.py"}
"""Modules that are themselves checks, and so may import `testing`: run by hand and by tests."""

HOMES = {
    "transformers": {"capture"},
    "tokenizers": {"capture"},
    "gguf": {"capture"},
    "huggingface_hub": {"capture", "cli"},
    "ray": {"survey"},
    "starlette": {"serve"},
    "uvicorn": {"serve"},
    "anywidget": {"widget"},
    "markdown_it": {"lessons"},
    "typer": {"cli"},
    "rich": {"cli"},
}
"""Third-party packages that live in one part alone."""

WITHOUT_TORCH = {"plan", "trace", "tiles"}
STANDARD_ONLY = {"plan"}
HEAVY = {"torch", "numpy", "numba", "transformers", "pyarrow", "pandas"}

Import = tuple[str, int, bool]
"""(what is imported, on which line, whether it is not run when the module is imported)"""


def imports(source: str, package: str) -> Iterator[Import]:
    """Every import of a module's text, relative ones resolved against its package.

    `if TYPE_CHECKING:` blocks count like a function's body: they are not run at import, but the
    ladder is about what the code is written in terms of.
    """
    tree = ast.parse(source)
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        late = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if late or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            inside.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, node in inside
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join([*parents, base]).rstrip(".")
            if base == "attnscope":
                for alias in node.names:
                    yield f"attnscope.{alias.name}", node.lineno, node in inside
            else:
                yield base, node.lineno, node in inside


def part_of(path: Path) -> str:
    """The part a file belongs to: `core` for core/masks.py, `shapes` for shapes.py."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def package_of(path: Path) -> str:
    """The dotted package that a file's relative imports start from."""
    parts = ["attnscope", *path.relative_to(SOURCE).parts[:-1]]
    return ".".join(parts)


def complaints(part: str, source: str, package: str) -> list[str]:
    """What a module's imports do that the ladder forbids."""
    said = []
    for name, line, inside in imports(source, package):
        root, *rest = name.split(".")
        if root == "attnscope":
            target = rest[0] if rest else ""
            said += _ladder(part, target, line)
        elif root in HOMES and part not in HOMES[root]:
            homes = ", ".join(sorted(HOMES[root]))
            said.append(f"line {line}: {root} is imported in {homes} alone, not in {part}")
        elif root == "torch" and part in WITHOUT_TORCH:
            said.append(f"line {line}: {part} never imports torch")
        elif root in HEAVY and part in STANDARD_ONLY:
            said.append(f"line {line}: {part} uses the standard library alone, not {root}")
        elif root in HEAVY and part == "cli" and not inside:
            said.append(f"line {line}: the command line imports {root} inside functions only")
    return said


def _ladder(part: str, target: str, line: int) -> list[str]:
    if target in ("", "__version__", part):
        return []
    if target == "testing" or target not in LAYERS:
        return [f"line {line}: nothing in the ladder may import attnscope.{target}"]
    if part == "testing":
        return (
            [] if LAYERS[target] <= LAYERS["core"] else [f"line {line}: testing imports {target}"]
        )
    if LAYERS[target] < LAYERS[part]:
        return []
    return [f"line {line}: {part} (layer {LAYERS[part]}) imports {target} (layer {LAYERS[target]})"]


def modules() -> list[Path]:
    """Every module that belongs to a part; the package's own front is checked apart."""
    front = {SOURCE / "__init__.py", SOURCE / "__main__.py"}
    return sorted(path for path in SOURCE.rglob("*.py") if path not in front)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down(path: Path) -> None:
    part = part_of(path)
    assert part == "testing" or part in LAYERS, f"{part} has no place on the ladder"
    said = complaints(part, path.read_text(encoding="utf-8"), package_of(path))
    if path.relative_to(SOURCE).as_posix() in CHECKS:
        said = [line for line in said if not line.endswith("attnscope.testing")]
    assert said == []


def test_front_imports_nothing_at_import() -> None:
    """The package resolves its names lazily: at the top it imports the standard library."""
    source = (SOURCE / "__init__.py").read_text(encoding="utf-8")
    top = [name for name, _, inside in imports(source, "attnscope") if not inside]
    foreign = [name for name in top if name.split(".")[0] in HEAVY | set(HOMES)]
    inner = [name for name in top if name.startswith("attnscope.")]
    assert foreign == []
    assert [name for name in inner if name.split(".")[1] not in {"errors", "_callable"}] == []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("core", "from attnscope.trace import Trace"),
        ("core", "from ..trace import Trace"),
        ("core", "from .. import capture"),
        ("trace", "import torch.nn"),
        ("trace", "def f():\n    import torch"),
        ("plan", "import numpy as np"),
        ("core", "import transformers"),
        ("mechanisms", "import attnscope.cli.main"),
        ("capture", "from attnscope.testing import budget"),
        ("cli", "import torch"),
        ("cli", "if True:\n    import torch"),
        ("trace", "if TYPE_CHECKING:\n    from attnscope.capture import session"),
        ("serve", "from attnscope import widget"),
        ("trace", "from attnscope.plan import read"),
    ],
)
def test_each_rule_can_fail(part: str, source: str) -> None:
    assert complaints(part, source, f"attnscope.{part}")


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("trace", "import numpy as np\nfrom attnscope.errors import TraceError"),
        ("cli", "def f():\n    import torch"),
        ("cli", "if TYPE_CHECKING:\n    import torch"),
        ("capture", "import transformers\nfrom ..core import attend"),
        ("core", "from . import masks"),
    ],
)
def test_what_is_allowed_passes(part: str, source: str) -> None:
    assert complaints(part, source, f"attnscope.{part}") == []
