"""Memory and threads that the fused path keeps between calls.

The idea: fresh temporaries of megabytes are what makes a long-lived process slow (each is mapped,
zeroed page by page, and unmapped again). A call borrows a workspace, whose arrays only grow, and
gives it back; calls from several threads borrow different ones.

Not here: anything about attention.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray


class Workspace:
    """Named arrays that are reused and only grow."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[np.generic]] = {}

    def take(
        self, name: str, size: int, dtype: type[np.generic] = np.float32
    ) -> NDArray[np.generic]:
        """A flat array of at least `size` numbers; its content is whatever was left there."""
        have = self._arrays.get(name)
        if have is None or have.size < size or have.dtype != np.dtype(dtype):
            self._arrays[name] = have = np.zeros(max(size, 1), dtype)
        return have

    @property
    def bytes(self) -> int:
        """How much memory is held."""
        return sum(array.nbytes for array in self._arrays.values())


_lock = threading.Lock()
_idle: list[Workspace] = []
_crew: ThreadPoolExecutor | None = None


@contextmanager
def borrow() -> Iterator[Workspace]:
    """A workspace for one call."""
    with _lock:
        space = _idle.pop() if _idle else Workspace()
    try:
        yield space
    finally:
        with _lock:
            _idle.append(space)


def release() -> int:
    """Give all idle workspaces back to the system; returns how many bytes they held."""
    with _lock:
        freed = sum(space.bytes for space in _idle)
        _idle.clear()
    return freed


def crew(work: Callable[[int], None], threads: int) -> None:
    """Run `work(0)`, ..., `work(threads - 1)` at the same time; the caller's thread is number 0.

    Raises: what `work` raises, once all have ended.
    """
    global _crew
    if threads <= 1:
        work(0)
        return
    with _lock:
        if _crew is None:
            _crew = ThreadPoolExecutor(64, thread_name_prefix="attnscope")
        pool = _crew
    others = [pool.submit(work, number) for number in range(1, threads)]
    try:
        work(0)
    finally:
        for other in others:
            other.result()


def cpu_threads() -> int:
    """How many threads PyTorch uses, and so do we."""
    return torch.get_num_threads()


def _after_fork() -> None:
    """A forked child has none of its parent's threads and must not wait for its locks."""
    global _crew, _lock
    _lock, _crew = threading.Lock(), None
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
