"""Work ahead while nobody asks: one tile after another, and none of it lost.

The idea: when no request has come for a moment, the tiles that a reader is likely to want next are
made one by one. A request that comes lets the tile in the making rest between two strips, until
there is a moment again; where it asks for this very tile, the work goes on instead, and the request
has what was already done. It is bounded: a list of tiles per look, no more than fit the cache, and
nothing once they are made.

Not here: which tiles (ahead.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, TypeVar

REST: Final = 0.12
"""Seconds without a request before work ahead begins; a wheel's notches come twice as fast."""

_BLINK: Final = 0.002
"""Seconds between two looks whether somebody waits for the work that rests."""

Want = TypeVar("Want")


class Interrupted(Exception):  # noqa: N818 - it tells of no fault
    """This closes."""


class Step(NamedTuple):
    """One piece of work.

    Attributes:
        work: does it; it is given `check` to call now and then.
        hurried: whether somebody waits for it by now.
    """

    work: Callable[[Callable[[], None]], None]
    hurried: Callable[[], bool]


class Prefetch(Generic[Want]):
    """A thread that works ahead.

    Args:
        steps: from what was asked for last to the pieces of work. Errors in them end that list.
        quiet: the errors that are not this thread's to tell.
    """

    def __init__(
        self,
        steps: Callable[[Want], Iterable[Step]],
        quiet: type[Exception],
    ) -> None:
        self._steps, self._quiet = steps, quiet
        self._change = threading.Condition()
        self._active, self._stamp = 0, 0
        self._want: Want | None = None
        self._closed, self._working = False, False
        self._thread: threading.Thread | None = None

    @contextmanager
    def request(self) -> Iterator[None]:
        """While this is open, nothing is done ahead."""
        with self._change:
            self._active += 1
        try:
            yield
        finally:
            with self._change:
                self._active -= 1
                self._change.notify_all()

    def want(self, want: Want) -> None:
        """Say what was asked for; the same again changes nothing."""
        with self._change:
            if self._closed or want == self._want:
                return
            self._want, self._working = want, True
            self._stamp += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="attnscope-prefetch", daemon=True
                )
                self._thread.start()
            self._change.notify_all()

    def settle(self, timeout: float) -> bool:
        """Wait until all is done that is wanted; whether it is."""
        with self._change:
            return self._change.wait_for(lambda: not self._working or self._closed, timeout)

    def close(self) -> None:
        """Stop, and wait for the strip in the making."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        done = 0
        while True:
            with self._change:
                while not self._closed and done == self._stamp:
                    self._change.wait()
                if self._closed:
                    return
                stamp, want = self._stamp, self._want
            assert want is not None
            if self._work(stamp, want):
                done = stamp
                with self._change:
                    self._working = self._stamp != stamp
                    self._change.notify_all()

    def _work(self, stamp: int, want: Want) -> bool:
        """Whether this list is finished; if not, another is wanted or this closes."""
        try:
            for step in self._steps(want):
                if not self._rested(stamp):
                    return False
                step.work(self._check(step.hurried))
        except Interrupted:
            return False
        except self._quiet:
            return True
        return True

    def _rested(self, stamp: int) -> bool:
        """Wait for a moment without requests; False where it is no longer wanted."""
        with self._change:
            while True:
                if self._closed or stamp != self._stamp:
                    return False
                if self._active:
                    self._change.wait()
                elif not self._change.wait(REST):
                    return not self._closed and stamp == self._stamp and not self._active

    def _check(self, hurried: Callable[[], bool]) -> Callable[[], None]:
        """What rests while there are requests, unless one of them waits for this."""

        def check() -> None:
            while not self._closed and self._active and not hurried():
                with self._change:
                    self._change.wait(_BLINK)
            if self._closed:
                raise Interrupted

        return check
