"""The threads of the server: a queue with an end, one long piece at a time, nothing for nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from attnscope.serve.work import BusyError, Workers


def run(test: Callable[[Workers], Awaitable[Any]], **sizes: int) -> Any:
    async def all_of_it() -> Any:
        workers = Workers(**sizes)
        try:
            return await asyncio.wait_for(test(workers), 20)
        finally:
            workers.close()

    return asyncio.run(all_of_it())


def test_who_comes_to_a_full_queue_is_told_so_and_leaving_makes_room() -> None:
    async def test(workers: Workers) -> None:
        free, inside = asyncio.Event(), []

        async def stay(number: int) -> None:
            async with workers.place():
                inside.append(number)
                await free.wait()

        guests = [asyncio.ensure_future(stay(number)) for number in range(3)]
        await asyncio.sleep(0.02)
        assert inside == [0], "one works, two wait"
        with pytest.raises(BusyError):
            async with workers.place():
                pass
        guests[2].cancel()
        await asyncio.gather(guests[2], return_exceptions=True)
        late = asyncio.ensure_future(stay(9))
        await asyncio.sleep(0.02)
        free.set()
        await asyncio.gather(*guests[:2], late)
        assert inside == [0, 1, 9]

    run(test, threads=1, at_work=1, waiting=2)


def test_of_long_work_one_goes_at_a_time_and_short_work_passes_it() -> None:
    async def test(workers: Workers) -> None:
        free, at_work = asyncio.Event(), []

        async def stay(name: str, *, heavy: bool) -> None:
            async with workers.place(heavy=heavy):
                at_work.append(name)
                await free.wait()

        names = [("long", True), ("longer", True), ("short", False)]
        guests = [asyncio.ensure_future(stay(name, heavy=heavy)) for name, heavy in names]
        await asyncio.sleep(0.02)
        assert at_work == ["long", "short"]
        free.set()
        await asyncio.gather(*guests)
        assert at_work == ["long", "short", "longer"]

    run(test, threads=2, at_work=4, waiting=4)


def test_work_that_nobody_waits_for_any_more_is_not_begun() -> None:
    async def test(workers: Workers) -> None:
        begun, go = [], threading.Event()
        first = asyncio.ensure_future(workers.run(lambda: go.wait(10)))
        gone = asyncio.ensure_future(workers.run(lambda: begun.append("gone")))
        last = asyncio.ensure_future(workers.run(lambda: begun.append("last")))
        await asyncio.sleep(0.02)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        go.set()
        await asyncio.gather(first, last)
        assert begun == ["last"]

    run(test, threads=1)
