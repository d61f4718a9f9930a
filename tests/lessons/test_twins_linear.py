"""What the widgets on linear and sparse attention compute is what Python computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_twins import node, same

from attnscope.core.chosen import choose, index_scores
from attnscope.lessons import twins
from attnscope.mechanisms.gated_delta import gated_delta
from attnscope.plan.flops import causal_pairs, entry_pairs


@pytest.mark.parametrize(("seed", "tokens", "width"), [(1, 6, 4), (7, 6, 4), (42, 20, 8)])
def test_linear_attention_is_the_same_by_weights_and_by_a_table(
    seed: int, tokens: int, width: int
) -> None:
    """Against the formula with torch's own elu, the weights written out."""
    [found] = node("linear.js", [("bothOrders", [seed, tokens, width])])
    drawn = torch.from_numpy(twins.normals(seed, width * (2 * tokens + 1))).view(-1, width)
    q, k, v = drawn[0], drawn[1 : 1 + tokens], drawn[1 + tokens :]
    phi = torch.nn.functional.elu
    scores = (phi(k) + 1) @ (phi(q) + 1)
    weights = scores / scores.sum()
    assert same(found["weights"], weights.numpy())
    assert same(found["byWeights"], (weights @ v).numpy())
    assert same(found["byTable"], (weights @ v).numpy())
    assert same(found["softmax"], (k @ q / width**0.5).softmax(-1).numpy())
    assert not same(found["weights"], found["softmax"], tolerance=1e-3)


@pytest.mark.parametrize(("tokens", "width"), [(1, 8), (16, 8), (4096, 128)])
def test_costs_of_both_orders_are_counted(tokens: int, width: int) -> None:
    """One by one: a score and a mean for each pair; writing, reading and the sum for a token."""
    [found] = node("linear.js", [("orderCosts", [tokens, width])])
    assert found["pairs"] == sum((i + 1) * 2 * width for i in range(tokens))
    assert found["table"] == tokens * (width * width + width * width + width)
    assert found["keptPairs"] == tokens * 2 * width
    assert found["keptTable"] == width * width + width


