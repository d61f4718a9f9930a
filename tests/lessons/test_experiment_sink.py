"""A row with nothing to look for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attnscope.lessons.experiments.sink import KEYS, Sink, _rows, run
from attnscope.lessons.world import load


@pytest.fixture(scope="module")
def found() -> Sink:
    return run(sinks=(-2.0, 0.0, 3.0), gates=(-4.0, 0.0, 30.0))


def test_the_sources_numbers(found: Sink) -> None:
    assert found.scores.round(2).tolist() == [0.04, 0.36, 0.0]
    assert (100 * found.weights).round().tolist() == [30, 41, 29]
    assert found.tokens == ("小明", "把", "苹果")


def test_a_sink_takes_its_share_and_leaves_the_rest_in_proportion(found: Sink) -> None:
    for sink, weights, kept, norm in zip(
        found.sinks, found.weights_with_sink, found.kept, found.norms, strict=True
    ):
        e = np.exp(found.scores)
        assert np.allclose(weights, e / (e.sum() + math.exp(sink)), rtol=1e-14)
        assert weights.sum() == pytest.approx(kept, rel=1e-14)
        assert norm == pytest.approx(np.linalg.norm(weights @ load().v[:3]), rel=1e-13)
    assert (np.diff(found.kept) < 0).all()


def test_a_zero_key_with_a_zero_value_is_the_sink_of_logit_zero(found: Sink) -> None:
    assert found.zero_key_norm == pytest.approx(found.norms[1], rel=1e-13)


def test_a_gate_multiplies_what_was_fetched(found: Sink) -> None:
    assert found.gated_norms[1] == pytest.approx(found.plain_norm / 2, rel=1e-15)
    assert found.gated_norms[2] == pytest.approx(found.plain_norm, rel=1e-12)
    assert found.gated_norms[0] < 0.02 * found.plain_norm


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_only_a_sink_or_a_gate_learns_to_fetch_nothing(seed: int) -> None:
    """With the worst of three seeds well on the right side: 0.5 against 0.25 of always zero."""
    found = run(seed=seed)
    assert found.learned_error["plain"] > 0.5
    assert max(found.learned_error["sink"], found.learned_error["gate"]) < 0.25
    assert found.learned_still["plain"] > 2 * found.learned_still["sink"]
    assert found.learned_still["plain"] > 2 * found.learned_still["gate"]


def test_rows_have_a_match_or_none() -> None:
    random = torch.Generator().manual_seed(0)
    names = torch.randn(4 * KEYS, 16, generator=random)
    q, k, v, target, found = _rows(500, names, random)
    same = (k == q[:, None]).all(-1)
    assert torch.equal(same.sum(-1), found.long())
    assert torch.equal(target[~found], torch.zeros_like(target[~found]))
    assert torch.equal(target[found], v[same])
    # Half of 500, within 4.5 standard errors.
    assert abs(float(found.float().mean()) - 0.5) < 4.5 * 0.5 / math.sqrt(500)


def test_bad_input_is_named() -> None:
    for wrong, message in (
        ({"steps": -1}, r"steps: expected at least 0, got -1"),
        ({"sinks": ()}, r"sinks: expected finite numbers, got \(\)"),
        ({"gates": (math.nan,)}, r"gates: expected finite numbers, got \(nan,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            run(**wrong)
