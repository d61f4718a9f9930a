"""Every family the planner knows: the rule for its layers' kinds, and the builders of its layers.

The idea: most families are ordinary heads with some rule for windows, so a family is a row in a
table: its rule (patterns.py), its attention and, if it has one, its recurrence (build*.py). A
family that is not in the table is refused, by name; one whose cache cannot be planned from its
config stands in REFUSED with the reason.

Not here: reading files (read.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attnscope.plan import build, build_states, compressed_models, patterns, special
from attnscope.plan.build import Builder
from attnscope.plan.patterns import Rule


@dataclass(frozen=True)
class Family:
    """One row: how kinds are found, how attention, recurrences and mixed layers are built."""

    rule: Rule = patterns.all_full
    attention: Builder = build.plain
    linear: Builder | None = None
    hybrid: Builder | None = None
    sharing: bool = False


FULL: Final = [
    "apertus", "apertus1p5_text", "arcee", "aria_text", "bitnet", "bloom", "codegen", "cohere",
    "ctrl", "diffllama", "emu3_text_model", "ernie4_5", "ernie4_5_moe", "exaone", "flex_olmo",
    "gemma", "glm", "glm4", "glm4_moe", "gpt2", "gpt-sw3", "gpt_neox", "gpt_neox_japanese",
    "gptj", "granite", "granitemoe", "granitemoeshared", "helium", "hrm_text",
    "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3", "hyperclovax", "internlm3", "iquestcoder",
    "jais2", "jetmoe", "llama", "minimax_m2", "nanochat", "nemotron", "olmo", "olmo2", "olmoe",
    "opt", "persimmon", "phi", "sarvam_moe", "seed_oss", "solar_open", "stablelm", "xglm",
    "biogpt", "doge", "mpt", "mobilellm", "git", "internlm", "internlm2", "baichuan",
    "qwen", "xverse", "aquila", "deepseek", "Yi", "orion", "minicpm", "chatglm", "bailing_moe",
    "bailing_moe_v2", "grok-1", "arctic", "chameleon", "cosmos3_edge_text", "deepseek_ocr2_text",
    "ernie4_5_vl_moe_text", "glm4v_text", "glm4v_moe_text", "glm_ocr_text", "granite4_vision_text",
    "granite_docling_text", "hunyuan_vl_text", "molmo2_text", "paddleocr_vl_text",
    "qwen3_omni_moe_text",
]  # fmt: skip
"""Ordinary heads, every layer full."""

WINDOWED: Final = [
    "mistral", "mixtral", "ministral", "ministral3", "phi3", "phi4_multimodal", "phimoe",
    "starcoder2", "moshi",
]  # fmt: skip
"""Ordinary heads; where `sliding_window` is a number, every layer slides."""

ENCODERS: Final = [
    "bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie",
    "megatron-bert", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer",
    "xlm", "xlm-roberta", "xlm-roberta-xl", "xmod",
]  # fmt: skip
"""Encoders that can be decoders: planned only where `is_decoder` is true."""

MLA: Final = [
    "axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "minicpm3", "mistral4",
    "sarvam_mla", "youtu",
]  # fmt: skip
DSA: Final = ["axk2", "deepseek_v32", "glm_moe_dsa", "hy_v4"]

FAMILIES: Final[dict[str, Family]] = {
    **{name: Family() for name in FULL},
    **{name: Family(patterns.window_if_given) for name in WINDOWED},
    **{name: Family() for name in ENCODERS},
    **{name: Family(attention=build.mla) for name in MLA},
    **{name: Family(patterns.repeat(patterns.INDEXED), build.dsa) for name in DSA},
    "qwen2": Family(patterns.upper_layers),
    "qwen3": Family(patterns.upper_layers),
    "qwen2_moe": Family(patterns.even_lower_layers),
    "qwen3_moe": Family(patterns.window_if_given),
    "qwen2_vl": Family(patterns.upper_layers),
    "qwen2_5_vl": Family(patterns.upper_layers),
    "qwen2_vl_text": Family(patterns.upper_layers),
    "qwen2_5_vl_text": Family(patterns.upper_layers),
    "qwen2_5_omni_text": Family(patterns.upper_layers),
    "qwen3_vl_text": Family(patterns.full_whatever),
    "qwen3_vl_moe_text": Family(patterns.full_whatever),
    "smollm3": Family(special.smollm3),
    "dots1": Family(patterns.upper_layers_if_given),
    "afmoe": Family(patterns.pattern_field("global_attn_every_n_layers", 4)),
    "beam": Family(patterns.every(6, last=True)),
    "cohere2": Family(patterns.pattern_field("sliding_window_pattern", 4)),
    "cohere2_moe": Family(patterns.cohere2_moe),
    "cohere_compass_text": Family(patterns.full_whatever),
    "cwm": Family(patterns.every(4, first=True)),
    "exaone4": Family(patterns.exaone),
    "exaone_moe": Family(patterns.exaone),
    "flint": Family(patterns.flint),
    "gemma2": Family(patterns.every(2)),
    "gemma3_text": Family(patterns.pattern_field("sliding_window_pattern", 6)),
    "gemma3": Family(patterns.pattern_field("sliding_window_pattern", 6)),
    "gemma3n_text": Family(patterns.every(5), sharing=True),
    "gemma4_text": Family(patterns.every(6, last=True), build.gemma4, sharing=True),
    "gemma4_unified_text": Family(patterns.every(6, last=True), build.gemma4, sharing=True),
    "gpt_oss": Family(patterns.every(2)),
    "granite_swa": Family(patterns.every(4, first=True)),
    "granitemoe_swa": Family(patterns.every(4, first=True)),
    "kolibri1": Family(patterns.every(5)),
    "laguna": Family(patterns.full_whatever),
    "llama4_text": Family(patterns.llama4),
    "mellum": Family(patterns.full_whatever),
    "mimo_v2_flash": Family(patterns.mimo, build.two_widths),
    "modernbert-decoder": Family(special.modernbert, special.modernbert_layer),
    "olmo3": Family(patterns.every(4)),
    "vaultgemma": Family(patterns.every(2)),
    "falcon": Family(attention=build.multi_query),
    "gpt_bigcode": Family(attention=build.multi_query),
    "dbrx": Family(attention=build.nested_kv),
    "gpt_neo": Family(special.gpt_neo, special.gpt_neo_layer),
    "mllama_text_model": Family(attention=special.mllama),
    "dory": Family(special.dory),
    "openelm": Family(attention=special.openelm),
    "nemotron-nas": Family(attention=special.nemotron_nas),
    "deci": Family(attention=special.deci),
    "step3_text": Family(attention=special.step3),
    "step3p5": Family(patterns.full_whatever, special.step3p5),
    "hunyuan": Family(attention=special.hunyuan_cross_layer),
    "trocr": Family(attention=build.plain),
    "dots3_note_text": Family(special.dots3_note, special.dots3_note_layer),
    "longcat_flash": Family(special.longcat, build.mla),
    "qwen3_next": Family(patterns.linear_interval, linear=build.gated_deltanet),
    "qwen3_5_text": Family(patterns.linear_interval, linear=build.gated_deltanet),
    "qwen3_5_moe_text": Family(patterns.linear_interval, linear=build.gated_deltanet),
    "qwen4_exp_text": Family(special.qwen4, special.qwen4_attention, special.qwen4_linear),
    "olmo_hybrid": Family(patterns.linear_interval, linear=special.olmo_deltanet),
    "lara_mini": Family(special.lara_mini, linear=build.gated_deltanet),
    "kimi_linear": Family(patterns.kimi, build.mla, build.kda),
    "bailing_hybrid": Family(patterns.layer_group, build.mla, build.kda),
    "minimax": Family(patterns.attn_type_list, linear=build_states.lightning),
    "minimax_text_01": Family(patterns.attn_type_list, linear=build_states.lightning),
    "minimax_m1": Family(patterns.attn_type_list, linear=build_states.lightning),
    "minimax_m3_vl_text": Family(patterns.m3_sparse, special.m3_attention),
    "mamba": Family(patterns.repeat(patterns.LINEAR), linear=build_states.mamba1),
    "falcon_mamba": Family(patterns.repeat(patterns.LINEAR), linear=build_states.mamba1),
    "mamba2": Family(patterns.repeat(patterns.LINEAR), linear=build_states.mamba2),
    "jamba": Family(patterns.jamba, linear=build_states.mamba1),
    "bamba": Family(patterns.bamba, linear=build_states.mamba2),
    "nemotron_h": Family(patterns.nemotron_h, linear=build_states.mamba2),
    "granitemoehybrid": Family(patterns.repeat(patterns.LINEAR), linear=build_states.mamba2),
    "falcon_h1": Family(patterns.repeat(patterns.HYBRID), hybrid=build_states.with_mamba2),
    "zamba": Family(patterns.zamba, linear=build_states.mamba1, hybrid=build_states.zamba_hybrid),
    "zamba2": Family(
        patterns.zamba2,
        linear=build_states.mamba2,
        hybrid=build_states.zamba2_hybrid,
    ),
    "lfm2": Family(patterns.lfm2, linear=build_states.short_convolution),
    "lfm2_moe": Family(patterns.lfm2, linear=build_states.short_convolution),
    "lfm3": Family(special.lfm3, linear=build_states.short_convolution),
    "recurrent_gemma": Family(patterns.recurrent_gemma, linear=build_states.rg_lru),
    "rwkv": Family(patterns.repeat(patterns.LINEAR), linear=build_states.rwkv4),
    "inkling_text": Family(patterns.local_ids, hybrid=build_states.inkling),
    "inkling2_text": Family(patterns.local_ids, hybrid=build_states.inkling),
    "inkling2_loop_text": Family(special.inkling_loop, hybrid=build_states.inkling),
    "zaya": Family(patterns.repeat(patterns.HYBRID), hybrid=build_states.zaya),
    "deepseek_v4": Family(patterns.compress_ratios, compressed_models.deepseek_v4),
    "deepseek_v41": Family(compressed_models.v41_kinds, compressed_models.deepseek_v41),
}
"""Model type to family. Wrappers of several parts (vision, sound) are opened first, in read.py."""

ENCODER_DECODER: Final = [
    "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian", "mbart", "mvp",
    "pegasus", "plbart", "prophetnet", "whisper", "t5", "mt5", "umt5", "led", "longt5",
]  # fmt: skip

REFUSED: Final[dict[str, str]] = {
    **{
        name: "it is an encoder-decoder: part of its cache grows with the source, not the context"
        for name in ENCODER_DECODER
    },
    "blt": "its cache grows with patches whose number depends on the text",
    "openai-gpt": "its library gives it no cache: every step computes all keys again",
    "reformer": "it keeps buckets of its own and no keys",
    "xlnet": "it keeps hidden states (mems) instead of keys and values",
    "xlstm": "its states depend on a kernel chosen at run time",
    "gemma4_assistant": "it is a draft model that reads its target's cache and keeps none",
    "gemma4_unified_assistant": "it is a draft model that reads its target's cache and keeps none",
    "musicgen": "it generates sound codes, not text",
    "musicgen_decoder": "it generates sound codes, not text",
    "musicgen_melody": "it generates sound codes, not text",
    "musicgen_melody_decoder": "it generates sound codes, not text",
    "cpmant": "it puts prompts of its own before the text, which its config counts elsewhere",
}
"""Families that are known and cannot be planned, and why."""
