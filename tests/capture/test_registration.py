"""Both functions are registered, and a keyword whose meaning is unknown is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from models import ids, small
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attnscope.capture import interface
from attnscope.capture.interface import KEY, check_registered, register
from attnscope.capture.keywords import read_keywords
from attnscope.capture.session import capture
from attnscope.errors import ModelError, UnsupportedModelError


def test_both_functions_are_there() -> None:
    register()
    assert ALL_ATTENTION_FUNCTIONS[KEY] is interface.attention
    assert ALL_MASK_ATTENTION_FUNCTIONS[KEY] is interface.compact_mask


@pytest.mark.parametrize(
    ("registry", "what"),
    [(ALL_MASK_ATTENTION_FUNCTIONS, "mask"), (ALL_ATTENTION_FUNCTIONS, "attention")],
)
def test_a_missing_function_is_an_error(
    registry: object, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register()
    monkeypatch.delitem(registry._global_mapping, KEY)  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match=f"the {what} function"):
        check_registered()


def test_a_foreign_function_under_our_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    register()
    monkeypatch.setitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, KEY, lambda **_: None)
    with pytest.raises(ModelError, match="mask function"):
        check_registered()


def test_what_transformers_does_without_the_mask_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason for all this: no mask arrives, and nobody says so."""
    register()
    monkeypatch.delitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, KEY)
    seen = []

    def attention(
        module: object, q: torch.Tensor, k: object, v: torch.Tensor, mask: object, **_: object
    ) -> object:
        seen.append(mask)
        return v.repeat_interleave(q.shape[1] // v.shape[1], dim=1).transpose(1, 2), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, KEY, attention)
    model = small("llama")
    try:
        model.set_attn_implementation(KEY)
        with torch.no_grad():
            model(ids(), use_cache=False)
    finally:
        model.set_attn_implementation("eager")
    assert seen
    assert all(mask is None for mask in seen)


def test_unknown_keyword_names_the_model() -> None:
    module = torch.nn.Module()
    with pytest.raises(UnsupportedModelError, match=r"ThisModel.*'alibi_twist'"):
        read_keywords(module, "ThisModel", {"scaling": 0.5, "alibi_twist": None})


def test_unknown_keyword_stops_a_capture() -> None:
    model = small("llama")
    tokens = ids()
    forward = type(model.model.layers[0].self_attn).forward

    def with_more(self: torch.nn.Module, *args: object, **keywords: object) -> object:
        return forward(self, *args, **keywords, temperature_of_heads=2.0)

    attention = model.model.layers[0].self_attn
    attention.forward = with_more.__get__(attention)
    try:
        with pytest.raises(UnsupportedModelError, match=r"LlamaForCausalLM.*temperature_of_heads"):
            capture(model, tokens)
    finally:
        del attention.forward
    assert model.config._attn_implementation == "eager"  # the model is as it was


@pytest.mark.parametrize("name", ["position_ids", "output_attentions", "use_cache"])
def test_harmless_keywords(name: str) -> None:
    read_keywords(torch.nn.Module(), "m", {name: torch.ones(1)})


def test_keywords_that_matter_only_if_set() -> None:
    module = torch.nn.Module()
    read_keywords(module, "m", {"cu_seq_lens_q": None})
    with pytest.raises(UnsupportedModelError, match="cu_seq_lens_q"):
        read_keywords(module, "m", {"cu_seq_lens_q": torch.ones(2)})


def test_dropout_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="eval"):
        read_keywords(torch.nn.Module(), "m", {"dropout": 0.1})


def test_sinks_per_query_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="sink"):
        read_keywords(torch.nn.Module(), "m", {"s_aux": torch.zeros(1, 4, 8, 1)})


def test_meanings() -> None:
    sinks = torch.zeros(4)
    given = {"scaling": 0.5, "softcap": 20.0, "sliding_window": 8, "s_aux": sinks, "dropout": 0.0}
    found = read_keywords(torch.nn.Module(), "m", given)
    assert (found.scale, found.softcap, found.window, found.causal) == (0.5, 20.0, 8, True)
    assert found.sinks is sinks
    assert read_keywords(torch.nn.Module(), "m", {"is_causal": False}).causal is False


def test_our_function_without_a_watch_is_plain_attention() -> None:
    model, tokens = small("gemma2"), ids()
    with torch.no_grad():
        expected = model(tokens, use_cache=False).logits
        register()
        try:
            model.set_attn_implementation(KEY)
            found = model(tokens, use_cache=False).logits
        finally:
            model.set_attn_implementation("eager")
    # float32 logits of size 3, two layers: some ten roundings of 2e-7 each
    assert torch.allclose(found, expected, atol=2e-5)


def test_a_family_that_does_not_route_is_refused_with_those_that_do() -> None:
    with pytest.raises(UnsupportedModelError, match=r"bloom: .*interface") as caught:
        capture(small("bloom"), ids())
    assert "can be captured: " in str(caught.value)
    assert "llama" in str(caught.value)


@pytest.mark.parametrize("config", [None, SimpleNamespace(n_layer=2)])
def test_a_module_that_is_no_model_of_transformers(config: Any) -> None:
    """A module written by hand is told of `observe`, whatever it calls its config."""

    class Foreign(torch.nn.Module):
        pass

    model = Foreign()
    if config is not None:
        model.config = config
    with pytest.raises(UnsupportedModelError, match=r"Foreign is not a model.*observe\(model\)"):
        capture(model, ids())
