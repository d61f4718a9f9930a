"""Small GGUF files of many architectures, one for each way in which llama.cpp lays out a cache.

The idea: an architecture is a few keys, and the names and shapes of its tensors, written as text:
`attn_q C Q` is a weight from the model's width to that of all queries. Which tensors llama.cpp
wants in a file is learnt by loading it; it names the one that it misses.

Not here: writing a file, and the files of the first architectures (gguf_files.py).
"""

from __future__ import annotations

from typing import Any

from gguf_files import WORDS, Small, deepseek2, llama

SIZES = {
    "1": 1, "T": 4, "T3": 3, "V": WORDS, "E": 2,  # taps, words, experts
    "C": 128, "3C": 384, "F": 32, "2F": 64,  # the model, its FFN
    "Q": 128, "K": 64, "d": 32, "Q+2K": 256,  # 4 heads on 2
    "I": 256, "2I": 512, "N": 32, "R": 8, "R+2N": 72,  # Mamba: inner, state, heads or rank
    "B": 384, "I+B+R": 648, "I/g": 128, "g": 2,  # Mamba-2: the convolution's, groups
    "h": 16, "n": 128, "hn": 2048, "hk": 3072,  # 16 heads of latents
    "L": 512, "L+r": 576, "q": 64, "X": 128, "4X": 512, "x": 4,  # ranks, an indexer
    "A": 4, "A*A": 16, "A-1": 3, "P": 256, "64": 64, "22P": 22 * 256, "l": 64,  # Gemma 3n
}  # fmt: skip
"""The letters' meanings, as numbers."""

ENDS = "token_embd C V, output_norm C, output C V"
TIED = "token_embd C V, output_norm C"
QKVO = "attn_q C Q, attn_k C K, attn_v C K, attn_output Q C"
ATTENTION = f"attn_norm C, {QKVO}"
QK_NORM = "attn_q_norm d, attn_k_norm d"
GATED = "ffn_gate C F, ffn_up C F, ffn_down F C"
FFN = f"ffn_norm C, {GATED}"
PLAIN = f"{ATTENTION}, {FFN}"
POST = "post_attention_norm C, post_ffw_norm C"
EXPERTS = (
    "ffn_gate_inp C E, ffn_gate_inp.bias E, ffn_gate_exps C F E, ffn_gate_exps.bias F E, "
    "ffn_down_exps F C E, ffn_down_exps.bias C E, ffn_up_exps C F E, ffn_up_exps.bias F E"
)
GEMMA3N = (
    f"{PLAIN}, {QK_NORM}, {POST}, inp_gate C P, proj P C, post_norm C, altup_correct_coef A A, "
    "altup_correct_scale C, altup_predict_coef A A*A, altup_router C A, altup_router_norm C, "
    "laurel_l C l, laurel_r l C, laurel_post_norm C"
)
STREAMS = (
    "altup_proj C C A-1, altup_unembd_proj C C A-1, per_layer_token_embd 22P V, "
    "per_layer_model_proj C 22P, per_layer_proj_norm P"
)
MAMBA = (
    "attn_norm C, ssm_in C 2I, ssm_conv1d T I, ssm_conv1d.bias I, ssm_x I R+2N, ssm_dt R I, "
    "ssm_dt.bias I, ssm_a. N I, ssm_d. I, ssm_out I C"
)
MAMBA_NORMS = "ssm_dt_norm R, ssm_b_norm N, ssm_c_norm N"
MAMBA2 = (
    "attn_norm C, ssm_in C I+B+R, ssm_conv1d T B, ssm_conv1d.bias B, ssm_dt.bias R, ssm_a. 1 R, "
    "ssm_d. 1 R, ssm_out I C"
)
MAMBA2_NORM = "ssm_norm I/g g"
SHORT = "attn_norm C, shortconv.conv T3 C, shortconv.in_proj C 3C, shortconv.out_proj C C"
KDA = (
    "attn_norm C, ssm_conv1d_q T 1 hn, ssm_conv1d_k T 1 hn, ssm_conv1d_v T 1 hn, attn_q C hn, "
    "attn_k C hn, attn_v C hn, ssm_f_a C n, ssm_f_b n hn, ssm_beta C h, ssm_a. 1 h, "
    "ssm_dt.bias hn, ssm_g_a C n, ssm_g_b n hn, ssm_norm n, attn_output hn C"
)
LATENT = (
    "attn_norm C, attn_kv_a_norm L, attn_kv_a_mqa C L+r, attn_k_b n L h, attn_v_b L n h, "
    "attn_output hn C"
)
LOW_RANK = "attn_q_a C q, attn_q_a_norm q, attn_q_b q hk"
INDEXER = (
    "indexer.attn_k C X, indexer.attn_q_b q 4X, indexer.k_norm X, indexer.k_norm.bias X, "
    "indexer.proj C x"
)

