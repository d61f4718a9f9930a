"""Grouped heads: MHA, GQA and MQA from one class, against PyTorch, Llama and Qwen2."""

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
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention, Qwen2RotaryEmbedding

from attnscope.core.heads import HeadShape
from attnscope.errors import ConfigError
from attnscope.mechanisms.grouped import (
    IMPLS,
    GroupedAttention,
    grouped_attention,
    pool_heads,
)
from attnscope.positions import Rope
from attnscope.testing import budget, qkv

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64, "rope_theta": 500000.0,
}  # fmt: skip


def llama(groups: int = 2, *, dtype: torch.dtype = torch.float32, **changed) -> Peer:  # type: ignore[no-untyped-def]
    sizes = {
        "hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": groups, "head_dim": 10,
        "num_hidden_layers": 2,
    }  # fmt: skip
    return Peer(LlamaAttention, LlamaRotaryEmbedding, LlamaConfig(**(sizes | changed)), dtype=dtype)


def qwen2() -> Peer:
    config = Qwen2Config(
        hidden_size=48, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=2
    )
    return Peer(Qwen2Attention, Qwen2RotaryEmbedding, config)


PEERS = {
    "mha": lambda: llama(6),
    "gqa": lambda: llama(2),
    "mqa": lambda: llama(1),
    "biases": lambda: llama(3, attention_bias=True),
    "llama3 rope": lambda: llama(2, rope_parameters=LLAMA3),
    "qwen2": qwen2,
}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("tokens", [1, 37, 131])
def test_the_output_is_that_of_transformers(name: str, tokens: int) -> None:
    peer = PEERS[name]()
    judge_forward(GroupedAttention.from_hf(peer.module), peer, tokens)


@pytest.mark.parametrize("name", PEERS)
def test_the_gradients_are_those_of_transformers(name: str) -> None:
    peer = PEERS[name]()
    judge_gradients(GroupedAttention.from_hf(peer.module), peer, 23)


@pytest.mark.parametrize("name", ["mha", "mqa", "qwen2"])
@pytest.mark.parametrize("chunks", [(), (7, 5, 3), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(
    name: str, chunks: tuple[int, ...]
) -> None:
    peer = PEERS[name]()
    judge_cached(GroupedAttention.from_hf(peer.module), peer, 31, chunks)


def test_bfloat16_is_as_close_as_transformers() -> None:
    peer = llama(dtype=torch.bfloat16)
    judge_forward(GroupedAttention.from_hf(peer.module), peer, 29)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 30), (13, 13), (5, 22), (140, 150)])
@pytest.mark.parametrize("causal", [True, False])
def test_the_function_is_pytorchs_grouped_attention(
    impl: str, groups: int, queries: int, keys: int, causal: bool
) -> None:
    q, k, v = qkv(queries=queries, keys=keys, heads=4, groups=groups)
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries if causal else keys)

    def theirs(*x: torch.Tensor) -> torch.Tensor:
        # Each of PyTorch's kernels is somebody else's code; the plain one can do float64.
        kernels = [SDPBackend.MATH] if x[0].dtype == torch.float64 else list(_CPU)
        with sdpa_kernel(kernels):
            return scaled_dot_product_attention(*x, attn_mask=seen, enable_gqa=True)

    wide = [x.double().requires_grad_() for x in (q, k, v)]
    near = [x.clone().requires_grad_() for x in (q, k, v)]
    own = [x.clone().requires_grad_() for x in (q, k, v)]
    oracle, peer = theirs(*wide), theirs(*near)
    ours = grouped_attention(*own, causal=causal, impl=impl)
    # One key leaves the peer without an error; one rounding of v is then all there is.
    slack = 2e-7 if keys == 1 else 0
    budget(ours.detach(), peer=peer.detach() + slack, oracle=oracle.detach())
    gradient = torch.randn(oracle.shape, generator=torch.Generator().manual_seed(1))
    found = torch.autograd.grad(ours, own, gradient)
    exact = torch.autograd.grad(oracle, wide, gradient.double())
    nearly = torch.autograd.grad(peer, near, gradient)
    for name, one, two, three in zip("qkv", found, nearly, exact, strict=True):
        # Gradients of q and k are exactly 0 there.
        budget(one, peer=two + slack, oracle=three, what=f"gradient of {name}")


_CPU = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)


def test_heads_of_a_group_stand_in_a_row_and_the_judge_would_notice() -> None:
    """repeat_interleave and repeat give heads to groups in two orders; ours is the first."""
    q, k, v = qkv(queries=9, heads=6, groups=2)
    ours = grouped_attention(q, k, v)
    row = scaled_dot_product_attention(
        q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), is_causal=True
    )
    dealt = scaled_dot_product_attention(
        q, k.repeat(1, 3, 1, 1), v.repeat(1, 3, 1, 1), is_causal=True
    )
    assert (ours - row).abs().max() < 1e-6
    assert (ours - dealt).abs().max() > 0.1


@pytest.mark.parametrize("name", ["k_proj", "o_proj"])
def test_a_damaged_weight_is_noticed(name: str) -> None:
    peer = llama()
    ours = GroupedAttention.from_hf(peer.module)
    with torch.no_grad():
        getattr(ours, name).weight[3] *= 1.001
    assert caught(ours, peer)


def test_another_theta_is_noticed() -> None:
    peer = llama()
    ours = GroupedAttention.from_hf(peer.module)
    ours.rope = Rope.plain(10, theta=10001.0)
    assert caught(ours, peer)


