"""Recurrent layers: one state of fixed size that every token overwrites a little.

The idea: read one token after the other and keep only a summary. It works at any length with the
same weights and the same memory, and that is also where it fails: each step waits for the one
before, the news of the first token passes through every later update, and a translator
(`EncoderDecoder`) must squeeze a whole sentence into the one state that is handed over.

Formula
    h_t = cell(x_t, h_t-1)          y_t = h_t          cell: tanh, GRU or LSTM (core/recurrence.py)
    translator: summary = h_S of the source; the decoder starts from it and sees nothing else

Shapes: x [B, T, C], y [B, T, N]; state [B, N], of the LSTM [B, 2, N] with h first; parameters as
`torch.nn` names and lays them out.

Dtypes: products in the dtype of x; the state is float32 (float64 for float64).

Paper: Elman 1990; LSTM: Hochreiter and Schmidhuber 1997; GRU and encoder-decoder: Cho et al. 2014,
arXiv 1406.1078 (here, as in torch, z keeps the old state and r stands after W_hh);
Sutskever et al. 2014, arXiv 1409.3215.

Keeps: N numbers in all (2 N the LSTM), none per token.

Not here: several layers, both directions, projections of the state, dropout.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import nn

from attnscope.caches import StateCache
from attnscope.core.mechanism import About, Counts, Watch, parameters_of
from attnscope.core.picture import bars
from attnscope.core.recurrence import CELLS, Cell, Weights, recur

ABOUT = About(
    name="rnn",
    title_en="Recurrent networks: one fixed state",
    title_zh="RNN：一个接一个地读",
    year=2014,
    paper="Cho et al. 2014, arXiv 1406.1078; Sutskever et al. 2014, arXiv 1409.3215",
    solved="Sequences of any length with the same weights and a memory that never grows.",
    stuck=(
        "State t waits for state t - 1: 4,096 tokens are 4,096 steps that cannot run side by side, "
        "the first token's news passes through 4,095 updates, and a translator squeezes the whole "
        "sentence into one vector of fixed length."
    ),
    keeps="one state of N numbers (2 N for an LSTM), none per token",
    figures=("rnn.steps", "rnn.updates"),
)


class Recurrent(nn.Module):
    """What RNN, GRU and LSTM share: one layer, read from left to right.

    Args:
        width: C of x.
        hidden: N of the state.
        bias: whether there are bias_ih and bias_hh.
    """

    cell: ClassVar[Cell]
    counterpart: ClassVar[type[nn.RNNBase]]

    def __init__(self, width: int, hidden: int, *, bias: bool = True) -> None:
        super().__init__()
        for name, value in (("width", width), ("hidden", hidden)):
            if value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value}")
        self.width, self.hidden = width, hidden
        rows = self.cell.gates * hidden
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih_l0": (rows, width),
            "weight_hh_l0": (rows, hidden),
        }
        if bias:
            shapes |= {"bias_ih_l0": (rows,), "bias_hh_l0": (rows,)}
        for name, shape in shapes.items():
            parameter = nn.Parameter(torch.zeros(shape))
            # As torch.nn draws them.
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)
            setattr(self, name, parameter)

    @property
    def weights(self) -> Weights:
        """The layer's weights, for `recur`."""
        return Weights(**{name.removesuffix("_l0"): p for name, p in self.named_parameters()})

    def start(self, batch: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The state before the first token: zeros, [B, N] or [B, 2, N], float32 or wider."""
        shape = (batch, self.hidden) if self.cell.states == 1 else (batch, 2, self.hidden)
        wide = torch.promote_types(dtype, torch.float32)
        return torch.zeros(shape, dtype=wide, device=self.weights.weight_hh.device)

    def read(
        self,
        x: torch.Tensor,
        state: torch.Tensor | None = None,
        *,
        lengths: torch.Tensor | None = None,
        impl: str = "hoisted",
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """y [B, T, N] and the state after the last token; see `recur`.

        Args:
            state: before the first token; zeros if not given.
            lengths: integer [B], from 0 to T.

        Raises:
            ValueError, TypeError: naming the argument, what was expected and what came.
        """
        self._check(x, lengths)
        if state is None:
            state = self.start(len(x), x.dtype)
        elif state.shape != (expected := self.start(len(x)).shape):
            raise ValueError(f"state: expected {list(expected)}, got {list(state.shape)}")
        return recur(x, state, self.weights, self.cell, lengths=lengths, impl=impl)

    def forward(
        self,
        x: torch.Tensor,
        *,
        cache: StateCache | None = None,
        positions: torch.Tensor | None = None,
        watch: Watch | None = None,
        lengths: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """y [B, T, N] for x [B, T, C].

        Args:
            cache: from `new_cache`: the state goes on from where it stood.
            positions: not read; the order of the tokens is all that a recurrence knows.
            watch: never called; there are no weights of attention to watch.
            lengths: integer [B]; only without a cache, whose length is one for the whole batch.

        Raises:
            ValueError, TypeError: naming the argument, what was expected and what came.
        """
        if cache is None:
            return self.read(x, lengths=lengths)[0]
        if lengths is not None:
            raise ValueError(
                "lengths: a cache has one length for the whole batch; call read() with the state "
                "of each sequence instead"
            )
        y, state = self.read(x, cache.state)
        cache.update(state, None, tokens=x.shape[1])
        return y

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> StateCache:
        """A cache that holds the zero state, float32 or wider."""
        cache = StateCache()
        own = self.weights.weight_hh.dtype
        cache.update(self.start(batch, own if dtype is None else dtype), None, tokens=0)
        return cache

    @classmethod
    def from_torch(cls, layer: nn.RNNBase) -> Self:
        """The same layer as a `torch.nn` one, with a copy of its weights.

        Raises:
            TypeError: another class than the counterpart.
            ValueError: several layers, both directions, a projection, or relu.
        """
        if type(layer) is not cls.counterpart:
            raise TypeError(
                f"layer: expected torch.nn.{cls.counterpart.__name__}, got {type(layer).__name__}"
            )
        plain = {"num_layers": 1, "bidirectional": False, "proj_size": 0, "nonlinearity": "tanh"}
        for name, expected in plain.items():
            if getattr(layer, name, expected) != expected:
                raise ValueError(
                    f"layer: expected {name}={expected!r}, got {getattr(layer, name)!r}; "
                    f"{cls.__name__} is one plain layer"
                )
        module = cls(layer.input_size, layer.hidden_size, bias=layer.bias)
        module.to(next(layer.parameters()))  # device and dtype
        module.load_state_dict(layer.state_dict())
        return module

    def counts(
        self, tokens: int, cached: int = 0, *, dtype: torch.dtype = torch.bfloat16
    ) -> Counts:
        """What `tokens` more tokens cost; how many came before does not matter."""
        N, gates = self.hidden, self.cell.gates
        wide = torch.promote_types(dtype, torch.float32)
        kept = self.cell.states * N * wide.itemsize
        return Counts(
            parameters=parameters_of(self),
            projection_flops=2 * tokens * gates * N * (self.width + N),
            flops=0,
            flops_dense=0,
            bytes_per_token=0,
            kept_bytes=kept,
            fixed_bytes=kept,
        )

    def extra_repr(self) -> str:
        """For the module's repr."""
        return f"width={self.width}, hidden={self.hidden}"

    def _check(self, x: torch.Tensor, lengths: torch.Tensor | None) -> None:
        if x.ndim != 3 or x.shape[-1] != self.width:
            raise ValueError(f"x: expected [B, T, {self.width}], got {list(x.shape)}")
        if lengths is None:
            return
        if lengths.dtype.is_floating_point or lengths.shape != x.shape[:1]:
            raise ValueError(
                f"lengths: expected integers [{len(x)}], one per sequence, got "
                f"{list(lengths.shape)} {lengths.dtype}"
            )
        if bool(((lengths < 0) | (lengths > x.shape[1])).any()):
            raise ValueError(
                f"lengths: expected 0 to {x.shape[1]}, the tokens of x, got {lengths.tolist()}"
            )


class RNN(Recurrent):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), as `torch.nn.RNN`."""

    cell = CELLS["rnn"]
    counterpart = nn.RNN


class GRU(Recurrent):
    """Gates decide how much of the state stays, as `torch.nn.GRU`."""

    cell = CELLS["gru"]
    counterpart = nn.GRU


class LSTM(Recurrent):
    """A second vector c carries the memory through sums alone, as `torch.nn.LSTM`."""

    cell = CELLS["lstm"]
    counterpart = nn.LSTM


class EncoderDecoder(nn.Module):
    """Two recurrent layers joined by one state: translation before attention (Sutskever 2014).

    Everything that the decoder knows of the source has passed through the summary, N numbers (2 N
    for an LSTM) however long the source is. So the derivative of all outputs by the whole source
    has at most that rank.

    Args:
        source: C of the source's embeddings.
        target: C of the target's embeddings.
        hidden: N.
        kind: `RNN`, `GRU` or `LSTM`.
    """

    def __init__(
        self, source: int, target: int, hidden: int, *, kind: type[Recurrent] = GRU
    ) -> None:
        super().__init__()
        self.encoder = kind(source, hidden)
        self.decoder = kind(target, hidden)

    def encode(self, source: torch.Tensor, *, lengths: torch.Tensor | None = None) -> torch.Tensor:
        """The whole source [B, S, C] in one state, [B, N] or [B, 2, N]."""
        return self.encoder.read(source, lengths=lengths)[1]

    def start(self, summary: torch.Tensor) -> StateCache:
        """The decoder's cache before its first token: the summary, and nothing else."""
        cache = StateCache()
        cache.update(summary, None, tokens=0)
        return cache

    def forward(
        self,
        source: torch.Tensor,
        target: torch.Tensor,
        *,
        lengths: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The decoder's states [B, T, N] while it is fed the target [B, T, C']."""
        y: torch.Tensor = self.decoder(
            target, cache=self.start(self.encode(source, lengths=lengths))
        )
        return y


@dataclass
class Walk:
    """What an instrumented run counted.

    Attributes:
        steps: updates of the state, one after the other.
        updates: those that the first token's news passed through, after the one that took it in.
    """

    steps: int = 0
    updates: int = 0


def walk(tokens: int, *, cell: Cell = CELLS["gru"], hidden: int = 1) -> Walk:
    """Run a recurrence over so many tokens and count, rather than say T and T - 1.

    >>> walk(5)
    Walk(steps=5, updates=4)
    """
    count = Walk()

    def counted(a: torch.Tensor, state: torch.Tensor, w: Weights) -> torch.Tensor:
        count.updates += count.steps > 0  # a state that was updated before holds the first token
        count.steps += 1
        return cell.update(a, state, w)

    weights = Weights(torch.ones(cell.gates * hidden, 1), torch.ones(cell.gates * hidden, hidden))
    start = torch.zeros((1, hidden) if cell.states == 1 else (1, cell.states, hidden))
    with torch.no_grad():
        recur(torch.zeros(1, tokens, 1), start, weights, replace(cell, update=counted))
    return count


def picture() -> str:
    """How much of each token still moves the last state, and the counted steps."""
    T, C, N = 16, 8, 16
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer, model = RNN(C, N).double(), EncoderDecoder(C, C, 4).double()
        x, source, target = (torch.randn(t, C, dtype=torch.float64) for t in (T, 12, 6))
    _, state = layer.read(x.requires_grad_()[None])
    norms = torch.autograd.grad(state.sum(), x)[0].norm(dim=-1).tolist()
    lines = [f"how far each of {T} tokens still moves the last state (norm of its gradient)"]
    lines.append(bars({f"token {t:2}": n for t, n in enumerate(norms) if t % 3 == 0}))
    count = walk(4096)
    jacobian = torch.autograd.functional.jacobian(lambda s: model(s[None], target[None]), source)
    rank = int(torch.linalg.matrix_rank(jacobian.reshape(6 * 4, 12 * C)))
    lines += [
        f"4,096 tokens, counted: {count.steps:,} steps, {count.updates:,} updates of the first "
        "token's news",
        f"kept after 1 token: {layer.counts(1).kept_bytes} bytes; "
        f"after 4,096: {layer.counts(4096).kept_bytes} bytes",
        f"translator: 12 tokens of {C} = {12 * C} numbers go through a state of 4",
        f"law: the outputs ({6 * 4} numbers) move with the source in {rank} <= 4 directions",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
