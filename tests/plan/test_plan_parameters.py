"""Parameters of every counted family, against the model that transformers builds from the config.

The sizes are small and all different, so that a factor in the wrong place, a sum for a product or a
term left out changes the number; the model stands on the meta device, and nothing is computed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from attnscope.plan import from_config
from attnscope.plan.weights import LATENT, LLAMA_LIKE, count

EXPERTS, CHOSEN = 7, 3
BASE: dict[str, Any] = {
    "hidden_size": 48, "num_hidden_layers": 5, "num_attention_heads": 6, "num_key_value_heads": 3,
    "head_dim": 10, "intermediate_size": 70, "vocab_size": 101, "tie_word_embeddings": False,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
CHOICE = {"num_experts_per_tok": CHOSEN, "moe_intermediate_size": 22}
ROUTED = {"n_routed_experts": EXPERTS, "n_shared_experts": 2, "first_k_dense_replace": 2,
          "n_group": 1, "topk_group": 1, **CHOICE}  # fmt: skip
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
         "linear_value_head_dim": 12, "linear_conv_kernel_dim": 3}  # fmt: skip
MLA = {"head_dim": None, "num_key_value_heads": 6, "kv_lora_rank": 13, "q_lora_rank": 17,
       "qk_rope_head_dim": 4, "qk_nope_head_dim": 7, "v_head_dim": 9, **ROUTED}  # fmt: skip
INDEXED = {**MLA, "index_n_heads": 5, "index_head_dim": 8, "index_topk": 6}
OWN: dict[str, dict[str, Any]] = {
    "qwen3_moe": {"num_experts": EXPERTS, **CHOICE},
    "qwen3_next": {"num_experts": EXPERTS, **CHOICE, **DELTA,
                   "shared_expert_intermediate_size": 26},
    "qwen3_5_text": DELTA,
    "mixtral": {"num_local_experts": EXPERTS, "num_experts_per_tok": CHOSEN},
    "gpt_oss": {"num_local_experts": EXPERTS, "num_experts_per_tok": CHOSEN},
    "glm4_moe": ROUTED,
    "deepseek_v2": MLA, "deepseek_v3": MLA, "deepseek_v32": INDEXED, "glm_moe_dsa": INDEXED,
}  # fmt: skip
FOREIGN = ("kimi_k2",)
"""Counted, but of a type that the library has not."""
COUNTED = sorted({*LLAMA_LIKE, *LATENT} - {*FOREIGN})

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((family, {"attention_bias": True})
      for family in ("llama", "qwen3", "qwen3_moe", "glm4_moe")),
    ("glm4_moe", {"use_qk_norm": True}),
    *((family, changed) for family in ("qwen3_moe", "qwen3_next")
      for changed in ({"decoder_sparse_step": 2}, {"mlp_only_layers": [0, 3]})),
    ("glm4_moe", {"first_k_dense_replace": 0, "n_shared_experts": 0}),
    ("deepseek_v2", {"q_lora_rank": None}),
    ("deepseek_v3", {"q_lora_rank": None}),
    ("deepseek_v3", {"first_k_dense_replace": 5}),
    ("deepseek_v32", {"first_k_dense_replace": 0, "n_shared_experts": 0}),
    ("glm_moe_dsa", {"indexer_types": ["full", "shared", "shared", "full", "shared"]}),
]  # fmt: skip


def config_of(family: str, **changed: Any) -> dict[str, Any]:
    fields = {**BASE, "model_type": family, **OWN.get(family, {}), **changed}
    return {name: value for name, value in fields.items() if value is not None or name in changed}


@cache
def _config_class(family: str) -> Any:
    return type(transformers.AutoConfig.for_model(family))


def built(fields: dict[str, Any]) -> tuple[int, int]:
    """Parameters of the library's own model, and those of all but the experts not chosen."""
    fields = dict(fields)
    config = _config_class(fields.pop("model_type"))(**fields)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    total = sum(one.numel() for one in model.parameters())
    # The bias that balances experts is a buffer there, and stands in the checkpoint's files.
    total += sum(b.numel() for n, b in model.named_buffers() if "e_score_correction" in n)
    of_experts = [one for name, one in model.named_parameters() if ".experts." in name]
    assert all(one.shape[0] == EXPERTS for one in of_experts)  # each holds a slice for each expert
    idle = sum(one.numel() // EXPERTS for one in of_experts) * (EXPERTS - CHOSEN)
    return total, total - idle


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", COUNTED)
def test_every_counted_family_has_the_built_models_parameters(family: str, tied: bool) -> None:
    fields = config_of(family, tie_word_embeddings=tied)
    assert count(from_config(fields)) == built(fields)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("family", "changed"), SETTINGS)
def test_settings_that_change_what_a_layer_has(family: str, changed: dict[str, Any]) -> None:
    fields = config_of(family, **changed)
    found = built(fields)
    assert count(from_config(fields)) == found
    assert found != built(config_of(family))  # so each setting does change something


@pytest.mark.parametrize("family", COUNTED)
def test_embeddings_are_tied_where_the_library_ties_them(family: str) -> None:
    fields = config_of(family)
    fields.pop("tie_word_embeddings")
    assert count(from_config(fields)) == built(fields)


@pytest.mark.parametrize(
    ("family", "field"),
    [("llama", "mlp_bias"), ("smollm3", "attention_bias"), ("deepseek_v3", "attention_bias"),
     ("qwen3_next", "attention_bias")],
)  # fmt: skip
def test_biases_that_are_not_counted_leave_the_weights_unknown(family: str, field: str) -> None:
    fields = config_of(family)
    with_bias = {**fields, field: True}
    assert built(with_bias) != built(fields) == count(from_config(fields))
    assert count(from_config(with_bias)) is None
