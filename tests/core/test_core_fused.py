"""What only the fused path has: threads, memory that is kept, and what it declines."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys

import pytest
import torch

from attnscope.core import Request, attend, fused
from attnscope.core.problem import pose
from attnscope.core.workspace import Workspace, crew, release
from attnscope.testing import qkv


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("queries", [1, 300])
def test_the_number_of_threads_changes_nothing_but_rounding(threads: int, queries: int) -> None:
    """Enough work that several threads are really used: see fused.SMALL."""
    q, k, v = qkv(batch=2, heads=6, groups=3, queries=queries, keys=1500, width=64)
    wanted = Request.of("all", pool=True, rows=(0,), tokens=torch.arange(1500) % 11)
    ours = attend(q, k, v, statistics=wanted, impl="fused")
    exact = attend(q.double(), k.double(), v.double(), statistics=wanted, impl="strip")
    torch.testing.assert_close(ours.output.double(), exact.output, rtol=1e-5, atol=1e-5)
    for name, value in ours.statistics.items():
        torch.testing.assert_close(value.double(), exact[name].double(), rtol=1e-4, atol=1e-4)
    assert ours.map is not None
    assert exact.map is not None
    torch.testing.assert_close(
        ours.map.mean.double(), exact.map.mean, rtol=1e-4, atol=1e-6, equal_nan=True
    )


def test_calls_at_the_same_time_do_not_share_memory() -> None:
    cases = [qkv(queries=64 + 8 * n, seed=n) for n in range(8)]
    alone = [attend(*case, statistics="all", impl="fused") for case in cases]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            run = [pool.submit(attend, *c, statistics="all", impl="fused") for c in cases]
            for future, expected in zip(run, alone, strict=True):
                found = future.result()
                torch.testing.assert_close(found.output, expected.output)
                torch.testing.assert_close(found["received"], expected["received"])


def test_results_do_not_change_when_memory_is_used_again() -> None:
    q, k, v = qkv(queries=50)
    first = attend(q, k, v, statistics="all", impl="fused")
    kept = {name: value.clone() for name, value in first.statistics.items()}
    output = first.output.clone()
    attend(*qkv(queries=90, seed=5), statistics="all", impl="fused")
    assert torch.equal(first.output, output)
    for name, value in first.statistics.items():
        assert torch.equal(value, kept[name]), name


def test_a_workspace_grows_and_is_given_back() -> None:
    space = Workspace()
    small = space.take("x", 4)
    assert space.take("x", 3) is small
    assert space.take("x", 9).size == 9
    assert space.bytes == 36
    attend(*qkv(queries=40), impl="fused")
    assert release() > 0
    assert release() == 0


def test_an_error_in_one_thread_is_not_lost() -> None:
    def work(number: int) -> None:
        if number == 1:
            raise RuntimeError("from thread 1")

    with pytest.raises(RuntimeError, match="from thread 1"):
        crew(work, 2)


def test_what_it_declines_it_names() -> None:
    q, k, v = qkv(queries=5)
    with pytest.raises(ValueError, match=r"cannot do this: it computes in float32"):
        attend(q.double(), k.double(), v.double(), impl="fused")
    scattered = torch.eye(5, dtype=torch.bool) | torch.eye(5, dtype=torch.bool).roll(3, 0)
    with pytest.raises(ValueError, match="pooled map under a boolean mask"):
        attend(q, k, v, mask=scattered, statistics=Request(pool=True), impl="fused")


def test_bfloat16_is_widened_and_the_output_is_not() -> None:
    q, k, v = (x.bfloat16() for x in qkv(queries=40))
    ours = attend(q, k, v, statistics="entropy", impl="fused")
    exact = attend(q.double(), k.double(), v.double(), statistics="entropy", impl="strip")
    assert ours.output.dtype == torch.bfloat16
    # Inputs are exact in float32, so only the output is rounded to 8 bits.
    torch.testing.assert_close(ours["entropy"].double(), exact["entropy"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.output.double(), exact.output, rtol=2**-8, atol=1e-5)


def test_a_strip_holds_one_window_and_not_all_keys() -> None:
    q, k, v = qkv(queries=4000, width=8)
    nothing = dict.fromkeys(("scale", "documents", "mask", "bias", "softcap", "sinks"))
    problem = pose(q, k, v, causal=True, window=64, request=Request.of("received"), **nothing)
    plan = fused._plan(problem)
    assert fused._most_slots(problem, plan) <= 3
    whole = pose(q, k, v, causal=True, window=None, request=Request.of("received"), **nothing)
    assert fused._most_slots(whole, fused._plan(whole)) >= 4000 // 256


def test_a_change_of_any_source_changes_the_cache() -> None:
    """Numba's own cache would have missed a change in another file."""
    code = (
        "import pathlib, attnscope.core.jit as jit; a = jit._folder();"
        "p = pathlib.Path(jit._HERE); real = pathlib.Path.read_bytes;"
        "pathlib.Path.read_bytes = lambda s: real(s) + (b'#' if s.name == 'vectors.py' else b'');"
        "print(a != jit._folder(), a == str(a))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
