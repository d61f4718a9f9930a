"""transformers' DeepseekV4Attention with random weights, shrunk, and run as its model runs it.

`exact` is the same class in float64. What in it falls back to float32 is exchanged: the norms, the
rotation, and the library's own word `torch.float32`, which it gives to its gates' softmax.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as v4
from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config

SLIDING, CSA, HCA = v4.COMPRESSOR_CLASSES
KINDS = (SLIDING, CSA, HCA)
SMALL: dict[str, Any] = {
    "hidden_size": 40, "num_attention_heads": 4, "head_dim": 16, "qk_rope_head_dim": 8,
    "q_lora_rank": 24, "o_groups": 2, "o_lora_rank": 6, "sliding_window": 5, "index_n_heads": 8,
    "index_head_dim": 12, "index_topk": 3, "num_hidden_layers": 3, "layer_types": list(KINDS),
    "compress_rates": {CSA: 3, HCA: 4}, "max_position_embeddings": 640, "vocab_size": 32,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "beta_fast": 32, "beta_slow": 1,
    "original_max_position_embeddings": 32,
}  # fmt: skip


def config(**changes: Any) -> Any:
    """A config object, small but for the changes."""
    built = DeepseekV4Config(**copy.deepcopy({**SMALL, **changes}))
    built._attn_implementation = "eager"
    return built


def layer(kind: str, *, seed: int = 0, **changes: Any) -> Any:
    """One attention layer of a kind with random weights, norms, biases and sinks not trivial."""
    built = v4.DeepseekV4Attention(config(**changes), KINDS.index(kind))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in built.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim == 1:
                weight.copy_(0.3 * noise + (0 if name == "sinks" else 1))
            elif name.endswith("position_bias"):
                weight.copy_(noise)
            else:
                # Twice the usual size: flat scores would hide errors in the scale.
                weight.copy_(2 * noise / weight.shape[1] ** 0.5)
    return built.eval()


class _WideNorm(nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.rms_norm(x, x.shape[-1:], eps=self.eps)


def exact(theirs: Any) -> Any:
    """The same layer in float64, to be run inside `wide`."""
    other = copy.deepcopy(theirs).double()
    for name, module in list(other.named_modules()):
        if isinstance(module, v4.DeepseekV4RMSNorm):
            norm: nn.Module = nn.RMSNorm(
                len(module.weight), eps=module.variance_epsilon, dtype=torch.float64
            )
            norm.weight.data = module.weight.data  # type: ignore[union-attr]
        elif isinstance(module, v4.DeepseekV4UnweightedRMSNorm):
            norm = _WideNorm(module.eps)
        else:
            continue
        setattr(other.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], norm)
    return other


class _Wide:
    """The torch module, but for its names of float32."""

    float32 = float = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@contextmanager
def wide() -> Iterator[None]:
    """While it lasts, transformers' module computes gates, angles and rotations in float64."""

    def rotated(x: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> torch.Tensor:
        cos, sin = (t.repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim) for t in (cos, sin))
        plain, turned = x[..., : -cos.shape[-1]], x[..., -cos.shape[-1] :]
        return torch.cat([plain, turned * cos + v4.rotate_half(turned) * sin], dim=-1)

    kept = v4.apply_rotary_pos_emb
    v4.apply_rotary_pos_emb, v4.torch = rotated, _Wide()
    try:
        yield
    finally:
        v4.apply_rotary_pos_emb, v4.torch = kept, torch


def run(theirs: Any, x: torch.Tensor, *, cache: DynamicCache | None = None) -> Any:
    """The layer's output and weights for the tokens x that follow those in the cache."""
    cfg, T = theirs.config, x.shape[1]
    past = 0 if cache is None else cache.get_seq_length(theirs.layer_idx)
    held = 0 if cache is None else min(past, cfg.sliding_window - 1)
    ids = torch.arange(past, past + T)[None].expand(len(x), -1)
    rotary = v4.DeepseekV4RotaryEmbedding(cfg)
    i, j = torch.arange(past, past + T)[:, None], torch.arange(past - held, past + T)
    hidden = (j > i) | (i - j >= cfg.sliding_window)
    mask = torch.zeros(hidden.shape, dtype=x.dtype).masked_fill(hidden, torch.finfo(x.dtype).min)
    return theirs(
        hidden_states=x,
        position_embeddings={label: rotary(x, ids, label) for label in ("main", "compress")},
        position_ids=ids,
        attention_mask=mask[None, None].expand(len(x), -1, -1, -1),
        cache=cache,
    )


def run_exact(theirs: Any, x: torch.Tensor) -> torch.Tensor:
    """The layer's output in float64."""
    with wide():
        return run(exact(theirs), x.double())[0]


def inputs(tokens: int, *, batch: int = 2, seed: int = 1) -> torch.Tensor:
    """Random tokens [B, T, C]."""
    return torch.randn(batch, tokens, 40, generator=torch.Generator().manual_seed(seed))


@contextmanager
def choices(theirs: Any) -> Iterator[list[torch.Tensor]]:
    """What the layer's indexer chooses while it runs, call by call; empty without one."""
    made: list[torch.Tensor] = []
    indexer = getattr(theirs.compressor, "indexer", None)
    if indexer is None:
        yield made
        return
    hook = indexer.register_forward_hook(lambda *call: made.append(call[2]))
    yield made
    hook.remove()
