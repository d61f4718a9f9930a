"""Does attention learn worse without 1 / sqrt(d), and what holds logits that grow?

The idea: a one-layer transformer learns associative recall (small_model.py), which no model solves
without attending. Every variant starts from the same weights and sees the same sequences; only the
factor on q.k, the learning rate, the norm on q and k, or the clip differ. All of a run is kept,
step by step: loss, share of right answers, the largest scaled score in sight, entropy.

    scaled, unscaled           q.k / sqrt(d) against q.k, weights of variance 1 / width
    unscaled, drawn smaller    W_Q and W_K times d^(-1/4): the scaled model's scores at the start
    growing                    scaled, at a learning rate at which the logits run away
    growing + QK-norm          every head's q and k through an RMS norm
    growing + QK-Clip          after a step whose largest logit m of a head passed tau, W_Q and W_K
                               of that head times sqrt(tau / m) (Kimi K2, arXiv 2507.20534)

The claim: "for large d, dot product attention without scaling learns worse" (Vaswani et al. 2017,
arXiv 1706.03762, section 3.2, who write "we suspect"). Whether another learning rate would save
the unscaled one is asked by sweep.py.

Shapes: curves [runs, steps], one run per seed.

Units: loss and entropy in nats; logits are scaled scores.

Not here: the monitor for real training (monitor/), QK-Clip for other layouts
(mechanisms/qk_clip.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result, at_least, positive
from attnscope.lessons.experiments.small_model import (
    Recall,
    Shape,
    SmallModel,
    loss_at,
    reproducible,
)
from attnscope.mechanisms.qk_clip import clip_factors

WIDTH = 64
"""Of the stream; head widths are free of it."""

SMOOTH = 10
"""Steps over which a curve is averaged before it is compared with a threshold or drawn."""


@dataclass(frozen=True)
class Variant:
    """What one variant does differently.

    Attributes:
        name: in legends.
        rate: Adam's learning rate.
        scaled: whether q.k is divided by sqrt(d).
        qk_norm: whether q and k go through an RMS norm.
        clip: tau of QK-Clip, or None.
        start: multiplies W_Q and W_K before the first step.
    """

    name: str
    rate: float
    scaled: bool = True
    qk_norm: bool = False
    clip: float | None = None
    start: float = 1.0

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        positive("start", self.start)
        if self.clip is not None:
            positive("clip", self.clip)


def variants_at(head_width: int) -> tuple[Variant, ...]:
    """The variants of the course, for heads of this width."""
    return (
        Variant("scaled", 3e-3),
        Variant("unscaled", 3e-3, scaled=False),
        Variant("unscaled, drawn smaller", 3e-3, scaled=False, start=head_width**-0.25),
        Variant("growing", 3e-2),
        Variant("growing + QK-norm", 3e-2, qk_norm=True),
        Variant("growing + QK-Clip", 3e-2, clip=30.0),
    )


@dataclass(frozen=True, eq=False)
class Curves(Result):
    """One variant's runs, [runs, steps] each; a step's numbers are those before its update.

    Attributes:
        variant: what was trained.
        loss: mean cross-entropy of the asked values.
        right: share of the asked values that had the largest logit.
        max_logit: the largest scaled score in sight, over all layers and heads.
        entropy: mean over heads and query rows.
    """

    variant: Variant
    loss: np.ndarray
    right: np.ndarray
    max_logit: np.ndarray
    entropy: np.ndarray

    def learned_at(self, threshold: float) -> np.ndarray:
        """[runs]: the step at which the mean loss of the last SMOOTH steps fell below; else NaN."""
        smooth = smoothed(self.loss)
        below = smooth < threshold
        first = np.where(below.any(1), below.argmax(1), -1)
        return np.where(first >= 0, first + SMOOTH - 1.0, np.nan)

    def last(self, name: str) -> np.ndarray:
        """[runs]: a curve's mean over the last tenth of its steps."""
        curve: np.ndarray = getattr(self, name)
        return np.asarray(curve[:, -max(1, curve.shape[1] // 10) :].mean(1))


@dataclass(frozen=True, eq=False)
class Training(Result):
    """What `run` measured.

    Attributes:
        head_width, steps, seed: of all runs.
        task: the sequences.
        guess: loss of a model that knows only which tokens are values, log(values).
        curves: one entry per variant.
    """

    head_width: int
    steps: int
    seed: int
    task: Recall
    guess: float
    curves: tuple[Curves, ...]

    def of(self, name: str) -> Curves:
        """The curves of a variant.

        Raises:
            ValueError: no variant of that name was trained.
        """
        for curves in self.curves:
            if curves.variant.name == name:
                return curves
        known = ", ".join(curves.variant.name for curves in self.curves)
        raise ValueError(f"variant: unknown {name!r}; trained were {known}")

    def picture(self) -> str:
        """A line per variant: means over the runs, and the steps it took to learn."""
        runs = len(self.curves[0].loss)
        lines = [
            f"associative recall, d = {self.head_width}, {self.steps} steps, {runs} seed(s); a "
            f"guess among the values has loss {self.guess:.2f}",
            f"{'':24}{'rate':>6}  learned at step   last loss   right   largest logit  entropy",
        ]
        for curves in self.curves:
            learned = " ".join(
                "never" if math.isnan(step) else f"{step:.0f}"
                for step in curves.learned_at(self.guess / 2)
            )
            lines.append(
                f"{curves.variant.name:24}{curves.variant.rate:6g}  {learned:16}"
                f"{curves.last('loss').mean():10.3f}{curves.last('right').mean():8.2f}"
                f"{curves.max_logit.max():16.0f}{curves.last('entropy').mean():9.2f}"
            )
        lines.append(f"learned: the mean loss of {SMOOTH} steps is below half a guess's")
        return "\n".join(lines)

    def svg(self) -> str:
        """Loss, largest logit and entropy by step, the mean of the runs of each variant."""
        panels = []
        for name, title in (
            ("loss", "loss, nats"), ("max_logit", "largest logit"), ("entropy", "entropy, nats"),
        ):  # fmt: skip
            lines = []
            for style, curves in enumerate(self.curves):
                mean = smoothed(getattr(curves, name)).mean(0)
                steps = np.arange(len(mean)) + SMOOTH - 1
                label = f"{curves.variant.name} (rate {curves.variant.rate:g})"
                lines.append(Line(label, steps, mean, style=style))
            panels.append(Panel(title, lines, x_label="step", log_y=name == "max_logit"))
        return chart(panels, columns=3, title=f"Associative recall, d = {self.head_width}")


def smoothed(curve: np.ndarray) -> np.ndarray:
    """Means over SMOOTH neighbouring steps, [runs, steps - SMOOTH + 1]."""
    return np.lib.stride_tricks.sliding_window_view(curve, SMOOTH, axis=1).mean(-1)


def train(
    variant: Variant,
    *,
    head_width: int = 256,
    steps: int = 400,
    seeds: int = 1,
    seed: int = 0,
    batch: int = 64,
    task: Recall | None = None,
) -> Curves:
    """Train one variant, once per seed; all variants of a seed share weights and sequences.

    Args:
        variant: what to train.
        head_width: d of the one head.
        steps: of Adam, at least SMOOTH.
        seeds: runs, with the seeds `seed`, `seed + 1`, ...
        batch: sequences a step.
        task: `Recall()` if not given.

    Raises:
        ValueError, TypeError: a count that is too small.

    Cost: about 10 ms a step at d = 256 on one core; no memory to speak of.
    """
    for name, count, least in (("head_width", head_width, 1), ("steps", steps, SMOOTH),
                               ("seeds", seeds, 1), ("batch", batch, 1)):  # fmt: skip
        at_least(name, count, least)
    task = task or Recall()
    runs = [
        _one(variant, head_width, steps, seed=seed + n, batch=batch, task=task)
        for n in range(seeds)
    ]
    loss, right, largest, entropy = np.stack(runs, axis=1)
    return Curves(variant, loss, right, largest, entropy)


def _one(
    variant: Variant, head_width: int, steps: int, *, seed: int, batch: int, task: Recall
) -> np.ndarray:
    """[4, steps]: loss, right, largest logit, entropy."""
    found = np.empty((4, steps))
    with reproducible(seed):
        shape = Shape(
            task.vocabulary, width=WIDTH, head_width=head_width,
            scale=head_width**-0.5 if variant.scaled else 1.0, qk_norm=variant.qk_norm,
        )  # fmt: skip
        model = SmallModel(shape)
        shrink(model, torch.full((shape.layers, shape.heads), variant.start))
        adam = torch.optim.Adam(model.parameters(), lr=variant.rate)
        random = torch.Generator().manual_seed(seed)
        for step in range(steps):
            tokens, places = task.batch(batch, random)
            logits, look = model(tokens)
            loss, right = loss_at(logits, tokens, places)
            adam.zero_grad()
            loss.backward()
            adam.step()
            if variant.clip is not None:
                gamma = [clip_factors(of_heads, variant.clip) for of_heads in look.max_logit]
                shrink(model, torch.stack(gamma).sqrt())
            numbers = (loss.detach(), right, look.max_logit.max(), look.entropy.mean())
            found[:, step] = [float(number) for number in numbers]
    return found


@torch.no_grad()
def shrink(model: SmallModel, factor: torch.Tensor) -> None:
    """Multiply W_Q and W_K of every head by its factor, [layers, heads]."""
    for block, of_heads in zip(model.blocks, factor, strict=True):
        for projection in (block.attention.q_proj, block.attention.k_proj):  # type: ignore[union-attr]
            rows = projection.weight.view(len(of_heads), -1)  # type: ignore[union-attr, operator]
            rows.mul_(of_heads[:, None].to(rows.dtype))


def run(
    *,
    variants: Sequence[Variant] | None = None,
    head_width: int = 256,
    steps: int = 400,
    seeds: int = 3,
    task: Recall | None = None,
    seed: int = 0,
) -> Training:
    """Train every variant and keep its curves.

    Same seed, same numbers, on one machine: the last bits of a matrix product differ between
    processors, and hundreds of steps make them visible. What is claimed is the same everywhere.

    Args:
        variants: what to train; `variants_at(head_width)` if not given.
        head_width: d of the one head.
        steps: of Adam, at least SMOOTH.
        seeds: runs of each variant.
        task: `Recall()` if not given.
        seed: of the first run.

    Raises:
        ValueError, TypeError: no variant, or a count that is too small.

    Cost: 10 ms a step and run: about two minutes with the defaults on one core.
    """
    at_least("head_width", head_width, 1)
    variants = variants_at(head_width) if variants is None else variants
    if not variants:
        raise ValueError("variants: expected at least one, got none")
    task = task or Recall()
    curves = tuple(
        train(v, head_width=head_width, steps=steps, seeds=seeds, seed=seed, task=task)
        for v in variants
    )
    return Training(head_width, steps, seed, task, math.log(task.values), curves)


if __name__ == "__main__":
    print(run().picture())
