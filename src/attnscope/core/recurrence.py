"""One token after the other: the cells of recurrent layers, and the loop that walks them.

The idea: a recurrence is one function (what came in, the state so far) -> the next state. Which one
is a small record, so that the loop can be read, counted or instrumented without knowing the kind.

Formula (a = W_ih x + b_ih and u = W_hh h + b_hh, cut into gates)
    RNN     h' = tanh(a + u)
    GRU     r = sigmoid(a_r + u_r)   z = sigmoid(a_z + u_z)   n = tanh(a_n + r * u_n)
            h' = (1 - z) * n + z * h
    LSTM    i, f, o = sigmoid(a + u)   g = tanh(a_g + u_g)   c' = f * c + i * g
            h' = o * tanh(c')

Shapes: x [B, T, C], y [B, T, N]; state [B, N], of the LSTM [B, 2, N] with h first; weights
[gates * N, C or N], gates in the order r, z, n (GRU) and i, f, g, o (LSTM).

Dtypes: products in the dtype of x; the state is float32 (float64 for float64), as each rounding of
it stays.

Not here: the modules, who invented what (mechanisms/rnn.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch.nn import functional

IMPLS: Final = ("reference", "hoisted")


@dataclass(frozen=True)
class Weights:
    """The weights of one layer, under torch.nn's names without the `_l0`.

    Attributes:
        weight_ih: [gates * N, C].
        weight_hh: [gates * N, N].
        bias_ih, bias_hh: [gates * N], or None.
    """

    weight_ih: torch.Tensor
    weight_hh: torch.Tensor
    bias_ih: torch.Tensor | None = None
    bias_hh: torch.Tensor | None = None


@dataclass(frozen=True)
class Cell:
    """One kind of recurrence.

    Attributes:
        gates: how many times N rows the weights have.
        states: how many vectors of N the state holds.
        update: (a [B, gates * N], state, weights) -> the next state.
    """

    gates: int
    states: int
    update: Callable[[torch.Tensor, torch.Tensor, Weights], torch.Tensor]

    def output(self, state: torch.Tensor) -> torch.Tensor:
        """h, [B, N], which is all of the state but in an LSTM."""
        return state if self.states == 1 else state[:, 0]


def _recurrent(h: torch.Tensor, w: Weights) -> torch.Tensor:
    """u = W_hh h + b_hh, in the dtype of the weights."""
    return functional.linear(h.to(w.weight_hh.dtype), w.weight_hh, w.bias_hh)


def _rnn(a: torch.Tensor, h: torch.Tensor, w: Weights) -> torch.Tensor:
    return torch.tanh(a.to(h.dtype) + _recurrent(h, w))


def _gru(a: torch.Tensor, h: torch.Tensor, w: Weights) -> torch.Tensor:
    a_r, a_z, a_n = a.to(h.dtype).chunk(3, -1)
    u_r, u_z, u_n = _recurrent(h, w).to(h.dtype).chunk(3, -1)
    r, z = torch.sigmoid(a_r + u_r), torch.sigmoid(a_z + u_z)
    n = torch.tanh(a_n + r * u_n)
    return (1 - z) * n + z * h


def _lstm(a: torch.Tensor, state: torch.Tensor, w: Weights) -> torch.Tensor:
    h, c = state.unbind(1)
    i, f, g, o = (a.to(h.dtype) + _recurrent(h, w)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.stack([torch.sigmoid(o) * torch.tanh(c), c], 1)


CELLS: Final[dict[str, Cell]] = {
    "rnn": Cell(1, 1, _rnn),
    "gru": Cell(3, 1, _gru),
    "lstm": Cell(4, 2, _lstm),
}


def recur(
    x: torch.Tensor,
    state: torch.Tensor,
    weights: Weights,
    cell: Cell,
    *,
    lengths: torch.Tensor | None = None,
    impl: str = "hoisted",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Read T tokens one after the other.

    Args:
        x: [B, T, C].
        state: before the first token, [B, N] or [B, 2, N], float32 or float64.
        weights, cell: which layer; see `CELLS`.
        lengths: integer [B]: tokens of each sequence; beyond them the state stands still and y is
            0, as torch's packed sequences have it.
        impl: "reference" (W_ih x inside the loop, as the formula stands) or "hoisted" (it needs no
            state, so it is taken out of the loop as one product).

    Returns:
        y [B, T, N] in the dtype of x, and the state after the last token.

    Raises:
        ValueError: an unknown impl.

    Cost: T steps, one after the other, of 2 gates N (C + N) FLOPs per sequence each.
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    w = weights
    whole = functional.linear(x, w.weight_ih, w.bias_ih) if impl == "hoisted" else None
    outputs = []
    for t in range(x.shape[1]):
        a = functional.linear(x[:, t], w.weight_ih, w.bias_ih) if whole is None else whole[:, t]
        new = cell.update(a, state, w)
        y = cell.output(new)
        if lengths is None:
            state = new
        else:
            alive = (t < lengths)[:, None]
            state = torch.where(alive if state.ndim == 2 else alive[..., None], new, state)
            y = torch.where(alive, y, 0.0)
        outputs.append(y.to(x.dtype))
    if not outputs:
        return x.new_zeros(len(x), 0, w.weight_hh.shape[1]), state
    return torch.stack(outputs, 1), state
