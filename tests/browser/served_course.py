"""The course as its server gives it, started for tests and stopped after them.

Not here: pages from disk (lessons_site.py).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SECONDS: Final = 30


@contextmanager
def served_course(*options: str) -> Iterator[str]:
    """The address of `attnscope lessons` with these options."""
    command = [sys.executable, "-m", "attnscope", "lessons", "--no-open", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:"), "the server did not start"
    yield address
    process.terminate()
    assert process.wait(SECONDS) == 0
    process.stdout.close()
