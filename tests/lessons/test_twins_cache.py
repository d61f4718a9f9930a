"""What widgets of caches, costs and shared heads compute is what Python and PyTorch compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_twins import node, same

from attnscope.core.heads import split_heads
from attnscope.lessons import figures, twins_cache
from attnscope.lessons.experiments import cache as experiment
from attnscope.lessons.figures import loops
from attnscope.lessons.figures.configs import model
from attnscope.lessons.site.widgets import WIDGETS
from attnscope.lessons.world import load
from attnscope.mechanisms.grouped import grouped_attention, pool_heads
from attnscope.plan.devices import DEVICES
from attnscope.plan.what_if import with_heads

SIZES = [(1, 1), (2, 3), (1, 12), (12, 1), (7, 9)]


@pytest.mark.parametrize("cached", [False, True])
def test_a_loop_in_the_browser_counts_as_one_in_python(cached: bool) -> None:
    found = node("cache.js", [("feed", [*sizes, cached]) for sizes in SIZES])
    for (prompt, generated), one in zip(SIZES, found, strict=True):
        wanted = loops.feed(prompt, generated, cached=cached)
        assert one["total"] == wanted.total()
        assert one["again"] == wanted.total() - len(wanted)
        ran = experiment.run(prompt=prompt, generate=generated, length=2)
        fed = [len(step["computed"]) + len(step["again"]) for step in one["steps"]]
        assert fed == (ran.fed_with if cached else ran.fed_without).tolist()


def test_the_loop_without_arithmetic_counts_as_the_one_with() -> None:
    for prompt, generated in ((1, 1), (2, 3), (4, 2), (1, 5)):
        for cached in (False, True):
            worked = loops.decode(load(), prompt=prompt, generated=generated, cached=cached)
            assert loops.feed(prompt, generated, cached=cached) == worked.computed
    with pytest.raises(ValueError, match="feed: expected prompt and generated of at least 1"):
        loops.feed(0, 3, cached=True)


@pytest.mark.parametrize("halved", [False, True])
def test_float32_in_a_browser_is_float32(halved: bool) -> None:
    """Bit for bit: the same operations in the same order, each rounded to float32."""
    for seed, tokens, width in ((1, 24, 16), (7, 9, 8), (99, 3, 4)):
        [found] = node("cache.js", [("threeWays", [seed, tokens, width, halved])])
        wanted = twins_cache.three_ways(seed, tokens, width, halved=halved)
        for name, rows in wanted.items():
            np.testing.assert_array_equal(np.array(found[name], np.float32), rows, err_msg=name)


def test_a_cache_changes_no_bit_and_another_order_does() -> None:
    for seed in range(1, 6):
        found = twins_cache.three_ways(seed, 20, 16)
        np.testing.assert_array_equal(found["cached"], found["anew"])
        gap = np.abs(found["cached"] - found["atOnce"])
        assert 0 < gap.max() < 1e-5
        halved = twins_cache.three_ways(seed, 20, 16, halved=True)
        assert np.abs(halved["cached"] - halved["anew"]).max() > 1e-4


def test_the_three_ways_are_attention() -> None:
    """PyTorch's own attention in float64 on the same numbers."""
    drawn = twins_cache.normals(3, 16 * (20 + 48)).astype(np.float32).reshape(-1, 16)
    x = torch.tensor(drawn[:20], dtype=torch.float64)
    weights = torch.tensor(drawn[20:], dtype=torch.float64).view(3, 16, 16) / 4
    q, k, v = (x @ w for w in weights)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q[None, None], k[None, None], v[None, None], is_causal=True
    )[0, 0]
    for rows in twins_cache.three_ways(3, 20, 16).values():
        # A few dozen float32 operations a number, on numbers of size one.
        np.testing.assert_allclose(rows, wanted.numpy(), rtol=0, atol=64 * 2**-24)


def test_halves_are_bfloat16() -> None:
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -np.pi, 1e-30, 3e38], np.float32)
    wanted = torch.tensor(values).bfloat16().float().numpy()
    np.testing.assert_array_equal(twins_cache.half(values), wanted)
    assert node("cache.js", [("half", [float(one)]) for one in values]) == wanted.tolist()


def test_costs_are_the_planners() -> None:
    data = WIDGETS["roof"]("en")
    shape = data["shape"]
    for groups in (24, 4, 1):
        changed = with_heads(model("qwen3.8-27b"), groups)
        for tokens in (1, 4096, 262144):
            cost = changed.cost(context=tokens)
            per_token = changed.kv(context=1).per_token_bytes
            kept, step, prefill = node("cost.js", [
                ("perToken", [shape, groups]), ("step", [shape, groups, tokens]),
                ("prefill", [shape, groups, tokens]),
            ])  # fmt: skip
            assert kept == per_token
            assert step == {"flops": cost.decode_step, "bytes": per_token * tokens}
            ends = 16 * 2 * 24 * 256 * 2
            assert prefill == {"flops": cost.prefill, "bytes": (per_token + ends) * tokens}


def test_what_a_device_waits_for() -> None:
    for one in WIDGETS["roof"]("zh")["devices"]:
        device = DEVICES[one["name"]]
        assert (one["peak"], one["bandwidth"]) == (device.peak, device.bandwidth)
        work = [{"flops": 6e9, "bytes": 1e9}, {"flops": 1e13, "bytes": 1e9}]
        [ridge] = node("cost.js", [("ridge", [one])])
        assert same(ridge, device.ridge)
        found = node("cost.js", [("atLeast", [each, one]) for each in work])
        assert [each["waits"] for each in found] == ["memory", "arithmetic"]
        assert same(found[0]["seconds"], 1e9 / device.bandwidth)
        assert same(found[1]["seconds"], 1e13 / device.peak)
    assert node("cost.js", [("divisors", [24])]) == [[1, 2, 3, 4, 6, 8, 12, 24]]


@pytest.mark.parametrize("how", ["own", "mean", "first", "last"])
def test_shared_heads_are_those_of_the_mechanism(how: str) -> None:
    """A layer whose projections are pooled by the mechanism, and PyTorch's own attention on it."""
    found, given = load(), WIDGETS["share"]("en")
    heads, tokens = found.heads, torch.tensor(found.embeddings)
    width = found.w_q.shape[1] // heads

    def projected(weight: np.ndarray, *, pool: bool) -> torch.Tensor:
        w = torch.tensor(weight).T
        if pool and how == "mean":
            w = pool_heads(w, heads=heads, groups=1)
        elif pool and how != "own":
            w = w[:width] if how == "first" else w[-width:]
        return split_heads((tokens @ w.T)[None], width)

    q, k, v = (projected(w, pool=w is not found.w_q) for w in (found.w_q, found.w_k, found.w_v))
    [ours] = node("share.js", [("shared", [given, how])])
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    )
    assert same(ours["outputs"], wanted[0].numpy())
    assert same(ours["outputs"], grouped_attention(q, k, v, impl="reference")[0].numpy())
    eye = torch.eye(len(tokens), dtype=torch.float64).expand(1, k.shape[1], -1, -1)
    weights = grouped_attention(q, k, eye, impl="reference")[0]
    assert same(ours["weights"], weights.numpy())
    if how == "mean":
        at = found.index("给了")
        for letter, head, key in (("a", 0, "小明"), ("b", 1, "苹果")):
            share = 100 * float(weights[head, at, found.index(key)])
            assert figures.get(f"world.shared.{letter}").value == pytest.approx(share, rel=1e-12)
