"""What a config leaves out, against what the library's own config class fills in for it.

Each rule of patterns.py is asked twice: for the config as somebody wrote it, and for the same
config after the library has written down every list and size; and sizes of single layers are read
off the library's built model.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
import weigh

from attnscope.plan import from_config
from attnscope.plan.families import FAMILIES
from attnscope.plan.patterns import all_full, full_whatever

DERIVED = (
    "layer_types", "layers_block_type", "indexer_types", "mlp_layer_types", "no_rope_layers",
    "per_layer_config", "sliding_window_pattern", "_sliding_window_pattern",
)  # fmt: skip
"""What the library derives where it is absent."""
LEFT_OUT = {
    "nemotron_h": "its number of layers is that of the list",
    "zamba2": "its list of layers is always published",
    "dory": "its list says, too, that attention and MLP are counted apart",
    "gemma4_text": "asked below", "gemma4_unified_text": "asked below",
    "qwen4_exp_text": "asked below: its defaults state no sizes of an indexer",
}  # fmt: skip
RULED = sorted(
    name
    for name, family in FAMILIES.items()
    if family.rule not in (all_full, full_whatever)
    and name in transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    and name not in LEFT_OUT
)


def filled_in(raw: dict[str, Any]) -> dict[str, Any]:
    """The config as the library writes it down."""
    raw = dict(raw)
    config = transformers.AutoConfig.for_model(raw.pop("model_type"), **raw)
    filled: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    return filled


@pytest.mark.parametrize("family", RULED)
def test_the_rule_gives_the_layers_that_the_library_lists(family: str) -> None:
    filled = filled_in({"model_type": family})
    bare = {name: value for name, value in filled.items() if name not in DERIVED}
    assert from_config(bare).layers == from_config(filled).layers


SMALL: dict[str, Any] = {"num_hidden_layers": 12, "hidden_size": 64, "num_attention_heads": 4}
SPARSE = {"model_type": "glm_moe_dsa", "num_hidden_layers": 11}
INDEXED: list[dict[str, Any]] = [
    {"model_type": "hy_v4", "num_hidden_layers": 11},
    {**SPARSE, "index_topk_freq": 3},
    {**SPARSE, "index_topk_freq": 4, "index_skip_topk_offset": 3},
    {**SPARSE, "index_topk_pattern": "FSSFSFFSSSS"},
]
CASES: list[dict[str, Any]] = [
    *INDEXED,
    {"model_type": "gemma4_text", **SMALL},
    {"model_type": "gemma4_text", **SMALL, "num_global_key_value_heads": 2},
    {"model_type": "gemma4_text", **SMALL, "num_global_key_value_heads": 2,
     "attention_k_eq_v": True},
    {"model_type": "gemma4_text", **SMALL, "global_head_dim": 48},
    {"model_type": "gemma4_unified_text", **SMALL, "num_global_key_value_heads": 2},
    {"model_type": "kimi_linear", "num_hidden_layers": 4, "linear_attn_config": {
        "kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 6, "head_dim": 96,
        "short_conv_kernel_size": 3}},
    {"model_type": "qwen4_exp_text", **weigh.SETTINGS["qwen4_exp_text"]},
    {"model_type": "smollm3", **SMALL, "use_sliding_window": True, "sliding_window": 8},
]  # fmt: skip


def as_written(raw: dict[str, Any], *without: str) -> dict[str, Any]:
    """The library's sizes, the fields of `raw`, and nothing that the library derives."""
    gone = (*DERIVED, *without)
    return {k: v for k, v in filled_in(raw).items() if k not in gone} | raw


@pytest.mark.parametrize("raw", CASES)
def test_a_config_as_written_is_the_config_as_filled_in(raw: dict[str, Any]) -> None:
    assert from_config(as_written(raw)).layers == from_config(filled_in(raw)).layers


@pytest.mark.parametrize(
    ("raw", "absent"),
    [
        ({"model_type": "zamba", "num_hidden_layers": 12}, "attention_head_dim"),
        ({"model_type": "jetmoe", "num_hidden_layers": 2}, "kv_channels"),
        ({"model_type": "rwkv", "num_hidden_layers": 2}, "attention_hidden_size"),
        ({"model_type": "mamba", "num_hidden_layers": 2}, "intermediate_size"),
        ({"model_type": "recurrent_gemma", "num_hidden_layers": 3}, "lru_width"),
        ({"model_type": "gemma2", "num_hidden_layers": 2}, "head_dim"),
        (next(raw for raw in CASES if raw["model_type"] == "kimi_linear"), "linear_head_dim"),
    ],
)
def test_a_size_that_is_absent_is_the_librarys(raw: dict[str, Any], absent: str) -> None:
    filled = filled_in(raw)
    assert filled[absent] is not None
    assert from_config(as_written(raw, absent)).layers == from_config(filled).layers


def test_indexers_are_where_the_library_puts_them() -> None:
    for raw in INDEXED:
        said = filled_in(raw)["indexer_types"]
        layers = from_config(as_written(raw)).layers
        owned = ["full" if one.indexer and one.indexer.own else "shared" for one in layers]
        assert owned == said
        assert "shared" in said


def built(raw: dict[str, Any]) -> Any:
    raw = dict(raw)
    config = transformers.AutoConfig.for_model(raw.pop("model_type"), **raw)
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(config)


def projections(model: Any, name: str) -> list[int]:
    """How many numbers each of the model's projections of that name makes, in their order."""
    return [one.out_features for key, one in model.named_modules() if key.endswith(name)]


def test_query_heads_that_differ_from_layer_to_layer() -> None:
    raw = {
        "model_type": "laguna", "hidden_size": 64, "num_hidden_layers": 4, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32,
        "num_attention_heads_per_layer": [4, 8, 8, 4], "vocab_size": 99, "num_experts": 4,
        "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    }  # fmt: skip
    layers = from_config(filled_in(raw)).layers
    made = [one.heads.query * one.heads.qk for one in layers if one.heads is not None]
    assert made == projections(built(raw), "self_attn.q_proj")
    assert len(set(made)) == 2


def test_a_head_width_that_zambas_config_states() -> None:
    """The width is 2 x 96 / 4 = 48 where it is not stated."""
    raw = {
        "model_type": "zamba", "hidden_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4,
        "num_key_value_heads": 4, "attention_head_dim": 40, "attn_layer_period": 3,
        "attn_layer_offset": 1, "intermediate_size": 64, "vocab_size": 99, "n_mamba_heads": 2,
    }  # fmt: skip
    layers = from_config(filled_in(raw)).layers
    made = [one.heads.kv * one.heads.qk for one in layers if one.heads is not None]
    assert {*made} == {*projections(built(raw), "k_proj")} == {160}
