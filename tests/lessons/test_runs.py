"""What pages carry of the training is what its record says; what the lesson says holds there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_experiment_docs import build

from attnscope.lessons import figures, lookup, runs
from attnscope.lessons.experiments.training import train, variants_at
from attnscope.lessons.site import values


@pytest.fixture(scope="module")
def record() -> object:
    return build.kept("training")


def test_the_file_is_made_of_the_record(record: object) -> None:
    assert runs.kept() == runs.summary(record)  # type: ignore[arg-type]
    assert values.experiment("training") is runs.kept()
    assert values.field("training/variants/growing/most") == 4459


def test_figures_of_the_training_are_of_its_record(record: Any) -> None:
    """All steps of all seeds, not the summary that the figures read."""
    clip = record.of("growing + QK-Clip")
    most = figures.get("stable.run.most")
    assert figures.get("stable.run.tau").value == clip.variant.clip
    assert most.value == pytest.approx(clip.max_logit.max(), rel=1e-3)
    given = {name: one.value for name, one in most.inputs.items()}
    assert (given["tau"], given["rate"]) == (clip.variant.clip, clip.variant.rate)
    assert clip.max_logit.shape == (given["seeds"], given["steps"])


def test_windows_keep_the_largest_and_the_mean() -> None:
    """Against a plain loop; a spike of one step is in no mean, and is in the largest."""
    curve = np.ones((2, 12))
    curve[1, 7] = 101
    means, largest = runs.windows(curve), runs.windows(curve, largest=True)
    for run in range(2):
        for at in range(3):
            part = list(curve[run, at * runs.WINDOW : (at + 1) * runs.WINDOW])
            assert means[run, at] == sum(part) / len(part)
            assert largest[run, at] == max(part)
    assert (means.shape, largest.max(), means.max()) == ((2, 3), 101, 21)


def test_the_first_steps_are_what_a_fresh_training_gives() -> None:
    """Two windows of the fast run; another processor's last bits do not show so early."""
    growing = next(one for one in variants_at(256) if one.name == "growing")
    fresh = train(growing, steps=2 * runs.WINDOW)
    kept = runs.kept()["variants"]["growing"]["curves"]
    for name, curve, top in (("loss", fresh.loss, False), ("largest", fresh.max_logit, True),
                             ("entropy", fresh.entropy, False)):  # fmt: skip
        assert np.allclose(kept[name][0][:2], runs.windows(curve, largest=top)[0], rtol=0.02), name
    assert not np.allclose(kept["loss"][1][:2], runs.windows(fresh.loss)[0], rtol=0.02)


def test_what_the_lesson_says_of_the_runs_is_so() -> None:
    found = runs.kept()["variants"]
    healthy, fast, norm, clip, smaller = (
        found[name] for name in ("scaled", "growing", "norm", "clip", "smaller")
    )

    def ends(one: dict[str, dict[str, list[list[float]]]], gauge: str) -> np.ndarray:
        return np.array(one["curves"][gauge])[:, -8:].mean(1)

    # "It falls to about a quarter"; "nearly a thousand times as large"
    assert 0.2 < healthy["last"]["entropy"] / healthy["first"]["entropy"] < 0.3
    assert 800 < fast["last"]["largest"] / fast["first"]["largest"] < 1000
    # "The largest score tells first, the loss last", and meanwhile the loss falls faster
    assert runs.kept()["alarm"] < fast["best"]["step"] / 4
    window = runs.kept()["alarm"] // runs.WINDOW
    fell = [np.mean(one["curves"]["loss"], 0)[window] for one in (fast, healthy)]
    assert fell[0] < fell[1]
    # "with each of three seeds"
    assert (ends(fast, "loss") > ends(healthy, "loss")).all()
    assert (np.array(fast["curves"]["largest"]).max(1) > healthy["most"]).all()
    for held in (norm, clip):
        assert (ends(held, "loss") < ends(fast, "loss")).all()
        assert held["learned"] < healthy["learned"]
    # "at that one it ended behind"; "its weights have grown above 1"; low entropy, right answers
    assert clip["last"]["loss"] > norm["last"]["loss"]
    assert norm["most"] > 256**0.5
    assert smaller["last"]["entropy"] < 0.15
    assert smaller["last"]["right"] > 0.99


def test_a_run_astray_magnifies_the_last_digit_and_a_healthy_one_does_not() -> None:
    for rate, far in ((3.0, False), (30.0, True)):
        one = lookup.train(1, rate, 60)
        other = lookup.train(1, rate * (1 + 4e-16), 60)
        assert rate != rate * (1 + 4e-16)
        apart = abs(one.largest[-1] - other.largest[-1]) / one.largest[-1]
        assert (apart > 1e-3) if far else (apart < 1e-12), (rate, apart)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_the_reader_is_told_to_find_is_there(seed: int) -> None:
    """At rate 3 it learns, at 30 it does not; with a norm it does, and no score passes 8."""
    calm, fast = lookup.train(seed, 3.0, 120), lookup.train(seed, 30.0, 120)
    held = lookup.train(seed, 30.0, 120, hold="norm")
    right = [np.mean(one.right[-20:]) for one in (calm, fast, held)]
    assert right[0] > 0.9
    assert right[1] < 0.6
    assert right[2] > 0.9
    assert max(fast.largest) > 500
    assert max(held.largest) <= 8 + 1e-9
    clipped = lookup.train(seed, 30.0, 120, hold="clip", threshold=10.0)
    # "a single step throws the scores far beyond the threshold"
    assert 20 < max(clipped.largest) < max(fast.largest)
    assert np.mean(clipped.right[-20:]) < 0.6
