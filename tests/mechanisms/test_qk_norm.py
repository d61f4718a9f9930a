"""QK-norm: Qwen3's layer against transformers', and the bound that no score passes."""

from __future__ import annotations

import pytest
import torch
from head_referees import Peer, judge_cached, judge_forward, judge_gradients, real_config
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RotaryEmbedding

from attnscope.mechanisms.qk_norm import QKNormAttention


def peer(*, dtype: torch.dtype = torch.float32, **changed) -> Peer:  # type: ignore[no-untyped-def]
    sizes = {
        "hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16,
        "rope_theta": 1e4, "num_hidden_layers": 2,
    }  # fmt: skip
    config = Qwen3Config(**(sizes | changed))
    return Peer(Qwen3Attention, Qwen3RotaryEmbedding, config, dtype=dtype)


@pytest.mark.parametrize("tokens", [1, 2, 37, 131])
def test_the_output_is_that_of_qwen3(tokens: int) -> None:
    theirs = peer()
    judge_forward(QKNormAttention.from_hf(theirs.module), theirs, tokens)


def test_the_gradients_are_those_of_qwen3() -> None:
    theirs = peer()
    judge_gradients(QKNormAttention.from_hf(theirs.module), theirs, 23)


@pytest.mark.parametrize("chunks", [(), (1,), (7, 5, 3), (13,), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(chunks: tuple[int, ...]) -> None:
    theirs = peer()
    judge_cached(QKNormAttention.from_hf(theirs.module), theirs, 31, chunks)


def test_qwen3_06b_has_its_widths_and_output() -> None:
    config = Qwen3Config(**real_config("qwen3-0.6b"))
    theirs = Peer(Qwen3Attention, Qwen3RotaryEmbedding, config)
    ours = QKNormAttention.from_config(real_config("qwen3-0.6b"))
    assert ours.q_proj.weight.shape == (2048, 1024)
    assert ours.k_proj.weight.shape == ours.v_proj.weight.shape == (8 * 128, 1024)
    assert ours.o_proj.weight.shape == (1024, 2048)
    judge_forward(ours.load(theirs.module.state_dict()), theirs, 19)
