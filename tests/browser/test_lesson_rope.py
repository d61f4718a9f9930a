"""Lesson 6 in Chromium: what its widgets show is what Python computes on the same inputs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lessons_site import SHOWN, choose, move, number, numbers, opened

from attnscope.lessons import figures, places, world
from attnscope.lessons.experiments import rotary
from attnscope.lessons.site.values import field


@pytest.fixture
def lesson(page: Any, site: Path) -> Any:
    return opened(page, site, "en", "06-rope")


def test_shuffled_words_keep_their_weights_without_positions(lesson: Any) -> None:
    widget = lesson.locator("#widget-order-plain")
    for at in (0, 1, 0):
        widget.locator(f'[data-name="swap.{at}"]').click()
        assert widget.locator('[data-name="verdict"]').inner_text().startswith("Another place")
        found = numbers(widget, "weight", 5)
        np.testing.assert_allclose(found, world.load().weights()[3], rtol=0, atol=SHOWN)
        assert number(widget, "fetched") < SHOWN
    assert widget.locator(".sentence").inner_text().split()[1:3] == ["the", "apple"]


def test_the_sentence_notices_its_order_with_positions(lesson: Any) -> None:
    widget = lesson.locator("#widget-order")
    widget.locator('[data-name="swap.0"]').click()
    for way in places.WAYS:
        choose(widget, way)
        for start in (0, 150):
            move(widget, "start", start)
            weights, output = places.placed_row(
                world.load(), [1, 0, 2, 3, 4], 3, way=way, start=start
            )
            np.testing.assert_allclose(numbers(widget, "weight", 5), weights, rtol=0, atol=SHOWN)
            before, fetched = places.placed_row(world.load(), range(5), 3, way=way, start=0)
            moved = np.abs(weights - before).max()
            assert number(widget, "moved") == pytest.approx(moved, abs=SHOWN)
            apart = np.linalg.norm(output - fetched)
            assert number(widget, "fetched") == pytest.approx(apart, abs=SHOWN)
    widget.locator('[data-name="reset"]').click()
    choose(widget, "rotated")
    move(widget, "start", 77)
    assert number(widget, "moved") < SHOWN
    choose(widget, "added")
    assert number(widget, "moved") > 0.001


def test_arrows_turn_by_their_positions(lesson: Any) -> None:
    widget = lesson.locator("#widget-turn")
    for name, value in (("i", 9), ("j", 4), ("degrees", 15), ("between", -30)):
        move(widget, name, value)
    wanted = 1.5 * 2 * math.cos(math.radians(-30 + 5 * 15))
    assert number(widget, "product") == pytest.approx(wanted, rel=1e-12)
    for _ in range(3):
        widget.locator('[data-name="both"]').click()
    assert [number(widget, name) for name in ("turned_q", "turned_k", "between")] == [180, 105, 45]
    assert number(widget, "product") == pytest.approx(wanted, rel=1e-12)
    widget.locator('[data-name="back"]').press("Enter")
    assert number(widget, "turned_k") == 90


@pytest.mark.parametrize("way", places.WAYS)
def test_scores_at_two_places_are_those_of_python(lesson: Any, way: places.Way) -> None:
    widget = lesson.locator("#widget-far")
    choose(widget, way)
    for rotary_width in (64, 16):
        choose(widget, str(rotary_width), 1)
        for name, value in (("seed", 7), ("start", 650), ("distance", 12)):
            move(widget, name, value)
        here, there = (
            places.scores_by_distance(
                7, 64, rotary=rotary_width, theta=1e4, way=way, start=start, count=65
            )
            for start in (0, 650)
        )  # fmt: skip
        assert number(widget, "here") == pytest.approx(here[12], abs=SHOWN)
        assert number(widget, "there") == pytest.approx(there[12], abs=SHOWN)
        apart = np.abs(here - there).max()
        assert number(widget, "apart") == pytest.approx(apart, abs=SHOWN)
    said = widget.locator('[data-name="verdict"]').inner_text()
    begins = {"none": "Level", "added": "Two lines", "rotated": "One line"}
    assert said.startswith(begins[way])


def test_clocks_run_at_the_papers_frequencies(lesson: Any) -> None:
    widget = lesson.locator("#widget-clocks")
    move(widget, "position", 1000)
    move(widget, "power", 6)
    turns = places.rope(16, 1e6).frequencies
    for at, turn in enumerate(turns):
        assert number(widget, f"angle.{at}") == pytest.approx(
            math.degrees(math.fmod(1000 * turn, 2 * math.pi)), abs=1e-8
        )
        assert number(widget, f"circle.{at}") == pytest.approx(2 * math.pi / turn, rel=1e-12)
    assert number(widget, "circle.0") == figures.get("rope.circle.fastest").value


def test_a_move_changes_what_a_turned_value_brings(lesson: Any) -> None:
    widget = lesson.locator("#widget-moved")
    for move_by, seed in ((10, 3), (1000, 42)):
        move(widget, "move", move_by)
        move(widget, "seed", seed)
        wanted = places.moved_outputs(seed, width=16, tokens=8, move=move_by)
        found = numbers(widget, "change", 3)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=SHOWN)
        assert found[0] < SHOWN > found[2]
        assert found[1] > 0.1


def test_the_numbers_in_the_text_say_what_the_text_says() -> None:
    """Indices of the record that the lesson names are the distances and moves it speaks of."""
    found = rotary.run()
    size = len(found.scores)
    for column, distance in ((47, 0), (52, 5)):
        assert column - (size - 1) == distance
        assert field(f"rotary/by_distance/{column}") == found.by_distance[column]
    assert found.moves.tolist() == [1, 10, 100, 1000]
    assert found.by_distance[52] > found.by_distance[47]
    assert (found.weight_change < 1e-14).all()
    assert field("rotary/scores/26/21") == pytest.approx(found.scores[47, 42], abs=1e-9)
