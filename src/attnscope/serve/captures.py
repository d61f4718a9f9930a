"""Captures that a page asked for: one at a time, each in a process of its own.

The idea: a model takes all of the memory and the time that it can get, and may crash. In another
process it leaves the server quick, can be ended at any moment, and takes nothing down with it. The
process writes one JSON object per line; each becomes an event, and every event is kept, so a page
that comes late or comes back hears all of them.

    -> stdin   {"text", "model", "generate", "path"}, one line; closing it asks the process to stop
    <- stdout  {"kind": "progress" | "token" | "saved" | "failed", …}, one a line

Not here: what the process does (capture_process.py); the trace's format (attnscope.trace).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from attnscope.serve.store import Store
from attnscope.trace import leftovers

COMMAND: Final = (sys.executable, "-m", "attnscope.serve.capture_process")
MOST_TEXT: Final = 1_000_000
"""Bytes of a text."""
MOST_GENERATED: Final = 1024
MOST_LINE: Final = 1 << 16
"""Bytes of a line that the process writes; the longest real one has some hundreds."""
MOST_EVENTS: Final = 5000
KEPT: Final = 32
"""Captures whose events are remembered."""
TAIL: Final = 1 << 14
"""Bytes of the process's stderr that are kept, from its end."""

SECONDS_TO_END: Final = 5.0
"""For a process that has said its last word to end by itself."""

LAST: Final = ("done", "failed", "cancelled")
"""Kinds of the event after which there is none."""

Event = dict[str, Any]


class OccupiedError(Exception):
    """Another capture is running."""


class UnknownCaptureError(LookupError):
    """There was no such capture."""


