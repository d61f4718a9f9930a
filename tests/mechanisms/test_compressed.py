"""Compressed sparse attention against transformers' DeepseekV4Attention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import compressed_referees as referees
import pytest
import torch
from compressed_referees import CSA, HCA, KINDS, SLIDING
from hypothesis import given, settings
from hypothesis import strategies as some
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache

from attnscope.core import Request
from attnscope.core.chosen import SeenChosen
from attnscope.core.compressed_sizes import CompressedSizes
from attnscope.core.compressor import compress
from attnscope.core.mechanism import parameters_of
from attnscope.core.published_entries import published
from attnscope.errors import ConfigError
from attnscope.mechanisms import compressed
from attnscope.mechanisms.compressed import CompressedAttention
from attnscope.positions.rope import Rope
from attnscope.testing import budget

CONFIGS = Path(__file__).parents[2] / "src/attnscope/plan/data/configs"
SOME = settings(max_examples=30, deadline=None)  # the first call may compile


def answers(theirs: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The layer's own answer and that in float64, after checking that both chose alike."""
    other = referees.exact(theirs)
    with torch.no_grad(), referees.choices(theirs) as made, referees.choices(other) as made_wide:
        peer = referees.run(theirs, x)[0]
        with referees.wide():
            exact = referees.run(other, x.double())[0]
    for one, two in zip(made, made_wide, strict=True):
        assert torch.equal(one.sort().values, two.sort().values)
    return peer, exact


@pytest.mark.parametrize("changes", [{}, {"rope_parameters": referees.YARN}], ids=["plain", "yarn"])
@pytest.mark.parametrize("kind", KINDS)
def test_output_is_that_of_transformers(kind: str, changes: dict[str, Any]) -> None:
    theirs = referees.layer(kind, **changes)
    ours = CompressedAttention.from_hf(theirs)
    for tokens in (1, 2, 3, 4, 7, 31):
        x = referees.inputs(tokens)
        peer, exact = answers(theirs, x)
        with torch.no_grad():
            budget(ours(x), peer=peer, oracle=exact, what=f"{tokens} tokens")


@pytest.mark.parametrize("kind", [SLIDING, HCA])
def test_a_bfloat16_layer_is_as_exact_as_that_of_transformers(kind: str) -> None:
    """Not CSA, whose choice of entries may hang on a rounding. Norms and sinks stay float32."""
    theirs = referees.layer(kind).bfloat16()
    for name, weight in theirs.named_parameters():
        if "norm" in name or name in ("sinks", "compressor.position_bias"):
            weight.data = weight.data.float()
    ours = CompressedAttention.from_hf(theirs)
    x = referees.inputs(21).bfloat16()
    with torch.no_grad():
        assert ours(x).dtype == torch.bfloat16
        budget(ours(x), peer=referees.run(theirs, x)[0], oracle=referees.run_exact(theirs, x))


@pytest.mark.parametrize("kind", KINDS)
def test_prefill_chunks_and_steps_give_the_same_answer(kind: str) -> None:
    theirs = referees.layer(kind, rope_parameters=referees.YARN)
    ours = CompressedAttention.from_hf(theirs)
    x = referees.inputs(29)
    peer, exact = answers(theirs, x)
    for sizes in ([29], [7, 11, 1, 10], [1] * 29, [2] + [1] * 15 + [12]):
        cache, theirs_cache = ours.new_cache(2), DynamicCache(config=theirs.config)
        got, got_peer = [], []
        with torch.no_grad():
            for part in x.split(sizes, dim=1):
                got.append(ours(part, cache=cache))
                got_peer.append(referees.run(theirs, part, cache=theirs_cache)[0])
        stepped = torch.cat(got_peer, dim=1)
        worst = torch.where((stepped - exact).abs() > (peer - exact).abs(), stepped, peer)
        budget(torch.cat(got, dim=1), peer=worst, oracle=exact, what=f"in parts of {sizes}")
        assert cache.length == 29
        assert cache.nbytes == ours.counts(1, 28, dtype=torch.float32).kept_bytes * 2


