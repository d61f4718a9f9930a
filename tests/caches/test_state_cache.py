"""A state that never grows: what it takes, what it weighs, and what it cannot give back."""

from __future__ import annotations

import pytest
import torch
from cache_cases import bytes_of, laid_out, tensors

from attnscope.caches import Cache, StateCache


def test_it_never_grows() -> None:
    """Qwen3.8-27B: 48 heads of 128 x 128 in float32, 3 inputs of 10,240 channels in bfloat16."""
    cache = StateCache()
    for step in range(5):
        state, conv = tensors((1, 48, 128, 128), (1, 10240, 3), seed=step)
        cache.update(state, conv.bfloat16(), tokens=1000)
        assert cache.length == 1000 * (step + 1)
        assert cache.nbytes == 48 * 128 * 128 * 4 + 10240 * 3 * 2
        assert cache.nbytes == bytes_of(cache.state, cache.conv)
        assert cache.allocated == cache.nbytes == laid_out(cache.state, cache.conv)
        assert torch.equal(cache.state, state)  # type: ignore[arg-type]
        assert torch.equal(cache.conv, conv.bfloat16())  # type: ignore[arg-type]


def test_it_begins_empty_and_without_a_convolution() -> None:
    cache = StateCache()
    assert isinstance(cache, Cache)
    assert (cache.length, cache.nbytes, cache.allocated) == (0, 0, 0)
    assert cache.state is cache.conv is None
    cache.update(torch.ones(2, 3), None, tokens=0)
    assert (cache.length, cache.nbytes, cache.conv) == (0, 24, None)
    cache.update(torch.ones(2, 3), None, tokens=4)
    cache.clear()
    assert (cache.length, cache.nbytes, cache.state) == (0, 0, None)
    cache.update(torch.ones(1, 7).double(), torch.ones(1, 2), tokens=1)  # another shape is fine now
    assert cache.nbytes == 56 + 8


def test_a_part_of_something_larger_is_not_kept_alive() -> None:
    """The last inputs are a slice of the whole prompt, and its memory must go."""
    states, inputs = tensors((6, 1, 4, 4), (1, 8, 1000))
    cache = StateCache()
    cache.update(states[3], inputs[..., -3:], tokens=1000)
    assert laid_out(cache.state, cache.conv) == cache.nbytes == (16 + 24) * 4
    assert torch.equal(cache.state, states[3])  # type: ignore[arg-type]
    assert torch.equal(cache.conv, inputs[..., -3:])  # type: ignore[arg-type]


def test_gradients_flow_through_the_state() -> None:
    cache, x = StateCache(), torch.ones(1, 2, requires_grad=True)
    cache.update(x * 3, None, tokens=1)
    cache.update(cache.state * 5, None, tokens=1)  # type: ignore[operator]
    cache.state.sum().backward()  # type: ignore[union-attr]
    assert torch.equal(x.grad, torch.full((1, 2), 15.0))  # type: ignore[arg-type]


def test_it_goes_back_to_the_beginning_or_not_at_all() -> None:
    cache = StateCache()
    cache.update(torch.ones(1, 2), torch.ones(1, 3), tokens=5)
    cache.rewind(5)
    assert cache.length == 5
    with pytest.raises(
        ValueError, match=r"recurrent state of 5 tokens cannot be taken back to 4; clear\(\) it"
    ):
        cache.rewind(4)
    for length, kind in ((-1, ValueError), (6, ValueError), (2.0, TypeError)):
        with pytest.raises(kind, match="length: "):
            cache.rewind(length)  # type: ignore[arg-type]
    assert (cache.length, cache.nbytes) == (5, 20)
    cache.rewind(0)
    assert (cache.length, cache.nbytes) == (0, 0)


HELD = torch.zeros(2, 3, 4), torch.zeros(2, 5, 3).bfloat16()


@pytest.mark.parametrize(
    ("state", "conv", "tokens", "kind", "message"),
    [
        (torch.zeros(2, 3, 4).bfloat16(), HELD[1], 1, TypeError,
         "state: expected float32, got torch.bfloat16; the rounding of each token stays"),
        ([0.0], HELD[1], 1, TypeError, "state: expected a tensor, got list"),
        (torch.zeros(1, 3, 4), HELD[1], 1, ValueError,
         r"state: the cache holds shape \[2, 3, 4\], got \[1, 3, 4\]"),
        (torch.zeros(2, 3, 4).double(), HELD[1], 1, TypeError,
         "state: the cache holds torch.float32, got torch.float64"),
        (torch.zeros(2, 3, 4, device="meta"), HELD[1], 1, ValueError,
         "state: the cache is on cpu, got a tensor on meta"),
        (HELD[0], None, 1, ValueError, "conv: the cache held one before, got none this time"),
        (HELD[0], HELD[1].float(), 1, TypeError, "conv: the cache holds torch.bfloat16, got"),
        (HELD[0], HELD[1][..., :2], 1, ValueError, r"conv: the cache holds shape \[2, 5, 3\]"),
        (HELD[0], [0.0], 1, TypeError, "conv: expected a tensor or None, got list"),
        (HELD[0], HELD[1], -1, ValueError, "tokens: expected at least 0, got -1"),
        (HELD[0], HELD[1], 1.0, TypeError, "tokens: expected an integer, got float"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_what_is_held(  # type: ignore[no-untyped-def]
    state, conv, tokens, kind: type[Exception], message: str
) -> None:
    cache = StateCache()
    cache.update(*HELD, tokens=2)
    with pytest.raises(kind, match=message):
        cache.update(state, conv, tokens=tokens)
    assert cache.length == 2
    assert cache.state is HELD[0]
    assert cache.conv is HELD[1]


def test_the_first_state_and_inputs_are_of_one_batch() -> None:
    with pytest.raises(ValueError, match=r"conv: expected the batch of state \[2, 3\] first, got"):
        StateCache().update(torch.zeros(2, 3), torch.zeros(1, 3), tokens=1)
    cache = StateCache()
    cache.update(torch.zeros(2, 3), None, tokens=1)
    with pytest.raises(ValueError, match="conv: the cache held none before, got one this time"):
        cache.update(torch.zeros(2, 3), torch.zeros(2, 3), tokens=1)
