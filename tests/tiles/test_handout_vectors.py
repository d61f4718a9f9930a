"""Embeddings and turned queries and keys in a handout: what a page can make of them is right."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import attnscope
from attnscope import tiles
from attnscope.capture.shrink import build
from attnscope.trace import Trace

WRITTEN = 1e-8
"""Nine digits are written."""


def said(trace: Any, *heads: tuple[int, int], start: int = 0) -> dict[str, Any]:
    assert isinstance(trace, Trace)
    found = tiles.handout(trace, list(heads), start=start)
    json.dumps(found, allow_nan=False)
    return found


def moved(x: np.ndarray, turns: np.ndarray, by: np.ndarray) -> np.ndarray:
    """x [n, D] as if its tokens stood so many places further, pairs as halves (docs/handout.md)."""
    half = len(turns)
    c, s = np.cos(by[:, None] * turns), np.sin(by[:, None] * turns)
    a, b = x[:, :half], x[:, half : 2 * half]
    return np.concatenate([a * c - b * s, b * c + a * s, x[:, 2 * half :]], axis=1)


@pytest.mark.parametrize("family", ["llama", "qwen3", "glm4", "gpt_neox", "gemma2"])
def test_products_of_the_vectors_are_the_scores(family: str) -> None:
    """Whatever the pairing and however many numbers turn; gemma2 has a soft cap."""
    model = build(family)
    trace = attnscope.capture(model, torch.arange(3, 23))
    [one] = said(trace, (1, 3), start=4)["heads"]
    q, k = np.array(one["rotary"]["q"]), np.array(one["rotary"]["k"])
    scores = one["scale"] * q @ k.T
    if one["softcap"] is not None:
        scores = one["softcap"] * np.tanh(scores / one["softcap"])
    np.testing.assert_allclose(scores, np.array(one["scores"], float), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("family", "shift"), [("llama", 5), ("glm4", 7), ("gpt_neox", 3)])
def test_a_moved_text_scores_as_the_model_scores_it_there(family: str, shift: int) -> None:
    """The model reads the same tokens further down: the judge of what a page computes by turning.

    In the first layer nothing but positions differs, so a token that was moved by `shift` has the
    query and the key that the model gives it there.
    """
    model, ids = build(family), torch.arange(3, 15)
    here = said(attnscope.capture(model, ids), (0, 0))["heads"][0]["rotary"]
    there = said(
        attnscope.capture(model, torch.cat([torch.full((shift,), 50), ids])), (0, 0), start=shift
    )["heads"][0]["rotary"]
    turns = np.array(here["turns"])
    by = np.full(len(ids), float(shift))
    for name in ("q", "k"):
        wanted = np.array(there[name])
        made = moved(np.array(here[name]), turns, by)
        assert np.abs(made - wanted).max() < 1e-5 * np.abs(wanted).max()
        assert np.abs(np.array(here[name]) - wanted).max() > 0.1


def test_without_positions_equal_tokens_have_equal_keys_in_the_first_layer() -> None:
    trace = attnscope.capture(build("llama"), torch.tensor([7, 8, 7, 9, 7]))
    rotary = said(trace, (0, 0))["heads"][0]["rotary"]
    keys = np.array(rotary["k"])
    plain = moved(keys, np.array(rotary["turns"]), -np.arange(5.0))
    assert np.abs(plain[[2, 4]] - plain[0]).max() < 1e-5
    assert np.abs(keys[2] - keys[0]).max() > 0.1


def test_a_layer_that_turns_nothing_has_vectors_and_no_turns() -> None:
    trace = attnscope.capture(build("smollm3"), torch.arange(3, 15))
    turning, still = (one["rotary"] for one in said(trace, (0, 0), (3, 0))["heads"])
    assert len(turning["turns"]) == 8
    assert still["turns"] == []
    assert np.array(still["q"]).shape == (12, 16)


def test_where_angles_are_not_known_there_are_no_vectors() -> None:
    found = said(attnscope.capture(build("gpt2"), torch.arange(3, 15)), (0, 0))
    assert found["heads"][0]["rotary"] is None
    assert found["embeddings"] is not None


def test_cosines_are_those_of_the_models_table() -> None:
    model, ids = build("llama"), torch.tensor([7, 8, 7, 9, 30, 31])
    found = said(attnscope.capture(model, ids), (0, 0), start=1)["embeddings"]
    rows = model.get_input_embeddings().weight.detach()[ids[1:]].double()
    np.testing.assert_allclose(found["norms"], rows.norm(dim=1), rtol=WRITTEN)
    judge = torch.nn.functional.cosine_similarity(rows[:, None], rows[None], dim=-1)
    np.testing.assert_allclose(found["cosines"], judge, atol=WRITTEN)
    assert [row[at] for at, row in enumerate(found["cosines"])] == [1.0] * 5


def test_an_embedding_of_zeros_has_no_cosine() -> None:
    model = build("llama")
    with torch.no_grad():
        model.get_input_embeddings().weight[8] = 0
    found = said(attnscope.capture(model, torch.tensor([7, 8, 9])), (0, 0))["embeddings"]
    assert found["norms"][1] == 0
    assert found["cosines"][1] == [None, None, None]
    assert found["cosines"][0][1] is None
    assert found["cosines"][0][2] is not None


def test_a_trace_without_embeddings_says_null() -> None:
    trace = attnscope.capture(build("llama"), torch.arange(3, 9))
    bare = Trace(trace.header, trace._records)
    assert said(bare, (0, 0))["embeddings"] is None
