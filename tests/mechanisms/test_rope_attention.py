"""Rotary positions in a layer: GPT-J (64 numbers of 256, neighbours) and GPT-NeoX (halves)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from head_referees import (
    Peer,
    caught,
    judge_cached,
    judge_counts,
    judge_forward,
    judge_gradients,
    judge_shown,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.gpt_neox.configuration_gpt_neox import GPTNeoXConfig
from transformers.models.gpt_neox.modeling_gpt_neox import (
    GPTNeoXAttention,
    GPTNeoXRotaryEmbedding,
)
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as turn_halves
from transformers.models.gptj.configuration_gptj import GPTJConfig
from transformers.models.gptj.modeling_gptj import (
    GPTJAttention,
    GPTJRotaryEmbedding,
)
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as turn_neighbours

from attnscope.errors import ConfigError
from attnscope.mechanisms.rope import IMPLS, RotaryAttention, rotary_attention
from attnscope.positions import Rope
from attnscope.testing import budget, qkv

GPTJ_6B = {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "rotary_dim": 64}
NEOX_20B = {
    "model_type": "gpt_neox", "hidden_size": 6144, "num_attention_heads": 64,
    "num_hidden_layers": 44, "rotary_emb_base": 10000, "rotary_pct": 0.25,
    "max_position_embeddings": 2048,
}  # fmt: skip
"""The fields of attention in the two published files."""


class GPTJTables(GPTJRotaryEmbedding):
    """Its tables are float32 whatever x is; in float64 they are made anew."""

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if x.dtype != torch.float64:
            return super().forward(x, position_ids)
        exponents = torch.arange(0, self.pos_embd_dim, 2) / self.pos_embd_dim
        frequencies = (1.0 / 10000**exponents).double()  # float32 numbers, as both have them
        angles = position_ids[..., None].double() * frequencies
        return angles.sin(), angles.cos()


def gptj(**changed: Any) -> Peer:
    config = GPTJConfig(**({"n_embd": 96, "n_head": 6, "rotary_dim": 4} | changed))
    return Peer(GPTJAttention, GPTJTables, config)


def neox(**changed: Any) -> Peer:
    small = {"hidden_size": 96, "num_attention_heads": 6, "num_hidden_layers": 2}
    return Peer(GPTNeoXAttention, GPTNeoXRotaryEmbedding, GPTNeoXConfig(**(small | changed)))


PEERS = {
    "gptj": gptj,
    "gptj whole head": lambda: gptj(rotary_dim=16),
    "gptj 64 of 256": lambda: gptj(n_embd=512, n_head=2, rotary_dim=64),
    "neox": neox,
    "neox whole head": lambda: neox(rotary_pct=1.0),
    "neox without biases": lambda: neox(attention_bias=False),
    "neox stretched": lambda: neox(
        rope_parameters={
            "rope_type": "linear", "factor": 4.0, "rope_theta": 500.0, "partial_rotary_factor": 0.5,
        }
    ),
}  # fmt: skip


def renamed(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gradients by our names; of GPT-NeoX's [q, k, v] head by head, cut apart."""
    result = {}
    for name, tensor in found.items():
        if name.startswith("query_key_value"):
            blocks = tensor.unflatten(0, (6, 3, 16))
            for at, letter in enumerate("qkv"):
                result[f"{letter}_proj.{name.rpartition('.')[2]}"] = blocks[:, at].flatten(0, 1)
        else:
            result[name.replace("out_proj", "o_proj").replace("dense", "o_proj")] = tensor
    return result


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("tokens", [1, 2, 37, 131])
def test_the_output_is_that_of_transformers(name: str, tokens: int) -> None:
    peer = PEERS[name]()
    judge_forward(RotaryAttention.from_hf(peer.module), peer, tokens)


@pytest.mark.parametrize("name", ["gptj", "neox", "neox without biases"])
def test_the_gradients_are_those_of_transformers(name: str) -> None:
    peer = PEERS[name]()
    theirs = peer.gradients
    peer.gradients = lambda *x, **more: renamed(theirs(*x, **more))  # type: ignore[method-assign]
    judge_gradients(RotaryAttention.from_hf(peer.module), peer, 23)


