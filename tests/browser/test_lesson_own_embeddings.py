"""Lesson 1 on the reader's own text: embeddings compared directly.

The referee takes them from the model's own table; the page has lengths and cosines alone.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from app_samples import Samples
from lessons_site import choose, faults, number
from own_page import STARTS, Open, check, drop, select
from own_truth import cosines_of, embeddings_of, nearest

from attnscope.trace import Trace

ROW = 50
BOTH = pytest.mark.parametrize("language", ["en", "zh"])


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_real_embeddings_are_compared_directly(
    on_own_text: Open, handouts: dict[int, str], long_trace: Trace, samples: Samples, start: int
) -> None:
    widget = on_own_text("01-embeddings", "cosine", handouts[start])
    vectors = embeddings_of(long_trace, samples.models["llama"])[start : start + 64]
    for way, cosines in (
        ("plain", cosines_of(vectors)), ("centred", cosines_of(vectors - vectors.mean(0))),
    ):  # fmt: skip
        choose(widget, way)
        line = cosines[ROW]
        keys = nearest(np.round(line, 8), ROW)
        check(widget, "cosine", line[keys])
        others = np.delete(line, ROW)
        assert number(widget, "mean") == pytest.approx(others.mean(), abs=1e-8)
    again = [at for at in range(64) if at != ROW
             and long_trace.tokens[start + at].id == long_trace.tokens[start + ROW].id]  # fmt: skip
    said = widget.locator('[data-name="verdict"]').inner_text()
    for at in again:
        assert f"{start + at + 1} " in said
    for name in ("layer", "head"):
        assert widget.locator(f'select[data-name="own.{name}"]').is_hidden()
    assert faults(widget.page) == []


def test_the_same_token_at_two_places_is_the_same_to_everybody(
    on_own_text: Open, handouts: dict[int, str], long_trace: Trace
) -> None:
    """What lesson 1 is about: cosine 1 with it, whoever asks, from wherever."""
    ids = [token.id for token in long_trace.tokens[:64]]
    [first, *others] = next(
        places for places in ([at for at, one in enumerate(ids) if one == id] for id in ids)
        if 2 <= len(places) <= 7
    )  # fmt: skip
    widget = on_own_text("01-embeddings", "cosine", handouts[0], row=first)
    bars = widget.locator(".bars .bar")
    shown = {int(bars.nth(at).locator(".name").inner_text().split()[0]) - 1:
             number(widget, f"cosine.{at}") for at in range(bars.count())}  # fmt: skip
    for at in (first, *others):
        assert shown[at] == pytest.approx(1, abs=1e-9)
    said = widget.locator('[data-name="verdict"]').inner_text()
    assert "same embedding" in said
    assert [f"{at + 1} " in said for at in others] == [True] * len(others)
    alone = next(at for at, one in enumerate(ids) if ids.count(one) == 1)
    select(widget, "row", alone)
    widget.get_by_text("Nothing is as much like a token as itself").wait_for()


@BOTH
def test_a_window_of_all_cosines_folds_along_its_diagonal(
    on_own_text: Open, handouts: dict[int, str], long_trace: Trace, samples: Samples
) -> None:
    widget = on_own_text("01-embeddings", "grid", handouts[36])
    vectors = embeddings_of(long_trace, samples.models["llama"])[36 : 36 + 64]
    window = range(ROW - 11, ROW + 1)
    for way, cosines in (
        ("plain", cosines_of(vectors)), ("centred", cosines_of(vectors - vectors.mean(0))),
    ):  # fmt: skip
        choose(widget, way)
        for i in window:
            shown = [number(widget, f"g.{i}.{j}") for j in window]
            np.testing.assert_allclose(shown, cosines[i, list(window)], atol=1e-8)
            assert shown == [number(widget, f"g.{j}.{i}") for j in window]
    cell = widget.locator("button.cell").nth(1)
    cell.click()
    pair = widget.locator('[data-name="pair"]').inner_text()
    assert pair.count(cell.inner_text()) == 2  # the other way round: always the same


def test_rows_without_a_direction_are_said(on_own_text: Open, handouts: dict[int, str]) -> None:
    """An embedding of zeros, and tokens that are all the same."""
    said = json.loads(handouts[0])
    n = 64
    said["embeddings"] = {"norms": [2.0] * n, "cosines": [[1] * n] * n}
    widget = on_own_text("01-embeddings", "cosine", json.dumps(said))
    widget.get_by_text("…").wait_for()  # the names of so many others are not all written
    choose(widget, "centred")
    widget.get_by_text("nothing is left of this embedding").wait_for()
    said["embeddings"]["norms"][ROW] = 0
    said["embeddings"]["cosines"] = [
        [None if ROW in (i, j) else 1 for j in range(n)] for i in range(n)
    ]
    drop(widget, json.dumps(said))
    select(widget, "row", ROW)
    widget.get_by_text("all zeros").wait_for()
