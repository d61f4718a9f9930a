"""The gated delta layer against transformers' two, its cache, its counts and its errors."""

from __future__ import annotations

import copy

import pytest
import torch
from delta_referees import LAYERS, PeerLayer, gradients
from head_referees import InFloat64, real_config
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache

from attnscope.caches import FullCache, StateCache
from attnscope.core.delta_parts import DeltaShape
from attnscope.errors import ConfigError
from attnscope.mechanisms.gated_delta import ABOUT, GatedDeltaNet, picture, recall
from attnscope.testing import budget

KINDS = tuple(LAYERS)
MIB = 2**20


def judge(ours: GatedDeltaNet, peer: PeerLayer, tokens: int) -> None:
    x = peer.inputs(tokens)
    with torch.no_grad():
        budget(ours(x), peer=peer.module(x), oracle=peer.exact(x), what=f"{tokens} tokens")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [1, 2, 3, 17, 66])
def test_output_is_that_of_transformers(kind: str, tokens: int) -> None:
    peer = PeerLayer(kind)
    judge(GatedDeltaNet.from_hf(peer.module), peer, tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16(kind: str) -> None:
    peer = PeerLayer(kind, dtype=torch.bfloat16)
    ours = GatedDeltaNet.from_hf(peer.module)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    judge(ours, peer, 29)


@pytest.mark.parametrize("kind", KINDS)
def test_other_widths(kind: str) -> None:
    sizes = {"linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_value_head_dim": 5}
    peer = PeerLayer(kind, **sizes, linear_conv_kernel_dim=2, rms_norm_eps=1e-3)
    judge(GatedDeltaNet.from_hf(peer.module), peer, 31)


@pytest.mark.parametrize("name", ["qwen3.8-27b", "qwen3-next-80b-a3b"])
def test_heads_of_real_widths(name: str) -> None:
    """The published head widths, taps and heads per key head; fewer heads and a narrow model."""
    config = real_config(name)
    heads = config["linear_num_value_heads"] // config["linear_num_key_heads"]
    kind = "qwen3_next" if "next" in name else "qwen3_5"
    sizes = {n: config[n] for n in ("linear_key_head_dim", "linear_value_head_dim",
                                    "linear_conv_kernel_dim")}  # fmt: skip
    peer = PeerLayer(
        kind, **sizes, hidden_size=64, linear_num_key_heads=2, linear_num_value_heads=2 * heads
    )
    judge(GatedDeltaNet.from_hf(peer.module), peer, 70)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [1, 19])
def test_gradients_are_those_of_transformers(kind: str, tokens: int) -> None:
    """Of x, and by way of Qwen3-Next's two matrices of every weight's rows."""
    peer = PeerLayer(kind)
    x, gradient = peer.inputs(tokens), peer.inputs(tokens, seed=1)
    ours = GatedDeltaNet.from_hf(peer.module)
    (found,) = gradients(ours, [x], gradient)
    (theirs,) = gradients(peer.module, [x], gradient)
    wide = GatedDeltaNet.from_hf(peer.wide())
    (exact,) = gradients(wide, [x.double()], gradient.double())
    # Three times the peer's error: see head_referees.judge_gradients.
    budget(found, peer=theirs, oracle=exact, what="gradient of x", factor=3)
    if kind == "qwen3_5":
        names = [name for name, _ in ours.named_parameters()]
        for name in names:
            three = []
            for module, dtype in (
                (ours, torch.float32), (peer.module, torch.float32), (wide, torch.float64),
            ):  # fmt: skip
                weight = module.get_parameter(name)
                (by,) = torch.autograd.grad(module(x.to(dtype)), weight, gradient.to(dtype))
                three.append(by)
            what = f"gradient of {name}"
            budget(three[0], peer=three[1], oracle=three[2], what=what, factor=3)


def test_the_oracle_of_gradients_is_right() -> None:
    """In float64 our layer and transformers' differ by roundings of float64 alone."""
    peer = PeerLayer("qwen3_5")
    x = peer.inputs(19).double()
    ours = GatedDeltaNet.from_hf(peer.wide())
    with torch.no_grad():
        # Outputs near 1; 1e-11 is some ten thousand roundings of float64.
        assert torch.allclose(ours(x), peer.exact(x), rtol=0, atol=1e-11)


