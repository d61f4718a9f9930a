"""The kept record of a real model: whole, what a fresh capture gives, and what the lesson says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnscope.lessons import reading
from attnscope.lessons.site import load

NEAR = 2e-3
"""Weights and costs of float32 forwards; another processor or thread count moves the last bits, and
thirty layers make of them some units in the fifth decimal."""


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return reading.kept()


def test_the_record_is_whole(kept: dict[str, Any]) -> None:
    size = len(kept["tokens"])
    assert "".join(kept["tokens"]) == kept["text"] == reading.TEXT
    assert len(kept["heads"]) == kept["layers"] * kept["per_layer"] == 270
    places = [(one["layer"], one["head"]) for one in kept["heads"]]
    assert places == [(n, h) for n in range(kept["layers"]) for h in range(kept["per_layer"])]
    for one in kept["maps"]:
        assert [len(row) for row in one["weights"]] == list(range(1, size + 1))
        assert len(one["norms"]) == size
        # Rounded to five decimals, a row of 38.
        assert np.allclose([sum(row) for row in one["weights"]], 1, rtol=0, atol=size * 5e-6)
    assert {one["kind"] for one in kept["maps"]} >= set(reading.ASKED) | {"mixed"}


def test_the_summary_is_made_of_what_is_kept(kept: dict[str, Any]) -> None:
    assert reading.summary(kept["heads"], kept["maps"]) == kept["summary"]
    heads = [dict(one, cost=one["cost"] + 1) for one in kept["heads"]]
    assert reading.summary(heads, kept["maps"]) != kept["summary"]


def test_what_the_lesson_says_is_so(kept: dict[str, Any]) -> None:
    found, maps = kept["summary"], {(m["layer"], m["head"]): m for m in kept["maps"]}
    assert kept["next"]["token"] == " Zhao"
    assert 0.28 < found["counts"]["sink"] / found["heads"] < 0.38  # "about a third"
    example = found["example"]
    assert (example["layer"], example["head"]) == (18, 6)
    assert kept["tokens"][example["best"]] == " Zhao"
    assert 0.04 < example["first_arrived"] < 0.06  # "about a twentieth"
    assert abs(example["first_weight"] - example["best_weight"]) < 0.05  # half and half
    assert found["sink_arrived"] < found["sink_weight"]
    assert found["sink_arrived"] > 0.2  # "less, but it is not nothing"
    sink = maps[18, 8]
    row, norms = np.array(sink["weights"][-1]), np.array(sink["norms"])
    assert sink["kind"] == "sink"
    assert row[0] > 0.99
    assert row @ norms / norms.mean() < 0.15  # "next to nothing"
    clearest = maps[17, 5]
    assert clearest["kind"] == "induction"
    looked = int(np.argmax(clearest["weights"][-1]))
    assert kept["tokens"][looked] == " Wang"
    assert found["example"]["clearest_cost"] < 0  # "surer without it"
    before = [kept["tokens"][at + 1] for at, one in enumerate(kept["tokens"][:-1]) if one == " to"]
    assert before == [" Wang", " Zhao", " Wang"]  # "followed it twice"
    for half, more in ((0.4, True), (0.8, False)):
        kinds = [reading.kind_of(one, half=half) for one in kept["heads"]]
        for kind in ("previous-token", "induction"):
            held = kinds.count(kind)
            assert held > found["counts"][kind] if more else held == 0, (half, kind)
    assert found["largest"][0]["kind"] == "mixed"
    assert found["mixed_of_ten"] >= 5
    for language in ("en", "zh"):
        [lesson] = [one for one in load().lessons[language] if one.id == "reading"]
        assert reading.TEXT in lesson.document.file.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.real_model
def test_a_fresh_capture_gives_what_is_kept(kept: dict[str, Any]) -> None:
    import attnscope
    from attnscope.capture.models import load as load_model

    model = load_model(reading.MODEL)
    trace = attnscope.capture(model.model, reading.TEXT, tokenizer=model.tokenizer)
    assert [one.text for one in trace.tokens] == kept["tokens"]
    kinds = {(one.layer, one.head): one.kind for one in trace.kinds()}
    for one in kept["heads"]:
        assert kinds[one["layer"], one["head"]] == reading.kind_of(one)
    for one in kept["maps"]:
        weights = trace.weights(one["layer"], one["head"], dtype=np.float64)
        for row, line in zip(one["weights"], weights, strict=True):
            assert np.allclose(row, line[: len(row)], rtol=0, atol=NEAR)
        norms = trace.layer(one["layer"]).norms(one["head"])
        assert np.allclose(one["norms"], norms, rtol=NEAR)


@pytest.mark.slow
@pytest.mark.real_model
def test_weights_and_silences_are_those_of_transformers_alone(kept: dict[str, Any]) -> None:
    """Eager attention's own weights; a head silenced by zeros in W_O's columns."""
    import torch

    from attnscope.capture.models import load as load_model

    loaded = load_model(reading.MODEL)
    model = loaded.model
    model.set_attn_implementation("eager")
    ids = torch.tensor([loaded.tokenizer(reading.TEXT)["input_ids"]])
    with torch.no_grad():
        seen = model(ids, output_attentions=True)
        whole = seen.logits[0, -1].double().log_softmax(-1)
        for one in kept["maps"]:
            found = seen.attentions[one["layer"]][0, one["head"]].numpy()
            for row, line in zip(one["weights"], found, strict=True):
                assert np.allclose(row, line[: len(row)], rtol=0, atol=NEAR)
        best = int(whole.argmax())
        assert loaded.tokenizer.decode([best]) == kept["next"]["token"]
        assert float(whole[best].exp()) == pytest.approx(kept["next"]["probability"], abs=NEAR)
        for place in (kept["summary"]["largest"][0], {"layer": 17, "head": 5}):
            n, head = place["layer"], place["head"]
            weight = model.model.layers[n].self_attn.o_proj.weight
            width = weight.shape[1] // kept["per_layer"]
            columns = slice(head * width, (head + 1) * width)
            held = weight[:, columns].clone()
            weight[:, columns] = 0
            cost = float(whole[best] - model(ids).logits[0, -1].double().log_softmax(-1)[best])
            weight[:, columns] = held
            assert cost == pytest.approx(
                kept["heads"][n * kept["per_layer"] + head]["cost"], abs=NEAR
            )
