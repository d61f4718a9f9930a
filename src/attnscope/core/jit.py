"""`compiled`: Numba's njit with a cache on disk that notices a change in *any* file of the heart.

The idea: Numba's own cache looks at the file of the function alone, so a worker compiled against an
older helper in another file would be loaded and silently do the old thing. Here the cache folder is
named after the content of all the files that hold compiled code.

Not here: where users want Numba's caches; NUMBA_CACHE_DIR is respected.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

FAST = {"reassoc", "nsz", "contract", "arcp"}
"""Numba's fastmath here: sums may be reordered; NaN and infinity keep their meaning."""

_HERE = Path(__file__).parent
_SOURCES = ("jit.py", "microkernel.py", "vectors.py", "dots.py", "half.py", "fused_*.py")


def _folder() -> str:
    """Where compiled code goes: named after the sources, beside them or where the user said."""
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(_HERE.glob(pattern)):
            digest.update(path.read_bytes())
    base = Path(numba.config.CACHE_DIR) if numba.config.CACHE_DIR else _HERE / "__pycache__"
    folder = base / f"attnscope-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return str(numba.config.CACHE_DIR)  # Numba falls back on the user's cache folder by itself
    return str(folder) if os.access(folder, os.W_OK) else str(numba.config.CACHE_DIR)


_FOLDER = _folder()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile without the interpreter lock, and keep the result on disk.

    Cost: the first call in the life of an installation compiles for some seconds.
    """
    return _compile(function)


def inner(function: Callable[..., Any]) -> Any:
    """The same for a function that only compiled code calls: what Python would need is left out."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compile(function: Callable[..., Any], **options: bool) -> Any:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _FOLDER
    try:
        # Division as numpy does it: a zero gives an infinity, and no branch that might raise.
        settings = {"cache": True, "nogil": True, "fastmath": FAST, "error_model": "numpy"}
        return numba.njit(**settings, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
