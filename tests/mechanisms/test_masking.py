"""Masking before the softmax against PyTorch's, and how the two wrong ways go wrong."""

from __future__ import annotations

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from attnscope.core.mechanism import Seen
from attnscope.mechanisms import masking
from attnscope.mechanisms.masking import (
    ABOUT,
    IMPLS,
    WAYS,
    MaskedAttention,
    at_once,
    by_prefix,
    leak,
    masked_attention,
    masked_weights,
    picture,
    share_in_sight,
    stored,
)
from attnscope.testing import budget, qkv

HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32


def inputs(queries: int, keys: int, *, seed: int = 0, spread: float = 1.0) -> list[torch.Tensor]:
    return list(qkv(heads=2, queries=queries, keys=keys, seed=seed, spread=spread))


def results(run, given: list[torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:  # type: ignore[no-untyped-def]
    own = [x.to(dtype).requires_grad_() for x in given]
    y = run(*own)
    pull = torch.randn(y.shape, generator=torch.Generator().manual_seed(5)).to(dtype)
    return dict(zip("yqkv", (y.detach(), *torch.autograd.grad(y, own, pull)), strict=True))


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("sizes", [(9, 9), (33, 33), (1, 17), (7, 40), (1, 1)], ids=str)
def test_the_right_way_is_pytorchs(impl: str, sizes: tuple[int, int]) -> None:
    given = inputs(*sizes)

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        # is_causal is aligned top left, which is ours only for T = S.
        if sizes[0] == sizes[1]:
            return scaled_dot_product_attention(q, k, v, is_causal=True)
        return scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(*sizes))

    mine = results(lambda *x: masked_attention(*x, impl=impl), given, SINGLE)
    peer = results(theirs, given, SINGLE)
    oracle = results(theirs, given, torch.float64)
    for name, value in mine.items():
        budget(value, peer=peer[name], oracle=oracle[name], what=name)


def test_top_left_and_lower_right_differ_when_there_are_fewer_queries() -> None:
    q, k, v = (x.double() for x in inputs(3, 8))
    ours = masked_attention(q, k, v)
    right = scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(3, 8))
    left = scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(ours, right, atol=1e-14, rtol=1e-12)
    assert not torch.allclose(ours, left, atol=1e-3)


@given(st.integers(1, 7), st.integers(1, 7), st.floats(0.0, 20.0))
@settings(max_examples=40, deadline=None)
def test_masked_after_the_softmax_is_the_right_output_times_a_share(
    queries: int, more: int, spread: float
) -> None:
    q, k, v = (x.double() for x in inputs(queries, queries + more - 1, spread=spread))
    share = share_in_sight(q, k)
    before, after = masked_attention(q, k, v), masked_attention(q, k, v, way="after")
    # A few roundings of numbers of the size of v, at most about 5.
    assert float((after - share[..., None] * before).abs().max()) < 1e-14
    assert bool((share <= 1 + 1e-14).all())
    assert float((share[..., -1] - 1).abs().max()) < 1e-14, "the last row has no future"
    # The share by log-sum-exps, of the keys in sight and of all.
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    T, S = scores.shape[-2:]
    seen = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    by_sums = scores.masked_fill(~seen, -torch.inf).logsumexp(-1) - scores.logsumexp(-1)
    assert torch.allclose(share, by_sums.exp(), atol=1e-14, rtol=1e-12)


def test_masked_after_the_softmax_the_future_still_matters() -> None:
    q, k, v = (x.double() for x in inputs(6, 6))
    other = k.clone()
    other[:, :, -1] *= -3
    for way, same in (("before", True), ("after", False)):
        one, two = (masked_attention(q, x, v, way=way)[:, :, :-1] for x in (k, other))
        assert torch.equal(one, two) is same


@pytest.mark.parametrize("impl", IMPLS)
@given(at=st.integers(1, 8), seed=st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_a_later_key_cannot_matter_by_a_single_bit(impl: str, at: int, seed: int) -> None:
    q, k, v = inputs(9, 9, seed=seed)
    k2, v2 = k.clone(), v.clone()
    k2[:, :, at:] += 100
    v2[:, :, at:] -= 100
    one = masked_attention(q, k, v, impl=impl)[:, :, :at]
    assert torch.equal(one, masked_attention(q, k2, v2, impl=impl)[:, :, :at])


@pytest.mark.parametrize(
    ("number", "dtype", "held"),
    [
        (-1e9, HALF, -math.inf),
        (-1e9, BRAIN, -999292928 + 1048576),
        (-1e9, SINGLE, -1e9),
        (-1e4, HALF, -1e4),
        (-1e4, BRAIN, -9984.0),
        (-65504.0, HALF, -65504.0),
        (-65520.0, HALF, -math.inf),
    ],
)
def test_what_a_dtype_makes_of_the_number(number: float, dtype: torch.dtype, held: float) -> None:
    assert float(stored(number, dtype)) == held
    assert leak(number, dtype).stored == held


@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE], ids=str)
def test_minus_infinity_hides_everything_and_makes_nan_of_a_blind_row(dtype: torch.dtype) -> None:
    found = leak(-math.inf, dtype)
    assert (found.ordinary, found.extreme) == (0.0, 0.0)
    assert math.isnan(found.blind)


