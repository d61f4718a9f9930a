"""Figures of states, choices and entries against raw configs and transformers' own layers."""

from __future__ import annotations

import pytest
import torch
from figure_referees import MIB, TRUTH, config, value

from attnscope.lessons.site.flow import steps


def test_a_state_is_that_of_a_real_layer() -> None:
    raw = config("qwen3.8-27b")
    linear = raw["layer_types"].count("linear_attention")
    assert value("linear.qwen38.layer") == TRUTH["qwen3.8-27b"]["state_bytes"] / linear == 3 * MIB
    token = 2 * raw["num_key_value_heads"] * raw["head_dim"] * 2
    assert value("linear.qwen38.even") == 3 * MIB / token == 768


def test_a_choice_is_that_of_a_real_layer() -> None:
    """transformers' own layer of GLM-5.3's config, on the meta device."""
    from transformers import GlmMoeDsaConfig
    from transformers.models.glm_moe_dsa.modeling_glm_moe_dsa import GlmMoeDsaAttention

    raw = config("glm-5.3")
    with torch.device("meta"):
        layer = GlmMoeDsaAttention(GlmMoeDsaConfig(**raw, attn_implementation="eager"), 0)
    indexer = layer.indexer
    assert value("linear.glm53.topk") == indexer.index_topk == 2048
    assert value("linear.glm53.index_heads") == indexer.n_heads == 32
    share = 100 * indexer.index_topk / raw["max_position_embeddings"]
    assert value("linear.glm53.share") == pytest.approx(share, rel=1e-15)
    attend = layer.num_heads * (2 * layer.kv_lora_rank + layer.qk_rope_head_dim)
    assert value("linear.glm53.scan") == attend / (indexer.n_heads * indexer.head_dim) == 17
    choice = next(one for one in steps() if one.id == "choice")
    assert choice.real_parameters == sum(one.numel() for one in indexer.parameters())


def test_entries_are_those_of_a_real_config() -> None:
    raw = config("deepseek-v4-flash")
    ratios = sorted(set(raw["compress_ratios"]) - {0})
    assert [value("linear.v4flash.fine"), value("linear.v4flash.coarse")] == ratios == [4, 128]
    assert value("linear.v4flash.window") == raw["sliding_window"] == 128
    assert value("linear.v4flash.topk") == raw["index_topk"] == 512


def test_new_steps_of_the_flow_are_those_of_real_layers() -> None:
    """transformers' own layers, on the meta device."""
    from transformers import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5GatedDeltaNet

    by_id = {one.id: one for one in steps()}
    with torch.device("meta"):
        mla = DeepseekV2Attention(DeepseekV2Config(**config("deepseek-v2")), 0)
        delta = Qwen3_5GatedDeltaNet(Qwen3_5TextConfig(**config("qwen3.8-27b")), 0)
    parts = (mla.kv_a_proj_with_mqa, mla.kv_b_proj)
    assert by_id["latent"].real_parameters == sum(one.weight.numel() for one in parts)
    assert by_id["latent"].real == f"T × {mla.kv_a_proj_with_mqa.out_features}"
    decide = (delta.in_proj_a.weight, delta.in_proj_b.weight, delta.A_log, delta.dt_bias)
    assert by_id["state"].real_parameters == sum(one.numel() for one in decide)
    sizes = (delta.num_v_heads, delta.head_k_dim, delta.head_v_dim)
    assert by_id["state"].real == " × ".join(str(one) for one in sizes)
