"""What sparse attention chooses, against the indexers of transformers, and what a choice means."""

from __future__ import annotations

from types import SimpleNamespace

import latent_referees as referees
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from attnscope.core import chosen
from attnscope.core.chosen import choose, index_scores, sight_of
from attnscope.core.indexer import indexer_types
from attnscope.core.model_fields import ModelFields
from attnscope.mechanisms import sparse
from attnscope.mechanisms.sparse import SparseAttention, sparse_attention
from attnscope.positions.rope import Rope
from attnscope.testing import budget

SOME = settings(max_examples=30, deadline=None)  # the first call may compile
FORMS = ("masked", "gathered")
INDEX = referees.INDEX


@pytest.mark.parametrize("family", ["v32", "glm"])
def test_the_chosen_sets_are_those_of_transformers(family: str) -> None:
    theirs = referees.sparse(family)
    ours = SparseAttention.from_hf(theirs)
    x = referees.inputs(theirs.config, 40)
    with referees.choices(theirs) as made, torch.no_grad():
        referees.run(theirs, family, x)
        _, own = ours.attend_and_choose(x)
    assert own.shape == (2, 40, 5)
    assert torch.equal(sight_of(own, 40), referees.seen_by(made[0], 40))
    counts = sight_of(own, 40).sum(-1)
    assert torch.equal(counts, torch.arange(1, 41).clamp(max=5).expand(2, 40))


@pytest.mark.parametrize("family", ["v32", "glm"])
def test_where_scores_tie_any_choice_has_the_same_scores(family: str) -> None:
    """With one narrow head the ReLU makes half of all scores exactly 0, and ties decide rows."""
    theirs = referees.sparse(family, index_n_heads=1)
    ours = SparseAttention.from_hf(theirs)
    x = referees.inputs(theirs.config, 40)
    with referees.choices(theirs) as made, torch.no_grad():
        referees.run(theirs, family, x)
        latent = ours.queries(x)[1]
        assert latent is not None
        assert ours.indexer is not None
        scan = ours.indexer(x, latent, rope=ours.index_rope, places=torch.arange(40))
        scores = index_scores(*scan, scale=14**-0.5)
        own = sight_of(ours.attend_and_choose(x)[1], 40)
    other = referees.seen_by(made[0], 40)
    hidden = torch.ones(40, 40, dtype=torch.bool).triu(1)
    edge = scores.masked_fill(hidden, -torch.inf).topk(5, dim=-1).values[..., -1:]
    assert (((scores == edge) & ~hidden).sum(-1) > 1).sum() > 10  # rows in which the edge ties
    apart = own != other
    assert torch.equal(own.sum(-1), other.sum(-1))
    # Where the sets differ, the scores do not, but for the rounding of sums of 14 products.
    assert ((scores - edge).abs()[apart] < 1e-5).all()


@SOME
@given(seed=some.integers(0, 10**6), topk=some.integers(1, 12), levels=some.integers(1, 5))
def test_a_choice_is_the_best_in_sight(seed: int, topk: int, levels: int) -> None:
    """Against a sort in Python, with few levels of score so that ties abound."""
    random = torch.Generator().manual_seed(seed)
    keys = torch.randint(0, levels, (1, 9, 1), generator=random).float()
    q, weights = torch.ones(1, 4, 1, 1), torch.ones(1, 4, 1)
    visible = torch.tensor([1, 3, 6, 9])
    picked = choose(q, keys, weights, count=topk, visible=visible)
    assert picked.shape == (1, 4, min(topk, 9))
    for row, limit in enumerate(visible.tolist()):
        scores = keys[0, :limit, 0].tolist()
        own = [i for i in picked[0, row].tolist() if i >= 0]
        assert len(own) == len(set(own)) == min(topk, limit)
        assert max(own) < limit
        best = sorted(scores, reverse=True)[: len(own)]
        assert sorted((scores[i] for i in own), reverse=True) == best


def test_a_choice_made_in_bands_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = SparseAttention.from_hf(referees.sparse("v32"), impl="gathered")
    x = referees.inputs(referees.config("v32"), 31)
    with torch.no_grad():
        whole, picks = ours.attend_and_choose(x)
        monkeypatch.setattr(chosen, "BAND", 1500)
        banded, banded_picks = ours.attend_and_choose(x)
    assert torch.equal(sight_of(picks, 31), sight_of(banded_picks, 31))
    torch.testing.assert_close(banded, whole, rtol=1e-5, atol=1e-5)  # other sizes of products