# The cache


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pieces", [(40,), (7, 1, 30, 2), (1,) * 12, (3, 2, 1, 1, 25)], ids=str)
def test_prefill_chunks_and_steps_are_one(kind: str, pieces: tuple[int, ...]) -> None:
    peer = PeerLayer(kind)
    ours = GatedDeltaNet.from_hf(peer.module)
    x, cache = peer.inputs(sum(pieces)), ours.new_cache(2)
    theirs = DynamicCache(config=peer.config)
    with torch.no_grad():
        y = torch.cat([ours(part, cache=cache) for part in x.split(pieces, 1)], 1)
        budget(y, peer=peer.module(x), oracle=peer.exact(x), what="output")
        for part in x.split(pieces, 1):
            peer.module(part, cache=theirs)
        exact = DynamicCache(config=peer.config)
        with InFloat64():
            peer.wide()(x.double(), cache=exact)
    assert cache.length == sum(pieces)
    state, conv = theirs.layers[0].recurrent_states[0], theirs.layers[0].conv_states[0]
    true = exact.layers[0].recurrent_states[0]
    assert cache.state is not None
    assert torch.equal(cache.conv, conv)
    budget(cache.state, peer=state, oracle=true, what="state")
    assert cache.nbytes == state.nbytes + conv.nbytes
    assert cache.nbytes == 2 * ours.counts(1, dtype=torch.float32).kept_bytes


def test_a_cache_that_was_never_filled_will_do() -> None:
    ours, x = GatedDeltaNet(DeltaShape(8, 1, 2, 4, 16)), torch.randn(1, 6, 8)
    fresh, empty = ours.new_cache(), StateCache()
    with torch.no_grad():
        assert torch.equal(ours(x, cache=fresh), ours(x, cache=empty))
    assert torch.equal(fresh.state, empty.state)
    assert fresh.nbytes == empty.nbytes


@pytest.mark.parametrize(
    ("given", "conv", "state"),
    [
        (None, torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16, torch.float32),
        (torch.float64, torch.float64, torch.float64),
    ],
)  # fmt: skip
def test_a_new_cache_has_the_dtypes_asked_for(
    given: torch.dtype | None, conv: torch.dtype, state: torch.dtype
) -> None:
    ours = GatedDeltaNet(DeltaShape(8, 1, 2, 4, 16, 3))
    cache = ours.new_cache(5, dtype=given)
    assert (cache.conv.dtype, cache.state.dtype) == (conv, state)
    assert cache.conv.shape == (5, 2 * 4 + 2 * 16, 3)
    assert cache.state.shape == (5, 2, 4, 16)
    assert not cache.conv.any()
    assert not cache.state.any()
    assert cache.length == 0
    kind = torch.float32 if given is None else given
    assert cache.nbytes == 5 * ours.counts(1, dtype=kind).kept_bytes


def test_new_weights_fade_from_hardly_to_within_a_token() -> None:
    """As transformers' layer begins: A from a uniform draw up to 16, dt_bias of ones, one eps."""
    torch.manual_seed(0)
    ours = GatedDeltaNet(DeltaShape(8, 1, 512, 4, 16))
    rates = ours.A_log.detach().exp()
    assert 0.0099 < float(rates.min()) < 0.5
    assert 15.5 < float(rates.max()) < 16.01
    assert float(rates.mean()) == pytest.approx(8, abs=0.6)  # 512 draws: 0.2 is one deviation
    assert bool((ours.dt_bias == 1).all())
    assert ours.norm.eps == LAYERS["qwen3_5"][1]().rms_norm_eps


def test_a_bfloat16_model_keeps_a_float32_state() -> None:
    ours = GatedDeltaNet(DeltaShape(8, 1, 2, 4, 16)).bfloat16()
    cache = ours.new_cache()
    for tokens in (5, 1):
        ours(torch.randn(1, tokens, 8, dtype=torch.bfloat16), cache=cache)
        assert cache.state.dtype == torch.float32
        assert cache.conv.dtype == torch.bfloat16


