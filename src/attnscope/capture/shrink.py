"""A small random model of any causal-LM family of the installed transformers.

The idea: a configuration class's own defaults say which parts a family has; only sizes are made
small, so that the model still has its windows, sinks, latents, experts and recurrent layers, and
runs in a second. Matrices inside attention are drawn wide enough for weights that differ.

Not here: what is done with the model (sweep.py).
"""

from __future__ import annotations

import re
from typing import Any, Final

import torch

SIZES: Final[dict[str, Any]] = {
    # widths
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "dim": 64, "n_embed": 64, "embedding_size": 64,
    "word_embed_proj_dim": 64, "hidden_dim": 64, "emb_dim": 64, "width": 64,
    "intermediate_size": 96, "ffn_dim": 96, "n_inner": 96, "dff": 96, "d_inner": 96, "dim_ff": 96,
    "decoder_ffn_dim": 96, "encoder_ffn_dim": 96, "moe_intermediate_size": 32, "d_ff": 96,
    "ffn_hidden_size": 96, "intermediate_size_mlp": 96, "shared_expert_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32, "expert_ffn_hidden_size": 32,
    "shared_intermediate_size": 32, "mlp_dim": 96, "feed_forward_size": 96, "n_ff": 96,
    "dense_intermediate_size": 96, "hidden_size_per_layer_input": 16,
    "block_auto_adjust_ff_dim": False,
    # heads
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "heads": 4,
    "decoder_attention_heads": 4, "encoder_attention_heads": 4,
    "num_key_value_heads": 2, "num_kv_heads": 2, "n_kv_heads": 2, "multi_query_group_num": 2,
    "num_global_key_value_heads": 2, "swa_num_key_value_heads": 2, "swa_num_attention_heads": 4,
    "head_dim": 16, "d_kv": 16, "kv_channels": 16, "dim_head": 16, "global_head_dim": 32,
    "attention_head_dim": 16, "swa_head_dim": 16, "v_head_dim": 12, "swa_v_head_dim": 12,
    # latents
    "q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "qk_head_dim": 24, "o_lora_rank": 16, "rotary_dim": 8,
    # layers
    "num_hidden_layers": 4, "n_layer": 4, "n_layers": 4, "num_layers": 4, "decoder_layers": 2,
    "encoder_layers": 2, "num_decoder_layers": 2, "max_window_layers": 1, "num_kv_shared_layers": 0,
    "first_k_dense_replace": 1, "num_dense_layers": 1, "num_nextn_predict_layers": 0,
    "n_dense_layers": 1, "moe_layer_start_index": 1, "mtp_num_hidden_layers": 0,
    "num_mem_blocks": 1,
    # tokens
    "vocab_size": 128, "vocab_size_per_layer_input": 128, "max_position_embeddings": 128,
    "n_positions": 128, "n_ctx": 128, "max_seq_len": 128,
    "seq_length": 128, "max_sequence_length": 128,
    "max_seq_length": 128, "max_target_positions": 128, "max_source_positions": 128,
    "sliding_window": 8, "sliding_window_size": 8, "window_size": 8, "attention_window_size": 8,
    "attention_chunk_size": 8,
    "local_attention": 8, "swa_window_size": 8, "sliding_window_pattern": 2,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    # experts
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "num_experts_per_token": 2, "moe_topk": 2, "moe_k": 2, "top_k": 2,
    "n_group": 1, "topk_group": 1, "n_shared_experts": 1, "num_shared_experts": 1,
    "moe_num_shared_experts": 1,
    "zero_expert_num": 1, "num_expert_group": 1, "top_k_experts": 2,
    # states
    "mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_num_heads": 8, "mamba_head_dim": 16, "mamba_ngroups": 1, "n_mamba_heads": 2,
    "mamba_headdim": 16,
    "mamba_d_ssm": 128,
    "mamba_dt_rank": 8, "mamba_chunk_size": 8, "chunk_size": 8, "state_size": 8,
    "ssm_state_size": 8, "n_groups": 1, "mamba_hidden_act": "silu", "conv_kernel": 4,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "lru_width": 64, "time_step_rank": 8,
    # indexers and compressed keys
    "index_topk": 6, "index_n_heads": 4, "index_head_dim": 16, "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 16, "indexer_budget": 8, "indexer_compress_ratio": 4, "keep_window_size": 8,
}  # fmt: skip
"""Small values of the fields that decide a model's size, where a family has them."""

_QWEN4: Final[dict[str, Any]] = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 16,
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}

