"""What widgets on a reader's own text say without a number: verdicts, marks, squares, wishes.

Not here: the numbers (test_lesson_own.py, test_lesson_own_places.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_samples import Samples
from lessons_site import choose, move, number, opened
from own_page import drop, select
from own_truth import cosines_of, embeddings_of, head_of

import attnscope
from attnscope import tiles
from attnscope.trace import Trace

HEADS = [(2, 3), (2, 2), (0, 3), (3, 0)]
"""Of the first three, all read group 1 of their layer's keys, and the third in another layer."""
ROW = 50

Open = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def trace(samples: Samples) -> Trace:
    return attnscope.open(samples.traces["llama-long"])


@pytest.fixture
def own(page: Any, site: Path, trace: Trace) -> Open:
    """A widget on the text's first tokens, with the row that asks where it asks for one."""

    def go(slug: str, id: str) -> Any:
        opened(page, site, "en", slug)
        widget = page.locator(f"#widget-{id}")
        drop(widget, json.dumps(tiles.handout(trace, HEADS, start=0)))
        widget.and_(page.locator(".of-own")).wait_for()
        if widget.locator('select[data-name="own.row"]').is_visible():
            select(widget, "row", ROW)
        return widget

    return go


def said(widget: Any) -> str:
    return str(widget.locator('[data-name="verdict"]').inner_text())


def marks(one: Any) -> str:
    return str(one.get_attribute("class"))


def test_every_head_is_a_square_at_its_layer_and_as_dark_as_its_first_weight(
    own: Open, trace: Trace
) -> None:
    widget = own("13-reading", "census")
    squares = widget.locator("svg.census > rect:not(.ring)")
    kinds = trace.kinds()
    places = squares.evaluate_all(
        "(all) => all.map((one) => [Number(one.getAttribute('x')), Number(one.getAttribute('y'))])"
    )
    first = places[0]
    assert places == [[first[0] + 20 * one.layer, first[1] + 20 * one.head] for one in kinds]
    assert [marks(one) for one in squares.all()] == [f"kind-{one.kind}" for one in kinds]
    choose(widget, "first")
    for square, one in zip(squares.all(), kinds, strict=True):
        weight = trace.layer(one.layer).statistic("sink_mass")[one.head].mean()
        shown = float(square.get_attribute("fill-opacity"))
        assert shown == pytest.approx(weight, abs=5.1e-4)
    [at] = [at for at, one in enumerate(kinds) if (one.layer, one.head) == (3, 1)]
    squares.nth(at).click()
    for name, value in (("layer", "3"), ("head", "1")):
        slider = widget.locator(f'input[type="range"][data-name="{name}"]')
        assert slider.input_value() == value
    assert number(widget, "chosen.share") == pytest.approx(kinds[at].share, rel=1e-6)


def test_heads_share_keys_in_one_layer_alone(own: Open, trace: Trace) -> None:
    widget = own("09-grouped", "share")
    assert len({head * trace.layer(layer).info.kv_heads // trace.layer(layer).info.query_heads
                for layer, head in HEADS[:3]}) == 1  # fmt: skip
    for other, words in (("2.2", "both heads read the same"), ("0.3", "of their own"),
                         ("3.0", "of their own")):  # fmt: skip
        select(widget, "other", other)
        widget.locator('[data-name="verdict"]', has_text=words).wait_for()


def test_a_square_of_scores_is_marked_by_sign_and_size(own: Open, trace: Trace) -> None:
    widget = own("02-projections", "grid")
    scores = head_of(trace, 2, 3).scores
    window = range(ROW - 11, ROW + 1)
    largest = np.abs(scores[window.start : window.stop, window.start : window.stop]).max()
    for i in window:
        for j in window:
            cell = widget.locator(f'output[data-name="g.{i}.{j}"]')
            assert ("negative" in marks(cell)) is bool(scores[i, j] < 0)
            heat = cell.evaluate("(one) => one.style.getPropertyValue('--heat')")
            assert float(heat.rstrip("%")) == pytest.approx(
                100 * abs(scores[i, j]) / largest, abs=1
            )
    cells = widget.locator("button.cell")
    cells.nth(12 + 4).click()
    pair = widget.locator('[data-name="pair"]').inner_text()
    there, back = (cells.nth(at).inner_text() for at in (12 + 4, 4 * 12 + 1))
    assert there != back
    assert pair.index(f": {there}") < pair.index(f": {back}")
    assert pair.startswith(f"{window[1] + 1} ")


