"""Small models with a tokenizer of bytes, as folders that `attnscope generate` can run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from attnscope.capture.pieces import byte_alphabet

END = "<|end|>"
WORDS = [END, "<|user|>", "<|answer|>", *byte_alphabet()]
TEMPLATE = "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}<|answer|>"
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS), "hidden_size": 32, "intermediate_size": 64, "head_dim": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
    "max_position_embeddings": 96, "bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {}),
    "gemma3": (
        Gemma3TextConfig, Gemma3ForCausalLM,
        {"sliding_window": 8, "query_pre_attn_scalar": 8,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
}  # fmt: skip


def tokenizer_of_bytes(*, template: str | None = None) -> Any:
    """Every byte is a token, so that each Chinese character is cut into three."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([END, "<|user|>", "<|answer|>"])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, chat_template=template)


def write_model(folder: Path, family: str, *, template: str | None = None) -> Path:
    """A random model of a family with its tokenizer."""
    config_class, model_class, given = KINDS[family]
    torch.manual_seed(1)
    model = model_class(config_class(**{**SIZES, **given})).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                size = 1.5 if "self_attn" in name else 1.0
                weight.copy_(torch.randn_like(weight) * size * weight.shape[1] ** -0.5)
    model.save_pretrained(folder)
    tokenizer_of_bytes(template=template).save_pretrained(folder)
    return folder
