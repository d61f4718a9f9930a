"""An output is a mixture of values: what one softmax can fetch, and what it cannot.

The idea: weights that are positive and sum to one put the output between the values, coordinate by
coordinate. So a head that should bring "who gives" and "what is given" must split its one hundred
per cent, and brings neither whole. Two heads, two halves of the same projections, do both. The
distance from what was wanted to the nearest mixture is computed, over every face of the hull: no
training, no other scores could bring one head closer.

Formula
    min_j v_jc <= o_c = sum_j p_j v_jc <= max_j v_jc            for every coordinate c
    wanted = (the giver's value in head A's columns, the thing's value in head B's columns)
    nearest = the point of {sum_j p_j v_j, p >= 0, sum p = 1} with the least |. - wanted|

Shapes: weights [T], values [T, d]; T the keys that 给了 has in sight, d the columns of a head.

Not here: whether a trained head splits so; these vectors were made by hand (lessons/world.py).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from attnscope.core.picture import bar, pad, width
from attnscope.lessons.experiments.result import Result, at_least
from attnscope.lessons.world import ENGLISH, World, cosine, load

ASKER, GIVER, THING = "给了", "小明", "苹果"
NAMES = ("小明", "小王")


@dataclass(frozen=True, eq=False)
class Convex(Result):
    """What `run` computed, all of the causal row of 给了 alone.

    Attributes:
        tokens: [T], the keys in sight.
        values: [T, d].
        weights: [T], of one head over all columns.
        output, low, high: [d], the output and the least and largest value of each coordinate.
        head_weights: [heads, T], of the halves.
        head_outputs: [heads, d / heads].
        wanted: [d], the giver's value in the first head's columns, the thing's in the second's.
        nearest, nearest_weights: [d] and [T], the closest that any weights of one head come.
        one_head_distance: |output - wanted|.
        nearest_distance: |nearest - wanted|: above 0 is what no single head can repair.
        two_heads_nearest_distance: the same with weights of their own for each head: 0.
        two_heads_distance: |what the two heads bring - wanted|.
        key_cosine, value_cosine: between the two names.
        trials: random rows of random values.
        outside: how many of their outputs left the box of their values; a mixture never does.
        outside_if_damaged: the same with weights of which one is negative and the sum still 1.
    """

    tokens: tuple[str, ...]
    values: np.ndarray
    weights: np.ndarray
    output: np.ndarray
    low: np.ndarray
    high: np.ndarray
    head_weights: np.ndarray
    head_outputs: np.ndarray
    wanted: np.ndarray
    nearest: np.ndarray
    nearest_weights: np.ndarray
    one_head_distance: float
    nearest_distance: float
    two_heads_nearest_distance: float
    two_heads_distance: float
    key_cosine: float
    value_cosine: float
    trials: int
    seed: int
    outside: int
    outside_if_damaged: int

    def picture(self) -> str:
        """Coordinates between their ends, then the weights of one head and of two."""
        lines = [f"row {ASKER} ({ENGLISH[ASKER]}): every coordinate between its least and largest"]
        for c, (low, at, high) in enumerate(zip(self.low, self.output, self.high, strict=True)):
            share = (at - low) / (high - low) if high > low else 0.0
            track = pad("·" * round(20 * share) + "o", 21).replace(" ", "·")
            lines.append(f"  o[{c}]  {low:6.2f} {track} {high:5.2f}   {at:.3f}")
        rows = {"one head": self.weights, "head A": self.head_weights[0],
                "head B": self.head_weights[1]}  # fmt: skip
        left = max(width(token) for token in self.tokens) + 1
        for name, weights in rows.items():
            lines.append(name)
            for token, weight in zip(self.tokens, weights, strict=True):
                lines.append(f"  {pad(token, left)} {100 * weight:5.1f} %  {bar(weight)}".rstrip())
        lines += [
            f"wanted: {GIVER} in A's columns, {THING} in B's. Distance of one head "
            f"{self.one_head_distance:.3f}, of two {self.two_heads_distance:.3f};",
            f"the best that any weights could do: one head {self.nearest_distance:.3f}, two "
            f"{self.two_heads_nearest_distance:.3f}",
            f"cosine of {NAMES[0]} and {NAMES[1]}: keys {self.key_cosine:.3f}, values "
            f"{self.value_cosine:.3f}",
            f"law: of {self.trials:,} random mixtures {self.outside} left the box of their values; "
            f"with one negative weight {self.outside_if_damaged:,} did",
        ]
        return "\n".join(lines)


def run(*, world: World | None = None, trials: int = 2_000, seed: int = 0) -> Convex:
    """Take the row 给了 of the teaching world apart, and try the law on random mixtures.

    Args:
        world: another world with the same tokens and two heads; the package's own if not given.
        trials: random mixtures, 5 values of width 4 each.
        seed: of the random mixtures.

    Raises:
        ValueError, TypeError: no trial, a world without the tokens or with other than two heads.

    Cost: milliseconds; the nearest mixture takes 2^T - 1 small systems of equations.

    >>> found = run(trials=10)
    >>> [round(100 * float(w), 1) for w in (found.weights[2], found.weights[0])]
    [56.5, 39.4]
    """
    world = world or load()
    at_least("trials", trials, 1)
    if world.heads != 2:
        raise ValueError(f"world: expected two heads, got {world.heads}")
    row = world.index(ASKER)
    seen = slice(0, row + 1)
    first, second = world.index(GIVER), world.index(THING)
    if max(first, second) > row:
        raise ValueError(f"world: expected {GIVER} and {THING} before {ASKER}")
    values, weights = world.v[seen], world.weights()[row, seen]
    head_weights = np.stack([world.weights(head)[row, seen] for head in (0, 1)])
    head_outputs = np.stack([world.output(head)[row] for head in (0, 1)])
    wanted = np.concatenate([values[first, world.columns(0)], values[second, world.columns(1)]])
    nearest_weights = nearest_mixture(values, wanted)
    apart = [
        values[:, world.columns(h)].T @ nearest_mixture(
            values[:, world.columns(h)], wanted[world.columns(h)]
        )
        for h in (0, 1)
    ]  # fmt: skip
    one, other = (world.index(name) for name in NAMES)
    outside, damaged = _random_mixtures(trials, np.random.default_rng(seed))
    return Convex(
        tokens=world.tokens[seen], values=values, weights=weights, output=weights @ values,
        low=values.min(0), high=values.max(0),
        head_weights=head_weights, head_outputs=head_outputs, wanted=wanted,
        nearest=nearest_weights @ values, nearest_weights=nearest_weights,
        one_head_distance=float(np.linalg.norm(weights @ values - wanted)),
        nearest_distance=float(np.linalg.norm(nearest_weights @ values - wanted)),
        two_heads_nearest_distance=float(np.linalg.norm(np.concatenate(apart) - wanted)),
        two_heads_distance=float(np.linalg.norm(head_outputs.ravel() - wanted)),
        key_cosine=cosine(world.k[one], world.k[other]),
        value_cosine=cosine(world.v[one], world.v[other]),
        trials=trials, seed=seed, outside=outside, outside_if_damaged=damaged,
    )  # fmt: skip


def nearest_mixture(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Weights, none negative, sum 1, whose mixture of the values is closest to a point.

    The closest point lies inside some face of the hull, where it is the closest point of the
    face's whole plane; so every subset of the values is tried, and the best whose weights are all
    positive is the answer.

    Args:
        values: [T, d]; T up to about 12, as the cost is 2^T.
        wanted: [d].

    Returns:
        [T].

    >>> nearest_mixture(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([0.5, 1.0])).tolist()
    [0.75, 0.25]
    """
    best, least = None, np.inf
    for size in range(1, len(values) + 1):
        for chosen in itertools.combinations(range(len(values)), size):
            corners = values[list(chosen)]
            # Moves within the plane; lstsq copes with corners that lie on one line.
            step = np.zeros(0)
            if size > 1:
                moves = (corners[1:] - corners[0]).T
                step = np.linalg.lstsq(moves, wanted - corners[0], rcond=None)[0]
            weights = np.array([1 - step.sum(), *step])
            if weights.min() < 0:
                continue
            distance = float(np.linalg.norm(weights @ corners - wanted))
            # A later, larger face must be better by more than rounding, so the answer is sparse.
            if distance < least - 1e-12:
                best, least = np.zeros(len(values)), distance
                best[list(chosen)] = weights
    assert best is not None  # every single value is a mixture
    return best


def _random_mixtures(trials: int, random: np.random.Generator) -> tuple[int, int]:
    """How many outputs leave the box of their values: by a softmax, and with a negative weight."""
    values = random.standard_normal((trials, 5, 4))
    e = np.exp(random.standard_normal((trials, 5)) * 3)
    weights = e / e.sum(-1, keepdims=True)
    # The smallest weight goes to -1/2 and the largest takes up the difference: the sum stays 1.
    damaged, lines = weights.copy(), np.arange(trials)
    small, large = weights.argmin(-1), weights.argmax(-1)
    damaged[lines, large] += damaged[lines, small] + 0.5
    damaged[lines, small] = -0.5
    return _leave(weights, values), _leave(damaged, values)


def _leave(weights: np.ndarray, values: np.ndarray) -> int:
    output = np.einsum("nt,ntd->nd", weights, values)
    # Five roundings of numbers below 1 can pass the edge by as many units in the last place.
    slack = 5 * np.finfo(np.float64).eps * np.abs(values).max((1, 2))[:, None]
    beyond = (output < values.min(1) - slack) | (output > values.max(1) + slack)
    return int(beyond.any(-1).sum())


if __name__ == "__main__":
    print(run().picture())
