"""What widgets compute of a reader's own text, against numpy and attnscope on the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_twins import node, same

from attnscope import tiles
from attnscope.lessons import places
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


def test_a_pair_without_a_score_has_none_in_fewer_numbers_either(head: Any) -> None:
    given, *_ = head
    known = [row.copy() for row in given["scores"]]
    known[3][1] = None
    [found] = node("squeeze.js", [("squeezedScores", [{**given, "scores": known}, len(known)])])
    assert found[3].pop(1) is None
    assert all(one is not None for row in found for one in row)


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


@pytest.mark.parametrize("common", [0.0, 3.0])
def test_cosines_behind_their_mean_are_those_of_the_vectors(common: float) -> None:
    """The page has norms and cosines alone; here the mean is taken from the vectors themselves."""
    vectors = np.random.default_rng(2).standard_normal((9, 5)) + common
    vectors[6] = vectors[1]
    norms = np.linalg.norm(vectors, axis=1)
    [found] = node(
        "embeddings.js",
        [("centred", [norms.tolist(), (vectors @ vectors.T / np.outer(norms, norms)).tolist()])],
    )
    left = vectors - vectors.mean(0)
    sizes = np.linalg.norm(left, axis=1)
    assert same(found, left @ left.T / np.outer(sizes, sizes), tolerance=1e-10)


def test_a_vector_of_zeros_has_no_cosine_until_the_mean_is_taken_away() -> None:
    vectors = np.array([[3.0, 0], [0, 0], [1, 2]])
    norms = np.linalg.norm(vectors, axis=1)
    cosines = [[1, None, 1 / np.sqrt(5)], [None] * 3, [1 / np.sqrt(5), None, 1]]
    [found] = node("embeddings.js", [("centred", [norms.tolist(), cosines])])
    left = vectors - vectors.mean(0)
    sizes = np.linalg.norm(left, axis=1)
    assert same(found, left @ left.T / np.outer(sizes, sizes))


@pytest.mark.parametrize("softcap", [None, 2.5])
@pytest.mark.parametrize(("width", "rotary"), [(8, 8), (8, 4), (6, 2)])
def test_moved_queries_and_keys_score_as_positions_would_have_turned_them(
    width: int, rotary: int, softcap: float | None
) -> None:
    """What the page turns on from the captured place is turned here from no place at all."""
    plain = np.random.default_rng(3).standard_normal((2, 7, width))
    turning = places.rope(rotary, 10_000.0)
    start = 40  # of the part; the page counts from it and never learns it
    here = range(start, start + 7)
    q, k = (places.rotated(rows, here, turning) for rows in plain)
    given = {
        "rotary": {"turns": list(turning.frequencies), "q": q.tolist(), "k": k.tolist()},
        "scale": 0.6, "softcap": softcap,
    }  # fmt: skip

    def capped(scores: np.ndarray) -> np.ndarray:
        return scores if softcap is None else softcap * np.tanh(scores / softcap)

    stands = [4, 0, 3, 900, 5, 1]
    keys = [[key, at] for key, at in enumerate(stands)]
    [moved, untold] = node(
        "places.js",
        [("scoresAt", [given, [5, 12], keys]),
         ("scoresAt", [given, [5, 0], [[key, 0] for key in range(6)]])],
    )  # fmt: skip
    asks = places.rotated(plain[0][5:6], [12 + start], turning)[0]
    wanted = places.rotated(plain[1][:6], [at + start for at in stands], turning) @ asks
    assert same(moved, capped(0.6 * wanted), tolerance=1e-11)
    assert same(untold, capped(0.6 * (plain[1][:6] @ plain[0][5])), tolerance=1e-11)


def test_two_rows_meet_in_the_mean_of_their_scores() -> None:
    a, b = np.random.default_rng(4).standard_normal((2, 6)) * 5
    [mean, rest] = node(
        "row.js", [("meanScores", [[a.tolist(), b.tolist()]]), ("joint", [a.tolist()])]
    )
    assert same(mean, (a + b) / 2)
    assert same(rest, np.logaddexp.reduce(a))
