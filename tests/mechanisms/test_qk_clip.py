"""QK-Clip: the law on the same inputs, and what is not touched."""

from __future__ import annotations

import copy
import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnscope.core.heads import HeadShape
from attnscope.core.mechanism import Seen
from attnscope.mechanisms import qk_clip
from attnscope.mechanisms.dot_product import DotProductAttention
from attnscope.mechanisms.grouped import GroupedAttention
from attnscope.mechanisms.latent import LatentAttention
from attnscope.mechanisms.qk_clip import (
    ABOUT,
    QKClip,
    clip_factors,
    clip_heads,
    clip_latent,
    picture,
)
from attnscope.mechanisms.qk_norm import QKNormAttention
from attnscope.mechanisms.sinks import SinkAttention

C, T = 24, 11
SIZES = {"num_attention_heads": 4, "hidden_size": C, "num_hidden_layers": 1, "vocab_size": 8}
LATENT = {
    "q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
    "v_head_dim": 5,
}  # fmt: skip


def tokens(seed: int = 0, scale: float = 8.0) -> torch.Tensor:
    return scale * torch.randn(2, T, C, generator=torch.Generator().manual_seed(seed)).double()


def largest(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The largest score of each head in sight, [H], by the formula, from what `watch` is told."""
    kept: list[Seen] = []
    with torch.no_grad():
        module(x, watch=kept.append)
    (seen,) = kept
    k = seen.k.repeat_interleave(seen.q.shape[1] // seen.k.shape[1], 1)
    scores = seen.scale * seen.q @ k.mT
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).amax((0, 2, 3))


def grown(kind: str) -> nn.Module:
    """A layer of ours in float64 whose later heads have grown: its largest scores differ widely."""
    torch.manual_seed(1)
    if kind.startswith("latent"):
        config = SIZES | LATENT | {"model_type": "deepseek_v3", "rope_theta": 1e4}
        module: nn.Module = LatentAttention.from_config(config, impl=kind.removeprefix("latent_"))
        q, width = module.q_b_proj, 10
    elif kind == "one":
        module = DotProductAttention(C, 8)
        q, width = module.q_proj, 8
    else:
        groups = {"mha": 4, "gqa": 2, "mqa": 1}[kind]
        shape = HeadShape(model=C, heads=4, groups=groups, width=8)
        module = GroupedAttention(shape, bias=(True, False))
        q, width = module.q_proj, 8
    with torch.no_grad():
        for h in range(q.weight.shape[0] // width):
            q.weight[h * width : (h + 1) * width] *= 3.0**h
    return module.double()


KINDS = ("one", "mha", "gqa", "mqa", "latent_expanded", "latent_absorbed")


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_clip_the_same_inputs_stay_within_tau(kind: str) -> None:
    module, x = grown(kind), tokens()
    before = largest(module, x)
    tau = float(before.median()) if len(before) > 1 else float(before) / 3
    assert bool((before > tau).any())
    clip = QKClip(tau)
    with torch.no_grad():
        module(x, watch=clip.watch(module))
    (done,) = clip.step()
    after = largest(module, x)
    # Noted through `attend`, in float64: equal up to the order of at most 16 additions.
    assert torch.allclose(done.max_logits, before, rtol=1e-12)
    assert bool((after <= tau * (1 + 1e-12)).all())
    assert torch.allclose(after, before * done.gamma, rtol=1e-12)
    assert done.module is module


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_below_tau_or_shared_or_no_score_keeps_its_bits(kind: str) -> None:
    module, x = grown(kind), tokens()
    old = copy.deepcopy(module.state_dict())
    before = largest(module, x)
    clip = QKClip(float(before.sort().values[-2]) if len(before) > 1 else float(before) / 2)
    with torch.no_grad():
        module(x, watch=clip.watch(module))
    (done,) = clip.step()
    head = int(before.argmax())
    assert (done.gamma < 1).nonzero().flatten().tolist() == [head]
    changed = {}
    for name, value in module.state_dict().items():
        rows = (value != old[name]).view(len(value), -1).any(-1).nonzero().flatten().tolist()
        if rows:
            changed[name] = rows
    own = list(range(8 * head, 8 * head + 8))
    if kind in ("gqa", "mqa"):
        assert changed == {"q_proj.weight": own, "q_proj.bias": own}
    elif kind == "mha":
        names = ("q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias")
        assert changed == dict.fromkeys(names, own)
    elif kind == "one":
        assert changed == dict.fromkeys(("q_proj.weight", "k_proj.weight"), own)
    else:
        assert changed == {
            "q_b_proj.weight": list(range(10 * head, 10 * head + 10)),
            # Of [key 6, value 5] the key rows alone; the shared rope key is in kv_a_proj.
            "kv_b_proj.weight": list(range(11 * head, 11 * head + 6)),
        }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_in_narrow_dtypes_the_law_holds_up_to_the_rounding_of_weights(
    kind: str, dtype: torch.dtype
) -> None:
    module, x = grown(kind).to(dtype), tokens().to(dtype)
    wide = copy.deepcopy(module).double()
    before = largest(wide, x.double())
    tau = float(before.max()) / 4
    clip = QKClip(tau)
    clip.note(module, before)
    clip.step()
    after = largest(copy.deepcopy(module).double(), x.double())
    # Each score is a sum of products of two rounded weights: two roundings of every term, and the
    # terms of a largest score hardly cancel (their sizes sum to less than four times the score).
    assert bool((after <= tau * (1 + 4 * 2 * torch.finfo(dtype).eps)).all())
    assert float(after.max()) > tau * (1 - 4 * 2 * torch.finfo(dtype).eps), "clipped too far"


@given(
    st.lists(st.floats(-1e4, 1e6, allow_nan=False), min_size=1, max_size=8), st.floats(1e-3, 1e3)
)
@settings(deadline=None)
def test_factors_are_at_most_one_and_bring_every_head_to_tau(
    logits: list[float], tau: float
) -> None:
    gamma = clip_factors(logits, tau)
    m = torch.tensor(logits, dtype=torch.float64)
    assert bool(((gamma > 0) & (gamma <= 1)).all())
    assert bool((gamma[m <= tau] == 1).all())
    # A quotient and a product: two roundings.
    assert bool(((gamma * m)[m > tau] - tau).abs().le(tau * 2 * torch.finfo(m.dtype).eps).all())


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_scores_are_multiplied_whatever_the_groups(groups: int, repeats: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    H, D = groups * repeats, 3
    w_q = torch.randn(H * D, 5, generator=random).double()
    w_k = torch.randn(groups * D, 5, generator=random).double()
    gamma = torch.rand(H, generator=random).double() * 0.9 + 0.1
    gamma[0] = 1.0
    x = torch.randn(7, 5, generator=random).double()

    def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        keys = (x @ k.T).view(7, groups, D).repeat_interleave(repeats, 1)
        return torch.einsum("ihd,jhd->hij", (x @ q.T).view(7, H, D), keys)

    new = clip_heads(w_q, w_k, gamma)
    assert torch.allclose(scores(*new), scores(w_q, w_k) * gamma.view(H, 1, 1), atol=1e-13)
    assert torch.equal(new[0][:D], w_q[:D])
    if repeats > 1:
        assert torch.equal(new[1], w_k)


def test_a_factor_on_a_shared_key_would_move_heads_that_never_passed_tau() -> None:
    """Why the shared key is left alone: with its root clipped, its other head's scores shrink."""
    module, x = grown("gqa"), tokens()
    before = largest(module, x)
    with torch.no_grad():
        module.k_proj.weight[:8] *= 0.5
        module.k_proj.bias[:8] *= 0.5
    after = largest(module, x)
    assert bool((after[:2] < before[:2] * 0.6).all()), "both heads of the group moved"


def test_training_without_a_clip_runs_away_and_with_it_does_not() -> None:
    """A loss that rewards large scores; every step is followed by a clip, or not."""
    x = tokens(scale=1.0)
    top = {}
    for clipped in (True, False):
        module = grown("mha")
        optimizer = torch.optim.SGD([module.q_proj.weight, module.k_proj.weight], lr=0.05)
        clip = QKClip(20.0)
        peaks = []
        for _ in range(12):
            kept: list[Seen] = []
            watch = clip.watch(module)
            module(x, watch=lambda seen, watch=watch, kept=kept: (watch(seen), kept.append(seen)))
            (kept[0].q * kept[0].k).sum().neg().backward()
            optimizer.step()
            optimizer.zero_grad()
            if clipped:
                clip.note(module, largest(module, x))  # after the step, as it stands now
                clip.step()
            peaks.append(float(largest(module, x).max()))
        top[clipped] = peaks
    assert max(top[True]) <= 20 * (1 + 1e-9)
    assert top[False][-1] > 100


def test_several_calls_between_steps_count_with_their_largest_and_are_then_forgotten() -> None:
    module = grown("mha")
    clip = QKClip(10.0)
    clip.note(module, [1.0, 30.0, 5.0, 2.0])
    clip.note(module, torch.tensor([4.0, 20.0, 5.0, -torch.inf]))
    (done,) = clip.step()
    assert done.max_logits.tolist() == [4.0, 30.0, 5.0, 2.0]
    assert done.gamma.tolist() == [1.0, 1 / 3, 1.0, 1.0]
    assert clip.step() == []


def test_a_soft_cap_does_not_hide_what_is_under_it() -> None:
    module, x = grown("mha"), tokens()
    before = largest(module, x)
    module.softcap = 5.0
    clip = QKClip(float(before.max()) / 2)
    with torch.no_grad():
        module(x, watch=clip.watch(module))
    (done,) = clip.step()
    assert torch.allclose(done.max_logits, before, rtol=1e-12)


def test_a_sink_is_no_score() -> None:
    """A sink's logit is nothing that the projections make, however large it is."""
    torch.manual_seed(0)
    module = SinkAttention(HeadShape(model=C, heads=4, groups=2, width=8)).double()
    x = tokens()
    before = largest(module, x)
    with torch.no_grad():
        module.sinks.fill_(1e4)
        clip = QKClip(1.0)
        module(x, watch=clip.watch(module))
    (done,) = clip.step()
    assert torch.allclose(done.max_logits, before, rtol=1e-12)


@pytest.mark.parametrize("name", ["q_norm", "k_norm", "q_layernorm", "k_layernorm"])
def test_any_norm_between_projection_and_score_is_named(name: str) -> None:
    module = grown("mha")
    setattr(module, name, nn.LayerNorm(8))
    with pytest.raises(ValueError, match=f"module: GroupedAttention has {name}, which undoes"):
        QKClip().watch(module)


def test_a_latent_layer_without_a_query_latent_is_clipped_by_its_q_proj() -> None:
    config = SIZES | LATENT | {"model_type": "deepseek_v2", "q_lora_rank": None, "rope_theta": 1e4}
    torch.manual_seed(1)
    module, x = LatentAttention.from_config(config).double(), tokens()
    before = largest(module, x)
    clip = QKClip(float(before.max()) / 2)
    clip.note(module, before)
    (done,) = clip.step()
    assert torch.allclose(largest(module, x), before * done.gamma, rtol=1e-12)
    assert float(done.gamma.min()) == 0.5


def test_watching_leaves_the_output_and_the_gradient_alone() -> None:
    module, x = grown("gqa"), tokens().requires_grad_()
    plain = torch.autograd.grad(module(x).sum(), x)[0]
    watched = torch.autograd.grad(module(x, watch=QKClip().watch(module)).sum(), x)[0]
    assert torch.equal(plain, watched)


def test_a_step_that_cannot_be_done_changes_nothing() -> None:
    good, bad = grown("mha"), grown("gqa")
    old = copy.deepcopy(good.state_dict())
    clip = QKClip(1.0)
    clip.note(good, [9.0] * 4)
    clip.note(bad, [9.0, 9.0, math.nan, 9.0])
    with pytest.raises(ValueError, match="head 2 has nan"):
        clip.step()
    assert all(torch.equal(v, old[n]) for n, v in good.state_dict().items())


def noted(module: nn.Module, logits: list[float]) -> list[object]:
    clip = QKClip(1.0)
    clip.note(module, logits)
    return list(clip.step())


def renoted() -> None:
    clip, module = QKClip(), grown("mha")
    clip.note(module, [1.0] * 4)
    clip.note(module, [1.0] * 3)


class Nameless(nn.Module):
    """MLA whose widths nobody can know."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.kv_b_proj = nn.Linear(4, 20), nn.Linear(4, 22)


G2 = torch.tensor([0.5, 1.0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: QKClip(0.0), ValueError, "tau: expected a number above 0, got 0.0"),
        (lambda: clip_factors([1.0], math.nan), ValueError, "tau: .*got nan"),
        (lambda: clip_factors([]), ValueError, r"max_logits: expected \[H\].*got \[0\]"),
        (lambda: clip_factors(torch.ones(2, 2)), ValueError, r"max_logits: .*got \[2, 2\]"),
        (
            lambda: clip_factors([1.0, math.inf]),
            ValueError,
            "max_logits: head 1 has inf; .*checkpoint",
        ),
        (
            lambda: clip_heads(torch.ones(5, 1), torch.ones(4, 1), G2),
            ValueError,
            "q_weight: expected rows for 2 heads, got 5",
        ),
        (
            lambda: clip_heads(torch.ones(8, 1), torch.ones(6, 1), G2),
            ValueError,
            "k_weight: expected rows for key heads of 4 that divide 2 query heads, got 6",
        ),
        (
            lambda: clip_latent(torch.ones(9, 1), torch.ones(10, 1), G2, nope=3, rope=2),
            ValueError,
            r"q_weight: expected 2 heads of 3 \+ 2 rows, 10, got 9",
        ),
        (
            lambda: clip_latent(torch.ones(10, 1), torch.ones(6, 1), G2, nope=3, rope=2),
            ValueError,
            "kv_weight: expected 2 heads of 3 key rows and some value rows, got 6",
        ),
        (
            lambda: noted(grown("gqa"), [9.0] * 3),
            ValueError,
            "max_logits: expected 4 heads of 8 for this GroupedAttention, got 3",
        ),
        (renoted, ValueError, r"max_logits: expected \[4\] as before .*got \[3\]"),
        (
            lambda: QKClip().watch(
                QKNormAttention(HeadShape(model=8, heads=2, groups=1, width=4), eps=1e-6)
            ),
            ValueError,
            "module: QKNormAttention has q_norm, which undoes any factor",
        ),
        (
            lambda: QKClip().watch(nn.Linear(2, 2)),
            TypeError,
            "module: expected q_proj and k_proj.*in Linear.*clip_heads",
        ),
        (lambda: QKClip().watch(Nameless()), TypeError, "Nameless does not say.*clip_latent"),
    ],
)
def test_bad_input_is_named(call, error, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


def test_picture_and_about() -> None:
    assert doctest.testmod(qk_clip).failed == 0
    before = torch.get_rng_state()
    drawn = picture()
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers are its own"
    assert len(drawn.splitlines()) <= 30
    assert "keeps its bits: head 0, head 1" in drawn
    assert ABOUT.name == "qk_clip"
