"""What starting costs, each time in a fresh process: seconds, and what has been imported.

A time is the least of several, which is what the work itself takes: another process can only add.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

IMPORT_SECONDS = 0.050
HELP_SECONDS = 0.3
TRIES = 7
HEAVY = {"torch", "numpy", "numba", "transformers", "tokenizers", "pandas", "pyarrow", "rich"}

TIMED = "import time; t = time.perf_counter(); import attnscope; print(time.perf_counter() - t)"
NAMES = "import sys; print('\\n'.join(sys.modules))"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter anew and have its output."""
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def modules_after(*arguments: str) -> set[str]:
    """The root names of all that `python -m attnscope …` imports, as its import log has them."""
    log = python("-X", "importtime", "-m", "attnscope", *arguments)
    assert log.returncode == 0, log.stderr[-2000:]
    lines = (line for line in log.stderr.splitlines() if line.startswith("import time:"))
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


def test_import_brings_nothing_heavy() -> None:
    found = python("-c", f"import attnscope; {NAMES}").stdout.split()
    assert "attnscope" in found
    assert HEAVY.intersection(name.split(".")[0] for name in found) == set()


def test_import_takes_at_most_50_ms() -> None:
    times = [float(python("-c", TIMED).stdout) for _ in range(TRIES)]
    assert min(times) <= IMPORT_SECONDS, times


def test_help_takes_at_most_300_ms() -> None:
    times = []
    for _ in range(TRIES):
        started = time.perf_counter()
        shown = python("-m", "attnscope", "-h")
        times.append(time.perf_counter() - started)
        assert shown.returncode == 0
        assert "Usage: attnscope" in shown.stdout
    assert min(times) <= HELP_SECONDS, times


@pytest.mark.parametrize(
    "arguments",
    [
        ("-h",),
        ("--version",),
        ("look", "-h"),
        ("generate", "-h"),
        ("plan", "-h"),
        ("serve", "-h"),
        ("lessons", "-h"),
        ("models", "-h"),
        ("bench", "-h"),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    found = modules_after(*arguments)
    assert "typer" in found  # the log was read
    assert found & HEAVY == set()


def test_the_planner_starts_without_torch() -> None:
    found = modules_after("plan", "smollm2", "--json")
    assert found & {"torch", "numpy", "transformers"} == set()


def test_a_heavy_import_is_noticed() -> None:
    found = python("-c", f"import attnscope, numpy; {NAMES}").stdout.split()
    assert "numpy" in found
