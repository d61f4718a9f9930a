"""The model's own attention is asked before anything is written; what capture takes and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from models import ids, small

import attnscope
from attnscope.capture import check, watch
from attnscope.capture.session import capture
from attnscope.errors import ModelError, TraceError, UnsupportedModelError
from attnscope.trace import Trace, open_trace


def damaged(monkeypatch: pytest.MonkeyPatch, **change: Any) -> None:
    """Misread some keywords of every call."""
    from dataclasses import replace

    real = watch.read_keywords
    monkeypatch.setattr(watch, "read_keywords", lambda *a: replace(real(*a), **change))


@pytest.mark.parametrize("mode", ["replace", "beside"])
@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("llama", {"scale": 0.2}),
        ("gemma2", {"softcap": None}),
        ("gpt_oss", {"sinks": None}),
    ],
)
def test_a_misread_call_is_refused_and_nothing_is_left(
    family: str, change: dict[str, Any], mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    damaged(monkeypatch, **change)
    with pytest.raises(UnsupportedModelError, match="differ from the model's own"):
        capture(small(family), ids(), mode=mode, save=tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


def test_a_misread_mask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    real = watch.Masks.sight

    def shifted(self: Any, *args: Any, **given: Any) -> Any:
        found = real(self, *args, **given)
        spans = replace(found.spans, end=(found.spans.end - 1).clamp(min=1))
        return replace(found, spans=spans)

    monkeypatch.setattr(watch.Masks, "sight", shifted)
    with pytest.raises(UnsupportedModelError, match="differ"):
        capture(small("llama"), ids())


def test_compare_can_fail() -> None:
    check.compare(torch.zeros(3), torch.full((3,), 1e-7), 1e-6, what="weights", model="m")
    with pytest.raises(UnsupportedModelError, match=r"1\.0e-05"):
        check.compare(torch.zeros(3), torch.full((3,), 1e-5), 1e-6, what="weights", model="m")
    with pytest.raises(UnsupportedModelError, match="nan"):
        check.compare(torch.zeros(1), torch.tensor([torch.nan]), 1e-6, what="weights", model="m")
    with pytest.raises(UnsupportedModelError, match="shape"):
        check.compare(torch.zeros(1), torch.zeros(2), 1.0, what="weights", model="m")


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_beside_is_bit_identical(implementation: str) -> None:
    model, tokens = small("qwen3"), ids(batch=2)
    model.set_attn_implementation(implementation)
    logits: list[torch.Tensor] = []
    hook = model.register_forward_hook(lambda *a: logits.append(a[-1].logits))
    try:
        with torch.no_grad():
            model(input_ids=tokens, use_cache=False, logits_to_keep=1)
        capture(model, tokens, mode="beside")
        capture(model, tokens, mode="replace")
    finally:
        hook.remove()
        assert model.config._attn_implementation == implementation
        model.set_attn_implementation("eager")
    plain, beside, replaced = logits
    assert torch.equal(plain, beside)
    assert not torch.equal(plain, replaced)  # so the comparison can tell
    assert torch.allclose(plain, replaced, atol=2e-5)  # ten roundings of logits of size 3


def test_beside_weighs_no_values_once_the_model_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody reads our output there; every statistic is the one of `replace` all the same."""
    model, tokens = small("qwen3"), ids()
    widths = {"beside": [], "replace": []}
    traces = {}
    plain = watch.attend_call
    for mode, seen in widths.items():

        def noted(qkv: Any, *rest: Any, seen: list[int] = seen) -> Any:
            seen.append(qkv[2].shape[-1])
            return plain(qkv, *rest)

        monkeypatch.setattr(watch, "attend_call", noted)
        traces[mode] = capture(model, tokens, mode=mode)
    full = model.config.head_dim
    layers = len(traces["replace"].layers)
    assert widths == {"beside": [full] + [1] * (layers - 1), "replace": [full] * layers}
    assert layers > 1
    for layer in range(layers):
        one, other = (traces[mode].layer(layer) for mode in widths)
        for name in traces["replace"].header.statistics:
            # what comes into a later layer was computed by another kernel, a rounding apart
            assert np.allclose(one.statistic(name), other.statistic(name), atol=2e-4), name
        assert np.array_equal(one.norms(0) > 0, other.norms(0) > 0)


