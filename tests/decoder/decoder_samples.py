"""Small random models of the three families, written by transformers itself, and its own answers.

Nothing here is under test: `Peer` is the referee. It runs the model in its own dtype, and once more
in float64 for the oracle; its norms, softmax and rotations narrow to float32 there, so `InFloat64`
widens every such cast.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
"""Odd enough that no width is another one's: 6 heads of 16 or 12 do not make 48 or 80."""

DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "factor": 4.0,
    "original_max_position_embeddings": 16, "short_factor": [1.0 + n / 10 for n in range(8)],
    "long_factor": [2.0 + n for n in range(8)],
}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
GEMMA_ROPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
GELU = "gelu_pytorch_tanh"

VARIANTS: dict[str, tuple[type[Any], type[Any], dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"num_hidden_layers": 3, "head_dim": 16}),
    "llama-tied": (
        LlamaConfig, LlamaForCausalLM,
        {"num_hidden_layers": 2, "tie_word_embeddings": True, "rope_parameters": LLAMA3},
    ),
    "llama-biases": (
        LlamaConfig, LlamaForCausalLM,
        {"num_hidden_layers": 2, "attention_bias": True, "mlp_bias": True, "rms_norm_eps": 1e-3,
         "rope_parameters": YARN, "num_key_value_heads": 1},
    ),
    "llama-heads": (
        LlamaConfig, LlamaForCausalLM,
        {"num_hidden_layers": 2, "num_key_value_heads": 6, "hidden_act": "gelu",
         "rope_parameters": LINEAR},
    ),
    "llama-dynamic": (
        LlamaConfig, LlamaForCausalLM,
        {"num_hidden_layers": 2, "rope_parameters": DYNAMIC, "max_position_embeddings": 15},
    ),
    "qwen3": (
        Qwen3Config, Qwen3ForCausalLM,
        {"num_hidden_layers": 3, "head_dim": 16, "rope_parameters": DEFAULT},
    ),
    "qwen3-tied": (
        Qwen3Config, Qwen3ForCausalLM,
        {"num_hidden_layers": 2, "head_dim": 24, "tie_word_embeddings": True,
         "attention_bias": True, "rope_parameters": YARN},
    ),
    "qwen3-longrope": (
        Qwen3Config, Qwen3ForCausalLM,
        {"num_hidden_layers": 2, "head_dim": 16, "rope_parameters": LONGROPE},
    ),
    "gemma3": (
        Gemma3TextConfig, Gemma3ForCausalLM,
        {"num_hidden_layers": 7, "head_dim": 16, "sliding_window": 8, "num_key_value_heads": 1,
         "query_pre_attn_scalar": 20, "rope_parameters": GEMMA_ROPE},
    ),
    "gemma3-untied": (
        Gemma3TextConfig, Gemma3ForCausalLM,
        {"num_hidden_layers": 3, "head_dim": 12, "sliding_window": 5, "attention_bias": True,
         "tie_word_embeddings": False, "final_logit_softcapping": 3.0,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
}  # fmt: skip
"""By name: config class, model class, and what differs from SIZES."""

BY_LENGTH = {"llama-dynamic", "qwen3-longrope"}
"""Rotations that depend on how long the text is so far: keys in a cache keep those of their time,
so that a text in chunks has other logits than in one call."""


def small_config(variant: str, **changed: Any) -> Any:
    """The config of a variant, as transformers has it."""
    kind, _, given = VARIANTS[variant]
    return kind(**{**copy.deepcopy(SIZES), **copy.deepcopy(given), **changed})


def build(variant: str, *, seed: int = 0, **changed: Any) -> Any:
    """A random model; every matrix so large that what it does shows in the logits."""
    config = small_config(variant, **changed)
    config._attn_implementation = "sdpa"
    model = VARIANTS[variant][1](config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim == 1:
                weight.copy_(noise * 0.2 + (0.0 if "bias" in name or "gemma" in variant else 1.0))
            else:
                weight.copy_(noise * 1.5 * weight.shape[1] ** -0.5)
    return model


def write(folder: Path, variant: str, **changed: Any) -> Path:
    """A model's folder, as transformers writes it."""
    build(variant, **changed).save_pretrained(folder)
    return folder


def config_of(folder: Path) -> dict[str, Any]:
    """The config.json of a folder."""
    loaded: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    return loaded


def change_config(folder: Path, **fields: Any) -> None:
    """Write other fields into a config.json; `...` takes one out."""
    config = config_of(folder) | fields
    kept = {name: value for name, value in config.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(kept), "utf-8")


class InFloat64(TorchFunctionMode):
    """Whatever asks for float32 gets float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        def wide(x: Any) -> Any:
            return torch.float64 if x is torch.float32 else x

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(wide, args), **{n: wide(x) for n, x in (kwargs or {}).items()})


class Peer:
    """transformers' model of a folder, in a dtype and in float64."""

    def __init__(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa"
        ).eval()
        self._wide: Any = None

    @property
    def wide(self) -> Any:
        """The same weights in float64, with eager attention."""
        if self._wide is None:
            self._wide = copy.deepcopy(self.model).double()
            self._wide.set_attn_implementation("eager")
        return self._wide

    @torch.no_grad()
    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """In one call, [B, T, V]."""
        found: torch.Tensor = self.model(input_ids=ids, use_cache=False).logits
        return found

    @torch.no_grad()
    def oracle(self, ids: torch.Tensor, chunks: list[int] | None = None) -> torch.Tensor:
        """The same in float64; through a cache where chunks are given."""
        with InFloat64():
            if chunks is None:
                found: torch.Tensor = self.wide(input_ids=ids, use_cache=False).logits
            else:
                found = self._in_chunks(self.wide, ids, chunks)
        assert found.dtype == torch.float64
        return found

    @torch.no_grad()
    def stepped(self, ids: torch.Tensor, chunks: list[int]) -> torch.Tensor:
        """The logits of `ids`, given in chunks through a cache."""
        return self._in_chunks(self.model, ids, chunks)

    def _in_chunks(self, model: Any, ids: torch.Tensor, chunks: list[int]) -> torch.Tensor:
        cache = DynamicCache(config=self.model.config)
        parts = [
            model(input_ids=part, cache=cache, use_cache=True).logits
            for part in ids.split(chunks, dim=1)
        ]
        return torch.cat(parts, dim=1)

    def greedy(self, ids: torch.Tensor, tokens: int) -> list[int]:
        """What `generate` says follows, without stopping at an end."""
        found = self.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
            min_new_tokens=tokens,
        )  # fmt: skip
        follows: list[int] = found[0, ids.shape[1] :].tolist()
        return follows


def sample_ids(count: int, *, batch: int = 1, seed: int = 3) -> torch.Tensor:
    """Ids that every small vocabulary has, none of which ends a text."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, 97, (batch, count), generator=generator)
