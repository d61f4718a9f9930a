"""Drawing the next token: against transformers' processors, by law, and by counting draws."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from attnscope.decoder import Sampling, choose, probabilities

SETTINGS = [
    Sampling(), Sampling(temperature=0.3), Sampling(temperature=2.5), Sampling(top_k=1),
    Sampling(top_k=7), Sampling(top_k=5000), Sampling(top_p=0.1), Sampling(top_p=0.9),
    Sampling(top_p=0.999), Sampling(temperature=0.7, top_k=40, top_p=0.8),
    Sampling(temperature=1.3, top_k=3, top_p=0.5),
]  # fmt: skip


def theirs(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The distribution that transformers' `generate` draws from."""
    steps = LogitsProcessorList()
    if sampling.temperature != 1:
        steps.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k is not None:
        steps.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        steps.append(TopPLogitsWarper(sampling.top_p))
    ids = torch.zeros(len(logits), 1, dtype=torch.long)
    found: torch.Tensor = steps(ids, logits).softmax(-1)
    return found


def some_logits(rows: int = 6, words: int = 300, seed: int = 0) -> torch.Tensor:
    return 3 * torch.randn(rows, words, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("sampling", SETTINGS, ids=repr)
def test_the_distribution_is_transformers(sampling: Sampling) -> None:
    logits = some_logits()
    ours, expected = probabilities(logits, sampling), theirs(logits, sampling)
    assert torch.equal(ours > 0, expected > 0)
    # the same softmax of the same scores; only what was masked was found in another order
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-9)


def test_another_setting_is_noticed() -> None:
    logits = some_logits()
    for sampling, near in ((Sampling(top_k=7), 8), (Sampling(top_p=0.9), 0.91)):
        other = Sampling(top_k=near) if sampling.top_k else Sampling(top_p=near)
        assert not torch.equal(probabilities(logits, sampling), theirs(logits, other))


def test_equal_logits_are_all_kept_by_top_k() -> None:
    tied = torch.tensor([2.0, 1.0, 1.0, 0.0])
    assert probabilities(tied, Sampling(top_k=2)).count_nonzero() == 3
    assert choose(tied.flip(0)).item() == 3
    assert choose(torch.tensor([1.0, 5.0, 5.0])).item() == 1  # the smallest id of a tie


@given(
    logits=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40),
    temperature=st.floats(0.05, 20), top_k=st.none() | st.integers(1, 50),
    top_p=st.floats(0.01, 1),
)  # fmt: skip
def test_laws(logits: list[float], temperature: float, top_k: int | None, top_p: float) -> None:
    """A distribution; never empty; the likeliest is in it; what is kept is a head of the order."""
    given_ = torch.tensor(logits, dtype=torch.float64)
    found = probabilities(given_, Sampling(temperature, top_k, top_p))
    assert float(found.sum()) == pytest.approx(1, abs=1e-12)  # float64, 40 terms
    assert found[given_.argmax()] > 0
    kept = found > 0
    if bool((~kept).any()) and top_k is not None and top_p == 1:
        # softmax may round what is kept to 0, so this says no more than the order
        assert float(given_[kept].min()) >= float(given_[~kept].max())
    shifted = probabilities(given_ + 3, Sampling(temperature, top_k, 1.0))
    plain = probabilities(given_, Sampling(temperature, top_k, 1.0))
    # adding 3 rounds each score by 2^-49 at most, which a temperature of 0.05 multiplies by 20
    torch.testing.assert_close(shifted, plain, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=2.0), Sampling(top_k=5), Sampling(top_p=0.7)],
    ids=repr,
)
def test_draws_follow_the_distribution(sampling: Sampling) -> None:
    """Pearson's chi^2 of 40,000 draws; beyond the 1e-6 quantile it is no chance."""
    logits, draws = some_logits(rows=1, words=12, seed=5)[0] / 2, 40_000
    expected = probabilities(logits, sampling) * draws
    generator = torch.Generator().manual_seed(1)
    found = choose(logits.expand(draws, -1), sampling, generator).bincount(minlength=12)
    possible = expected > 0
    assert int(found[~possible].sum()) == 0
    chi2 = float(((found - expected)[possible] ** 2 / expected[possible]).sum())
    freedom = int(possible.sum()) - 1
    # Wilson and Hilferty's cube-root approximation of the quantile; 4.75 standard deviations
    limit = freedom * (1 - 2 / (9 * freedom) + 4.75 * math.sqrt(2 / (9 * freedom))) ** 3
    assert chi2 < limit
    wrong = probabilities(logits, Sampling(temperature=sampling.temperature * 1.1)) * draws
    assert float(((found - wrong) ** 2 / wrong).sum()) > limit  # and a small mistake shows


def test_a_seed_gives_the_same_again_and_the_shape_is_kept() -> None:
    logits = some_logits(rows=8).reshape(2, 4, 300)
    one, two = (choose(logits, Sampling(), torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(one, two)
    assert one.shape == (2, 4)
    assert not torch.equal(one, choose(logits, Sampling(), torch.Generator().manual_seed(8)))
    assert choose(logits[0, 0], Sampling(), torch.Generator().manual_seed(7)).shape == ()
    assert torch.equal(choose(logits), logits.argmax(-1))


@pytest.mark.parametrize("sampling", [None, Sampling()])
@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_logits_that_are_no_numbers(odd: float, sampling: Sampling | None) -> None:
    logits = torch.tensor([[0.0, 1.0], [odd, 0.0]])
    with pytest.raises(ValueError, match="logits: expected finite numbers, got NaN or infinity"):
        choose(logits, sampling)
    assert choose(torch.tensor([0.0, -math.inf]), sampling).item() == 0


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        (
            {"temperature": 0.0},
            "temperature: expected a number above 0, got 0.0; for the",
        ),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": 0}, "top_k: expected at least 1 token, got 0"),
        ({"top_p": 0.0}, "top_p: expected a mass above 0 and up to 1, got 0.0"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_p": math.nan}, "top_p"),
    ],
)
def test_settings_without_a_meaning(given_: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Sampling(**given_)  # type: ignore[arg-type]