def test_saved_while_running_is_the_same_as_in_memory(tmp_path: Path) -> None:
    model, tokens = small("qwen3_next"), ids()
    memory = capture(model, tokens)
    assert isinstance(memory, Trace)
    saved = capture(model, tokens, save=tmp_path / "t")
    assert isinstance(saved, Trace)
    saved.verify()
    again = open_trace(tmp_path / "t")
    assert [one.kind for one in again.layers] == [one.kind for one in memory.layers]
    assert again.model == memory.model
    for layer in memory.layers:
        if layer.has_map:
            mine, other = memory.layer(layer.index), again.layer(layer.index)
            assert set(mine.arrays.names()) == set(other.arrays.names())
            for name in mine.arrays.names():
                np.testing.assert_array_equal(mine.array(name), other.array(name))
    with pytest.raises(TraceError, match="already exists"):
        capture(model, tokens, save=tmp_path / "t")
    capture(model, tokens, save=tmp_path / "t", overwrite=True)


def test_layers_are_written_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnscope.capture import session

    held: list[int] = []
    real = session._Out.add

    def add(self: Any, record: Any, *, pool: bool) -> None:
        held.append(len(run[0].layers))
        real(self, record, pool=pool)

    run: list[watch.Watch] = []
    begin = watch.Watch.__enter__
    monkeypatch.setattr(watch.Watch, "__enter__", lambda self: (run.append(self), begin(self))[1])
    monkeypatch.setattr(session._Out, "add", add)
    capture(small("llama"), ids(), save=tmp_path / "t")
    assert len(held) == 4
    assert max(held) <= 1


def test_only_what_is_asked_for() -> None:
    trace = capture(small("llama"), ids(), statistics=["entropy"], layers=[1, 3], pool=False)
    assert isinstance(trace, Trace)
    assert [layer.index for layer in trace.layers] == [1, 3]
    assert trace.header.statistics == ("logsumexp", "entropy")
    assert trace.map(1, 0) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_dtypes(dtype: torch.dtype) -> None:
    from attnscope.capture.shrink import build

    trace = capture(build("llama", dtype=dtype), ids())
    assert isinstance(trace, Trace)
    # rows of exact weights of narrow queries and keys, accumulated in float32
    np.testing.assert_allclose(trace.weights(1, 0).sum(1), 1.0, atol=1e-4)


def test_the_public_name() -> None:
    trace = attnscope.capture(small("llama"), ids(6)[0].tolist())
    assert len(trace.tokens) == 6
    assert trace.tokens[0].text == f"#{trace.tokens[0].id}"
    with torch.no_grad():
        own = small("llama")(ids(6)).logits[0, -1].argmax()
    assert trace.about["next_token_id"] == int(own)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"text": []}, ValueError, "no tokens"),
        ({"text": "words"}, ValueError, "tokenizer"),
        ({"text": 3.5}, TypeError, "token ids"),
        ({"text": torch.ones(1, 4)}, TypeError, "integers"),
        ({"text": [3, 128]}, ValueError, "text: 128 is not one of the 128 tokens"),
        ({"text": [-1, 3]}, ValueError, "text: -1 is not one of"),
        ({"mode": "inside"}, ValueError, "replace, beside"),
        ({"generate": -1}, ValueError, "generate"),
        ({"statistics": "entropie"}, ValueError, "unknown name 'entropie'"),
        ({"local": 0}, ValueError, "local"),
        ({"text": torch.ones(1, 500, dtype=torch.long)}, ModelError, "500 tokens"),
        ({"model": 3}, TypeError, "model"),
    ],
)
def test_arguments(given: dict[str, Any], error: type[Exception], said: str) -> None:
    whole = {"model": small("llama"), "text": ids(4), **given}
    with pytest.raises(error, match=said):
        capture(whole.pop("model"), whole.pop("text"), **whole)
