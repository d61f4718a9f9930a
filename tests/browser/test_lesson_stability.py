"""The widgets of the lesson on stability show what Python computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lessons_site import choose, move, number, opened

from attnscope.lessons import lookup, runs
from attnscope.mechanisms import rivals
from attnscope.mechanisms.qk_clip import clip_factors


@pytest.fixture
def lesson(page: Any, site: Path, language: str) -> Any:
    return opened(page, site, language, "12-stability")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_recorded_runs_are_read_off_as_they_are_kept(lesson: Any) -> None:
    widget = lesson.locator("#widget-runs")
    for window, seed in ((1, "mean"), (24, "mean"), (24, "2"), (80, "0")):
        move(widget, "window", window)
        choose(widget, seed)
        assert number(widget, "step") == window * runs.WINDOW
        for name, variant in runs.kept()["variants"].items():
            for gauge in runs.CURVES:
                curve = np.array(variant["curves"][gauge])[:, window - 1]
                wanted = curve.mean() if seed == "mean" else curve[int(seed)]
                shown = number(widget, f"{name}.{gauge}")
                assert shown == pytest.approx(wanted, rel=1e-9), (name, gauge)


def test_a_run_is_drawn_when_it_is_chosen(lesson: Any) -> None:
    widget = lesson.locator("#widget-runs-first")
    lines = widget.locator(".line-chart").first.locator("path.line")
    assert lines.count() == 2
    widget.locator('[data-name="show.norm"]').press("Space")
    assert lines.count() == 3
    assert widget.locator(".line-chart").first.locator(".style-2").count() == 1
    widget.locator('[data-name="show.scaled"]').uncheck()
    assert lines.count() == 2


@pytest.mark.parametrize(("hold", "rate"), [("none", 3), ("norm", 30), ("clip", 3)])
def test_a_training_on_the_page_is_the_one_in_python(lesson: Any, hold: Any, rate: float) -> None:
    widget = lesson.locator("#widget-lookup")
    move(widget, "rate", rate)
    move(widget, "seed", 5)
    choose(widget, hold)
    if hold == "clip":
        move(widget, "threshold", 12)
    lesson.wait_for_timeout(400)
    wanted = lookup.train(5, rate, 120, hold=hold, threshold=12)
    assert number(widget, "most") == pytest.approx(max(wanted.largest), rel=1e-9)
    for gauge in ("loss", "right", "largest", "entropy"):
        mean = np.mean(getattr(wanted, gauge)[-20:])
        assert number(widget, f"last.{gauge}") == pytest.approx(mean, rel=1e-9, abs=1e-12)
    assert "good" in str(widget.locator('[data-name="verdict"]').get_attribute("class"))


def test_a_training_that_runs_away_is_called_one(lesson: Any) -> None:
    widget = lesson.locator("#widget-lookup")
    move(widget, "rate", 30)
    lesson.wait_for_timeout(400)
    assert number(widget, "most") > 500
    assert "bad" in str(widget.locator('[data-name="verdict"]').get_attribute("class"))


def test_a_lid_makes_equals_and_a_soft_cap_does_not(lesson: Any) -> None:
    widget = lesson.locator("#widget-lid")
    move(widget, "score.1", 45)
    move(widget, "threshold", 20)
    scores = torch.tensor([80.0, 45.0, 5.0], dtype=torch.float64)
    for way, held in (("none", scores), ("lid", scores.clamp(max=20.0)),
                      ("soft", 20 * (scores / 20).tanh())):  # fmt: skip
        shown = [number(widget, f"{way}.weight.{at}") for at in range(3)]
        # Powers of scores of 80 apart: an exponential's last digits, relative.
        np.testing.assert_allclose(shown, rivals.weigh(held).numpy(), rtol=1e-9, atol=1e-15)
        assert number(widget, f"{way}.second") == pytest.approx(float(held[1]), rel=1e-12)
    assert number(widget, "lid.slope") == 0
    slope = 1 - float((scores[0] / 20).tanh()) ** 2
    assert number(widget, "soft.slope") == pytest.approx(slope, rel=1e-6)


def test_heads_are_clipped_as_the_mechanism_clips(lesson: Any) -> None:
    widget = lesson.locator("#widget-clipping")
    move(widget, "largest.0", 320)
    move(widget, "threshold", 80)
    gamma = clip_factors([320.0, 90.0, 400.0, 150.0], 80.0)
    for keys, q, k in (("own", gamma.sqrt(), gamma.sqrt()), ("shared", gamma, torch.ones(4))):
        choose(widget, keys)
        for at in range(4):
            assert number(widget, f"gamma.{at}") == pytest.approx(gamma[at].item(), rel=1e-12)
            assert number(widget, f"q.{at}") == pytest.approx(q[at].item(), rel=1e-12)
            assert number(widget, f"k.{at}") == pytest.approx(k[at].item(), rel=1e-12)
            assert number(widget, f"after.{at}") == pytest.approx(80, rel=1e-12)
