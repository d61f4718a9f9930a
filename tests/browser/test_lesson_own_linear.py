"""Lesson 11 on a reader's text: a real row by a softmax, by linear attention, and by its table.

The judge is the definition in numpy and torch's elu, on the queries and keys of the trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from lessons_site import move, number, numbers
from own_page import HEADS, STARTS, Open, select
from own_truth import head_of, softmax

from attnscope.trace import Trace

ROW, NAMES = 50, 6
BOTH = pytest.mark.parametrize("language", ["en", "zh"])


def positive(x: np.ndarray) -> np.ndarray:
    """elu + 1 (Katharopoulos et al. 2020, eq. 7)."""
    return (torch.nn.functional.elu(torch.from_numpy(x)) + 1).numpy()


def named(weights: np.ndarray, keys: list[int]) -> list[float]:
    """The weights of some keys, then that of all others."""
    return [*weights[keys], 1 - weights[keys].sum()]


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_a_real_row_is_regrouped(
    on_own_text: Open, handouts: dict[int, str], long_trace: Trace, start: int
) -> None:
    widget = on_own_text("11-linear", "regroup", handouts[start])
    select(widget, "row", ROW)
    row = start + ROW
    layer, at = HEADS[0]
    record, head = long_trace.layer(layer), head_of(long_trace, layer, at, start)
    group = at * record.info.kv_heads // record.info.query_heads
    q = record.array("q")[at, row].astype(float)
    keys = record.array("k")[group, start : row + 1].astype(float)
    shown = [key - start for key in head.named(row, NAMES)]
    for factor in (1.0, 2.5, 0.0):
        move(widget, "length", factor)
        soft = softmax(record.info.scale * keys @ (factor * q))
        linear = positive(keys) @ positive(factor * q)
        linear /= linear.sum()
        for name, wanted in (("softmax", soft), ("weights", linear)):
            found = numbers(widget, name, NAMES + 1)
            np.testing.assert_allclose(found, named(wanted, shown), rtol=1e-5, atol=1e-9)
        taken = linear @ head.norms[start : row + 1]
        assert number(widget, "by_weights") == pytest.approx(taken, rel=1e-6)
        assert number(widget, "by_table") == pytest.approx(taken, rel=1e-6)
        assert number(widget, "apart") < 1e-9 * taken
        if start == 0 and factor == 1:
            np.testing.assert_allclose(soft, head.weights[row, : row + 1], rtol=1e-4)
    note = widget.locator(".stand > .note").inner_text()
    left = f"{100 * head.weights[row, :start].sum():.1f} %"
    assert (left in note and str(start) in note) is (start > 0)


@BOTH
def test_what_either_order_costs_is_counted_for_the_whole_text(
    on_own_text: Open, handouts: dict[int, str], long_trace: Trace
) -> None:
    widget: Any = on_own_text("11-linear", "regroup", handouts[0])
    T, d = len(long_trace.tokens), long_trace.model.head_width
    assert number(widget, "keptPairs") == 2 * T * d
    assert number(widget, "keptTable") == d * d + d
    assert number(widget, "pairs") == sum(2 * d * (i + 1) for i in range(T))
    # a table of d x d and its sum take d^2 + d products a token to read, d^2 to write
    assert number(widget, "table") == T * (2 * d * d + d)
    good = "good" in str(widget.locator('[data-name="verdict"]').get_attribute("class"))
    assert good is (number(widget, "table") < number(widget, "pairs"))
