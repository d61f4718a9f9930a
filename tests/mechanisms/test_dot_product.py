"""Scaled dot product against PyTorch's, one head of OPT's, and what two projections are for."""

from __future__ import annotations

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode
from transformers import OPTConfig
from transformers.models.opt.modeling_opt import OPTAttention

from attnscope.core.mechanism import Seen, parameters_of
from attnscope.errors import ConfigError
from attnscope.mechanisms import dot_product as module
from attnscope.mechanisms.dot_product import (
    ABOUT,
    IMPLS,
    DotProductAttention,
    dot_product,
    dot_product_weights,
    picture,
)
from attnscope.testing import budget, qkv

each_impl = pytest.mark.parametrize("impl", IMPLS)
SIZES = [(9, 9), (33, 33), (1, 67), (7, 40), (1, 1), (131, 131)]


def inputs(queries: int, keys: int, *, width: int = 8, seed: int = 0) -> list[torch.Tensor]:
    sizes = {"queries": queries, "keys": keys, "width": width, "value_width": width + 3}
    return list(qkv(heads=3, groups=3, seed=seed, **sizes))  # type: ignore[arg-type]


def theirs(q, k, v, *, causal: bool, scale: float | None) -> torch.Tensor:  # type: ignore[no-untyped-def]
    mask = None
    if causal:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def results(run, given: list[torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:  # type: ignore[no-untyped-def]
    own = [x.to(dtype).requires_grad_() for x in given]
    y = run(*own)
    pull = torch.randn(y.shape, generator=torch.Generator().manual_seed(5)).to(dtype)
    return dict(zip("yqkv", (y.detach(), *torch.autograd.grad(y, own, pull)), strict=True))


def judge(run, given: list[torch.Tensor], dtype: torch.dtype, **options) -> None:  # type: ignore[no-untyped-def]
    mine = results(run, given, dtype)
    peer = results(lambda *x: theirs(*x, **options), given, dtype)
    wide = [x.to(dtype).double() for x in given]
    oracle = results(lambda *x: theirs(*x, **options), wide, torch.float64)
    for name, value in mine.items():
        budget(value, peer=peer[name], oracle=oracle[name], what=name)


@each_impl
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_output_and_gradients_are_pytorchs(
    impl: str, causal: bool, scale: float | None, sizes: tuple[int, int]
) -> None:
    options = {"causal": causal, "scale": scale}
    judge(
        lambda *x: dot_product(*x, **options, impl=impl),  # type: ignore[arg-type]
        inputs(*sizes), torch.float32, **options,
    )  # fmt: skip


@each_impl
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_dtypes_are_no_worse_than_pytorchs(impl: str, dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in inputs(33, 33))
    exact = theirs(q.double(), k.double(), v.double(), causal=True, scale=None)
    peer = theirs(q, k, v, causal=True, scale=None)
    budget(dot_product(q, k, v, causal=True, impl=impl), peer=peer, oracle=exact)


@each_impl
def test_queries_stand_at_the_end_of_the_keys(impl: str) -> None:
    """PyTorch's `is_causal` starts at the first key; its word for ours is causal_lower_right."""
    q, k, v = inputs(5, 11)
    exact = scaled_dot_product_attention(
        q.double(), k.double(), v.double(), attn_mask=causal_lower_right(5, 11)
    )
    peer = scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(5, 11))
    result = dot_product(q, k, v, causal=True, impl=impl)
    budget(result, peer=peer, oracle=exact)
    top_left = scaled_dot_product_attention(q, k, v, is_causal=True)
    with pytest.raises(AssertionError, match="off"):
        budget(top_left, peer=peer, oracle=exact)


def test_a_damaged_key_is_caught() -> None:
    given = inputs(9, 9)
    factor = torch.ones(9, 1)
    factor[3] += 1e-4
    options = {"causal": False, "scale": None}
    with pytest.raises(AssertionError, match="off"):
        judge(lambda q, k, v: dot_product(q, k * factor, v), given, torch.float32, **options)


def test_one_head_is_a_head_of_opt() -> None:
    """Counterpart: a layer without rotation, its heads' outputs read before out_proj."""
    torch.manual_seed(0)
    config = OPTConfig(
        hidden_size=24, num_attention_heads=3, num_hidden_layers=2, attn_implementation="eager"
    )
    layer = OPTAttention(config, layer_idx=1).eval()
    exact = OPTAttention(config, layer_idx=1).double().eval()
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(2, 13, 24)

    def heads_of(m: OPTAttention, x: torch.Tensor) -> torch.Tensor:
        kept = []
        hook = m.out_proj.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
        hidden = torch.full((13, 13), -torch.inf, dtype=x.dtype).triu(1)
        m(x, attention_mask=hidden[None, None])
        hook.remove()
        return kept[0]

    with torch.no_grad():
        peer, oracle = heads_of(layer, x), heads_of(exact, x.double())
        for head in range(3):
            mine = DotProductAttention.from_hf(layer, head=head)
            part = slice(8 * head, 8 * head + 8)
            budget(mine(x), peer=peer[..., part], oracle=oracle[..., part], what=f"head {head}")
        wrong = DotProductAttention.from_hf(layer, head=1)
        with pytest.raises(AssertionError, match="off"):
            budget(wrong(x), peer=peer[..., :8], oracle=oracle[..., :8])


def test_real_opt_shapes() -> None:
    """OPT-125M: hidden 768, 12 heads, biases."""
    config = OPTConfig().to_dict()
    assert (config["hidden_size"], config["num_attention_heads"]) == (768, 12)
    head = DotProductAttention.from_config(config)
    assert head.q_proj.weight.shape == head.v_proj.weight.shape == (64, 768)
    assert head.k_proj.bias is not None
    layer = OPTAttention(OPTConfig(), layer_idx=0)
    assert torch.equal(
        DotProductAttention.from_hf(layer, head=11).k_proj.weight, layer.k_proj.weight[704:]
    )


def ours(**options) -> DotProductAttention:  # type: ignore[no-untyped-def]
    torch.manual_seed(1)
    return DotProductAttention(6, 5, **options)


@pytest.mark.parametrize("scale", [None, 1.0])
def test_prefill_chunks_and_steps_agree(scale: float | None) -> None:
    layer = ours(scale=scale).double()
    x = torch.randn(2, 23, 6, generator=torch.Generator().manual_seed(2)).double()
    with torch.no_grad():
        whole = layer(x)
        for sizes in ([23], [1] * 23, [7, 1, 13, 2], [3, 20]):
            cache = layer.new_cache(batch=2)
            parts = [layer(part, cache=cache) for part in x.split(sizes, dim=1)]
            # In float64; the same sums in another order for another shape of the product.
            torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-14, rtol=1e-12)
            assert cache.length == 23


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_counts_are_those_of_real_tensors(dtype: torch.dtype, causal: bool) -> None:
    layer = ours(value=9, causal=causal).to(dtype)
    cache = layer.new_cache()
    for tokens, cached in ((9, 0), (1, 9), (4, 10)):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            # Counted on the meta device, where causal pairs are computed densely.
            meta = ours(value=9, causal=causal).to("meta")
            full = torch.zeros(1, cached, 6, device="meta")
            other = meta.new_cache()
            if cached:
                meta(full, cache=other)
            before = counter.get_total_flops()
            meta(torch.zeros(1, tokens, 6, device="meta"), cache=other)
        counts = layer.counts(tokens, cached, dtype=dtype)
        spent = counter.get_total_flops() - before
        assert spent == counts.flops_dense + counts.projection_flops
        layer(torch.zeros(1, tokens, 6, dtype=dtype), cache=cache)
        assert cache.nbytes == counts.kept_bytes == counts.bytes_per_token * (tokens + cached)
        pairs = tokens * (tokens + cached)
        if causal:
            pairs = sum(cached + t + 1 for t in range(tokens))
        assert counts.flops == 2 * (5 + 9) * pairs
    assert layer.counts(1).parameters == parameters_of(layer) == 6 * 5 + 6 * 5 + 6 * 9


