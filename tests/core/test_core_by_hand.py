"""Cases small enough to be worked out on paper."""

from __future__ import annotations

import math

import pytest
import torch

from attnscope.core import ROW_STATISTICS, STATISTICS, Attention, Request
from attnscope.testing import attend_by, implementations

IMPLS = implementations()
CLOSE = {"rel": 2e-6, "abs": 2e-6}
"""A handful of float32 roundings (6e-8 each) on numbers of size 1."""


def scored(impl: str, scores: list[list[float]], **options) -> Attention:  # type: ignore[no-untyped-def]
    """Attention whose raw scores are those given: q holds the scores, k is the identity."""
    q = torch.tensor(scores)[None, None]
    keys = q.shape[-1]
    k = torch.eye(keys)[None, None]
    v = torch.arange(1.0, keys + 1)[None, None, :, None]
    options.setdefault("statistics", "all")
    return attend_by(impl, q, k, v, scale=1.0, **options)


def numbers(result: Attention, name: str) -> list[float]:
    return result[name][0, 0].tolist()


@pytest.mark.parametrize("impl", IMPLS)
def test_the_three_scores_8_7_9(impl: str) -> None:
    result = scored(impl, [[8.0, 7.0, 9.0]])
    p = [0.24472847, 0.09003057, 0.66524096]  # e^8, e^7 and e^9 over their sum 12180.7
    expected = {
        "logsumexp": 9.40760596, "max_logit": 9.0, "max_weight": p[2], "argmax": 2,
        "self_mass": p[2], "previous_mass": p[1], "local_mass": 1.0, "sink_mass": p[0],
        "mean_distance": 2 * p[0] + p[1],
    }  # fmt: skip
    # The rest follows from the three weights, in plain Python.
    expected["participation"] = 1 / sum(x * x for x in p)
    expected["entropy"] = -sum(x * math.log(x) for x in p)
    expected["effective_keys"] = math.exp(expected["entropy"])
    s2, s3 = sum(x**2 for x in p), sum(x**3 for x in p)
    expected["jacobian_norm"] = math.sqrt(s2 - 2 * s3 + s2 * s2)
    assert set(expected) == set(ROW_STATISTICS) - {"induction_mass"}
    for name, value in expected.items():
        assert numbers(result, name) == pytest.approx([value], **CLOSE), name
    assert numbers(result, "received") == pytest.approx(p, **CLOSE)
    assert result.output.item() == pytest.approx(p[0] + 2 * p[1] + 3 * p[2], **CLOSE)


