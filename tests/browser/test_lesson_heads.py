"""Lesson 7 in Chromium: what its widgets show is what Python computes on the same inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lessons_site import SHOWN, choose, move, number, numbers, opened

from attnscope.lessons import figures, several, world
from attnscope.lessons.site import values


@pytest.fixture
def lesson(page: Any, site: Path) -> Any:
    return opened(page, site, "zh", "07-heads")


def test_one_row_stops_where_python_says_and_two_do_not(lesson: Any) -> None:
    widget = lesson.locator("#widget-jobs")
    verdict = widget.locator('[data-name="verdict"]')
    nearest = values.field("convex/nearest_distance")
    assert number(widget, "best") == nearest
    # The sentence's own scores are shown to two decimals.
    own = values.field("convex/one_head_distance")
    assert number(widget, "distance") == pytest.approx(own, abs=0.005)
    best = np.log(np.maximum(values.experiment("convex")["nearest_weights"], 1e-9))
    for at, score in enumerate(np.clip(best - best.max(), -12, 12).round(2)):
        move(widget, f"score.0.{at}", float(score))
    assert nearest - SHOWN <= number(widget, "distance") < nearest + 0.02
    assert "bad" in str(verdict.get_attribute("class"))
    choose(widget, "two")
    scores = [[10.0, -3.0, 0.5, 0.0], [-10.0, 0.0, 9.5, 2.0]]
    for head, row in enumerate(scores):
        for at, score in enumerate(row):
            move(widget, f"score.{head}.{at}", score)
    fetched, distance = several.two_jobs(world.load(), scores, giver=0, thing=2)
    np.testing.assert_allclose(numbers(widget, "fetched", 4), fetched, rtol=0, atol=SHOWN)
    assert number(widget, "distance") == pytest.approx(distance, abs=SHOWN)
    assert "good" in str(verdict.get_attribute("class"))
    widget.locator('[data-name="reset"]').press("Enter")
    for head in (0, 1):
        wanted = world.load().weights(head)[3, :4]
        np.testing.assert_allclose(numbers(widget, f"weight.{head}", 4), wanted, atol=0.002)


def test_heads_are_read_from_the_teaching_sentence(lesson: Any) -> None:
    widget = lesson.locator("#widget-weights")
    columns = widget.locator(".switch").nth(2).locator("button")
    for head, name, at in ((0, "world.heads.a", 0), (1, "world.heads.b", 2)):
        columns.nth(head + 1).click()
        assert 100 * number(widget, f"weight.{at}") == pytest.approx(figures.get(name).value)


def test_widths_cost_what_a_module_counts(lesson: Any) -> None:
    widget = lesson.locator("#widget-widths")
    assert number(widget, "joined") == figures.get("shape.qwen306b.q_width").value
    before = [number(widget, name) for name in ("parameters", "projections", "pairs")]
    widget.locator('[data-name="one"]').click()
    assert [number(widget, name) for name in ("parameters", "projections", "pairs")] == before
    assert number(widget, "softmaxes") == 4096
    widget.locator('[data-name="quotient"]').press("Enter")
    assert number(widget, "parameters") == before[0] / 2
    for name, value in (("model", 5120), ("heads", 24), ("width", 256)):
        move(widget, name, value)
    parameters, projections, pairs = several.head_costs(5120, 24, 256, 4096)
    assert number(widget, "parameters") == parameters
    assert 2 * number(widget, "projections") == projections
    assert 2 * number(widget, "pairs") == pairs
    assert number(widget, "root") == figures.get("shape.qwen38.scale").value


@pytest.mark.parametrize("way", several.WAYS)
def test_ways_to_take_nothing_are_those_of_python(lesson: Any, way: several.Way) -> None:
    widget = lesson.locator("#widget-nothing")
    choose(widget, way)
    found = world.load().v[:3]
    for scores, at in (((0.04, 0.36, 0.0), 1.5), ((8.0, -1.0, 0.5), 4.0), ((-6.0, -5.0, -4.0), -2)):
        for place, score in enumerate(scores):
            move(widget, f"score.{place}", score)
        move(widget, "number", at)
        fetched, kept = several.taking_nothing(scores, found, way=way, number=at)
        assert number(widget, "kept") == pytest.approx(kept, abs=SHOWN)
        assert number(widget, "size") == pytest.approx(np.linalg.norm(fetched), abs=SHOWN)
        plain, _ = several.taking_nothing(scores, found, way="none", number=0)
        assert number(widget, "plain") == pytest.approx(np.linalg.norm(plain), abs=SHOWN)
    beside = widget.locator(".bars > .bar").last
    assert beside.is_visible() is (way not in ("none", "gate"))


def test_the_flow_has_two_heads_from_here_on(lesson: Any) -> None:
    shapes = lesson.locator(".flow li.known .small code").all_inner_texts()
    assert shapes.count("2 × 5 × 5") == 4
    new = lesson.locator(".flow li.now")
    assert new.count() == 2
    assert new.locator(".small code").all_inner_texts() == ["–", "5 × 4"]
    lesson.locator('.flow button[data-shape="real"]').click()
    said = new.first.locator(".real").inner_text()
    assert figures.get("shape.qwen38.gate").text["en"] in said
