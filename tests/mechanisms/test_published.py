"""Every mechanism that a published model has, built from its config.json as we ship it.

transformers builds the same layer from the same file, on the meta device: the same weights by name
and shape, the same scale and window, and the rotation to the bit (tests/positions judges that of
every file; here it is the layer's own).
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from head_referees import real_config
from transformers import CONFIG_MAPPING
from transformers.models.deepseek_v3.modeling_deepseek_v3 import yarn_apply_mscale

from attnscope import mechanisms
from attnscope.positions import Rope

CASES: list[tuple[str, str, str, int]] = [
    ("grouped", "GroupedAttention", "llama-3-8b", 0),
    ("grouped", "GroupedAttention", "deepseek-67b", 94),
    ("grouped", "GroupedAttention", "smollm2", 29),
    ("qk_norm", "QKNormAttention", "qwen3-0.6b", 27),
    ("qk_norm", "QKNormAttention", "glm-4.5", 0),
    ("sinks", "SinkAttention", "gpt-oss-20b", 0),
    ("sinks", "SinkAttention", "gpt-oss-120b", 1),
    ("gated", "GatedAttention", "qwen3.8-27b", 3),
    ("gated", "GatedAttention", "qwen3-next-80b-a3b", 47),
    ("gated_delta", "GatedDeltaNet", "qwen3.8-27b", 0),
    ("sliding", "SlidingAttention", "mistral-7b-v0.1", 0),
    ("sliding", "SlidingAttention", "gemma-2-9b", 0),
    ("sliding", "SlidingAttention", "gemma-2-9b", 1),
    ("sliding", "SlidingAttention", "gemma-3-270m", 0),
    ("sliding", "SlidingAttention", "gemma-3-270m", 5),
    ("sliding", "SlidingAttention", "gemma-3-27b", 0),
    ("sliding", "SlidingAttention", "gemma-3-27b", 5),
    ("sliding", "SlidingAttention", "qwen3-0.6b", 27),
    ("latent", "LatentAttention", "deepseek-v2", 0),
    ("latent", "LatentAttention", "deepseek-v3", 60),
    ("latent", "LatentAttention", "kimi-k2", 0),
    ("sparse", "SparseAttention", "deepseek-v3.2", 0),
    ("sparse", "SparseAttention", "glm-5", 77),
    ("sparse", "SparseAttention", "glm-5.3", 2),
    ("sparse", "SparseAttention", "glm-5.3", 3),
    ("compressed", "CompressedAttention", "deepseek-v4-flash", 0),
    ("compressed", "CompressedAttention", "deepseek-v4-flash", 2),
    ("compressed", "CompressedAttention", "deepseek-v4-flash", 3),
]
"""The mechanism, its class, the file and the layer."""

NOWHERE = {
    "rnn", "additive", "dot_product", "rivals", "masking", "rope", "multi_head", "qk_clip", "cache",
}  # fmt: skip
"""No published model that we ship is made of these; their own tests build them from others."""


def judged_type(config: dict[str, Any]) -> str:
    """Kimi K2's own code is DeepSeek-V3's, as its `architectures` say."""
    return {"kimi_k2": "deepseek_v3"}.get(config["model_type"], config["model_type"])


def theirs(config: dict[str, Any], layer: int) -> torch.nn.Module:
    """transformers' layer of a config.json, without memory."""
    text = dict(config)
    kind = judged_type(text)
    del text["model_type"]
    made = CONFIG_MAPPING[kind](**text)
    made._attn_implementation = "eager"
    module = importlib.import_module(type(made).__module__.replace("configuration_", "modeling_"))
    types = getattr(made, "layer_types", None)
    linear = types is not None and types[layer] == "linear_attention"
    ending = "GatedDeltaNet" if linear else "Attention"
    (cls,) = [
        value
        for name, value in vars(module).items()
        if name.endswith(ending) and not any(w in name for w in ("Vision", "Cross"))
        and getattr(value, "__module__", "") == module.__name__
    ]  # fmt: skip
    with torch.device("meta"):
        return cls(made, layer)


def built(mechanism: str, kind: str, name: str, layer: int) -> Any:
    cls = getattr(importlib.import_module(f"attnscope.mechanisms.{mechanism}"), kind)
    with torch.device("meta"):
        return cls.from_config(real_config(name), layer=layer)


@pytest.mark.parametrize(("mechanism", "kind", "name", "layer"), CASES)
def test_a_published_layer_is_that_of_transformers(
    mechanism: str, kind: str, name: str, layer: int
) -> None:
    ours, other = built(mechanism, kind, name, layer), theirs(real_config(name), layer)
    assert {n: p.shape for n, p in ours.named_parameters()} == {
        n: p.shape for n, p in other.named_parameters()
    }
    if mechanism == "gated_delta":
        return
    assert ours.scale == pytest.approx(other.scaling, rel=1e-15)
    if hasattr(ours, "window"):
        # Mistral's layer does not say it; its config does.
        expected = getattr(other, "sliding_window", other.config.to_dict().get("sliding_window"))
        assert ours.window == expected


@pytest.mark.parametrize(("mechanism", "kind", "name", "layer"), CASES)
def test_a_published_layer_turns_by_its_own_base(
    mechanism: str, kind: str, name: str, layer: int
) -> None:
    """No file leaves its base to a class's default, which is another model's more often than not.

    gpt-oss alone does: its class was made for it, and has no other.
    """
    if mechanism == "gated_delta":
        return
    config = real_config(name)
    rope = built(mechanism, kind, name, layer).rope
    assert isinstance(rope, Rope)
    if name != "gpt-oss-20b" and config["model_type"] != "gemma2":
        assert "rope_theta" in config
    bases = {"rope_theta", "rope_local_base_freq", "compress_rope_theta"} & config.keys()
    wrong = config | {name: 3.0 for name in bases or {"rope_theta"}}
    cls = getattr(importlib.import_module(f"attnscope.mechanisms.{mechanism}"), kind)
    with torch.device("meta"):
        assert cls.from_config(wrong, layer=layer).rope != rope


def test_every_mechanism_is_here_or_in_no_model() -> None:
    assert {case[0] for case in CASES} | NOWHERE == set(mechanisms.NAMES)
    assert not {case[0] for case in CASES} & NOWHERE


@pytest.mark.parametrize(
    ("name", "times"), [("deepseek-v2", 1.5896), ("deepseek-v3", 1.8739), ("kimi-k2", 2.0047)]
)
def test_yarn_sharpens_the_scores_of_latent_attention(name: str, times: float) -> None:
    """(1 + 0.1 m ln factor)^2: by hand, and by the library's function."""
    config = real_config(name)
    ours = built("latent", "LatentAttention", name, 0)
    assert ours.scale * 192**0.5 == pytest.approx(times, abs=5e-5)
    yarn = config["rope_scaling"] | {"rope_type": "yarn"}
    assert ours.scale == pytest.approx(yarn_apply_mscale(yarn, 192**-0.5), rel=1e-15)
