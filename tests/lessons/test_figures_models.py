"""Figures of real models against their raw configs, and against the real model classes.

Nothing here goes through attnscope.plan; `kv_truth.json` holds bytes of the cache tensors that
transformers' own models made, built from these configs.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from figure_referees import GIB, KIB, MIB, TRUTH, close, config, value

from attnscope.lessons import figures

KV = {
    "kv.qwen38.gqa.per_token": "qwen3.8-27b",
    "kv.ds67b.gqa.per_token": "deepseek-67b",
    "kv.dsv2.per_token": "deepseek-v2",
    "kv.dsv3.per_token": "deepseek-v3",
}


@pytest.mark.parametrize(("id", "name"), KV.items())
def test_bytes_are_those_of_real_cache_tensors(id: str, name: str) -> None:
    assert value(id) == TRUTH[name]["bytes_per_token_long"]


def test_states_are_those_of_real_cache_tensors() -> None:
    truth = TRUTH["qwen3.8-27b"]
    assert value("state.qwen38.bytes") == truth["state_bytes"] == 144 * MIB
    assert value("state.qwen38.conv.bytes") == truth["conv_bytes"] == 3.75 * MIB
    assert value("state.qwen38.total") == truth["state_bytes"] + truth["conv_bytes"]


def test_anchor_by_hand() -> None:
    raw = config("qwen3.8-27b")
    full = raw["layer_types"].count("full_attention")
    one = full * 2 * raw["head_dim"] * 2
    context = raw["max_position_embeddings"]
    for scheme, heads in (
        ("mha", raw["num_attention_heads"]), ("mqa", 1), ("gqa", raw["num_key_value_heads"])
    ):  # fmt: skip
        assert value(f"kv.qwen38.{scheme}.per_token") == one * heads
        assert value(f"kv.qwen38.{scheme}.total") == one * heads * context
    assert [value(f"kv.qwen38.{s}.per_token") for s in ("mha", "gqa", "mqa")] == [
        384 * KIB, 64 * KIB, 16 * KIB,
    ]  # fmt: skip
    assert [value(f"kv.qwen38.{s}.total") for s in ("mha", "gqa", "mqa")] == [
        96 * GIB, 16 * GIB, 4 * GIB,
    ]  # fmt: skip
    assert value("shape.qwen38.full_layers") == full == 16
    assert value("shape.qwen38.linear_layers") == 64 - full == 48
    assert value("shape.qwen38.rotated") == raw["head_dim"] * raw["partial_rotary_factor"] == 64
    assert value("shape.qwen38.group") == Fraction(24, 4)
    assert value("shape.qwen38.scale") ** 2 == raw["head_dim"]


def test_deepseek_by_hand() -> None:
    old, new, third = (config(f"deepseek-{n}") for n in ("67b", "v2", "v3"))
    width = old["hidden_size"] // old["num_attention_heads"]
    layers = old["num_hidden_layers"]
    gqa = layers * 2 * old["num_key_value_heads"] * width * 2
    assert value("kv.ds67b.gqa.per_token") == gqa == 389_120
    mha = layers * 2 * old["num_attention_heads"] * width * 2
    assert value("kv.ds67b.mha.per_token") == mha == 3_112_960
    assert value("kv.ds67b.gqa.total") == gqa * 2**20 == 380 * GIB
    assert value("kv.ds67b.gqa.total.million") == gqa * 10**6
    entry = new["kv_lora_rank"] + new["qk_rope_head_dim"]
    assert value("shape.dsv2.entry") == entry == 576
    assert value("kv.dsv2.per_token") == new["num_hidden_layers"] * entry * 2 == 69_120
    assert value("kv.dsv3.per_token") == third["num_hidden_layers"] * entry * 2 == 70_272
    close(value("kv.dsv2.saving"), 100 * (Fraction(69_120, gqa) - 1))
    six = Fraction(new["num_hidden_layers"] * entry * 6, 8)
    close(value("kv.dsv2.saving.quantised"), 100 * (six / gqa - 1))
    assert abs(value("kv.dsv2.saving.quantised") - value("kv.dsv2.saving.reported")) < 0.05


def test_glm_by_hand() -> None:
    """Layers with an indexer of their own: the first three, then every fourth, by the config."""
    raw = config("glm-5.3")
    layers, context = raw["num_hidden_layers"], raw["max_position_embeddings"]
    latents = layers * (raw["kv_lora_rank"] + raw["qk_rope_head_dim"]) * 2
    skip, every = raw["index_skip_topk_offset"], raw["index_topk_freq"]
    own = [n for n in range(layers) if max(n - skip + 1, 0) % every == 0]
    keys = len(own) * raw["index_head_dim"] * 2
    assert value("shape.glm53.indexer_layers") == len(own) == 21
    assert value("kv.glm53.per_token") == latents == 89_856
    assert value("kv.glm53.indexer.per_token") == keys == 5_376
    assert value("kv.glm53.all.per_token") == latents + keys
    assert value("kv.glm53.total") == latents * context == 87.75 * GIB
    assert value("kv.glm53.indexer.total") == keys * context == 5.25 * GIB
    assert value("kv.glm53.all.total") == (latents + keys) * context == 93 * GIB


def test_flash_by_hand() -> None:
    raw = config("deepseek-v4.1-flash")
    main = Fraction(raw["head_dim"], 2) + Fraction(raw["head_dim"], 16)
    index = Fraction(raw["index_head_dim"], 2) + Fraction(raw["index_head_dim"], 32)
    assert (value("kv.dsv41flash.main"), value("kv.dsv41flash.index")) == (main, index) == (288, 68)
    parts = [f"{part}.{what}" for part in ("main", "index") for what in ("numbers", "scales")]
    assert [value(f"kv.dsv41flash.{part}") for part in parts] == [256, 32, 64, 4]
    entries = sum(Fraction(1, r) for r in raw["compress_ratio_at_source"].values())
    assert value("kv.dsv41flash.entries") == entries == 2.5
    assert value("kv.dsv41flash.entry") == main + index == 356
    per_token = (main + index) * entries
    assert value("kv.dsv41flash.per_token") == per_token == value("kv.dsv41flash.reported")
    windows = raw["num_hidden_layers"] * raw["sliding_window"] * raw["head_dim"] * 2
    assert value("kv.dsv41flash.windows") == windows


def test_small_model_is_what_its_layer_has() -> None:
    """transformers' own layer of this config, on the meta device."""
    from transformers import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

    raw = config("qwen3-0.6b")
    with torch.device("meta"):
        layer = Qwen3Attention(Qwen3Config(**raw, attn_implementation="eager"), 0)
    assert tuple(layer.o_proj.weight.shape)[::-1] == value("shape.qwen306b.o_proj") == (2048, 1024)
    assert layer.q_proj.out_features == value("shape.qwen306b.q_width") == 2048
    assert layer.q_proj.in_features == value("shape.qwen306b.hidden")
    assert layer.head_dim == value("shape.qwen306b.head_width")
    assert value("shape.qwen306b.quotient") == Fraction(1024, 16) != layer.head_dim


