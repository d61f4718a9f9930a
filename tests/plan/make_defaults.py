"""Write src/attnscope/plan/data/defaults.json: what transformers' config classes fill in.

A published config may leave a field out and rely on its own library's default. Those defaults are
facts about the library; they are read from its classes, never typed.

Run: python tests/plan/make_defaults.py
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[2] / "src" / "attnscope" / "plan" / "data" / "defaults.json"

PARTS = (
    "head_dim", "num_key_value_heads", "num_kv_heads", "sliding_window", "window", "kv_lora_rank",
    "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "v_dim", "linear_", "mamba", "conv",
    "ssm", "state_size", "expand", "n_group", "ngroups", "index", "chunk_size", "interval",
    "max_window_layers", "multi_query", "new_decoder", "kv_shared", "global_", "attn_layer",
    "block", "short_conv", "lru_width", "layer_group", "hidden_attn", "full_attn", "swa_",
    "attention_head_dim", "attention_hidden_size", "kv_channels", "num_heads", "cca", "k_eq_v",
    "num_global", "hybrid", "pattern", "every_n", "attention_layers", "attention_types",
    "compress", "local_", "layer_types", "dense_replace", "gate_rank", "loop", "cycles",
    "n_positions", "state", "qk_dim_factor", "v_dim_factor", "time0", "time1", "kv_n_heads",
    "d_head", "dim_head", "kv_mirror", "ple_", "ngram", "kv_cache", "num_layers_per_stack",
    "prompt_length", "num_attention_groups", "recurrent",
)  # fmt: skip
LEAVE = (
    "vision", "audio", "image", "encoder", "token", "rope_", "beams", "dropout", "init",
    "feed_forward", "output_", "kernels", "bias", "factor", "act", "mambapy", "expert", "scan",
)  # fmt: skip


ALSO = {"gemma3_text": ("num_attention_heads",)}
"""Fields that every other config states, and that published ones of a family leave out."""


SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads")
"""What only the text config inside another leaves out."""


def wanted(name: str) -> bool:
    """Whether a field can matter to what a cache holds."""
    if name in ("qk_rope_head_dim", "no_rope_layers", "no_rope_layer_interval", "num_hidden_size"):
        return True
    return any(p in name for p in PARTS) and not any(leave in name for leave in LEAVE)


def plain(value: Any) -> bool:
    """Whether a default can be written as JSON and says something."""
    return value is not None and isinstance(value, int | float | str | bool | list | dict)


def defaults_of(cls: Any, kind: str) -> dict[str, Any]:
    """The defaults of one config class, those that matter."""
    found: dict[str, Any] = {}
    for one in dataclasses.fields(cls):
        value = one.default
        if value is dataclasses.MISSING and one.default_factory is not dataclasses.MISSING:
            value = one.default_factory()
        if isinstance(value, tuple):
            value = list(value)
        if (wanted(one.name) or one.name in ALSO.get(kind, ())) and plain(value):
            found[one.name] = value
    return found


def sizes_of(cls: Any) -> dict[str, int]:
    """The numbers of layers and heads, and the width, that a config class fills in."""
    stated = {one.name: one.default for one in dataclasses.fields(cls)}
    return {name: stated[name] for name in SIZES if isinstance(stated.get(name), int)}


def read_library() -> dict[str, Any]:
    """The defaults of every causal-LM family, and of text models in models of several parts."""
    import transformers
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    families: dict[str, Any] = {}
    sizes: dict[str, Any] = {}
    alone = dict(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    for key in [*alone, *modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES]:
        cls = CONFIG_MAPPING[key]
        parts = getattr(cls, "sub_configs", {})
        if key in alone:
            families[key], sizes[key] = defaults_of(cls, key), sizes_of(cls)
        for part in ("text_config", "decoder_config", "decoder"):
            inner = parts.get(part)
            kind = getattr(inner, "model_type", None)
            if kind and dataclasses.is_dataclass(inner):
                families.setdefault(kind, defaults_of(inner, kind))
                sizes.setdefault(kind, sizes_of(inner))
    types = set(CONFIG_MAPPING)
    for key in CONFIG_MAPPING:
        parts = getattr(CONFIG_MAPPING[key], "sub_configs", {}).values()
        types |= {kind for part in parts if (kind := getattr(part, "model_type", None))}
    return {
        "transformers": transformers.__version__,
        "types": sorted(types - {""}),
        "families": {key: value for key, value in sorted(families.items()) if value},
        "sizes": {key: value for key, value in sorted(sizes.items()) if value},
    }


def main() -> None:
    """Write the file."""
    HERE.parent.mkdir(parents=True, exist_ok=True)
    HERE.write_text(json.dumps(read_library(), indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
