"""Test inputs are what they claim, and every implementation is found."""

from __future__ import annotations

import pytest
import torch

from attnscope.core import IMPLS
from attnscope.testing import (
    adversarial,
    attend_by,
    implementations,
    oracle,
    ordinary,
    qkv,
    unable,
)


def test_random_inputs_are_the_same_every_time_and_differ_by_seed() -> None:
    first, again, other = qkv(seed=3), qkv(seed=3), qkv(seed=4)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    q, k, _ = qkv(queries=400, width=64, spread=3.0)
    scores = q[:, :2] @ k.transpose(-1, -2) / 8
    assert scores.std().item() == pytest.approx(3.0, rel=0.1)
    assert [x.dtype for x in qkv(dtype=torch.bfloat16)] == [torch.bfloat16] * 3


def test_names_are_unique_and_calls_are_valid() -> None:
    everything = [*ordinary(), *adversarial()]
    names = [inputs.name for inputs in everything]
    assert len(names) == len(set(names))
    for inputs in everything:
        assert oracle(inputs.q, inputs.k, inputs.v, **inputs.options).output.isfinite().all()
        assert inputs.to(torch.float16).q.dtype == torch.float16


def test_adversarial_inputs_break_a_careless_softmax() -> None:
    """exp without taking off the largest score, and division by the sum: a beginner's."""
    broken = []
    for case in adversarial():
        k, v = (x.repeat_interleave(2, 1) for x in (case.k, case.v))
        scores = case.q @ k.transpose(-1, -2) * case.q.shape[-1] ** -0.5
        scores = scores + case.options.get("bias", 0.0)
        e = scores.exp().tril()
        if "mask" in case.options:
            e = e * case.options["mask"]
        out = (e / e.sum(-1, keepdim=True)) @ v
        if not out.isfinite().all():
            broken.append(case.name)
    assert {"huge_logits", "minus_infinite_bias", "one_key_in_sight"} <= set(broken)


def test_implementations() -> None:
    assert set(implementations()) <= set(IMPLS)
    assert {"reference", "strip"} <= set(implementations())
    q, k, v = qkv()
    assert unable("strip", q, k, v) == ""
    result = attend_by("strip", q, k, v)
    torch.testing.assert_close(result.output.double(), oracle(q, k, v).output, rtol=0, atol=1e-5)


def test_an_implementation_that_pretends_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnscope.core import strip

    monkeypatch.setattr(strip, "unable", lambda problem: "it is tired", raising=False)
    q, k, v = qkv()
    assert unable("strip", q, k, v) == "it is tired"
    with pytest.raises(AssertionError, match="did what it says it cannot do"):
        attend_by("strip", q, k, v)


def test_a_refusal_is_checked_where_there_is_one() -> None:
    q, k, v = qkv(dtype=torch.float64)
    for impl in implementations():
        exact = oracle(q, k, v).output
        # float64 throughout: 9 additions of numbers below 4.
        torch.testing.assert_close(attend_by(impl, q, k, v).output, exact, rtol=0, atol=1e-14)
