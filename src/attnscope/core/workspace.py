"""Memory and threads that the fused path keeps between calls.

The idea: fresh temporaries of megabytes are what makes a long-lived process slow (each is mapped,
zeroed page by page, and unmapped again). A call borrows a workspace, whose arrays only grow, and
gives it back; calls from several threads borrow different ones.

Not here: anything about attention.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import mmap
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

T = TypeVar("T")


class Workspace:
    """Named arrays that are reused and only grow."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[np.generic]] = {}
        self._grown = 0
        self._kept: dict[str, tuple[Hashable, int, Any]] = {}

    def take(
        self, name: str, size: int, dtype: type[np.generic] = np.float32
    ) -> NDArray[np.generic]:
        """A flat array of at least `size` numbers; its content is whatever was left there."""
        have = self._arrays.get(name)
        if have is None or have.size < size or have.dtype != np.dtype(dtype):
            self._arrays[name] = have = lasting((max(size, 1),), dtype)
            self._grown += 1
        return have

    def remember(self, name: str, key: Hashable, make: Callable[[], T]) -> T:
        """What `make()` built of these arrays for this key last time, if none has moved since."""
        kept = self._kept.get(name)
        if kept is None or kept[0] != key or kept[1] != self._grown:
            made = make()
            self._kept[name] = kept = (key, self._grown, made)
        return kept[2]

    @property
    def bytes(self) -> int:
        """How much memory is held."""
        return sum(array.nbytes for array in self._arrays.values())


LASTING: Final = 1 << 18
"""Arrays of so many bytes are taken from the system, smaller ones from the heap."""

_PRIVATE: Final[dict[str, int]] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)
"""Python's default would share the pages with forked children, which could then write in them."""


def lasting(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[np.generic]:
    """An array that will outlive the call: it gets pages of its own, and gives them back.

    On the heap it would stand between what the model's layers take and give back around it, and
    the heap would grow by holes: by 70 MB in a forward of SmolLM2-135M over 4,096 tokens.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LASTING:
        return np.empty(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size, **_PRIVATE), dtype).reshape(shape)


_lock = threading.Lock()
_idle: list[Workspace] = []
_crew: ThreadPoolExecutor | None = None
_forked = False


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
    """Run `work(0)`, ..., `work(threads - 1)` at the same time, in PyTorch's own threads if we can.

    PyTorch's OpenMP threads stay awake for a while after an operation, waiting for the next, and
    threads of our own would have to share their cores with them.

    Raises: what `work` raises, once all have ended.
    """
    if threads <= 1:
        work(0)
        return
    team = _team()
    if team is not None:
        team(work, threads)
    else:
        _in_python_threads(work, threads)


def _in_python_threads(work: Callable[[int], None], threads: int) -> None:
    """The same in threads of our own; the caller's is number 0."""
    global _crew
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


@functools.cache
def _team() -> Callable[[Callable[[int], None], int], None] | None:
    """A way to run work in the OpenMP threads that PyTorch uses, or None where it is not GNU's.

    `GOMP_parallel(function, data, threads, flags)` of the libgomp that PyTorch brings along is what
    a compiler calls for an OpenMP region, so the team is the same one. Each thread comes back into
    Python for the moment it takes to enter compiled code.
    """
    if sys.platform != "linux" or "OpenMP" not in torch.__config__.parallel_info() or _forked:
        return None
    home = Path(torch.__file__).parent
    found = [*home.glob("lib/libgomp*.so*"), *home.parent.glob("torch.libs/libgomp*.so*")]
    if len(found) != 1:
        return None
    parallel = ctypes.CDLL(str(found[0])).GOMP_parallel
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    jobs: dict[int, _Job] = {}
    stay = ctypes.pythonapi.PyGILState_Ensure
    here = threading.local()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def one(number: int) -> None:
        job = jobs[number]
        if not hasattr(here, "known"):
            # A thread that Python does not know gets a state for each visit; this one keeps it.
            here.known = stay()
        # A team may have fewer threads than asked for; every number is taken all the same.
        try:
            while (part := next(job.numbers)) < job.threads:
                job.work(part)
        except BaseException as error:  # it cannot pass through compiled code by itself
            job.failed.append(error)

    entry = ctypes.cast(one, ctypes.c_void_p)
    names = itertools.count(1)

    def run(work: Callable[[int], None], threads: int) -> None:
        number, job = next(names), _Job(work, threads)
        jobs[number] = job
        try:
            parallel(entry, number, threads, 0)
        finally:
            del jobs[number]
        if job.failed:
            raise job.failed[0]

    run.keeps = one  # type: ignore[attr-defined]
    return run


class _Job:
    """Work for a team: each thread takes the next number."""

    def __init__(self, work: Callable[[int], None], threads: int) -> None:
        self.work, self.threads = work, threads
        self.numbers = itertools.count()
        self.failed: list[BaseException] = []


def cpu_threads() -> int:
    """How many threads PyTorch uses, and so do we."""
    return torch.get_num_threads()


def _after_fork() -> None:
    """A forked child has none of its parent's threads and must not wait for its locks."""
    global _crew, _lock, _forked
    _lock, _crew, _forked = threading.Lock(), None, True
    _idle.clear()
    _team.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
