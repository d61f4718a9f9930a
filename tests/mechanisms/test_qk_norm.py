"""QK-norm: Qwen3's and GLM's layers against transformers', and the bound that no score passes."""

from __future__ import annotations

import pytest
import torch
from head_referees import (
    Peer,
    caught,
    judge_cached,
    judge_counts,
    judge_families,
    judge_forward,
    judge_gradients,
    judge_shown,
    on_meta,
    real_config,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.glm4_moe.configuration_glm4_moe import Glm4MoeConfig
from transformers.models.glm4_moe.modeling_glm4_moe import (
    Glm4MoeAttention,
    Glm4MoeRotaryEmbedding,
)
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3Attention,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
)

from attnscope.core import attend
from attnscope.core.heads import HeadShape
from attnscope.errors import ConfigError
from attnscope.mechanisms.qk_norm import QKNormAttention, qk_norm, score_bound
from attnscope.positions import Rope
from attnscope.testing import budget

SMALL = {
    "hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16,
    "num_hidden_layers": 2,
}  # fmt: skip


def qwen3(*, dtype: torch.dtype = torch.float32, **changed) -> Peer:  # type: ignore[no-untyped-def]
    config = Qwen3Config(**(SMALL | changed))
    return Peer(Qwen3Attention, Qwen3RotaryEmbedding, config, dtype=dtype)


def glm() -> Peer:
    config = Glm4MoeConfig(**SMALL, use_qk_norm=True, attention_bias=True)
    return Peer(Glm4MoeAttention, Glm4MoeRotaryEmbedding, config)


PEERS = {"qwen3": qwen3, "qwen3 with biases": lambda: qwen3(attention_bias=True), "glm": glm}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("tokens", [1, 2, 37, 131])
def test_the_output_is_that_of_transformers(name: str, tokens: int) -> None:
    peer = PEERS[name]()
    judge_forward(QKNormAttention.from_hf(peer.module), peer, tokens)


@pytest.mark.parametrize("name", PEERS)
def test_the_gradients_are_those_of_transformers(name: str) -> None:
    peer = PEERS[name]()
    judge_gradients(QKNormAttention.from_hf(peer.module), peer, 23)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_as_close_as_transformers(dtype: torch.dtype) -> None:
    peer = qwen3(dtype=dtype)
    ours = QKNormAttention.from_hf(peer.module)
    assert ours.q_proj.weight.dtype == dtype
    judge_forward(ours, peer, 29)


@pytest.mark.parametrize("chunks", [(), (1,), (7, 5, 3), (13,), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(chunks: tuple[int, ...]) -> None:
    peer = qwen3()
    judge_cached(QKNormAttention.from_hf(peer.module), peer, 31, chunks)


def test_qwen3_06b_has_its_widths_and_output() -> None:
    peer = Peer(Qwen3Attention, Qwen3RotaryEmbedding, Qwen3Config(**real_config("qwen3-0.6b")))
    ours = QKNormAttention.from_config(real_config("qwen3-0.6b"), layer=27)
    assert ours.q_proj.weight.shape == (2048, 1024)
    assert ours.k_proj.weight.shape == ours.v_proj.weight.shape == (8 * 128, 1024)
    assert ours.o_proj.weight.shape == (1024, 2048)
    assert (ours.shape.heads, ours.shape.groups, ours.shape.width) == (16, 8, 128)
    judge_forward(ours.load(peer.module.state_dict()), peer, 19)


def test_qwen3_06b_costs_what_the_text_says() -> None:
    ours = on_meta(QKNormAttention, real_config("qwen3-0.6b"))
    assert ours.counts(100).flops_dense == 8192 * 100**2
    assert ours.counts(1, 99).flops == 8192 * 100
    assert ours.counts(1).bytes_per_token == 2 * 8 * 128 * 2


def test_counts_are_those_of_pytorch_and_of_real_tensors() -> None:
    peer = qwen3(attention_bias=True)
    judge_counts(QKNormAttention.from_hf(peer.module), peer)


def test_the_norm_is_before_the_rotation_and_the_judge_would_notice() -> None:
    peer = qwen3()
    ours = QKNormAttention.from_hf(peer.module)
    q_norm, k_norm, rope = ours.q_norm, ours.k_norm, ours.rope
    assert q_norm is not None
    assert k_norm is not None
    ours.q_norm = ours.k_norm = None
    norms = iter([q_norm, k_norm])
    ours.rope = lambda x, positions: next(norms)(rope(x, positions))
    assert caught(ours, peer)


@pytest.mark.parametrize("name", ["q_norm", "k_norm", "v_proj", "o_proj"])
def test_a_damaged_weight_is_noticed(name: str) -> None:
    peer = qwen3()
    ours = QKNormAttention.from_hf(peer.module)
    with torch.no_grad():
        getattr(ours, name).weight[3] *= 1.001
    assert caught(ours, peer)


def test_the_function_is_transformers_norm_on_both() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 5, 12) * 30, torch.randn(2, 2, 5, 12) / 30
    norms = [Qwen3RMSNorm(12, eps=1e-3) for _ in "qk"]
    for norm in norms:
        norm.weight = torch.nn.Parameter(torch.randn(12), requires_grad=False)
    ours = qk_norm(q, k, q_weight=norms[0].weight, k_weight=norms[1].weight, eps=1e-3)
    for found, norm, x in zip(ours, norms, (q, k), strict=True):
        exact = torch.nn.functional.rms_norm(x.double(), (12,), norm.weight.double(), 1e-3)
        budget(found, peer=norm(x), oracle=exact)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_function_rounds_where_transformers_norm_does(dtype: torch.dtype) -> None:
    """x is rounded before it meets the weight, and so to the same bits but for the last."""
    random = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 4, 64, 32, generator=random).to(dtype)[:, :, None].unbind(0)
    norm = Qwen3RMSNorm(32, eps=1e-6).to(dtype)
    norm.weight.data = (1 + torch.randn(32, generator=random)).to(dtype)
    made = qk_norm(q, k, q_weight=norm.weight, k_weight=norm.weight)
    with torch.no_grad():
        for found, x in zip(made, (q, k), strict=True):
            assert found.dtype == dtype
            # A quotient in float32 is theirs times a root; rarely, the two round differently.
            assert float((found != norm(x)).double().mean()) < 1e-2
            once = norm.weight.float() * (x.float() / x.float().pow(2).mean(-1, True).sqrt())
            assert float((found != once.to(dtype)).double().mean()) > 0.05, "rounded once"