@pytest.mark.parametrize("dtype", [BRAIN, SINGLE], ids=str)
def test_1e9_hides_everything_but_gives_a_blind_row_to_the_future(dtype: torch.dtype) -> None:
    found = leak(-1e9, dtype)
    assert (found.ordinary, found.extreme) == (0.0, 0.0)
    # Three thirds, each rounded to the dtype.
    assert found.blind == pytest.approx(1.0, rel=torch.finfo(dtype).eps)


def test_the_number_not_said_is_1e9() -> None:
    assert MaskedAttention(4, 4, way="number").number == -1e9
    q, k = torch.randn(2, 1, 1, 5, 4, generator=torch.Generator().manual_seed(0)).double()
    # Beside 1e9 a blind row keeps 7 digits of its scores; beside another number, others.
    blind = torch.zeros(5, dtype=torch.bool)
    found, said = (
        masked_weights(q, k, way="number", mask=blind, **number)
        for number in ({}, {"number": -1e9})
    )
    assert torch.equal(found, said)


def test_1e9_in_float16_is_minus_infinity() -> None:
    found = leak(-1e9, HALF)
    assert found.stored == -math.inf
    assert math.isnan(found.blind)
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(2, dtype=HALF).masked_fill(torch.tensor([True, False]), -1e9)


@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE], ids=str)
def test_1e4_is_not_large_enough_for_large_scores(dtype: torch.dtype) -> None:
    found = leak(-1e4, dtype)
    assert found.ordinary == 0.0
    assert found.extreme == 1.0  # scores of +-6000: the hidden keys take all the weight
    assert leak(-1e4, dtype, reach=4000.0).extreme == 0.0


def test_a_number_leaks_as_soon_as_it_does_not_bridge_the_gap() -> None:
    """Weights are ratios: hidden : visible = exp(number + gap), whatever the number's size."""
    for number, gap in ((-10.0, 0.0), (-10.0, 9.0), (-1e4, 1e4)):
        found = leak(number, torch.float64, reach=gap / 2)
        ratio = 2 * math.exp(number + gap)  # two hidden keys
        assert found.extreme == pytest.approx(ratio / (1 + ratio), rel=1e-9)


def test_a_blind_row_under_1e9_is_even_because_the_number_swallows_the_scores() -> None:
    """float32 near 1e9 has steps of 64: scores below 32 vanish, and the row is uniform."""
    q, k, _ = inputs(1, 6, spread=3.0)
    mask = torch.zeros(6, dtype=torch.bool)
    weights = masked_weights(q, k, way="number", mask=mask)
    assert torch.equal(weights, torch.full_like(weights, 1 / 6))
    small = masked_weights(q, k, way="number", number=-100.0, mask=mask)
    assert not torch.allclose(small, weights, atol=0.01)


@pytest.mark.parametrize("impl", IMPLS)
def test_a_blind_row_done_right_is_zero_and_has_a_gradient_of_zero(impl: str) -> None:
    given = inputs(4, 4)
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    found = results(lambda *x: masked_attention(*x, mask=mask, impl=impl), given, SINGLE)
    assert not found["y"][:, :, 2].any()
    assert not found["q"][:, :, 2].any()
    assert all(bool(x.isfinite().all()) for x in found.values())


@pytest.mark.parametrize("dtype", [BRAIN, SINGLE], ids=str)
def test_an_ordinary_row_under_1e9_is_the_right_one(dtype: torch.dtype) -> None:
    """The claim that -1e9 will do is true where every row sees something: to the last bit."""
    q, k, _ = (x.to(dtype) for x in inputs(9, 9))
    assert torch.equal(
        masked_weights(q, k, way="number"), masked_weights(q, k, way="number", number=-math.inf)
    )


def layer(way: str = "before", **options) -> MaskedAttention:  # type: ignore[no-untyped-def]
    torch.manual_seed(1)
    return MaskedAttention(6, 5, way=way, **options).double()


def tokens(count: int) -> torch.Tensor:
    return torch.randn(2, count, 6, generator=torch.Generator().manual_seed(2)).double()


def test_prefixes_one_by_one_and_all_at_once_are_counted() -> None:
    x = tokens(5)
    with torch.no_grad():
        each, counted = by_prefix(layer(), x)
        one, single = at_once(layer(), x)
        _, questions = by_prefix(layer(), x[:, :4])
    assert (counted.forwards, counted.positions) == (5, 15)
    assert (questions.forwards, questions.positions) == (4, 10)
    assert (single.forwards, single.positions) == (1, 5)
    assert torch.allclose(one, each, atol=1e-14, rtol=1e-12)