def test_whoever_watches_sees_the_same_attention() -> None:
    layer = ours()
    x = torch.randn(1, 7, 6)
    kept: list[Seen] = []
    y = layer(x, watch=kept.append)
    again = kept[0].attend("entropy")
    torch.testing.assert_close(again.output[:, 0], y, atol=1e-6, rtol=1e-5)  # two kernels
    weights = dot_product_weights(kept[0].q, kept[0].k, causal=True)
    entropy = -torch.xlogy(weights, weights).sum(-1)
    torch.testing.assert_close(again["entropy"], entropy, atol=1e-5, rtol=1e-5)
    cache = layer.new_cache()
    layer(x[:, :4], cache=cache)
    layer(x[:, 4:], cache=cache, watch=kept.append)
    assert (kept[1].start, kept[1].k.shape[2], kept[1].q.shape[2]) == (4, 7, 3)


@given(st.integers(1, 6), st.integers(1, 9), st.floats(0.0, 30.0), st.booleans())
@settings(max_examples=40, deadline=None)
def test_rows_sum_to_one_and_outputs_are_convex(
    queries: int, more: int, spread: float, causal: bool
) -> None:
    q, k, v = (x.double() for x in inputs(queries, queries + more - 1, seed=more))
    weights = dot_product_weights(q * spread, k, causal=causal)
    assert float((weights.sum(-1) - 1).abs().max()) < 1e-14
    y = dot_product(q * spread, k, v, causal=causal)
    low, high = v.amin(2, keepdim=True), v.amax(2, keepdim=True)
    assert bool(((y >= low - 1e-13) & (y <= high + 1e-13)).all())


