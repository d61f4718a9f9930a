"""Multi-head attention against PyTorch's module and GPT-2's, and the laws of cutting into heads."""

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
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.gpt2.configuration_gpt2 import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention

from attnscope.errors import ConfigError
from attnscope.mechanisms.multi_head import (
    IMPLS,
    MultiHeadAttention,
    Projections,
    multi_head_attention,
)
from attnscope.testing import budget

GPT2_SMALL = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12}


def gpt2(**changed) -> Peer:  # type: ignore[no-untyped-def]
    return Peer(GPT2Attention, None, GPT2Config(n_embd=48, n_head=6, **changed), layer=2)


def renamed(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gradients of GPT-2's joined, transposed weights by our names."""
    result = {"x": found["x"]}
    for kind in ("weight", "bias"):
        parts = found[f"c_attn.{kind}"].chunk(3, -1)
        for name, part in zip(("q", "k", "v", "o"), (*parts, found[f"c_proj.{kind}"]), strict=True):
            result[f"{name}_proj.{kind}"] = part.mT if part.ndim == 2 else part
    return result


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("tokens", [1, 2, 37, 131])
def test_the_output_is_that_of_gpt2(tokens: int, inverse: bool) -> None:
    peer = gpt2(scale_attn_by_inverse_layer_idx=inverse)
    judge_forward(MultiHeadAttention.from_hf(peer.module), peer, tokens)


def test_the_gradients_are_those_of_gpt2() -> None:
    peer = gpt2()
    theirs = peer.gradients
    peer.gradients = lambda *x, **more: renamed(theirs(*x, **more))
    judge_gradients(MultiHeadAttention.from_hf(peer.module), peer, 23)


@pytest.mark.parametrize("chunks", [(), (1,), (7, 5, 3), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(chunks: tuple[int, ...]) -> None:
    peer = gpt2()
    judge_cached(MultiHeadAttention.from_hf(peer.module), peer, 31, chunks)


def test_counts_are_those_of_pytorch_and_of_real_tensors() -> None:
    judge_counts(MultiHeadAttention.from_hf(gpt2().module), gpt2())


def test_gpt2_as_published() -> None:
    ours = MultiHeadAttention.from_config(GPT2_SMALL, layer=11)
    assert (ours.shape.heads, ours.shape.width) == (12, 64)
    # 768 x 3 x 768 + 3 x 768 in c_attn, 768 x 768 + 768 in c_proj.
    assert ours.counts(1).parameters == 2_362_368


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tokens", [1, 9, 131])
def test_it_is_pytorchs_multihead_attention(causal: bool, bias: bool, tokens: int) -> None:
    torch.manual_seed(3)
    theirs = nn.MultiheadAttention(36, 4, bias=bias, batch_first=True)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.randn(weight.shape) / 6)
    ours = MultiHeadAttention.from_torch(theirs, causal=causal)
    # In PyTorch's module True means blocked.
    blocked = torch.ones(tokens, tokens, dtype=torch.bool).triu(1) if causal else None

    def run(module, x):  # type: ignore[no-untyped-def]
        return module(x, x, x, attn_mask=blocked, need_weights=False)[0]

    x = torch.randn(2, tokens, 36)
    with torch.no_grad():
        peer = run(theirs, x)
        budget(ours(x), peer=peer, oracle=run(theirs.double(), x.double()))


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("heads", "width"), [(1, 12), (4, 5), (16, 3)])
def test_heads_of_their_own_width_are_pytorchs_attention(
    impl: str, causal: bool, heads: int, width: int
) -> None:
    """H * D is not C, as in Qwen3-0.6B."""
    random = torch.Generator().manual_seed(1)
    x = torch.randn(2, 11, 10, generator=random)
    q, k, v = torch.randn(3, heads * width, 10, generator=random) / 10**0.5
    weights = Projections(q, k, v, torch.randn(10, heads * width, generator=random))

    def theirs(x, weights):  # type: ignore[no-untyped-def]
        q, k, v = ((x @ w.mT).view(2, 11, heads, width).transpose(1, 2) for w in weights[:3])
        out = scaled_dot_product_attention(q, k, v, is_causal=causal)
        return out.transpose(1, 2).reshape(2, 11, -1) @ weights.o.mT

    ours = multi_head_attention(x, weights, heads=heads, causal=causal, impl=impl)
    oracle = theirs(x.double(), Projections(*(w.double() for w in weights)))
    budget(ours, peer=theirs(x, weights), oracle=oracle)


def test_the_width_of_qwen3_06b_with_a_key_for_every_head() -> None:
    ours = MultiHeadAttention(1024, 16, width=128)
    assert ours.q_proj.weight.shape == ours.k_proj.weight.shape == (2048, 1024)
    assert ours.o_proj.weight.shape == (1024, 2048)
    y = ours(torch.randn(1, 5, 1024))
    weights = Projections(*(getattr(ours, f"{n}_proj").weight for n in "qkvo"))
    assert y.shape == (1, 5, 1024)
    x = torch.randn(1, 5, 1024)
    formula = multi_head_attention(
        x.double(), Projections(*(w.double() for w in weights)), heads=16, impl="reference"
    )
    # Sums of 1024 and 2048 products of numbers near 1/32: 1e-6 is some ten roundings.
    assert torch.allclose(ours(x).double(), formula, rtol=0, atol=2e-6)


@given(heads=st.sampled_from([2, 3, 4]), seed=st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_the_order_of_heads_is_nobodys_business(heads: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    D = 3
    x = torch.randn(1, 6, 5, generator=random, dtype=torch.float64)
    q, k, v = torch.randn(3, heads * D, 5, generator=random, dtype=torch.float64)
    o = torch.randn(5, heads * D, generator=random, dtype=torch.float64)
    order = torch.randperm(heads, generator=random)
    rows = (order[:, None] * D + torch.arange(D)).flatten()
    whole = multi_head_attention(x, Projections(q, k, v, o), heads=heads)
    shuffled = multi_head_attention(
        x, Projections(q[rows], k[rows], v[rows], o[:, rows]), heads=heads
    )
    # The same sums in another order, in float64.
    assert torch.allclose(whole, shuffled, rtol=1e-10, atol=1e-12)


def test_one_head_cannot_do_two_jobs_and_two_can() -> None:
    """A row that asks for two keys: one softmax splits between them, two find one each."""
    q = torch.tensor([[[[3.0, 3.0]]]])
    k = torch.tensor([[[[4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]]])
    v = torch.eye(3)[None, None]
    one = scaled_dot_product_attention(q, k, v)[0, 0, 0]
    two = scaled_dot_product_attention(
        q.view(1, 2, 1, 1), k.mT.reshape(1, 2, 3, 1), v.expand(1, 2, 3, 3)
    )[0, :, 0]
    assert float(one.max()) <= 0.5
    assert two[0].argmax() == 0
    assert two[1].argmax() == 1
    assert (two.max(-1).values > 0.99).all()


@pytest.mark.parametrize("name", ["q_proj", "v_proj", "o_proj"])
def test_a_damaged_weight_is_noticed(name: str) -> None:
    peer = gpt2()
    ours = MultiHeadAttention.from_hf(peer.module)
    with torch.no_grad():
        getattr(ours, name).weight[3] *= 1.001
    assert caught(ours, peer)


def test_bad_arguments_are_named() -> None:
    one = torch.eye(6)
    weights = Projections(one, one, one, one)
    with pytest.raises(ValueError, match="impl: unknown 'flash'; there are reference, fast"):
        multi_head_attention(one[None], weights, heads=2, impl="flash")
    with pytest.raises(ValueError, match="heads: expected a divisor of the 6 rows of W_q, got 4"):
        multi_head_attention(one[None], weights, heads=4)
    with pytest.raises(ValueError, match="divisor of the model width 10, got 4; or give width"):
        MultiHeadAttention(10, 4)
    with pytest.raises(ValueError, match="a cache needs causal attention"):
        MultiHeadAttention(8, 2, causal=False).new_cache()
    with pytest.raises(ValueError, match="neither add_bias_kv nor add_zero_attn"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, add_zero_attn=True))
    with pytest.raises(ValueError, match="expected kdim = vdim = embed_dim"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, kdim=4))


def test_layers_and_configs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="expected self-attention, got cross-attention"):
        MultiHeadAttention.from_hf(GPT2Attention(GPT2Config(), is_cross_attention=True))
    with pytest.raises(ConfigError, match="'llama': MultiHeadAttention reads gpt2"):
        MultiHeadAttention.from_hf(LlamaAttention(LlamaConfig(hidden_size=64), 0))
    with pytest.raises(TypeError, match=r"with a \.config, got Linear"):
        MultiHeadAttention.from_hf(nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="'gpt2': the config has no field 'n_head'"):
        MultiHeadAttention.from_config({"model_type": "gpt2", "n_embd": 8})
    with pytest.raises(ConfigError, match="n_head: expected a divisor of n_embd 768, got 7"):
        MultiHeadAttention.from_config(GPT2_SMALL | {"n_head": 7})


def test_what_configs_may_leave_out_is_what_transformers_fills_in() -> None:
    judge_families("multi_head")


def test_the_picture_shows_two_heads() -> None:
    judge_shown(
        "multi_head", "16 of 128 cost the same: True", "law: y is the sum of what each head"
    )
