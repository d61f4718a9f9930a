"""Lessons 6 and 7 on the reader's own text: tokens that change places, and two heads' jobs.

The referee has the model's config, by which attnscope.positions turns queries and keys back; the
page has the handout alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_samples import SHORT, Samples, make_model, make_tokenizer
from lessons_site import choose, move, number, numbers, opened
from own_page import HEADS, STARTS, Open, check, drop, select
from own_truth import (
    Head,
    Placed,
    cosines_of,
    embeddings_of,
    gathered,
    head_of,
    nearest,
    placed_of,
    softmax,
)  # fmt: skip

import attnscope
from attnscope import tiles
from attnscope.tiles.handouts import clearest
from attnscope.trace import Trace

ROW = 50
BOTH = pytest.mark.parametrize("language", ["en", "zh"])
NEAR = 1e-8
"""Angles of a thousand radians, and frequencies of nine digits that are multiplied by them."""


def swapped(widget: Any, at: int) -> None:
    widget.locator(f'[data-name="swap.{at}"]').click()


class Row:
    """A row whose last tokens stand in another order, or further down, by the definition."""

    def __init__(self, head: Head, placed: Placed, row: int) -> None:
        self.head, self.placed, self.row = head, placed, row
        self.window = list(range(row - 5, row + 1))

    def turned(self, order: list[int], shift: int = 0) -> np.ndarray:
        """Weights of the window's tokens and of all others, positions told."""
        whole = list(range(self.row + 1))
        places = whole.copy()
        for place, token in zip(self.window, order, strict=True):
            places[token] = place
        scores = self.placed.scores(
            self.row, self.row + shift, whole, [place + shift for place in places]
        )
        weights = softmax(scores)
        shown = weights[self.window]
        return np.array([*shown, 1 - shown.sum()])

    def untold(self) -> np.ndarray:
        """The same of the part alone, positions told to nobody."""
        keys = list(range(self.head.start, self.row + 1))
        weights = softmax(self.placed.untold(self.row, keys))
        shown = weights[np.array(self.window) - self.head.start]
        return np.array([*shown, 1 - shown.sum()])


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_a_real_row_notices_its_order_but_not_its_place(
    on_own_text: Open, handouts: dict[int, str], long_trace: Trace, samples: Samples, start: int
) -> None:
    widget = on_own_text("06-rope", "order", handouts[start])
    head, row = head_of(long_trace, *HEADS[0], start), start + ROW
    truth = Row(head, placed_of(long_trace, samples.models["llama"], *HEADS[0]), row)
    before = truth.turned(truth.window)
    np.testing.assert_allclose(before[:-1], head.weights[row, truth.window], rtol=1e-4)
    np.testing.assert_allclose(numbers(widget, "weight", 7), before, rtol=1e-5, atol=NEAR)
    assert number(widget, "moved") == 0
    order = truth.window.copy()
    for at in (0, 1, 3):
        swapped(widget, at)
        order[at], order[at + 1] = order[at + 1], order[at]
    now = truth.turned(order)
    np.testing.assert_allclose(numbers(widget, "weight", 7), now, rtol=1e-5, atol=NEAR)
    assert number(widget, "moved") == pytest.approx(np.abs(now - before).max(), abs=1e-7)
    assert number(widget, "moved") > 1e-3
    move(widget, "move", 900)
    further = truth.turned(order, 900)
    np.testing.assert_allclose(further, now, atol=1e-4)  # frequencies of float32, in the referee
    np.testing.assert_allclose(numbers(widget, "weight", 7), now, rtol=1e-5, atol=NEAR)
    assert 0 < number(widget, "shifted") < 1e-9
    assert str(row + 901) in widget.locator(".sentence").inner_text()
    widget.locator('[data-name="reset"]').click()
    move(widget, "move", 900)
    assert number(widget, "moved") < 1e-9
    said = widget.locator('[data-name="verdict"]').inner_text()
    assert said in ("Another place, and nothing changed at all.", "换了地方，什么都没变。")


