"""Additive attention against Keras's layer, and the memory that the plain form needs."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
from additive_referees import Layer, by_keras, keras
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from attnscope.core.mechanism import parameters_of
from attnscope.mechanisms import additive as module
from attnscope.mechanisms.additive import (
    ABOUT,
    IMPLS,
    AdditiveAttention,
    AttentiveDecoder,
    additive,
    additive_weights,
    pair_bytes,
    picture,
)
from attnscope.testing import budget

__all__ = ["keras"]  # a fixture

each_impl = pytest.mark.parametrize("impl", IMPLS)


def inputs(
    *, batch: int = 2, queries: int = 9, keys: int = 9, units: int = 6, width: int = 5
) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(queries + keys)
    shapes = {
        "q": (batch, 1, queries, units),
        "k": (batch, 1, keys, units),
        "v": (batch, 1, keys, width),
        "energy": (units,),
    }
    return {name: torch.randn(shape, generator=random) * 2 for name, shape in shapes.items()}


def results(run: Layer, given: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, Any]:
    own = {n: x.detach().to(dtype).requires_grad_() for n, x in given.items()}
    y = run(**own)
    pull = torch.randn(y.shape, generator=torch.Generator().manual_seed(5)).to(dtype)
    found = torch.autograd.grad(y, list(own.values()), pull)
    return {"y": y.detach()} | dict(zip(own, found, strict=True))


def judge(ours: Layer, peer: Layer, exact: Layer, given: dict[str, torch.Tensor]) -> None:
    mine, others = (results(run, given, torch.float32) for run in (ours, peer))
    oracle = results(exact, given, torch.float64)
    for name, value in mine.items():
        # The gradient of energy is a sum over all B T S pairs: ours is a matrix product, Keras's
        # torch's sum, which adds pairwise and so is up to a few times closer.
        factor = 6.0 if name == "energy" else 2.0
        budget(value, peer=others[name], oracle=oracle[name], what=name, factor=factor)


@each_impl
@pytest.mark.parametrize("sizes", [(9, 9), (1, 13), (7, 31), (33, 33), (5, 2)])
def test_output_and_gradients_are_keras(impl: str, sizes: tuple[int, int], keras: Any) -> None:
    given = inputs(queries=sizes[0], keys=sizes[1])
    judge(
        lambda **x: additive(**x, impl=impl),
        by_keras(keras, torch.float32),
        by_keras(keras, torch.float64),
        given,
    )


@each_impl
def test_causal_and_padded_are_keras(impl: str, keras: Any, monkeypatch: Any) -> None:
    given = inputs(queries=17, keys=17)
    monkeypatch.setattr(module, "BLOCK", 17 * 6 * 4 * 3)  # three queries at a time
    valid = torch.ones(2, 17, dtype=torch.bool)
    valid[1, 11:] = False
    for causal, mask in ((True, None), (False, valid), (True, valid)):
        call = {"mask": [None, mask]} if mask is not None else {}
        judge(
            lambda causal=causal, mask=mask, **x: additive(
                **x, causal=causal, mask=None if mask is None else mask[:, None, None], impl=impl
            ),
            by_keras(keras, torch.float32, use_causal_mask=causal, **call),
            by_keras(keras, torch.float64, use_causal_mask=causal, **call),
            given,
        )


def test_a_damaged_input_and_swapped_arguments_are_caught(keras: Any) -> None:
    given = inputs()
    damage = torch.ones(6)
    damage[2] += 1e-4
    exact = by_keras(keras, torch.float64)
    peer = by_keras(keras, torch.float32)
    with pytest.raises(AssertionError, match="off"):
        judge(lambda **x: additive(**x | {"energy": x["energy"] * damage}), peer, exact, given)
    square = inputs(width=6)
    with pytest.raises(AssertionError, match="off"):
        judge(lambda q, k, v, energy: additive(q, v, k, energy), peer, exact, square)


@pytest.mark.parametrize("block", [1, 500, 3000, 1 << 24])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_blocked_is_the_reference_in_any_block(
    block: int, causal: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    given = inputs(batch=3, queries=11, keys=14)
    plain, blocked = (
        results(lambda impl=impl, **x: additive(**x, causal=causal, impl=impl), given, dtype)
        for impl in ("reference", "blocked")
    )
    wide = {n: x.to(dtype).double() for n, x in given.items()}
    exact = results(lambda **x: additive(**x, causal=causal, impl="reference"), wide, torch.float64)
    for name in plain:
        if dtype == torch.float64:
            # The gradients of k, v and energy are summed block by block: 11 additions.
            torch.testing.assert_close(blocked[name], plain[name], atol=1e-13, rtol=1e-12)
        else:
            # The same sums in another order; in bfloat16 each block's share is rounded, so the
            # blocked error grows with their number, at most 11.
            factor = 2.0 if dtype == torch.float32 else 4.0
            budget(blocked[name], peer=plain[name], oracle=exact[name], what=name, factor=factor)


def test_a_head_or_a_mask_per_head_is_a_call_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 700)
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 4, generator=random).double() for n in (6, 8, 8))
    energy = torch.randn(4, generator=random).double()
    mask = torch.rand(2, 3, 6, 8, generator=random) < 0.6
    mask[0, 1, 2] = False  # a row that sees nothing
    for impl in IMPLS:
        whole = additive(q, k, v, energy, mask=mask, impl=impl)
        assert not whole[0, 1, 2].any()
        for b in range(2):
            for h in range(3):
                at = (slice(b, b + 1), slice(h, h + 1))
                alone = additive(q[at], k[at], v[at], energy, mask=mask[at], impl=impl)
                torch.testing.assert_close(whole[at], alone, atol=1e-14, rtol=1e-13)


@each_impl
def test_a_row_that_sees_nothing_gives_zero_and_no_nan_gradient(impl: str) -> None:
    given = inputs(queries=3, keys=4)
    mask = torch.tensor([[True] * 4, [False] * 4, [True, False, True, False]])
    found = results(lambda **x: additive(**x, mask=mask, impl=impl), given, torch.float32)
    assert not found["y"][:, :, 1].any()
    assert not found["q"][:, :, 1].any()
    assert all(bool(x.isfinite().all()) for x in found.values())


class Largest(TorchDispatchMode):
    """The bytes of the largest tensor that any operation puts down."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        # Views (expand, unsqueeze) put nothing down: their storage is as large as it was.
        for x in result if isinstance(result, tuple | list) else [result]:
            if isinstance(x, torch.Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("backward", [False, True])
def test_4096_tokens_put_down_8_gib_and_blocked_16_mib(backward: bool) -> None:
    """On the meta device: shapes and operations are real, the numbers are not there."""
    T, A, E = 4096, 256, 256
    shapes = {"q": (1, 1, T, A), "k": (1, 1, T, A), "v": (1, 1, T, E), "energy": (A,)}
    largest = {}
    for impl in IMPLS:
        given = {
            n: torch.zeros(s, dtype=torch.bfloat16, device="meta", requires_grad=backward)
            for n, s in shapes.items()
        }
        with Largest() as found:
            y = additive(**given, impl=impl)
            if backward:
                y.sum().backward()
        largest[impl] = found.bytes
    assert largest["reference"] == pair_bytes(T, T, A) == 8 * 2**30
    assert largest["blocked"] == module.BLOCK == 16 * 2**20
    with Largest() as found:
        q = torch.zeros(T, A, dtype=torch.bfloat16, device="meta")
        q @ q.T
    assert found.bytes == pair_bytes(T, T, 1) == 32 * 2**20


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0.1, 20.0))
@settings(max_examples=30, deadline=None)
def test_rows_sum_to_one_and_outputs_are_convex(queries: int, keys: int, spread: float) -> None:
    x = {n: value.double() for n, value in inputs(queries=queries, keys=keys).items()}
    weights = additive_weights(x["q"] * spread, x["k"] * spread, x["energy"])
    assert float((weights.sum(-1) - 1).abs().max()) < 1e-14
    assert bool((weights >= 0).all())
    y = additive(x["q"] * spread, x["k"] * spread, x["v"], x["energy"])
    low, high = x["v"].amin(2, keepdim=True), x["v"].amax(2, keepdim=True)
    assert bool(((y >= low - 1e-14) & (y <= high + 1e-14)).all())


