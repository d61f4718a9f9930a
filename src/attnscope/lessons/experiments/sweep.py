"""Does another learning rate save attention without 1 / sqrt(d)? The claim, at several of them.

The idea: a factor on the scores can also be had by smaller W_Q and W_K, so at one learning rate the
unscaled model may just have been given the wrong one. Here each gets several, at several widths of
the head, on the task of training.py, and the best rate of each is compared.

Shapes: [2, widths, rates, seeds], row 0 scaled and row 1 not.

Units: losses in nats.

Not here: the runs themselves (training.py); weights drawn smaller, which do the same as a scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result
from attnscope.lessons.experiments.small_model import Recall
from attnscope.lessons.experiments.training import Variant, train


@dataclass(frozen=True, eq=False)
class Sweep(Result):
    """The claim, asked at several learning rates. Arrays are [2, widths, rates, seeds], 0 scaled.

    Attributes:
        widths, rates: of heads, and of Adam.
        loss: mean over the last tenth of the steps.
        learned_at: step at which the loss fell below half a guess's, NaN if it never did.
        max_logit: the largest of all steps.
    """

    widths: np.ndarray
    rates: np.ndarray
    steps: int
    seed: int
    guess: float
    loss: np.ndarray
    learned_at: np.ndarray
    max_logit: np.ndarray

    def best(self) -> np.ndarray:
        """[2, widths, seeds]: the last loss at the rate that is best on the mean of the seeds."""
        rate = self.loss.mean(-1).argmin(-1)
        return np.take_along_axis(self.loss, rate[..., None, None], axis=2)[:, :, 0]

    def fastest(self) -> np.ndarray:
        """[2, widths]: fewest steps to learn, mean of the seeds, of rates at which all learned."""
        mean = np.where(np.isnan(self.learned_at).any(-1), np.inf, self.learned_at.mean(-1))
        return np.asarray(mean.min(-1))

    def picture(self) -> str:
        """Last loss and steps to learn by width and learning rate, and at the best rate of each."""
        seeds = self.loss.shape[-1]
        lines = [
            f"{self.steps} steps, {seeds} seed(s); a guess has loss {self.guess:.2f}; mean last "
            "loss (mean step at which it was learned)",
            f"{'d':>5} {'':9}" + "".join(f"{f'rate {rate:g}':>17}" for rate in self.rates),
        ]
        for place, width in enumerate(self.widths):
            for kind, name in enumerate(("scaled", "unscaled")):
                cells = []
                for rate in range(len(self.rates)):
                    step = self.learned_at[kind, place, rate]
                    shown = "never" if np.isnan(step).any() else f"{step.mean():.0f}"
                    cells.append(f"{self.loss[kind, place, rate].mean():9.3f} ({shown:>5})")
                lines.append(f"{width:5d} {name:9}" + "".join(f"{c:>17}" for c in cells))
        best, fastest = self.best(), self.fastest()
        lines.append("each at its own best rate:")
        for place, width in enumerate(self.widths):
            worse = int((best[1, place] > best[0, place]).sum())
            lines.append(
                f"{width:5d} last loss {best[0, place].mean():.4f} scaled, "
                f"{best[1, place].mean():.4f} unscaled (worse in {worse} of {seeds} seeds); "
                f"learned at step {fastest[0, place]:.0f} and {fastest[1, place]:.0f}"
            )
        return "\n".join(lines)

    def svg(self) -> str:
        """Last loss against head width, a panel per learning rate."""
        power, least = np.log2(self.widths), float(self.loss.mean(-1).min()) / 2
        panels = [
            Panel(
                f"learning rate {rate:g}",
                [
                    Line(name, power, self.loss[kind, :, place].mean(-1), style=kind)
                    for kind, name in enumerate(("scaled", "unscaled"))
                ],
                x_label="log2 of the head width d",
                y_label="last loss, nats",
                y_range=(least, self.guess),
                log_y=True,
            )
            for place, rate in enumerate(self.rates)
        ]
        return chart(panels, columns=len(panels), title="Last loss with and without 1 / sqrt(d)")


def run(
    *,
    widths: Sequence[int] = (16, 64, 256),
    rates: Sequence[float] = (1e-3, 3e-3, 1e-2),
    steps: int = 400,
    seeds: int = 3,
    task: Recall | None = None,
    seed: int = 0,
) -> Sweep:
    """Train scaled and unscaled at every width and learning rate.

    Raises:
        ValueError, TypeError: no width or rate, or a count that is too small.

    Cost: 2 x widths x rates x seeds runs; four to eight minutes with the defaults on one core.
    """
    if not widths or not rates:
        raise ValueError("widths, rates: expected at least one of each, got none")
    task = task or Recall()
    guess = math.log(task.values)
    size = (2, len(widths), len(rates), seeds)
    loss, learned, largest = (np.empty(size) for _ in range(3))
    for kind, width, rate in np.ndindex(size[:3]):
        variant = Variant("", rates[rate], scaled=kind == 0)
        curves = train(
            variant, head_width=widths[width], steps=steps, seeds=seeds, seed=seed, task=task
        )
        place = (kind, width, rate)
        loss[place], learned[place] = curves.last("loss"), curves.learned_at(guess / 2)
        largest[place] = curves.max_logit.max(1)
    return Sweep(
        np.array(widths), np.array(rates, dtype=np.float64), steps, seed, guess,
        loss, learned, largest,
    )  # fmt: skip


if __name__ == "__main__":
    print(run().picture())