@given(st.integers(2, 8), st.integers(1, 6), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_compared_directly_nobody_is_more_like_me_than_i_am(n: int, d: int, seed: int) -> None:
    """cos(x_i, x_i) = 1 is the largest of its row, and s_ij = s_ji: that is why W_q is not W_k."""
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).double()
    unit = x / x.norm(dim=-1, keepdim=True)
    cosines = unit @ unit.T
    assert torch.allclose(cosines.diagonal(), torch.ones(n).double(), atol=1e-14, rtol=0)
    assert bool((cosines <= 1 + 1e-14).all())
    same = dot_product_weights(unit[None, None], unit[None, None], scale=1.0)[0, 0]
    assert bool((same.diagonal() >= same.amax(-1) - 1e-14).all())


def test_two_projections_can_put_oneself_last() -> None:
    """One projection cannot: x W (x W)^T is a Gram matrix, its largest entry on its diagonal."""
    torch.manual_seed(3)
    x = torch.randn(6, 8).double()
    order = torch.randn(8, 4).double()
    one = (x @ order) @ (x @ order).T
    assert int(one.flatten().argmax()) in range(0, 36, 7)
    assert torch.allclose(one, one.T)
    two = (x @ order) @ -(x @ order).T
    assert bool((two.diagonal() < 0).all())
    assert int(two.flatten().argmin()) in range(0, 36, 7)


def test_the_scale_brings_the_deviation_back_to_one() -> None:
    """Var(q.k) = D sigma^4, so sqrt(D) sigma^2; over n pairs it is known to about 1 / sqrt(2 n)."""
    n = 40_000
    random = torch.Generator().manual_seed(4)
    for D in (4, 64, 256):
        for sigma in (1.0, 0.5):
            q, k = sigma * torch.randn(2, n, D, generator=random)
            deviation = float((q * k).sum(-1).double().std())
            # Four standard errors; products have heavier tails than a normal, hence the factor 2.
            error = 4 * 2 / math.sqrt(2 * n)
            assert deviation == pytest.approx(math.sqrt(D) * sigma**2, rel=error)


