"""Multi-head latent attention against transformers' DeepseekV2Attention and DeepseekV3Attention."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import latent_referees as referees
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache

from attnscope.core import Request
from attnscope.core.latent_parts import softmax_scale
from attnscope.core.mechanism import Seen, parameters_of
from attnscope.errors import ConfigError
from attnscope.mechanisms import latent
from attnscope.mechanisms.latent import LatentAttention, cheaper
from attnscope.positions.rope import Rope
from attnscope.testing import budget

SOME = settings(max_examples=30, deadline=None)  # the first call may compile
CONFIGS = Path(__file__).parents[2] / "src/attnscope/plan/data/configs"
FORMS = ("expanded", "absorbed")


def oracle(theirs: Any, x: torch.Tensor) -> torch.Tensor:
    """DeepSeek-V3's class in float64: V2's is the same function, but rotates in float32 always."""
    as_v3 = theirs
    if type(theirs).__name__ == "DeepseekV2Attention":
        fields = {k: v for k, v in theirs.config.to_dict().items() if k in referees.SMALL}
        extra = {k: theirs.config.to_dict()[k] for k in ("rope_parameters", "attention_bias")}
        as_v3 = referees.layer("v3", **{**fields, **extra})
        as_v3.load_state_dict(theirs.state_dict())
    return referees.run(referees.exact(as_v3), "v3", x.double())[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", referees.SHAPES)
@pytest.mark.parametrize("family", ["v2", "v3"])
def test_output_is_that_of_transformers(family: str, shape: str, form: str) -> None:
    theirs = referees.layer(family, **referees.SHAPES[shape])
    ours = LatentAttention.from_hf(theirs, impl=form)
    for tokens in (1, 7, 33):
        x = referees.inputs(theirs.config, tokens)
        with torch.no_grad():
            peer = referees.run(theirs, family, x)[0]
            budget(ours(x), peer=peer, oracle=oracle(theirs, x), what=f"{tokens} tokens")


def test_half_split_rotation_is_served_where_the_config_asks_for_it() -> None:
    theirs = referees.layer("v3", rope_interleave=False)
    x = referees.inputs(theirs.config, 19)
    with torch.no_grad():
        ours = LatentAttention.from_hf(theirs)(x)
        budget(ours, peer=referees.run(theirs, "v3", x)[0], oracle=oracle(theirs, x))


@pytest.mark.parametrize("form", FORMS)
def test_a_bfloat16_layer_is_as_exact_as_that_of_transformers(form: str) -> None:
    theirs = referees.layer("v3", **referees.SHAPES["yarn"]).bfloat16()
    ours = LatentAttention.from_hf(theirs, impl=form)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    x = referees.inputs(theirs.config, 21).bfloat16()
    with torch.no_grad():
        assert ours(x).dtype == torch.bfloat16
        budget(ours(x), peer=referees.run(theirs, "v3", x)[0], oracle=oracle(theirs, x))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", ["v2", "v3"])
def test_gradients_are_those_of_transformers(family: str, form: str) -> None:
    theirs = referees.layer(family, **referees.SHAPES["yarn"], attention_bias=True)
    ours = LatentAttention.from_hf(theirs, impl=form)
    as_v3 = referees.layer("v3", **referees.SHAPES["yarn"], attention_bias=True)
    as_v3.load_state_dict(theirs.state_dict())
    wide = referees.exact(as_v3)
    x = referees.inputs(theirs.config, 13)
    toward = torch.randn(2, 13, 40, generator=torch.Generator().manual_seed(5))

    def gradients(module: torch.nn.Module, call: Any, dtype: torch.dtype) -> dict[str, Any]:
        given_x = x.to(dtype, copy=True).requires_grad_()
        call(given_x).backward(toward.to(dtype))
        return {"x": given_x.grad, **{n: p.grad for n, p in module.named_parameters()}}

    own = gradients(ours, ours, torch.float32)
    peer = gradients(theirs, lambda x: referees.run(theirs, family, x)[0], torch.float32)
    exact = gradients(wide, lambda x: referees.run(wide, "v3", x)[0], torch.float64)
    assert own.keys() == peer.keys() == exact.keys()
    for name in own:
        # 3 and not 2: sums of gradients over 26 tokens go in another order when absorbed.
        budget(own[name], peer=peer[name], oracle=exact[name], what=f"d {name}", factor=3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", ["v2", "v3"])
def test_prefill_chunks_and_steps_give_the_same_answer(family: str, form: str) -> None:
    theirs = referees.layer(family, **referees.SHAPES["yarn"])
    ours = LatentAttention.from_hf(theirs, impl=form)
    x = referees.inputs(theirs.config, 23)
    with torch.no_grad():
        exact, peer = oracle(theirs, x), referees.run(theirs, family, x)[0]
        for sizes in ([23], [7, 11, 5], [1] * 23, [9] + [1] * 14):
            cache, theirs_cache = ours.new_cache(2), DynamicCache(config=theirs.config)
            got, got_peer = [], []
            for part in x.split(sizes, dim=1):
                got.append(ours(part, cache=cache))
                got_peer.append(referees.run(theirs, family, part, cache=theirs_cache)[0])
            stepped = torch.cat(got_peer, dim=1)
            worst = torch.where((stepped - exact).abs() > (peer - exact).abs(), stepped, peer)
            budget(torch.cat(got, dim=1), peer=worst, oracle=exact, what=f"in parts of {sizes}")
            assert cache.length == 23


def test_the_cache_holds_the_latents_that_transformers_holds() -> None:
    theirs = referees.layer("v3")
    ours = LatentAttention.from_hf(theirs)
    cache, theirs_cache = ours.new_cache(2), DynamicCache(config=theirs.config)
    with torch.no_grad():
        for part in referees.inputs(theirs.config, 12).split([5, 1, 6], dim=1):
            ours(part, cache=cache)
            referees.run(theirs, "v3", part, cache=theirs_cache)
    held = theirs_cache.layers[0]
    assert cache.latents is not None
    assert cache.rope_keys is not None
    torch.testing.assert_close(cache.latents, held.keys[:, 0])
    # transformers sorts the rotated pairs into halves; ours stay pairs.
    pairs = held.values[:, 0].unflatten(-1, (2, -1)).mT.flatten(-2)
    torch.testing.assert_close(cache.rope_keys, pairs)
    assert cache.nbytes == held.keys.nbytes + held.values.nbytes == 2 * 12 * (16 + 8) * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_absorbed_equals_expanded(dtype: torch.dtype) -> None:
    theirs = referees.layer("v3", num_attention_heads=5)
    ours = LatentAttention.from_hf(theirs).to(dtype)
    wide = copy.deepcopy(ours).double()
    with torch.no_grad():
        for tokens, cached in ((17, 0), (1, 30), (6, 11)):
            x = referees.inputs(theirs.config, tokens + cached).to(dtype)
            out = {}
            for name, module in (("ours", ours), ("exact", wide)):
                for form in FORMS:
                    cache, module.impl = module.new_cache(2), form
                    given_x = x.to(module.o_proj.weight.dtype)
                    if cached:
                        module(given_x[:, :cached], cache=cache)
                    out[name, form] = module(given_x[:, cached:], cache=cache)
            # Both in float64: rounding of sums of some tens of numbers of size 1 to 10.
            torch.testing.assert_close(
                out["exact", "absorbed"], out["exact", "expanded"], rtol=0, atol=1e-13
            )
            if dtype != torch.float64:
                # Each is the other's peer. 4, since in bfloat16 the two round at other places.
                for a, b in (FORMS, FORMS[::-1]):
                    exact = out["exact", "expanded"]
                    budget(out["ours", a], peer=out["ours", b], oracle=exact, factor=4)


def test_positions_may_be_given_and_only_their_differences_matter() -> None:
    ours = LatentAttention.from_hf(referees.layer("v3")).double()
    x = referees.inputs(referees.config("v3"), 9).double()
    with torch.no_grad():
        plain = ours(x)
        assert torch.equal(plain, ours(x, positions=torch.arange(9)))
        rows = torch.stack([torch.arange(9), torch.arange(9) + 100])
        moved = ours(x, positions=rows)
        stretched = ours(x, positions=2 * torch.arange(9))
    # Angles of positions near 100 are rounded to about 1e-5 of a turn in float32 tables.
    torch.testing.assert_close(moved, plain, rtol=0, atol=2e-4)
    assert (stretched - plain).abs().max() > 0.1


@SOME
@given(seed=some.integers(0, 1000), at=some.integers(0, 10), form=some.sampled_from(FORMS))
def test_a_later_token_cannot_matter(seed: int, at: int, form: str) -> None:
    ours = LatentAttention.from_hf(referees.layer("v3", seed=seed), impl=form)
    x = referees.inputs(referees.config("v3"), 11, batch=1, seed=seed)
    changed = x.clone()
    changed[:, at] += 1
    with torch.no_grad():
        a, b = ours(x), ours(changed)
    assert torch.equal(a[:, :at], b[:, :at])
    assert (a[:, at:] - b[:, at:]).abs().max() > 1e-3


@SOME
@given(seed=some.integers(0, 1000))
def test_heads_may_change_places(seed: int) -> None:
    """Permuting the heads in q, kv_b and o leaves the layer's output."""
    ours = LatentAttention.from_hf(referees.layer("v3", seed=seed)).double()
    order = torch.randperm(4, generator=torch.Generator().manual_seed(seed))
    other = copy.deepcopy(ours)
    with torch.no_grad():
        for linear in (other.q_b_proj, other.kv_b_proj):
            linear.weight.copy_(linear.weight.view(4, -1, linear.in_features)[order].flatten(0, 1))
        out = other.o_proj.weight
        out.copy_(out.view(40, 4, -1)[:, order].flatten(1))
        x = referees.inputs(referees.config("v3"), 8).double()
        torch.testing.assert_close(other(x), ours(x), rtol=0, atol=1e-12)  # order of a sum