def _pairs(seed: int, count: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    keys, values = torch.from_numpy(twins.normals(seed, 2 * count * width)).view(2, count, width)
    return keys / keys.norm(dim=-1, keepdim=True), values


@pytest.mark.parametrize(("rule", "rate", "decay"), [
    ("add", 1.0, 1.0), ("delta", 1.0, 1.0), ("delta", 0.35, 1.0), ("gated", 1.0, 0.8),
    ("gated", 0.6, 0.97),
])  # fmt: skip
@pytest.mark.parametrize(("count", "width"), [(1, 4), (12, 16), (24, 5)])
def test_what_is_written_is_that_of_the_mechanism(
    rule: str, rate: float, decay: float, count: int, width: int
) -> None:
    keys, values = _pairs(3, count, width)
    [drawn] = node("linear.js", [("pairsOf", [3, count, width])])
    assert same(drawn["keys"], keys.numpy())
    assert same(drawn["values"], values.numpy())
    how = {"rule": rule, "rate": rate, "decay": decay}
    [table] = node("linear.js", [("written", [keys.tolist(), values.tolist(), how])])
    if rule == "add":
        wanted = keys.T @ values
    else:
        k, v = keys[None, None], values[None, None]
        fade = torch.full((1, 1, count), decay if rule == "gated" else 1.0, dtype=k.dtype).log()
        beta = torch.full_like(fade, rate)
        wanted = gated_delta(k, k, v, g=fade, beta=beta, impl="recurrent")[1][0, 0]
    assert same(table, wanted.numpy(), tolerance=1e-11)
    [off] = node("linear.js", [("offBy", [table, keys.tolist(), values.tolist()])])
    error = (keys @ wanted - values).norm(dim=-1) / values.norm(dim=-1)
    assert same(off, error.numpy(), tolerance=1e-11)
    if rule == "delta" and rate == 1.0:
        assert off[-1] < 1e-12


def _scores(seed: int, queries: int, keys: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q [1, T, h, d], keys [1, S, d] and weights [1, T, h] in the page's order."""
    H, D = 3, 4
    drawn = torch.from_numpy(twins.normals(seed, (queries * H + keys) * D + queries * H))
    q, k, w = drawn.split([queries * H * D, keys * D, queries * H])
    return q.view(1, queries, H, D), k.view(1, keys, D), w.view(1, queries, H)


@pytest.mark.parametrize(("seed", "queries", "keys"), [(1, 32, 32), (9, 20, 5)])
def test_an_indexers_scores_are_those_of_the_core(seed: int, queries: int, keys: int) -> None:
    [found] = node("sight.js", [("indexScores", [seed, queries, keys])])
    q, k, w = _scores(seed, queries, keys)
    assert same(found, index_scores(q, k, w, scale=0.5)[0].numpy())


def plan(scheme: str, **other: int) -> dict[str, object]:
    return {"scheme": scheme, "tokens": 32, "window": 6, "count": 3, "ratio": 4, "seed": 1} | other


@pytest.mark.parametrize("seed", [1, 5, 23])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_chosen_keys_are_those_of_the_core(seed: int, count: int) -> None:
    """Which of two keys with the same score comes is nobody's promise, so scores are compared."""
    T = 24
    [found] = node("sight.js", [("sightOf", [plan("chosen", tokens=T, count=count, seed=seed)])])
    q, k, w = _scores(seed, T, T)
    picks = choose(q, k, w, count=count, visible=torch.arange(1, T + 1), scale=0.5)[0]
    scores = index_scores(q, k, w, scale=0.5)[0]
    shown = np.array(found["map"]) == 1
    for t in range(T):
        wanted = scores[t, picks[t][picks[t] >= 0]].sort().values
        assert same(scores[t, shown[t]].sort().values.tolist(), wanted.numpy())
    assert not shown[np.triu_indices(T, 1)].any()
    assert found["read"] == causal_pairs(T, count) == shown.sum()
    assert found["scanned"] == causal_pairs(T)
    assert found["kept"] == T


@pytest.mark.parametrize("tokens", [8, 31, 64])
def test_reads_are_the_pairs_that_the_planner_counts(tokens: int) -> None:
    full, window = node("sight.js", [("sightOf", [plan(s, tokens=tokens)])
                                     for s in ("full", "window")])  # fmt: skip
    assert (full["read"], full["kept"]) == (causal_pairs(tokens), tokens)
    assert (window["read"], window["kept"]) == (causal_pairs(tokens, 6), min(6, tokens))
    band = np.tril(np.ones((tokens, tokens))) - np.tril(np.ones((tokens, tokens)), -6)
    assert window["map"] == band.tolist()
    assert full["map"] == np.tril(np.ones((tokens, tokens))).tolist()
    assert full["scanned"] == window["scanned"] == 0


@pytest.mark.parametrize(("tokens", "ratio", "count"), [(32, 4, 3), (30, 7, 1), (64, 2, 16)])
def test_entries_are_counted_as_the_planner_counts_them(
    tokens: int, ratio: int, count: int
) -> None:
    asked = plan("entries", tokens=tokens, ratio=ratio, count=count)
    [found] = node("sight.js", [("sightOf", [asked])])
    assert found["read"] == causal_pairs(tokens, 6) + entry_pairs(tokens, ratio, count)
    assert found["scanned"] == entry_pairs(tokens, ratio)
    assert found["kept"] == min(6, tokens) + tokens // ratio
    seen = np.array(found["map"])
    groups = tokens // ratio
    scores = index_scores(*_scores(1, tokens, groups), scale=0.5)[0]
    for t, row in enumerate(seen):
        assert (row[max(0, t - 5) : t + 1] == 1).all()
        assert not row[t + 1 :].any()
        # An entry is read only once its last token is there, and whole but for what the window
        # shows as it is; those of the largest scores, of which several may be 0.
        there, near = (t + 1) // ratio, set(range(max(0, t - 5), t + 1))
        cells = [set(range(at * ratio, (at + 1) * ratio)) - near for at in range(there)]
        marked = set(np.flatnonzero(row == 2))
        shown = [at for at in range(there) if cells[at] & marked]
        assert marked == {cell for at in shown for cell in cells[at]}
        others = [at for at in range(there) if cells[at] and at not in shown]
        hidden = sum(not one for one in cells)
        assert min(count, there) - hidden <= len(shown) <= min(count, there)
        if shown and others:
            assert scores[t, shown].min() >= scores[t, others].max()


def test_a_twin_that_went_astray_is_noticed() -> None:
    [table] = node("linear.js", [("written", [[[1, 0], [1, 0]], [[1], [2]], {"rule": "delta"}])])
    assert table == [[2], [0]]
    [added] = node("linear.js", [("written", [[[1, 0], [1, 0]], [[1], [2]], {"rule": "add"}])])
    assert not same(added, table)
