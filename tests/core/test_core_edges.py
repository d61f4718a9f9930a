"""Nothing to see, NaN and infinity, and what a caller may get wrong."""

from __future__ import annotations

import math

import pytest
import torch
from referees import sdpa, sight

from attnscope.core import STATISTICS, Request, Spans, attend, spans
from attnscope.core.strip import attend_strip
from attnscope.testing import attend_by, implementations, qkv

IMPLS = implementations()


@pytest.mark.parametrize("impl", IMPLS)
def test_no_queries(impl: str) -> None:
    q, k, v = qkv(queries=0, keys=6)
    result = attend_by(impl, q, k, v, statistics=Request.of("all", pool=True))
    assert result.output.shape == (2, 4, 0, 8)
    assert result["entropy"].shape == (2, 4, 0)
    assert result["received"].shape == (2, 4, 6)
    assert not result["received"].any()


@pytest.mark.parametrize("impl", IMPLS)
def test_no_keys(impl: str) -> None:
    q, k, v = qkv(queries=3, keys=0)
    result = attend_by(impl, q, k, v, causal=False, statistics="all")
    assert result.empty.all()
    assert result.output.shape == (2, 4, 3, 8)
    assert not result.output.any()
    assert (result["argmax"] == -1).all()
    assert (result["logsumexp"] == -math.inf).all()
    assert result["received"].shape == (2, 4, 0)


@pytest.mark.parametrize("impl", IMPLS)
def test_no_batch(impl: str) -> None:
    q, k, v = qkv(batch=0)
    result = attend_by(impl, q, k, v, statistics="all")
    assert result.output.shape == (0, 4, 9, 8)
    assert result["received"].shape == (0, 4, 9)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_a_bad_number_shows_where_it_is_seen_and_nowhere_else(
    impl: str, bad: float, where: str
) -> None:
    """Rows that see it are what PyTorch makes of them; the rest is as if it were not there."""
    q, k, v = qkv(batch=1, heads=2, groups=1, queries=70, width=4)
    clean = attend_by(impl, q, k, v, statistics=["entropy", "received"])
    {"q": q, "k": k, "v": v}[where][0, -1, 40, 2] = bad
    ours = attend_by(impl, q, k, v, statistics=["entropy", "received"])
    before = (slice(None), slice(None), slice(0, 40))
    torch.testing.assert_close(ours.output[before], clean.output[before], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        ours["entropy"][before], clean["entropy"][before], rtol=1e-5, atol=1e-5
    )
    # PyTorch, asked about the one row that sees everything, has nothing masked to multiply.
    exact = sdpa(
        *(x[:, :, -1:] if x is q else x for x in (q, k, v)), seen=sight(1, 70, causal=False)
    )
    row = ours.output[:, :, -1:]
    if where == "q":
        exact = sdpa(q[:, :, 40:41], k[:, :, :41], v[:, :, :41], seen=sight(1, 41))
        row = ours.output[:, :, 40:41]
    # A key of -inf weighs nothing where q is positive, and everything (NaN) where it is negative.
    assert torch.equal(row.isfinite(), exact.isfinite())
    if where == "q":
        assert ours["received"][0, 1, 41:].isfinite().all()


@pytest.mark.parametrize("impl", IMPLS)
def test_a_key_that_is_nan_but_out_of_sight_is_nothing(impl: str) -> None:
    q, k, v = qkv(queries=20)
    documents = torch.tensor([-1] * 3 + [0] * 17)
    clean = attend_by(impl, q, k, v, documents=documents, statistics="all")
    for x in (q, k, v):
        x[:, :, :3] = math.nan
    ours = attend_by(impl, q, k, v, documents=documents, statistics="all")
    # Not bit for bit: where there are NaNs another path may take over, and round otherwise.
    torch.testing.assert_close(ours.output, clean.output, rtol=1e-5, atol=1e-6)
    for name, value in ours.statistics.items():
        torch.testing.assert_close(value, clean[name], rtol=1e-5, atol=2e-3, msg=name)


