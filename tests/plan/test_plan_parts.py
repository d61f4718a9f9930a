"""Text models inside models of several parts, against the library's own: run, or taken apart."""

from __future__ import annotations

import importlib
import inspect
import json
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
import weigh

from attnscope.plan import from_config
from attnscope.plan.engines.transformers import layer_bytes

SMALL: dict[str, Any] = {
    "num_hidden_layers": 3, "hidden_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 32, "vocab_size": 160000,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "n_routed_experts": 4, "moe_intermediate_size": 16,
           "num_experts_per_tok": 2}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "glm4v_text": {},
    "glm4v_moe_text": {"n_group": 1, **EXPERTS},
    "glm_ocr_text": {},
    "granite4_vision_text": {},
    "granite_docling_text": {},
    "hunyuan_vl_text": {"head_dim": 48},
    "paddleocr_vl_text": {"head_dim": 48},
    "molmo2_text": {"head_dim": 48},
    "qwen2_5_omni_text": {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    "qwen3_omni_moe_text": {"head_dim": 48, **EXPERTS},
    "cosmos3_edge_text": {"head_dim": 128},
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "step3p5": {
        "head_dim": 48, "sliding_window": 8, "num_nextn_predict_layers": 1,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "num_sliding_attention_heads": 8, **EXPERTS,
    },
}  # fmt: skip


RUN = ("granite_docling_text", "molmo2_text", "cosmos3_edge_text")
"""Text models that the library runs by themselves."""


def written(config: Any) -> dict[str, Any]:
    """The config as the library writes it down."""
    plain: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    return plain


def configured(kind: str) -> Any:
    return transformers.AutoConfig.for_model(kind, **SMALL, **FAMILIES[kind])


@pytest.mark.parametrize("kind", RUN)
def test_the_librarys_own_text_model_holds_what_is_planned(kind: str) -> None:
    config = configured(kind)
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config).eval()
    planned = from_config(written(config))
    for length in (5, 21):
        cache = weigh._forward(model, config, length, mask=False)
        assert layer_bytes(planned, length, dtype="fp32") == weigh.weigh_cache(cache)


def attentions(config: Any) -> list[Any]:
    """The attention modules of the library's text model of a config, in their order."""
    module = importlib.import_module(type(config).__module__.replace("configuration", "modeling"))
    models: list[Any] = [
        one for name, one in vars(module).items()
        if inspect.isclass(one) and name.endswith("Model") and "Talker" not in name
        and getattr(one, "config_class", None) is type(config)
        and "PreTrained" not in name
    ]  # fmt: skip
    with torch.device("meta"):
        model = models[0](config)
    return [one for one in model.modules() if hasattr(one, "k_proj")]


@pytest.mark.parametrize("kind", [one for one in FAMILIES if one not in RUN])
def test_what_the_librarys_own_text_model_projects_is_planned(kind: str) -> None:
    """Widths by its projections of keys and values, windows by the cache it would fill."""
    config = configured(kind)
    made = attentions(config)
    held = transformers.DynamicCache(config=config).layers
    layers = from_config(written(config)).layers
    assert len(made) == len(layers) == SMALL["num_hidden_layers"]
    for index, (layer, module) in enumerate(zip(layers, made, strict=True)):
        assert layer.heads is not None
        assert layer.heads.kv * layer.heads.qk == module.k_proj.out_features
        assert layer.heads.kv * layer.heads.v == module.v_proj.out_features
        assert layer.heads.query * layer.heads.qk == module.q_proj.out_features
        window = getattr(held[index], "sliding_window", None) if index < len(held) else None
        assert layer.window == window
    assert (len({layer.kind for layer in layers}) == 2) == ("sliding_window" in FAMILIES[kind])
