"""What widgets compute of a reader's own text, against numpy on the same handout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_twins import node, same

from attnscope import tiles
from attnscope.trace import Trace

TOKENS, WIDTH, START = 30, 6, 9


@pytest.fixture(scope="module", params=["causal", "window", "sink", "both ways"])
def head(request: pytest.FixtureRequest) -> Any:
    """One head of a random trace, from token 9 on; scores of all pairs by the definition."""
    generator = np.random.default_rng(5)
    q, k = generator.standard_normal((2, 1, TOKENS, WIDTH)).astype(np.float32)
    scores = 0.7 * (q[0].astype(float) @ k[0].astype(float).T)
    i, j = np.arange(TOKENS)[:, None], np.arange(TOKENS)[None]
    window = 12 if request.param == "window" else None
    causal = request.param != "both ways"
    seen = (j <= i) if causal else np.ones((TOKENS, TOKENS), bool)
    if window:
        seen &= j > i - window
    sink = 0.4 if request.param == "sink" else -np.inf
    raised = np.where(seen, np.exp(scores), 0)
    lse = np.log(raised.sum(1) + np.exp(sink))
    rows = np.arange(TOKENS, dtype=np.int32)
    arrays = {
        "q": q, "k": k, "logsumexp": lse[None].astype(np.float32),
        "first": np.maximum(rows - window + 1, 0).astype(np.int32) if window else 0 * rows,
        "end": rows + 1 if causal else 0 * rows + TOKENS, "origin": 0 * rows,
        "value_norms": generator.uniform(0.5, 2, (1, TOKENS)).astype(np.float32),
    }  # fmt: skip
    if np.isfinite(sink):
        arrays["sinks"] = np.array([sink], np.float32)
    text = "abcdefghijklmnopqrstuvwxyzabcd"
    header = {
        "model": {"name": "x", "architecture": "X", "layers": 1, "query_heads": 1, "kv_heads": 1,
                  "head_width": WIDTH, "width": 8},
        "mode": "replace", "text": text, "prompt_tokens": TOKENS, "statistics": ["logsumexp"],
        "tokens": [{"index": n, "id": n, "text": one, "start": n, "end": n + 1}
                   for n, one in enumerate(text)],
        "layers": [{"index": 0, "kind": "full", "window": window, "value_width": 4, "scale": 0.7,
                    "softcap": None, "causal": causal}],
    }  # fmt: skip
    made = tiles.handout(Trace.from_arrays(header, {0: arrays}), [(0, 0)], start=START)
    return made["heads"][0], scores, seen, float(np.float32(sink))


def near(found: Any, wanted: Any) -> bool:
    """Equal to the nine digits that a handout has."""
    return bool(np.allclose(np.array(found, float), wanted, rtol=1e-7, atol=1e-9))


def test_rows_under_masks_are_softmaxes_of_the_definition(head: Any) -> None:
    given, scores, seen, sink = head
    here = np.arange(TOKENS) >= START
    for row in (0, 7, TOKENS - START - 1):
        for mask in ("before", "none", "after"):
            [found] = node("seen.js", [("maskedRow", [given, row, mask])])
            inside = here & (seen[row + START] if mask == "before" else True)
            outside = ~here & seen[row + START]
            raised = np.exp(scores[row + START])
            total = raised[inside | outside].sum() + np.exp(sink)
            kept = inside & seen[row + START] if mask == "after" else inside
            assert near(found["weights"], np.where(kept, raised, 0)[here] / total), mask
            assert near(found["outside"], raised[outside].sum() / total)
            assert near(found["sink"], np.exp(sink) / total)
    [cut] = node("seen.js", [("maskedRow", [given, 5, "none", 8])])
    raised = np.exp(scores[5 + START])
    part = (np.arange(TOKENS) < START) & seen[5 + START]
    total = raised[START : START + 8].sum() + raised[part].sum() + np.exp(sink)
    assert near(cut["weights"], raised[START : START + 8] / total)


def test_keys_in_fewer_numbers_are_the_singular_values_of_the_scores(head: Any) -> None:
    given, scores, _, _ = head
    here = scores[START:, START:]
    u, s, v = np.linalg.svd(here)
    for numbers in (1, 3, WIDTH, len(here)):
        [found] = node("squeeze.js", [("squeezedScores", [given, numbers])])
        # Eigenvectors of a product of scores: half of a float64's digits.
        wanted = (u[:, :numbers] * s[:numbers]) @ v[:numbers]
        np.testing.assert_allclose(np.array(found), wanted, atol=1e-6)
    # The head is WIDTH wide, so as many numbers a key lose nothing.
    [found] = node("squeeze.js", [("squeezedScores", [given, WIDTH])])
    np.testing.assert_allclose(np.array(found), here, atol=1e-6)


def test_an_indexer_that_knows_the_head_scores_entries_by_their_sum(head: Any) -> None:
    given, scores, _, _ = head
    here = scores[START:, START:]
    for ratio in (1, 4):
        [found] = node("sight.js", [("knownScores", [given["scores"], ratio])])
        groups = len(here) // ratio
        parts = here[:, : groups * ratio].reshape(len(here), groups, ratio)
        assert near(found, np.log(np.exp(parts).sum(2)))


def test_chosen_keys_cover_what_the_largest_weights_hold(head: Any) -> None:
    given, scores, seen, _ = head
    if not seen[0, -1]:  # an indexer looks back alone
        plan = {"scheme": "chosen", "tokens": TOKENS - START, "window": 6, "count": 3, "ratio": 4,
                "seed": 1}  # fmt: skip
        [found] = node("sight.js", [("sightOf", [plan, given["scores"]])])
        [share] = node("seen.js", [("covered", [given, found["map"]])])
        wanted = []
        for row in range(START, TOKENS):
            sight = np.arange(START, row + 1)
            best = sight[np.argsort(-scores[row, sight])[:3]]
            raised = np.where(seen[row], np.exp(scores[row]), 0)
            wanted.append(raised[best].sum() / raised[sight].sum())
        assert near(share, np.mean(wanted))


def test_a_grown_row_is_the_row_times_the_square() -> None:
    scores = np.array([2.0, -1.0, 0.5])
    held = {"norm": False, "tau": None}
    [free, normed, clipped] = node(
        "../growth.js",
        [("grown", [scores.tolist(), 3, held]),
         ("grown", [scores.tolist(), 3, held | {"norm": True}]),
         ("grown", [scores.tolist(), 3, held | {"tau": 6}])],
    )  # fmt: skip
    assert same(free, scores * 9)
    assert same(normed, scores)
    assert same(clipped, scores * 9 * 6 / 18)
