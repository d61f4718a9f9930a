"""The decoder of the RNN translation model: a step against Keras's attention and torch's GRU."""

from __future__ import annotations

import copy
from typing import Any

import torch
from additive_referees import by_keras, keras

from attnscope.mechanisms.additive import AttentiveDecoder
from attnscope.testing import budget

__all__ = ["keras"]  # a fixture


def test_a_decoders_step_is_keras_attention_and_torchs_gru(keras: Any) -> None:
    torch.manual_seed(3)
    decoder = AttentiveDecoder(5, 4, 6, units=7)
    source, target = torch.randn(2, 11, 5), torch.randn(2, 3, 4)
    lengths = torch.tensor([11, 6])
    source[1, 6:] = 1e3  # padding that would be noticed
    exact = copy.deepcopy(decoder).double()
    valid = torch.arange(11) < lengths[:, None]

    def theirs(m: AttentiveDecoder, dtype: torch.dtype) -> torch.Tensor:
        state, states = torch.zeros(2, 6, dtype=dtype), []
        attention = m.attention
        for t in range(3):
            q, k = attention.query_proj(state[:, None]), attention.key_proj(source.to(dtype))
            run = by_keras(keras, dtype, mask=[None, valid])
            context = run(q[:, None], k[:, None], source.to(dtype)[:, None], attention.energy)
            state = m.gru(torch.cat([target[:, t].to(dtype), context[:, 0, 0]], -1), state)
            states.append(state)
        return torch.stack(states, 1)

    with torch.no_grad():
        memory = decoder.attention.remember(source, lengths=lengths)
        state, states = torch.zeros(2, 6), []
        for t in range(3):
            state = decoder.step(target[:, t], state, memory)
            states.append(state)
        budget(
            torch.stack(states, 1),
            peer=theirs(decoder, torch.float32),
            oracle=theirs(exact, torch.float64),
        )
        together = decoder.attention.read(torch.stack(states, 1), memory)
        alone = [decoder.attention.read(s[:, None], memory) for s in states]
    # float32: the products of one and of three rows may differ in the order of 11 additions.
    torch.testing.assert_close(torch.cat(alone, 1), together, atol=1e-4, rtol=1e-5)


def test_the_decoder_is_not_bound_by_one_state() -> None:
    """The bound of rnn.EncoderDecoder (rank at most N) does not hold once it may look back."""
    torch.manual_seed(4)
    N, S, T = 3, 11, 8
    decoder = AttentiveDecoder(5, 4, N, units=7).double()
    source, target = torch.randn(1, S, 5).double(), torch.randn(1, T, 4).double()

    def outputs(s: torch.Tensor) -> torch.Tensor:
        memory, state, states = decoder.attention.remember(s), torch.zeros(1, N).double(), []
        for t in range(T):
            state = decoder.step(target[:, t], state, memory)
            states.append(state)
        return torch.stack(states, 1)

    jacobian = torch.autograd.functional.jacobian(outputs, source)
    assert int(torch.linalg.matrix_rank(jacobian.reshape(T * N, S * 5))) > N