@pytest.mark.parametrize("family", ["v32", "glm"])
@pytest.mark.parametrize("damage", ["pairing", "no_relu", "weights", "k_norm", "rope_last"])
def test_a_damaged_indexer_is_caught(
    family: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = referees.sparse(family)
    ours = SparseAttention.from_hf(theirs)
    assert ours.indexer is not None
    x = referees.inputs(theirs.config, 40)
    if damage == "pairing":
        ours.index_rope = Rope.plain(8, interleaved=family == "v32")
    elif damage == "no_relu":
        monkeypatch.setattr(chosen, "functional", SimpleNamespace(relu=lambda scores: scores))
    elif damage == "weights":
        ours.indexer.weights_proj.weight.data.abs_()
    elif damage == "k_norm":
        ours.indexer.k_norm.bias.data.zero_()
    else:
        q = ours.indexer.wq_b.weight.data.view(8, 14, -1)
        ours.indexer.wq_b.weight.data = q.roll(6, dims=1).flatten(0, 1)
    with referees.choices(theirs) as made, torch.no_grad():
        referees.run(theirs, family, x)
        _, own = ours.attend_and_choose(x)
    assert not torch.equal(sight_of(own, 40), referees.seen_by(made[0], 40))


@SOME
@given(seed=some.integers(0, 300))
def test_what_is_not_chosen_cannot_matter(seed: int) -> None:
    """Damage every latent and key that the last query did not choose: its output stays."""
    random = torch.Generator().manual_seed(seed)
    q = torch.randn(1, 3, 1, 7, generator=random)
    latents, keys = (torch.randn(1, 20, n, generator=random) for n in (6, 2))
    up = torch.randn(3 * 9, 6, generator=random)
    picks = torch.randperm(20, generator=random)[:4].view(1, 1, 4)
    spoiled = sight_of(picks, 20)[0, 0].logical_not()
    other, other_keys = latents.clone(), keys.clone()
    other[:, spoiled], other_keys[:, spoiled] = 100.0, -100.0
    for form in FORMS:
        a = sparse_attention(q, latents, keys, up, chosen=picks, scale=0.4, impl=form)
        b = sparse_attention(q, other, other_keys, up, chosen=picks, scale=0.4, impl=form)
        # "masked" forms keys of the spoiled latents in the same product, and hides them.
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        swapped = picks.flip(-1)
        c = sparse_attention(q, latents, keys, up, chosen=swapped, scale=0.4, impl=form)
        torch.testing.assert_close(a, c, rtol=1e-5, atol=1e-5)


def test_layers_without_an_indexer_reuse_the_choice_before_them() -> None:
    cfg = referees.config("glm", **INDEX, num_hidden_layers=5, index_topk_freq=2)
    assert cfg.indexer_types == ["full", "full", "shared", "full", "shared"]
    full, shared = (referees.layer("glm", cfg, index=i, seed=i) for i in (1, 2))
    own_full, own_shared = (SparseAttention.from_hf(one) for one in (full, shared))
    assert own_full.indexer is not None
    assert own_shared.indexer is None
    x = referees.inputs(cfg, 19)
    caches = own_full.new_cache(2), own_shared.new_cache(2)
    with torch.no_grad():
        _, _, picks = referees.run(full, "glm", x)
        peer = referees.run(shared, "glm", x, prev_topk_indices=picks)[0]
        wide = referees.exact(shared)
        exact = referees.run(wide, "glm", x.double(), prev_topk_indices=picks)[0]
        got = []
        for part in x.split([8, 1, 10], dim=1):
            choice = own_full.attend_and_choose(part, cache=caches[0])[1]
            y, same = own_shared.attend_and_choose(part, cache=caches[1], chosen=choice)
            assert same is choice
            got.append(y)
        budget(torch.cat(got, dim=1), peer=peer, oracle=exact)
    assert caches[1].indexes is None
    assert caches[0].nbytes - caches[1].nbytes == 2 * 19 * 14 * 4
    assert own_full.counts(1).bytes_per_token - own_shared.counts(1).bytes_per_token == 28
    assert own_shared.counts(3, 9).index_flops == 0
    with pytest.raises(ValueError, match="chosen: this layer has no indexer"):
        own_shared(x)
    with pytest.raises(ValueError, match="chosen: this layer has an indexer"):
        own_full.attend_and_choose(x, chosen=picks)


def test_a_pattern_of_letters_says_which_layers_choose() -> None:
    fields = {**referees.config("glm", **INDEX).to_dict(), "index_topk_pattern": "FS"}
    del fields["indexer_types"]
    types = indexer_types(ModelFields(fields, families=sparse.FAMILIES))
    assert types == ("full", "shared")
