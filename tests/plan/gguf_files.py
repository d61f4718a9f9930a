"""Write small GGUF files with the sizes of real caches: real KV widths, everything else tiny.

Keys and tensors are written with the gguf package, so what is read back was not written by us.

Not here: the tests that read them (test_plan_gguf.py) and run them (test_plan_llamacpp.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

WORDS = 32


@dataclass(frozen=True)
class Small:
    """One file: its architecture, its keys (without the architecture's name), and its tensors."""

    arch: str
    keys: dict[str, Any]
    tensors: dict[str, tuple[int, ...]]
    width: int = 64
    ffn: int = 32


def write(path: Path, small: Small, *, tensors: bool = True) -> Path:
    """Write the file; without `tensors`, its header alone."""
    writer = gguf.GGUFWriter(str(path), small.arch)
    writer.add_string("tokenizer.ggml.model", "none")
    keys = {"embedding_length": small.width, "feed_forward_length": small.ffn,
            "context_length": 131072, "vocab_size": WORDS, **small.keys}  # fmt: skip
    for key, value in keys.items():
        name = f"{small.arch}.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_array(name, value)
    if tensors:
        for name, shape in small.tensors.items():
            # gguf writes numpy's shape backwards: the first axis is the last of the file's.
            writer.add_tensor(name, np.zeros(shape[::-1], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _block(index: int, small_width: int, ffn: int, heads: int, kv: int, d: int) -> dict[str, Any]:
    at = f"blk.{index}."
    return {
        at + "attn_norm.weight": (small_width,),
        at + "attn_q.weight": (small_width, heads * d),
        at + "attn_k.weight": (small_width, kv * d),
        at + "attn_v.weight": (small_width, kv * d),
        at + "attn_output.weight": (heads * d, small_width),
        at + "ffn_norm.weight": (small_width,),
        at + "ffn_gate.weight": (small_width, ffn),
        at + "ffn_up.weight": (small_width, ffn),
        at + "ffn_down.weight": (ffn, small_width),
    }


def _ends(width: int) -> dict[str, tuple[int, ...]]:
    return {
        "token_embd.weight": (width, WORDS),
        "output_norm.weight": (width,),
        "output.weight": (width, WORDS),
    }


def llama(layers: int, heads: int, kv: int, d: int) -> Small:
    """Ordinary grouped heads."""
    keys = {
        "block_count": layers, "attention.head_count": heads, "attention.head_count_kv": kv,
        "attention.key_length": d, "attention.value_length": d,
        "attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": d,
    }  # fmt: skip
    tensors = _ends(64)
    for index in range(layers):
        tensors.update(_block(index, 64, 32, heads, kv, d))
    return Small("llama", keys, tensors)


def gemma3(layers: int, heads: int, kv: int, d: int, window: int) -> Small:
    """Five sliding layers to a full one, by the reader's own rule."""
    base = llama(layers, heads, kv, d)
    keys = {**base.keys, "attention.sliding_window": window}
    tensors = {name: shape for name, shape in base.tensors.items() if name != "output.weight"}
    for index in range(layers):
        at = f"blk.{index}."
        tensors[at + "attn_q_norm.weight"] = (d,)
        tensors[at + "attn_k_norm.weight"] = (d,)
        tensors[at + "post_attention_norm.weight"] = (64,)
        tensors[at + "post_ffw_norm.weight"] = (64,)
    return Small("gemma3", keys, tensors)


def deepseek2(layers: int, heads: int, *, latents: bool) -> Small:
    """MLA of rank 512 and rope 64: as latents, or as an old file with keys and values per head."""
    rank, rope, nope, v = 512, 64, 128, 128
    keys = {
        "block_count": layers, "attention.head_count": heads,
        "attention.head_count_kv": 1 if latents else heads,
        "attention.kv_lora_rank": rank, "attention.q_lora_rank": 64, "rope.dimension_count": rope,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "leading_dense_block_count": layers, "expert_feed_forward_length": 32,
        "expert_count": 2, "expert_used_count": 1, "expert_shared_count": 1,
        "expert_weights_scale": 1.0, "expert_gating_func": 1,
        "rope.scaling.yarn_log_multiplier": 0.1,
        "attention.key_length": rank + rope if latents else nope + rope,
        "attention.value_length": rank if latents else v,
    }  # fmt: skip
    if latents:
        keys |= {"attention.key_length_mla": nope + rope, "attention.value_length_mla": v}
    tensors = _ends(64)
    for index in range(layers):
        at = f"blk.{index}."
        tensors |= {
            at + "attn_norm.weight": (64,),
            at + "attn_kv_a_norm.weight": (rank,),
            at + "attn_q_a.weight": (64, 64),
            at + "attn_q_a_norm.weight": (64,),
            at + "attn_q_b.weight": (64, heads * (nope + rope)),
            at + "attn_kv_a_mqa.weight": (64, rank + rope),
            at + "attn_output.weight": (heads * v, 64),
            at + "ffn_norm.weight": (64,),
            at + "ffn_gate.weight": (64, 32),
            at + "ffn_up.weight": (64, 32),
            at + "ffn_down.weight": (32, 64),
        }
        if latents:
            tensors[at + "attn_k_b.weight"] = (nope, rank, heads)
            tensors[at + "attn_v_b.weight"] = (rank, v, heads)
        else:
            tensors[at + "attn_kv_b.weight"] = (rank, heads * (nope + v))
    return Small("deepseek2", keys, tensors)


def qwen35(layers: int, heads: int, kv: int, d: int) -> Small:
    """Gated DeltaNet in three of four layers (16 key heads, 48 value heads, width 128)."""
    keys_heads, value_heads, state, taps = 16, 48, 128, 4
    inner = value_heads * state
    base = llama(layers, heads, kv, d)
    keys = {
        **base.keys, "ssm.conv_kernel": taps, "ssm.inner_size": inner, "ssm.state_size": state,
        "ssm.time_step_rank": value_heads, "ssm.group_count": keys_heads,
        "rope.dimension_count": d // 4, "rope.dimension_sections": [11, 11, 10, 0],
        "full_attention_interval": 4,
    }  # fmt: skip
    channels = inner + 2 * keys_heads * state
    tensors = _ends(64)
    for index in range(layers):
        at = f"blk.{index}."
        full = _block(index, 64, 32, heads, kv, d)
        common = {k: s for k, s in full.items() if "ffn_g" in k or "ffn_u" in k or "ffn_d" in k}
        common |= {at + "attn_norm.weight": (64,), at + "post_attention_norm.weight": (64,)}
        if (index + 1) % 4 == 0:
            common |= {
                at + "attn_q.weight": (64, 2 * heads * d), at + "attn_k.weight": (64, kv * d),
                at + "attn_v.weight": (64, kv * d), at + "attn_output.weight": (heads * d, 64),
                at + "attn_q_norm.weight": (d,), at + "attn_k_norm.weight": (d,),
            }  # fmt: skip
        else:
            common |= {
                at + "attn_qkv.weight": (64, channels), at + "attn_gate.weight": (64, inner),
                at + "ssm_conv1d.weight": (taps, channels), at + "ssm_dt.bias": (value_heads,),
                at + "ssm_a": (value_heads,), at + "ssm_beta.weight": (64, value_heads),
                at + "ssm_alpha.weight": (64, value_heads), at + "ssm_norm.weight": (state,),
                at + "ssm_out.weight": (inner, 64),
            }  # fmt: skip
        tensors |= common
    return Small("qwen35", keys, tensors)
