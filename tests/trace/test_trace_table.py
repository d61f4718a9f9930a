"""The statistics table: a row per layer, head and query, whatever the layers are like.

Referee: the arrays that went in, indexed by hand; pyarrow and pandas for their own forms.
"""

from __future__ import annotations

import numpy as np
import pytest
from trace_samples import Case, header, layer, statistic_names, trace

from attnscope.trace import Trace
from attnscope.trace.format import OWN_ARRAY

CASES = (Case(), Case(H=6, G=3, T=9, seed=1), Case(documents=[-1] * 5 + [0] * 19, seed=2))


def test_each_row_is_one_number_of_one_query() -> None:
    made = trace(*CASES)
    arrays = [layer(case)[0] for case in CASES]
    table = made.statistics
    assert len(table) == 4 * 24 + 6 * 9 + 4 * 24
    columns = table.to_dict()
    assert set(columns) == {"layer", "head", "query", *statistic_names()} - {"received"}
    for name, column in columns.items():
        assert len(column) == len(table)
        if name in ("layer", "head", "query"):
            continue
        for row in range(0, len(table), 7):
            place = columns["layer"][row], columns["head"][row], columns["query"][row]
            assert column[row] == arrays[place[0]][name][place[1:]]
    assert columns["argmax"].dtype == np.int32
    pairs = {
        tuple(row) for row in zip(*(columns[n] for n in ("layer", "head", "query")), strict=True)
    }
    assert len(pairs) == len(table)


def test_select_keeps_layers_and_heads() -> None:
    table = trace(*CASES).statistics
    part = table.select(layer=1, head=[5, 0])
    assert len(part) == 18
    assert set(part["head"].tolist()) == {0, 5}
    whole = table.to_dict()
    kept = (whole["layer"] == 1) & np.isin(whole["head"], [0, 5])
    for name in part.names:
        np.testing.assert_array_equal(part[name], whole[name][kept])
    assert len(table.select(head=5)) == 9
    assert len(table.select(layer=[0, 2])) == 192
    assert len(table.select(layer=np.int64(2)).select(head=3)) == 24


@pytest.mark.parametrize(
    ("wanted", "said"),
    [({"layer": 3}, "3 is not in this table"), ({"head": 6}, "head 6"), ({"head": -1}, "head -1")],
)
def test_select_says_what_is_there(wanted: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trace(*CASES).statistics.select(**wanted)


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(KeyError, match="no column 'mood'; there are layer, head"):
        trace().statistics["mood"]


def test_means_leave_out_rows_that_see_nothing() -> None:
    made = trace(*CASES)
    means = made.statistics.mean()
    assert len(means) == 14
    assert "argmax" not in means.names
    assert "query" not in means.names
    for row in range(len(means)):
        index, head = means["layer"][row], means["head"][row]
        arrays = layer(CASES[index])[0]
        start = 5 if index == 2 else 0
        for name in means.names[2:]:
            expected = arrays[name][head, start:].astype(np.float64).mean()
            assert means[name][row] == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(means["max_logit"]).all()
    part = made.statistics.select(layer=1, head=2).mean()
    assert part["entropy"][0] == means["entropy"][4 + 2]


def test_a_layer_that_sees_nothing_has_no_means() -> None:
    case = Case(documents=[-1] * 24)
    means = trace(case).statistics.mean()
    assert np.isnan(means["entropy"]).all()


def test_arrow_and_pandas_hold_the_same() -> None:
    table = trace(*CASES).statistics
    arrow, frame = table.to_arrow(), table.to_pandas()
    assert tuple(arrow.column_names) == table.names == tuple(frame.columns)
    for name in table.names:
        np.testing.assert_array_equal(arrow[name].to_numpy(), table[name])
        np.testing.assert_array_equal(frame[name].to_numpy(), table[name])
    means = table.mean()
    assert means.to_arrow().num_rows == 14
    assert frame.groupby(["layer", "head"])["entropy"].mean().shape == (14,)


def test_repr_is_short_and_names_what_it_shows() -> None:
    table = trace(*CASES).statistics
    text = repr(table)
    assert text.startswith("Statistics: 246 rows\n")
    assert len(text.splitlines()) == 13
    assert "entropy" in text
    last = text.splitlines()[-1].split()
    assert last[:3] == ["2", "3", "23"]
    assert float(last[list(table.names).index("entropy")]) == pytest.approx(
        table["entropy"][-1], rel=1e-3
    )
    assert "14 rows" in repr(table.mean())
    assert repr(table.select(layer=1, head=0)).count("\n") == 10


def test_a_trace_without_statistics_or_layers() -> None:
    fields = {**header(Case()), "statistics": []}
    arrays = {
        k: v for k, v in layer(Case())[0].items() if k not in statistic_names() or k == "logsumexp"
    }
    table = Trace.from_arrays(fields, {0: arrays}).statistics
    assert table.names == ("layer", "head", "query")
    assert len(table) == 96
    empty = Trace.from_arrays({**header(Case()), "layers": []}, {})
    assert len(empty.statistics) == 0
    assert empty.statistics["entropy"].shape == (0,)
    assert len(empty.statistics.mean()) == 0
    assert empty.kinds() == []
    assert "Statistics: 0 rows" in repr(empty.statistics)


def test_names_are_those_of_the_core() -> None:
    """The trace may not import the core (torch), so that the names agree is checked here."""
    assert set(OWN_ARRAY) <= set(statistic_names())


def test_repr_of_a_trace() -> None:
    assert repr(trace(*CASES)) == "<Trace of tiny: 24 tokens, 3 layers, 14 heads>"