def test_the_cache_holds_what_the_real_model_s_would() -> None:
    """144 MiB of state and 3.75 MiB of inputs, from the published config, at any length."""
    config = real_config("qwen3.8-27b")
    linear = [i for i, kind in enumerate(config["layer_types"]) if kind == "linear_attention"]
    assert len(linear) == 48
    state = conv = 0
    for layer in linear:
        with torch.device("meta"):
            ours = GatedDeltaNet.from_config(config, layer=layer).bfloat16()
        cache = ours.new_cache()
        ours(torch.zeros(1, 70, 5120, device="meta", dtype=torch.bfloat16), cache=cache)
        state, conv = state + cache.state.nbytes, conv + cache.conv.nbytes
        counts = ours.counts(70, 1000)
        assert counts.kept_bytes == counts.fixed_bytes == cache.nbytes
        assert counts.bytes_per_token == 0
    assert state == 48 * 48 * 128 * 128 * 4 == 144 * MIB
    assert conv == 3.75 * MIB


# Counts


@pytest.mark.parametrize("tokens", [1, 2, 64, 65, 200])
def test_flops_are_those_that_pytorch_counts(tokens: int) -> None:
    ours = GatedDeltaNet(DeltaShape(24, 2, 6, 8, 16)).to("meta")

    def solve(a, b, *_, out_shape=None, **__):  # type: ignore[no-untyped-def]
        """n^2 m for a triangle of n and m right-hand sides; PyTorch has no formula for it."""
        *many, n, _ = a  # b is one for all of them
        return torch.Size(many).numel() * n * n * b[-1]

    mapping = {torch.ops.aten.linalg_solve_triangular: solve}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter, torch.no_grad():
        ours(torch.zeros(1, tokens, 24, device="meta"))
    counts = ours.counts(tokens)
    assert counts.projection_flops + counts.flops_dense == counter.get_total_flops()
    assert counts.flops == 6 * 6 * 8 * 16 * tokens <= counts.flops_dense
    assert counts == ours.counts(tokens, 10_000)


def test_parameters_are_those_of_the_real_layer() -> None:
    config = real_config("qwen3.8-27b")
    layer, kind = LAYERS["qwen3_5"]
    with torch.device("meta"):
        theirs = layer(kind(**config), 0)
        ours = GatedDeltaNet.from_config(config)
    assert ours.counts(1).parameters == sum(p.numel() for p in theirs.parameters())
    assert {n: p.shape for n, p in ours.named_parameters()} == {
        n: p.shape for n, p in theirs.named_parameters()
    }
    assert list(ours.in_proj_qkv.weight.shape) == [2 * 16 * 128 + 48 * 128, 5120]


# Damage, and bad input


@pytest.mark.parametrize("name", ["in_proj_a.weight", "A_log", "conv1d.weight", "norm.weight"])
def test_a_damaged_weight_is_caught(name: str) -> None:
    peer = PeerLayer("qwen3_5")
    ours = GatedDeltaNet.from_hf(peer.module)
    ours.get_parameter(name).data *= 1.001
    with pytest.raises(AssertionError, match="are off"):
        judge(ours, peer, 30)


def test_the_gate_comes_after_the_norm() -> None:
    peer = PeerLayer("qwen3_5")
    ours = GatedDeltaNet.from_hf(peer.module)
    after = ours.norm
    ours.norm.forward = lambda x, z: type(after).forward(after, x * torch.nn.functional.silu(z), z)
    with pytest.raises(AssertionError, match="are off"):
        judge(ours, peer, 30)