def test_without_a_mask_one_forward_does_not_answer_the_prefixes() -> None:
    class Open(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return scaled_dot_product_attention(x, x, x)

    one, each = at_once(Open(), tokens(5))[0], by_prefix(Open(), tokens(5))[0]
    assert not torch.allclose(one, each, atol=1e-2)
    wrong = layer("after")
    with torch.no_grad():
        one, each = at_once(wrong, tokens(5))[0], by_prefix(wrong, tokens(5))[0]
    assert not torch.allclose(one, each, atol=1e-2)


def test_the_counter_leaves_the_layer_as_it_was() -> None:
    module = layer()
    at_once(module, tokens(3))
    with pytest.raises(ValueError, match="x: expected"):
        by_prefix(module, torch.zeros(1, 2, 9))
    assert not module._forward_pre_hooks


def test_prefill_chunks_and_steps_agree_the_right_way_only() -> None:
    x = tokens(13)
    for way, agrees in (("before", True), ("number", True), ("after", False)):
        module = layer(way)
        with torch.no_grad():
            whole = module(x)
            for sizes in ([13], [1] * 13, [5, 1, 7]):
                cache = module.new_cache(batch=2)
                parts = [module(part, cache=cache) for part in x.split(sizes, dim=1)]
                same = torch.allclose(torch.cat(parts, 1), whole, atol=1e-14, rtol=1e-12)
                assert same is (agrees or sizes == [13])
                assert cache.length == 13


@pytest.mark.parametrize("way", WAYS)
def test_counts_are_those_of_real_tensors(way: str) -> None:
    module = layer(way).to("meta", torch.bfloat16)
    cache = module.new_cache()
    for count, cached in ((9, 0), (1, 9), (4, 10)):
        x = torch.zeros(1, count, 6, device="meta", dtype=torch.bfloat16)
        with FlopCounterMode(display=False) as counter:
            module(x, cache=cache)
        counts = module.counts(count, cached)
        assert counter.get_total_flops() == counts.flops_dense + counts.projection_flops
        assert cache.nbytes == counts.kept_bytes


def test_whoever_watches_is_told_the_right_way_only() -> None:
    kept: list[Seen] = []
    x = tokens(5)
    y = layer()(x, watch=kept.append)
    torch.testing.assert_close(kept[0].attend().output[:, 0], y.detach(), atol=1e-14, rtol=1e-12)
    with pytest.raises(ValueError, match=r"watch: .*not way='after'; masked_weights"):
        layer("after")(x, watch=kept.append)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: masked_attention(*inputs(3, 3), impl="x"),
            ValueError,
            "impl: unknown 'x'; there are reference, fast",
        ),
        (
            lambda: masked_attention(*inputs(3, 3), impl="fast", way="after"),
            ValueError,
            "impl: 'fast' does it right, way='after' is for impl='reference'",
        ),
        (
            lambda: masked_attention(*inputs(3, 3), way="during"),
            ValueError,
            "way: unknown 'during'; there are before, after, number",
        ),
        (lambda: MaskedAttention(3, 3, way="x"), ValueError, "way: unknown 'x'"),
        (
            lambda: MaskedAttention(3, 3, causal=False),
            ValueError,
            "causal: .*use DotProductAttention",
        ),
        (
            lambda: masked_attention(*inputs(3, 3), way="number", number=1e9),
            ValueError,
            "number: expected a negative number, got 1000000000.0",
        ),
        (
            lambda: masked_attention(*inputs(4, 3)),
            ValueError,
            r"k: expected \[2, 2, S, 8\] with S >= 4, the queries, got \[2, 2, 3, 8\]",
        ),
        (
            lambda: masked_weights(torch.zeros(3, 8), inputs(3, 3)[1]),
            ValueError,
            r"q: expected \[B, H, T, D\], got \[3, 8\]",
        ),
        (
            lambda: masked_attention(*inputs(3, 3), mask=torch.zeros(3, 3)),
            TypeError,
            "mask: expected bool .*float32",
        ),
        (
            lambda: masked_attention(*inputs(3, 3), mask=torch.ones(4, dtype=torch.bool)),
            ValueError,
            r"mask: .*broadcasts to \[2, 2, 3, 3\], got \[4\]",
        ),
    ],
)
def test_bad_input_is_named(call, error, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


def test_picture_and_about() -> None:
    assert doctest.testmod(masking).failed == 0
    before = torch.get_rng_state()
    drawn = picture()
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers are its own"
    assert len(drawn.splitlines()) <= 30
    assert "5 forwards, 15 positions" in drawn
    assert "alone: 4 and 10" in drawn
    assert ABOUT.name == "masking"