WINDOW = {"attention.sliding_window": 1024}
MOE = {"expert_count": 2, "expert_used_count": 1, "expert_feed_forward_length": 32}
STATES = {
    "ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 32, "ssm.time_step_rank": 8,
}  # fmt: skip
GROUPS = {**STATES, "ssm.group_count": 2}
MIDDLE = {"attention.head_count_kv": [0, 2, 0]}
MLA = deepseek2(1, 16, latents=True).keys
DSA = {
    **MLA, "attention.indexer.head_count": 4, "attention.indexer.key_length": 128,
    "attention.indexer.top_k": 2048,
}  # fmt: skip


def shapes(text: str, at: str = "") -> dict[str, tuple[int, ...]]:
    """Tensors written as text; a name is a weight's unless a point says otherwise."""
    found = {}
    for one in text.split(", "):
        name, *sizes = one.split()
        if not name.endswith((".", ".bias")):
            name += ".weight"
        found[at + name.removesuffix(".")] = tuple(SIZES[size] for size in sizes)
    return found


def build(arch: str, layers: list[str], keys: dict[str, Any], ends: str = ENDS) -> Small:
    """A file of this architecture with these layers."""
    tensors = shapes(ends)
    for index, text in enumerate(layers):
        tensors |= shapes(text, f"blk.{index}.")
    count = {"block_count": len(layers)}
    if "leading_dense_block_count" in keys:
        count["leading_dense_block_count"] = len(layers)
    base = {**llama(1, 4, 2, 32).keys, "attention.layer_norm_epsilon": 1e-5}
    return Small(arch, {**base, **keys, **count}, tensors, width=SIZES["C"], ffn=SIZES["F"])


def windows() -> dict[str, Small]:
    """Files with a window, which llama.cpp keeps, or replaces by its own, or does not read."""
    sinks = f"{ATTENTION}, post_attention_norm C, attn_sinks x, attn_output.bias C, {EXPERTS}"
    olmo = f"{QKVO}, attn_q_norm C, attn_k_norm K, {GATED}, {POST}"
    fused = "attn_norm C, attn_qkv C Q+2K, attn_output Q C, ffn_norm C, ffn_up C 2F, ffn_down F C"
    gemma3n = {
        **WINDOW, "attention.shared_kv_layers": 2, "embedding_length_per_layer_input": SIZES["P"],
        "altup.active_idx": 0, "altup.num_inputs": SIZES["A"],
    }  # fmt: skip
    # Not the 8,192 that llama.cpp takes, so that its own number shows.
    chunks = {**MOE, "attention.chunk_size": 1024, "interleave_moe_layer_step": 0}
    return {
        "gemma2": build("gemma2", [f"{PLAIN}, {POST}"] * 3, WINDOW, TIED),
        # llama.cpp lets all layers after the twentieth read what others keep.
        "gemma3n": build("gemma3n", [GEMMA3N] * 22, gemma3n, f"{TIED}, {STREAMS}"),
        "gpt-oss": build("gpt-oss", [sinks] * 3, {**MOE, "attention.sliding_window": 128}),
        "cohere2": build("cohere2", [f"{ATTENTION}, {GATED}"] * 5, {**WINDOW, "logit_scale": 1.0},
                         TIED),
        "olmo2": build("olmo2", [olmo] * 5, WINDOW),
        "llama4": build("llama4", [PLAIN] * 5, chunks),
        "phi3": build("phi3", [fused] * 2, WINDOW),
        "llama": build("llama", [PLAIN] * 2, WINDOW),
    }  # fmt: skip