@pytest.mark.parametrize("impl", IMPLS)
def test_equal_scores_under_a_causal_mask(impl: str) -> None:
    result = scored(impl, [[0.0] * 4] * 4)
    assert numbers(result, "entropy") == pytest.approx([math.log(n) for n in (1, 2, 3, 4)], **CLOSE)
    assert numbers(result, "participation") == pytest.approx([1, 2, 3, 4], **CLOSE)
    assert numbers(result, "mean_distance") == pytest.approx([0, 0.5, 1, 1.5], **CLOSE)
    assert numbers(result, "argmax") == [0, 0, 0, 0]
    received = [1 + 1 / 2 + 1 / 3 + 1 / 4, 1 / 2 + 1 / 3 + 1 / 4, 1 / 3 + 1 / 4, 1 / 4]
    assert numbers(result, "received") == pytest.approx(received, **CLOSE)
    # diag(p) - p p^T of n equal weights: sqrt((n - 1)) / n
    norm = [math.sqrt(n - 1) / n for n in (1, 2, 3, 4)]
    assert numbers(result, "jacobian_norm") == pytest.approx(norm, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("impl", IMPLS)
def test_a_learned_sink_takes_its_share_and_nothing_is_renormalised(impl: str) -> None:
    result = scored(impl, [[0.0, 0.0]], sinks=torch.tensor([math.log(2.0)]))
    assert numbers(result, "max_weight") == pytest.approx([0.25], **CLOSE)
    assert numbers(result, "logsumexp") == pytest.approx([math.log(4)], **CLOSE)
    assert numbers(result, "entropy") == pytest.approx([2 * 0.25 * math.log(4)], **CLOSE)
    assert numbers(result, "participation") == pytest.approx([1 / (2 / 16)], **CLOSE)
    assert numbers(result, "sink_mass") == pytest.approx([0.25 + 0.5], **CLOSE)
    assert numbers(result, "mean_distance") == pytest.approx([0.25], **CLOSE)
    assert result.output.item() == pytest.approx(0.25 * 1 + 0.25 * 2, **CLOSE)


@pytest.mark.parametrize("impl", IMPLS)
def test_soft_cap_comes_after_the_scale_and_before_the_bias(impl: str) -> None:
    bias = torch.tensor([0.0, 5.0])
    result = scored(impl, [[100.0, 0.0]], softcap=3.0, bias=bias)
    assert numbers(result, "max_logit") == pytest.approx([5.0], **CLOSE)
    assert numbers(result, "logsumexp") == pytest.approx([math.log(math.e**3 + math.e**5)], **CLOSE)


@pytest.mark.parametrize("impl", IMPLS)
def test_induction_looks_at_what_followed_the_same_token(impl: str) -> None:
    tokens = torch.tensor([7, 8, 9, 7, 8])
    request = Request.of("induction_mass", tokens=tokens)
    result = scored(impl, [[0.0] * 5] * 5, statistics=request)
    # 7 at 3 looks at 8 (key 1); 8 at 4 looks at 9 (key 2); a token never follows itself here.
    assert numbers(result, "induction_mass") == pytest.approx([0, 0, 0, 1 / 4, 1 / 5], **CLOSE)
    repeated = Request.of("induction_mass", tokens=torch.tensor([3, 3, 3]))
    result = scored(impl, [[0.0] * 3] * 3, statistics=repeated)
    assert numbers(result, "induction_mass") == pytest.approx([0, 1 / 2, 2 / 3], **CLOSE)


@pytest.mark.parametrize("impl", IMPLS)
def test_local_and_sink_counts(impl: str) -> None:
    request = Request.of(["local_mass", "sink_mass"], local=2, sink_keys=3)
    result = scored(impl, [[0.0] * 5] * 5, statistics=request)
    assert numbers(result, "local_mass") == pytest.approx([1, 1, 2 / 3, 2 / 4, 2 / 5], **CLOSE)
    assert numbers(result, "sink_mass") == pytest.approx([1, 1, 1, 3 / 4, 3 / 5], **CLOSE)


@pytest.mark.parametrize("impl", IMPLS)
def test_eight_keys_are_local_and_one_is_the_sink_if_nothing_is_said(impl: str) -> None:
    """Equal scores: the n keys that a row sees have 1 / n each."""
    q, k, v = (torch.zeros(1, 1, 12, 4) for _ in range(3))
    found = attend_by(impl, q, k, v, statistics=["local_mass", "sink_mass"])
    n = torch.arange(1.0, 13.0)
    # one division in float32
    torch.testing.assert_close(found["local_mass"][0, 0], n.clamp(max=8) / n, rtol=1e-6, atol=0)
    torch.testing.assert_close(found["sink_mass"][0, 0], 1 / n, rtol=1e-6, atol=0)


@pytest.mark.parametrize("impl", IMPLS)
def test_the_sink_of_a_packed_document_is_its_own_first_key(impl: str) -> None:
    documents = torch.tensor([0, 0, 1, 1, 1])
    result = scored(impl, [[0.0] * 5] * 5, documents=documents)
    assert numbers(result, "sink_mass") == pytest.approx([1, 1 / 2, 1, 1 / 2, 1 / 3], **CLOSE)
    assert numbers(result, "previous_mass") == pytest.approx([0, 1 / 2, 0, 1 / 2, 1 / 3], **CLOSE)


@pytest.mark.parametrize("impl", IMPLS)
def test_rows_that_see_nothing_say_so(impl: str) -> None:
    hidden = torch.tensor([-1, -1, 0, 0])
    result = scored(impl, [[1.0] * 4] * 4, documents=hidden)
    assert result.empty[0, 0].tolist() == [True, True, False, False]
    said = {"argmax": -1, "max_logit": -math.inf, "logsumexp": -math.inf}
    for name in ROW_STATISTICS:
        if name != "induction_mass":
            assert numbers(result, name)[:2] == [said.get(name, 0.0)] * 2, name
    assert result.output[0, 0, :2].tolist() == [[0.0], [0.0]]
    with_sink = scored(impl, [[1.0] * 4] * 4, documents=hidden, sinks=torch.tensor([2.5]))
    assert numbers(with_sink, "logsumexp")[:2] == pytest.approx([2.5, 2.5], **CLOSE)
    assert numbers(with_sink, "sink_mass")[:2] == pytest.approx([1.0, 1.0], **CLOSE)
    assert numbers(with_sink, "effective_keys")[:2] == [0.0, 0.0]
    assert numbers(with_sink, "received")[:2] == [0.0, 0.0]


@pytest.mark.parametrize("impl", IMPLS)
def test_the_map_of_a_small_matrix_is_the_matrix(impl: str) -> None:
    result = scored(impl, [[0.0] * 3] * 3, statistics=Request((), pool=True, rows=(-1, 0)))
    assert result.map is not None
    assert result.map.cell == 1
    expected = [[1, math.nan, math.nan], [1 / 2, 1 / 2, math.nan], [1 / 3, 1 / 3, 1 / 3]]
    for plane in (result.map.mean, result.map.max):
        assert plane[0, 0].flatten().tolist() == pytest.approx(
            [x for row in expected for x in row], **CLOSE, nan_ok=True
        )
    assert result.map.argmax[0, 0].tolist() == [[0, -1, -1], [0, 0, -1], [0, 0, 0]]
    assert result.rows is not None
    assert result.rows[0, 0].flatten().tolist() == pytest.approx([1 / 3] * 3 + [1, 0, 0], **CLOSE)


def test_every_statistic_is_named_here() -> None:
    """A new statistic must be worked out by hand too."""
    assert set(STATISTICS) == {*ROW_STATISTICS, "received"}
    assert len(ROW_STATISTICS) == 14