@pytest.mark.parametrize("kind", [CSA, HCA])
def test_the_cache_holds_what_transformers_holds(kind: str) -> None:
    theirs = referees.layer(kind)
    ours = CompressedAttention.from_hf(theirs)
    cache, theirs_cache = ours.new_cache(2), DynamicCache(config=theirs.config)
    with torch.no_grad():
        for part in referees.inputs(23).split([5, 1, 1, 16], dim=1):
            ours(part, cache=cache)
            referees.run(theirs, part, cache=theirs_cache)
    held = theirs_cache.layers[theirs.layer_idx]
    tracks = {"compressor": cache.entries} | ({"indexer": cache.index} if kind == CSA else {})
    bytes_of = held.keys.nbytes + 2 * 16 * 4  # ours keeps one raw token more, see WindowCache
    for name, track in tracks.items():
        torch.testing.assert_close(track._entries.view(), held.compressed_kv[name])
        assert track.entries == held.entry_count[name]
        assert track.waiting == held.buffer_kv[name].shape[1]
        parts = [held.compressed_kv[name], held.buffer_kv[name], held.buffer_gate[name]]
        if kind == CSA:
            parts += [held.overlap_kv[name], held.overlap_gate[name]]
        assert track.nbytes == sum(part.nbytes for part in parts)
        bytes_of += track.nbytes
    assert cache.nbytes == bytes_of


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_transformers(kind: str) -> None:
    theirs = referees.layer(kind)
    ours, other = CompressedAttention.from_hf(theirs), referees.exact(theirs)
    x = referees.inputs(14)
    answers(theirs, x)
    toward = torch.randn(2, 14, 40, generator=torch.Generator().manual_seed(5))

    def gradients(module: torch.nn.Module, call: Any, dtype: torch.dtype) -> dict[str, Any]:
        given_x = x.to(dtype, copy=True).requires_grad_()
        call(given_x).backward(toward.to(dtype))
        return {"x": given_x.grad, **{n: p.grad for n, p in module.named_parameters()}}

    own = gradients(ours, ours, torch.float32)
    peer = gradients(theirs, lambda x: referees.run(theirs, x)[0], torch.float32)
    with referees.wide():
        exact = gradients(other, lambda x: referees.run(other, x)[0], torch.float64)
    assert own.keys() == peer.keys() == exact.keys()
    for name in own:
        if "indexer" in name:
            assert own[name] is None
            assert peer[name] is None or not peer[name].any()
        else:
            # 3 and not 2: sums over 28 tokens go in another order in the strips.
            budget(own[name], peer=peer[name], oracle=exact[name], what=f"d {name}", factor=3)