def test_where_mechanisms_got_stuck_is_what_their_layers_have() -> None:
    """transformers' own layers of these configs, on the meta device."""
    from transformers import DeepseekV4Config, Gemma3TextConfig, GptOssConfig
    from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5Attention

    with torch.device("meta"):
        gated = Qwen3_5Attention(Qwen3_5TextConfig(**config("qwen3.8-27b")), 3)
        sunk = GptOssAttention(GptOssConfig(**config("gpt-oss-20b")), 0)
        small = Gemma3TextConfig(**config("gemma-3-270m"))
        windows = [Gemma3Attention(small, i).sliding_window for i in range(18)]
    # q_proj makes a gate beside every query, of the width that o_proj reads.
    gate = gated.q_proj.weight.numel() - gated.q_proj.in_features * gated.o_proj.in_features
    assert value("shape.qwen38.gate") == gate == 31_457_280
    assert value("shape.gptoss20b.heads") == sunk.sinks.numel() == 64
    every = value("shape.gemma270m.every")
    assert windows == [
        None if i % every == every - 1 else value("shape.gemma270m.window") for i in range(18)
    ]
    assert value("shape.gemma270m.context") == small.max_position_embeddings == 32_768
    rates = DeepseekV4Config(compress_ratios=config("deepseek-v4-flash")["compress_ratios"])
    assert value("shape.dsv4flash.ratio") == max(rates.compress_rates.values()) == 128
    assert value("clip.paper.tau") == 100
    norms = gated.q_norm.weight.numel() + gated.k_norm.weight.numel()
    assert value("stable.norm.parameters") == norms == 512


