"""Captures run apart: their events come in order, cancelling ends them, a crash is told."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serve_samples import make_trace

from attnscope.serve.captures import (
    MOST_TEXT,
    Captures,
    OccupiedError,
    UnknownCaptureError,
    free_path,
)
from attnscope.serve.store import Store

WANTED = {"text": "hello", "model": "here", "generate": 0}
MODELS = [
    {"name": "here", "installed": True, "licence": "x"},
    {"name": "gone", "installed": False, "licence": "x"},
]


class Bench:
    """Captures whose process is a few lines of Python, in a folder of their own."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder, self.store = folder / "traces", Store()
        self.saved = folder / "made"
        make_trace(tokens=8).save(self.saved)
        begin = f"""
            import json, os, shutil, signal, sys, time
            from pathlib import Path
            asked = json.loads(sys.stdin.readline())
            def tell(**event): print(json.dumps(event), flush=True)
            path, saved = Path(asked["path"]), {str(self.saved)!r}
            partial = path.with_name(f".{{path.name}}.partial-abc")
        """
        code = textwrap.dedent(begin) + textwrap.dedent(script)
        command = (sys.executable, "-c", code)
        self.captures = Captures(self.store, self.folder, lambda: MODELS, command=command)

    def run(self, use: Callable[[Captures], Any]) -> Any:
        async def whole() -> Any:
            try:
                return await asyncio.wait_for(use(self.captures), 60)
            finally:
                await self.captures.close()

        return asyncio.run(whole())

    def left(self) -> list[str]:
        return sorted(place.name for place in self.folder.iterdir())


async def events(captures: Captures, wanted: Any = WANTED) -> list[Any]:
    key = await captures.start(wanted)
    return [event async for event in captures.events(key)]


def test_events_come_in_order_and_the_trace_is_opened(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        """
        for n in range(3): tell(kind="progress", done=n, total=3, what="reading")
        tell(kind="token", index=0, text="国")
        shutil.copytree(saved, path)
        tell(kind="saved")
        """,
    )
    heard = bench.run(events)
    assert [event["kind"] for event in heard] == ["progress"] * 3 + ["token", "done"]
    assert [event["done"] for event in heard[:3]] == [0, 1, 2]
    [entry] = bench.store.entries()
    assert heard[-1] == {"kind": "done", "trace": entry}
    assert entry["tokens"] == 8


def test_who_comes_late_hears_everything(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 'shutil.copytree(saved, path); tell(kind="saved")')

    async def use(captures: Captures) -> Any:
        key = await captures.start(WANTED)
        first = [event async for event in captures.events(key)]
        return first, [event async for event in captures.events(key)]

    first, second = bench.run(use)
    assert first == second
    assert [event["kind"] for event in first] == ["done"]


def test_cancelling_ends_the_process_and_leaves_nothing(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        """
        partial.mkdir(); (partial / "half").write_text("x")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        tell(kind="progress", done=os.getpid(), total=0, what="loading")
        time.sleep(300)
        """,
    )

    async def use(captures: Captures) -> Any:
        key = await captures.start(WANTED)
        heard = []
        async for event in captures.events(key):
            heard.append(event)
            if event["kind"] == "progress":
                assert any(name.startswith(".") for name in bench.left())
                await captures.cancel(key)
        await captures.cancel(key)  # once more does nothing
        return heard

    started = time.monotonic()
    heard = bench.run(use)
    assert [event["kind"] for event in heard] == ["progress", "cancelled"]
    assert time.monotonic() - started < 30
    assert bench.left() == []
    assert not Path(f"/proc/{heard[0]['done']}").exists()