FAMILIES: Final[dict[str, dict[str, Any]]] = {
    "bamba": {"attn_layer_indices": [1, 3]},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}},
    "deepseek_v2": {"n_routed_experts": 4, "num_experts_per_tok": 2, "topk_method": "greedy"},
    "dots3_note": {"num_key_value_heads": 4, "adapter_in_dim": 64},
    "dots3_note_text": {"num_key_value_heads": 4},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "ministral": {"head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "qwen4_exp": {"text_config": _QWEN4},
    "qwen4_exp_text": _QWEN4,
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
    "xmod": {"default_language": "en_XX"},
    "zamba2": {"layer_types": ["mamba", "hybrid"] * 2, "n_mamba_heads": 8, "mamba_headdim": 16},
    "zaya": {"num_experts_per_tok": 1, "moe_topk": 1},
}
"""Fields that one family needs otherwise, because the small ones contradict each other there."""

ATTENTION: Final = re.compile(r"attn|attention", re.IGNORECASE)


def families() -> dict[str, str]:
    """Every causal-LM family of the installed transformers: model type and class name."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    names: dict[str, Any] = dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    return {kind: (name if isinstance(name, str) else name[0]) for kind, name in names.items()}


def small_config(family: str) -> Any:
    """A small configuration of one family."""
    from transformers import CONFIG_MAPPING

    kind = CONFIG_MAPPING[family]
    return kind(**_small(kind, FAMILIES.get(family, {})))


def _small(kind: Any, special: dict[str, Any]) -> dict[str, Any]:
    """The fields to make small, sub-configurations included."""
    whole = kind()
    said = whole.to_dict()
    given: dict[str, Any] = {}
    own = {name for one in kind.__mro__ for name in getattr(one, "__annotations__", {})}
    own |= set(said) | set(kind.attribute_map)
    own -= {name for name in own if isinstance(getattr(kind, name, None), property)}
    own -= {name for name, real in kind.attribute_map.items() if real not in own}
    for name, value in SIZES.items():
        default = said[name] if name in said else said.get(kind.attribute_map.get(name, name))
        if name in own and _same_kind(default, value):
            given[name] = value
    if "qk_rope_head_dim" in given and "head_dim" in given:
        given["head_dim"] = given["qk_rope_head_dim"]  # theirs is the width that rotates
    if "kv_lora_rank" in given or "kv_lora_rank" in special:
        given["num_key_value_heads"] = given["num_attention_heads"]
    for name in whole.sub_configs:
        part = getattr(whole, name, None)
        if part is not None:
            nested = special.get(name, {})
            given[name] = _small(type(part), nested) | {"model_type": part.model_type}
    given |= {n: v for n, v in special.items() if n not in whole.sub_configs}
    layers = next(
        (given[n] for n in ("num_hidden_layers", "n_layer", "num_layers") if n in given), 4
    )
    types = said.get("layer_types")
    if isinstance(types, list) and "layer_types" not in special and "layer_types" in own:
        given["layer_types"] = _few(types, layers)
    if isinstance(said.get("mlp_layer_types"), list) and "mlp_layer_types" not in special:
        given["mlp_layer_types"] = _few(said["mlp_layer_types"], layers)
    return given


def _same_kind(default: Any, value: Any) -> bool:
    """A field that is off (None) stays off: no window where the family has none."""
    if default is None or isinstance(default, list | dict | str):
        return False
    return isinstance(default, bool) == isinstance(value, bool)


def _few(types: list[str], count: int) -> list[str]:
    """A short list in which every kind of layer occurs."""
    kinds = list(dict.fromkeys(types))
    return (kinds * count)[:count] if len(kinds) <= count else kinds[:count]


def build(family: str, *, dtype: torch.dtype = torch.float32, seed: int = 0) -> Any:
    """A small random model of a family, in evaluation mode and with eager attention.

    Raises:
        Exception: whatever the family's own code says if the small sizes do not suit it.
    """
    import transformers

    name = families()[family]
    kind = getattr(transformers, name)
    torch.manual_seed(seed)
    config = small_config(family)
    for part in config.sub_configs:
        # the language model of a larger one takes its part of the configuration, as AutoModel does
        if kind.config_class is type(config).sub_configs.get(
            part
        ) and kind.config_class is not type(config):
            config = getattr(config, part)
    # grouped matrix products know no float64, which the oracle needs
    plain = {"attn_implementation": "eager", "experts_implementation": "eager"}
    model = kind._from_config(config, **plain).eval()
    _draw(model, seed)
    return model.to(dtype)


def _draw(model: torch.nn.Module, seed: int) -> None:
    """Random numbers everywhere; attention's matrices so large that its weights differ."""
    torch.manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.is_floating_point():
                continue
            if not bool(parameter.isfinite().all()) or not bool(parameter.any()):
                parameter.normal_(0.0, 0.2)
            elif parameter.ndim == 2 and ATTENTION.search(name) and "norm" not in name:
                parameter.normal_(0.0, 1.5 * parameter.shape[-1] ** -0.5)
            elif parameter.ndim >= 2:
                parameter.normal_(0.0, 0.6 * parameter.shape[-1] ** -0.5)