@pytest.mark.parametrize("form", FORMS)
def test_watch_sees_the_weights_of_transformers(form: str) -> None:
    theirs = referees.layer("v3", **referees.SHAPES["yarn"])
    ours = LatentAttention.from_hf(theirs, impl=form)
    x = referees.inputs(theirs.config, 11)
    seen: list[Seen] = []
    with torch.no_grad():
        cache = ours.new_cache(2)
        ours(x[:, :6], cache=cache, watch=seen.append)
        ours(x[:, 6:], cache=cache, watch=seen.append)
        weights = referees.run(theirs, "v3", x)[1]
    first, second = seen
    assert (first.start, second.start) == (0, 6)
    groups, value = {"expanded": (4, 14), "absorbed": (1, 16)}[form]
    assert second.k.shape == (2, groups, 11, {"expanded": 20, "absorbed": 24}[form])
    assert second.v.shape == (2, groups, 11, value)
    rows = second.attend(Request((), rows=tuple(range(5)))).rows
    assert rows is not None
    # Weights of at most 1, from scores of about 10 in float32.
    torch.testing.assert_close(rows, weights[:, :, 6:], rtol=0, atol=2e-6)


@pytest.mark.parametrize("family", ["v2", "v3"])
@pytest.mark.parametrize("damage", ["half_split", "no_mscale", "rope_first", "eps", "no_norm"])
def test_a_damaged_layer_is_caught(family: str, damage: str) -> None:
    theirs = referees.layer(family, **referees.SHAPES["yarn"])
    ours = LatentAttention.from_hf(theirs)
    x = referees.inputs(theirs.config, 15)
    if damage == "half_split":
        ours.rope = Rope.from_config(theirs.config.to_dict(), width=8, interleaved=False)
    elif damage == "no_mscale":
        ours.scale = 20**-0.5
    elif damage == "rope_first":
        q = ours.q_b_proj.weight.data.view(4, 20, -1)
        ours.q_b_proj.weight.data = torch.cat([q[:, 12:], q[:, :12]], dim=1).flatten(0, 1)
    elif damage == "eps":
        ours.kv_a_layernorm.eps = 1e-3
    else:
        ours.kv_a_layernorm.weight.data.fill_(1.0)
    with torch.no_grad(), pytest.raises(AssertionError, match="off"):
        budget(ours(x), peer=referees.run(theirs, family, x)[0], oracle=oracle(theirs, x))


