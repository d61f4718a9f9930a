"""What a missing, a late and a finite causal mask do.

The idea: without a mask the verb of the teaching world puts a third of its attention on the very
token it has to predict. Train a small model so, on a source whose entropy is known, and its loss
falls below that entropy, which no honest prediction can; asked with nothing but the prefix it is
worse than a guess. Masked after the softmax, a row keeps only the share that it did not give to
the future, and so does its output. A large negative number does what minus infinity does, as long
as the dtype holds it, scores are not as large, and every row sees something.

Formula
    entropy rate of a Markov chain    h = sum_a pi_a sum_b -P_ab log P_ab        pi P = pi
    after the softmax                 o_i = share_i (o_i masked before), share_i = sum_(j <= i) p_ij

Shapes: weights [T]; losses [steps].

Units: losses and entropies in nats per token.

Not here: the ways of masking themselves (mechanisms/masking.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.core.picture import bar, pad, width
from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result, at_least
from attnscope.lessons.experiments.small_model import (
    Shape,
    SmallModel,
    loss_at,
    reproducible,
)
from attnscope.lessons.world import load
from attnscope.mechanisms.masking import leak, masked_weights

ASKER, ANSWER = "给了", "小王"
NUMBERS = (-math.inf, -1e9, -1e4)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
STATES, LENGTH, BATCH = 8, 16, 64


@dataclass(frozen=True)
class Fill:
    """What a number in place of minus infinity hides in one dtype.

    Attributes:
        dtype, number: which.
        stored: the number as the dtype holds it.
        ordinary: weight that hidden keys keep where all scores are 0.
        extreme: the same where the visible score is -`reach` and the hidden ones are +`reach`.
        blind: what a row that sees nothing gives away: 0 would be right, 1 is all, NaN spreads.
        even: whether that row ignores its own scores, because the dtype has no digits left for
            them beside the number.
    """

    dtype: str
    number: float
    stored: float
    ordinary: float
    extreme: float
    blind: float
    reach: float
    even: bool


@dataclass(frozen=True, eq=False)
class Leaks(Result):
    """What `run` found.

    Attributes:
        tokens: [T], of the teaching world.
        unmasked, masked, masked_after: [T], weights of the row 给了 without a mask, with one before
            the softmax, and with one after it.
        answer: weight of the unmasked row on the token it has to predict, which is 小王 here.
        share: what the row masked after the softmax sums to.
        output_before, output_after: [d], outputs of the two; the second is `share` times the first.
        fills: numbers in place of minus infinity, by dtype.
        entropy_rate: what no prediction of the random source can beat.
        guess: loss of guessing evenly, log(states).
        causal_loss, leaky_loss: [steps], training losses with and without the mask.
        causal_error, leaky_error: one standard error of the two last losses below.
        causal_last, leaky_last: loss on new text, as in training: the whole text at once.
        causal_prefix, leaky_prefix: the same models on the same text, fed one prefix after another,
            so that nothing can be read ahead.
        prefix_gap: largest change of a prediction of the causal model between the two: rounding.
    """

    tokens: tuple[str, ...]
    unmasked: np.ndarray
    masked: np.ndarray
    masked_after: np.ndarray
    answer: float
    share: float
    output_before: np.ndarray
    output_after: np.ndarray
    fills: tuple[Fill, ...]
    entropy_rate: float
    guess: float
    causal_loss: np.ndarray
    leaky_loss: np.ndarray
    causal_error: float
    leaky_error: float
    causal_last: float
    leaky_last: float
    causal_prefix: float
    leaky_prefix: float
    prefix_gap: float
    steps: int
    seed: int

    def picture(self) -> str:
        """The row three times, the trained models, and the table of numbers."""
        left = max(width(token) for token in self.tokens)
        lines = [f"row {ASKER}{'':{left - 2}}no mask   before    after the softmax"]
        rows = zip(self.tokens, self.unmasked, self.masked, self.masked_after, strict=True)
        for token, *weights in rows:
            cells = "".join(f"{100 * w:8.1f} %" for w in weights)
            lines.append(f"  {pad(token, left)}{cells}  {bar(weights[0])}".rstrip())
        norms = (np.linalg.norm(self.output_before), np.linalg.norm(self.output_after))
        lines += [
            f"the answer {ANSWER} has {100 * self.answer:.1f} %; masked after, the row keeps "
            f"{100 * self.share:.1f} % and |output| falls from {norms[0]:.3f} to {norms[1]:.3f}",
            f"trained {self.steps} steps on a source of entropy {self.entropy_rate:.3f} nats:",
            "             whole text at once   prefix by prefix",
            f"  causal        {self.causal_last:12.3f}    {self.causal_prefix:12.3f}",
            f"  no mask       {self.leaky_last:12.3f}    {self.leaky_prefix:12.3f}   (a guess: "
            f"{self.guess:.3f})",
            "number      dtype       held as    leaks   leaks at +-6000   a row that sees nothing",
        ]
        for fill in self.fills:
            given = "NaN" if math.isnan(fill.blind) else f"gives {100 * fill.blind:.0f} %"
            lines.append(
                f"{fill.number:<10g}  {fill.dtype:9}{fill.stored:11.4g}{fill.ordinary:9.3g}"
                f"{fill.extreme:18.3g}   {given}" + (", evenly" if fill.even else "")
            )
        return "\n".join(lines)

    def svg(self) -> str:
        """The training losses, against the entropy of the source."""
        steps = np.arange(1, self.steps + 1, dtype=np.float64)
        lines = [
            Line("causal", steps, self.causal_loss, style=0),
            Line("no mask", steps, self.leaky_loss, style=1),
            Line("entropy of the source", steps, np.full(self.steps, self.entropy_rate), style=-1),
        ]
        panel = Panel(
            "training loss, nats", lines, x_label="step", y_label="loss",
            y_range=(0.0, float(max(self.causal_loss.max(), self.leaky_loss.max()))),
        )  # fmt: skip
        return chart([panel], columns=1, title="Below the entropy: reading ahead")


def run(*, steps: int = 300, seed: int = 0) -> Leaks:
    """Look at the teaching world's row, train a model with and without a mask, try the numbers.

    Args:
        steps: of training, at least 1.
        seed: of the source, the weights and the text.

    Raises:
        ValueError, TypeError: no steps.

    Cost: 5 ms a step and model on one core, 3 s with the defaults.

    >>> found = run(steps=1)
    >>> round(100 * found.answer, 1), round(100 * found.share, 1)
    (32.5, 67.5)
    """
    at_least("steps", steps, 1)
    world = load()
    row, answer = world.index(ASKER), world.index(ANSWER)
    q, k = (torch.tensor(x)[None, None] for x in (world.q, world.k))
    unmasked = world.weights(causal=False)[row]
    before, after = (
        masked_weights(q, k, way=way)[0, 0, row].numpy() for way in ("before", "after")
    )
    chain = _chain(np.random.default_rng([seed, 0]))
    stationary = _stationary(chain)
    causal, leaky = (_train(chain, steps, seed, causal=causal) for causal in (True, False))
    return Leaks(
        tokens=world.tokens, unmasked=unmasked, masked=before, masked_after=after,
        answer=float(unmasked[answer]), share=float(after.sum()),
        output_before=before @ world.v, output_after=after @ world.v,
        fills=tuple(_fill(number, dtype) for number in NUMBERS for dtype in DTYPES),
        entropy_rate=float(-(stationary @ (chain * np.log(chain)).sum(-1))),
        guess=math.log(STATES),
        causal_loss=causal.losses, leaky_loss=leaky.losses,
        causal_error=causal.error, leaky_error=leaky.error,
        causal_last=causal.whole, leaky_last=leaky.whole,
        causal_prefix=causal.prefix, leaky_prefix=leaky.prefix, prefix_gap=causal.gap,
        steps=steps, seed=seed,
    )  # fmt: skip


def _fill(number: float, dtype: torch.dtype) -> Fill:
    found = leak(number, dtype)
    q = torch.ones(1, 1, 1, 1, dtype=dtype)
    k = torch.tensor([-3.0, 0.0, 3.0], dtype=dtype).view(1, 1, 3, 1)
    blind = masked_weights(
        q, k, way="number", number=number, mask=torch.zeros(3, dtype=torch.bool), scale=1.0
    )
    return Fill(
        str(dtype).removeprefix("torch."), number, found.stored, found.ordinary, found.extreme,
        found.blind, found.reach, even=bool(blind.amax() == blind.amin()),
    )  # fmt: skip


def _chain(random: np.random.Generator) -> np.ndarray:
    """[STATES, STATES], rows of next-token probabilities, neither even nor certain."""
    chain: np.ndarray = random.dirichlet(np.full(STATES, 0.5), STATES) + 0.01
    return chain / chain.sum(-1, keepdims=True)


def _stationary(chain: np.ndarray) -> np.ndarray:
    """pi with pi P = pi, sum 1."""
    system = np.vstack([chain.T - np.eye(len(chain)), np.ones(len(chain))])
    wanted = np.append(np.zeros(len(chain)), 1.0)
    found: np.ndarray = np.linalg.lstsq(system, wanted, rcond=None)[0]
    return found


def _text(
    chain: torch.Tensor, start: torch.Tensor, size: int, random: torch.Generator
) -> torch.Tensor:
    """[size, LENGTH + 1] tokens of the chain, from its stationary distribution on."""
    tokens = [torch.multinomial(start, size, replacement=True, generator=random)]
    for _ in range(LENGTH):
        tokens.append(torch.multinomial(chain[tokens[-1]], 1, generator=random)[:, 0])
    return torch.stack(tokens, 1)


@dataclass(frozen=True)
class _Trained:
    losses: np.ndarray
    whole: float
    prefix: float
    error: float
    gap: float


def _train(chain: np.ndarray, steps: int, seed: int, *, causal: bool) -> _Trained:
    """Train on the chain, then ask for every next token twice: whole text, prefix by prefix."""
    losses = np.empty(steps)
    P, pi = torch.from_numpy(chain).float(), torch.from_numpy(_stationary(chain)).float()
    with reproducible(seed):
        random = torch.Generator().manual_seed(seed)
        shape = Shape(STATES, width=32, head_width=32, scale=32**-0.5, causal=causal,
                      previous=False, length=LENGTH + 1)  # fmt: skip
        model = SmallModel(shape)
        adam = torch.optim.Adam(model.parameters(), lr=1e-2)
        places = torch.arange(LENGTH)
        for step in range(steps):
            text = _text(P, pi, BATCH, random)
            loss, _ = loss_at(model(text)[0], text, places)
            adam.zero_grad()
            loss.backward()
            adam.step()
            losses[step] = float(loss.detach())
        with torch.no_grad():
            text = _text(P, pi, 8 * BATCH, random)
            whole = model(text)[0][:, :LENGTH].log_softmax(-1)
            prefix = torch.stack(
                [model(text[:, :end])[0][:, -1] for end in range(1, LENGTH + 1)], 1
            ).log_softmax(-1)
            right = text[:, 1:, None]
            each = -whole.gather(-1, right)[..., 0].mean(1)
            return _Trained(
                losses, float(each.mean()), float(-prefix.gather(-1, right).mean()),
                float(each.std() / math.sqrt(len(each))), float((whole - prefix).abs().max()),
            )  # fmt: skip


if __name__ == "__main__":
    print(run().picture())
