"""The gated delta rule in all its forms, against transformers' and one written number by number."""

from __future__ import annotations

import math

import pytest
import torch
from delta_referees import gradients, oracle, peer_rule, rule_inputs
from head_referees import InFloat64
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.core import delta, fused_delta_chunk
from attnscope.core.fused_delta import delta_fused
from attnscope.core.microkernel import ROWS
from attnscope.mechanisms.gated_delta import IMPLS, gated_delta
from attnscope.testing import budget

CASES = {
    "one_token": {"tokens": 1},
    "step": {"tokens": 1, "groups": 1, "heads": 3, "width": 17, "value_width": 32},
    "few": {"tokens": 4, "groups": 2, "heads": 2, "value_width": 16},
    "one_more_than_few": {"tokens": 5, "value_width": 16},
    "odd": {"tokens": 37, "groups": 1, "heads": 3, "width": 7, "value_width": 5},
    "a_chunk": {"tokens": 64},
    "a_chunk_and_one": {"tokens": 65, "batch": 1},
    "several": {"tokens": 203, "batch": 1, "width": 33, "value_width": 40},
    "real_width": {"tokens": 130, "batch": 1, "groups": 1, "heads": 2, "width": 128,
                   "value_width": 128},
    "one_wide_head": {"tokens": 50, "batch": 1, "groups": 1, "heads": 1, "value_width": 150},
}  # fmt: skip


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_output_and_state(impl: str, unit: bool, case: str) -> None:
    x = rule_inputs(**CASES[case])
    if not unit:  # longer keys are no memory any more: the state would grow without bound
        x["k"] = x["k"] / x["k"].norm(dim=-1, keepdim=True)
    o, after = gated_delta(**x, unit=unit, impl=impl)
    peer, peer_after = peer_rule(**x, unit=unit, chunked=impl != "recurrent")
    exact, exact_after = oracle(**x, unit=unit)
    assert o.dtype == x["v"].dtype
    assert after.dtype == torch.float32
    budget(o, peer=peer, oracle=exact, what="output")
    budget(after, peer=peer_after, oracle=exact_after, what="state")


@pytest.mark.parametrize("chunked", [True, False])
def test_the_oracle_is_what_transformers_computes_in_float64(chunked: bool) -> None:
    x = {name: value.double() for name, value in rule_inputs(tokens=70).items()}
    with InFloat64():
        peer, peer_after = peer_rule(**x, chunked=chunked)
    exact, exact_after = oracle(**x)
    # Sums of 70 tokens of numbers near 1, in another order: 1e-12 is some thousand roundings.
    assert torch.allclose(peer, exact, rtol=0, atol=1e-12)
    assert torch.allclose(peer_after, exact_after, rtol=0, atol=1e-12)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("tokens", [1, 30])
def test_bfloat16_keeps_its_state_in_float32(impl: str, tokens: int) -> None:
    x = rule_inputs(tokens=tokens, dtype=torch.bfloat16)
    o, after = gated_delta(**x, unit=True, impl=impl)
    peer, peer_after = peer_rule(**x)
    exact, exact_after = oracle(**x)
    assert o.dtype == torch.bfloat16
    assert after.dtype == torch.float32
    budget(o, peer=peer, oracle=exact, what="output")
    budget(after, peer=peer_after, oracle=exact_after, what="state")