def test_rows_that_stand_still_are_good(own: Open) -> None:
    widget = own("08-cache", "still")
    move(widget, "tokens", 20)
    for mask, mark in (("before", "good"), ("none", "bad")):
        choose(widget, mask)
        assert mark in marks(widget.locator('[data-name="verdict"]'))
    rows = widget.locator("table tbody tr th").all_inner_texts()
    assert [int(one.split()[0]) for one in rows] == list(range(9, 21))


def test_tokens_are_named_from_the_most_alike_to_the_least(
    own: Open, trace: Trace, samples: Samples
) -> None:
    widget = own("01-embeddings", "cosine")
    line = cosines_of(embeddings_of(trace, samples.models["llama"])[:64])[ROW]
    order = widget.locator('[data-name="best"]').inner_text().partition(":")[2]
    named = [int(one) - 1 for one in order.replace(".", " ").split() if one.isdigit()]
    shown = [at for at in named if at < 64]
    assert shown[0] == ROW
    assert [line[at] for at in shown] == sorted((line[at] for at in shown), reverse=True)


def test_two_heads_that_want_one_token_get_all_of_it_twice(own: Open) -> None:
    widget = own("07-heads", "jobs")
    choose(widget, "0", 0)
    choose(widget, "0", 1)
    assert number(widget, "best") == 2
    verdict = widget.locator('[data-name="verdict"]')
    for value in (-12, 12):
        move(widget, "score.0.0", value)
        assert said(widget).startswith("Both want")
        assert "good" not in marks(verdict)
        assert "bad" not in marks(verdict)
    choose(widget, "1", 1)
    assert number(widget, "best") == 1


def test_vectors_of_one_direction_and_another_length_are_not_called_the_same(
    page: Any, site: Path, trace: Trace
) -> None:
    said_ = tiles.handout(trace, HEADS, start=0)
    cosines = np.eye(64)
    cosines[ROW, 7] = cosines[7, ROW] = cosines[ROW, 9] = cosines[9, ROW] = 1
    norms = np.full(64, 2.0)
    norms[9] = 3
    said_["embeddings"] = {"norms": norms.tolist(), "cosines": cosines.tolist()}
    widget = opened(page, site, "en", "01-embeddings").locator("#widget-cosine")
    drop(widget, json.dumps(said_))
    select(widget, "row", ROW)
    widget.locator('[data-name="verdict"]', has_text="has the same embedding").wait_for()
    assert said(widget).startswith("8 ")


def test_a_real_pairs_chart_holds_its_lines_and_says_the_distance(own: Open, trace: Trace) -> None:
    widget = own("06-rope", "far")
    weights = head_of(trace, 2, 3).weights[ROW]
    for key in np.argsort(-weights, kind="stable")[:2]:
        choose(widget, str(key), 0)
        names = widget.locator("dl.facts dt").all_inner_texts()
        assert f"Score in the model, at the distance {ROW - key}" in names
        ends = widget.locator("svg.chart text[text-anchor=end]")
        low, high = (float(ends.nth(at).get_attribute("y")) - 4 for at in (2, 0))
        for line in widget.locator("svg.chart path.law, svg.chart path.second").all():
            heights = [float(one) for one in re.findall(r" (-?[\d.]+)", line.get_attribute("d"))]
            assert high - 0.1 <= min(heights)
            assert max(heights) <= low + 0.1


def test_names_in_the_sentences_of_a_row_stand_before_its_tokens(own: Open, trace: Trace) -> None:
    """What the widget says is said of A, B and C."""
    widget = own("03-softmax", "properties")
    names = widget.locator(".bars .bar .name").all_inner_texts()
    keys = head_of(trace, 2, 3).named(ROW, 5)
    assert [one.split()[:2] for one in names[:5]] == [
        [f"{letter}:", str(key + 1)] for letter, key in zip("ABCDE", keys, strict=True)
    ]
