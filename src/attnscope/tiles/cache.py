"""What is kept between requests: values up to a number of bytes, each computed once at a time.

The idea: the least recently used goes first, and two who ask for the same at once wait for one
computation. Whoever waits can still leave.

Not here: what is kept (held.py).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_LEAST: Final = 512
"""Bytes that an entry costs whatever it holds."""
_PATIENCE: Final = 0.05
"""Seconds between two looks whether the one who waits still wants to."""


class Lru:
    """A thread-safe cache of at most so many bytes.

    >>> cache = Lru(2000)  # three of 400, with 512 each for keeping them, are too many
    >>> cache.put("a", 1, 400), cache.put("b", 2, 400), cache.put("c", 3, 400)
    (None, None, None)
    >>> cache.get("a"), cache.get("c"), cache.bytes
    (None, (3,), 1824)
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable) -> tuple[Any] | None:
        """What is kept, in a tuple of one, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return (entry[0],)

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of so many bytes; one larger than all that may be kept is not."""
        size += _LEAST
        with self._lock:
            old = self._entries.pop(key, None)
            self.bytes -= old[1] if old else 0
            if size > self.limit:
                return
            self._entries[key] = value, size
            self.bytes += size
            while self.bytes > self.limit:
                _, (_, gone) = self._entries.popitem(last=False)
                self.bytes -= gone

    def __len__(self) -> int:
        return len(self._entries)


class Turns:
    """One at a time per key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Hashable, tuple[threading.Lock, int]] = {}

    def waited_for(self, key: Hashable) -> bool:
        """Whether somebody waits for the turn of the one who has it."""
        with self._lock:
            return self._held.get(key, (None, 0))[1] > 1

    @contextmanager
    def turn(self, key: Hashable, check: Callable[[], None] | None = None) -> Iterator[None]:
        """Wait for the key's turn; `check` is called meanwhile, and may raise."""
        with self._lock:
            lock, count = self._held.get(key, (threading.Lock(), 0))
            self._held[key] = lock, count + 1
        try:
            while not lock.acquire(timeout=_PATIENCE):
                if check is not None:
                    check()
            try:
                yield
            finally:
                lock.release()
        finally:
            with self._lock:
                lock, count = self._held[key]
                if count > 1:
                    self._held[key] = lock, count - 1
                else:
                    del self._held[key]