def test_scores_are_bounded_however_large_the_queries() -> None:
    """tanh is between -1 and 1: no score exceeds the sum of |energy|. A product has no such end."""
    x = inputs()
    bound = float(x["energy"].abs().sum())
    weights = additive_weights(x["q"] * 1e6, x["k"] * 1e6, x["energy"]).double()
    ratio = weights.amax(-1) / weights.amin(-1)
    assert float(ratio.log().max()) <= 2 * bound * (1 + 1e-6)


def test_a_new_energy_is_drawn_as_a_layer_of_its_width() -> None:
    """As nn.Linear of A inputs draws its weights: uniform up to A^(-1/2)."""
    torch.manual_seed(0)
    energy = AdditiveAttention(4, 400).energy.detach()
    assert 0.049 < energy.abs().max() <= 400**-0.5
    assert float(energy.std()) == pytest.approx(0.05 / 3**0.5, rel=0.1)  # of 400 draws


def test_prefill_chunks_and_steps_agree() -> None:
    torch.manual_seed(0)
    layer = AdditiveAttention(5, 7).double()
    x = torch.randn(2, 19, 5, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        whole = layer(x)
        for sizes in ([19], [1] * 19, [7, 1, 11], [4, 15]):
            cache = layer.new_cache(batch=2)
            parts = [layer(part, cache=cache) for part in x.split(sizes, dim=1)]
            # In float64; a softmax over the same keys in another order of sums.
            torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-14, rtol=1e-12)
            assert cache.length == 19


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_counts_are_those_of_real_tensors(dtype: torch.dtype) -> None:
    layer = AdditiveAttention(5, 7, impl="reference").to(dtype)
    cache = layer.new_cache()
    x = torch.randn(1, 9, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
    for tokens, cached in ((9, 0), (1, 9), (4, 10)):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            layer(x[:, :tokens], cache=cache)
        counts = layer.counts(tokens, cached, dtype=dtype)
        assert counter.get_total_flops() == counts.flops_dense + counts.projection_flops
        assert cache.nbytes == counts.kept_bytes == counts.bytes_per_token * (tokens + cached)
    assert layer.counts(1).parameters == parameters_of(layer) == 7 * 5 + 7 * 5 + 7


def test_one_query_at_a_time_the_pairs_in_sight_alone_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BLOCK", 1)
    layer = AdditiveAttention(5, 7)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(torch.zeros(1, 9, 5))
    counts = layer.counts(9)
    assert counter.get_total_flops() == counts.flops + counts.projection_flops
    assert counts.flops < counts.flops_dense


def small(**change: Any) -> dict[str, Any]:
    return inputs(queries=3, keys=4) | change


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: additive(**small(), impl="fused"),
            ValueError,
            "impl: unknown 'fused'; there are reference, blocked",
        ),
        (lambda: AdditiveAttention(3, 4, impl="x"), ValueError, "impl: unknown 'x'"),
        (lambda: additive(**small(q=torch.zeros(3, 6))), ValueError, r"q: .*got \[3, 6\]"),
        (
            lambda: additive(**small(k=torch.zeros(2, 1, 4, 5))),
            ValueError,
            r"k: expected \[2, 1, S, 6\] like q, got \[2, 1, 4, 5\]",
        ),
        (
            lambda: additive(**small(v=torch.zeros(2, 1, 3, 5))),
            ValueError,
            r"v: expected \[2, 1, 4\] .*got \[2, 1, 3, 5\]",
        ),
        (
            lambda: additive(**small(energy=torch.zeros(5))),
            ValueError,
            r"energy: expected \[6\].*got \[5\]",
        ),
        (
            lambda: additive(**inputs(queries=5, keys=4), causal=True),
            ValueError,
            "causal: 5 queries cannot stand at the end of 4 keys",
        ),
        (
            lambda: additive(**small(), mask=torch.zeros(3, 4)),
            TypeError,
            "mask: expected bool .*float32",
        ),
        (
            lambda: additive(**small(), mask=torch.ones(3, 5, dtype=torch.bool)),
            ValueError,
            r"mask: .*broadcasts to \[2, 1, 3, 4\], got \[3, 5\]",
        ),
        (lambda: AdditiveAttention(3, 0), ValueError, "units: expected at least 1, got 0"),
        (
            lambda: AdditiveAttention(3, 4)(torch.zeros(1, 2, 5)),
            ValueError,
            r"x: expected \[B, T, 3\], got \[1, 2, 5\]",
        ),
        (
            lambda: AdditiveAttention(3, 4)(torch.zeros(1, 2, 3), watch=print),
            ValueError,
            "watch: .*additive_weights",
        ),
        (
            lambda: AdditiveAttention(3, 4, query=2)(torch.zeros(1, 2, 3)),
            ValueError,
            r"x: .*width 2 .*remember\(\) and read\(\)",
        ),
        (
            lambda: AdditiveAttention(3, 4).remember(torch.zeros(2, 5, 3), lengths=torch.ones(2)),
            ValueError,
            r"lengths: expected integers \[2\]",
        ),
        (
            lambda: AttentiveDecoder(3, 2, 4, units=5).attention.read(
                torch.zeros(1, 1, 3), AdditiveAttention(3, 5).remember(torch.zeros(1, 2, 3))
            ),
            ValueError,
            r"query: expected \[B, T, 4\], got \[1, 1, 3\]",
        ),
    ],
)
def test_bad_input_is_named(call, error, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


def test_picture_and_about() -> None:
    assert doctest.testmod(module).failed == 0
    before = torch.get_rng_state()
    drawn = picture()
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers are its own"
    assert len(drawn.splitlines()) <= 30
    assert "8,192 MiB" in drawn
    assert isinstance(AdditiveAttention(2, 2), nn.Module)
    assert ABOUT.name == "additive"
