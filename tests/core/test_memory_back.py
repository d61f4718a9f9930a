"""Memory given back: resident pages fall, and everything works as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from attnscope.core import attend, fused, memory
from attnscope.core.workspace import LASTING, Workspace, lasting

LINUX = sys.platform == "linux"

HOLES = """
import ctypes, json
from attnscope.core.memory import free_heap

def resident():
    with open("/proc/self/status") as status:
        line = next(ln for ln in status if ln.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = []
for _ in range(1000):  # 64 KiB that go, and a block that stays, larger than any gap in the heap
    block, pin = libc.malloc(65536), libc.malloc(20000)
    ctypes.memset(block, 1, 65536)
    blocks.append(block)
full = resident()
for block in blocks:
    libc.free(block)
before = resident()
done = free_heap()
print(json.dumps([done, full - before, before - resident()]))
"""

COMPILER = """
import json, torch
from attnscope.core import attend
from attnscope.core.memory import unload_compiler

def resident():
    with open("/proc/self/status") as status:
        line = next(ln for ln in status if ln.startswith("RssFile:"))
    return int(line.split()[1]) * 1024

assert unload_compiler() == 0, "nothing is there yet"
generator = torch.Generator().manual_seed(0)
q, k, v = (torch.randn(1, 2, 64, 32, generator=generator) for _ in range(3))
first = attend(q, k, v, causal=True, statistics="all", impl="fused")
before = resident()
spanned = unload_compiler()
gone = before - resident()
again = attend(q, k, v, causal=True, statistics="all", impl="fused")
decode = attend(q[:, :, -1:], k, v, causal=True, impl="fused")  # code that was not loaded yet
print(json.dumps([
    spanned, gone, torch.equal(first.output, again.output),
    torch.allclose(decode.output, first.output[:, :, -1:], atol=1e-5),
]))
"""


def run(source: str) -> list[object]:
    """What a fresh process prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not LINUX, reason="glibc's own call; runs on Linux")
def test_holes_between_small_blocks_are_given_back() -> None:
    done, by_itself, gone = run(HOLES)
    assert done is True
    assert by_itself < 20 << 20  # of 62 MiB
    assert gone > 40 << 20


@pytest.mark.skipif(not LINUX, reason="reads /proc; runs on Linux")
def test_the_compilers_pages_go_and_compiled_code_still_runs_and_loads() -> None:
    spanned, gone, same, close = run(COMPILER)
    assert same is True
    assert close is True
    assert spanned > gone > 10 << 20


def test_without_the_means_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", lambda: None)
    monkeypatch.setattr(memory, "_advise", lambda: None)
    assert memory.free_heap() is False
    assert memory.unload_compiler() == 0


@pytest.mark.parametrize(
    ("line", "is_code"),
    [
        ("7f00-7f10 r-xp 00001000 08:01 12   /x/llvmlite/binding/libllvmlite.so", True),
        ("7f00-7f10 r--p 00001000 08:01 12   /x/llvmlite/binding/libllvmlite.so", False),
        ("7f00-7f10 rw-p 00001000 08:01 12   /x/llvmlite/binding/libllvmlite.so", False),
        ("7f00-7f10 r-xp 00000000 00:00 0    /x/libllvmlite.so", False),
        ("7f00-7f10 r-xp 00001000 08:01 12   /x/libtorch_cpu.so", False),
    ],
)
def test_only_machine_code_of_llvm_is_let_go(line: str, is_code: bool) -> None:
    assert bool(memory._CODE.match(line)) is is_code


def test_large_arrays_of_a_workspace_lie_outside_the_heap_and_are_kept() -> None:
    space = Workspace()
    first = space.take("a", LASTING)
    first[:] = 3.0
    assert space.take("a", LASTING // 2) is first
    assert space.take("a", LASTING * 2) is not first
    assert space.bytes == LASTING * 2 * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_write_into_its_parents_arrays() -> None:
    array = lasting((LASTING,), np.float32)
    array[:] = 1.0
    child = os.fork()
    if child == 0:
        array[:] = 2.0
        os._exit(0)
    os.waitpid(child, 0)
    assert (array == 1.0).all()


def test_the_peak_is_this_processs_own() -> None:
    before = memory.resident_peak()
    assert before is not None
    block = np.ones(256 << 20, np.uint8)
    after = memory.resident_peak()
    assert after is not None
    assert after - before > 32 << 20 or before > 1 << 30
    del block


def test_only_prefill_asks_the_system_for_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of a generation would wait for them; the heap has those of the step before."""

    def refuse(*_: object) -> None:
        raise AssertionError("pages were asked for")

    monkeypatch.setattr(fused, "lasting", refuse)
    k = torch.randn(1, 3, LASTING // 16, 64)  # received: [1, 9, S] in float32, above LASTING
    attend(torch.randn(1, 9, 1, 64), k, k, statistics="all", impl="fused")
    with pytest.raises(AssertionError, match="pages"):
        attend(torch.randn(1, 9, 64, 64), k, k, statistics="all", impl="fused")
