"""Training: the task, the model, the clip, and what came out."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from attnscope.lessons.experiments import sweep
from attnscope.lessons.experiments.small_model import (
    Recall,
    Shape,
    SmallModel,
    loss_at,
    reproducible,
)
from attnscope.lessons.experiments.training import (
    Curves,
    Training,
    Variant,
    run,
    shrink,
    train,
    variants_at,
)


def test_the_task_can_be_solved_by_looking_back_and_in_no_other_way() -> None:
    task = Recall(keys=10, values=7, pairs=5, asked=3)
    tokens, places = task.batch(200, torch.Generator().manual_seed(0))
    assert tokens.shape == (200, task.length) == (200, 16)
    for row in tokens.tolist():
        told = dict(zip(row[0:10:2], row[1:10:2], strict=True))
        assert len(told) == 5
        for place in places.tolist():
            assert row[place + 1] == told[row[place]]
        assert all(k < 10 <= v < 17 for k, v in told.items())
    # Values are drawn evenly whatever the key: no table of keys can help.
    joint = np.zeros((10, 7))
    for row in tokens.tolist():
        for key, value in zip(row[0:10:2], row[1:10:2], strict=True):
            joint[key, value - 10] += 1
    expected = joint.sum(1, keepdims=True) / 7
    chi = ((joint - expected) ** 2 / expected).sum()
    # 60 degrees of freedom: mean 60, standard deviation 11.
    assert chi < 60 + 4.5 * math.sqrt(120)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [1, 2])
def test_the_models_attention_is_sdpa(causal: bool, heads: int) -> None:
    torch.manual_seed(0)
    shape = Shape(11, width=8, heads=heads, head_width=6, scale=0.3, causal=causal)
    attention = SmallModel(shape).blocks[0].attention.double()
    x = torch.randn(2, 7, 8, dtype=torch.float64)
    ours, largest, entropy = attention(x)
    q, k, v = (
        p(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        for p in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.3)
    expected = attention.o_proj(theirs.transpose(1, 2).flatten(2))
    # float64 against float64, sums of at most 8 numbers.
    assert torch.allclose(ours, expected, rtol=0, atol=1e-14)
    scores = (q @ k.mT * 0.3).detach()
    if causal:
        scores = scores.masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), -torch.inf)
    weights = scores.softmax(-1)
    assert torch.allclose(largest, scores.amax((0, 2, 3)))
    logs = torch.where(weights > 0, weights.log(), 0.0)
    assert torch.allclose(entropy, -(weights * logs).sum(-1).mean((0, 2)))


def test_fresh_scores_have_the_variance_of_the_premise() -> None:
    """Weights of variance 1 / width on normed inputs: q.k has variance d before the scale."""
    torch.manual_seed(0)
    attention = SmallModel(Shape(5, width=64, head_width=256)).blocks[0].attention
    x = torch.nn.functional.rms_norm(torch.randn(1, 400, 64), (64,))
    with torch.no_grad():
        q, k = attention.q_proj(x)[0], attention.k_proj(x)[0]
        score = (q * k.roll(1, 0)).sum(-1)
    # 400 nearly independent products: a standard deviation's error is about 1 / sqrt(2 * 400).
    assert abs(float(score.std()) / 16 - 1) < 4.5 / math.sqrt(800)


def test_a_causal_model_does_not_see_later_tokens() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(9, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (tokens[0, 5] + 1) % 9
    for causal in (True, False):
        model = SmallModel(Shape(9, width=8, head_width=4, causal=causal, layers=2, length=8))
        with torch.no_grad():
            one, two = (model(t)[0][0, :5] for t in (tokens, changed))
        assert torch.equal(one, two) == causal


def test_loss_at_is_the_mean_over_the_asked_places() -> None:
    logits = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([[0, 1, 2, 3, 4], [6, 5, 4, 3, 2]])
    loss, right = loss_at(logits, tokens, torch.tensor([1, 3]))
    log_p = logits.log_softmax(-1)
    each = [log_p[b, i, tokens[b, i + 1]] for b in (0, 1) for i in (1, 3)]
    assert float(loss) == pytest.approx(-float(sum(each)) / 4, rel=1e-6)
    hits = [int(logits[b, i].argmax() == tokens[b, i + 1]) for b in (0, 1) for i in (1, 3)]
    assert float(right) == sum(hits) / 4


def test_shrink_multiplies_the_scores_of_its_head_alone() -> None:
    torch.manual_seed(0)
    model = SmallModel(Shape(9, width=8, heads=2, head_width=4, layers=2))
    attention = model.blocks[1].attention
    x = torch.randn(1, 6, 8)
    before = attention(x)[1]
    shrink(model, torch.tensor([[1.0, 1.0], [0.5, 1.0]]))
    after = attention(x)[1]
    # Both W_Q and W_K were halved, so scores are quartered; halving is exact.
    assert after.tolist() == [0.25 * float(before[0]), float(before[1])]


def test_qk_clip_holds_the_largest_logit_near_tau() -> None:
    wild, clipped = (
        train(Variant("", 3e-2, start=3.0, clip=tau), head_width=16, steps=60)
        for tau in (None, 8.0)
    )
    assert wild.max_logit[0, 20:].min() > 20
    # A step may grow the logits again before the next clip; half as much again was never seen.
    assert clipped.max_logit[0, 20:].max() < 12
    assert clipped.max_logit[0, 0] == wild.max_logit[0, 0]


def test_qk_norm_bounds_the_largest_logit_whatever_the_weights() -> None:
    curves = train(Variant("", 1e-3, start=50.0, qk_norm=True), head_width=16, steps=12)
    # |q| |k| / sqrt(d) <= sqrt(d) = 4, times learned norm weights that 12 steps of 1e-3 can move.
    assert curves.max_logit.max() < 4 * 1.02**2


def test_variants_of_a_seed_start_alike_and_see_the_same_text() -> None:
    one, two = (train(Variant("", 1e-3, scaled=s), head_width=4, steps=12) for s in (True, False))
    # Unscaled scores are sqrt(4) = 2 times the scaled ones, exactly.
    assert two.max_logit[0, 0] == 2 * one.max_logit[0, 0]


def test_drawn_smaller_the_unscaled_model_starts_as_the_scaled_one() -> None:
    scaled, _, smaller, *_ = variants_at(16)
    one, two = (train(v, head_width=16, steps=10) for v in (scaled, smaller))
    # W_Q and W_K halved, a quarter in all, which is 1 / sqrt(16): powers of two, exact.
    assert two.loss[0, 0] == one.loss[0, 0]
    assert two.max_logit[0, 0] == one.max_logit[0, 0]
    assert two.max_logit[0, -1] > one.max_logit[0, -1]


def test_training_leaves_threads_and_seeds_as_they_were() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    with reproducible(0):
        torch.rand(3)
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.rand(1), expected)
    with pytest.raises(KeyError), reproducible(0):
        raise KeyError
    assert torch.get_num_threads() == threads


def test_learned_at_and_last() -> None:
    loss = np.array([[4.0] * 20 + [0.0] * 20, [4.0] * 40])
    curves = Curves(Variant("", 1.0), loss, loss, loss, loss)
    # The mean of ten steps is below 2 once six of them are 0: steps 16 .. 25.
    assert curves.learned_at(2.0)[0] == 25
    assert np.isnan(curves.learned_at(2.0)[1])
    assert curves.last("loss").tolist() == [0.0, 4.0]


def verdict(found: Training) -> None:
    """What the experiment is there to show, in every seed."""
    half = found.guess / 2
    scaled, unscaled = found.of("scaled"), found.of("unscaled")
    late = np.nan_to_num(unscaled.learned_at(half), nan=np.inf)
    assert (scaled.learned_at(half) < late).all()
    assert (unscaled.entropy[:, 0] < 0.3 * scaled.entropy[:, 0]).all()
    growing, norm, clip = (found.of(f"growing{x}") for x in ("", " + QK-norm", " + QK-Clip"))
    assert (growing.max_logit.max(1) > 3 * clip.max_logit.max(1)).all()
    assert (norm.max_logit.max(1) < 40).all()
    for held in (norm, clip):
        assert (held.last("loss") < 0.6 * growing.last("loss")).all()


@pytest.fixture(scope="module")
def short() -> Training:
    """One seed, and enough steps for the scaled model to learn."""
    return run(steps=70, seeds=1)


def test_at_d_256_the_unscaled_learns_later_and_growing_logits_can_be_held(
    short: Training,
) -> None:
    verdict(short)


@pytest.mark.slow
def test_the_claims_hold_in_full() -> None:
    found = run()
    verdict(found)
    scaled, unscaled = found.of("scaled").last("loss"), found.of("unscaled").last("loss")
    assert (scaled < 0.1).all()
    assert (unscaled > 3 * scaled).all()
    assert (found.of("scaled").last("right") > 0.99).all()


def test_a_damaged_result_is_not_believed(short: Training) -> None:
    swapped = tuple(
        dataclasses.replace(c, variant=dataclasses.replace(c.variant, name=name))
        for c, name in zip(
            short.curves,
            ("unscaled", "scaled", *(c.variant.name for c in short.curves[2:])),
            strict=True,
        )
    )
    with pytest.raises(AssertionError):
        verdict(dataclasses.replace(short, curves=swapped))


def test_sweep_asks_every_width_and_rate_and_takes_the_best() -> None:
    found = sweep.run(widths=(4, 8), rates=(1e-3, 1e-2, 3e-2), steps=12, seeds=2)
    assert found.loss.shape == (2, 2, 3, 2)
    alone = train(Variant("", 1e-2, scaled=False), head_width=8, steps=12, seeds=2)
    assert found.loss[1, 1, 1].tolist() == alone.last("loss").tolist()
    mean = found.loss.mean(-1)
    assert found.best().mean(-1).tolist() == pytest.approx(mean.min(-1).ravel().reshape(2, 2))


def test_bad_input_is_named() -> None:
    for call, message in (
        (lambda: run(variants=()), r"variants: expected at least one, got none"),
        (lambda: run(steps=9), r"steps: expected at least 10, got 9"),
        (lambda: train(VARIANT, seeds=0), r"seeds: expected at least 1, got 0"),
        (lambda: Variant("", -1.0), r"rate: expected a finite number above 0, got -1.0"),
        (lambda: Variant("", 1.0, clip=0.0), r"clip: expected a finite number above 0, got 0.0"),
        (lambda: Recall(pairs=40), r"pairs: expected at most keys = 32, since no key comes twice"),
        (lambda: Recall(pairs=4, asked=5), r"asked: expected at most pairs = 4, got 5"),
        (lambda: Shape(5, width=8, heads=3), r"heads: expected a divisor of width 8, got 3"),
        (lambda: Shape(0), r"vocabulary: expected at least 1, got 0"),
        (lambda: sweep.run(rates=()), r"widths, rates: expected at least one of each, got none"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=r"variant: unknown 'x'; trained were scaled"):
        run(variants=(Variant("scaled", 1e-3),), head_width=4, steps=10, seeds=1).of("x")


VARIANT = Variant("", 1e-3)
