"""Computing beside the event loop: a few threads, a queue with an end, and work nobody waits for.

The idea: numpy leaves the interpreter free while it computes, so two threads keep two cores busy,
and more would only make every answer slower. What waits is bounded: who comes when the queue is
full is told so at once. Work whose client has gone is dropped before it starts.

Not here: what is computed (answers.py), how a client's leaving is noticed (app.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

THREADS: Final = 2
AT_WORK: Final = 16
"""Requests that take turns at the threads."""
WAITING: Final = 240
"""Requests that wait for a turn; a page that is panned wildly has a few dozen."""

Result = TypeVar("Result")


class BusyError(Exception):
    """The queue is full."""


class Workers:
    """The threads of a server; its methods are called from the event loop.

    Args:
        threads: how many pieces of work run at once.
        at_work: how many requests share them.
        waiting: how many further requests wait.
    """

    def __init__(
        self, *, threads: int = THREADS, at_work: int = AT_WORK, waiting: int = WAITING
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="attnscope-serve")
        self._room = asyncio.Semaphore(at_work)
        self._one = asyncio.Semaphore(1)
        self._most = at_work + waiting
        self._count = 0

    @contextlib.asynccontextmanager
    async def place(self, *, heavy: bool = False) -> AsyncIterator[None]:
        """A place for one request, as long as this is open.

        Args:
            heavy: whether its work may take a second; of such, one request works at a time, so
                that a thread is always free for the others.

        Raises:
            BusyError: too many wait already.
        """
        if self._count >= self._most:
            raise BusyError
        self._count += 1
        try:
            async with self._one if heavy else contextlib.nullcontext(), self._room:
                yield
        finally:
            self._count -= 1

    async def run(self, work: Callable[[], Result]) -> Result:
        """One piece of work in a thread; cancelling the wait drops it if it has not begun."""
        future = self._pool.submit(work)
        try:
            return await asyncio.wrap_future(future)
        finally:
            future.cancel()

    def close(self) -> None:
        """Drop what has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