def listed() -> dict[str, Small]:
    """Files that say of each layer whether it slides, some with other heads or widths there."""
    flags = {**WINDOW, "attention.sliding_window_pattern": [True, True, False] * 2}
    wide = (
        "attn_norm C, attn_q C P, attn_k C Q, attn_v C Q, attn_output P C, attn_q_norm 64, "
        "attn_k_norm 64"
    )
    gemma = [f"{ATTENTION}, {QK_NORM}, {FFN}, {POST}"] * 2 + [f"{wide}, {FFN}, {POST}"]
    gemma4 = {
        **flags, "attention.key_length": 64, "attention.value_length": 64,
        "attention.key_length_swa": 32, "attention.value_length_swa": 32,
        "attention.shared_kv_layers": 3, "embedding_length_per_layer_input": 0,
        "rope.dimension_count": 64, "rope.dimension_count_swa": 32,
    }  # fmt: skip
    narrow = "attn_q C Q, attn_k C d, attn_v C h, attn_output 64 C, attn_norm C"
    mimo = [f"{narrow.replace('C d', 'C K').replace('C h', 'C d')}, {FFN}"] * 2
    mimo2 = {
        **flags, **MOE, "attention.value_length": 16, "attention.head_count_kv": [2, 2, 1] * 2,
    }  # fmt: skip
    step = "attn_norm C, attn_q C P, attn_k C Q, attn_v C Q, attn_output P C"
    step35 = {
        **flags, **MOE, "attention.head_count": [8, 8, 4] * 2,
        "attention.head_count_kv": [4, 4, 2] * 2,
    }  # fmt: skip
    granite = f"{ATTENTION}, attn_sinks x, {FFN}"
    return {
        "gemma4": build("gemma4", gemma * 2, gemma4, f"{TIED}, rope_freqs d"),
        "mimo2": build("mimo2", [*mimo, f"{narrow}, {FFN}"] * 2, mimo2),
        "step35": build("step35", [f"{step}, {FFN}"] * 2 + [PLAIN, *[f"{step}, {FFN}"] * 2, PLAIN],
                        step35),
        "granite_swa": build("granite_swa", [granite] * 6, {**flags, "logit_scale": 1.0}),
    }  # fmt: skip


def states() -> dict[str, Small]:
    """Files with states: alone, beside attention in other layers, and in the same."""
    jamba = f"{MAMBA}, {MAMBA_NORMS}, {FFN}"
    granite = f"{MAMBA2}, {MAMBA2_NORM}, {FFN}"
    both = f"{MAMBA2}, {QKVO}, ffn_norm. C, {GATED}"
    nemotron = [f"{MAMBA2}, {MAMBA2_NORM}", ATTENTION, "attn_norm C, ffn_up C F, ffn_down F C"]
    mixed = [f"{KDA}, {FFN}", f"{LATENT}, attn_q C hk, {FFN}"]
    kimi = {**MLA, "kda.head_dim": 128, "ssm.conv_kernel": 4, "attention.head_count_kv": [0, 1]}
    return {
        "mamba": build("mamba", [MAMBA] * 2, STATES),
        "mamba2": build("mamba2", [f"{MAMBA2}, {MAMBA2_NORM}"] * 2, GROUPS),
        "falcon-h1": build("falcon-h1", [both] * 2, GROUPS),
        "jamba": build("jamba", [jamba, PLAIN, jamba],
                       {**STATES, **MIDDLE, "expert_count": 0, "expert_used_count": 0}),
        "granitehybrid": build("granitehybrid", [granite, PLAIN, granite], {**GROUPS, **MIDDLE}),
        "nemotron_h": build("nemotron_h", nemotron,
                            {**GROUPS, **MIDDLE, "feed_forward_length": [0, 0, 32]}),
        "lfm2": build("lfm2", [f"{SHORT}, {FFN}", f"{PLAIN}, {QK_NORM}", f"{SHORT}, {FFN}"],
                      {**MIDDLE, "shortconv.l_cache": 3}, "token_embd C V, token_embd_norm C"),
        "kimi-linear": build("kimi-linear", mixed, kimi),
    }  # fmt: skip


def others() -> dict[str, Small]:
    """Files with indexers, of every layer's own and lent; and one with layers of unlike widths."""
    lent = f"{LATENT}, {LOW_RANK}, {FFN}"
    own = f"{lent}, {INDEXER}"
    widths = [PLAIN.replace("C K", "C d"), PLAIN, PLAIN.replace("C K", "C Q")]
    heads = {
        "attention.head_count_kv": [1, 2, 4], "attention.head_count": [4, 4, 4],
        "feed_forward_length": [32, 32, 32],
    }  # fmt: skip
    return {
        "deepseek32": build("deepseek32", [own] * 2, DSA),
        "glm-dsa": build("glm-dsa", [own, lent, own],
                         {**DSA, "attention.indexer.types": [True, False, True]}),
        "deci": build("deci", widths, heads),
    }  # fmt: skip
