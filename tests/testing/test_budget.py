"""The tolerance helper must let honest results pass and catch every kind of damage."""

from __future__ import annotations

import pytest
import torch

from attnscope.testing import budget, oracle, qkv


@pytest.fixture
def three() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two honest float32 results and the exact one."""
    q, k, v = qkv(queries=20, width=16)
    exact = oracle(q, k, v).output
    seen = torch.ones(20, 20).tril() > 0
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    peer = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = (q @ k.transpose(-1, -2) / 4).masked_fill(~seen, -torch.inf)
    return scores.softmax(-1) @ v, peer, exact


def test_honest_results_pass_and_say_how_much_they_used(three) -> None:  # type: ignore[no-untyped-def]
    ours, peer, exact = three
    result = budget(ours, peer=peer, oracle=exact)
    assert 0 < result.used <= 1
    assert 0 < result.error < 1e-5
    assert budget(exact.float(), peer=exact.float(), oracle=exact).used <= 1


@pytest.mark.parametrize("place", [(0, 0, 0, 0), (1, 3, 19, 15), (0, 2, 7, 4)])
@pytest.mark.parametrize("damage", [1e-5, -3e-4, 1.0])
def test_one_damaged_number_is_found_and_named(three, place, damage: float) -> None:  # type: ignore[no-untyped-def]
    ours, peer, exact = three
    ours[place] += damage
    with pytest.raises(AssertionError) as caught:
        budget(ours, peer=peer, oracle=exact, what="output")
    assert f"output: 1 of 2560 numbers are off. Worst at {place}" in str(caught.value)
    assert "peer's" in str(caught.value)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_nan_and_infinity_on_one_side_only(three, bad: float) -> None:  # type: ignore[no-untyped-def]
    ours, peer, exact = three
    ours[0, 0, 3, 3] = bad
    with pytest.raises(AssertionError, match="1 of 2560 numbers are NaN or infinite"):
        budget(ours, peer=peer, oracle=exact)
    expected = exact.clone()
    expected[0, 0, 3, 3] = bad
    assert budget(ours, peer=peer, oracle=expected).used <= 1
    ours[0, 0, 3, 3] = 0.0
    with pytest.raises(AssertionError, match="NaN or infinite"):
        budget(ours, peer=peer, oracle=expected)


def test_a_swapped_row_a_wrong_shape_and_a_narrow_oracle(three) -> None:  # type: ignore[no-untyped-def]
    ours, peer, exact = three
    with pytest.raises(AssertionError, match="off"):
        budget(ours.flip(2), peer=peer, oracle=exact)
    with pytest.raises(AssertionError, match="shapes"):
        budget(ours[..., :1], peer=peer, oracle=exact)
    with pytest.raises(TypeError, match="expected float64"):
        budget(ours, peer=peer, oracle=exact.float())


def test_a_failing_peer_gives_no_freedom(three) -> None:  # type: ignore[no-untyped-def]
    ours, peer, exact = three
    peer = peer.clone()
    peer[0, 0, 0, 0] = torch.inf
    ours[0, 0, 0, 1] += 1e-2
    with pytest.raises(AssertionError, match="off"):
        budget(ours, peer=peer, oracle=exact)


def test_nothing_is_within_any_budget() -> None:
    nothing = torch.zeros(0, 3)
    assert budget(nothing, peer=nothing, oracle=nothing.double()).used == 0


def test_the_oracle_is_float64_and_right() -> None:
    q, k, v = qkv(queries=11, dtype=torch.bfloat16)
    bias, sinks = torch.zeros(11, 11), torch.full((4,), -torch.inf)
    found = oracle(q, k, v, bias=bias, sinks=sinks)
    assert found.output.dtype == torch.float64
    theirs = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=True, enable_gqa=True
    )
    # Both in float64: 11 additions of numbers below 4.
    torch.testing.assert_close(found.output, theirs, rtol=0, atol=1e-14)