def test_the_chosen_entries_are_those_of_transformers() -> None:
    theirs = referees.layer(CSA)
    ours = CompressedAttention.from_hf(theirs)
    x, seen = referees.inputs(40), []
    with torch.no_grad(), referees.choices(theirs) as made:
        referees.run(theirs, x)
        ours(x, watch=seen.append)
    sight = seen[0].sight[:, 0, :, 40:]
    picked = made[0]
    expected = torch.zeros(2, 40, 14).scatter(-1, torch.where(picked < 0, 13, picked), 1.0).bool()
    expected[..., 13] = (picked == 13).any(-1)
    assert torch.equal(sight, expected[..., :13])
    assert torch.equal(sight.sum(-1), ((torch.arange(40) + 1) // 3).clamp(max=3).expand(2, 40))


@pytest.mark.parametrize("kind", KINDS)
def test_watch_sees_the_weights_of_transformers(kind: str) -> None:
    theirs = referees.layer(kind)
    ours = CompressedAttention.from_hf(theirs)
    x = referees.inputs(13)
    seen: list[SeenChosen] = []
    with torch.no_grad():
        ours(x, watch=seen.append)
        weights = referees.run(theirs, x)[1]
    rows = seen[0].attend(Request((), rows=tuple(range(13)))).rows
    assert rows is not None
    # Weights of at most 1, from scores of about 10 in float32.
    torch.testing.assert_close(rows, weights, rtol=0, atol=2e-6)
    assert (rows.sum(-1) < 1).all()  # the sink has the rest
    assert seen[0].k is seen[0].v


@pytest.mark.parametrize("kind", [CSA, HCA])
@pytest.mark.parametrize(
    "damage",
    ["leading", "halves", "not_back", "no_sinks", "window", "bias", "plain_mean", "theta", "eps"],
)
def test_a_damaged_layer_is_caught(kind: str, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = referees.layer(kind)
    ours = CompressedAttention.from_hf(theirs)
    x = referees.inputs(21)
    peer, exact = answers(theirs, x)
    turn = type(ours.rope).__call__
    if damage == "leading":
        monkeypatch.setattr(
            Rope, "__call__", lambda self, x, places, **_: turn(self, x, places, trailing=False)
        )
    elif damage == "halves":
        ours.rope = Rope(ours.rope.frequencies, interleaved=False)
    elif damage == "not_back":
        monkeypatch.setattr(Rope, "back", lambda self, x, places, **_: x)
    elif damage == "no_sinks":
        ours.sinks.data.fill_(-1e9)
    elif damage == "window":
        object.__setattr__(ours.sizes, "window", 6)
    elif damage == "bias":
        ours.compressor.position_bias.data = ours.compressor.position_bias.data.flip(0)
    elif damage == "plain_mean":
        monkeypatch.setattr(
            type(ours.compressor), "entries", lambda self, v, *_, **__: v.mean(2)[..., : self.width]
        )
    elif damage == "theta":
        ours.rope = Rope.plain(8, interleaved=True)
    else:
        ours.kv_norm.eps = 1e-2
    with torch.no_grad(), pytest.raises(AssertionError, match="off"):
        budget(ours(x), peer=peer, oracle=exact)


@SOME
@given(seed=some.integers(0, 300), at=some.integers(0, 16), kind=some.sampled_from(KINDS))
def test_a_later_token_cannot_matter(seed: int, at: int, kind: str) -> None:
    ours = CompressedAttention.from_hf(referees.layer(kind, seed=seed))
    x = referees.inputs(17, batch=1, seed=seed)
    changed = x.clone()
    changed[:, at] += 1
    with torch.no_grad():
        a, b = ours(x), ours(changed)
    assert torch.equal(a[:, :at], b[:, :at])
    assert (a[:, at] - b[:, at]).abs().max() > 1e-3


@SOME
@given(
    seed=some.integers(0, 10**6), groups=some.integers(1, 4), m=some.integers(1, 4),
    overlap=some.booleans(), cut=some.integers(0, 4),
)  # fmt: skip
def test_an_entry_is_a_convex_combination_and_may_be_made_in_parts(
    seed: int, groups: int, m: int, overlap: bool, cut: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    W = 6 if overlap else 3
    values, gates = (
        torch.randn(2, groups, m, W, generator=random, dtype=torch.float64) for _ in range(2)
    )
    bias = torch.randn(m, W, generator=random, dtype=torch.float64)
    whole = compress(values, gates, bias, overlap=overlap)
    assert whole.shape == (2, groups, 3)
    for w in range(groups):
        read = values[:, w, :, -3:]
        if overlap and w:
            read = torch.cat([values[:, w - 1, :, :3], read], dim=1)
        assert (whole[:, w] <= read.amax(1) + 1e-12).all()
        assert (whole[:, w] >= read.amin(1) - 1e-12).all()
    cut = min(cut, groups)
    before = (values[:, cut - 1, :, :3], gates[:, cut - 1, :, :3]) if overlap and cut else None
    parts = [
        compress(values[:, :cut], gates[:, :cut], bias, overlap=overlap),
        compress(values[:, cut:], gates[:, cut:], bias, overlap=overlap, before=before),
    ]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_real_shapes_have_the_parameters_of_the_real_class(kind: str) -> None:
    kind_of = {SLIDING: 0, CSA: 4, HCA: 128}
    ratios = json.loads((CONFIGS / "deepseek-v4-flash.json").read_text())["compress_ratios"]
    config = referees.DeepseekV4Config(compress_ratios=ratios, qk_rope_head_dim=64)
    index = ratios.index(kind_of[kind])
    with torch.device("meta"):
        theirs = referees.v4.DeepseekV4Attention(config, index)
    ours = CompressedAttention.from_config(config.to_dict(), layer=index, device="meta")
    assert {n: p.shape for n, p in ours.named_parameters()} == {
        n: p.shape for n, p in theirs.named_parameters()
    }
    counts = ours.counts(1, 2**20 - 1)
    assert counts.parameters == parameters_of(theirs)
    per_entry = {SLIDING: 0, CSA: (512 + 128) * 2, HCA: 512 * 2}[kind]
    assert counts.entry_bytes == per_entry
    grows = ours.counts(1, 2**20 + 127).kept_bytes - counts.kept_bytes
    assert grows == (per_entry * 128 // kind_of[kind] if kind_of[kind] else 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("tokens", "cached"), [(1, 0), (7, 0), (1, 12), (5, 12), (2, 4), (12, 0), (1, 2), (9, 20)]
)
def test_counted_flops_are_those_that_run(tokens: int, cached: int, kind: str) -> None:
    config = referees.config().to_dict()
    ours = CompressedAttention.from_config(config, layer=KINDS.index(kind), device="meta")
    cache = ours.new_cache()
    x = torch.empty(1, tokens + cached, 40, device="meta")
    with torch.no_grad():
        if cached:
            ours(x[:, :cached], cache=cache)
        with FlopCounterMode(display=False) as counter:
            ours(x[:, cached:], cache=cache)
    counts = ours.counts(tokens, cached, dtype=torch.float32)
    assert counts.projection_flops + counts.flops_dense == counter.get_total_flops()
    assert counts.kept_bytes == cache.nbytes
    # Pairs in sight, one by one.
    m, k = {SLIDING: (10**9, 0), CSA: (3, 3), HCA: (4, 10**9)}[kind]
    ends = range(cached + 1, cached + tokens + 1)
    scan = sum(t // m for t in ends) * 2 * 8 * 13 * (kind == CSA)
    assert counts.index_flops == scan
    assert counts.flops - scan == sum(min(t, 5) + min(t // m, k) for t in ends) * 4 * 4 * 16
    fixed = counts.kept_bytes - counts.fixed_bytes
    if cached + tokens >= 5:
        later = ours.counts(1, cached + tokens + 12 - 1, dtype=torch.float32)
        assert later.fixed_bytes == counts.fixed_bytes or not counts.fixed_bytes
        if kind != SLIDING and cached + tokens >= 12:
            assert later.kept_bytes - later.fixed_bytes - fixed == 12 // m * counts.entry_bytes


def test_v41_flash_keeps_890_bytes_per_token() -> None:
    config = json.loads((CONFIGS / "deepseek-v4.1-flash.json").read_text())
    found = published(config)
    assert (found.main, found.index) == (256 + 32, 64 + 4)
    assert found.entries_per_token == 2.5
    assert found.bytes_per_token == 890
    del config["compress_ratio_at_source"]["8"]
    with pytest.raises(ConfigError, match="a ratio of at least 1 for layer 8, got None"):
        published(config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_key_value_heads": 2}, "num_key_value_heads = 2, but one vector is key and value"),
        ({"layer_types": ["full_attention"] * 3}, "layer 1: expected sliding_attention"),
        ({"layer_types": None, "compress_ratios": [0, 5, 4]}, "layer 1: .* got 5"),
        ({"o_groups": 3}, "groups: 4 heads are not a multiple of 3"),
        ({"qk_rope_head_dim": 14}, "rope: expected an even number from 0 to 12, got 14"),
        ({"compress_rates": {CSA: 0}}, "ratio: expected at least 1, got 0"),
        ({"model_type": "deepseek_v41"}, "'deepseek_v41': CompressedAttention reads deepseek_v4"),
    ],
)
def test_odd_configs_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CompressedAttention.from_config({**referees.config().to_dict(), **change}, layer=1)


def test_an_excerpt_of_a_real_config_says_what_it_lacks() -> None:
    whole = json.loads((CONFIGS / "deepseek-v4-flash.json").read_text())
    config = {name: value for name, value in whole.items() if name != "o_groups"}
    with pytest.raises(ConfigError, match="no field 'o_groups'"):
        CompressedAttention.from_config(config, layer=2, device="meta")
    for layer, ratio in ((0, 0), (2, 4), (3, 128)):
        ours = CompressedAttention.from_config(whole, layer=layer, device="meta")
        assert (ours.sizes.ratio, ours.rope.rotary) == (ratio, 64)


@pytest.mark.parametrize(
    "name", ["o_groups", "o_lora_rank", "index_topk", "sliding_window", "head_dim", "q_lora_rank"]
)
def test_missing_fields_are_named(name: str) -> None:
    fields = referees.config().to_dict()
    del fields[name]
    with pytest.raises(ConfigError, match=f"'deepseek_v4'.*no field '{name}'"):
        CompressedAttention.from_config(fields, layer=1)


def test_wrong_arguments_are_named() -> None:
    ours = CompressedAttention.from_hf(referees.layer(CSA))
    x = torch.zeros(1, 4, 40)
    with pytest.raises(ValueError, match=r"x: expected \[B, T, 40\], got \[4, 40\]"):
        ours(x[0])
    with pytest.raises(ValueError, match="positions: entries stand at multiples of 3"):
        ours(x, positions=torch.arange(4) + 1)
    assert torch.equal(ours(x, positions=torch.arange(4)), ours(x))
    with pytest.raises(ValueError, match="rope: expected one of 8 numbers, got 4"):
        CompressedAttention(ours.sizes, rope=Rope.plain(4))
    with pytest.raises(ValueError, match="this cache keeps no entries; make it with"):
        ours(x, cache=CompressedAttention.from_hf(referees.layer(SLIDING)).new_cache())
    sizes = dict(model=8, heads=2, width=4, rope=2, query_rank=4, groups=1, group_rank=2, window=0)
    with pytest.raises(ValueError, match="window: expected at least 1, got 0"):
        CompressedSizes(**sizes)
    with pytest.raises(ValueError, match=r"kind: expected sliding_attention, .* got 'dense'"):
        CompressedSizes(**{**sizes, "window": 1}, kind="dense")


def test_the_picture_is_computed() -> None:
    text = compressed.picture()
    assert float(text.rpartition(" ")[2]) < 1e-13
    assert len(text.splitlines()) <= 30