@dataclass
class _Job:
    """One capture."""

    path: Path
    events: list[Event] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    process: asyncio.subprocess.Process | None = None
    cancelled: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        return bool(self.events) and self.events[-1]["kind"] in LAST

    async def more_than(self, told: int) -> None:
        """Wait until there are more events than these."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.events) > told)

    async def tell(self, event: Event) -> None:
        async with self.changed:
            if len(self.events) < MOST_EVENTS or event["kind"] in LAST:
                self.events.append(event)
            self.changed.notify_all()


class Captures:
    """Runs captures; every method is called from the event loop.

    Args:
        store: where a finished trace is opened.
        folder: where traces are saved.
        models: gives the list of models; only what is installed there may be captured.
        command: the process to run.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        models: Callable[[], list[dict[str, Any]]],
        *,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._store, self._folder, self._models = store, folder, models
        self._command = tuple(command)
        self._jobs: dict[str, _Job] = {}

    async def start(self, wanted: Any) -> str:
        """Begin a capture; returns its id.

        Args:
            wanted: {"text", "model", "generate"}, as it came.

        Raises:
            ValueError: a field is missing or not as it must be.
            OccupiedError: one is running.
        """
        text, model, generate = _checked(wanted, self._models())
        if any(not job.over for job in self._jobs.values()):
            raise OccupiedError(
                "A capture is running already; wait until it is done, or cancel it."
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        job = _Job(free_path(self._folder, model))
        key = secrets.token_hex(8)
        self._jobs[key] = job
        while len(self._jobs) > KEPT:
            del self._jobs[next(iter(self._jobs))]
        asked = {"text": text, "model": model, "generate": generate, "path": str(job.path)}
        job.task = asyncio.ensure_future(self._run(job, asked))
        return key

    async def events(self, key: str) -> AsyncIterator[Event]:
        """All events of a capture, from the first to the last.

        Raises:
            UnknownCaptureError: no such id.
        """
        job, told = self._job(key), 0
        while True:
            await job.more_than(told)
            event = job.events[told]
            told += 1
            yield event
            if event["kind"] in LAST:
                return

    def check(self, key: str) -> None:
        """See that there is such a capture.

        Raises:
            UnknownCaptureError: there is none.
        """
        self._job(key)

    async def cancel(self, key: str) -> None:
        """End a capture and wait until nothing of it is left; one that is over stays as it is.

        Raises:
            UnknownCaptureError: no such id.
        """
        job = self._job(key)
        if not job.over:
            job.cancelled = True
            _kill(job.process)
        if job.task is not None:
            await asyncio.wait({job.task})

    async def close(self) -> None:
        """End what is running."""
        for key, job in list(self._jobs.items()):
            if not job.over:
                await self.cancel(key)

    def _job(self, key: str) -> _Job:
        if key not in self._jobs:
            raise UnknownCaptureError("There is no such capture.")
        return self._jobs[key]

    async def _run(self, job: _Job, asked: dict[str, Any]) -> None:
        """One capture from its beginning to its last event."""
        last: Event
        try:
            last = await self._process(job, asked)
        except Exception as error:
            last = {"kind": "failed", "message": f"The capture cannot be run: {error}."}
        finally:
            _kill(job.process)
        if job.cancelled:
            last = {"kind": "cancelled"}
        if last["kind"] != "done":
            await asyncio.to_thread(_clean, job.path)
        await job.tell(last)

    async def _process(self, job: _Job, asked: dict[str, Any]) -> Event:
        job.process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            limit=MOST_LINE, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        listening = asyncio.ensure_future(_tail(process.stderr))
        said, patience = None, 0.0
        try:
            if not job.cancelled:
                with contextlib.suppress(ConnectionError):  # it died at once; stderr says why
                    process.stdin.write(json.dumps(asked).encode() + b"\n")
                    await process.stdin.drain()
                said = await self._lines(job, process.stdout)
                patience = SECONDS_TO_END
        finally:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
            _kill(process)
            process.stdin.close()
            await _tail(process.stdout)  # to its end: nothing that was opened stays open
            errors = await listening
            code = await process.wait()
        if said is not None and said["kind"] == "failed":
            return said
        if said is None:
            return {"kind": "failed", "message": _crashed(code, errors)}
        return {"kind": "done", "trace": await asyncio.to_thread(self._store.open, job.path)}

    async def _lines(self, job: _Job, stdout: asyncio.StreamReader) -> Event | None:
        """Pass on what the process says; returns its last word, None if it had none."""
        async for line in stdout:
            event = json.loads(line)
            if event["kind"] in ("saved", "failed"):
                return dict(event)
            await job.tell(event)
        return None


def _checked(wanted: Any, models: list[dict[str, Any]]) -> tuple[str, str, int]:
    if not isinstance(wanted, dict) or set(wanted) - {"text", "model", "generate"}:
        raise ValueError("body: expected an object with text, model and generate")
    text, model, generate = wanted.get("text"), wanted.get("model"), wanted.get("generate", 0)
    if not isinstance(text, str) or not text.strip():
        raise ValueError("text: is empty; type or paste what the model shall read")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_TEXT:
        raise ValueError(f"text: has {size:,} bytes; at most {MOST_TEXT:,} are read")
    known = {entry["name"]: entry["installed"] for entry in models}
    if not isinstance(model, str) or model not in known:
        raise ValueError(f"model: expected one of {', '.join(known)}")
    if not known[model]:
        raise ValueError(
            f"model: {model} is not here yet; `attnscope models pull {model}` fetches it"
        )
    if type(generate) is not int or not 0 <= generate <= MOST_GENERATED:
        raise ValueError(f"generate: expected 0 to {MOST_GENERATED} tokens")
    return text, model, generate


def free_path(folder: Path, model: str) -> Path:
    """A new folder's path that tells when it was made and of which model."""
    words = re.findall(r"[a-z0-9]+", Path(model).name.lower())
    slug = "-".join(words)[:40] or "model"
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{slug}"
    place, count = folder / stem, 1
    while os.path.lexists(place):
        count += 1
        place = folder / f"{stem}-{count}"
    return place


def _kill(process: asyncio.subprocess.Process | None) -> None:
    """End a process and all that it started."""
    if process is None or process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _clean(path: Path) -> None:
    """Remove what a capture that did not end left behind."""
    for place in (path, *leftovers(path)):
        shutil.rmtree(place, ignore_errors=True)


async def _tail(stream: asyncio.StreamReader) -> bytes:
    """Read all, keep the end."""
    kept = b""
    while chunk := await stream.read(1 << 14):
        kept = (kept + chunk)[-TAIL:]
    return kept


def _crashed(code: int, errors: bytes) -> str:
    """What to tell of a process that ended without a word."""
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        if name == "SIGKILL":
            return (
                "The capture was ended by the system, most likely because memory ran out. Try a "
                "shorter text or a smaller model."
            )
        return f"The capture crashed ({name}). Saved traces are not affected."
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", errors.decode("utf-8", "replace"))
    lines = ["".join(c for c in line if c.isprintable()).strip() for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), f"exit code {code}")
    return f"The capture failed: {last[:300].rstrip('.')}. Saved traces are not affected."
