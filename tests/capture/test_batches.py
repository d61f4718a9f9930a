"""Padded batches and packed sequences: each sequence as if it had been alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from models import WEIGHT_ROOM, eager_weights, ids, small

from attnscope.capture.session import capture
from attnscope.errors import UnsupportedModelError
from attnscope.trace import Trace

ROOM = {"entropy": 2e-4, "sink_mass": 1e-4, "received": 2e-4, "mean_distance": 1e-3}
"""WEIGHT_ROOM times: 24 terms (and |log p|, or a distance) for each statistic of 24 tokens."""


def many(result: Trace | list[Trace], count: int) -> list[Trace]:
    assert isinstance(result, list)
    assert len(result) == count
    return result


def assert_same(one: Trace, other: Trace) -> None:
    """Two captures of the same sequence."""
    assert [t.id for t in one.tokens] == [t.id for t in other.tokens]
    for layer in other.layers:
        if not layer.has_map:
            continue
        for head in range(layer.query_heads):
            found, expected = one.weights(layer.index, head), other.weights(layer.index, head)
            np.testing.assert_allclose(found, expected, atol=WEIGHT_ROOM)
        mine, theirs = one.layer(layer.index), other.layer(layer.index)
        for name, room in ROOM.items():
            np.testing.assert_allclose(mine.statistic(name), theirs.statistic(name), atol=room)
        for found, expected in zip(mine.spans, theirs.spans, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["replace", "beside"])
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt_oss"])
def test_left_padding(family: str, mode: str) -> None:
    model = small(family)
    batch = ids(16, batch=2)
    mask = torch.ones_like(batch)
    mask[1, :5] = 0
    padded, alone = batch.clone(), batch[1, 5:]
    padded[1, :5] = 0
    first, second = many(capture(model, padded, attention_mask=mask, mode=mode), 2)
    assert_same(first, one(model, batch[0]))
    assert_same(second, one(model, alone))


def test_left_padding_against_the_models_own_weights() -> None:
    model = small("gemma3_text")
    batch = ids(16, batch=2)
    mask = torch.ones_like(batch)
    mask[0, :4] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    own = eager_weights(model, batch, attention_mask=mask, position_ids=positions)
    first, _ = many(capture(model, batch, attention_mask=mask), 2)
    for layer, expected in enumerate(own):
        for head in range(first.layers[layer].query_heads):
            found = first.weights(layer, head)
            np.testing.assert_allclose(found, expected[head, 4:, 4:], atol=WEIGHT_ROOM)


def test_right_padding() -> None:
    model, batch = small("llama"), ids(12, batch=2)
    mask = torch.ones_like(batch)
    mask[1, 9:] = 0
    _, second = many(capture(model, batch, attention_mask=mask), 2)
    assert_same(second, one(model, batch[1, :9]))


@pytest.mark.parametrize("mode", ["replace", "beside"])
@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_packed_sequences(family: str, mode: str) -> None:
    model, tokens = small(family), ids(23)
    positions = torch.cat([torch.arange(10), torch.arange(4), torch.arange(9)])[None]
    traces = many(capture(model, tokens, position_ids=positions, mode=mode), 3)
    for trace, part in zip(traces, tokens[0].split([10, 4, 9]), strict=True):
        assert_same(trace, one(model, part))


def test_packed_against_the_models_own_weights() -> None:
    model, tokens = small("gemma2"), ids(20)
    positions = torch.cat([torch.arange(12), torch.arange(8)])[None]
    own = eager_weights(model, tokens, position_ids=positions)
    traces = many(capture(model, tokens, position_ids=positions), 2)
    for layer, expected in enumerate(own):
        assert float(expected[:, 12:, :12].max()) == 0
        np.testing.assert_allclose(
            traces[1].weights(layer, 0), expected[0, 12:, 12:], atol=WEIGHT_ROOM
        )


def test_a_model_that_mixes_packed_sequences_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mask given, transformers does not look for packed sequences; we must."""
    from transformers import masking_utils

    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda _: None)
    positions = torch.cat([torch.arange(10), torch.arange(6)])[None]
    with pytest.raises(UnsupportedModelError, match="apart"):
        capture(small("llama"), ids(16), position_ids=positions)


def test_masks_of_odd_shapes_are_refused() -> None:
    model = small("llama")
    holes = torch.ones(1, 8, dtype=torch.long)
    holes[0, 4] = 0
    with pytest.raises(ValueError, match="between others"):
        capture(model, ids(8), attention_mask=holes)
    with pytest.raises(ValueError, match="hides every token"):
        capture(model, ids(8), attention_mask=torch.zeros(1, 8))
    with pytest.raises(ValueError, match="expected the shape of the ids"):
        capture(model, ids(8), attention_mask=torch.ones(1, 7))


def test_a_padded_batch_is_saved_as_several(tmp_path: object) -> None:
    from pathlib import Path

    from attnscope.trace import open_trace

    assert isinstance(tmp_path, Path)
    capture(small("llama"), ids(9, batch=2), save=tmp_path / "t")
    assert_same(open_trace(tmp_path / "t" / "001"), one(small("llama"), ids(9, batch=2)[1]))


def one(model: object, tokens: torch.Tensor) -> Trace:
    found = capture(model, tokens)
    assert isinstance(found, Trace)
    return found
