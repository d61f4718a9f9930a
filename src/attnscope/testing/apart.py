"""Run a function in a process of its own, forked from one in which nothing else ever ran.

The idea: a process with threads must not be forked: the child keeps every lock another thread held
(the allocator's, OpenMP's), and waits for it forever. So one clean server process imports what the
function needs, once; each call is a child of that one, and starts in milliseconds. Linux and macOS.

Not here: what the function does, and its limits on memory (weigh.py and sweep.py of the tests and
of `attnscope.capture` set their own).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final

GRACE: Final = 30.0
"""Seconds beyond the limit after which a child that did not even start is given up."""


class EndedError(Exception):
    """The process ended without an answer; the message says how."""


def apart(
    function: Callable[[Any], Any], argument: Any, *, seconds: int, preload: tuple[str, ...] = ()
) -> Any:
    """`function(argument)`, computed in a process of its own.

    Args:
        function: of a module's top level (it is named to the other process, not sent).
        argument: anything that can be pickled, like the answer.
        seconds: the limit on the time from the start of the call.
        preload: modules the server process imports before the first call; later calls cannot
            add to them.

    Raises:
        EndedError: if the limit was reached, or the process died or the function raised.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(writer, seconds, function, argument), daemon=True)
    child.start()
    writer.close()
    answer, answered = None, False
    with reader, contextlib.suppress(EOFError):
        if reader.poll(seconds + GRACE):
            answer, answered = reader.recv(), True
    if not answered:
        child.join(1.0)
        if child.is_alive():
            child.kill()
    child.join()
    if answered:
        return answer
    code = child.exitcode or 0
    if code in (-signal.SIGALRM, -signal.SIGKILL):
        raise EndedError(f"stopped by signal {-code} (limit {seconds} s)")
    raise EndedError(f"ended without an answer, status {code}")


def _child(writer: Connection, seconds: int, function: Callable[[Any], Any], argument: Any) -> None:
    signal.alarm(seconds)
    writer.send(function(argument))
