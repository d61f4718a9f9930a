"""Figures of MLA against raw configs, transformers' layers, and PyTorch's counter of FLOPs."""

from __future__ import annotations

import pytest
import torch
from figure_referees import config, value

from attnscope.mechanisms.latent import cheaper


def test_numbers_are_those_of_a_real_layer() -> None:
    """transformers' own layer of DeepSeek-V2's config, on the meta device."""
    from transformers import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention

    raw = config("deepseek-v2")
    with torch.device("meta"):
        layer = DeepseekV2Attention(DeepseekV2Config(**raw, attn_implementation="eager"), 0)
    heads = value("mla.v2.heads")
    assert heads == layer.num_heads == 128
    assert value("mla.v2.content") == layer.qk_nope_head_dim == 128
    expanded = layer.kv_b_proj.out_features + heads * layer.qk_rope_head_dim
    assert value("mla.v2.expanded") == expanded == 40_960
    kept = layer.kv_a_proj_with_mqa.out_features
    assert value("mla.v2.ratio") == pytest.approx(expanded / kept, rel=1e-15)
    per_head = layer.kv_b_proj.out_features / heads
    assert value("mla.v2.groups") == kept / per_head == 2.25


def products(form: str, keys: int) -> int:
    """FLOPs that PyTorch's counter counts in one step of DeepSeek-V3, the products written out."""
    from torch.utils.flop_counter import FlopCounterMode

    raw = config("deepseek-v3")
    H, N, D = raw["num_attention_heads"], raw["qk_nope_head_dim"], raw["qk_rope_head_dim"]
    E, R = raw["v_head_dim"], raw["kv_lora_rank"]

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, device="meta")

    latents, rotated = empty(keys, R), empty(keys, D)
    with FlopCounterMode(display=False) as counter:
        if form == "expanded":
            empty(keys, R) @ empty(R, H * (N + E))
            empty(H, 1, N + D) @ empty(H, N + D, keys)
            empty(H, 1, keys) @ empty(H, keys, E)
        else:
            empty(H, 1, N) @ empty(H, N, R)
            empty(H, R) @ latents.T
            empty(H, D) @ rotated.T
            empty(H, keys) @ latents
            empty(H, 1, R) @ empty(H, R, E)
    return int(counter.get_total_flops())


def test_steps_cost_what_the_counter_counts() -> None:
    keys = value("mla.v3.keys")
    both = [products(form, keys) for form in ("expanded", "absorbed")]
    assert [value(f"mla.v3.step.{form}") for form in ("expanded", "absorbed")] == both
    assert value("mla.v3.step.ratio") == pytest.approx(both[0] / both[1], rel=1e-15)
    assert products("expanded", keys + 1) != both[0]


def test_both_forms_are_even_where_the_choice_changes() -> None:
    raw = config("deepseek-v3")
    sizes = {"rank": raw["kv_lora_rank"], "rope": raw["qk_rope_head_dim"],
             "nope": raw["qk_nope_head_dim"], "value": raw["v_head_dim"]}  # fmt: skip
    even = value("mla.v3.even")
    assert cheaper(int(even), 10**9, **sizes) == "absorbed"
    assert cheaper(int(even) + 1, 10**9, **sizes) == "expanded"