def test_configs_that_do_not_do() -> None:
    config = real_config("qwen3.8-27b")
    with pytest.raises(ConfigError, match="layer 3 is full_attention, and not linear_attention"):
        GatedDeltaNet.from_config(config, layer=3)
    for name in ("linear_num_key_heads", "linear_conv_kernel_dim", "hidden_size"):
        less = {n: v for n, v in config.items() if n != name}
        with pytest.raises(ConfigError, match=f"'qwen3_5_text': the config has no field '{name}'"):
            GatedDeltaNet.from_config(less)
    with pytest.raises(ConfigError, match="GatedDeltaNet reads qwen3_next, qwen3_5_text"):
        GatedDeltaNet.from_config(config | {"model_type": "llama"})
    with pytest.raises(ConfigError, match="multiple of the 16 key heads, got 40"):
        GatedDeltaNet.from_config(config | {"linear_num_value_heads": 40, "hidden_size": 8})
    with pytest.raises(ConfigError, match="hidden_act: expected 'silu', got 'gelu'"):
        GatedDeltaNet.from_config(config | {"hidden_act": "gelu"})


def test_a_nested_config_and_a_later_layer() -> None:
    config = real_config("qwen3-next-80b-a3b") | {"hidden_size": 32, "rms_norm_eps": 1e-3}
    nested = {"model_type": "qwen3_next", "text_config": config}
    ours = GatedDeltaNet.from_config(nested, layer=46)
    assert ours.norm.eps == 1e-3
    assert ours.shape == DeltaShape(32, 16, 32, 128, 128, 4)


def test_layers_that_do_not_do() -> None:
    with pytest.raises(TypeError, match="Linear has no hidden_size, num_k_heads"):
        GatedDeltaNet.from_hf(torch.nn.Linear(2, 2))
    peer = PeerLayer("qwen3_5").module
    odd = copy.deepcopy(peer)
    odd.activation = "gelu"
    with pytest.raises(ValueError, match="layer: expected activation 'silu', got 'gelu'"):
        GatedDeltaNet.from_hf(odd)
    odd = copy.deepcopy(peer)
    odd.extra = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(ValueError, match="missing: none; without a place: extra"):
        GatedDeltaNet.from_hf(odd)
    odd = copy.deepcopy(peer)
    odd.dt_bias = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(ValueError, match=r"expects dt_bias of shape \[6\], got \[1\]"):
        GatedDeltaNet.from_hf(odd)


def test_bad_arguments_are_named() -> None:
    ours = GatedDeltaNet(DeltaShape(8, 1, 2, 4, 16))
    with pytest.raises(ValueError, match=r"x: expected \[B, T, 8\], got \[1, 3, 7\]"):
        ours(torch.zeros(1, 3, 7))
    with pytest.raises(TypeError, match="cache: expected a StateCache, got FullCache"):
        ours(torch.zeros(1, 3, 8), cache=FullCache())
    with pytest.raises(ValueError, match="x: expected the batch of the cache, 2, got 1"):
        ours(torch.zeros(1, 3, 8), cache=ours.new_cache(2))
    with pytest.raises(ValueError, match=r"positions: expected \[3\] or \[1, 3\]"):
        ours(torch.zeros(1, 3, 8), positions=torch.arange(4))
    with pytest.raises(ValueError, match="heads: expected value heads that are a multiple of"):
        DeltaShape(8, 2, 3, 4, 16)
    with pytest.raises(ValueError, match="taps: expected at least 1, got 0"):
        DeltaShape(8, 1, 2, 4, 16, 0)
    with pytest.raises(ValueError, match="rule: expected 'delta' or 'sum', got 'mean'"):
        recall(3, rule="mean")


def test_a_failed_call_leaves_the_cache_as_it_was() -> None:
    ours = GatedDeltaNet(DeltaShape(8, 1, 2, 4, 16))
    cache = ours.new_cache(2)
    ours(torch.randn(2, 3, 8), cache=cache)
    state = cache.state.clone()
    with pytest.raises(ValueError, match="batch of the cache"):
        ours(torch.zeros(1, 3, 8), cache=cache)
    assert torch.equal(cache.state, state)
    assert cache.length == 3


def test_the_picture_is_computed() -> None:
    shown = picture()
    assert "144 MiB of state, 3.75 MiB for the convolution" in shown
    assert len(shown.splitlines()) <= 30
    assert ABOUT.name == "gated_delta"
    few, many = recall(4), recall(200)
    assert few.mean() > 0.98
    assert many[-1] == pytest.approx(1.0)
    assert many[-8:].mean() > many[:100].mean() + 0.5