@pytest.mark.parametrize("name", ["gptj", "neox"])
@pytest.mark.parametrize("chunks", [(), (1,), (7, 5, 3), (31,)])
def test_chunks_and_steps_through_the_cache_give_the_same(
    name: str, chunks: tuple[int, ...]
) -> None:
    peer = PEERS[name]()
    judge_cached(RotaryAttention.from_hf(peer.module), peer, 31, chunks)


@pytest.mark.parametrize("name", ["gptj", "neox"])
def test_counts_are_those_of_pytorch_and_of_real_tensors(name: str) -> None:
    peer = PEERS[name]()
    judge_counts(RotaryAttention.from_hf(peer.module), peer)


def test_the_published_layers() -> None:
    with torch.device("meta"):
        gptj_6b, neox_20b = (RotaryAttention.from_config(c) for c in (GPTJ_6B, NEOX_20B))
    assert (gptj_6b.shape.heads, gptj_6b.shape.width, gptj_6b.rope.rotary) == (16, 256, 64)
    assert gptj_6b.rope.interleaved
    assert gptj_6b.counts(1).parameters == 4 * 4096**2
    assert (neox_20b.shape.heads, neox_20b.shape.width, neox_20b.rope.rotary) == (64, 96, 24)
    assert not neox_20b.rope.interleaved
    assert neox_20b.counts(1).parameters == 4 * 6144 * 6145


def test_the_names_of_older_files_are_read() -> None:
    """`rotary_pct` and `rotary_emb_base`, which transformers' class turns into rope_parameters."""
    older = NEOX_20B | {"rotary_pct": 0.5, "rotary_emb_base": 3000}
    theirs = GPTNeoXConfig(**{n: v for n, v in older.items() if n != "model_type"})
    turns = GPTNeoXRotaryEmbedding.compute_default_rope_parameters(theirs)[0]
    with torch.device("meta"):
        rope = RotaryAttention.from_config(older).rope
    assert rope.frequencies == tuple(turns.tolist())
    assert rope.rotary == 48


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("queries", "turned"), [(19, 12), (19, 4), (5, 4), (1, 0)])
def test_the_function_turns_as_transformers_does(
    impl: str, interleaved: bool, queries: int, turned: int
) -> None:
    """q and k turned by the two models' own functions, then PyTorch's attention."""
    q, k, v = qkv(queries=queries, keys=19, heads=4, groups=2, width=12)
    rope = Rope.plain(12, rotary=turned, theta=100.0, interleaved=interleaved)

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(19).to(q.dtype)[None, :, None] * torch.tensor(
            rope.frequencies, dtype=q.dtype
        )
        both = []
        for x, angle in ((q, angles[:, 19 - queries :]), (k, angles)):
            if interleaved:
                part = turn_neighbours(
                    x[..., :turned].transpose(1, 2), angle.sin(), angle.cos()
                ).transpose(1, 2)
                both.append(torch.cat([part, x[..., turned:]], -1))
            else:
                wide = torch.cat([angle, angle], -1)
                both.append(turn_halves(x, x, wide.cos(), wide.sin())[0])
        seen = torch.ones(queries, 19, dtype=torch.bool).tril(19 - queries)
        return torch.nn.functional.scaled_dot_product_attention(
            *both, v, attn_mask=seen, enable_gqa=True
        )

    ours = rotary_attention(q, k, v, rope=rope, impl=impl)
    exact = theirs(q.double(), k.double(), v.double())
    budget(ours, peer=theirs(q, k, v), oracle=exact)


