"""Three ways from scores to weights, side by side on scores of your own, and what breaks.

The idea: give any row of scores. Each rule's weights stand beside each other, and four tests say
which of them may be used for an average: no weight is negative, the weights exist, a constant added
to the whole row changes nothing, and how two keys share does not change when a third, unrelated one
joins. Random rows then say how often a rule fails, not only that it can.

Formula (mechanisms/rivals.py)
    proportional s_j / sum s     shifted (s_j - min s) / sum (s - min s)     softmax e^s_j / sum e^s
    a row of n scores symmetric around 0 has a negative proportional weight unless all have the same
    sign: probability 1 - 2^(1 - n)
    a newcomer drawn like the n others is the new minimum, and moves the shifted rule: 1 / (n + 1)

Shapes: scores and weights [S]; with the newcomer [S + 1].

Not here: temperature and base 2 (mechanisms/rivals.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.core.picture import pad, width
from attnscope.lessons.experiments.result import Result, at_least
from attnscope.mechanisms.rivals import weigh

RULES = ("proportional", "shifted", "softmax")
SMALL = 1e-9
"""Weights this close are the same: float64 keeps 1e-16, a fault moves them by far more."""


@dataclass(frozen=True, eq=False)
class Rules(Result):
    """What `run` found; a rule without an answer (a sum of 0) has NaN weights.

    Attributes:
        scores: [S].
        names: [S], of the keys.
        newcomer: score of the unrelated key that joins.
        shift: what is added to the whole row.
        weights: by rule, [S].
        weights_joined: by rule, [S + 1], after the newcomer.
        weights_shifted: by rule, [S], of the scores plus `shift`.
        ratio, ratio_joined: by rule, the first key's weight over the second's, before and after.
        faults: by rule, what broke on these scores, in words.
        trials: random rows, of as many normal scores.
        negative_share: by rule, share of the random rows with a negative weight.
        negative_error: its standard error by rule.
        negative_expected: share that theory gives for the proportional rule.
        others_share: by rule, share of the random rows in which a random newcomer changes the
            ratio of the first two.
        others_expected: share that theory gives for the shifted rule.
    """

    scores: np.ndarray
    names: tuple[str, ...]
    newcomer: float
    shift: float
    seed: int
    weights: dict[str, np.ndarray]
    weights_joined: dict[str, np.ndarray]
    weights_shifted: dict[str, np.ndarray]
    ratio: dict[str, float]
    ratio_joined: dict[str, float]
    faults: dict[str, tuple[str, ...]]
    trials: int
    negative_share: dict[str, float]
    negative_error: dict[str, float]
    negative_expected: float
    others_share: dict[str, float]
    others_expected: float

    def picture(self) -> str:
        """The weights of the three rules side by side, what broke, and how often it does."""
        left = max(width(name) for name in self.names)
        lines = [" " * (left + 2) + f"{'score':>8}" + "".join(f"{rule:>15}" for rule in RULES)]
        for place, name in enumerate(self.names):
            cells = "".join(_percent(self.weights[rule][place]) for rule in RULES)
            lines.append(f"{pad(name, left)}  {self.scores[place]:8g}{cells}")
        for rule in RULES:
            lines.append(f"{rule}: " + ("; ".join(self.faults[rule]) or "nothing breaks"))
        lines.append(
            f"of {self.trials:,} random rows of {len(self.scores)}, a negative weight in "
            f"{100 * self.negative_share['proportional']:.1f} % (theory "
            f"{100 * self.negative_expected:.1f} %) of the proportional, "
            f"{100 * self.negative_share['softmax']:.1f} % of the softmax;"
        )
        lines.append(
            "a newcomer changes the ratio of two others in "
            + ", ".join(f"{100 * self.others_share[rule]:.1f} % ({rule})" for rule in RULES)
            + f"; theory says {100 * self.others_expected:.1f} % for the shifted"
        )
        return "\n".join(lines)


def run(
    *,
    scores: Sequence[float] = (10.0, 3.0, -4.0),
    names: Sequence[str] | None = None,
    newcomer: float = -11.0,
    shift: float = 5.0,
    trials: int = 10_000,
    seed: int = 0,
) -> Rules:
    """Apply the three rules to a row of scores, and to random rows of the same length.

    Args:
        scores: at least two finite numbers.
        names: of the keys; letters if not given.
        newcomer: score of an unrelated key that joins the row.
        shift: a constant added to the whole row.
        trials: random rows.
        seed: of the random rows; the given row does not depend on it.

    Raises:
        ValueError, TypeError: fewer than two scores, one that is not finite, as many names as
            there are scores not given, or no trial.

    Cost: milliseconds.

    >>> run(scores=(3.0, -3.0)).faults["proportional"][0]
    'the sum is 0: no weights'
    """
    row = np.array(scores, dtype=np.float64)
    if row.ndim != 1 or row.size < 2:
        raise ValueError(f"scores: expected a row of at least two, got shape {list(row.shape)}")
    if not (np.isfinite(row).all() and math.isfinite(newcomer) and math.isfinite(shift)):
        raise ValueError("scores, newcomer, shift: expected finite numbers")
    labels = tuple(names) if names is not None else tuple(_letter(i) for i in range(row.size))
    if len(labels) != row.size:
        raise ValueError(f"names: expected {row.size}, one per score, got {len(labels)}")
    at_least("trials", trials, 1)
    joined = np.append(row, newcomer)
    weights = {rule: _weigh(row, rule) for rule in RULES}
    after = {rule: _weigh(joined, rule) for rule in RULES}
    shifted = {rule: _weigh(row + shift, rule) for rule in RULES}
    ratio = {rule: _ratio(weights[rule]) for rule in RULES}
    ratio_after = {rule: _ratio(after[rule]) for rule in RULES}
    random = np.random.default_rng(seed).standard_normal((trials, row.size + 1))
    negative, others = {}, {}
    for rule in RULES:
        before, then = _weigh(random[:, :-1], rule), _weigh(random, rule)
        negative[rule] = float((before < 0).any(-1).mean())
        # Ratios are compared crosswise, since the shifted rule has weights of 0.
        moved = np.abs(before[:, 0] * then[:, 1] - before[:, 1] * then[:, 0])
        others[rule] = float((moved > SMALL * _size(before) * _size(then)).mean())
    expected = 1 - 2.0 ** (1 - row.size)
    return Rules(
        scores=row, names=labels, newcomer=float(newcomer), shift=float(shift), seed=seed,
        weights=weights, weights_joined=after, weights_shifted=shifted,
        ratio=ratio, ratio_joined=ratio_after,
        faults={
            rule: _faults(weights[rule], after[rule], shifted[rule], newcomer=newcomer, shift=shift)
            for rule in RULES
        },
        trials=trials, negative_share=negative,
        negative_error={r: math.sqrt(s * (1 - s) / trials) for r, s in negative.items()},
        negative_expected=expected, others_share=others,
        others_expected=1 / (row.size + 1),
    )  # fmt: skip


def _letter(place: int) -> str:
    return chr(ord("a") + place) if place < 26 else f"k{place}"


def _weigh(rows: np.ndarray, rule: str) -> np.ndarray:
    """Weights in float64; NaN in a row whose sum is 0, where division gives infinities too."""
    found = weigh(torch.from_numpy(np.ascontiguousarray(rows)), rule).numpy()
    broken = ~np.isfinite(found).all(-1, keepdims=True)
    return np.where(broken, np.nan, found)


def _size(weights: np.ndarray) -> np.ndarray:
    size: np.ndarray = np.abs(weights).max(-1)
    return size


def _ratio(weights: np.ndarray) -> float:
    """The first weight over the second: infinite over 0, NaN if there are no weights."""
    first, second = float(weights[0]), float(weights[1])
    if second == 0 or math.isnan(second):
        return math.inf if first > 0 else math.nan
    return first / second


def _percent(weight: float) -> str:
    return f"{'none':>15}" if math.isnan(weight) else f"{100 * weight:13.1f} %"


def _shown(ratio: float) -> str:
    return "1 : 0" if math.isinf(ratio) else f"{ratio:.4g} : 1"


def _faults(
    weights: np.ndarray,
    joined: np.ndarray,
    shifted: np.ndarray,
    *,
    newcomer: float,
    shift: float,
) -> tuple[str, ...]:
    if np.isnan(weights).any():
        return ("the sum is 0: no weights",)
    found = []
    if (weights < 0).any():
        found.append(
            f"weights from {100 * weights.min():.1f} % to {100 * weights.max():.1f} %: a negative "
            "one is no share"
        )
    if not np.allclose(weights, shifted, rtol=0, atol=SMALL):
        found.append(f"adding {shift:g} to every score changes the weights")
    before, after = _ratio(weights), _ratio(joined)
    if not math.isclose(before, after, rel_tol=SMALL):
        found.append(
            f"a key of score {newcomer:g} joins and the first two share {_shown(after)} in place "
            f"of {_shown(before)}"
        )
    return tuple(found)


if __name__ == "__main__":
    print(run().picture())
