"""Spans against masks written out pair by pair, and how work is cut along them."""

from __future__ import annotations

import pytest
import torch
from referees import sight

from attnscope.core import Request, as_spans, attend, spans
from attnscope.core.bands import parts
from attnscope.core.problem import map_cell, pose
from attnscope.testing import qkv

DOCUMENTS = {
    "none": None,
    "packed": torch.tensor([0, 0, 0, 1, 1, 4, 4, 4, 4, 2, 2]),
    "left_padding": torch.tensor([[-1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0] * 11]),
    "right_padding": torch.tensor([0] * 7 + [-1] * 4),
}


@pytest.mark.parametrize("documents", DOCUMENTS)
@pytest.mark.parametrize("window", [None, 1, 4, 50])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries", [11, 3, 0])
def test_spans(queries: int, causal: bool, window: int | None, documents: str) -> None:
    ids = DOCUMENTS[documents]
    made = spans(queries, 11, causal=causal, window=window, documents=ids)
    seen = sight(queries, 11, causal=causal, window=window, documents=ids)
    assert torch.equal(made.visible().expand(seen.shape), seen)
    assert torch.equal(made.empty().expand(len(seen), queries), ~seen.any(-1)[:, 0])
    read = as_spans(seen, queries, 11, batch=len(seen))
    assert read is not None
    assert torch.equal(read.visible().expand(seen.shape), seen)


def test_what_is_no_interval_or_differs_between_heads_is_not_read_as_one() -> None:
    hole = torch.ones(5, 5, dtype=torch.bool)
    hole[3, 2] = False
    assert as_spans(hole, 5, 5, batch=1) is None
    by_head = torch.ones(1, 2, 5, 5, dtype=torch.bool).tril()
    by_head[:, 1, 4, 0] = False
    assert as_spans(by_head, 5, 5, batch=1) is None
    assert as_spans(lambda b, h, i, j: j >= h, 5, 5, batch=1, heads=2) is None
    same = as_spans(lambda b, h, i, j: j <= i, 3, 5, batch=1, heads=2)
    assert same is not None
    assert same.end.tolist() == [[3, 4, 5]]


def test_the_origin_is_where_the_document_begins() -> None:
    packed = spans(11, 11, documents=DOCUMENTS["packed"], window=2)
    assert packed.origin[0].tolist() == [0, 0, 0, 3, 3, 5, 5, 5, 5, 9, 9]
    assert packed.first[0].tolist() == [0, 0, 1, 3, 3, 5, 5, 6, 7, 9, 9]
    shown = as_spans(packed.visible(), 11, 11, batch=1)
    assert shown is not None
    assert shown.origin[0].tolist() == [0] * 11


def _pairs(T: int, S: int, **options) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    """How many query-key pairs the strips touch, and how many are in sight."""
    q, k, v = qkv(batch=1, heads=2, groups=1, queries=T, keys=S, width=2)
    defaults = dict.fromkeys(("scale", "window", "documents", "mask", "bias", "softcap", "sinks"))
    problem = pose(q, k, v, **{"causal": True, **defaults, **options}, request=Request())
    touched, after = 0, 0
    (part,) = parts(problem, budget=1 << 18)
    for band in part.bands:
        assert band.start == after
        after = band.stop
        touched += (band.stop - band.start) * (band.high - band.low)
        assert band.stop - band.start == 1 or 2 * (band.stop - band.start) * (
            band.high - band.low
        ) * 4 <= 2 * (1 << 18)
    assert after == T
    seen = int((problem.spans.end - problem.spans.first).clamp(min=0).sum())
    return touched, seen


def test_work_follows_what_is_in_sight() -> None:
    """Windows cost T x w, packed documents their own squares, causal about half the square."""
    for options, most in (
        ({"window": 64}, 2.1),
        ({"window": 512}, 2.0),
        ({"documents": torch.arange(6000) // 100}, 2.5),
        ({}, 1.2),
    ):
        touched, seen = _pairs(6000, 6000, **options)
        assert seen <= touched <= most * seen, (options, touched / seen)
    wide, narrow = _pairs(6000, 6000)[0], _pairs(6000, 6000, window=64)[0]
    assert narrow < wide / 20


def test_map_cells() -> None:
    for queries, keys in ((1, 1), (1024, 1024), (1025, 3), (5, 1025), (8192, 8192), (10**6, 10)):
        cell = map_cell(queries, keys)
        assert cell & (cell - 1) == 0
        assert -(-max(queries, keys) // cell) <= 1024
        assert cell == 1 or max(queries, keys) / (cell / 2) > 1024


def test_a_mask_function_that_ignores_heads_is_read_once() -> None:
    asked = []

    def rule(b, h, i, j):  # type: ignore[no-untyped-def]
        asked.append(i.numel() * j.numel())
        return j <= i

    q, k, v = qkv(queries=9)
    assert attend(q, k, v, mask=rule, impl="strip").output.isfinite().all()
    assert sum(asked) == 81
