"""What a decoder needs of a config.json, checked: which family, how large, which variant.

The idea: everything that changes a number is either known here or refused, so that a config that
names what the decoder has not got never gives plausible nonsense.

Not here: attention's own part, which its mechanism reads; reading the file (decoder_files.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn import functional

from attnscope.core.model_fields import Families, ModelFields
from attnscope.errors import ConfigError, UnsupportedModelError

FAMILIES: Final[Families] = {
    "llama": {
        "num_key_value_heads": None, "head_dim": None, "hidden_act": "silu", "mlp_bias": False,
        "tie_word_embeddings": False,
    },
    "qwen3": {"hidden_act": "silu", "tie_word_embeddings": False},
    "gemma3_text": {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True},
}  # fmt: skip
"""What is served, and what a config.json may leave out, as the family's own class fills it in."""
ACTIVATIONS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": functools.partial(functional.gelu, approximate="tanh"),
}


@dataclass(frozen=True)
class Config:
    """What the decoder needs of a config.json; the layers' attention reads its own part.

    Attributes:
        family: a key of `FAMILIES`.
        architecture: the class that the config names.
        layers, width, inner, vocabulary: L, C, the MLP's width, V.
        eps: of the norms.
        activation: f, a key of `ACTIVATIONS`.
        tied: whether the head is the embedding.
        mlp_bias: whether the MLP's products have one.
        context: the most tokens the model was made for, or None.
        softcap: c of c * tanh(logits / c), or None.
        ends: ids that end a text.
        fields: the (text) config itself.
    """

    family: str
    architecture: str
    layers: int
    width: int
    inner: int
    vocabulary: int
    eps: float
    activation: str
    tied: bool
    mlp_bias: bool
    context: int | None
    softcap: float | None
    ends: tuple[int, ...]
    fields: Mapping[str, Any]

    @property
    def gemma(self) -> bool:
        """Whether norms are 1 + w and stand on both sides, and embeddings are scaled."""
        return self.family == "gemma3_text"

    @classmethod
    def read(cls, config: Mapping[str, Any], *, ends: Sequence[int] = ()) -> Config:
        """Check a config.json.

        Args:
            config: as json gives it; of one with several parts, the text part counts.
            ends: ids that end a text.

        Raises:
            UnsupportedModelError: a family that is not served, or a variant of one.
            ConfigError: a field is missing or of the wrong kind.
        """
        text = config.get("text_config", config)
        family = text.get("model_type", config.get("model_type"))
        if family not in FAMILIES:
            raise UnsupportedModelError(
                f"The decoder cannot run models of type {family!r}; it runs llama, qwen3 and "
                "gemma3 (gemma3_text)."
            )
        fields = ModelFields(config, families=FAMILIES, reader="the decoder")
        for name in ("quantization_config", "use_bidirectional_attention"):
            if config.get(name) or fields.get(name):
                raise UnsupportedModelError(f"The decoder cannot run a model with a {name}.")
        if fields.get("attn_logit_softcapping"):  # transformers reads it and does nothing with it
            raise UnsupportedModelError("The decoder knows no attn_logit_softcapping for gemma3.")
        activation = fields["hidden_activation" if family == "gemma3_text" else "hidden_act"]
        if activation not in ACTIVATIONS:
            raise UnsupportedModelError(
                f"The decoder has no activation {activation!r}; it has {', '.join(ACTIVATIONS)}."
            )
        eps, softcap = fields["rms_norm_eps"], fields.get("final_logit_softcapping")
        for name, value in (("rms_norm_eps", eps), ("final_logit_softcapping", softcap)):
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise ConfigError(f"{family}: {name}: expected a positive number, got {value!r}.")
        context = fields.get("max_position_embeddings")
        return cls(
            family=family,
            architecture=str((config.get("architectures") or [family])[0]),
            layers=fields.count("num_hidden_layers"),
            width=fields.count("hidden_size"),
            inner=fields.count("intermediate_size"),
            vocabulary=fields.count("vocab_size"),
            eps=float(eps),
            activation=activation,
            tied=bool(config.get("tie_word_embeddings", fields["tie_word_embeddings"])),
            mlp_bias=bool(fields.get("mlp_bias", False)),
            context=None if context is None else fields.count("max_position_embeddings"),
            softcap=softcap,
            ends=tuple(ends),
            fields=fields.values,
        )
