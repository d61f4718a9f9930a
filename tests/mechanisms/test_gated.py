"""The output gate: Qwen3-Next and Qwen3.5 against transformers, and what a gate can do."""

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
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5Attention,
    Qwen3_5TextRotaryEmbedding,
)
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
from transformers.models.qwen3_next.modeling_qwen3_next import (
    Qwen3NextAttention,
    Qwen3NextRotaryEmbedding,
)

from attnscope.core.heads import HeadShape
from attnscope.core.model_fields import ModelFields
from attnscope.errors import ConfigError
from attnscope.mechanisms.gated import (
    ABOUT,
    FAMILIES,
    GatedAttention,
    gated_attention,
)
from attnscope.positions import Rope
from attnscope.testing import budget, qkv

SMALL = {
    "hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16,
    "num_hidden_layers": 8,
}  # fmt: skip


def qwen3_next(*, dtype: torch.dtype = torch.float32, **changed) -> Peer:  # type: ignore[no-untyped-def]
    config = Qwen3NextConfig(**(SMALL | changed))
    return Peer(Qwen3NextAttention, Qwen3NextRotaryEmbedding, config, layer=3, dtype=dtype)


def qwen3_5() -> Peer:
    config = Qwen3_5TextConfig(**SMALL)
    return Peer(Qwen3_5Attention, Qwen3_5TextRotaryEmbedding, config, layer=7)


PEERS = {
    "qwen3_next": qwen3_next,
    "biases": lambda: qwen3_next(attention_bias=True),
    "qwen3_5": qwen3_5,
}


def build(name: str) -> tuple[GatedAttention, Peer]:
    peer = PEERS[name]()
    return GatedAttention.from_hf(peer.module), peer


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("tokens", [1, 2, 37, 131])
def test_the_output_is_that_of_transformers(name: str, tokens: int) -> None:
    judge_forward(*build(name), tokens)


@pytest.mark.parametrize("name", PEERS)
def test_the_gradients_are_those_of_transformers(name: str) -> None:
    judge_gradients(*build(name), 23)


@pytest.mark.parametrize("chunks", [(), (1,), (7, 5, 3), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(chunks: tuple[int, ...]) -> None:
    judge_cached(*build("qwen3_next"), 31, chunks)


def test_bfloat16_is_as_close_as_transformers() -> None:
    peer = qwen3_next(dtype=torch.bfloat16)
    judge_forward(GatedAttention.from_hf(peer.module), peer, 29)


def test_counts_are_those_of_pytorch_and_of_real_tensors() -> None:
    judge_counts(*build("biases"))


@pytest.mark.parametrize("change", ["order", "no gate", "silu", "rotary", "norm"])
def test_each_difference_is_noticed(change: str) -> None:
    ours, peer = build("qwen3_next")
    if change == "order":
        whole = ours.project

        def swapped(x):  # type: ignore[no-untyped-def]
            q, k, v, gate = whole(x)
            return gate.unflatten(-1, (6, 16)).transpose(1, 2), k, v, q.transpose(1, 2).flatten(2)

        ours.project = swapped
    elif change == "no gate":
        ours.finish = lambda heads, gate: ours.o_proj(heads)
    elif change == "silu":
        ours.finish = lambda heads, gate: ours.o_proj(heads * torch.nn.functional.silu(gate))
    elif change == "rotary":
        ours.rope = Rope.plain(16)
    else:
        ours.q_norm.offset = 0.0
    assert caught(ours, peer)


def test_qwen3_next_as_published_turns_64_of_256() -> None:
    config = real_config("qwen3-next-80b-a3b")
    ours = GatedAttention.from_config(config, layer=47)
    assert ours.q_proj.weight.shape == (2 * 16 * 256, 2048)
    assert ours.k_proj.weight.shape == (2 * 256, 2048)
    assert ours.rope.rotary == 64
    peer = Peer(Qwen3NextAttention, Qwen3NextRotaryEmbedding, Qwen3NextConfig(**config), layer=47)
    judge_forward(ours.load(peer.module.state_dict()), peer, 11)


def test_both_norms_have_the_eps_of_the_config() -> None:
    peer = qwen3_next(rms_norm_eps=0.3)  # as large as the mean square that it stands beside
    ours = GatedAttention.from_hf(peer.module)
    judge_forward(ours, peer, 11)
    for norm in (ours.q_norm, ours.k_norm):
        norm.eps = 1e-6
        assert caught(ours, peer)
        norm.eps = 0.3


def test_qwen38_keeps_what_the_text_says() -> None:
    config = real_config("qwen3.8-27b")
    full = [i for i, kind in enumerate(config["layer_types"]) if kind == "full_attention"]
    assert len(full) == 16
    layers = [on_meta(GatedAttention, config, layer=i) for i in full]
    per_token = sum(layer.counts(1).bytes_per_token for layer in layers)
    assert per_token == 64 * 1024
    assert per_token * 262_144 == 16 * 1024**3
    assert layers[0].rope.rotary == 64
    # What ABOUT says the gate costs: H D C numbers.
    ungated = HeadShape.of(ModelFields(config, families=FAMILIES))
    plain = 5120 * (2 * 24 * 256 + 2 * 4 * 256)
    assert ungated.heads * ungated.width * ungated.model == 31_457_280
    assert layers[0].counts(1).parameters == plain + 31_457_280 + 2 * 256
    assert "31,457,280" in ABOUT.stuck


def test_the_function_is_attention_times_a_sigmoid() -> None:
    q, k, v = qkv(queries=13, heads=4, groups=2)
    gate = torch.randn(q.shape[:3] + v.shape[3:], generator=torch.Generator().manual_seed(2)) * 3

    def theirs(q, k, v, gate):  # type: ignore[no-untyped-def]
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )
        return out / (1 + torch.exp(-gate))

    wide = (x.double() for x in (q, k, v, gate))
    budget(gated_attention(q, k, v, gate), peer=theirs(q, k, v, gate), oracle=theirs(*wide))


@given(z=st.floats(-40, 40), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_a_gate_only_takes_away(z: float, seed: int) -> None:
    """Every number keeps its sign and is no larger; far below 0 the head brings nothing."""
    random = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, 2, 5, 4, generator=random, dtype=torch.float64)
    whole = gated_attention(q, k, v, torch.full((1, 2, 5, 1), torch.inf, dtype=torch.float64))
    taken = gated_attention(q, k, v, torch.full((1, 2, 5, 1), z, dtype=torch.float64))
    assert ((taken * whole) >= 0).all()
    assert (taken.abs() <= whole.abs()).all()
    if z < -35:
        assert float(taken.abs().max()) < 1e-14


@pytest.mark.parametrize(
    ("layer", "changed", "message"),
    [
        (0, {}, "layer 0 is of type linear_attention, which gated_delta builds; one in 4 .* is "
                "layer 3"),
        (3, {"attn_output_gate": False}, r"attn_output_gate is false; qk_norm\.QKNormAttention"),
        (3, {"model_type": "qwen3"}, "GatedAttention reads qwen3_next, qwen3_5_text"),
        (48, {}, "layer 48 is not among its 48 layers"),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_is_refused(layer: int, changed: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GatedAttention.from_config(real_config("qwen3-next-80b-a3b", **changed), layer=layer)


def test_what_configs_may_leave_out_is_what_transformers_fills_in() -> None:
    judge_families("gated")


def test_the_picture_shows_the_law() -> None:
    judge_shown("gated", "law: what is taken sums to sigmoid(z)", "weights 30 / 41 / 29 %")
