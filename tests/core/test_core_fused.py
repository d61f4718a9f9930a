"""What only the fused path has: threads, memory that is kept, and what it declines."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import threading

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


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("sinks", [None, 30.0])
@pytest.mark.parametrize("queries", [1, 40])
def test_scores_that_rise_or_fall_from_tile_to_tile(
    queries: int, sinks: float | None, sign: float
) -> None:
    """The largest score moves by more than 20 from each tile of 256 keys to the next."""
    keys, width = 1200, 8
    q, k, v = qkv(batch=1, heads=2, groups=1, queries=queries, keys=keys, width=width)
    slope = torch.linspace(0, sign * 12, keys)[:, None] * torch.ones(width)
    q, k = q.abs() + 1, k * 0.3 + slope
    options = {
        "statistics": Request.of("all", tokens=torch.arange(keys) % 5, rows=(-1,)),
        "sinks": None if sinks is None else torch.full((2,), sign * sinks),
    }
    ours = attend(q, k, v, impl="fused", **options)
    exact = attend(
        q.double(), k.double(), v.double(), impl="strip",
        **options | {"sinks": None if sinks is None else options["sinks"].double()},
    )  # fmt: skip
    assert float(exact["max_logit"].max()) > 20 or sign < 0
    # Scores of 60 carry a rounding of 4e-6 each, and weights with them.
    torch.testing.assert_close(ours.output.double(), exact.output, rtol=1e-4, atol=1e-4)
    for name, value in ours.statistics.items():
        torch.testing.assert_close(
            value.double(), exact[name].double(), rtol=2e-4, atol=2e-4, msg=name
        )
    assert ours.rows is not None
    assert exact.rows is not None
    torch.testing.assert_close(ours.rows.double(), exact.rows, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("queries", [1, 9])
def test_a_row_of_lowest_finite_numbers_is_uniform_and_one_of_infinity_empty(queries: int) -> None:
    """Some masks add the lowest float32, others minus infinity; PyTorch tells them apart."""
    q, k, v = qkv(queries=queries, keys=30)
    bias = torch.zeros(1, 1, queries, 30)
    bias[..., 0, :] = torch.finfo(torch.float32).min
    lowest = attend(q, k, v, bias=bias, causal=False, statistics="max_weight", impl="fused")
    torch.testing.assert_close(
        lowest.output[:, :, 0],
        v.mean(2).repeat_interleave(q.shape[1] // v.shape[1], 1),
        rtol=1e-5,
        atol=1e-6,
    )
    assert not lowest.empty.any()
    bias[..., 0, :] = -torch.inf
    hidden = attend(q, k, v, bias=bias, causal=False, statistics="max_weight", impl="fused")
    assert hidden.empty[:, :, 0].all()
    assert not hidden.output[:, :, 0].any()


def test_no_strip_begins_before_all_keys_are_packed() -> None:
    """A worker that finds the packing taken by others waits until they say that it is done."""
    q, k, v = qkv(batch=1, heads=2, groups=1, queries=40, width=8)
    nothing = dict.fromkeys(("scale", "documents", "mask", "bias", "softcap", "sinks"))
    problem = pose(q, k, v, causal=True, window=None, request=Request.of(None), **nothing)
    attend(q, k, v, impl="fused")  # compiled before the clock runs
    waited = threading.Event()
    real = fused.workers.prefill_worker

    def taken_by_others(inputs, plan, scratch, results, counters):  # type: ignore[no-untyped-def]
        packing = int(plan.batch * plan.groups)  # one chunk each: 40 keys
        counters[0] = packing
        done = threading.Event()
        worker = threading.Thread(
            target=lambda: (real(inputs, plan, scratch, results, counters), done.set())
        )
        worker.start()
        if not done.wait(0.3):
            waited.set()
        counters[1] = packing
        worker.join()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused.workers, "prefill_worker", taken_by_others)
        fused.attend_fused(problem)
    assert waited.is_set()


@pytest.mark.parametrize("ids", [[-7, 3, -7, 3], [2**40, 5, 2**40, 5]])
def test_token_ids_may_be_any_integers(ids: list[int]) -> None:
    q, k, v = qkv(queries=4)
    given = attend(q, k, v, impl="fused", statistics=Request.of("all", tokens=torch.tensor(ids)))
    plain = torch.tensor([0, 1, 0, 1])
    expected = attend(q, k, v, impl="fused", statistics=Request.of("all", tokens=plain))
    assert expected["induction_mass"].any()
    assert torch.equal(given["induction_mass"], expected["induction_mass"])


def test_small_weights_are_numbers_and_not_nothing() -> None:
    """exp(-80) is a float32: a key that far below the largest still has its weight."""
    q = torch.ones(1, 1, 1, 1)
    k = torch.tensor([0.0, -20.0, -50.0, -80.0, -200.0]).view(1, 1, 5, 1)
    for keys in (k, k.repeat(1, 1, 4, 1)[:, :, :20]):
        found = attend(
            q.expand(1, 1, 1, 1), keys, keys, scale=1.0, impl="fused",
            statistics=Request(rows=(0,)),
        )  # fmt: skip
        assert found.rows is not None
        exact = keys.double().flatten().softmax(0)
        torch.testing.assert_close(found.rows.double().flatten()[:4], exact[:4], rtol=2e-5, atol=0)
        assert found.rows.flatten()[4] == 0


@pytest.mark.parametrize("heads", [7, 96])
@pytest.mark.parametrize("window", [None, 300])
def test_strips_of_one_token_are_received_where_their_keys_lie(
    heads: int, window: int | None
) -> None:
    """96 heads on one key head fill a strip alone, 7 do not; the keys go over several tiles."""
    q, k, v = qkv(heads=heads, groups=1, queries=9, keys=900, width=8)
    wanted = {"statistics": ("received", "entropy"), "window": window}
    ours = attend(q, k, v, impl="fused", **wanted)
    exact = attend(q.double(), k.double(), v.double(), impl="reference", **wanted)
    torch.testing.assert_close(ours["received"].double(), exact["received"], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours["entropy"].double(), exact["entropy"], rtol=1e-4, atol=1e-5)