@pytest.mark.parametrize("impl", IMPLS)
def test_without_a_state_it_begins_with_zeros(impl: str) -> None:
    x = rule_inputs(tokens=21)
    zeros = torch.zeros_like(x.pop("state"))
    for tokens in (1, 21):
        part = {name: value[:, :, :tokens] for name, value in x.items()}
        ours = gated_delta(**part, impl=impl)
        for one, other in zip(ours, gated_delta(**part, state=zeros, impl=impl), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("fade", [5.0, 60.0, math.inf])
def test_strong_decay_forgets_and_does_no_harm(impl: str, fade: float) -> None:
    """e^(L_i - L_j) must come of a difference: e^(-L_j) alone is beyond float32."""
    x = rule_inputs(tokens=90)
    x["g"][:, :, 10::7] = -fade
    o, after = gated_delta(**x, unit=True, impl=impl)
    exact, exact_after = oracle(**x)
    # The token-by-token peer has no such difference to lose digits in.
    peer, peer_after = peer_rule(**x, chunked=False)
    budget(o, peer=peer, oracle=exact, what="output")
    budget(after, peer=peer_after, oracle=exact_after, what="state")


@pytest.mark.parametrize("impl", ["recurrent", "chunked"])
@pytest.mark.parametrize("tokens", [1, 13, 70])
def test_gradients(impl: str, tokens: int) -> None:
    x = rule_inputs(tokens=tokens, heads=6, value_width=5)
    gradient = torch.randn(x["v"].shape, generator=torch.Generator().manual_seed(1))
    names = list(x)

    def run(rule, *values):  # type: ignore[no-untyped-def]
        return rule(**dict(zip(names, values, strict=True)))[0]

    ours = gradients(
        lambda *v: run(lambda **k: gated_delta(**k, unit=True, impl=impl), *v), x.values(), gradient
    )
    peer = gradients(lambda *v: run(peer_rule, *v), x.values(), gradient)
    exact = gradients(
        lambda *v: run(oracle, *v), [v.double() for v in x.values()], gradient.double()
    )
    for name, *three in zip(names, ours, peer, exact, strict=True):
        # Three times the peer's error: see head_referees.judge_gradients.
        budget(three[0], peer=three[1], oracle=three[2], what=f"gradient of {name}", factor=3)


@pytest.mark.parametrize("impl", ["recurrent", "chunked"])
def test_gradients_by_differences(impl: str) -> None:
    x = rule_inputs(tokens=3, batch=1, groups=1, heads=2, width=3, value_width=2,
                    dtype=torch.float64)  # fmt: skip
    x["g"] = x["g"] - 0.1  # a difference must not step above 0
    leaves = [value.requires_grad_() for value in x.values()]
    assert torch.autograd.gradcheck(
        lambda *v: gated_delta(**dict(zip(x, v, strict=True)), unit=True, impl=impl), leaves
    )


def test_the_compiled_form_refuses_what_it_cannot_do() -> None:
    x = rule_inputs()
    with pytest.raises(ValueError, match="impl: 'fused' cannot do this: it computes in float32"):
        gated_delta(**{n: v.double() for n, v in x.items()}, impl="fused")
    with pytest.raises(ValueError, match="the CPU, and a tensor is on meta; 'chunked' can"):
        gated_delta(**{n: v.to("meta") for n, v in x.items()}, impl="fused")
    x["beta"].requires_grad_()
    with pytest.raises(ValueError, match="it has no gradient, and a tensor requires one"):
        gated_delta(**x, impl="fused")
    with torch.no_grad():
        gated_delta(**x, impl="fused")
    assert gated_delta(**x)[0].requires_grad


@pytest.mark.parametrize("impl", IMPLS)
def test_views_and_inputs_stay_as_they_are(impl: str) -> None:
    x = rule_inputs(tokens=30)
    x["beta"], x["g"] = x["beta"][:, :1].expand(-1, 4, -1), x["g"][:, :, :1].expand(-1, -1, 30)
    odd = {
        n: v.transpose(1, 2).contiguous().transpose(1, 2) if n != "state" else v.mT.contiguous().mT
        for n, v in x.items()
    }
    odd["k"] = torch.stack([x["k"], x["k"]], -1)[..., 0]
    odd["v"] = torch.cat([x["v"], x["v"]], 2)[:, :, :30]
    before = {n: v.clone() for n, v in odd.items()}
    for one, other in zip(
        gated_delta(**odd, unit=True, impl=impl),
        gated_delta(**{n: v.contiguous() for n, v in x.items()}, unit=True, impl=impl),
        strict=True,
    ):
        assert torch.equal(one, other)
    assert all(torch.equal(before[n], odd[n]) for n in odd)


@pytest.mark.parametrize("chunk", [ROWS, 2 * ROWS, 4 * ROWS, 8 * ROWS])
def test_the_compiled_form_with_other_chunks(chunk: int) -> None:
    x = rule_inputs(tokens=101, batch=1, width=20, value_width=70)
    peer, exact = peer_rule(**x), oracle(**x)
    ours = delta_fused(**x, scale=20**-0.5, unit=True, chunk=chunk)
    assert ours is not None
    for name, *three in zip(("output", "state"), ours, peer, exact, strict=True):
        budget(three[0], peer=three[1], oracle=three[2], what=name)


def test_both_sides_mean_the_same_small_numbers() -> None:
    """The compiled side has its own, so that a change is seen by the cache of compiled code."""
    assert fused_delta_chunk.LOWEST == delta.LOWEST
    assert float(fused_delta_chunk.EPSILON) == pytest.approx(delta.EPSILON, rel=1e-7)


def test_threads_and_parts_of_heads_change_no_bit() -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            for tokens in (3, 40):
                x = rule_inputs(tokens=tokens, heads=2, groups=1, value_width=128)
                found.append([tokens, *gated_delta(**x, unit=True, impl="fused")])
    finally:
        torch.set_num_threads(before)
    for tokens, o, after in found:
        like = next(f for f in found if f[0] == tokens)
        assert torch.equal(o, like[1])
        assert torch.equal(after, like[2])


@pytest.mark.parametrize("impl", IMPLS)
def test_nothing_to_do(impl: str) -> None:
    x = rule_inputs(tokens=0)
    o, after = gated_delta(**x, impl=impl)
    assert o.shape == (2, 4, 0, 16)
    assert torch.equal(after, x["state"])
    none = {n: v[:0] for n, v in rule_inputs(tokens=30).items()}
    assert gated_delta(**none, impl=impl)[0].shape == (0, 4, 30, 16)


# Laws


@pytest.mark.parametrize("impl", IMPLS)
@settings(deadline=None, max_examples=20)
@given(cuts=st.lists(st.integers(1, 40), min_size=1, max_size=4), seed=st.integers(0, 5))
def test_a_text_may_be_cut_anywhere(impl: str, cuts: list[int], seed: int) -> None:
    x = rule_inputs(tokens=sum(cuts), batch=1, seed=seed)
    state, parts, at = x.pop("state"), [], 0
    whole, last = gated_delta(**x, state=state, unit=True, impl="recurrent")
    for cut in cuts:
        piece = {name: value[:, :, at : at + cut] for name, value in x.items()}
        o, state = gated_delta(**piece, state=state, unit=True, impl=impl)
        parts.append(o)
        at += cut
    # Numbers near 1 after at most 160 tokens; 1e-5 is some hundred roundings of float32.
    assert torch.allclose(torch.cat(parts, 2), whole, rtol=0, atol=1e-5)
    assert torch.allclose(state, last, rtol=0, atol=1e-5)


@pytest.mark.parametrize("impl", IMPLS)
@settings(deadline=None, max_examples=20)
@given(tokens=st.integers(1, 60), seed=st.integers(0, 5), one=st.floats(-2, 2))
def test_values_and_state_mix_linearly(impl: str, tokens: int, seed: int, one: float) -> None:
    a, b = (rule_inputs(tokens=tokens, batch=1, seed=s) for s in (seed, seed + 100))
    mixed = a | {n: one * a[n] + 0.5 * b[n] for n in ("v", "state")}
    b = a | {n: b[n] for n in ("v", "state")}
    three = [gated_delta(**x, unit=True, impl=impl) for x in (a, b, mixed)]
    for first, second, both in zip(*three, strict=True):
        # Numbers up to 10; the same few hundred roundings.
        assert torch.allclose(both, one * first + 0.5 * second, rtol=0, atol=1e-4)


@pytest.mark.parametrize("impl", IMPLS)
@settings(deadline=None, max_examples=20)
@given(place=st.integers(0, 59), name=st.sampled_from(["q", "k", "v", "g", "beta"]))
def test_a_later_token_cannot_matter(impl: str, place: int, name: str) -> None:
    x = rule_inputs(tokens=60, batch=1)
    before, _ = gated_delta(**x, unit=True, impl=impl)
    x[name] = x[name].clone()
    x[name][:, :, place] *= 0.25
    after, _ = gated_delta(**x, unit=True, impl=impl)
    assert torch.equal(before[:, :, :place], after[:, :, :place])


@pytest.mark.parametrize("impl", ["recurrent", "fused"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_none_stays_out_of_the_past(impl: str, value: float) -> None:
    x = rule_inputs(tokens=60, batch=1)
    whole, _ = gated_delta(**x, unit=True, impl="recurrent")
    x["v"][0, 1, 40, 3] = value
    o, after = gated_delta(**x, unit=True, impl=impl)
    assert o[:, :, :40].isfinite().all()
    assert torch.allclose(o[:, :, :40], whole[:, :, :40], rtol=0, atol=1e-5)
    assert not after.isfinite().all()


@pytest.mark.parametrize("impl", IMPLS)
def test_heads_never_meet(impl: str) -> None:
    x = rule_inputs(tokens=31, groups=4)
    order = torch.tensor([2, 0, 3, 1])
    o, after = gated_delta(**x, unit=True, impl=impl)
    turned = gated_delta(**{n: v[:, order] for n, v in x.items()}, unit=True, impl=impl)
    assert torch.equal(turned[0], o[:, order])
    assert torch.equal(turned[1], after[:, order])


@pytest.mark.parametrize("impl", IMPLS)
def test_what_is_written_under_an_old_key_replaces_it(impl: str) -> None:
    basis, values = torch.eye(16)[None, None], rule_inputs(tokens=16, heads=1, groups=1)["v"][:1]
    still, whole, none = torch.zeros(1, 1, 16), torch.ones(1, 1, 16), torch.zeros(1, 1, 16)
    _, full = gated_delta(basis, basis, values, g=still, beta=whole, impl=impl)
    assert torch.equal(full, values)
    _, again = gated_delta(basis, basis, -values, g=still, beta=whole, state=full, impl=impl)
    assert torch.allclose(again, -values, rtol=0, atol=1e-6)  # (a + b) - b: a rounding or two
    _, kept = gated_delta(basis, basis, values, g=still, beta=none, state=again, impl=impl)
    assert torch.equal(kept, again)


# Each check can fail


@pytest.mark.parametrize(
    "damage",
    [{"late_fade": True}, {"epsilon": 0.1}, {"scale": 1.0}, {"g": 1.001}, {"beta": 0.999}],
    ids=lambda d: next(iter(d)),
)
def test_a_damaged_rule_is_caught(damage: dict[str, float]) -> None:
    x = rule_inputs(tokens=40)
    peer, exact = peer_rule(**x)[0], oracle(**x)[0]
    if "late_fade" in damage or "epsilon" in damage:
        wrong = oracle(**x, **damage)[0].float()
    elif "scale" in damage:
        wrong = gated_delta(**x, unit=True, **damage)[0]
    else:
        wrong = gated_delta(**x | {n: f * x[n] for n, f in damage.items()}, unit=True)[0]
    with pytest.raises(AssertionError, match="are off"):
        budget(wrong, peer=peer, oracle=exact)


def test_bad_arguments_are_named() -> None:
    x = rule_inputs()

    def refused(kind: type[Exception], message: str, **changed) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(kind, match=message):
            gated_delta(**{**x, **changed})

    refused(ValueError, r"q: expected \[B, G, T, D\], got shape \[2, 9, 8\]", q=x["q"][:, 0])
    refused(ValueError, r"k: expected the shape of q, \[2, 2, 9, 8\], got", k=x["k"][..., :5])
    refused(ValueError, r"v: expected \[2, H, 9, E\] as q has it, got", v=x["v"][:, :, :4])
    refused(ValueError, "multiple of the 2 of q and k, got 3", v=x["v"][:, :3])
    refused(ValueError, r"g: expected \[2, 4, 9\], one number per value head", g=x["g"][..., None])
    refused(ValueError, r"beta: expected \[2, 4, 9\]", beta=x["beta"][:1])
    refused(
        ValueError, r"state: expected \[2, 4, 8, 16\], got \[2, 4, 16, 8\]", state=x["state"].mT
    )
    refused(ValueError, r"g: expected log decays, at most 0, got 0.5; give log", g=0 * x["g"] + 0.5)
    refused(
        TypeError, "one floating-point dtype, got torch.float32, torch.float64", k=x["k"].double()
    )
    refused(TypeError, "beta: expected floating point, got torch.bool", beta=x["beta"] > 0)
    refused(TypeError, "state: expected torch.float32 for v of", state=x["state"].bfloat16())
    refused(ValueError, "impl: unknown 'quick'; there are recurrent, chunked, fused", impl="quick")
