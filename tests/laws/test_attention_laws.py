"""Laws that attention obeys whatever the numbers, on every implementation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.core import STATISTICS, Request
from attnscope.core.problem import pose
from attnscope.core.softmax import exponentials
from attnscope.core.statistics import Moments, merge, needs, statistics_of
from attnscope.core.strip import attend_strip
from attnscope.testing import attend_by, implementations, qkv

IMPLS = implementations()
ROUNDING = {"rtol": 2e-5, "atol": 2e-5}
"""Scores here stay below 30, where a float32 rounding is 2e-6; ten of them for sums of 24 terms."""

laws = settings(max_examples=30, deadline=None, derandomize=True)
on_every_implementation = pytest.mark.parametrize("impl", IMPLS)


@dataclass
class Case:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    options: dict[str, Any]

    def attend(self, impl: str, **more: Any):  # type: ignore[no-untyped-def]
        return attend_by(impl, self.q, self.k, self.v, **(self.options | more))


@st.composite
def cases(draw: st.DrawFn, *, sinks: bool = True, most: int = 24) -> Case:
    keys = draw(st.integers(1, most))
    groups, repeats = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    heads = groups * repeats
    q, k, v = qkv(
        batch=draw(st.integers(1, 2)), heads=heads, groups=groups,
        queries=draw(st.integers(1, keys)), keys=keys, width=draw(st.integers(1, 6)),
        value_width=draw(st.integers(1, 5)), spread=draw(st.sampled_from([0.1, 1.0, 3.0])),
        seed=draw(st.integers(0, 10**6)),
    )  # fmt: skip
    options: dict[str, Any] = {
        "window": draw(st.none() | st.integers(1, most)),
        "softcap": draw(st.none() | st.floats(0.5, 20)),
        "scale": draw(st.none() | st.floats(0.01, 2)),
    }
    if draw(st.booleans()):
        options["documents"] = torch.tensor(sorted(draw(
            st.lists(st.integers(-1, 2), min_size=keys, max_size=keys))))  # fmt: skip
    if sinks and draw(st.booleans()):
        options["sinks"] = torch.tensor(
            draw(st.lists(st.floats(-9, 9, width=32), min_size=heads, max_size=heads))
        )
    return Case(q, k, v, options)


def all_rows(case: Case, names: tuple[str, ...] = ()) -> Request:
    return Request(names, rows=tuple(range(case.q.shape[2])))


@on_every_implementation
@given(case=cases())
@laws
def test_rows_sum_to_one_or_less_by_exactly_the_share_of_the_sink(impl: str, case: Case) -> None:
    result = case.attend(impl, statistics=all_rows(case, ("logsumexp",)))
    total = result.rows.sum(-1)
    assert (result.rows >= 0).all()
    expected = (~result.empty).float()
    if "sinks" in case.options:
        share = torch.exp(case.options["sinks"][:, None] - result["logsumexp"])
        expected = torch.where(result.empty, 0.0, 1 - share)
    torch.testing.assert_close(total, expected, **ROUNDING)


@on_every_implementation
@given(case=cases())
@laws
def test_outputs_are_convex_combinations_of_the_values_in_sight(impl: str, case: Case) -> None:
    result = case.attend(impl, statistics=all_rows(case))
    values = case.v.repeat_interleave(case.q.shape[1] // case.k.shape[1], 1)[:, :, None]
    seen = (result.rows > 0)[..., None]
    high = torch.where(seen, values, -torch.inf).amax(-2)
    low = torch.where(seen, values, torch.inf).amin(-2)
    if "sinks" in case.options:  # the sink is a value of zero
        high, low = high.clamp(min=0), low.clamp(max=0)
    high = high.masked_fill(result.empty[..., None], 0)
    low = low.masked_fill(result.empty[..., None], 0)
    assert (result.output <= high + 1e-5).all()
    assert (result.output >= low - 1e-5).all()


@on_every_implementation
@given(case=cases(), data=st.data())
@laws
def test_a_later_key_cannot_matter(impl: str, case: Case, data: st.DataObject) -> None:
    T, S = case.q.shape[2], case.k.shape[2]
    row = data.draw(st.integers(0, T - 1))
    after = S - T + row + 1
    names = ("entropy", "logsumexp", "sink_mass", "mean_distance")
    before = case.attend(impl, statistics=names)
    case.k[:, :, after:] = 99.0
    case.v[:, :, after:] = torch.nan
    changed = case.attend(impl, statistics=names)
    rows = slice(0, row + 1)
    torch.testing.assert_close(changed.output[:, :, rows], before.output[:, :, rows], **ROUNDING)
    for name in names:
        torch.testing.assert_close(changed[name][:, :, rows], before[name][:, :, rows], **ROUNDING)


@on_every_implementation
@given(case=cases(), data=st.data())
@laws
def test_permuting_heads_permutes_everything(impl: str, case: Case, data: st.DataObject) -> None:
    H, G = case.q.shape[1], case.k.shape[1]
    order = torch.tensor(data.draw(st.permutations(range(G))))
    heads = (order[:, None] * (H // G) + torch.arange(H // G)).flatten()
    options = dict(case.options)
    if "sinks" in options:
        options["sinks"] = options["sinks"][heads]
    moved = Case(case.q[:, heads], case.k[:, order], case.v[:, order], options)
    before, after = (x.attend(impl, statistics="all") for x in (case, moved))
    torch.testing.assert_close(after.output, before.output[:, heads], **ROUNDING)
    for name, value in after.statistics.items():
        if name not in ("argmax", "jacobian_norm"):  # ties, and see test_core_statistics.CANCELLED
            torch.testing.assert_close(
                value, before[name][:, heads], rtol=1e-4, atol=1e-4, msg=name
            )


@on_every_implementation
@given(case=cases(sinks=False), data=st.data())
@laws
def test_adding_a_constant_to_a_row_changes_nothing(
    impl: str, case: Case, data: st.DataObject
) -> None:
    T = case.q.shape[2]
    numbers = st.lists(st.floats(-9, 9, width=32), min_size=T, max_size=T)
    constant = torch.tensor(data.draw(numbers))
    names = ("entropy", "participation", "logsumexp", "received")
    before = case.attend(impl, statistics=names)
    after = case.attend(impl, statistics=names, bias=constant[:, None])
    torch.testing.assert_close(after.output, before.output, **ROUNDING)
    torch.testing.assert_close(after["entropy"], before["entropy"], rtol=1e-4, atol=5e-5)
    torch.testing.assert_close(after["received"], before["received"], rtol=1e-4, atol=5e-5)
    torch.testing.assert_close(after["logsumexp"], before["logsumexp"] + constant, **ROUNDING)


@on_every_implementation
@given(case=cases())
@laws
def test_received_adds_up_to_what_the_rows_give(impl: str, case: Case) -> None:
    result = case.attend(impl, statistics=all_rows(case, ("received",)))
    torch.testing.assert_close(result["received"], result.rows.sum(2), **ROUNDING)


@on_every_implementation
@given(case=cases(), data=st.data())
@laws
def test_chunks_of_queries_are_the_whole(impl: str, case: Case, data: st.DataObject) -> None:
    """Prefill, chunked prefill and decode are one function."""
    T, S = case.q.shape[2], case.k.shape[2]
    cut = data.draw(st.integers(0, T))
    whole = case.attend(impl, statistics="entropy")
    documents = case.options.get("documents")
    until = S - T + cut
    head_options = case.options | {"documents": None if documents is None else documents[:until]}
    head = Case(case.q[:, :, :cut], case.k[:, :, :until], case.v[:, :, :until], head_options)
    tail = Case(case.q[:, :, cut:], case.k, case.v, case.options)
    parts = [part.attend(impl, statistics="entropy") for part in (head, tail)]
    output = torch.cat([part.output for part in parts], dim=2)
    torch.testing.assert_close(output, whole.output, **ROUNDING)
    entropy = torch.cat([part["entropy"] for part in parts], dim=2)
    torch.testing.assert_close(entropy, whole["entropy"], rtol=1e-4, atol=5e-5)


@on_every_implementation
@given(case=cases())
@laws
def test_grouped_heads_are_repeated_keys(impl: str, case: Case) -> None:
    repeats = case.q.shape[1] // case.k.shape[1]
    k, v = (x.repeat_interleave(repeats, 1) for x in (case.k, case.v))
    repeated = Case(case.q, k, v, case.options).attend(impl, statistics="entropy")
    grouped = case.attend(impl, statistics="entropy")
    torch.testing.assert_close(grouped.output, repeated.output, **ROUNDING)
    torch.testing.assert_close(grouped["entropy"], repeated["entropy"], rtol=1e-4, atol=5e-5)


@given(case=cases(), budget=st.integers(1, 20_000))
@laws
def test_the_height_of_strips_is_irrelevant(case: Case, budget: int) -> None:
    nothing = dict.fromkeys(("documents", "mask", "bias", "sinks"))
    wide = [x.double() for x in (case.q, case.k, case.v)]
    request = Request.of("all", pool=True)
    problem = pose(*wide, causal=True, request=request, **(nothing | case.options))
    whole, cut = attend_strip(problem), attend_strip(problem, budget=budget)
    torch.testing.assert_close(cut.output, whole.output, rtol=1e-12, atol=1e-12)
    for name, value in whole.statistics.items():
        if name != "argmax":
            # jacobian_norm is the square root of a difference: a rounding of 1e-16 may become 1e-8.
            close = 1e-7 if name == "jacobian_norm" else 1e-11
            torch.testing.assert_close(cut[name], value, rtol=1e-10, atol=close, msg=name)
    torch.testing.assert_close(cut.map.mean, whole.map.mean, equal_nan=True)


def _moments(scores: torch.Tensor, sink: torch.Tensor | None, low: int) -> Moments:
    """The moments of some columns, those that depend on the place of keys included."""
    need = needs(STATISTICS)
    e, _, moments = exponentials(scores.clone(), torch.empty_like(scores), sink=sink, need=need)
    j = torch.arange(low, low + scores.shape[-1])
    return replace(
        moments,
        where=moments.where + low,
        distance=((40 - j) * e).sum(-1),
        own=e[..., j == 3].sum(-1),
        previous=e[..., j == 2].sum(-1),
        near=e[..., j >= 5].sum(-1),
        begun=e[..., j < 2].sum(-1),
        repeat=e[..., j % 3 == 0].sum(-1),
    )


@given(
    scores=st.lists(st.floats(-300, 300) | st.just(-torch.inf), min_size=3, max_size=12),
    cuts=st.tuples(st.integers(1, 11), st.integers(1, 11)),
    sink=st.none() | st.floats(-50, 50),
    with_sink=st.integers(0, 2),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_merging_two_parts_is_reading_the_whole(
    scores: list[float], cuts: tuple[int, int], sink: float | None, with_sink: int
) -> None:
    whole = torch.tensor([scores], dtype=torch.float64)
    logit = None if sink is None else torch.tensor(sink, dtype=torch.float64)
    edges = [0, *sorted({cut for cut in cuts if cut < len(scores)}), len(scores)]
    holder = with_sink % (len(edges) - 1)
    parts = [
        _moments(whole[:, low:high], logit if number == holder else None, low)
        for number, (low, high) in enumerate(pairwise(edges))
    ]
    merged = parts[0]
    for part in parts[1:]:
        merged = merge(merged, part)
    names = [name for name in STATISTICS if name != "received"]
    expected = statistics_of(_moments(whole, logit, 0), names)
    found = statistics_of(merged, names)
    for name in names:
        close = 1e-7 if name == "jacobian_norm" else 1e-11
        torch.testing.assert_close(found[name], expected[name], rtol=1e-9, atol=close, msg=name)


def test_merging_refuses_what_cannot_be_merged() -> None:
    scores, sink = torch.zeros(1, 3, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    held = _moments(scores, sink, 0)
    with pytest.raises(ValueError, match="both parts hold the sink"):
        merge(held, held)
    bare = exponentials(scores.clone(), torch.empty_like(scores))[2]
    with pytest.raises(ValueError, match="only one has"):
        merge(held, bare)
    with pytest.raises(ValueError, match="'tilted' was not taken"):
        statistics_of(bare, ["entropy"])