@BOTH
@pytest.mark.parametrize(("start", "id"), [(0, "order-plain"), (36, "order-plain"), (36, "order")])
def test_a_real_row_is_a_bag_of_words_where_positions_are_not_told(
    on_own_text: Open,
    handouts: dict[int, str],
    long_trace: Trace,
    samples: Samples,
    start: int,
    id: str,
) -> None:
    widget = on_own_text("06-rope", id, handouts[start])
    if id == "order":
        choose(widget, "none")
    head, row = head_of(long_trace, *HEADS[0], start), start + ROW
    truth = Row(head, placed_of(long_trace, samples.models["llama"], *HEADS[0]), row)
    for at in (None, 2, 0):
        if at is not None:
            swapped(widget, at)
        np.testing.assert_allclose(
            numbers(widget, "weight", 7), truth.untold(), rtol=1e-4, atol=NEAR
        )
        assert number(widget, "moved") == 0
    note = widget.locator('[data-name="left"]').inner_text()
    left = 100 * head.weights[row, :start].sum()
    assert (f"{left:.1f} %" in note and str(start) in note) is (start > 0)


@BOTH
def test_a_real_pair_scores_by_its_distance_alone(
    on_own_text: Open, handouts: dict[int, str], long_trace: Trace, samples: Samples
) -> None:
    widget = on_own_text("06-rope", "far", handouts[36])
    head, row = head_of(long_trace, *HEADS[0], 36), 36 + ROW
    placed = placed_of(long_trace, samples.models["llama"], *HEADS[0])
    for key in head.named(row, 5):
        choose(widget, str(key - 36), 0)
        shown = widget.locator('input[type="range"][data-name="distance"]').input_value()
        assert int(shown) == row - key
        real = head.scores[row, key]
        for name in ("real", "here", "there"):
            assert number(widget, name) == pytest.approx(real, rel=1e-6, abs=1e-6)
        move(widget, "start", 900)
        move(widget, "distance", 7)
        [wanted] = placed.scores(row, 7, [key], [0])
        assert number(widget, "here") == pytest.approx(wanted, abs=1e-5)
        assert number(widget, "there") == pytest.approx(number(widget, "here"), abs=1e-9)
        assert number(widget, "apart") < 1e-9
        choose(widget, "none")
        [wanted] = placed.untold(row, [key])
        for distance in (0, 33):
            move(widget, "distance", distance)
            assert number(widget, "here") == pytest.approx(wanted, abs=1e-5)
        said = widget.locator('[data-name="verdict"]').inner_text()
        assert said.startswith(("Level", "一条平线"))
        choose(widget, "rotated")


def jobs_of(trace: Trace, start: int, row: int) -> tuple[list[Head], list[int], list[np.ndarray]]:
    """Two heads, the three keys that each gives most to, and each row's scores: named, the rest."""
    heads = [head_of(trace, *HEADS[at], start) for at in (0, 1)]
    keys = sorted({key for head in heads for key in head.named(row, 3)})
    return heads, keys, [head.parts(row, keys) for head in heads]


def test_two_heads_with_one_favourite_begin_with_two_wishes(
    page: Any, site: Path, handouts: dict[int, str], long_trace: Trace
) -> None:
    heads = [head_of(long_trace, *HEADS[at]) for at in (0, 1)]
    best = [head.weights[:64].argmax(1) for head in heads]
    row = next(at for at in range(4, 64) if best[0][at] == best[1][at])
    opened(page, site, "en", "07-heads")
    widget = page.locator("#widget-jobs")
    drop(widget, handouts[0])
    widget.locator('[data-name="got.A"]').wait_for()
    select(widget, "other", f"{HEADS[1][0]}.{HEADS[1][1]}")
    select(widget, "row", row)
    first, second = jobs_wishes(heads, row)
    keys = sorted({key for head in heads for key in head.named(row, 3)})
    pressed = widget.locator('.switch [aria-pressed="true"]')
    chosen = [pressed.nth(at).get_attribute("data-choice") for at in (0, 1)]
    assert chosen == [str(keys.index(first)), str(keys.index(second))]
    assert number(widget, "best") == 1


