"""QK-Clip on Hugging Face's own layers, whose weights say what became of every score."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import DeepseekV3Config, LlamaConfig, OPTConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    DeepseekV3Attention,
    DeepseekV3RotaryEmbedding,
)
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
from transformers.models.opt.modeling_opt import OPTAttention

from attnscope.mechanisms.qk_clip import QKClip

C, T = 24, 11
SIZES = {"num_attention_heads": 4, "hidden_size": C, "num_hidden_layers": 1, "vocab_size": 8}
LATENT = {
    "q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
    "v_head_dim": 5,
}  # fmt: skip


def tokens(scale: float) -> torch.Tensor:
    return scale * torch.randn(2, T, C, generator=torch.Generator().manual_seed(0)).double()


def log_ratios(weights: torch.Tensor) -> torch.Tensor:
    """log p_ij - log p_i0, which are differences of scores, [B, H, T, T], 0 in the future."""
    logs = weights.double().log()
    return (logs - logs[..., :1]).masked_fill(logs == -torch.inf, 0.0)


def weights_of(layer: nn.Module, rotary: nn.Module | None, x: torch.Tensor) -> torch.Tensor:
    """The weights that a Hugging Face layer itself returns, causal."""
    mask = torch.full((1, 1, T, T), -torch.inf, dtype=x.dtype).triu(1)
    more = {}
    if rotary is not None:
        more["position_embeddings"] = rotary(x, torch.arange(T)[None])
    with torch.no_grad():
        return layer(x, attention_mask=mask, **more)[1]


def foreign(kind: str) -> tuple[nn.Module, nn.Module | None]:
    torch.manual_seed(2)
    eager = {"attn_implementation": "eager"}
    if kind == "opt":
        return OPTAttention(OPTConfig(**SIZES, ffn_dim=8, **eager), layer_idx=0), None
    if kind == "deepseek":
        config = DeepseekV3Config(**SIZES, **LATENT, num_key_value_heads=4, **eager)
        return DeepseekV3Attention(config, 0), DeepseekV3RotaryEmbedding(config)
    config = LlamaConfig(
        **SIZES, num_key_value_heads={"llama": 4, "llama_gqa": 2}[kind], head_dim=6,
        attention_bias=True, **eager,
    )  # fmt: skip
    return LlamaAttention(config, 0), LlamaRotaryEmbedding(config)


FOREIGN = ("opt", "llama", "llama_gqa", "deepseek")


@pytest.mark.parametrize("kind", FOREIGN)
def test_every_score_of_a_real_layer_is_multiplied_by_its_heads_gamma(kind: str) -> None:
    """Nothing of ours computes the scores: differences of them are logs of the layer's weights."""
    layer, rotary = foreign(kind)
    layer.double().eval()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_(std=0.2)
    x = tokens(scale=1.0)
    before = log_ratios(weights_of(layer, rotary, x))
    clip = QKClip(100.0)
    clip.note(layer, [50.0, 200.0, 100.0, 400.0])
    (done,) = clip.step()
    gamma = torch.tensor([1.0, 0.5, 1.0, 0.25]).double()
    assert torch.equal(done.gamma, gamma)
    after = log_ratios(weights_of(layer, rotary, x))
    # The softmax of transformers is taken in float32: a weight above e^-40 is known to 1e-7 of
    # itself, so its logarithm to 1e-7, and a difference of two to a few of them.
    assert float(before.abs().max()) < 40
    assert torch.allclose(after, before * gamma.view(1, 4, 1, 1), atol=2e-6, rtol=1e-6)
    assert not torch.allclose(after, before, atol=1e-2)
    assert torch.equal(after[:, [0, 2]], before[:, [0, 2]]), "heads below tau are the same bits"


@pytest.mark.parametrize(("kind", "heads", "width"), [("llama", 4, 6), ("opt", 4, 6)])
def test_logits_of_another_number_of_heads_are_refused(kind: str, heads: int, width: int) -> None:
    layer, _ = foreign(kind)
    clip = QKClip(100.0)
    clip.note(layer, [500.0] * (heads // 2))  # 2 heads of 12 rows would fit the weights too
    with pytest.raises(ValueError, match=f"max_logits: expected {heads} heads of {width} for"):
        clip.step()


def test_a_half_forgotten_clip_is_caught() -> None:
    """The check above would notice the rope part clipped by the root, or the shared key clipped."""
    gamma = torch.tensor([1.0, 0.5, 1.0, 0.25]).double()
    for damage in ("q_b_proj", "kv_a_proj_with_mqa"):
        layer, rotary = foreign("deepseek")
        layer.double().eval()
        x = tokens(scale=3.0)
        before = log_ratios(weights_of(layer, rotary, x))
        clip = QKClip(100.0)
        clip.note(layer, [50.0, 200.0, 100.0, 400.0])
        clip.step()
        with torch.no_grad():
            if damage == "q_b_proj":
                layer.q_b_proj.weight[10 + 6 : 20] *= 0.5**-0.5
            else:
                layer.kv_a_proj_with_mqa.weight[10:] *= 0.5
        after = log_ratios(weights_of(layer, rotary, x))
        assert not torch.allclose(after, before * gamma.view(1, 4, 1, 1), atol=2e-6, rtol=1e-6)
