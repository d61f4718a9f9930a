"""A handout's scores and weights are the dense float64 map's, and those of eager attention."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tile_samples import Case, Truth, cases, header, truth

from attnscope import tiles
from attnscope.errors import TraceError
from attnscope.tiles import handouts
from attnscope.trace import Trace

WRITTEN = 1e-8
"""Nine digits are written."""
TEACHING = "小明把苹果给了小王"


def trace(*given: Case) -> tuple[Trace, list[Truth]]:
    """A trace with a token of one letter for each key."""
    truths = [truth(case) for case in given]
    text = "".join(chr(97 + at % 26) for at in range(given[0].S))
    tokens = [
        {"index": at, "id": at % 7, "text": one, "start": at, "end": at + 1}
        for at, one in enumerate(text)
    ]
    fields = header(*given) | {"tokens": tokens, "text": text, "prompt_tokens": len(text)}
    return Trace.from_arrays(fields, {at: one.arrays for at, one in enumerate(truths)}), truths


def matrix(rows: list[list[float | None]]) -> np.ndarray:
    return np.array([[np.nan if one is None else one for one in row] for row in rows], float)


@settings(deadline=None)
@given(cases(), st.integers(1, 12), st.data())
def test_every_pair_is_that_of_the_dense_map(case: Case, most: int, data: st.DataObject) -> None:
    assume(not case.cross)
    made, (found,) = trace(case)
    head, offset = data.draw(st.integers(0, case.H - 1)), case.S - case.T
    start = data.draw(st.integers(offset, case.S - 1))
    with (
        mock.patch.object(handouts, "MOST_TOKENS", most),
        mock.patch.object(handouts, "KEYS", 5),
    ):
        said = tiles.handout(made, [(0, head)], start=start)
    stop = min(start + most, case.S)
    assert said["tokens"]["labels"] == [one.text for one in made.tokens[start:stop]]
    [one] = said["heads"]
    keys = slice(start, stop)
    rows = slice(start - offset, stop - offset)
    scores, seen = found.scores[head][rows, keys], found.seen[head][rows, keys]
    weights = np.where(found.seen[head], found.weights[head], 0)[rows]
    # Computed in float64 from what is stored; the dense map is not rounded to float32 either.
    at_rest = np.where(np.isfinite(scores), scores, np.nan)
    np.testing.assert_allclose(matrix(one["scores"]), at_rest, rtol=WRITTEN, atol=1e-7)
    shown = np.where(seen, weights[:, keys], np.nan)
    np.testing.assert_allclose(matrix(one["weights"]), shown, rtol=1e-6, atol=1e-12)
    beyond = weights.copy()
    beyond[:, keys] = 0
    outside = one["outside"]
    np.testing.assert_allclose(outside["weights"], beyond.sum(1), rtol=1e-6, atol=1e-12)
    counted = found.seen[head][rows].copy()
    counted[:, keys] = False
    assert outside["keys"] == counted.sum(1).tolist()
    assert [one is None for one in outside["logsumexp"]] == [n == 0 for n in outside["keys"]]
    norms = found.arrays["value_norms"][head].astype(float)
    np.testing.assert_allclose(one["norms"], norms[keys], rtol=WRITTEN)
    np.testing.assert_allclose(outside["arrived"], beyond @ norms, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(one["sink_weights"], found.sink[head][rows], rtol=1e-6, atol=1e-12)
    json.dumps(said, allow_nan=False)


def test_what_lies_outside_acts_as_one_key() -> None:
    """A softmax over a row's scores, the rest as one score, gives the weights of the whole row."""
    made, (found,) = trace(Case(T=100, S=100, window=80))
    [one] = tiles.handout(made, [(0, 1)], start=30)["heads"]
    row = 60  # token 90; it sees tokens 11 to 90
    here = [s for s, w in zip(one["scores"][row], one["weights"][row], strict=True)
            if w is not None]  # fmt: skip
    raised = np.exp(np.array([one["outside"]["logsumexp"][row], *here]))
    raised /= raised.sum()
    assert one["outside"]["keys"][row] == 19
    np.testing.assert_allclose(raised[1:], found.weights[1][90, 30:91], rtol=1e-7)
    np.testing.assert_allclose(raised[0], found.weights[1][90, :30].sum(), rtol=1e-7)


@pytest.mark.parametrize(
    ("heads", "start", "said"),
    [
        ([], 0, "heads: expected 1 to 16, got 0"),
        ([(0, 0)] * 17, 0, "heads: expected 1 to 16, got 17"),
        ([(0, 2)], 0, "head: expected a whole number from 0 to 1, got 2"),
        ([(1, 0)], 0, "layer: 1 has no attention map"),
        ([(0, 0)], 24, "start: expected a whole number from 0 to 23, got 24"),
        ([(0, 0)], -1, "start: expected a whole number from 0 to 23, got -1"),
    ],
)
def test_what_is_not_there_is_a_sentence(
    heads: list[tuple[int, int]], start: int, said: str
) -> None:
    made, _ = trace(Case())
    with pytest.raises(ValueError, match=said):
        tiles.handout(made, heads, start=start)


def test_layers_without_a_text_of_their_own_are_refused() -> None:
    made, _ = trace(Case(T=20, S=24))
    assert tiles.handout(made, [(0, 0)])["tokens"]["start"] == 4
    with pytest.raises(ValueError, match="start: the tokens before 4 asked nothing here"):
        tiles.handout(made, [(0, 0)], start=3)
    cross = Case(cross=True, causal=False)
    made = Trace.from_arrays(header(cross), {0: truth(cross).arrays})
    with pytest.raises(ValueError, match="layer: 0 looks at another sequence"):
        tiles.handout(made, [(0, 0)])
    case = Case()
    made = Trace.from_arrays(header(case), {0: truth(case).arrays})
    with pytest.raises(ValueError, match="this trace does not say what its tokens are"):
        tiles.handout(made, [(0, 0)])


