"""A table of fixed size as a memory: what it gives back after more and more pairs.

The idea: a linear layer keeps one D x E table and writes a key with its value into it for every
token. Random pairs are written, then each key is read again. Plainly added, all pairs blur each
other; the delta rule writes the difference to what the key finds, so the newest pair is always
right; with a fading table old pairs are given up for new ones. None of them holds many more pairs
than its keys are wide. Attention that keeps every key is right however many there are.

Formula (k of length one; S the table)
    add     S <- S + k v^T                      E |S^T k_i - v_i|^2 / |v_i|^2 = (n - 1) / D
    delta   S <- S + k (v - S^T k)^T            exact for as many as D keys at right angles
    gated   S <- a S, then as delta

Shapes: counts [N]; errors [rules, N]; by_age [rules, pairs], newest first; twice [rules].

Dtypes: float64.

Not here: the layer around it, and the same over chunks (mechanisms/gated_delta.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result, at_least, positive
from attnscope.mechanisms.gated_delta import gated_delta

RULES = ("add", "delta", "gated")


@dataclass(frozen=True, eq=False)
class Memory(Result):
    """What `run` measured; an error is a root mean square over trials, relative to the values.

    Attributes:
        width: D, of keys.
        counts: [N], pairs that were written.
        errors: [3, N], of all pairs read again; rows as `RULES`.
        newest: [3, N], of the pair written last.
        law: [N], what `add` must come to.
        kept: [N], of attention over all keys, which keeps 2 D numbers a pair.
        by_age: [3, ages], after the most pairs, the newest first.
        right_angles: [3], largest error of D keys at right angles.
        twice: [3], what is read of a key that was written with 1 and then with 2.
    """

    width: int
    decay: float
    trials: int
    seed: int
    counts: np.ndarray
    errors: np.ndarray
    newest: np.ndarray
    law: np.ndarray
    kept: np.ndarray
    by_age: np.ndarray
    right_angles: np.ndarray
    twice: np.ndarray

    def picture(self) -> str:
        """Errors by the number of pairs, then by age."""
        lines = [
            f"a table of {self.width} x {self.width}; errors relative to the values",
            f"{'pairs written':26}" + "".join(f"{n:>8}" for n in self.counts),
        ]
        for rule, errors in zip(RULES, self.errors, strict=True):
            lines.append(f"{f'{rule}, all pairs':26}" + "".join(f"{e:8.2f}" for e in errors))
        lines.append(
            f"{'add, by the law':26}" + "".join(f"{e:8.2f}" for e in self.law),
        )
        for rule, errors in zip(RULES, self.newest, strict=True):
            lines.append(f"{f'{rule}, the newest':26}" + "".join(f"{e:8.2f}" for e in errors))
        lines.append(f"{'attention, all keys kept':26}" + "".join(f"{e:8.2f}" for e in self.kept))
        ages = [at for at in (0, 1, 4, 8, 16, 31) if at < self.by_age.shape[1]]
        lines += ["", f"{'pairs since then':26}" + "".join(f"{at:>8}" for at in ages)]
        for rule, errors in zip(RULES, self.by_age, strict=True):
            lines.append(f"{rule:26}" + "".join(f"{errors[at]:8.2f}" for at in ages))
        lines += [
            "",
            "keys at right angles, largest error: "
            + ", ".join(f"{r} {e:.1e}" for r, e in zip(RULES, self.right_angles, strict=True)),
            "one key written with 1, then with 2, reads: "
            + ", ".join(f"{r} {e:.3f}" for r, e in zip(RULES, self.twice, strict=True)),
        ]
        return "\n".join(lines)

    def svg(self) -> str:
        """Errors by the number of pairs, and by age."""
        many = [
            Line(rule, self.counts, errors, style=style)
            for style, (rule, errors) in enumerate(zip(RULES, self.errors, strict=True))
        ]
        many.append(Line("attention, all keys kept", self.counts, self.kept, style=3))
        ages = np.arange(self.by_age.shape[1])
        aged = [
            Line(rule, ages, errors, style=style)
            for style, (rule, errors) in enumerate(zip(RULES, self.by_age, strict=True))
        ]
        return chart(
            [
                Panel("all pairs, read again", many, x_label="pairs", y_label="relative error"),
                Panel("by age", aged, x_label="pairs since then", y_label="relative error"),
            ],
            columns=2,
            title=f"A table of {self.width} by {self.width} as a memory",
        )  # fmt: skip


def table(rule: str, k: torch.Tensor, v: torch.Tensor, *, decay: float = 1.0) -> torch.Tensor:
    """What is in the table after all pairs, [B, D, E], by a rule; k [B, n, D], v [B, n, E].

    >>> k, v = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), torch.tensor([[[1.0], [2.0]]])
    >>> [table(rule, k, v)[0, 0, 0].item() for rule in ("add", "delta")]
    [3.0, 2.0]
    """
    if rule == "add":
        return k.mT @ v
    fade = torch.full(k.shape[:2], decay if rule == "gated" else 1.0, dtype=k.dtype).log()
    k, v = k[:, None], v[:, None]
    rate = torch.ones_like(fade)
    return gated_delta(k, k, v, g=fade[:, None], beta=rate[:, None], impl="recurrent")[1][:, 0]


def run(
    *,
    width: int = 16,
    counts: Sequence[int] = (1, 4, 8, 16, 32),
    decay: float = 0.9,
    trials: int = 400,
    seed: int = 0,
) -> Memory:
    """Write random pairs by each rule and read them again.

    Args:
        width: D, of keys, and of values too.
        counts: how many pairs.
        decay: what is left of the table at every step of "gated", up to 1.
        trials: tables at every count.
        seed: of all pairs.

    Raises:
        ValueError, TypeError: a count that is too small, or a decay that is not in (0, 1].

    Cost: tens of milliseconds and some MiB with the defaults.

    >>> found = run(width=8, counts=(1, 8), trials=50)
    >>> bool(found.newest[1].max() < 1e-12 < found.newest[0, 1])
    True
    """
    at_least("width", width, 2)
    at_least("trials", trials, 1)
    positive("decay", decay)
    if decay > 1:
        raise ValueError(f"decay: expected at most 1, got {decay}")
    if not counts:
        raise ValueError("counts: expected at least one, got none")
    errors, newest, kept, aged = [], [], [], np.zeros((0, 0))
    for count in counts:
        at_least("counts", count, 1)
        random = torch.Generator().manual_seed(seed * 1009 + count)
        k, v = torch.randn(2, trials, count, width, generator=random, dtype=torch.float64)
        k = k / k.norm(dim=-1, keepdim=True)
        off = [_error(k @ table(rule, k, v, decay=decay), v) for rule in RULES]
        errors.append([_mean(one) for one in off])
        newest.append([_mean(one[:, -1]) for one in off])
        # Scores far apart: the key itself, at length one, gets nearly all of the weight.
        kept.append(_mean(_error((200.0 * k @ k.mT).softmax(-1) @ v, v)))
        aged = np.array([[_mean(one[:, at]) for at in reversed(range(count))] for one in off])
    sizes = np.array(counts, dtype=np.int64)
    eye, values = torch.eye(width, dtype=torch.float64)[None], v.new_ones(1, width, 1)
    one_key = eye[:, :1].expand(1, 2, width)
    both = torch.tensor([[[1.0], [2.0]]], dtype=torch.float64)
    return Memory(
        width=width, decay=float(decay), trials=trials, seed=seed, counts=sizes,
        errors=np.array(errors).T, newest=np.array(newest).T, law=np.sqrt((sizes - 1) / width),
        kept=np.array(kept), by_age=aged,
        right_angles=np.array([
            float((table(rule, eye, values, decay=decay)[..., 0] - 1).abs().max())
            for rule in RULES
        ]),
        twice=np.array([float(table(r, one_key, both, decay=decay)[0, 0, 0]) for r in RULES]),
    )  # fmt: skip


def _error(read: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """|read - v|^2 / D by trial and pair: values have a mean square of 1."""
    return (read - v).square().mean(-1)


def _mean(squares: torch.Tensor) -> float:
    return float(squares.mean().sqrt())


if __name__ == "__main__":
    print(run().picture())
