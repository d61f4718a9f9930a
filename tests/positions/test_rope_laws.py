"""What rotary positions are for, whatever the numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.positions import Rope

laws = settings(max_examples=60, deadline=None)
EPS = torch.finfo(torch.float64).eps


@st.composite
def ropes(draw: st.DrawFn) -> tuple[Rope, int]:
    """A Rope and the width of a head it serves."""
    rotary = 2 * draw(st.integers(0, 5))
    width = rotary + draw(st.integers(0, 3))
    theta = draw(st.sampled_from([10.0, 1e4, 1e6, 1e7]))
    interleaved = draw(st.booleans())
    rope = Rope.plain(max(width, 1), theta=theta, rotary=rotary, interleaved=interleaved)
    return rope, max(width, 1)


def numbers(width: int, tokens: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 1, 1, tokens, width, generator=generator, dtype=torch.float64)


seeds, places = st.integers(0, 10**6), st.integers(0, 5000)


def at(*places: int) -> torch.Tensor:
    return torch.tensor(places)


@laws
@given(ropes(), places, places, places, st.booleans(), seeds)
def test_a_product_depends_on_the_distance_alone(
    made: tuple[Rope, int], i: int, j: int, shift: int, trailing: bool, seed: int
) -> None:
    rope, width = made
    q, k = numbers(width, 1, seed)

    def score(i: int, j: int) -> float:
        turned = rope(q, at(i), trailing=trailing) * rope(k, at(j), trailing=trailing)
        return float(turned.sum())

    # An angle at 10,000 is off by 10,000 roundings; that much, times the sizes of q and k.
    allowed = 4 * EPS * (i + j + shift + 10) * float(q.norm() * k.norm())
    assert abs(score(i, j) - score(i + shift, j + shift)) <= allowed


@laws
@given(ropes(), places, seeds)
def test_lengths_are_kept(made: tuple[Rope, int], place: int, seed: int) -> None:
    rope, width = made
    x, _ = numbers(width, 1, seed)
    assert torch.allclose(rope(x, at(place)).norm(), x.norm(), rtol=8 * EPS, atol=0)


@laws
@given(ropes(), places, st.booleans(), st.floats(0.5, 2), seeds)
def test_back_undoes_it(
    made: tuple[Rope, int], place: int, trailing: bool, factor: float, seed: int
) -> None:
    rope, width = made
    rope = Rope(rope.frequencies, factor=factor, interleaved=rope.interleaved)
    x, _ = numbers(width, 1, seed)
    y = rope.back(rope(x, at(place), trailing=trailing), at(place), trailing=trailing)
    assert (y - x).abs().max() <= 16 * EPS * x.abs().max()


@laws
@given(ropes(), places, places, seeds)
def test_turns_add_up(made: tuple[Rope, int], one: int, two: int, seed: int) -> None:
    rope, width = made
    x, _ = numbers(width, 1, seed)
    both = rope(rope(x, at(one)), at(two))
    assert (both - rope(x, at(one + two))).abs().max() <= 8 * EPS * (one + two + 8) * x.abs().max()


@laws
@given(ropes(), st.lists(places, min_size=1, max_size=6), seeds)
def test_tokens_do_not_know_of_each_other(
    made: tuple[Rope, int], order: list[int], seed: int
) -> None:
    rope, width = made
    x, _ = numbers(width, len(order), seed)
    whole = rope(x, at(*order))
    for t, place in enumerate(order):
        assert torch.equal(whole[:, :, t : t + 1], rope(x[:, :, t : t + 1], at(place)))


@laws
@given(ropes(), seeds)
def test_the_first_position_and_the_rest_of_the_width_stay(
    made: tuple[Rope, int], seed: int
) -> None:
    rope, width = made
    x, _ = numbers(width, 1, seed)
    assert torch.equal(rope(x, at(0)), x)
    assert torch.equal(rope(x, at(7))[..., rope.rotary :], x[..., rope.rotary :])
    kept = rope(x, at(7), trailing=True)[..., : width - rope.rotary]
    assert torch.equal(kept, x[..., : width - rope.rotary])


def test_without_the_same_turn_for_keys_the_law_breaks() -> None:
    """Turning q alone makes the score depend on where the query stands: the law can fail."""
    rope = Rope.plain(8)
    q, k = numbers(8, 1, 3)
    alone = [float((rope(q, at(i)) * k).sum()) for i in (0, 1, 2)]
    assert max(alone) - min(alone) > 0.1


@pytest.mark.parametrize("place", [0, 1, 100])
def test_values_turned_are_another_output(place: int) -> None:
    """Why V is left alone: turned values would mix what a token says with where it stands."""
    rope = Rope.plain(8)
    v, _ = numbers(8, 3, 5)
    weights = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    here, there = (weights @ rope(v, torch.arange(3) + start) for start in (place, place + 1))
    assert (here - there).abs().max() > 0.1