def test_the_height_of_strips_changes_nothing_but_rounding() -> None:
    q, k, v = qkv(queries=90, keys=120)
    from attnscope.core.problem import pose

    nothing = dict.fromkeys(("scale", "documents", "mask", "bias", "softcap", "sinks"))
    problem = pose(
        q, k, v, causal=True, window=50, request=Request.of("all", pool=True, rows=(3,)), **nothing
    )
    whole = attend_strip(problem)
    for budget in (1, 700, 9000):
        part = attend_strip(problem, budget=budget)
        torch.testing.assert_close(part.output, whole.output, rtol=1e-5, atol=1e-6)
        for name in whole.statistics:
            torch.testing.assert_close(part[name], whole[name], rtol=1e-5, atol=1e-5)
        assert part.map is not None and whole.map is not None  # noqa: PT018
        torch.testing.assert_close(
            part.map.mean, whole.map.mean, equal_nan=True, rtol=1e-5, atol=1e-6
        )
        torch.testing.assert_close(part.rows, whole.rows, rtol=1e-5, atol=1e-6)


def test_wrong_arguments_are_named() -> None:
    q, k, v = qkv()
    cases = [
        (ValueError, "q: expected four axes", {"q": q[0]}),
        (TypeError, "k: expected the dtype of q", {"k": k.double()}),
        (TypeError, "q: expected float32", {"q": q.int(), "k": k.int(), "v": v.int()}),
        (TypeError, "q: expected a torch.Tensor", {"q": q.numpy()}),
        (ValueError, "k: expected the width of q", {"k": k[..., :3]}),
        (ValueError, "v: expected the heads and length of k", {"v": v[:, :, :3]}),
        (ValueError, "not a multiple", {"q": q[:, :3]}),
        (ValueError, "batch", {"q": q[:1]}),
        (ValueError, "causal: 9 queries", {"k": k[:, :, :3], "v": v[:, :, :3]}),
        (ValueError, "window: expected at least 1", {"window": 0}),
        (ValueError, "softcap: expected a positive", {"softcap": 0.0}),
        (ValueError, "sinks: expected one logit per query head", {"sinks": torch.zeros(2)}),
        (TypeError, "mask: expected bool", {"mask": torch.zeros(9, 9)}),
        (ValueError, "mask: expected a shape", {"mask": torch.ones(9, 8, dtype=torch.bool)}),
        (ValueError, "bias: expected a shape", {"bias": torch.ones(3, 9, 9)}),
        (ValueError, "mask: spans of", {"mask": spans(3, 3)}),
        (ValueError, "documents: expected integers", {"documents": torch.zeros(9)}),
        (ValueError, "several pieces", {"documents": torch.tensor([0, 1, 0, 1, 1, 1, 1, 1, 1])}),
        (ValueError, "statistics: unknown name 'entrpy'", {"statistics": "entrpy"}),
        (ValueError, "needs the token ids", {"statistics": "induction_mass"}),
        (ValueError, "rows: 9 is not one", {"statistics": Request((), rows=(9,))}),
        (ValueError, "impl: unknown 'fast'", {"impl": "fast"}),
    ]
    for kind, message, changed in cases:
        options = {"q": q, "k": k, "v": v, **changed}
        tensors = [options.pop(name) for name in "qkv"]
        with pytest.raises(kind, match=message):
            attend(*tensors, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="local: expected at least 1"):
        Request((), local=0)


def test_spans_can_be_given_and_all_leaves_out_what_needs_tokens() -> None:
    q, k, v = qkv(queries=9)
    own = torch.arange(9, dtype=torch.int32)[None]
    result = attend(q, k, v, mask=Spans(own, own + 1, own, 9), statistics="all", impl="strip")
    torch.testing.assert_close(result.output, v.repeat_interleave(2, 1), rtol=0, atol=0)
    assert set(result.statistics) == set(STATISTICS) - {"induction_mass"}
