"""The numbers that the map shows are the weights: at every zoom, of a pair, a cell, a range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from map_page import (
    View,
    as_number,
    half_a_digit,
    map_link,
    point_at,
    shown,
    wait_drawn,
    written,
)  # fmt: skip

from attnscope.trace import Trace

FLOAT32 = 2.0**-23
"""A tile's numbers were rounded to float32, and its weights computed in it: some roundings."""


def weights(trace: Trace, layer: int, head: int, rows: Any) -> np.ndarray:
    return trace.weights(layer, head, rows, dtype=np.float64)


@pytest.mark.parametrize("pixels", [24.0, 5.0, 1.0])
def test_a_pair_pointed_at_shows_its_exact_weight(
    open_app: Callable[..., Any], served: Any, pixels: float
) -> None:
    trace = served.traces["llama-long"]
    middle = View(700, 900, pixels)
    page = open_app(map_link("llama-long", 1, 2, middle))
    wait_drawn(page)
    pairs = [(900, 700), (895, 707), (905, 692), (899, 711)]
    whole = weights(trace, 1, 2, [query for query, _ in pairs])
    for row, (query, key) in enumerate(pairs):
        point_at(page, middle, query, key)
        text = written(page, "map-weight")
        assert abs(as_number(text) - whole[row, key]) <= half_a_digit(text)
        title = page.locator(".map-pair").inner_text()
        assert f"Query {query}" in title
        assert f"Key {key}" in title


@pytest.mark.parametrize(("pixels", "cell"), [(0.6, 2), (0.3, 4)])
def test_a_coarse_cell_shows_its_mean_and_names_its_largest_pair(
    open_app: Callable[..., Any], served: Any, pixels: float, cell: int
) -> None:
    view = View(900, 1000, pixels)
    page = open_app(map_link("llama-long", 2, 1, view))
    wait_drawn(page)
    for query, key in [(1201, 400), (700, 301), (1390, 1388)]:
        point_at(page, view, query, key)
        top, left = query // cell * cell, key // cell * cell
        block = weights(served.traces["llama-long"], 2, 1, slice(top, top + cell))
        block = block[:, left : left + cell]
        mean, most = block.sum() / cell, block.max()
        text = written(page, "map-mean")
        # the tile's float32, then the digits that are written
        assert abs(as_number(text) - mean) <= half_a_digit(text) + 32 * FLOAT32 * mean
        fly = page.locator(".map-fly")
        text = fly.locator(".map-weight").inner_text()
        assert abs(as_number(text) - most) <= half_a_digit(text)
        row, column = np.unravel_index(block.argmax(), block.shape)
        assert f"query {top + row}, key {left + column}" in fly.inner_text()


def test_a_damaged_number_would_be_caught(open_app: Callable[..., Any], served: Any) -> None:
    """The comparison above can fail: a neighbour's weight is told apart."""
    view = View(700, 900, 24)
    page = open_app(map_link("llama-long", 1, 2, view))
    wait_drawn(page)
    point_at(page, view, 900, 700)
    text = written(page, "map-weight")
    row = weights(served.traces["llama-long"], 1, 2, [900])[0]
    near = [row[699], row[701], row[700] * 1.0002]
    assert all(abs(as_number(text) - one) > half_a_digit(text) for one in near)


def test_out_of_sight_is_said(open_app: Callable[..., Any]) -> None:
    view = View(500, 500, 20)
    page = open_app(map_link("llama-long", 1, 2, view))
    wait_drawn(page)
    point_at(page, view, 500, 505)
    assert written(page, "map-weight") == "out of sight"


def test_what_arrived_is_weight_times_the_norm(open_app: Callable[..., Any], served: Any) -> None:
    trace = served.traces["llama-long"]
    view = View(700, 900, 20)
    page = open_app(map_link("llama-long", 1, 2, view, "measure=arrived"))
    wait_drawn(page)
    point_at(page, view, 901, 702)
    wanted = {one.key: one.arrived for one in trace.attended(1, 2, 901, mass=1.0)}[702]
    text = written(page, "map-arrived")
    assert wanted is not None
    assert abs(as_number(text) - wanted) <= half_a_digit(text) + 1e-6 * wanted  # float32 norms


@pytest.mark.parametrize("how", ["sum", "mean"])
def test_a_chosen_range_is_joined_exactly(
    open_app: Callable[..., Any], served: Any, how: str
) -> None:
    link = map_link("llama-long", 1, 2, None, f"q=900-909&k=100-149&lock=1&how={how}")
    page = open_app(link)
    wait_drawn(page)
    page.wait_for_selector(".map-readout[data-exact]")
    block = weights(served.traces["llama-long"], 1, 2, slice(900, 910))[:, 100:150]
    wanted = block.sum() if how == "sum" else block.mean()
    assert shown(page, "map-weight") == pytest.approx(wanted, rel=1e-4)  # five digits are written
    before = written(page, "map-weight")
    page.get_by_role("button", name="Mean" if how == "sum" else "Sum", exact=True).last.click()
    page.wait_for_function(
        """(before) => {
          const now = document.querySelector('.map-readout .map-weight')?.innerText;
          return now && now !== before;
        }""",
        arg=before,
    )
    other = block.mean() if how == "sum" else block.sum()
    assert shown(page, "map-weight") == pytest.approx(other, rel=1e-4)


def test_the_table_lists_the_largest_keys_of_the_row(
    open_app: Callable[..., Any], served: Any
) -> None:
    page = open_app(map_link("llama-long", 1, 2, None, "q=1234&k=10&lock=1"))
    wait_drawn(page)
    page.wait_for_selector(".map-row-table tbody tr")
    row = weights(served.traces["llama-long"], 1, 2, [1234])[0]
    rows = page.locator(".map-row-table tbody tr")
    keys = [int(rows.nth(at).get_attribute("data-token")) for at in range(rows.count())]
    assert keys == np.argsort(-row, kind="stable")[: len(keys)].tolist()
    for at, key in enumerate(keys):
        text = rows.nth(at).locator("td").nth(1).inner_text()
        assert abs(as_number(text) - row[key]) <= half_a_digit(text) + 4 * FLOAT32 * row[key]


def test_above_the_diagonal_is_the_second_head_transposed(
    open_app: Callable[..., Any], served: Any
) -> None:
    view = View(900, 900, 20)
    page = open_app(map_link("llama-long", 1, 2, view, "with=llama-long/3.0"))
    wait_drawn(page)
    point_at(page, view, 893, 904)  # above: query 904 of the second head on its key 893
    text = written(page, "map-weight")
    wanted = weights(served.traces["llama-long"], 3, 0, [904])[0, 893]
    assert abs(as_number(text) - wanted) <= half_a_digit(text)
    assert "layer 3, head 0" in page.locator(".map-pair").inner_text()
    point_at(page, view, 904, 893)
    text = written(page, "map-weight")
    own = weights(served.traces["llama-long"], 1, 2, [904])[0, 893]
    assert abs(as_number(text) - own) <= half_a_digit(text)


def test_a_layer_without_a_map_says_why(open_app: Callable[..., Any], served: Any) -> None:
    page = open_app("#map/hybrid-short")
    wait_drawn(page)
    page.get_by_label("Layer").first.select_option("0")
    page.wait_for_selector(".map-none", state="visible")
    reason = next(one.reason for one in served.traces["hybrid-short"].layers if one.index == 0)
    assert reason in page.locator(".map-none").inner_text()
    assert page.locator(".map-figure").is_hidden()
    page.get_by_label("Layer").first.select_option("1")
    wait_drawn(page)