def test_cancelling_before_the_process_has_begun(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "time.sleep(300)")

    async def use(captures: Captures) -> Any:
        key = await captures.start(WANTED)
        await captures.cancel(key)
        return [event async for event in captures.events(key)]

    assert bench.run(use) == [{"kind": "cancelled"}]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('tell(kind="failed", message="The text is too long.")', "The text is too long."),
        ('raise RuntimeError("no \\x1b[31mroom\\x1b[0m")', "failed: RuntimeError: no room. Saved"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "most likely because memory ran out"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "The capture crashed (SIGSEGV)."),
        ("sys.exit(3)", "failed: exit code 3."),
        ("pass", "failed: exit code 0."),
        ('print("no JSON", flush=True); time.sleep(300)', "cannot be run"),
        ('print("x" * 10**6, flush=True); time.sleep(300)', "cannot be run"),
        ('tell(kind="saved")', "there is no such folder"),
    ],
)
def test_a_crash_is_told_in_a_sentence_and_loses_nothing(
    tmp_path: Path, script: str, said: str
) -> None:
    bench = Bench(tmp_path, f"partial.mkdir()\n{script}")
    bench.folder.mkdir()
    make_trace(tokens=8).save(bench.folder / "earlier")
    heard = bench.run(events)
    assert heard[-1]["kind"] == "failed"
    assert said in heard[-1]["message"]
    assert "Traceback" not in heard[-1]["message"]
    assert heard[-1]["message"].isprintable()
    assert bench.left() == ["earlier"]
    bench.store.open(bench.folder / "earlier")


def test_much_on_stderr_does_not_stop_it(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        """
        for _ in range(1000): sys.stderr.write("x" * 1000 + "\\n")
        shutil.copytree(saved, path); tell(kind="saved")
        """,
    )
    assert bench.run(events)[-1]["kind"] == "done"


def test_one_at_a_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "time.sleep(300)")

    async def use(captures: Captures) -> None:
        key = await captures.start(WANTED)
        with pytest.raises(OccupiedError, match="running already"):
            await captures.start(WANTED)
        await captures.cancel(key)
        await captures.cancel(await captures.start(WANTED))

    bench.run(use)


def test_the_end_of_the_server_ends_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 'partial.mkdir(); tell(kind="progress", done=0); time.sleep(300)')

    async def use(captures: Captures) -> None:
        key = await captures.start(WANTED)
        await anext(captures.events(key))

    bench.run(use)
    assert bench.left() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"text": ""}, "text: is empty"),
        ({"text": " \n"}, "text: is empty"),
        ({"text": 3}, "text: is empty"),
        ({"text": "国" * (MOST_TEXT // 3 + 1)}, "text: has 1,000,002 bytes; at most 1,000,000"),
        ({"model": "other"}, "model: expected one of here, gone"),
        ({"model": "../../etc"}, "model: expected one of here, gone"),
        ({"model": ["here"]}, "model: expected one of here, gone"),
        ({"model": "gone"}, "`attnscope models pull gone` fetches it"),
        ({"generate": -1}, "generate: expected 0 to 1024 tokens"),
        ({"generate": 1025}, "generate: expected 0 to 1024 tokens"),
        ({"generate": True}, "generate: expected 0 to 1024 tokens"),
        ({"generate": 1.5}, "generate: expected 0 to 1024 tokens"),
        ({"path": "/tmp/x"}, "body: expected an object with text, model and generate"),
    ],
)
def test_what_is_asked_for_is_checked(tmp_path: Path, change: Any, said: str) -> None:
    bench = Bench(tmp_path, "pass")

    async def use(captures: Captures) -> None:
        with pytest.raises(ValueError, match=said):
            await captures.start({**WANTED, **change})

    bench.run(use)
    assert not bench.folder.exists()


def test_an_unknown_capture_is_said_to_be_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "pass")

    async def use(captures: Captures) -> None:
        with pytest.raises(UnknownCaptureError):
            captures.check("x")
        with pytest.raises(UnknownCaptureError):
            await captures.cancel("x")

    bench.run(use)


def test_a_place_is_new_and_its_name_is_safe(tmp_path: Path) -> None:
    place = free_path(tmp_path, "/home/x/My Model..gguf")
    assert place.parent == tmp_path
    assert place.name.endswith("-my-model-gguf")
    place.mkdir()
    assert free_path(tmp_path, "../../国").parent == tmp_path
    again = free_path(tmp_path, "/home/x/My Model..gguf")
    assert not again.exists()
