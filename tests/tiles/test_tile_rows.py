"""Rows, columns, the flow, windows and single cells are those of the dense float64 map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_samples import Case, cases, header, room, small, trace, truth

from attnscope import tiles
from attnscope.errors import TraceError
from attnscope.trace import Trace

TINY = 1e-37  # below this float32 has fewer digits


def joined(values: np.ndarray, how: str, axis: int) -> np.ndarray:
    return values.mean(axis=axis) if how == "mean" else values.sum(axis=axis)


@settings(deadline=None)  # the first example imports
@given(cases(), st.sampled_from(["mean", "sum"]), st.data())
def test_rows_and_columns_are_the_dense_map(case: Case, how: str, data: st.DataObject) -> None:
    made, (found,) = trace(case)
    head = data.draw(st.integers(0, case.H - 1))
    queries = data.draw(st.lists(st.integers(0, case.T - 1), min_size=1, unique=True))
    keys = data.draw(st.lists(st.integers(0, case.S - 1), min_size=1, unique=True))
    weights, relative = found.weights[head], room(case, found)
    norms = found.arrays["value_norms"][head].astype(np.float64)
    with small():
        row = tiles.row(made, 0, head, queries, how)
        column = tiles.column(made, 0, head, keys, how)
    expected = joined(weights[queries], how, 0)
    assert row.weights.dtype == column.dtype == np.float32
    np.testing.assert_allclose(row.weights, expected, rtol=relative, atol=TINY)
    np.testing.assert_allclose(row.arrived, expected * norms, rtol=relative, atol=TINY)
    # a share is exp(sink - lse): its error is the rounding of the stored log-sum-exp
    np.testing.assert_allclose(row.sink, joined(found.sink[head][queries], how, 0), rtol=relative)
    np.testing.assert_allclose(column, joined(weights[:, keys], how, 1), rtol=relative, atol=TINY)


@settings(deadline=None)
@given(cases(), st.data())
def test_a_cell_is_exact(case: Case, data: st.DataObject) -> None:
    """In float64: what is left is the rounding of the stored log-sum-exp."""
    made, (found,) = trace(case)
    head = data.draw(st.integers(0, case.H - 1))
    query, key = data.draw(st.integers(0, case.T - 1)), data.draw(st.integers(0, case.S - 1))
    cell = tiles.cell(made, 0, head, query, key)
    assert cell.visible == found.seen[head, query, key]
    if not cell.visible:
        assert (cell.weight, cell.arrived, cell.score) == (0.0, 0.0, None)
        return
    lse = abs(float(found.arrays["logsumexp"][head, query]))
    unit = 2.0**-53 if case.dtype == "F64" else 2.0**-24
    # the log-sum-exp and a bias are stored in float32; a float64 product rounds at 1e-16
    room = 2 * unit * (lse + 4) + 1e-13
    assert cell.weight == pytest.approx(found.weights[head, query, key], rel=room)
    score = found.scores[head, query, key]
    assert cell.score == pytest.approx(score, rel=1e-12, abs=1e-12)  # 9 products in float64
    norm = float(found.arrays["value_norms"][head, key])
    assert cell.arrived == pytest.approx(cell.weight * norm, rel=1e-15)


@settings(deadline=None)
@given(cases(), st.sampled_from(tiles.MEASURES), st.data())
def test_a_window_is_the_dense_map(case: Case, measure: str, data: st.DataObject) -> None:
    made, (found,) = trace(case)
    rows = sorted(data.draw(st.tuples(*[st.integers(0, case.T)] * 2)))
    keys = sorted(data.draw(st.tuples(*[st.integers(0, case.S)] * 2)))
    part = tiles.window(made, 0, 0, measure, slice(*rows), slice(*keys))
    value, seen = found.measure(measure, case, 0)
    expected = np.where(seen, value, np.nan)[slice(*rows), slice(*keys)]
    np.testing.assert_allclose(part, expected, rtol=room(case, found), atol=TINY)


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_flow_is_the_heads_joined(how: str) -> None:
    layers = [Case(T=20, S=20, H=4, G=2, sinks=True), Case(T=20, S=20, H=4, G=2, window=5, seed=1)]
    made, found = trace(*layers)
    queries = [3, 7, 8, 19]
    flow = tiles.flow(made, queries, how)
    assert flow.layers.tolist() == [0, 1]
    assert flow.arrived is not None
    for place, one in enumerate(found):
        expected = joined(one.weights[:, queries], how, 1)
        norms = one.arrays["value_norms"].astype(np.float64)
        relative = room(layers[place], one)
        np.testing.assert_allclose(flow.weights[place], expected.mean(axis=0), rtol=relative)
        np.testing.assert_allclose(
            flow.arrived[place], (expected * norms).sum(axis=0), rtol=relative
        )


def test_flow_leaves_out_other_rows() -> None:
    """Cross-attention and layers of another length have other keys."""
    layers = [
        Case(T=9, S=9, norms=False),
        Case(T=9, S=4, causal=False, cross=True),
        Case(T=9, S=9, seed=2),
        Case(T=5, S=9),
    ]
    flow = tiles.flow(trace(*layers)[0], [8])
    assert flow.layers.tolist() == [0, 2]
    assert flow.arrived is not None
    assert np.isnan(flow.arrived[0]).all()  # unknown there
    assert np.isfinite(flow.arrived[1]).all()
    assert tiles.flow(trace(layers[0])[0], [8]).arrived is None
    assert tiles.row(trace(layers[0])[0], 0, 0, [8]).arrived is None
    assert tiles.cell(trace(layers[0])[0], 0, 0, 8, 1).arrived is None


def test_a_row_that_sees_nothing_is_zero() -> None:
    case = Case(T=12, S=12, documents=(-1,) * 4 + (0,) * 8)
    row = tiles.row(trace(case)[0], 0, 0, [2])
    assert not row.weights.any()
    assert row.sink == 0
    with_sink = tiles.row(
        trace(Case(T=12, S=12, documents=case.documents, sinks=True))[0], 0, 0, [2]
    )
    assert with_sink.sink == 1


def test_a_query_named_twice_counts_once() -> None:
    made, _ = trace(Case())
    np.testing.assert_array_equal(
        tiles.row(made, 0, 0, [3, 3, 5]).weights, tiles.row(made, 0, 0, [5, 3]).weights
    )


@pytest.mark.parametrize("shift", [1e-2, -1e-2, 50.0, 1e4])
def test_a_row_that_does_not_sum_to_one_is_an_error(shift: float) -> None:
    case = Case(T=40, S=40, H=1, sinks=True)
    arrays = truth(case).arrays
    arrays["logsumexp"][0, 17] += shift
    made = Trace.from_arrays(header(case), {0: arrays})
    tiles.row(made, 0, 0, [16, 18])
    for call in (
        lambda: tiles.row(made, 0, 0, range(10, 20)),
        lambda: tiles.row(made, 0, 0, [3, 17]),
        lambda: tiles.flow(made, [17]),
    ):
        with pytest.raises(TraceError, match="query 17 do not sum to what its log-sum-exp says"):
            call()


@pytest.mark.parametrize("bias", ["full", "offset"])
def test_what_hides_a_key_excuses_no_row(bias: str) -> None:
    """Models add -1e9 where they hide a key; a row that is off stays an error beside it."""
    case = Case(T=40, S=40, H=1, bias=bias)
    arrays = truth(case).arrays
    name = {"full": "bias", "offset": "bias_by_offset"}[bias]
    arrays[name] = np.where(arrays[name] == -np.inf, np.float32(-1e9), arrays[name])
    made = Trace.from_arrays(header(case), {0: arrays})
    tiles.row(made, 0, 0, range(10, 20))
    arrays["logsumexp"][0, 17] += 1e-2
    made = Trace.from_arrays(header(case), {0: arrays})
    with pytest.raises(TraceError, match="query 17 do not sum"):
        tiles.row(made, 0, 0, range(10, 20))


def test_large_scores_are_allowed_their_rounding() -> None:
    case = Case(T=60, S=60, H=1, D=8, scale=60.0)
    made, (found,) = trace(case)
    row = tiles.row(made, 0, 0, range(60))
    # float32 leaves scores of a thousand an error of 1e-3; a column holds up to 60 such weights
    np.testing.assert_allclose(
        row.weights, found.weights[0].mean(axis=0), rtol=room(case, found), atol=TINY
    )


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda t: tiles.row(t, 0, 0, []), ValueError, "queries: expected at least one"),
        (lambda t: tiles.row(t, 0, 0, [24]), ValueError, "queries: .* from 0 to 23, got 24"),
        (lambda t: tiles.row(t, 0, 0, [-1]), ValueError, "queries: .* got -1"),
        (lambda t: tiles.row(t, 0, 0, [1.0]), TypeError, "queries: .* got float"),
        (lambda t: tiles.row(t, 0, 0, [1], "max"), ValueError, "how: expected mean or sum"),
        (lambda t: tiles.row(t, 1, 0, [1]), ValueError, "layer: 1 has no attention map"),
        (lambda t: tiles.row(t, 9, 0, [1]), ValueError, "layer: 9 is not in this trace"),
        (lambda t: tiles.row(t, 0, 2, [1]), ValueError, "head: .* from 0 to 1, got 2"),
        (lambda t: tiles.column(t, 0, 0, [24]), ValueError, "keys: .* from 0 to 23"),
        (lambda t: tiles.column(t, 0, 0, []), ValueError, "keys: expected at least one"),
        (lambda t: tiles.flow(t, [99]), ValueError, "queries: .* got 99"),
        (lambda t: tiles.cell(t, 0, 0, 24, 0), ValueError, "query: .* got 24"),
        (lambda t: tiles.cell(t, 0, 0, 0, 24), ValueError, "key: .* got 24"),
        (
            lambda t: tiles.window(t, 0, 0, "weight", slice(0, 25), slice(0, 1)),
            ValueError, "rows: .* from 0 to 24, got 25",
        ),
        (
            lambda t: tiles.window(t, 0, 0, "weight", slice(5, 4), slice(0, 1)),
            ValueError, "rows: expected a start and a stop after it, got 5 and 4",
        ),
        (
            lambda t: tiles.window(t, 1, 0, "weight", slice(0, 4), slice(0, 1)),
            ValueError, "layer: 1 has no attention map",
        ),
        (
            lambda t: tiles.window(t, 0, 0, "all", slice(0, 4), slice(0, 1)),
            ValueError, "measure: expected one of",
        ),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said(call: Callable, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        call(trace(Case())[0])


def test_a_trace_without_a_text_map_has_no_flow() -> None:
    made, _ = trace(Case(T=9, S=4, causal=False, cross=True))
    with pytest.raises(ValueError, match="no layer with a map of its own text"):
        tiles.flow(made, [0])


def test_a_large_window_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.tiles.tiling.WINDOW", 24 * 24 - 1)
    made, _ = trace(Case())
    with pytest.raises(ValueError, match="rows, keys: expected at most 575 pairs, got 576"):
        tiles.window(made, 0, 0, "weight", slice(0, 24), slice(0, 24))


def test_unknown_norms_have_no_window() -> None:
    made, _ = trace(Case(norms=False))
    with pytest.raises(ValueError, match="layer 0 does not know how much arrived"):
        tiles.window(made, 0, 0, "arrived", slice(0, 2), slice(0, 2))


@pytest.mark.parametrize("call", [
    lambda t, check: tiles.row(t, 0, 0, [20], check=check),
    lambda t, check: tiles.column(t, 0, 0, [2], check=check),
    lambda t, check: tiles.flow(t, [20], check=check),
    lambda t, check: tiles.similar(t, 0, 0, 3, check=check),
])  # fmt: skip
def test_check_ends_the_work(call: Callable) -> None:
    class GoneError(Exception):
        pass

    def check() -> None:
        raise GoneError

    with pytest.raises(GoneError):
        call(trace(Case())[0], check)
