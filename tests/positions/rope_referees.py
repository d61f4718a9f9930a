"""transformers' own rotary embeddings, and rotation written out number by number."""

from __future__ import annotations

import copy
import importlib
import math
from typing import Any

import torch
from transformers import CONFIG_MAPPING


def their_config(config: dict[str, Any]) -> Any:
    """The config class's own reading of a config.json, of which it may change the lists."""
    text = copy.deepcopy(config.get("text_config", config))
    family = text.pop("model_type")
    return CONFIG_MAPPING[family](**text)


def their_embedding(config: dict[str, Any]) -> torch.nn.Module:
    """The rotary embedding of a config's model, built by transformers."""
    made = their_config(config)
    name = type(made).__module__.replace("configuration_", "modeling_")
    module = importlib.import_module(name)
    (cls,) = [
        value
        for key, value in vars(module).items()
        if key.endswith("RotaryEmbedding") and not any(w in key for w in ("Vision", "Audio"))
    ]
    return cls(made)


def their_tables(
    config: dict[str, Any], positions: torch.Tensor, layer_type: str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of transformers for positions [T], one column per pair."""
    embedding = their_embedding(config)
    named = {} if layer_type is None else {"layer_type": layer_type}
    given = embedding(torch.zeros(1), positions[None], **named)
    if isinstance(given, torch.Tensor):  # DeepSeek-V2 has complex numbers
        given = (given.real, given.imag)
    cos, sin = (table[0] for table in given)
    rotary = 2 * their_pairs(embedding, layer_type)
    return cos[:, : rotary // 2], sin[:, : rotary // 2]


def their_pairs(embedding: torch.nn.Module, layer_type: str | None) -> int:
    name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
    return getattr(embedding, name).shape[0]


def by_hand(
    x: torch.Tensor,
    angles: torch.Tensor,
    *,
    interleaved: bool = False,
    trailing: bool = False,
    factor: float = 1.0,
) -> torch.Tensor:
    """x [B, H, T, D] with pairs turned by angles [T, r/2], in Python's own float64."""
    width, pairs = x.shape[-1], angles.shape[-1]
    begin = width - 2 * pairs if trailing else 0
    y = x.double().clone()
    for t in range(x.shape[2]):
        for m in range(pairs):
            one = begin + (2 * m if interleaved else m)
            two = one + (1 if interleaved else pairs)
            c, s = (factor * f(float(angles[t, m])) for f in (math.cos, math.sin))
            a, b = x[:, :, t, one].double(), x[:, :, t, two].double()
            y[:, :, t, one], y[:, :, t, two] = a * c - b * s, b * c + a * s
    return y
