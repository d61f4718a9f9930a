"""The package's front: names that resolve when they are used, and a trace that needs no torch."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest
from trace_samples import Case, trace

import attnscope
from attnscope._callable import make_callable
from attnscope.trace import Trace, open_trace


def fresh(code: str, *arguments: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.strip()


def test_importing_brings_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import attnscope; "
        "print(*sorted(n for n in set(sys.modules) - before if not n.startswith('attnscope')))"
    )
    found = fresh(code).split()
    assert {name.split(".")[0] for name in found} <= set(sys.stdlib_module_names)
    assert "typing" not in found


def test_names_resolve_and_are_listed() -> None:
    assert attnscope.Trace is Trace
    assert attnscope.open is open_trace
    assert callable(attnscope.attend)
    assert set(attnscope.__all__) <= set(dir(attnscope))
    assert attnscope.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="no attribute 'atend'"):
        attnscope.atend  # noqa: B018


def test_a_saved_trace_is_read_without_torch(tmp_path: Path) -> None:
    made = trace(Case())
    made.save(tmp_path / "t")
    code = (
        "import sys, attnscope; t = attnscope.open(sys.argv[1]); t.verify(); t.kinds(); "
        "print(t.attended(0, 1, -1)[0].key, t.statistics['entropy'].shape[0], "
        "*(n for n in ('torch', 'transformers', 'pandas', 'pyarrow') if n in sys.modules))"
    )
    key, rows, *heavy = fresh(code, str(tmp_path / "t")).split()
    assert int(key) == made.attended(0, 1, -1)[0].key
    assert int(rows) == 96
    assert heavy == []


def test_a_module_can_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("callable_example")
    monkeypatch.setitem(sys.modules, "callable_example", module)
    module.inner = 7  # type: ignore[attr-defined]
    make_callable("callable_example", "colorsys:rgb_to_hsv")
    assert module(1, 0, 0) == (0.0, 1.0, 1)  # type: ignore[operator]
    assert callable(module)
    from callable_example import inner  # type: ignore[import-not-found]

    assert inner == 7
    assert list(inspect.signature(module).parameters) == ["r", "g", "b"]  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        module(1)  # type: ignore[operator]


def test_making_callable_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("callable_late")
    monkeypatch.setitem(sys.modules, "callable_late", module)
    make_callable("callable_late", "there_is_no_such_module:f")
    with pytest.raises(ModuleNotFoundError):
        module()  # type: ignore[operator]
