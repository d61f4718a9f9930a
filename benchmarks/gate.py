"""No figure without its tests: a benchmark runs the tests of what it measures before it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def require(*tests: str) -> None:
    """Run the tests named (paths or node ids below tests/) and exit with 1 if one fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"tests/{test}" for test in tests)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    if done.returncode:
        sys.exit(f"The tests of what is measured do not pass, so nothing is measured: {last}")
    print(f"tests: {last}", file=sys.stderr)
