"""Captured weights are the model's own, family by family, feature by feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from models import WEIGHT_ROOM, eager_weights, ids, small

from attnscope.capture import sweep
from attnscope.capture.interface import watching
from attnscope.capture.session import capture
from attnscope.capture.watch import Wanted, Watch
from attnscope.trace import Trace

FEATURES = {
    "llama": "grouped heads",
    "gemma2": "soft-cap",
    "gemma3_text": "sliding windows",
    "gpt_oss": "learned sinks",
    "qwen3": "QK-norm",
    "glm": "partial RoPE",
    "deepseek_v3": "MLA: values of another width",
    "qwen3_next": "hybrid, gated",
    "qwen3_5_text": "hybrid",
    "deepseek_v32": "keys chosen by an indexer",
}


@pytest.mark.parametrize("family", FEATURES)
def test_weights_and_logits_within_the_budget_in_both_modes(family: str) -> None:
    """`beside` bit-identical, `replace` within twice the model's own error: see sweep.py."""
    assert sweep.try_family(family) == {"status": "supported", "reason": ""}


@pytest.mark.parametrize("mode", ["replace", "beside"])
@pytest.mark.parametrize("family", FEATURES)
def test_a_trace_against_output_attentions(family: str, mode: str) -> None:
    model, tokens = small(family), ids()
    own = eager_weights(model, tokens)
    trace = capture(model, tokens, mode=mode)
    mapped = [layer for layer in trace.layers if layer.has_map]
    assert len(mapped) == len(own)
    for layer, expected in zip(mapped, own, strict=True):
        for head in range(layer.query_heads):
            found = trace.weights(layer.index, head)
            np.testing.assert_allclose(found, expected[head], atol=WEIGHT_ROOM)


def test_the_check_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A soft-cap that is forgotten is seen by the budget, were it not refused before."""
    from attnscope.capture import check, watch

    def forget(module: Any, model: str, keywords: dict[str, Any]) -> Any:
        return real(module, model, {**keywords, "softcap": None})

    real = watch.read_keywords
    monkeypatch.setattr(watch, "read_keywords", forget)
    assert sweep.try_family("gemma2")["status"] == "refused"
    monkeypatch.setattr(check, "compare_call", lambda *_, **__: None)
    with pytest.raises(sweep.DifferentError, match="weights"):
        sweep.try_family("gemma2")


def of(family: str) -> Trace:
    trace = capture(small(family), ids())
    assert isinstance(trace, Trace)
    return trace


def test_softcap_is_recorded() -> None:
    assert of("gemma2").layers[0].softcap == small("gemma2").config.attn_logit_softcapping


def test_windows_are_recorded_in_our_convention() -> None:
    trace = of("gemma3_text")
    kinds = small("gemma3_text").config.layer_types
    for layer, kind in zip(trace.layers, kinds, strict=True):
        assert layer.kind == ("sliding" if kind == "sliding_attention" else "full")
        first, end, _ = trace.layer(layer.index).spans
        widest = int((end - first).max())
        assert (layer.window, widest) == ((8, 8) if layer.kind == "sliding" else (None, 24))


def test_sinks_take_their_share() -> None:
    trace = of("gpt_oss")
    total = trace.weights(0, 0).sum(axis=1)
    share = np.exp(trace.layer(0).sinks[0] - trace.layer(0).logsumexp[0])
    np.testing.assert_allclose(total, 1 - share, atol=WEIGHT_ROOM)
    assert total.max() < 1


def test_widths_of_mla() -> None:
    layer = of("deepseek_v3").layers[0]
    assert (layer.head_width, layer.value_width) == (24, 12)


def test_hybrid_layers_keep_their_numbers_and_say_why_there_is_no_map() -> None:
    trace = of("qwen3_next")
    kinds = small("qwen3_next").config.layer_types
    assert [layer.has_map for layer in trace.layers] == [k == "full_attention" for k in kinds]
    assert [layer.index for layer in trace.layers] == list(range(len(kinds)))
    none = next(layer for layer in trace.layers if not layer.has_map)
    assert "linear attention" in (none.reason or "")


def test_projected_norms_are_exact() -> None:
    model = small("llama")
    with watching(Watch(model, Wanted(("entropy",)))) as watch, torch.no_grad():
        values: list[torch.Tensor] = []
        attention = model.model.layers[1].self_attn
        hook = attention.v_proj.register_forward_hook(lambda *a: values.append(a[-1]))
        model(ids(), use_cache=False)
        hook.remove()
    E, H, G = 16, 4, 2
    v = values[0].view(24, G, E)
    weight = attention.o_proj.weight.detach()
    found = watch.records()[1][0].arrays()["value_norms"]
    for head in range(H):
        own = (v[:, head * G // H] @ weight[:, head * E : (head + 1) * E].T).norm(dim=-1)
        np.testing.assert_allclose(found[head], own, rtol=1e-5)  # float32, sums of 64 products


def test_projected_norms_of_a_transposed_projection_are_exact() -> None:
    """GPT-2's projections multiply from the other side; the matrix is as wide as it is high."""
    model = small("gpt2")
    block = model.transformer.h[1].attn
    values: list[torch.Tensor] = []
    hook = block.c_attn.register_forward_hook(lambda *a: values.append(a[-1]))
    with torch.no_grad():
        model(ids(), use_cache=False)
    hook.remove()
    C, H = 64, 4
    v = values[0][0, :, 2 * C :].unflatten(1, (H, -1))
    weight = block.c_proj.weight.detach().unflatten(0, (H, -1))
    assert weight.shape[0] * weight.shape[1] == weight.shape[2]
    found = of("gpt2").layer(1)
    for head in range(H):
        own = (v[:, head] @ weight[head]).norm(dim=-1)
        # float32, sums of 64 products
        np.testing.assert_allclose(found.norms(head), own, rtol=1e-5)


def test_a_gate_before_the_projection_makes_the_norms_absent() -> None:
    """Weight times |W_O v| would not be what arrived, so it is not given."""
    trace = of("qwen3_next")
    layer = next(entry.index for entry in trace.layers if entry.has_map)
    assert not trace.layer(layer).has("value_norms")
    assert trace.attended(layer, 0, -1)[0].arrived is None
    assert of("llama").layer(0).has("value_norms")


def test_statistics_of_a_capture_are_those_of_its_weights() -> None:
    trace = of("gemma3_text")
    for layer in range(2):
        p = trace.weights(layer, 1, dtype=np.float64)
        record = trace.layer(layer)
        entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(1)
        # room: 24 terms, each off by WEIGHT_ROOM times |log p| of at most 10
        np.testing.assert_allclose(record.statistic("entropy")[1], entropy, atol=2e-4)
        np.testing.assert_allclose(record.statistic("received")[1], p.sum(0), atol=1e-4)
        assert (record.statistic("argmax")[1] == p.argmax(1)).all()
        planes = trace.map(layer, 1)
        assert planes is not None
        assert planes.cell == 1
        np.testing.assert_allclose(np.nan_to_num(planes.mean), p, atol=WEIGHT_ROOM)