@given(
    shift=st.integers(1, 10**5), turned=st.sampled_from([2, 6, 12]), seed=st.integers(0, 999),
    interleaved=st.booleans(), impl=st.sampled_from(IMPLS),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_only_distances_matter_unless_values_are_turned(
    shift: int, turned: int, seed: int, interleaved: bool, impl: str
) -> None:
    random = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 2, 2, 7, 12, generator=random, dtype=torch.float64)
    rope = Rope.plain(12, rotary=turned, interleaved=interleaved)
    moved = torch.arange(7) + torch.tensor([[0], [shift]])  # the second text begins elsewhere
    plain, other = (
        rotary_attention(q, k, v, rope=rope, positions=p, impl=impl) for p in (None, moved)
    )
    # Angles of 1e5 in float64 are rounded to 1e-11 of a turn.
    assert torch.allclose(plain, other, rtol=0, atol=1e-9)
    wrong = rotary_attention(q, k, v, rope=rope, positions=moved, turn_values=True, impl=impl)
    assert not torch.allclose(wrong[1], plain[1], rtol=0, atol=1e-6)
    both = [
        rotary_attention(q, k, v, rope=rope, positions=moved, turn_values=True, impl=one)
        for one in IMPLS
    ]
    assert torch.allclose(*both, rtol=0, atol=1e-9)


@pytest.mark.parametrize("change", ["interleaved", "theta", "part", "scale"])
@pytest.mark.parametrize("name", ["gptj", "neox"])
def test_each_difference_is_noticed(name: str, change: str) -> None:
    peer = PEERS[name]()
    ours = RotaryAttention.from_hf(peer.module)
    swap = name == "neox"
    if change == "interleaved":
        ours.rope = Rope.plain(16, rotary=4, interleaved=swap)
    elif change == "theta":
        ours.rope = Rope.plain(16, rotary=4, theta=9000.0, interleaved=not swap)
    elif change == "part":
        ours.rope = Rope.plain(16, rotary=6, interleaved=not swap)
    else:
        ours.scale = 1.0
    assert caught(ours, peer)


def test_bad_arguments_are_named() -> None:
    q, k, v = qkv(queries=3, heads=2, groups=2, width=4)
    rope = Rope.plain(4)
    with pytest.raises(ValueError, match="impl: unknown 'flash'; there are reference, fast"):
        rotary_attention(q, k, v, rope=rope, impl="flash")
    with pytest.raises(ValueError, match="k: 3 queries cannot stand at the end of 2 keys"):
        rotary_attention(q, k[:, :, :2], v[:, :, :2], rope=rope)
    with pytest.raises(ValueError, match="rope: turns 6 numbers, but heads are 4 wide"):
        rotary_attention(q, k, v, rope=Rope.plain(6))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GPTJ_6B | {"model_type": "llama"}, "'llama': RotaryAttention reads gptj, gpt_neox"),
        (GPTJ_6B | {"n_head": 15}, "n_head: expected a divisor of n_embd 4096, got 15"),
        (GPTJ_6B | {"rotary_dim": 63}, "rotary_dim: expected an even number up to .* 256, got 63"),
        (GPTJ_6B | {"rotary_dim": 258}, "rotary_dim: expected an even .* width 256, got 258"),
        (GPTJ_6B | {"rotary_dim": None}, "rotary_dim: expected a positive whole number, got None"),
        (
            NEOX_20B | {"num_attention_heads": 65},
            "num_attention_heads: expected a divisor of hidden_size 6144, got 65",
        ),
        (NEOX_20B | {"rotary_pct": 1.5}, "partial_rotary_factor: expected a number from 0 to 1"),
        (
            {n: v for n, v in NEOX_20B.items() if n != "hidden_size"},
            "'gpt_neox': the config has no field 'hidden_size'",
        ),
    ],
)
def test_a_config_that_does_not_fit_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RotaryAttention.from_config(config)


def test_another_layer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"with a \.config, got Linear"):
        RotaryAttention.from_hf(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("kind", ["gptj", "gpt_neox"])
def test_what_configs_may_leave_out_is_what_transformers_fills_in(kind: str) -> None:
    theirs = {"gptj": GPTJConfig, "gpt_neox": GPTNeoXConfig}[kind]()
    if kind == "gptj":
        assert theirs.rotary_dim == 64
        return
    assert theirs.attention_bias is True
    assert theirs.rope_parameters["partial_rotary_factor"] == 0.25
    bare = {n: v for n, v in NEOX_20B.items() if not n.startswith("rotary")}
    with torch.device("meta"):
        assert RotaryAttention.from_config(bare).rope == RotaryAttention.from_config(NEOX_20B).rope


def test_the_picture_shows_its_laws() -> None:
    judge_shown("rope", "  v turned too (wrong)   4e+00", "law: a rotation keeps lengths")