@pytest.mark.parametrize(
    ("name", "family", "layers", "per_token"),
    [("deepseek-v2", "v2", 60, 69_120), ("deepseek-v3", "v3", 61, 70_272)],
)
def test_real_configs_have_the_parameters_and_bytes_of_the_real_classes(
    name: str, family: str, layers: int, per_token: int
) -> None:
    config = json.loads((CONFIGS / f"{name}.json").read_text())
    ours = LatentAttention.from_config(config, device="meta")
    kind, attention, _ = referees.FAMILIES[family]
    with torch.device("meta"):
        theirs = attention(kind(**config), 0)
    assert {n: p.shape for n, p in ours.named_parameters()} == {
        n: p.shape for n, p in theirs.named_parameters()
    }
    counts = ours.counts(1)
    assert counts.parameters == parameters_of(ours) == parameters_of(theirs)
    assert counts.bytes_per_token * layers == per_token
    assert config["num_hidden_layers"] == layers


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("tokens", "cached"), [(7, 0), (1, 12), (5, 12), (33, 0)])
@pytest.mark.parametrize("shape", ["plain", "no_query_latent", "narrow_values"])
def test_counted_flops_are_those_that_run(shape: str, tokens: int, cached: int, form: str) -> None:
    fields = referees.config("v3", **referees.SHAPES[shape]).to_dict()
    ours = LatentAttention.from_config(fields, impl=form, device="meta")
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
    assert counts.bytes_per_token * (tokens + cached) == cache.nbytes
    assert counts.flops <= counts.flops_dense
    pairs = sum(cached + i + 1 for i in range(tokens))
    assert counts.flops * tokens * (tokens + cached) == counts.flops_dense * pairs


