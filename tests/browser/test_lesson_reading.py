"""The widgets on reading a real model show what was captured and what Python computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lessons_site import choose, move, number, opened

from attnscope.lessons import reading
from attnscope.lessons.circuit import circuit


@pytest.fixture
def lesson(page: Any, site: Path, language: str) -> Any:
    return opened(page, site, language, "13-reading")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("half", [0.5, 0.3])
def test_the_census_counts_as_the_rules_do(lesson: Any, half: float) -> None:
    widget, heads = lesson.locator("#widget-census"), reading.kept()["heads"]
    move(widget, "half", half)
    kinds = [reading.kind_of(one, half=half) for one in heads]
    for kind in (*reading.ASKED, "mixed"):
        assert number(widget, f"count.{kind}") == kinds.count(kind)
        costs = [one["cost"] for one, its in zip(heads, kinds, strict=True) if its == kind]
        if costs:
            shown = number(widget, f"cost.{kind}")
            assert shown == pytest.approx(np.mean(costs), rel=1e-9, abs=1e-12)
    assert widget.locator("rect.kind-sink").count() == kinds.count("sink")


def test_a_head_is_chosen_by_sliders_and_by_its_square(lesson: Any) -> None:
    widget, heads = lesson.locator("#widget-census-cost"), reading.kept()["heads"]
    move(widget, "layer", 17)
    move(widget, "head", 5)
    one = heads[17 * 9 + 5]
    for name, value in (("cost", one["cost"]), ("first", one["first"]),
                        ("arrived", one["first_arrived"])):  # fmt: skip
        assert number(widget, f"chosen.{name}") == value
    assert "induction" in widget.locator('[data-name="which"]').inner_text()
    widget.locator("svg rect:not(.ring)").nth(23 * 9 + 3).click()
    assert number(widget, "chosen.cost") == heads[23 * 9 + 3]["cost"]
    assert widget.locator('input[type="range"][data-name="layer"]').input_value() == "23"
    below = sum(one["cost"] < 0 for one in heads)
    assert widget.locator("rect.below").count() == below


@pytest.mark.parametrize("language", ["en", "zh"])
def test_rows_are_shown_by_weight_and_by_what_arrives(lesson: Any) -> None:
    widget, maps = lesson.locator("#widget-reading"), reading.kept()["maps"]
    for at, row in ((0, 20), (len(maps) - 1, 38), (2, 38)):
        choose(widget, str(at))
        move(widget, "row", row)
        weights = np.array(maps[at]["weights"][row - 1])
        arrived = weights * np.array(maps[at]["norms"][:row])
        even = arrived.sum() / np.mean(maps[at]["norms"][:row])
        assert number(widget, "all") == pytest.approx(even, rel=1e-9)
        arrived /= arrived.sum()
        assert number(widget, "first.weight") == pytest.approx(weights[0], rel=1e-9)
        assert number(widget, "first.arrived") == pytest.approx(arrived[0], rel=1e-9)
        for by, values in (("weight", weights), ("arrived", arrived)):
            choose(widget, by, 1)
            for key in np.argsort(-values, kind="stable")[:8]:
                assert number(widget, f"weight.{key}") == pytest.approx(weights[key], rel=1e-9)
                assert number(widget, f"arrived.{key}") == pytest.approx(arrived[key], rel=1e-9)
    assert widget.locator(".word").all_inner_texts() == reading.kept()["tokens"]
    assert widget.locator(".word.asker").count() == 1


def test_the_circuit_follows_what_is_typed(lesson: Any) -> None:
    one, two = lesson.locator("#widget-circuit-one"), lesson.locator("#widget-circuit")
    for widget, layers in ((one, False), (two, True)):
        for text, sharpness in (("x y z x", 8.0), ("to Wang to Zhao to", 20.0)):
            widget.locator('[data-name="tokens"]').fill(text)
            move(widget, "sharpness", sharpness)
            weights, names, says = circuit(text.split(), sharpness, two=layers)
            shown = [number(widget, f"weight.{at}") for at in range(len(weights))]
            np.testing.assert_allclose(shown, weights, rtol=0, atol=1e-9)
            shown = [number(widget, f"next.{at}") for at in range(len(names))]
            np.testing.assert_allclose(shown, says, rtol=0, atol=1e-9)
    choose(one, "two")
    assert number(one, "next.1") == pytest.approx(0.5, abs=1e-6)
    one.locator('[data-name="tokens"]').fill("x")
    assert one.locator('[data-name="verdict"]').inner_text()
