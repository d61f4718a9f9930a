"""Every decoded step is a query row of the same record, whatever the cache has dropped."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from models import WEIGHT_ROOM, ids, small
from test_batches import ROOM, many, one

from attnscope.capture.session import capture
from attnscope.trace import Trace

STEPS = 14


def assert_as_one_shot(grown: Trace, whole: Trace) -> None:
    """Prefill and steps against one forward of the same tokens."""
    for layer in whole.layers:
        if not layer.has_map:
            continue
        mine, theirs = grown.layer(layer.index), whole.layer(layer.index)
        assert mine.info.kind == theirs.info.kind
        assert mine.info.window == theirs.info.window
        for found, expected in zip(mine.spans, theirs.spans, strict=True):
            np.testing.assert_array_equal(found, expected)
        for head in range(layer.query_heads):
            np.testing.assert_allclose(
                grown.weights(layer.index, head),
                whole.weights(layer.index, head),
                atol=2 * WEIGHT_ROOM,  # other shapes of product on the way here
            )
        for name in (*ROOM, "induction_mass", "previous_mass", "argmax"):
            np.testing.assert_allclose(
                mine.statistic(name), theirs.statistic(name), atol=ROOM.get(name, 1e-4)
            )
        np.testing.assert_allclose(
            mine.array("value_norms") if mine.has("value_norms") else 0,
            theirs.array("value_norms") if theirs.has("value_norms") else 0,
            rtol=1e-3,
        )
        np.testing.assert_allclose(
            mine.array("map_mean"), theirs.array("map_mean"), atol=2 * WEIGHT_ROOM
        )


@pytest.mark.parametrize("mode", ["replace", "beside"])
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt_oss", "qwen3_5_text"])
def test_growing_and_sliding_caches(family: str, mode: str) -> None:
    """A window of 8 and 5 + 14 tokens: the sliding caches drop keys while we look."""
    model = small(family)
    grown = capture(model, ids(5), generate=STEPS, mode=mode)
    assert isinstance(grown, Trace)
    assert grown.prompt_tokens == 5
    assert 5 < len(grown.tokens) <= 5 + STEPS
    whole = one(model, torch.tensor([t.id for t in grown.tokens]))
    assert_as_one_shot(grown, whole)
    assert grown.about["next_token_id"] == whole.about["next_token_id"]


def test_the_tokens_are_those_of_an_unobserved_run() -> None:
    model = small("gemma3_text")
    own = model.generate(
        ids(6), attention_mask=torch.ones(1, 6, dtype=torch.long), max_new_tokens=8, do_sample=False
    )
    grown = capture(model, ids(6), generate=7, mode="beside")
    assert isinstance(grown, Trace)
    assert [*(t.id for t in grown.tokens), grown.about["next_token_id"]] == own[0].tolist()


def test_a_padded_batch_grows() -> None:
    model, batch = small("gemma3_text"), ids(7, batch=2)
    mask = torch.ones_like(batch)
    mask[0, :3] = 0
    first, second = many(capture(model, batch, attention_mask=mask, generate=6), 2)
    assert first.prompt_tokens == 4
    assert second.prompt_tokens == 7
    for grown in (first, second):
        assert_as_one_shot(grown, one(model, torch.tensor([t.id for t in grown.tokens])))


def test_a_sequence_that_ends_first_holds_nothing_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, batch = small("llama"), ids(5, batch=2)
    alone = capture(model, batch[:1], generate=6)
    assert isinstance(alone, Trace)
    end = alone.tokens[7].id  # what the first sequence says as its third word
    monkeypatch.setattr(model.generation_config, "eos_token_id", end)
    first, second = many(capture(model, batch, generate=6), 2)
    place = [t.id for t in alone.tokens].index(end, 5)
    assert [t.id for t in first.tokens] == [t.id for t in alone.tokens[: place + 1]]
    assert len(second.tokens) >= len(first.tokens)
    assert_as_one_shot(first, one(model, torch.tensor([t.id for t in first.tokens])))


def test_packed_sequences_cannot_grow() -> None:
    positions = torch.tensor([[0, 1, 2, 0, 1]])
    with pytest.raises(ValueError, match="cannot grow"):
        capture(small("llama"), ids(5), position_ids=positions, generate=2)


def test_a_generation_is_saved(tmp_path: object) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    trace = capture(small("gemma3_text"), ids(5), generate=9, save=tmp_path / "t")
    assert isinstance(trace, Trace)
    trace.verify()
    assert trace.path == tmp_path / "t"
    assert_as_one_shot(trace, one(small("gemma3_text"), torch.tensor([t.id for t in trace.tokens])))