def test_auto_takes_the_form_with_fewer_flops() -> None:
    ours = LatentAttention.from_config(referees.config("v3").to_dict(), device="meta")
    for tokens, cached in ((1, 0), (1, 100), (64, 0), (9, 3), (3, 90)):
        cost = {}
        for form in FORMS:
            counts = ours.counts(tokens, cached, impl=form)
            cost[form] = counts.projection_flops + counts.flops_dense
        best = min(cost.values())
        assert cost[ours.form(tokens, cached)] == best
        auto = ours.counts(tokens, cached)
        assert auto.projection_flops + auto.flops_dense == best
    v3 = {"rank": 512, "rope": 64, "nope": 128, "value": 128}
    turn = next(t for t in range(1, 10**4) if cheaper(t, 10**6, **v3) == "expanded")
    assert turn == 171  # R (N + E) / (2 R - N - E) = 170.7


def test_the_function_takes_the_form_with_fewer_flops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both give the same numbers, so it is watched which one ran."""
    ran: list[str] = []
    for form in FORMS:
        monkeypatch.setattr(
            latent.parts, form, lambda *x, form=form, **_: (ran.append(form), x[0])[1]
        )
    sizes = {"rank": 16, "rope": 8, "nope": 12, "value": 14}
    up = torch.zeros(4 * (12 + 14), 16)
    cases = [(1, 100), (64, 0), (9, 3), (12, 3), (13, 3), (14, 3), (15, 3), (16, 3), (3, 90)]
    for tokens, cached in cases:
        q, S = torch.zeros(1, 4, tokens, 20), tokens + cached
        held = torch.zeros(1, S, 16), torch.zeros(1, S, 8)
        latent.latent_attention(q, *held, up, scale=1.0, impl="auto")
    assert ran == [cheaper(*case, **sizes) for case in cases]
    assert set(ran) == set(FORMS)


def test_a_layer_without_a_scale_has_that_of_its_width() -> None:
    sizes = latent.LatentSizes(model=8, heads=1, nope=5, rope=4, value=3, rank=6)
    ours = LatentAttention(sizes, rope=Rope.plain(4, interleaved=True))
    assert ours.scale == 9**-0.5
    assert LatentAttention(sizes, rope=ours.rope, scale=0.25).scale == 0.25
    assert ours.impl == "auto"


@pytest.mark.parametrize("family", ["v2", "v3"])
def test_what_configs_may_leave_out_is_what_transformers_fills_in(family: str) -> None:
    whole = referees.config(family).to_dict()
    bare = {n: v for n, v in whole.items() if n not in ("attention_bias", "rope_interleave")}
    ours, said = (LatentAttention.from_config(fields, device="meta") for fields in (bare, whole))
    assert ours.rope == said.rope
    assert ours.rope.interleaved
    assert {n: p.shape for n, p in ours.named_parameters()} == {
        n: p.shape for n, p in said.named_parameters()
    }


def test_mscale_is_that_of_transformers() -> None:
    for changes in ({"mscale_all_dim": 1.0}, {"mscale_all_dim": 0.707}, {"mscale_all_dim": 0}):
        yarn = {**referees.SHAPES["yarn"]["rope_parameters"], **changes}
        theirs = referees.layer("v2", rope_parameters=yarn)
        assert softmax_scale({"rope_scaling": yarn}, 20) == pytest.approx(theirs.scaling, rel=1e-15)
    with pytest.raises(ConfigError, match="needs the field factor of the yarn rope"):
        softmax_scale({"rope_scaling": {"type": "yarn", "mscale_all_dim": 1.0}}, 20)


def test_the_picture_is_computed() -> None:
    text = latent.picture()
    assert "40,960" in text
    assert "576" in text
    assert "even near 168 new tokens" in text
    assert float(text.rpartition(" ")[2]) < 1e-14
    assert len(text.splitlines()) <= 30
