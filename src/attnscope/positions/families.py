"""What a family's config means where it does not say: what its own config class fills in.

The idea: a config.json often leaves out what its class would fill in, `rope_theta` first of all,
and the classes differ: 10,000 for Llama, 150,000 for gpt-oss. So a field that is lacking is filled
in only for the families listed here, and is an error for all others.

    FAMILIES  per family: fields of `rope_parameters`
    SPLIT     families that turn their types of layers differently, and how older files say it

The values are those of transformers 5.24; the tests compare each with its class.

Not here: reading a config (config.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_PLAIN: Final = {"rope_theta": 10_000.0}
_HALF: Final = {"rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
_QUARTER: Final = {"rope_theta": 10_000.0, "partial_rotary_factor": 0.25}
FAMILIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "llama": _PLAIN,
    "mistral": _PLAIN,
    "qwen2": _PLAIN,
    "qwen2_moe": _PLAIN,
    "qwen3": _PLAIN,
    "qwen3_moe": _PLAIN,
    "gemma": _PLAIN,
    "gemma2": _PLAIN,
    "deepseek_v2": _PLAIN,
    "deepseek_v3": _PLAIN,
    "deepseek_v32": _PLAIN,
    "glm_moe_dsa": _PLAIN,
    "phi3": _PLAIN,
    "olmo2": _PLAIN,
    "cohere2": _PLAIN,
    "granite": _PLAIN,
    "starcoder2": _PLAIN,
    "glm": _HALF,
    "glm4": _HALF,
    "glm4_moe": _HALF,
    "phi": _HALF,
    "qwen3_next": _QUARTER,
    "qwen3_5_text": _QUARTER,
    "qwen3_5_moe_text": _QUARTER,
    "stablelm": _QUARTER,
    "gpt_neox": _QUARTER,
    "mixtral": {"rope_theta": 1_000_000.0},
    "smollm3": {"rope_theta": 2_000_000.0},
    "gpt_oss": {
        "rope_theta": 150_000.0, "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096,
    },
}  # fmt: skip
"""By `model_type`. A nested text model has its own, such as `gemma3_text`."""


@dataclass(frozen=True)
class Part:
    """One type of layer of a family that turns its types differently.

    Attributes:
        theta: the field of older files that holds its base.
        default: its base where no file says it.
        scaled: whether `rope_scaling` is meant for it.
        more: further fields that hold for it where the file does not say.
    """

    theta: str
    default: float
    scaled: bool
    more: Mapping[str, Any] = field(default_factory=dict)


GEMMA: Final = {
    "sliding_attention": Part("rope_local_base_freq", 10_000.0, False),
    "full_attention": Part("rope_theta", 1_000_000.0, True),
}
SPLIT: Final[Mapping[str, Mapping[str, Part]]] = {
    "gemma3_text": GEMMA,
    "gemma3n_text": GEMMA,
    "olmo3": {
        "sliding_attention": Part("rope_theta", 500_000.0, False),
        "full_attention": Part("rope_theta", 500_000.0, True),
    },
    "deepseek_v4": {
        "main": Part("rope_theta", 10_000.0, False, {"partial_rotary_factor": 0.125}),
        # The model's own code does not scale cos and sin, whatever YaRN's rule would say.
        "compress": Part(
            "compress_rope_theta",
            160_000.0,
            True,
            {"partial_rotary_factor": 0.125, "attention_factor": 1.0},
        ),
    },
}
