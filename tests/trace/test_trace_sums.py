"""Whether the rows of a trace sum to what they must: honest ones pass, damaged ones do not.

The referee is the softmax in float64, whose log-sum-exp is then rounded as a capture stores it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attnscope.trace.weights import Rows, weights, wrong_rows

T, N, D = 40, 50, 8
BIASES = {
    "none": lambda rng, scores: None,
    "small": lambda rng, scores: rng.normal(size=scores.shape),
    "hides with -1e9": lambda rng, scores: np.where(rng.random(scores.shape) < 0.5, -1e9, 0.0),
    "hides with infinity": lambda rng, scores: np.where(rng.random(scores.shape) < 0.5, -np.inf, 0),
    "large": lambda rng, scores: 3e3 + rng.normal(size=scores.shape),
    "large and negative": lambda rng, scores: -3e3 + rng.normal(size=scores.shape),
    "takes large scores back": lambda rng, scores: rng.normal(size=scores.shape) - scores,
    "a slope": lambda rng, scores: -40.0 * np.abs(np.subtract.outer(np.arange(T), np.arange(N))),
}


def honest(name: str, *, size: float, sink: float = -np.inf) -> Rows:
    """Rows of which every key is in sight, with the log-sum-exp of the softmax in float64."""
    rng = np.random.default_rng(5)
    q = (size * rng.normal(size=(T, D))).astype(np.float32)
    k = rng.normal(size=(N, D)).astype(np.float32)
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    bias = BIASES[name](rng, scores)
    bias = None if bias is None else bias.astype(np.float32)
    exact = scores if bias is None else scores + bias
    exact = np.concatenate([exact, np.full((T, 1), sink)], axis=1)
    top = exact.max(axis=1)
    lse = np.log(np.exp(exact - top[:, None]).sum(axis=1)) + top
    span = np.zeros(T, np.int32), np.full(T, N, np.int32)
    return Rows(q, k, *span, lse.astype(np.float32), 0, 1.0, sink=sink, bias=bias)


@pytest.mark.parametrize("sink", [-np.inf, 1.5])
@pytest.mark.parametrize("size", [0.1, 2.0, 300.0])
@pytest.mark.parametrize("name", BIASES)
def test_honest_rows_pass(name: str, size: float, sink: float) -> None:
    rows = honest(name, size=size, sink=sink)
    assert not wrong_rows(rows, weights(rows)).any()


@pytest.mark.parametrize("shift", [2e-2, -2e-2])
@pytest.mark.parametrize("size", [0.1, 2.0])
@pytest.mark.parametrize("name", BIASES)
def test_a_row_that_is_off_by_two_percent_is_found(name: str, size: float, shift: float) -> None:
    """Whatever the bias is: the room for rounding grows with scores, and not with what hides."""
    rows = honest(name, size=size)
    lse = rows.logsumexp.copy()
    lse[7] += np.float32(shift)
    damaged = replace(rows, logsumexp=lse)
    assert np.flatnonzero(wrong_rows(damaged, weights(damaged))).tolist() == [7]


def test_a_row_that_sees_nothing_has_the_logit_of_the_sink() -> None:
    for sink in (-np.inf, 1.5):
        rows = honest("none", size=1.0, sink=sink)
        end = rows.end.copy()
        end[3] = end[4] = 0
        lse = rows.logsumexp.copy()
        lse[3] = sink
        empty = replace(rows, end=end, logsumexp=lse)
        assert np.flatnonzero(wrong_rows(empty, weights(empty))).tolist() == [4]
