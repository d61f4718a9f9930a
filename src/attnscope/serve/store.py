"""The traces that are open, by an id that is safe in an address.

The idea: a request names a trace by an id that was given out here; it never names a file.

Not here: opening a folder (attnscope.trace), tiles (attnscope.tiles).
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from attnscope.tiles import Tiles
from attnscope.trace import Trace, open_trace

CACHE_BYTES: Final = 80 << 20
"""Tiles that are kept for one trace."""
MOST_AWAKE: Final = 2
"""Traces that keep their tiles; a third sends the one used longest ago to sleep."""


class UnknownTraceError(LookupError):
    """A trace that is not open here."""


class Store:
    """The open traces; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces: dict[str, tuple[str, Trace]] = {}
        self._awake: OrderedDict[str, Tiles] = OrderedDict()

    def add(self, trace: Trace, *, name: str) -> dict[str, Any]:
        """Open a trace to readers; returns its entry.

        Args:
            name: what to show for it.
        """
        with self._lock:
            base = _slug(name)
            key, count = base, 1
            while key in self._traces:
                count += 1
                key = f"{base}-{count}"
            self._traces[key] = (name, trace)
        return self.entry(key)

    def open(self, folder: str | Path) -> dict[str, Any]:
        """Open a saved trace; returns its entry.

        Raises:
            TraceError: it is not one, or a broken one.
        """
        place = Path(folder)
        return self.add(open_trace(place), name=place.resolve().name)

    def entry(self, key: str) -> dict[str, Any]:
        """What a page is told of one trace (types.js: TraceEntry)."""
        name, trace = self._found(key)
        return {"id": key, "name": name, "model": trace.model.name, "tokens": len(trace.tokens)}

    def entries(self) -> list[dict[str, Any]]:
        """All of them, in the order in which they were opened."""
        with self._lock:
            keys = list(self._traces)
        return [self.entry(key) for key in keys]

    def tiles(self, key: str) -> Tiles:
        """The tiles of one trace.

        Raises:
            UnknownTraceError: no such id.
        """
        _, trace = self._found(key)
        with self._lock:
            if key not in self._awake:
                self._awake[key] = Tiles(trace, cache_bytes=CACHE_BYTES)
                while len(self._awake) > MOST_AWAKE:
                    self._awake.popitem(last=False)[1].close()
            self._awake.move_to_end(key)
            return self._awake[key]

    def close(self) -> None:
        """End what works ahead for the readers."""
        with self._lock:
            while self._awake:
                self._awake.popitem()[1].close()

    def _found(self, key: str) -> tuple[str, Trace]:
        with self._lock:
            if key not in self._traces:
                raise UnknownTraceError(
                    "There is no such trace here; the list of traces has them all."
                )
            return self._traces[key]


def _slug(name: str) -> str:
    """A name as it can stand in an address.

    >>> _slug("Gemma 3, 32k"), _slug("../../国")
    ('gemma-3-32k', 'trace')
    """
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join(words)[:40].strip("-") or "trace"
