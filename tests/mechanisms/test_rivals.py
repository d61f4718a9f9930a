"""The softmax against torch.softmax, and which rival breaks which law."""

from __future__ import annotations

import doctest
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from attnscope.core.mechanism import parameters_of
from attnscope.mechanisms import rivals
from attnscope.mechanisms.rivals import (
    ABOUT,
    LAWS,
    RULES,
    ScoresToWeights,
    jacobian,
    jacobian_norm,
    picture,
    weigh,
)
from attnscope.testing import budget

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
numbers = st.floats(-30.0, 30.0, allow_nan=False)
rows = st.lists(numbers, min_size=2, max_size=9)


def row(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def scores(*shape: int, spread: float = 3.0, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * spread


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal up to a few roundings of float64: weights are below about 1e3, sums of at most 10.

    exp of a difference of at most 60 that was rounded to 1e-14 is off by 1e-14 of itself.
    """
    return bool(((a - b).abs() <= 1e-12 * (1 + b.abs())).all())


def obeys_positive(s: torch.Tensor, rule: str, extra: float) -> bool:
    return bool((weigh(s, rule) > 0).all())


def obeys_sums_to_one(s: torch.Tensor, rule: str, extra: float) -> bool:
    w = weigh(s, rule)
    # |w| may be large where the sum of the scores is small, and then a rounding of w is too.
    return bool(w.isfinite().all()) and abs(float(w.sum()) - 1) <= 1e-14 * float(w.abs().sum() + 1)


def obeys_shift(s: torch.Tensor, rule: str, extra: float) -> bool:
    return close(weigh(s + extra, rule), weigh(s, rule))


def obeys_others(s: torch.Tensor, rule: str, extra: float) -> bool:
    """Keys 0 and 1 share as before when a key of score `extra` comes."""
    before, after = weigh(s, rule), weigh(torch.cat([s, row([extra])]), rule)
    return close(after[0] * before[1], after[1] * before[0])


CHECKS = {
    "positive": obeys_positive,
    "sums_to_one": obeys_sums_to_one,
    "shift": obeys_shift,
    "others": obeys_others,
}

BREAKERS = {
    ("proportional", "positive"): ([10.0, 3.0, -4.0], 0.0),
    ("proportional", "sums_to_one"): ([4.0, -4.0], 0.0),
    ("proportional", "shift"): ([10.0, 3.0, 4.0], 5.0),
    ("shifted", "positive"): ([10.0, 3.0, 4.0], 0.0),
    ("shifted", "sums_to_one"): ([2.0, 2.0, 2.0], 0.0),
    ("shifted", "others"): ([10.0, 3.0, -4.0], -11.0),
}
"""(rule, law) -> a row and a number on which the rule does not obey the law."""


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_obeys_what_it_says_and_breaks_what_it_says(rule: str, law: str) -> None:
    if law in RULES[rule].breaks:
        values, extra = BREAKERS[rule, law]
        assert not CHECKS[law](row(values), rule, extra)
        return

    @given(rows, numbers)
    def holds(values: list[float], extra: float) -> None:
        s = row(values)
        weights = weigh(s, rule)
        more = weigh(torch.cat([s, row([extra])]), rule)
        if rule in ("proportional", "shifted") and not bool(
            torch.cat([weights, more]).isfinite().all()
        ):
            return  # a sum of 0: the law is about rows that have weights
        assert CHECKS[law](s, rule, extra)

    if (rule, law) == ("shifted", "shift"):
        # Differences of shifted scores are taken from rounded numbers; whole numbers are exact.
        holds = given(st.lists(st.integers(-30, 30), min_size=2, max_size=9), st.integers(-30, 30))(
            holds.hypothesis.inner_test  # type: ignore[attr-defined]
        )
    holds()


def test_every_rule_has_its_example() -> None:
    assert set(BREAKERS) == {(r.name, law) for r in RULES.values() for law in r.breaks}
    assert all(bool(rule.example) == bool(rule.breaks) for rule in RULES.values())
    assert set(LAWS) == set(CHECKS)


def test_the_numbers_of_the_lesson() -> None:
    assert [round(100 * w, 1) for w in weigh(row([10, 3, -4]), "proportional").tolist()] == [
        111.1,
        33.3,
        -44.4,
    ]
    assert [round(100 * w, 1) for w in weigh(row([8, 7, 9])).tolist()] == [24.5, 9.0, 66.5]
    # A new lowest key: 14 : 7 becomes 21 : 14, though nobody looks at it.
    before = weigh(row([10, 3, -4]), "shifted")
    after = weigh(row([10, 3, -4, -11]), "shifted")
    assert float(before[0] / before[1]) == 2.0
    assert float(after[0] / after[1]) == 1.5


@given(rows)
def test_a_ratio_of_weights_is_e_to_the_difference(values: list[float]) -> None:
    s = row(values)
    w = weigh(s)
    assert close(w[0] / w[1], torch.exp(s[0] - s[1]))


@given(rows)
def test_base_two_is_temperature_one_over_ln_two(values: list[float]) -> None:
    s = row(values)
    assert close(weigh(s, "base_two"), weigh(s, "temperature", temperature=1 / math.log(2.0)))
    assert not close(weigh(row([0.0, 1.0]), "base_two"), weigh(row([0.0, 1.0])))


@given(rows, st.floats(0.1, 10.0), st.floats(1.01, 5.0))
def test_a_higher_temperature_is_flatter(values: list[float], t: float, more: float) -> None:
    s = row(values)
    cool = weigh(s, "temperature", temperature=t)
    warm = weigh(s, "temperature", temperature=t * more)
    assert float(warm.max()) <= float(cool.max()) * (1 + 1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3, 33), (5, 1)])
def test_softmax_is_torchs(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    s = scores(*shape).to(dtype)
    mine, theirs, exact = (s.clone().to(d).requires_grad_() for d in (dtype, dtype, torch.float64))
    pull = scores(*shape, seed=1)
    ours = weigh(mine)
    peer = torch.softmax(theirs, -1)
    oracle = torch.softmax(exact, -1)
    budget(ours.detach(), peer=peer.detach(), oracle=oracle.detach(), what="weights")
    for w, dt in ((ours, dtype), (peer, dtype), (oracle, torch.float64)):
        w.backward(pull.to(dtype).to(dt))
    grads = [x.grad for x in (mine, theirs, exact)]
    # The gradient of a row of one key is 0 exactly in the oracle; PyTorch's own is too.
    budget(grads[0], peer=grads[1], oracle=grads[2], what="gradient")  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", RULES)
def test_gradients_are_those_of_finite_differences(rule: str) -> None:
    s = scores(2, 5, seed=3).double().requires_grad_()
    seen = torch.tensor([True, True, False, True, True])
    assert torch.autograd.gradcheck(lambda x: weigh(x, rule), s)
    assert torch.autograd.gradcheck(lambda x: weigh(x, rule, seen=seen), s)


@pytest.mark.parametrize("rule", RULES)
def test_a_key_out_of_sight_does_not_matter(rule: str) -> None:
    s = scores(3, 6, seed=4).requires_grad_()
    seen = torch.tensor([[1, 1, 1, 0, 1, 0], [0] * 6, [1] * 6], dtype=torch.bool)
    clean = weigh(s, rule, seen=seen)
    # Five roundings: only the order of the sum differs when the hidden keys are cut out.
    torch.testing.assert_close(clean[0, seen[0]], weigh(s[0, seen[0]], rule), atol=0, rtol=6e-7)
    for foreign in (1e30, -1e30, torch.inf, torch.nan):
        w = weigh(torch.where(seen, s, foreign), rule, seen=seen)
        assert torch.equal(w, clean)
        assert not w[~seen].any()
        (gradient,) = torch.autograd.grad(w.square().sum(), s)
        assert bool(gradient.isfinite().all()), foreign
        assert not gradient[~seen].any()


def test_infinite_scores_are_out_of_sight_for_the_softmax() -> None:
    s = row([1.0, -math.inf, 2.0])
    assert torch.equal(weigh(s)[[0, 2]], weigh(row([1.0, 2.0])))
    assert float(weigh(row([1e308, -1e308]))[0]) == 1.0


@given(rows, st.floats(0.2, 5.0))
def test_the_jacobian_is_autograds_and_its_norm_closed(values: list[float], t: float) -> None:
    s = row(values)
    by_autograd = torch.autograd.functional.jacobian(
        lambda x: weigh(x, "temperature", temperature=t), s
    )
    w = weigh(s, "temperature", temperature=t)
    ours = jacobian(w, temperature=t)
    # Entries are at most 1 / (4 t) <= 1.25; both are products of a few roundings.
    torch.testing.assert_close(ours, by_autograd, atol=1e-14, rtol=1e-12)
    torch.testing.assert_close(
        jacobian_norm(w, temperature=t),
        torch.linalg.matrix_norm(ours),
        # Only the norm is taken without cancellation; the matrix's w - w^2 near 1 is not.
        atol=1e-15,
        rtol=1e-9,
    )
    # Rows and columns of diag(w) - w w^T sum to 0: the shift law, differentiated.
    assert float(ours.sum(-1).abs().max()) < 1e-14


def test_the_norm_of_a_nearly_one_hot_row_does_not_cancel() -> None:
    """Weights 1 - e and e: the Jacobian is e (1 - e) [[1, -1], [-1, 1]], of norm 2 e (1 - e)."""
    for e in (1e-3, 1e-7, 1e-12):
        w = torch.tensor([1 - e, e])
        assert float(jacobian_norm(w)) == pytest.approx(2 * e * (1 - e), rel=1e-5)
    plain = torch.tensor([1 - 1e-7, 1e-7])
    s2, s3 = (plain**2).sum(), (plain**3).sum()
    cancelled = float((s2 - 2 * s3 + s2**2).clamp(min=0).sqrt())
    assert cancelled != pytest.approx(2e-7, rel=0.5), "the plain sum would do as well"


def test_saturation_stops_the_gradient() -> None:
    """The larger the spread of the scores, the smaller the Jacobian: why scores are scaled."""
    s = scores(200, 64, spread=1.0).double()
    norms = [float(jacobian_norm(weigh(s * spread)).mean()) for spread in (4, 16, 64, 256)]
    assert norms == sorted(norms, reverse=True)


@pytest.mark.parametrize("rule", RULES)
def test_the_layer_is_the_function_and_learns_nothing(rule: str) -> None:
    layer = ScoresToWeights(rule)
    s = scores(2, 3, 7)
    seen = torch.ones(3, 7, dtype=torch.bool).tril(2)
    assert torch.equal(layer(s, seen=seen), weigh(s, rule, seen=seen))
    assert parameters_of(layer) == layer.counts(7).parameters == 0
    with FlopCounterMode(display=False) as counter:
        layer(s)
    assert counter.get_total_flops() == layer.counts(3, 4).flops_dense == 0
    assert rule in repr(layer)


@pytest.mark.parametrize("rule", RULES)
def test_rows_are_weighed_one_by_one_as_all_at_once(rule: str) -> None:
    s = scores(5, 7, seed=6)
    seen = torch.ones(5, 7, dtype=torch.bool).tril(2)
    alone = torch.stack([weigh(s[i], rule, seen=seen[i]) for i in range(5)])
    assert torch.equal(weigh(s, rule, seen=seen), alone)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: weigh(row([1, 2]), "sparsemax"), ValueError, "rule: unknown 'sparsemax'.*softmax"),
        (lambda: ScoresToWeights("max"), ValueError, "rule: unknown 'max'"),
        (
            lambda: weigh(row([1, 2]), "softmax", temperature=2.0),
            ValueError,
            "temperature: rule 'softmax' takes none, got 2.0",
        ),
        (
            lambda: weigh(row([1, 2]), "temperature", temperature=0.0),
            ValueError,
            "temperature: expected a number above 0, got 0.0",
        ),
        (
            lambda: weigh(row([1, 2]), "temperature", temperature=math.nan),
            ValueError,
            "temperature: expected a number above 0, got nan",
        ),
        (lambda: jacobian(row([1.0]), temperature=-1.0), ValueError, "temperature: .* got -1.0"),
        (lambda: weigh(torch.tensor([1, 2])), TypeError, "scores: expected a floating dtype"),
        (lambda: weigh(torch.zeros(3, 0)), ValueError, r"scores: .*S >= 1, got \[3, 0\]"),
        (lambda: weigh(torch.tensor(1.0)), ValueError, r"scores: .*got \[\]"),
        (
            lambda: weigh(row([1, 2]), seen=torch.tensor([1, 0])),
            TypeError,
            "seen: expected bool .* got torch.int64",
        ),
        (
            lambda: weigh(row([1, 2]), seen=torch.ones(3, dtype=torch.bool)),
            ValueError,
            r"seen: .*broadcasts to \[2\], got \[3\]",
        ),
    ],
)
def test_bad_input_is_named(call, error, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


def test_picture_and_about() -> None:
    assert doctest.testmod(rivals).failed == 0
    before = torch.get_rng_state()
    drawn = picture()
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers are its own"
    assert len(drawn.splitlines()) <= 30
    assert "-44.4444 %" in drawn
    assert "24.5 % / 9.0 % / 66.5 %" in drawn
    assert ABOUT.name == "rivals"
