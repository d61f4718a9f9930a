"""Gradients of every implementation: finite differences in float64, and PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from referees import sdpa, sight

from attnscope.core import attend
from attnscope.core.gradient import gradients
from attnscope.core.problem import pose
from attnscope.core.request import Request
from attnscope.testing import budget, implementations, qkv, unable

IMPLS = implementations()
EXTRAS: dict[str, dict[str, tuple[int, ...]]] = {
    "plain": {},
    "sinks": {"sinks": (4,)},
    "bias": {"bias": (2, 4, 4, 6)},
    "bias_by_key": {"bias": (6,)},
    "bias_by_head": {"bias": (4, 1, 1)},
    "both": {"bias": (1, 1, 4, 6), "sinks": (4,)},
}
MASKS = {
    "causal": {},
    "window": {"window": 3},
    "two_ways": {"causal": False},
    "cap": {"softcap": 1.5},
    "documents": {"documents": torch.tensor([-1, 0, 0, 1, 1, 1])},
    "mask": {"mask": torch.rand(2, 4, 4, 6, generator=torch.Generator().manual_seed(1)) < 0.5},
    "no_rows_seen": {"documents": torch.tensor([-1, -1, -1, -1, 1, 1])},
}


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("mask", MASKS)
def test_finite_differences(mask: str, extra: str) -> None:
    """Chunked prefill of 4 queries at the end of 6 keys, grouped heads, E unlike D."""
    q, k, v = qkv(queries=4, keys=6, width=3, value_width=2, dtype=torch.float64)
    names = list(EXTRAS[extra])
    more = [
        torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
        for shape in EXTRAS[extra].values()
    ]

    def output(q, k, v, *more):  # type: ignore[no-untyped-def]
        given = dict(zip(names, more, strict=True))
        return attend(q, k, v, impl="strip", **MASKS[mask], **given).output  # type: ignore[arg-type]

    inputs = [x.requires_grad_() for x in (q, k, v, *more)]
    assert torch.autograd.gradcheck(output, inputs, fast_mode=True)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("window", [None, 20])
def test_against_pytorch(impl: str, dtype: torch.dtype, window: int | None) -> None:
    q, k, v = qkv(queries=50, keys=75, width=16, dtype=dtype)
    assert not unable(impl, q, k, v, window=window)
    seen = sight(50, 75, window=window)
    towards = torch.randn(2, 4, 50, 16, generator=torch.Generator().manual_seed(4)).to(dtype)

    def three(run, kind: torch.dtype) -> list[torch.Tensor]:  # type: ignore[no-untyped-def]
        inputs = [x.to(kind).requires_grad_() for x in (q, k, v)]
        return list(torch.autograd.grad(run(*inputs), inputs, towards.to(kind)))

    ours = three(lambda *x: attend(*x, window=window, impl=impl).output, dtype)  # type: ignore[arg-type]
    peer = three(lambda *x: sdpa(*x, seen=seen), dtype)
    exact = three(lambda *x: sdpa(*x, seen=seen), torch.float64)
    for name, *them in zip("qkv", ours, peer, exact, strict=True):
        budget(them[0], peer=them[1], oracle=them[2], what=f"gradient of {name}")
    with pytest.raises(AssertionError, match="off"):
        budget(ours[0] * 1.05, peer=peer[0], oracle=exact[0])


@pytest.mark.parametrize("impl", IMPLS)
def test_statistics_are_detached_and_the_answer_is_the_same(impl: str) -> None:
    q, k, v = qkv()
    plain = attend(q, k, v, statistics="all", impl=impl)  # type: ignore[arg-type]
    watched = attend(q.requires_grad_(), k, v, statistics="all", impl=impl)  # type: ignore[arg-type]
    assert torch.equal(plain.output, watched.output)
    assert watched.output.requires_grad
    assert not any(value.requires_grad for value in watched.statistics.values())
    with torch.no_grad():
        assert not attend(q, k, v, impl=impl).output.requires_grad  # type: ignore[arg-type]


def test_only_what_is_needed_and_in_its_own_dtype() -> None:
    q, k, v = qkv(dtype=torch.bfloat16)
    sinks = torch.zeros(4, requires_grad=True)
    attend(q, k, v.requires_grad_(), sinks=sinks, impl="strip").output.sum().backward()
    assert q.grad is None
    assert v.grad is not None
    assert v.grad.dtype == torch.bfloat16
    assert sinks.grad is not None
    assert sinks.grad.dtype == torch.float32


def test_strip_height_does_not_matter() -> None:
    q, k, v = qkv(queries=40)
    nothing = dict.fromkeys(("scale", "window", "documents", "mask", "bias", "softcap", "sinks"))
    problem = pose(q, k, v, causal=True, request=Request(), **nothing)
    ones = torch.ones_like(q)
    whole, cut = gradients(problem, ones), gradients(problem, ones, budget=900)
    for name in "qkv":
        torch.testing.assert_close(getattr(cut, name), getattr(whole, name), rtol=1e-5, atol=1e-6)


def test_a_value_out_of_sight_spoils_no_gradient() -> None:
    q, k, v = qkv(queries=6)
    k[:, :, 5], v[:, :, 5] = torch.nan, torch.nan
    output = attend(q.requires_grad_(), k, v, impl="strip").output
    (found,) = torch.autograd.grad(output[:, :, :5].sum(), q)
    assert found[:, :, :5].isfinite().all()


def test_no_second_derivative_in_silence() -> None:
    q, k, v = (x.requires_grad_() for x in qkv())
    output = attend(q, k, v, impl="strip").output
    (first,) = torch.autograd.grad(output.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        (first.square().sum() + q.sum()).backward()


def test_transforms_of_torch_func_are_refused() -> None:
    q, k, v = qkv()
    with pytest.raises(NotImplementedError, match=r"torch\.func"):
        torch.func.grad(lambda q: attend(q, k, v).output.sum())(q)


def test_inputs_changed_in_place_before_backward_are_noticed() -> None:
    q, k, v = qkv()
    output = attend(q.requires_grad_(), k, v, impl="strip").output
    k.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