def test_holding_scores_is_what_the_mechanism_does() -> None:
    """QK-Clip's own factors on a head whose largest score is 400, and Gemma 2's own class."""
    from transformers import Gemma2Config

    from attnscope.mechanisms.qk_clip import clip_factors, clip_heads

    gamma = clip_factors([400.0], 100.0)
    q, k = clip_heads(torch.ones(2, 3), torch.ones(2, 3), gamma)
    assert value("stable.clip.gamma") == gamma.item() == 0.25
    assert [value("stable.clip.root")] * 2 == [q[0, 0].item(), k[0, 0].item()] == [0.5, 0.5]
    gemma = Gemma2Config(**config("gemma-2-9b"))
    assert value("stable.softcap.gemma2") == gemma.attn_logit_softcapping == 50


def test_no_score_behind_a_norm_passes_its_bound() -> None:
    """PyTorch's own RMSNorm on vectors of any length: the bound is reached by like directions."""
    for width in (64, 256):
        bound = value(f"stable.norm.bound.{width}")
        norm = torch.nn.RMSNorm(width, eps=0.0, dtype=torch.float64)
        x = torch.randn(200, width, dtype=torch.float64) * torch.logspace(-3, 3, 200)[:, None]
        scores = norm(x) @ norm(x).mT / width**0.5
        assert scores.abs().max().item() == pytest.approx(bound, rel=1e-12)
        assert (scores.diagonal() - bound).abs().max() < 1e-12 * bound


@pytest.mark.parametrize("tokens", [64, 257])
def test_flops_are_what_the_counter_counts(tokens: int) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    heads, width = value("shape.qwen306b.heads"), value("shape.qwen306b.head_width")
    q, k = (torch.empty(1, heads, n, width, device="meta") for n in (tokens, tokens))
    with FlopCounterMode(display=False) as counter:
        torch.nn.functional.scaled_dot_product_attention(q, k, k)
    assert counter.get_total_flops() == value("flops.qwen306b.prefill") * tokens**2
    with FlopCounterMode(display=False) as counter:
        torch.nn.functional.scaled_dot_product_attention(q[:, :, -1:], k, k)
    assert counter.get_total_flops() == value("flops.qwen306b.decode") * tokens
    pairs = sum(1 for i in range(tokens) for _ in range(i + 1))
    causal = 4 * heads * width * pairs
    assert value("flops.qwen306b.prefill.causal") * tokens * (tokens + 1) == causal


def test_reported_numbers_are_cited() -> None:
    for one in figures.all():
        if one.kind == "reported" and one.formula == "as reported":
            cited = ("arXiv", "model card", "dialogue", "data sheet")
            assert any(word in one.source for word in cited), one.id
    table = {"mha": (47.2, 1.51), "mqa": (46.6, 0.24), "gqa8": (47.1, 0.28)}
    for name, (score, seconds) in table.items():
        assert value(f"gqa.paper.{name}") == score
        assert value(f"gqa.paper.{name}.seconds") == seconds
