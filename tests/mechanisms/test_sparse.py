"""Sparse attention against transformers' DeepseekV32Attention and GlmMoeDsaAttention."""

from __future__ import annotations

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
from attnscope.core.chosen import SeenChosen
from attnscope.core.indexer import IndexSizes, indexer_types
from attnscope.core.latent_parts import LatentSizes
from attnscope.core.mechanism import parameters_of
from attnscope.core.model_fields import ModelFields
from attnscope.errors import ConfigError
from attnscope.mechanisms import sparse
from attnscope.mechanisms.latent import LatentAttention
from attnscope.mechanisms.sparse import SparseAttention, sparse_attention
from attnscope.testing import budget

SOME = settings(max_examples=30, deadline=None)  # the first call may compile
CONFIGS = Path(__file__).parents[2] / "src/attnscope/plan/data/configs"
FORMS = ("masked", "gathered")
INDEX = referees.INDEX
YARN = referees.SHAPES["yarn"]


def answers(theirs: Any, family: str, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The layer's own answer, and that in float64, after checking that both chose alike.

    A choice that hangs on the last bit would be an error of order one; the seeds here have none.
    """
    wide = referees.exact(theirs)
    with referees.choices(theirs) as made, referees.choices(wide) as made_wide, torch.no_grad():
        peer = referees.run(theirs, family, x)[0]
        exact = referees.run(wide, family, x.double())[0]
    T = x.shape[1]
    assert torch.equal(referees.seen_by(made[0], T), referees.seen_by(made_wide[0], T))
    return peer, exact


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("changes", [{}, {"attention_bias": True}, {**YARN, "v_head_dim": 7}])
@pytest.mark.parametrize("family", ["v32", "glm"])
def test_output_is_that_of_transformers(family: str, changes: dict[str, Any], form: str) -> None:
    theirs = referees.sparse(family, **changes)
    ours = SparseAttention.from_hf(theirs, impl=form)
    for tokens in (1, 4, 6, 29):
        x = referees.inputs(theirs.config, tokens)
        peer, exact = answers(theirs, family, x)
        with torch.no_grad():
            budget(ours(x), peer=peer, oracle=exact, what=f"{tokens} tokens")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", ["v32", "glm"])
def test_prefill_chunks_and_steps_give_the_same_answer(family: str, form: str) -> None:
    theirs = referees.sparse(family)
    ours = SparseAttention.from_hf(theirs, impl=form)
    x = referees.inputs(theirs.config, 23)
    peer, exact = answers(theirs, family, x)
    for sizes in ([23], [7, 11, 5], [1] * 23, [3] + [1] * 20):
        cache, theirs_cache = ours.new_cache(2), DynamicCache(config=theirs.config)
        got, got_peer = [], []
        with torch.no_grad():
            for part in x.split(sizes, dim=1):
                got.append(ours(part, cache=cache))
                got_peer.append(referees.run(theirs, family, part, cache=theirs_cache)[0])
        stepped = torch.cat(got_peer, dim=1)
        worst = torch.where((stepped - exact).abs() > (peer - exact).abs(), stepped, peer)
        budget(torch.cat(got, dim=1), peer=worst, oracle=exact, what=f"in parts of {sizes}")
        held = theirs_cache.layers[0]
        assert cache.indexes is not None
        if family == "v32":  # GLM sorts its rotated pairs into halves; ours stay pairs
            torch.testing.assert_close(cache.indexes, held.indexer_keys)
        assert cache.nbytes == sum(
            t.nbytes for t in (held.keys, held.values, held.indexer_keys)
        )  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", ["v32", "glm"])
def test_gradients_are_those_of_transformers(family: str, form: str) -> None:
    theirs = referees.sparse(family, attention_bias=True)
    ours, wide = SparseAttention.from_hf(theirs, impl=form), referees.exact(theirs)
    x = referees.inputs(theirs.config, 13)
    answers(theirs, family, x)
    toward = torch.randn(2, 13, 40, generator=torch.Generator().manual_seed(5))

    def gradients(module: torch.nn.Module, call: Any, dtype: torch.dtype) -> dict[str, Any]:
        given_x = x.to(dtype, copy=True).requires_grad_()
        call(given_x).backward(toward.to(dtype))
        return {"x": given_x.grad, **{n: p.grad for n, p in module.named_parameters()}}

    own = gradients(ours, ours, torch.float32)
    peer = gradients(theirs, lambda x: referees.run(theirs, family, x)[0], torch.float32)
    exact = gradients(wide, lambda x: referees.run(wide, family, x)[0], torch.float64)
    assert own.keys() == peer.keys() == exact.keys()
    for name in own:
        if name.startswith("indexer."):
            assert own[name] is None
            assert peer[name] is None
        else:
            # 3 and not 2: sums over 26 tokens go in another order where latents are gathered.
            budget(own[name], peer=peer[name], oracle=exact[name], what=f"d {name}", factor=3)


@pytest.mark.parametrize("topk", [17, 64])
def test_choosing_all_is_multi_head_latent_attention(topk: int) -> None:
    theirs = referees.sparse("v32", index_topk=topk)
    sparse_layer = SparseAttention.from_hf(theirs, impl="masked")
    v3 = referees.layer("v3")
    v3.load_state_dict({n: w for n, w in theirs.state_dict().items() if "indexer" not in n})
    dense = LatentAttention.from_hf(v3, impl="expanded")
    x = referees.inputs(theirs.config, 17)
    with torch.no_grad():
        assert torch.equal(sparse_layer(x), dense(x))
        exact = referees.run(referees.exact(v3), "v3", x.double())[0]
        sparse_layer.impl = "gathered"
        for given_layer in (sparse_layer, dense):
            budget(given_layer(x), peer=referees.run(v3, "v3", x)[0], oracle=exact)
        # and with one key fewer it is not
        one_fewer = SparseAttention.from_hf(referees.sparse("v32", index_topk=16), impl="masked")
        apart = (one_fewer(x) - dense(x)).abs().amax(dim=(0, 2))
        assert apart[:16].max() < 1e-4 < 1e-2 < apart[16]


def test_glm_5_3_has_21_indexers_and_v32_one_per_layer() -> None:
    bytes_of: dict[str, int] = {}
    for name, own in (("glm-5.3", 21), ("deepseek-v3.2", 61), ("glm-5", 78)):
        config = json.loads((CONFIGS / f"{name}.json").read_text())
        family = {"deepseek_v32": "v32", "glm_moe_dsa": "glm"}[config["model_type"]]
        kind, attention, _ = referees.FAMILIES[family]
        theirs_config = kind(**config)
        types = indexer_types(ModelFields(config, families=sparse.FAMILIES))
        assert types.count("full") == own
        if family == "glm":
            assert list(types) == theirs_config.indexer_types
        kept = {}
        for index in {kind: types.index(kind) for kind in types}.values():
            ours = SparseAttention.from_config(config, layer=index, device="meta")
            with torch.device("meta"):
                theirs = attention(theirs_config, index)
            assert {n: p.shape for n, p in ours.named_parameters()} == {
                n: p.shape for n, p in theirs.named_parameters()
            }
            counts = kept[types[index]] = ours.counts(1)
            assert counts.parameters == parameters_of(theirs)
            assert counts.bytes_per_token == (576 + 128 * (ours.indexer is not None)) * 2
        bytes_of[name] = sum(
            kept[kind].bytes_per_token - kept[kind].index_bytes_per_token for kind in types
        )
        assert sum(kept[kind].index_bytes_per_token for kind in types) == own * 128 * 2
    assert bytes_of["glm-5.3"] == 89_856
    assert bytes_of["deepseek-v3.2"] == 70_272


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("tokens", "cached"), [(7, 0), (1, 12), (5, 12), (1, 2), (3, 0)])
@pytest.mark.parametrize("own", [True, False])
def test_counted_flops_are_those_that_run(tokens: int, cached: int, form: str, own: bool) -> None:
    cfg = referees.config("glm", **INDEX, num_hidden_layers=3, index_topk_freq=2)
    index = 1 if own else 2
    ours = SparseAttention.from_config(cfg.to_dict(), layer=index, impl=form, device="meta")
    cache = ours.new_cache()
    x = torch.empty(1, tokens + cached, 40, device="meta")

    def call(part: torch.Tensor) -> None:
        keys = cache.length + part.shape[1]
        picks = torch.zeros(1, part.shape[1], min(5, keys), dtype=torch.int64, device="meta")
        ours.attend_and_choose(part, cache=cache, chosen=None if own else picks)

    with torch.no_grad():
        if cached:
            call(x[:, :cached])
        with FlopCounterMode(display=False) as counter:
            call(x[:, cached:])
    counts = ours.counts(tokens, cached, dtype=torch.float32)
    assert counts.projection_flops + counts.flops_dense == counter.get_total_flops()
    assert counts.kept_bytes == cache.nbytes
    # Pairs in sight, one by one: the scan reads all keys, the attention at most 5 of them.
    scan = sum(cached + i + 1 for i in range(tokens)) * 2 * 8 * 15 * own
    read = sum(min(5, cached + i + 1) for i in range(tokens))
    assert counts.index_flops == scan
    assert counts.flops - scan == read * 2 * 4 * {"masked": 34, "gathered": 40}[form]


def test_the_scan_grows_with_the_square_and_the_attention_does_not() -> None:
    config = json.loads((CONFIGS / "deepseek-v3.2.json").read_text())
    ours = SparseAttention.from_config(config, device="meta")
    short, long = (ours.counts(n, impl="gathered") for n in (32_768, 65_536))
    assert long.index_flops / short.index_flops == pytest.approx(4, rel=1e-3)
    read = [c.flops - c.index_flops for c in (short, long)]
    assert read[1] / read[0] == pytest.approx(2, rel=0.04)
    # per key, MLA absorbed against the scan: 2 x 128 x 1,088 over 2 x 64 x 129
    assert ours.pair_flops("absorbed") / (2 * 64 * 129) == pytest.approx(16.87, abs=0.01)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", ["v32", "glm"])
def test_watch_sees_the_weights_of_transformers(family: str, form: str) -> None:
    theirs = referees.sparse(family)
    ours = SparseAttention.from_hf(theirs, impl=form)
    x = referees.inputs(theirs.config, 11)
    seen: list[SeenChosen] = []
    with torch.no_grad():
        cache = ours.new_cache(2)
        ours(x[:, :6], cache=cache, watch=seen.append)
        ours(x[:, 6:], cache=cache, watch=seen.append)
        weights = referees.run(theirs, family, x)[1]
    second = seen[1]
    assert (second.start, second.k.shape[1]) == (6, {"masked": 4, "gathered": 1}[form])
    rows = second.attend(Request((), rows=tuple(range(5)))).rows
    assert rows is not None
    # Weights of at most 1, from scores of about 10 in float32.
    torch.testing.assert_close(rows, weights[:, :, 6:], rtol=0, atol=2e-6)
    assert ((rows > 0).sum(-1) <= 5).all()


@SOME
@given(seed=some.integers(0, 300), at=some.integers(0, 12), form=some.sampled_from(FORMS))
def test_a_later_token_cannot_matter(seed: int, at: int, form: str) -> None:
    ours = SparseAttention.from_hf(referees.sparse("glm", seed=seed), impl=form)
    x = referees.inputs(referees.config("glm"), 13, batch=1, seed=seed)
    changed = x.clone()
    changed[:, at] += 1
    with torch.no_grad():
        a, b = ours(x), ours(changed)
    assert torch.equal(a[:, :at], b[:, :at])
    assert (a[:, at] - b[:, at]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index_topk": 0}, "index_topk: expected a positive whole number, got 0"),
        ({"indexer_types": ["full", "half"]}, "expected 'full' or 'shared' for each of 2 layers"),
        ({"indexer_types": ["shared", "full"]}, "the first full"),
        ({"indexer_types": ["full"]}, "for each of 2 layers"),
        ({"model_type": "deepseek_v3"}, "SparseAttention reads deepseek_v32, glm_moe_dsa"),
    ],
)
def test_odd_configs_are_refused(change: dict[str, Any], message: str) -> None:
    fields = {**referees.config("glm", **INDEX).to_dict(), **change}
    with pytest.raises(ConfigError, match=message):
        SparseAttention.from_config(fields)


@pytest.mark.parametrize("name", ["index_topk", "index_n_heads", "index_head_dim"])
def test_missing_fields_are_named(name: str) -> None:
    fields = referees.config("v32", **INDEX).to_dict()
    del fields[name]
    with pytest.raises(ConfigError, match=f"'deepseek_v32'.*no field '{name}'"):
        SparseAttention.from_config(fields)


def test_wrong_arguments_are_named() -> None:
    ours = SparseAttention.from_hf(referees.sparse("v32"))
    with pytest.raises(ValueError, match=r"x: expected \[B, T, 40\], got \[2, 3, 39\]"):
        ours(torch.zeros(2, 3, 39))
    turn = {"rope": ours.rope, "index_rope": ours.index_rope}
    with pytest.raises(ValueError, match="impl: unknown 'dense'; there are masked, gathered, auto"):
        SparseAttention(ours.sizes, ours.index, **turn, impl="dense")
    with pytest.raises(ValueError, match="impl: unknown 'dense'"):
        ours.counts(1, impl="dense")
    with pytest.raises(ValueError, match="topk: expected at least 1, got 0"):
        IndexSizes(1, 8, topk=0)
    with pytest.raises(ValueError, match="width: an index key of 6 has no room for the 8 rotated"):
        SparseAttention(ours.sizes, IndexSizes(1, 6, topk=2), **turn)
    plain = LatentSizes(model=8, heads=1, nope=4, rope=2, value=4, rank=4)
    with pytest.raises(ValueError, match="query_rank: the indexer reads the query's latent"):
        SparseAttention(plain, IndexSizes(1, 6, topk=2), **turn)
    q, latents, keys = torch.ones(1, 2, 3, 5), torch.ones(1, 4, 6), torch.ones(1, 4, 2)
    up = torch.ones(14, 6)
    with pytest.raises(ValueError, match=r"chosen: expected \[1, 3, k\], got \[1, 2, 2\]"):
        sparse_attention(
            q, latents, keys, up, chosen=torch.zeros(1, 2, 2, dtype=torch.int64), scale=1.0
        )
    picks = torch.zeros(1, 3, 2, dtype=torch.int64)
    with pytest.raises(ValueError, match="impl: unknown 'absorbed'"):
        sparse_attention(q, latents, keys, up, chosen=picks, scale=1.0, impl="absorbed")


def test_auto_takes_the_form_with_fewer_flops() -> None:
    ours = SparseAttention.from_hf(referees.sparse("v32")).to("meta")
    for tokens, cached in ((1, 0), (1, 100), (64, 0), (9, 3), (3, 90)):
        work = {}
        for form in (*FORMS, "auto"):
            counts = ours.counts(tokens, cached, impl=form)
            work[form] = counts.projection_flops + counts.flops_dense
        assert work["auto"] == min(work.values())
        ours.impl = "auto"
        cache, x = ours.new_cache(), torch.empty(1, tokens + cached, 40, device="meta")
        with torch.no_grad():
            if cached:
                ours(x[:, :cached], cache=cache)
            with FlopCounterMode(display=False) as counter:
                ours(x[:, cached:], cache=cache)
        assert counter.get_total_flops() == work["auto"]


def test_the_picture_is_computed() -> None:
    text = sparse.picture()
    assert "17.31 + 0.57" in text
    assert float(text.rpartition(" ")[2]) < 1e-14
    assert len(text.splitlines()) <= 30
