"""Weights from a trace equal the model's, for every kind of attention, and say so when they cannot.

Referee: the dense float64 softmax of trace_samples.oracle.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from trace_samples import Case, header, layer, trace

from attnscope.core.attend import attend
from attnscope.core.request import Request
from attnscope.errors import TraceError
from attnscope.trace import Trace

_MASK = torch.rand(24, 24, generator=torch.Generator().manual_seed(5)) < 0.6
_MASK[3] = False

CASES = {
    "plain": Case(),
    "every head its own key": Case(G=4),
    "one key head": Case(G=1),
    "sliding": Case(window=5),
    "chunk at the end": Case(T=7),
    "one decoded step": Case(T=1),
    "soft-cap": Case(softcap=1.5, scale=2.0),
    "learned sink": Case(sinks=True),
    "sink and window": Case(sinks=True, window=3),
    "packed": Case(documents=[0] * 9 + [1] * 15),
    "left padding": Case(documents=[-1] * 6 + [0] * 18),
    "padding and sink": Case(documents=[-1] * 6 + [0] * 18, sinks=True),
    "both ways": Case(causal=False),
    "cross": Case(causal=False, T=5, cross=True),
    "bias by offset": Case(bias="offset"),
    "bias by offset, chunk": Case(bias="offset", T=6),
    "bias": Case(bias="full", T=9),
    "any mask": Case(mask=_MASK),
    "negative scale": Case(scale=-0.7),
    "bfloat16": Case(dtype=torch.bfloat16),
    "float16": Case(dtype=torch.float16),
    "float64": Case(dtype=torch.float64),
    "odd": Case(H=3, G=1, T=13, S=24, D=5, window=7),
}


def allowance(case: Case, found: dict[str, np.ndarray], weights: np.ndarray) -> float:
    """Twice the error of an honest float32 softmax, and the rounding of the stored log-sum-exp."""
    lse = found["logsumexp"].astype(np.float64)
    unit = np.finfo(np.float32).eps / 2
    size = np.abs(np.where(np.isfinite(lse), lse, 0)).max() + abs(case.softcap or 0)
    # The peer's scores are products of D float32 numbers: D roundings of |scale| |q| |k| at most.
    reach = abs(case.scale) * 8 * case.D
    return float(2 * unit * (reach + 4 * size + 4))


@pytest.mark.parametrize("name", CASES)
def test_weights_equal_the_oracle(name: str) -> None:
    case = CASES[name]
    arrays, expected = layer(case)
    made = Trace.from_arrays(header(case), {0: arrays})
    room = allowance(case, arrays, expected)
    assert room < 1e-4  # a bound that lets everything pass would show nothing
    for head in range(case.H):
        found = made.weights(0, head)
        assert found.dtype == np.float32
        assert found.shape == (case.T, case.S)
        assert np.abs(found - expected[head]).max() <= room
        fine = made.weights(0, head, dtype=np.float64)
        assert fine.dtype == np.float64
        assert np.abs(fine - expected[head]).max() <= room


def test_float64_captures_are_exact_to_float64() -> None:
    case = Case(dtype=torch.float64)
    arrays, expected = layer(case)
    assert arrays["logsumexp"].dtype == np.float64
    made = Trace.from_arrays(header(case), {0: arrays})
    # 8 products and a log-sum-exp near 5, each rounded at 1.1e-16
    assert np.abs(made.weights(0, 2, dtype=np.float64) - expected[2]).max() < 1e-14


def test_weights_agree_with_attend_itself() -> None:
    """The whole chain against the implementation users run, not only the reference."""
    case = Case(T=40, S=40, window=9, seed=3)
    arrays, _ = layer(case)
    q, k = torch.from_numpy(arrays["q"])[None], torch.from_numpy(arrays["k"])[None]
    found = attend(
        q, k, torch.zeros(1, 2, 40, 6),
        scale=case.scale, window=9, statistics=Request(rows=(0, 20, 39)), impl="strip",
    )  # fmt: skip
    made = Trace.from_arrays(header(case), {0: arrays})
    assert found.rows is not None
    for head in range(4):
        difference = made.weights(0, head, [0, 20, -1]) - found.rows[0, head].numpy()
        # two float32 softmaxes of scores below 10 in size: 2 * 8 * 10 roundings of 6e-8
        assert np.abs(difference).max() < 1e-5


@pytest.mark.parametrize(
    ("queries", "rows"),
    [
        (3, [3]),
        (-1, [23]),
        (slice(4, 9), [4, 5, 6, 7, 8]),
        (slice(None, None, 10), [0, 10, 20]),
        ([7, 2, -24], [7, 2, 0]),
        (np.array([5]), [5]),
        (np.int64(6), [6]),
        ([], []),
        (slice(9, 9), []),
        (range(2), [0, 1]),
    ],
)
@pytest.mark.parametrize("case", [Case(), Case(bias="full"), Case(mask=_MASK), Case(window=4)])
def test_rows_are_those_asked_for(case: Case, queries: object, rows: list[int]) -> None:
    made = trace(case)
    whole = made.weights(0, 1)
    part = made.weights(0, 1, queries)  # type: ignore[arg-type]
    assert part.shape == (len(rows), 24)
    # the same product in another shape may add in another order: a few roundings of 6e-8
    np.testing.assert_allclose(part, whole[rows], atol=1e-6)


def test_window_is_a_window_of_the_map() -> None:
    made = trace(Case(sinks=True, bias="offset"))
    whole = made.weights(0, 3)
    part = made.layer(0).window(3, slice(5, 12), slice(2, 9))
    np.testing.assert_allclose(part, whole[5:12, 2:9], atol=1e-6)  # as above


@pytest.mark.parametrize("name", ["plain", "learned sink", "left padding", "any mask"])
def test_rows_sum_to_one_less_the_sink(name: str) -> None:
    case = CASES[name]
    arrays, _ = layer(case)
    made = Trace.from_arrays(header(case), {0: arrays})
    for head in range(case.H):
        total = made.weights(0, head, dtype=np.float64).sum(axis=1)
        sink = np.exp(arrays["sinks"][head] - arrays["logsumexp"][head]) if case.sinks else 0.0
        expected = np.where(made.layer(0).sight > 0, 1.0, 0.0) - sink
        np.testing.assert_allclose(total, np.maximum(expected, 0), atol=2e-6)  # 24 terms, float32


@pytest.mark.parametrize("name", ["plain", "learned sink", "sliding", "bfloat16", "any mask"])
@pytest.mark.parametrize("shift", [1e-2, -1e-2, 50.0, -50.0, 1e4])
def test_a_tampered_logsumexp_is_caught(name: str, shift: float) -> None:
    arrays, _ = layer(CASES[name])
    row = 10
    arrays["logsumexp"] = arrays["logsumexp"].copy()
    arrays["logsumexp"][1, row] += shift
    made = Trace.from_arrays(header(CASES[name]), {0: arrays})  # samples other rows
    made.weights(0, 1, slice(0, row))
    with pytest.raises(TraceError, match="query 10 do not sum"):
        made.weights(0, 1)
    with pytest.raises(TraceError, match="do not sum"):
        made.attended(0, 1, row)


@pytest.mark.parametrize("field", ["q", "k"])
def test_vectors_of_another_row_are_caught(field: str) -> None:
    arrays, _ = layer(Case())
    arrays[field] = arrays[field][:, ::-1]
    with pytest.raises(TraceError, match="do not sum"):
        Trace.from_arrays(header(Case()), {0: arrays})


def test_another_scale_is_caught() -> None:
    arrays, _ = layer(Case())
    with pytest.raises(TraceError, match="do not sum"):
        Trace.from_arrays(header(Case(scale=0.61)), {0: arrays})


def test_attended_lists_the_fewest_keys() -> None:
    case = Case(sinks=True)
    arrays, expected = layer(case)
    made = Trace.from_arrays(header(case), {0: arrays})
    row = expected[2, 17]
    for mass in (0.1, 0.5, 0.9, 0.999):
        found = made.attended(0, 2, 17, mass=mass)
        weights = [entry.weight for entry in found]
        assert weights == sorted(weights, reverse=True)
        assert sum(weights) >= mass * row.sum() * (1 - 1e-6)
        assert sum(weights[:-1]) < mass * row.sum()
        for entry in found:
            assert entry.weight == pytest.approx(row[entry.key], rel=1e-5)  # float32 capture
            norm = float(arrays["value_norms"][2, entry.key])
            assert entry.arrived == pytest.approx(entry.weight * norm, rel=1e-12)
    assert len(made.attended(0, 2, 17, mass=1)) == 18
    assert made.attended(0, 2, -7) == made.attended(0, 2, 17)


def test_attended_by_hand() -> None:
    """Ten equal weights: nine hold 90 %, the earlier keys first; an empty row holds nothing."""
    case = Case(H=1, G=1, T=11, S=11, D=1, scale=1.0, documents=[-1] + [0] * 10)
    arrays, _ = layer(case)
    arrays["q"] = np.zeros_like(arrays["q"])
    count = np.maximum(arrays["end"] - arrays["first"], 0)
    with np.errstate(divide="ignore"):
        arrays["logsumexp"] = np.log(count.astype(np.float32))[None]
    made = Trace.from_arrays(header(case), {0: arrays})
    assert [entry.key for entry in made.attended(0, 0, 10)] == list(range(1, 10))
    assert made.attended(0, 0, 0) == []
    assert made.attended(0, 0, 1, mass=1)[0].weight == 1


def test_arrived_is_unknown_without_norms() -> None:
    arrays, _ = layer(Case())
    del arrays["value_norms"]
    made = Trace.from_arrays(header(Case()), {0: arrays})
    assert all(entry.arrived is None for entry in made.attended(0, 0, 5))


def test_received_is_the_sum_over_queries() -> None:
    made = trace(Case(window=6))
    np.testing.assert_allclose(
        made.received(0, 2), made.weights(0, 2).sum(axis=0), atol=5e-6
    )  # 24 float32 weights


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: t.weights(7, 0), "7 is not in this trace"),
        (lambda t: t.weights(1, 0), "no attention map: a recurrent layer"),
        (lambda t: t.weights(0, 4), "4 is not one of the 4 heads"),
        (lambda t: t.weights(0, -1), "-1 is not one of"),
        (lambda t: t.weights(0, 0, 24), "24 is not one of the 24 queries"),
        (lambda t: t.weights(0, 0, -25), "-25 is not one of"),
        (lambda t: t.weights(0, 0, dtype=np.float16), "expected float32 or float64"),
        (lambda t: t.attended(0, 0, 0, mass=0), "expected more than 0"),
        (lambda t: t.attended(0, 0, 0, mass=1.1), "expected more than 0"),
        (lambda t: t.attended(0, 0, 99), "99 is not one of"),
        (lambda t: t.layer(0).statistic("mood"), "'mood' is not in this trace"),
    ],
)
def test_wrong_arguments_say_what_is_there(call: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(trace())  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: t.weights("0", 0), "layer: expected a whole number, got '0'"),
        (lambda t: t.layer(0.0), "layer: expected a whole number, got 0.0"),
        (lambda t: t.weights(None, 0), "layer: expected a whole number, got None"),
        (lambda t: t.weights(0, "0"), "head: expected a whole number, got '0'"),
        (lambda t: t.received(0, 1.5), "head: expected a whole number, got 1.5"),
        (lambda t: t.map(0, None), "head: expected a whole number, got None"),
        (lambda t: t.weights(0, 0, [0.5]), "queries: expected a whole number, got 0.5"),
        (lambda t: t.weights(0, 0, 0.5), "queries: expected a whole number, got 0.5"),
        (lambda t: t.weights(0, 0, "01"), "queries: expected a whole number, got '01'"),
        (lambda t: t.attended(0, 0, "last"), "query: expected a whole number, got 'last'"),
    ],
)
def test_what_is_no_whole_number_is_named(call: object, said: str) -> None:
    with pytest.raises(TypeError, match=f"^{said}$"):
        call(trace())  # type: ignore[operator]


def test_whole_numbers_of_every_type_are_taken() -> None:
    made = trace()
    expected = made.weights(0, 1, [3])
    for three in (np.int64(3), np.array(3), torch.tensor(3), [3], iter([3]), np.array([3])):
        assert np.array_equal(made.weights(np.int32(0), torch.tensor(1), three), expected)


def test_a_whole_long_map_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.trace.trace.WEIGHTS_LIMIT", 24 * 24 * 4 - 1)
    made = trace()
    with pytest.raises(ValueError, match="ask for a slice"):
        made.weights(0, 0)
    assert made.weights(0, 0, slice(1, None)).shape == (23, 24)


def test_only_the_rows_asked_for_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of a long text costs that slice: sizes of every product are recorded."""
    from attnscope.trace import layer as module

    sizes: list[tuple[int, int]] = []
    plain = module.weights

    def watched(rows: object) -> np.ndarray:
        sizes.append((len(rows.q), len(rows.k)))  # type: ignore[attr-defined]
        return plain(rows)  # type: ignore[arg-type]

    made = trace(Case(T=300, S=300, window=16))
    monkeypatch.setattr(module, "weights", watched)
    made.weights(0, 0, slice(200, 210))
    assert sizes == [(10, 25)]  # ten rows; keys 185 … 209


def test_bands_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = trace(Case(T=50, S=50))
    whole = made.weights(0, 0)
    monkeypatch.setattr("attnscope.trace.layer._BAND_BYTES", 8 * 50 * 7)
    np.testing.assert_allclose(made.weights(0, 0), whole, atol=1e-6)  # order of additions
