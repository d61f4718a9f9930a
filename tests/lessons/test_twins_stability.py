"""What the lesson on stability computes on the page, against Python: a training, caps, clips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_twins import node, same

from attnscope.core import attend
from attnscope.lessons import lookup
from attnscope.mechanisms.qk_clip import clip_factors, head_rows

EARLY, CHAOS = 1e-11, 1e-6
"""Both sides compute in float64 with sums in another order (1e-16). A run that learns keeps such a
difference as it is for all its steps; one that runs away multiplies it by up to ten a step, so it
is compared for ten of them."""


@pytest.mark.parametrize("hold", ["none", "norm", "clip"])
@pytest.mark.parametrize(("rate", "steps", "near"), [(3.0, 120, EARLY), (30.0, 10, CHAOS)])
def test_a_training_on_the_page_is_the_one_that_pytorch_differentiates(
    hold: Any, rate: float, steps: int, near: float
) -> None:
    for seed in (1, 42):
        [found] = node("lookup.js", [("train", [seed, rate, steps, hold, 10])])
        wanted = lookup.train(seed, rate, steps, hold=hold, threshold=10)
        for name in ("loss", "right", "largest", "entropy"):
            assert same(found[name], getattr(wanted, name), tolerance=near), (seed, name)


def test_a_step_sees_the_same_rows() -> None:
    found = node("lookup.js", [("rows", [seed, step]) for seed in (1, 99) for step in (0, 119)])
    places = [(seed, step) for seed in (1, 99) for step in (0, 119)]
    for one, place in zip(found, places, strict=True):
        listed, right, values = lookup.rows(*place)
        assert one["listed"] == listed.tolist()
        assert one["right"] == right.tolist()
        assert same(one["values"], values.reshape(-1))


def test_rows_are_fair() -> None:
    """Names of a row are distinct; every name and every place comes up as often as chance says."""
    drawn = [lookup.rows(seed, step) for seed in range(20) for step in range(20)]
    listed = np.concatenate([one[0] for one in drawn])
    right = np.concatenate([one[1] for one in drawn])
    assert all(len(set(row)) == lookup.LISTED for row in listed.tolist())
    for values, of in ((listed.reshape(-1), lookup.NAMES), (right, lookup.LISTED)):
        counts = np.bincount(values, minlength=of)
        mean = len(values) / of
        assert np.abs(counts - mean).max() < 5 * np.sqrt(mean)


def test_a_lid_and_a_soft_cap_are_those_of_the_package() -> None:
    scores = [80.0, 60.0, 5.0, -40.0, 0.0]
    for cap in (10.0, 30.0, 50.0):
        lid, soft, open_ = node(
            "holds.js", [("held", [scores, way, cap]) for way in ("lid", "soft", "none")]
        )
        assert same(lid, np.minimum(scores, cap))
        assert open_ == scores
        q, k = torch.ones(1, 1, 1, 1).double(), torch.tensor(scores).double().view(1, 1, -1, 1)
        seen = attend(q, k, torch.eye(5).double()[None, None], softcap=cap, scale=1.0, causal=False)
        weights = np.exp(np.array(soft) - max(soft))
        assert same(
            (weights / weights.sum()).tolist(), seen.output.flatten().numpy(), tolerance=1e-12
        )


def test_what_comes_through_is_the_slope() -> None:
    scores = torch.tensor([80.0, 60.0, 5.0, -40.0], dtype=torch.float64, requires_grad=True)
    for way, f in (("lid", lambda s: s.clamp(max=30.0)), ("soft", lambda s: 30 * (s / 30).tanh()),
                   ("none", lambda s: s)):  # fmt: skip
        [found] = node("holds.js", [("passed", [scores.tolist(), way, 30])])
        [wanted] = torch.autograd.grad(f(scores).sum(), scores)
        assert same(found, wanted.numpy())


@pytest.mark.parametrize("shared", [False, True])
def test_clipped_heads_are_those_of_the_mechanism(shared: bool) -> None:
    largest, width = [50.0, 100.0, 400.0, -3.0], 2
    [found] = node("holds.js", [("clipHeads", [largest, 100, shared])])
    gamma = clip_factors(largest, 100.0)
    q, k = head_rows(4 * width, width if shared else 4 * width, gamma)
    assert same([one["gamma"] for one in found], gamma.numpy())
    assert same([one["q"] for one in found], q.numpy()[::width])
    wanted = k.numpy()[::width]
    assert same([one["k"] for one in found], np.repeat(wanted, 4) if shared else wanted)


def test_another_training_is_noticed() -> None:
    [found] = node("lookup.js", [("train", [1, 3.0, 5, "none", 10])])
    assert not same(found["loss"], lookup.train(1, 3.001, 5).loss, tolerance=EARLY)
    assert not same(found["loss"], lookup.train(2, 3.0, 5).loss, tolerance=EARLY)