def test_counts_are_those_of_pytorch_and_of_real_tensors() -> None:
    for name in ("gqa", "biases"):
        peer = PEERS[name]()
        judge_counts(GroupedAttention.from_hf(peer.module), peer)


@pytest.mark.parametrize(
    ("name", "layers", "all_layers"),
    [("deepseek-67b", 95, 389_120), ("llama-3-8b", 32, 131_072), ("smollm2", 30, 23_040)],
)
def test_real_configs_keep_what_the_text_says(name: str, layers: int, all_layers: int) -> None:
    config = real_config(name)
    ours = on_meta(GroupedAttention, config)
    assert layers * ours.counts(1).bytes_per_token == all_layers
    with torch.device("meta"):
        theirs = LlamaAttention(LlamaConfig(**config), 0)
    assert {n: p.shape for n, p in ours.named_parameters()} == {
        n: p.shape for n, p in theirs.named_parameters()
    }


def test_pooled_groups_keep_scale_and_rotation() -> None:
    rope = Rope.plain(4)
    pooled = GroupedAttention(HeadShape(8, 4, 4, 4), rope=rope, scale=0.3).to_groups(2)
    assert (pooled.scale, pooled.rope, pooled.shape.groups) == (0.3, rope, 2)


def test_every_head_of_deepseek_67b_would_keep_eight_times_as_much() -> None:
    ours = on_meta(GroupedAttention, real_config("deepseek-67b", num_key_value_heads=64))
    assert 95 * ours.counts(1).bytes_per_token == 3_112_960


@given(
    groups=st.sampled_from([1, 2, 3]), repeats=st.sampled_from([1, 2, 4]), seed=st.integers(0, 999)
)
@settings(max_examples=20, deadline=None)
def test_pooling_heads_that_are_alike_changes_nothing(groups: int, repeats: int, seed: int) -> None:
    """A multi-head layer whose heads agree within each group is a grouped layer."""
    torch.manual_seed(seed)
    heads, width = groups * repeats, 4
    shape = HeadShape(model=10, heads=heads, groups=heads, width=width)
    layer = GroupedAttention(shape, rope=Rope.plain(width), bias=(True, False)).double()
    with torch.no_grad():
        for name in ("k_proj", "v_proj"):
            projection = getattr(layer, name)
            for kind in ("weight", "bias"):
                tensor = getattr(projection, kind)
                alike = tensor.unflatten(0, (groups, repeats, width))[:, :1]
                tensor.copy_(alike.expand(-1, repeats, *alike.shape[2:]).flatten(0, 2))
        pooled = layer.to_groups(groups)
        assert pooled.k_proj.weight.shape == (groups * width, 10)
        x = torch.randn(2, 7, 10, dtype=torch.float64)
        # Means of equal numbers and sums in another order: a few roundings.
        assert torch.allclose(pooled(x), layer(x), rtol=0, atol=1e-13)


def test_pooling_is_the_mean_of_each_groups_heads() -> None:
    weight = torch.randn(6 * 3, 5)
    pooled = pool_heads(weight, heads=6, groups=2)
    for g in range(2):
        heads = [weight[h * 3 : (h + 1) * 3] for h in range(3 * g, 3 * g + 3)]
        expected = (heads[0] + heads[1] + heads[2]) / 3
        assert torch.allclose(pooled[g * 3 : (g + 1) * 3], expected, atol=1e-6)
    assert torch.equal(pool_heads(weight, heads=6, groups=6), weight)


def test_bad_arguments_are_named() -> None:
    q, k, v = qkv(queries=3, heads=4, groups=2)
    with pytest.raises(ValueError, match="impl: unknown 'flash'; there are reference, fast"):
        grouped_attention(q, k, v, impl="flash")
    with pytest.raises(ValueError, match="q: expected heads that are a multiple of the 2 of k"):
        grouped_attention(q[:, :3], k, v)
    with pytest.raises(ValueError, match="groups: expected a divisor of the 6 heads, got 4"):
        pool_heads(torch.ones(6, 2), heads=6, groups=4)
    with pytest.raises(ValueError, match="weight: expected a multiple of 6 rows"):
        pool_heads(torch.ones(7, 2), heads=6, groups=2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "qwen3"}, "'qwen3': GroupedAttention reads llama, qwen2; if this model's"),
        ({"model_type": ...}, "the config has no field 'model_type'; GroupedAttention reads llama"),
        ({"num_attention_heads": ...}, "'llama': the config has no field 'num_attention_heads'"),
        ({"num_attention_heads": 33}, "hidden_size 4096 is no multiple of num_attention_heads 33"),
        ({"num_key_value_heads": 5}, "heads: expected a multiple of the 5 key/value heads, got 32"),
        ({"rope_scaling": {"rope_type": "twist", "factor": 2.0}}, "twist"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changed: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GroupedAttention.from_config(real_config("llama-3-8b", **changed))


def test_a_layer_with_a_window_is_refused() -> None:
    config = Qwen2Config(use_sliding_window=True, max_window_layers=1, num_hidden_layers=2)
    assert GroupedAttention.from_config(config.to_dict(), layer=0).window is None
    with pytest.raises(ConfigError, match="layer 1 has a window"):
        GroupedAttention.from_config(config.to_dict(), layer=1)


def test_what_configs_may_leave_out_is_what_transformers_fills_in() -> None:
    judge_families("grouped")


def test_the_picture_shows_what_is_kept() -> None:
    judge_shown("grouped", "384 KiB", "  64 KiB", "  16 KiB", ", ".join(["100,663,296"] * 3))
