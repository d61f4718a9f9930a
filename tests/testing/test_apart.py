"""A process of its own answers, ends at its limit, and is no child of a process with threads."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest

from attnscope.testing.apart import EndedError, apart

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no forkserver")


def _ancestry(_: Any) -> tuple[int, int]:
    return os.getpid(), os.getppid()


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


def _end(how: str) -> None:
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(3)
    raise ValueError("it is wrong")


def test_the_answer_comes_from_a_child_of_a_clean_process() -> None:
    first, second = (apart(_ancestry, None, seconds=60) for _ in range(2))
    assert first[1] == second[1] != os.getpid()
    assert len({os.getpid(), first[0], second[0], first[1]}) == 4


def test_a_large_answer_does_not_block() -> None:
    assert apart(bytes, 1 << 20, seconds=60) == bytes(1 << 20)


def test_the_limit_ends_it() -> None:
    with pytest.raises(EndedError, match=r"stopped by signal 14 \(limit 1 s\)"):
        apart(_sleep, 60.0, seconds=1)


@pytest.mark.parametrize(
    ("how", "said"),
    [("signal", "stopped by signal 9"), ("exit", "status 3"), ("error", "status 1")],
)
def test_an_end_without_an_answer_is_an_error(how: str, said: str) -> None:
    with pytest.raises(EndedError, match=said):
        apart(_end, how, seconds=60)