def jobs_wishes(heads: list[Head], row: int, start: int = 0) -> tuple[int, int]:
    """The first head's largest key, and the second's largest of the others."""
    first = int(heads[0].weights[row, start:].argmax()) + start
    order = np.argsort(-heads[1].weights[row, start:], kind="stable") + start
    return first, next(int(key) for key in order if key != first)


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_one_row_serves_two_real_heads_up_to_a_hundred_percent(
    on_own_text: Open, handouts: dict[int, str], long_trace: Trace, start: int
) -> None:
    widget = on_own_text("07-heads", "jobs", handouts[start])
    select(widget, "other", "0.1")
    select(widget, "row", ROW)
    row = start + ROW
    heads, keys, rows = jobs_of(long_trace, start, row)
    first, second = jobs_wishes(heads, row, start)
    wants = [keys.index(first), keys.index(second)]
    count = len(keys)
    common = softmax((rows[0] + rows[1]) / 2)
    check(widget, "weight.0", gathered(common, count))
    got = [common[at] for at in wants]
    assert number(widget, "got.A") == pytest.approx(got[0], rel=1e-6)
    assert number(widget, "got.B") == pytest.approx(got[1], rel=1e-6)
    assert number(widget, "together") == pytest.approx(sum(got), rel=1e-6)
    real = [softmax(scores) for scores in rows]
    own_two = real[0][wants[0]] + real[1][wants[1]]
    assert number(widget, "real") == pytest.approx(own_two, rel=1e-6)
    # Different wishes: whatever the scores, one row has 100 % for both.
    other = next(at for at in range(count) if at != wants[0])
    choose(widget, str(other), 1)
    for value in (-12, 12):
        for at in range(count):
            move(widget, f"score.0.{at}", value if at in (wants[0], other) else -12)
            assert number(widget, "together") <= 1 + 1e-12
    verdict = widget.locator('[data-name="verdict"]')
    assert "bad" in str(verdict.get_attribute("class"))
    assert number(widget, "best") == 1
    choose(widget, "two", 2)
    for which in (0, 1):
        check(widget, f"weight.{which}", gathered(real[which], count))
    for which, wish in ((0, wants[0]), (1, other)):
        for at in range(count):
            move(widget, f"score.{which}.{at}", 12 if at == wish else -12)
    assert 1.9 < number(widget, "together") <= 2
    assert number(widget, "best") == 2
    choose(widget, str(wants[0]), 1)
    said = verdict.inner_text()
    assert said.startswith(("Both want", "两个头都要"))
    widget.locator('[data-name="reset"]').click()
    check(widget, "weight.1", gathered(real[1], count))


LACKS: dict[str, tuple[str, str, Callable[[dict[str, Any]], object], str]] = {
    "old embeddings": ("01-embeddings", "cosine", lambda v: v.pop("embeddings"),
                       "before attnscope wrote embeddings"),
    "no embeddings": ("01-embeddings", "grid", lambda v: v.update(embeddings=None),
                      "holds no embeddings"),
    "old": ("06-rope", "far", lambda v: v["heads"][0].pop("rotary"),
            "before attnscope wrote queries and keys"),
    "unknown": ("06-rope", "order", lambda v: v["heads"][0].update(rotary=None),
                "Layer 2, head 3: how its queries and keys were turned is not known"),
    "biased": ("06-rope", "order-plain",
               lambda v: v["heads"][0]["rotary"]["q"][60].__setitem__(0, 9.0),
               "Layer 2, head 3: its scores are not made of queries and keys alone"),
}  # fmt: skip


@pytest.mark.parametrize("case", LACKS)
def test_numbers_that_are_not_there_are_a_sentence_and_another_head_a_way_out(
    page: Any, site: Path, handouts: dict[int, str], case: str
) -> None:
    slug, id, damage, sentence = LACKS[case]
    said = json.loads(handouts[0])
    damage(said)
    opened(page, site, "en", slug)
    widget = page.locator(f"#widget-{id}")
    before = widget.locator(".stand").inner_html()
    drop(widget, json.dumps(said))
    widget.locator(".own .fault", has_text=sentence).wait_for()
    assert widget.locator(".stand").inner_html() == before
    assert "of-own" not in str(widget.get_attribute("class"))
    if id.startswith(("far", "order")):
        select(widget, "head", 2)
        widget.and_(page.locator(".of-own")).wait_for()
        assert widget.locator(".own .fault").inner_text() == ""
        shown = widget.locator(".stand").inner_html()
        select(widget, "head", 3)
        widget.locator(".own .fault", has_text=sentence).wait_for()
        assert widget.locator(".stand").inner_html() == shown
    # The text can be used all the same: the other experiments offer it.
    opened(page, site, "zh", "04-masking")
    assert "small llama" in page.locator('#widget-hide [data-name="own"]').inner_text()


def test_two_jobs_need_two_heads(page: Any, site: Path, long_trace: Trace) -> None:
    opened(page, site, "en", "07-heads")
    widget = page.locator("#widget-jobs")
    drop(widget, json.dumps(tiles.handout(long_trace, HEADS[:1], start=0)))
    widget.locator(".own .fault", has_text="one head alone").wait_for()
    assert "of-own" not in str(widget.get_attribute("class"))


