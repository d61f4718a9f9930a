"""transformers' latent attention layers: random weights, shrunk, run as its models run them.

`peer` computes as the library does; `exact` is the same class in float64, with the two places that
would fall back to float32 (its norms, and the softmax of its eager attention) exchanged for
PyTorch's own in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as v3
from transformers.models.deepseek_v32 import modeling_deepseek_v32 as v32
from transformers.models.glm_moe_dsa import modeling_glm_moe_dsa as glm

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "no_query_latent": {"q_lora_rank": None},
    "bias": {"attention_bias": True},
    "narrow_values": {"v_head_dim": 7, "qk_nope_head_dim": 10, "num_attention_heads": 5},
    "yarn": {
        "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 32,
            "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
            "original_max_position_embeddings": 16,
        }
    },
}  # fmt: skip
"""What is varied, on top of `SMALL`."""

SMALL: dict[str, Any] = {
    "hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 24,
    "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 14,
    "num_hidden_layers": 2, "max_position_embeddings": 640, "vocab_size": 32,
}  # fmt: skip

FAMILIES = {
    "v2": (v2.DeepseekV2Config, v2.DeepseekV2Attention, v2.DeepseekV2RotaryEmbedding),
    "v3": (v3.DeepseekV3Config, v3.DeepseekV3Attention, v3.DeepseekV3RotaryEmbedding),
    "v32": (v32.DeepseekV32Config, v32.DeepseekV32Attention, v32.DeepseekV32RotaryEmbedding),
    "glm": (glm.GlmMoeDsaConfig, glm.GlmMoeDsaAttention, glm.GlmMoeDsaRotaryEmbedding),
}


def config(family: str, **changes: Any) -> Any:
    """A config object of the family, small but for the changes."""
    given = copy.deepcopy({**SMALL, **changes})
    if "num_attention_heads" in changes:
        given["num_key_value_heads"] = changes["num_attention_heads"]
    built = FAMILIES[family][0](**given)
    built._attn_implementation = "eager"
    return built


def layer(family: str, cfg: Any = None, *, index: int = 0, seed: int = 0, **changes: Any) -> Any:
    """One attention layer with random weights, norms and biases not trivial."""
    cfg = cfg if cfg is not None else config(family, **changes)
    built = FAMILIES[family][1](cfg, index)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in built.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim == 1:
                weight.copy_(0.3 * noise + (0 if name.endswith("bias") else 1))
            else:
                # Twice the usual size: flat scores would hide errors in the scale.
                weight.copy_(2 * noise / weight.shape[1] ** 0.5)
    return built.eval()


def exact(theirs: Any) -> Any:
    """The same layer in float64 throughout."""
    wide = copy.deepcopy(theirs).double()
    for name, module in list(wide.named_modules()):
        if type(module).__name__.endswith("RMSNorm"):
            norm = nn.RMSNorm(len(module.weight), eps=module.variance_epsilon, dtype=torch.float64)
            norm.weight.data = module.weight.data
            parent = wide.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], norm)
    wide.config = copy.deepcopy(wide.config)
    wide.config._attn_implementation = "sdpa"
    return wide


def positions(cfg: Any, family: str, start: int, stop: int, dtype: torch.dtype) -> Any:
    """What the family's model hands its layers: the rotary tables."""
    rotary = FAMILIES[family][2](cfg)
    ids = torch.arange(start, stop)[None]
    if dtype != torch.float64:
        return rotary(torch.zeros(1, dtype=dtype), ids)
    angles = ids[..., None].double() * rotary.inv_freq.double()
    both = torch.cat([angles, angles], dim=-1)
    return both.cos() * rotary.attention_scaling, both.sin() * rotary.attention_scaling


def causal(queries: int, keys: int, dtype: torch.dtype) -> torch.Tensor:
    """[1, 1, T, S]: 0 in sight, the lowest number else, as transformers' masks are."""
    i, j = torch.arange(keys - queries, keys)[:, None], torch.arange(keys)
    mask = torch.zeros(queries, keys, dtype=dtype)
    return mask.masked_fill(j > i, torch.finfo(dtype).min)[None, None]


def run(
    theirs: Any, family: str, x: torch.Tensor, *, cache: DynamicCache | None = None, **more: Any
) -> Any:
    """The layer's answer to x, as a tuple: output, weights, and GLM's chosen keys."""
    past = 0 if cache is None else cache.get_seq_length(theirs.layer_idx)
    T = x.shape[1]
    return theirs(
        hidden_states=x,
        position_embeddings=positions(theirs.config, family, past, past + T, x.dtype),
        attention_mask=causal(T, past + T, x.dtype),
        cache=cache,
        **more,
    )


def inputs(cfg: Any, tokens: int, *, batch: int = 2, seed: int = 1) -> torch.Tensor:
    """Random tokens [B, T, C]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, tokens, cfg.hidden_size, generator=generator)


INDEX = {"index_topk": 5, "index_n_heads": 8, "index_head_dim": 14}
"""The indexers that tests of sparse layers have."""


def sparse(family: str, **changes: Any) -> Any:
    """A sparse layer with random weights."""
    return layer(family, **{**INDEX, **changes})


@contextmanager
def choices(theirs: Any) -> Iterator[list[torch.Tensor]]:
    """What the layer's indexer chooses while it runs, call by call."""
    made: list[torch.Tensor] = []
    hook = theirs.indexer.register_forward_hook(lambda *call: made.append(call[2].long()))
    yield made
    hook.remove()


def seen_by(indices: torch.Tensor, keys: int) -> torch.Tensor:
    """Their choice as a mask, without the keys behind the query that it may hold."""
    T = indices.shape[1]
    causal = torch.ones(T, keys, dtype=torch.bool).tril(keys - T)
    return torch.zeros(*indices.shape[:2], keys).scatter(-1, indices, 1.0).bool() & causal
