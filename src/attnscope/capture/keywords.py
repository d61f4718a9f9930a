"""What the keywords mean that models of transformers hand to their attention function.

The idea: a keyword that changes the result and is not understood would make every number wrong
without a sign. So each one either has a meaning here, or is known to change nothing, or is refused
with the model's name.

Not here: the mask, which is an argument of its own (compact.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch

from attnscope.errors import UnsupportedModelError

HARMLESS: Final = frozenset(
    {
        # said for other kernels, or already part of the mask, the queries or the keys
        "position_ids",
        "cache_position",
        "position_embeddings",
        "cache",
        "past_key_value",
        "past_key_values",
        "use_cache",
        "deterministic",
        # about what the model returns
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "num_items_in_batch",
        "labels",
        "logits_to_keep",
        # which layer or kernel is meant
        "layer_idx",
        "layer_type",
        "target_dtype",
    }
)
"""Keywords that change nothing about this call's weights."""

REFUSED_IF_SET: Final = frozenset(
    {
        "cu_seq_lens_q",
        "cu_seq_lens_k",
        "max_length_q",
        "max_length_k",
        "head_mask",
        "block_indices",
        "encoder_hidden_states",
        "encoder_attention_mask",
    }
)
"""Keywords that change the result of some kernels or layers; None is harmless."""


@dataclass(frozen=True)
class Meaning:
    """The keywords of one call, read.

    Attributes:
        scale: what q.k is multiplied by; None for 1 / sqrt(D).
        causal: whether a missing mask means causal.
        window: the sliding window that the model names, its own convention of "at most so many".
        softcap: c of c * tanh(s / c), or None.
        sinks: learned logits [H], or None.
        bias: added to the scores, [B or 1, H or 1, T or 1, S], or None.
        indices: the keys that each query may see, integer [B, T, n], or None.
    """

    scale: float | None
    causal: bool
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    indices: torch.Tensor | None = None


def read_keywords(module: torch.nn.Module, model: str, keywords: dict[str, Any]) -> Meaning:
    """Give every keyword its meaning.

    Args:
        module: the attention module that makes the call.
        model: the model's name, for messages.

    Raises:
        UnsupportedModelError: a keyword that is not known, or a value that has no meaning here.
    """
    rest = {name: value for name, value in keywords.items() if name not in HARMLESS}
    take = rest.pop
    dropout = take("dropout", 0.0)
    if dropout:
        raise UnsupportedModelError(
            f"{model}: dropout {dropout} is on, so its attention is random; "
            "call model.eval() first."
        )
    causal = take("is_causal", None)
    if causal is None:
        causal = getattr(module, "is_causal", True)
    sinks = [take("s_aux", None), take("sinks", None)]
    meaning = Meaning(
        scale=take("scaling", None),
        causal=bool(causal),
        window=take("sliding_window", None),
        softcap=take("softcap", None),
        sinks=_sinks(next((s for s in sinks if s is not None), None), model),
        bias=take("position_bias", None),
        indices=take("indices", None),
    )
    for name, value in rest.items():
        if name in REFUSED_IF_SET and value is None:
            continue
        raise UnsupportedModelError(
            f"{model}: its attention takes the keyword {name!r}, whose meaning is not known here; "
            "its weights cannot be computed exactly, so they are not computed."
        )
    return meaning


def _sinks(sinks: Any, model: str) -> torch.Tensor | None:
    if sinks is None:
        return None
    if not isinstance(sinks, torch.Tensor) or sinks.ndim != 1:
        came = list(sinks.shape) if isinstance(sinks, torch.Tensor) else type(sinks).__name__
        raise UnsupportedModelError(
            f"{model}: expected one learned sink logit per query head, got {came}; a sink that "
            "changes with the query is not supported."
        )
    return sinks