def test_a_wrong_log_sum_exp_is_found() -> None:
    case = Case(T=80, S=80)
    found = truth(case)
    arrays = dict(found.arrays)
    arrays["logsumexp"] = arrays["logsumexp"].copy()
    arrays["logsumexp"][0, 70] -= 0.01
    good, _ = trace(case)
    made = Trace(good.header, Trace.from_arrays(good.header, {0: found.arrays})._records)
    made._records[0].logsumexp = arrays["logsumexp"]  # type: ignore[misc]
    with pytest.raises(TraceError, match="the weights of query 70 do not sum"):
        tiles.handout(made, [(0, 0)], start=20)
    tiles.handout(made, [(0, 0)], start=0)


def test_a_check_ends_the_work() -> None:
    made, _ = trace(Case(T=100, S=100))

    def check() -> None:
        raise InterruptedError

    tiles.handout(made, [(0, 0)], start=0, check=check)  # nothing lies outside
    with pytest.raises(InterruptedError):
        tiles.handout(made, [(0, 0)], start=50, check=check)


def test_the_clearest_heads_are_one_of_each_kind() -> None:
    from attnscope import capture
    from attnscope.capture.shrink import build

    made = capture(build("llama"), list(range(5, 40)))
    chosen = handouts.clearest(made)
    kinds = {(one.layer, one.head): one for one in made.kinds()}
    named = [kinds[at].kind for at in chosen]
    assert sorted(set(named)) == sorted({one.kind for one in kinds.values()})
    assert len(set(named)) == len(named)
    for at in chosen:
        rivals = [one.share for one in kinds.values() if one.kind == kinds[at].kind]
        assert kinds[at].share == max(rivals)
    bare = trace(Case())[0]
    assert handouts.clearest(bare) == [(0, 0)]
    said = tiles.handout(with_tokens(made), chosen)["all"]
    assert [(one["layer"], one["head"], one["kind"]) for one in said] == [
        (one.layer, one.head, one.kind) for one in kinds.values()
    ]
    first = made.layer(2).statistic("sink_mass")[1].mean()
    [line] = [one for one in said if (one["layer"], one["head"]) == (2, 1)]
    assert line["first"] == pytest.approx(first, rel=1e-6)
    assert line["share"] == pytest.approx(kinds[2, 1].share, rel=1e-6)
    assert tiles.handout(bare, [(0, 0)])["heads"][0]["kind"] == "unknown"


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt_oss", "gemma2"])
def test_a_handout_is_what_eager_attention_does(family: str) -> None:
    """Weights of transformers' own eager attention of a small random model, learned sinks too."""
    import torch

    from attnscope import capture
    from attnscope.capture.shrink import build

    model = build(family)
    model.set_attn_implementation("eager")
    ids = list(range(3, 90))
    made = capture(model, ids)
    assert isinstance(made, Trace)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions
    for info in made.layers:
        head = info.query_heads - 1
        [one] = tiles.handout(with_tokens(made), [(info.index, head)], start=20)["heads"]
        wanted = eager[info.index][0, head].double().numpy()[20:84]
        shown = np.nan_to_num(matrix(one["weights"]))
        # Two float32 computations of a row: see WEIGHT_ROOM in tests/capture/models.py.
        np.testing.assert_allclose(shown, wanted[:, 20:84], rtol=0, atol=3e-5)
        np.testing.assert_allclose(one["outside"]["weights"], wanted[:, :20].sum(1), atol=3e-5)
        whole = shown.sum(1) + one["outside"]["weights"] + one["sink_weights"]
        np.testing.assert_allclose(whole, 1, atol=1e-7)
        assert (family == "gpt_oss") == (one["sink"] is not None)


def with_tokens(made: Trace) -> Trace:
    """The same with a letter for each token."""
    if made.tokens:
        return made
    text = "x" * made.layer(made.layers[0].index).keys
    raw = [{"index": at, "id": 0, "text": "x", "start": at, "end": at + 1}
           for at in range(len(text))]  # fmt: skip
    from attnscope.trace.header import Token

    tokens = tuple(Token(**one) for one in raw)  # type: ignore[arg-type]
    whole = replace(made.header, tokens=tokens, text=text, prompt_tokens=len(text))
    return Trace(whole, made._records)


@pytest.mark.real_model
def test_the_teaching_sentence_is_read_as_smollm2_reads_it() -> None:
    import torch

    from attnscope import capture
    from attnscope.capture.models import load

    loaded = load("smollm2")
    made: Any = capture(loaded.model, TEACHING, tokenizer=loaded.tokenizer)
    loaded.model.set_attn_implementation("eager")
    ids = torch.tensor([[token.id for token in made.tokens]])
    with torch.no_grad():
        eager = loaded.model(ids, use_cache=False, output_attentions=True).attentions
    heads = [(layer, head) for layer in (0, 14, 29) for head in (0, 4, 8)]
    said = tiles.handout(made, heads)
    assert "\ufffd" not in json.dumps(said, ensure_ascii=False)
    assert "苹" in "".join(said["tokens"]["labels"])
    for (layer, head), one in zip(heads, said["heads"], strict=True):
        wanted = eager[layer][0, head].double().numpy()
        np.testing.assert_allclose(np.nan_to_num(matrix(one["weights"])), wanted, atol=3e-5)
        assert one["outside"]["keys"] == [0] * len(wanted)