def test_unscaled_heads_pass_less_gradient() -> None:
    q, k = torch.randn(2, 1, 1, 32, 256, generator=torch.Generator().manual_seed(5))
    passed = {}
    for scale in (None, 1.0):
        own = q.clone().requires_grad_()
        weights = dot_product_weights(own, k, scale=scale)
        pull = torch.randn(weights.shape, generator=torch.Generator().manual_seed(6))
        (weights * pull).sum().backward()
        # By the scores: the scale itself multiplies the gradient by q, and is divided out.
        passed[scale] = float(own.grad.norm()) / (1.0 if scale else 256**-0.5)  # type: ignore[union-attr]
    assert passed[1.0] < passed[None]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: dot_product(*inputs(3, 4), impl="flash"),
            ValueError,
            "impl: unknown 'flash'; there are reference, fast",
        ),
        (
            lambda: dot_product(torch.zeros(3, 4), *inputs(3, 4)[1:]),
            ValueError,
            r"q: expected \[B, H, T, D\], got \[3, 4\]",
        ),
        (
            lambda: dot_product(inputs(3, 4)[0], inputs(3, 4, width=7)[1], inputs(3, 4)[2]),
            ValueError,
            r"k: expected \[2, 3, S, 8\] like q.*got \[2, 3, 4, 7\]",
        ),
        (
            lambda: dot_product(*inputs(3, 4)[:2], inputs(3, 5)[2]),
            ValueError,
            r"v: expected \[2, 3, 4\].*got \[2, 3, 5, 11\]",
        ),
        (
            lambda: dot_product(inputs(3, 4)[0].double(), *inputs(3, 4)[1:]),
            TypeError,
            "k: expected a floating dtype like q's torch.float64, got torch.float32",
        ),
        (
            lambda: dot_product(*inputs(5, 4), causal=True),
            ValueError,
            "causal: 5 queries cannot stand at the end of 4 keys",
        ),
        (lambda: DotProductAttention(4, 0), ValueError, "width: expected at least 1, got 0"),
        (
            lambda: ours()(torch.zeros(2, 3, 5)),
            ValueError,
            r"x: expected \[B, T, 6\], got \[2, 3, 5\]",
        ),
        (
            lambda: ours()(torch.zeros(2, 3, 6), positions=torch.arange(4)),
            ValueError,
            r"positions: expected \[3\] or \[2, 3\].*got \[4\]",
        ),
        (
            lambda: DotProductAttention.from_config({"model_type": "qwen3"}),
            ConfigError,
            "model_type 'qwen3': DotProductAttention reads opt",
        ),
        (
            lambda: DotProductAttention.from_config({"model_type": "opt", "hidden_size": 8}),
            ConfigError,
            "model_type 'opt': the config has no field 'num_attention_heads'",
        ),
        (
            lambda: DotProductAttention.from_hf(torch.nn.Linear(2, 2)),
            TypeError,
            "layer: expected .*config, got Linear",
        ),
        (
            lambda: DotProductAttention.from_hf(
                OPTAttention(OPTConfig(hidden_size=8, num_attention_heads=2), layer_idx=0), head=2
            ),
            ValueError,
            "head: expected 0 to 1, got 2",
        ),
    ],
)
def test_bad_input_is_named(call, error, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_weights_are_no_narrower_than_float32(dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 2, 9, 16, generator=random).to(dtype)
    found = dot_product_weights(q, k, causal=True)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    scores = q.double() @ k.double().mT / 4
    hidden = torch.ones(9, 9, dtype=torch.bool).triu(1)
    exact = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    # sums of 16 products and of 9 exponentials, in float32 or wider; bfloat16 would be off by 1e-3
    assert (found.double() - exact).abs().max() < 1e-6


def test_weights_of_another_shape_are_refused() -> None:
    layer = OPTAttention(OPTConfig(hidden_size=8, num_attention_heads=2), layer_idx=0)
    layer.k_proj = torch.nn.Linear(8, 6)
    with pytest.raises(ValueError, match=r"k_proj.weight \[8, 8\] by the config, got \[6, 8\]"):
        DotProductAttention.from_hf(layer)
    layer.k_proj = torch.nn.Linear(8, 8, bias=False)
    with pytest.raises(ValueError, match=r"k_proj.bias \[8\] by the config, got None"):
        DotProductAttention.from_hf(layer)


def test_picture_and_about() -> None:
    assert doctest.testmod(module).failed == 0
    before = torch.get_rng_state()
    drawn = picture()
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers are its own"
    assert len(drawn.splitlines()) <= 30
    assert "D = 256    16." in drawn
    assert ABOUT.name == "dot_product"