def test_a_layer_that_turns_nothing_is_told_of_no_order(
    on_own_text: Open, long_trace: Trace
) -> None:
    """As it would be in a model without positions: the numbers are there, the angles are not."""
    said = tiles.handout(long_trace, HEADS, start=36)
    said["heads"][0]["rotary"]["turns"] = []
    widget = on_own_text("06-rope", "order", json.dumps(said))
    head, row = head_of(long_trace, *HEADS[0], 36), 36 + ROW
    wanted = head.weights[row, row - 5 : row + 1]
    for way in ("rotated", "none"):
        choose(widget, way)
        swapped(widget, 1)
        check(widget, "weight", [*wanted, 1 - wanted.sum()])
        assert number(widget, "moved") == 0
    assert widget.get_by_text("This layer turns no query").is_visible()
    widget = on_own_text("06-rope", "far", json.dumps(said))
    assert widget.locator('[data-name="verdict"]').inner_text().startswith("Level")


@pytest.mark.parametrize("family", ["glm", "stablelm"])
def test_heads_of_which_a_part_turns(
    on_own_text: Open, tmp_path: Path, family: str, site: Path
) -> None:
    """Half of a head in neighbouring pairs, and a quarter in halves."""
    tokenizer = make_tokenizer()
    model = make_model(family, vocabulary=len(tokenizer))
    model.save_pretrained(tmp_path / "model")
    place = tmp_path / "trace"
    attnscope.capture(model, SHORT, tokenizer=tokenizer, save=place, name=family)
    trace = attnscope.open(place)
    text = json.dumps(tiles.handout(trace, [(1, 2), (1, 0)], start=0))
    turning = len(json.loads(text)["heads"][0]["rotary"]["turns"]) * 2
    width = trace.layer(1).info.head_width
    assert 0 < turning < width
    placed = placed_of(trace, tmp_path / "model", 1, 2, interleaved=family == "glm")
    assert placed.rope.rotary == turning
    head = head_of(trace, 1, 2)
    widget = on_own_text("06-rope", "order", text)
    truth = Row(head, placed, ROW)
    swapped(widget, 0)
    order = [ROW - 4, ROW - 5, *truth.window[2:]]
    np.testing.assert_allclose(
        numbers(widget, "weight", 7), truth.turned(order), rtol=1e-5, atol=NEAR
    )
    choose(widget, "none")
    np.testing.assert_allclose(numbers(widget, "weight", 7), truth.untold(), rtol=1e-5, atol=NEAR)
    widget = on_own_text("06-rope", "far", text)
    assert f"{turning} of the head's {width} numbers" in widget.inner_text()
    assert number(widget, "apart") < 1e-9


@pytest.mark.real_model
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_real_models_on_real_texts(page: Any, site: Path, on_own_text: Open, name: str) -> None:
    from attnscope.capture.models import load as load_model
    from attnscope.capture.models import path

    loaded, folder = load_model(name), path(name)
    said = "The cat sat on the mat, and 小明 gave the cat an apple. " * 5
    trace = attnscope.capture(loaded.model, said, tokenizer=loaded.tokenizer)
    heads = clearest(trace)
    text = json.dumps(tiles.handout(trace, heads, start=4), ensure_ascii=False)
    vectors = embeddings_of(trace, folder)[4:68]
    widget = on_own_text("01-embeddings", "cosine", text)
    line = cosines_of(vectors)[ROW]
    check(widget, "cosine", line[nearest(np.round(line, 8), ROW)])
    layer, head = heads[0]
    placed, whole = placed_of(trace, folder, layer, head), head_of(trace, layer, head, 4)
    widget = on_own_text("06-rope", "order", text)
    truth = Row(whole, placed, 4 + ROW)
    swapped(widget, 2)
    order = [*truth.window[:2], truth.window[3], truth.window[2], *truth.window[4:]]
    np.testing.assert_allclose(
        numbers(widget, "weight", 7), truth.turned(order), rtol=1e-4, atol=1e-6
    )
    move(widget, "move", 1000)
    assert number(widget, "shifted") < 1e-9
    widget = on_own_text("06-rope", "far", text)
    assert number(widget, "here") == pytest.approx(number(widget, "real"), abs=1e-6)
    widget = on_own_text("07-heads", "jobs", text)
    assert number(widget, "together") <= number(widget, "best") + 1e-12
    assert page.evaluate("sessionStorage.length") == 1  # kept for the next page, large as it is