def test_what_is_not_said_is_as_in_qwen3() -> None:
    """The eps of the function, of the layer and of Qwen3's config are one."""
    ours, eps = QKNormAttention(HeadShape(8, 2, 1, 4)), Qwen3Config().rms_norm_eps
    assert ours.q_norm.eps == ours.k_norm.eps == eps
    x, one = torch.full((1, 1, 1, 4), 1e-3, dtype=torch.float64), torch.ones(4).double()
    q, k = qk_norm(x, 2 * x, q_weight=one, k_weight=one)
    # Numbers of 1e-3 and 2e-3 have mean squares of 1e-6 and 4e-6, beside which eps counts.
    assert q.flatten().tolist() == pytest.approx([(1 / (1 + eps * 1e6)) ** 0.5] * 4, rel=1e-12)
    assert k.flatten().tolist() == pytest.approx([(4 / (4 + eps * 1e6)) ** 0.5] * 4, rel=1e-12)


@given(
    width=st.sampled_from([2, 6, 16]),
    size=st.floats(1e-3, 1e6),
    weights=st.floats(0.01, 100),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_no_score_passes_the_bound_whatever_q_and_k_are(
    width: int, size: float, weights: float, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    q, k = size * torch.randn(2, 1, 2, 9, width, generator=random, dtype=torch.float64)
    a, b = weights * torch.randn(2, width, generator=random, dtype=torch.float64)
    q, k = qk_norm(q, k, q_weight=a, k_weight=b)
    positions = torch.arange(9)
    rope = Rope.plain(width)
    result = attend(rope(q, positions), rope(k, positions), k, causal=False, statistics="max_logit")
    # A rounding of the rotation and of the product; the bound is attained when q and k are one.
    assert float(result["max_logit"].abs().max()) <= score_bound(a, b) * (1 + 1e-12)


def test_the_bound_is_attained() -> None:
    one = torch.ones(64, dtype=torch.float64)
    q, k = qk_norm(one.view(1, 1, 1, -1), 5 * one.view(1, 1, 1, -1),
                   q_weight=2 * one, k_weight=3 * one, eps=0.0)  # fmt: skip
    score = float((q * k).sum()) / 8
    assert score == pytest.approx(score_bound(2 * one, 3 * one), rel=1e-12)
    assert score == pytest.approx(8 * 2 * 3)
    assert score_bound(2 * one, 3 * one, scale=0.5) == pytest.approx(float((q * k).sum()) / 2)
    assert score_bound(-2 * one, one) == pytest.approx(16)  # the weights' size counts, not sign


def test_scores_do_not_depend_on_the_size_of_x() -> None:
    """With eps out of the way, x and 1000 x give the same weights; y is linear in what is left."""
    ours = QKNormAttention.from_hf(qwen3(rms_norm_eps=0.0).module).double()
    x = torch.randn(1, 17, 48, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(ours(1000 * x), 1000 * ours(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "llama"}, "'llama': QKNormAttention reads qwen3, glm4_moe"),
        ({"hidden_size": ...}, "'qwen3': the config has no field 'hidden_size'"),
        ({"num_key_value_heads": 3}, "expected a multiple of the 3 key/value heads, got 16"),
        ({"head_dim": 0}, "head_dim: expected a positive whole number, got 0"),
        (
            {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
            "layer 1 has a window; sliding.SlidingAttention builds it",
        ),
        ({"num_hidden_layers": 1}, "layer 1 is not among its 1 layers"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changed: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        QKNormAttention.from_config(real_config("qwen3-0.6b", **changed), layer=1)


def test_a_glm_without_the_norm_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"use_qk_norm is false; grouped\.GroupedAttention"):
        QKNormAttention.from_config(real_config("glm-4.5", use_qk_norm=...))


def test_what_configs_may_leave_out_is_what_transformers_fills_in() -> None:
    judge_families("qk_norm")


def test_the_picture_shows_the_bound() -> None:
    judge_shown("qk_norm", "law: |score| <= scale D max|a| max|b| = 16")
