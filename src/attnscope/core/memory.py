"""Resident memory: how much a process has held, and giving back what nobody uses.

The idea: two things make a watched forward look larger than it is. The C library keeps what is
freed between two blocks that live: a few bytes that Python or numpy put away for later are enough
to hold 100 MB of a long text's activations, layer after layer. And LLVM, which loads the compiled
code, is never needed again, while the 60 MB of it that were read stay resident.

Both are asked for after the attention of a long text, where the layer's own work is hundreds of
milliseconds; a page that is needed after all is mapped again by the system.

Not here: memory that is in use (workspace.py).
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

WORTH: Final = 4 << 20
"""Bytes of one layer's queries from which on the effort pays."""

_CODE: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d*\s.*/libllvmlite\b")
"""Machine code alone: other read-only pages were written to before, when addresses were put in."""


def resident_peak() -> int | None:
    """The largest resident memory of this process so far, in bytes; None where nobody counts it.

    On Linux it is read from /proc: the figure of getrusage begins with that of the process that
    started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(ln for ln in status.read_text().splitlines() if ln.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def free_heap() -> bool:
    """Give whole free pages of the heap back; returns whether the C library can.

    Cost: a walk over the heap's free blocks, and a page fault for each page that is used again.
    """
    trim = _trim()
    if trim is None:
        return False
    trim(0)
    return True


def unload_compiler() -> int:
    """Let go of the pages that hold LLVM's machine code; returns how many bytes they span.

    They come back from the file when something is compiled or loaded again.

    Cost: reading the process's map of itself, a few milliseconds.
    """
    advise = _advise()
    if advise is None or "llvmlite.binding" not in sys.modules:
        return 0
    spanned = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        found = _CODE.match(line)
        if found:
            start, end = (int(part, 16) for part in found.groups())
            if advise(start, end - start, mmap.MADV_DONTNEED) == 0:
                spanned += end - start
    return spanned


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim, or None where the C library is another."""
    if sys.platform != "linux":
        return None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


@functools.cache
def _advise() -> Callable[[int, int, int], int] | None:
    """madvise, where private pages of a file that were never written can be dropped."""
    if sys.platform != "linux":
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    advise.restype = ctypes.c_int
    return advise
