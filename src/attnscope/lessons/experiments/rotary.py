"""Rotated q and k know the distance alone; rotated v would know the place.

The idea: one query and one key, drawn once, are put at every pair of positions. Rotated, their
product is the same along each diagonal. Then a whole sequence is moved to later positions: what
attention fetches must not change. It does not, as long as v is left alone; if v is rotated too, the
same text fetches something else further down. Turning the output back by the query's own position
repairs it (DeepSeek-V4 does so, whose keys are its values), since then only j - i is left in v too.

Formula (R_i the rotation of position i; Su et al. 2021, arXiv 2104.09864)
    (R_i q).(R_j k) = q . R_(j - i) k
    plain v           o_i = sum_j p_ij v_j
    rotated v         o_i = sum_j p_ij R_j v_j         = R_s o_i(0) after a move by s
    rotated back      o_i = sum_j p_ij R_(j - i) v_j

Shapes: scores [P, P], query row, key column; moves [M]; changes [3, M].

Dtypes: float64, so that what is left of a law is rounding that can be bounded.

Not here: other positions than rotary ones, stretched frequencies (positions/scaled.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.core import attend
from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result, at_least, positive
from attnscope.positions import Rope

TREATMENTS = ("v plain", "v rotated", "v rotated, o turned back")


@dataclass(frozen=True, eq=False)
class Rotary(Result):
    """What `run` measured.

    Attributes:
        width, rotary: of a head, and how many of its numbers turn.
        scores: [P, P], (R_i q).(R_j k) of one q and one k.
        plain_score: q.k, without rotation.
        by_distance: [2 P - 1], mean of `scores` by i - j = 1 - P .. P - 1.
        diagonal_spread: largest difference of two scores of the same distance.
        distance_spread: largest difference of two scores of different distances.
        spread_bound: what rounding alone may make of `diagonal_spread`.
        moves: [M], by how many positions the sequence was moved.
        weight_change: [M], largest change of an attention weight by the move.
        output_change: [3, M], norm of the change of the outputs by the move, relative to the norm
            of the outputs; rows as `TREATMENTS`.
    """

    width: int
    rotary: int
    theta: float
    seed: int
    scores: np.ndarray
    plain_score: float
    by_distance: np.ndarray
    diagonal_spread: float
    distance_spread: float
    spread_bound: float
    moves: np.ndarray
    weight_change: np.ndarray
    output_change: np.ndarray

    def picture(self) -> str:
        """Scores at places of equal distance, then what a move changes."""
        size = len(self.scores)
        lines = [f"one q and one k of width {self.width}, {self.rotary} of it rotated; q.k = "
                 f"{self.plain_score:.4f}"]  # fmt: skip
        for distance in [d for d in (0, 1, 5) if d < size]:
            places = sorted({distance, (distance + size) // 2, size - 1})
            shown = ", ".join(
                f"({i}, {i - distance}) {self.scores[i, i - distance]:.6f}" for i in places
            )
            lines.append(f"  i - j = {distance}:  {shown}")
        lines += [
            f"law: scores of the same distance differ by {self.diagonal_spread:.1e} (rounding "
            f"allows {self.spread_bound:.1e}), of different ones by {self.distance_spread:.2f}",
            "",
            f"{'the same text, moved by':26}" + "".join(f"{m:>11,}" for m in self.moves),
            f"{'weights change by':26}" + "".join(f"{c:11.1e}" for c in self.weight_change),
            "outputs change by",
        ]
        for name, changes in zip(TREATMENTS, self.output_change, strict=True):
            cells = "".join(f"{100 * c:9.1f} %" if c > 1e-3 else f"{c:11.1e}" for c in changes)
            lines.append(f"  {name:24}{cells}")
        return "\n".join(lines)

    def svg(self) -> str:
        """The score against distance from three places, and the change against the move."""
        size = len(self.scores)
        lines = []
        for style, row in enumerate(sorted({size - 1, size // 2, size // 4})):
            lines.append(
                Line(f"query at {row}", row - np.arange(row + 1), self.scores[row, : row + 1],
                     style=style)
            )  # fmt: skip
        changes = [
            Line(name, np.log10(self.moves), self.output_change[place], style=place + 3)
            for place, name in enumerate(TREATMENTS)
        ]
        return chart(
            [
                Panel("the score depends on distance alone", lines, x_label="distance i - j",
                      y_label="rotated q.k"),
                Panel("outputs of the same text, moved", changes, x_label="log10 of the move",
                      y_label="relative change"),
            ],
            columns=2,
            title="Rotary positions on q and k, and on v",
        )  # fmt: skip


def run(
    *,
    width: int = 64,
    rotary: int | None = None,
    theta: float = 10_000.0,
    positions: int = 48,
    moves: Sequence[int] = (1, 10, 100, 1000),
    tokens: int = 24,
    seed: int = 0,
) -> Rotary:
    """Put one pair at many positions, and one sequence at several.

    Args:
        width: of q, k and v.
        rotary: how many numbers of them turn (even); all if not given.
        theta: of the rotation.
        positions: P, places for the one query and the one key.
        moves: by how many positions the sequence is moved.
        tokens: of the sequence.
        seed: of all vectors.

    Raises:
        ValueError, TypeError: a count that is too small, an odd `rotary`, or one above `width`.

    Cost: milliseconds and under a MiB with the defaults.

    >>> found = run(positions=8, moves=(100,), tokens=6)
    >>> found.diagonal_spread <= found.spread_bound < 1e-10 < found.distance_spread
    True
    """
    rotary = width if rotary is None else rotary
    for name, count, least in (("width", width, 2), ("rotary", rotary, 2),
                               ("positions", positions, 2), ("tokens", tokens, 2)):  # fmt: skip
        at_least(name, count, least)
    if rotary % 2 or rotary > width:
        raise ValueError(f"rotary: expected an even number up to width = {width}, got {rotary}")
    positive("theta", theta)
    if not moves:
        raise ValueError("moves: expected at least one, got none")
    for move in moves:
        at_least("moves", move, 1)
    random = torch.Generator().manual_seed(seed)
    rope = Rope.plain(rotary, theta=theta)
    q, k = torch.randn(2, width, generator=random, dtype=torch.float64)
    places = torch.arange(positions)
    turned = [rope(x.expand(1, positions, width), places)[0] for x in (q, k)]
    scores = (turned[0] @ turned[1].T).numpy()
    distance = np.subtract.outer(np.arange(positions), np.arange(positions))
    groups = [scores[distance == d] for d in range(1 - positions, positions)]
    means = np.array([group.mean() for group in groups])
    # An angle p f is rounded by half a unit of p f, f itself is exact, and the products and the
    # sum add their roundings: (largest angle + width + a few) units of |q| |k|.
    unit = float(np.finfo(np.float64).eps)
    bound = 2 * unit * (positions * max(rope.frequencies) + width + 4)
    x = torch.randn(3, 1, 1, tokens, width, generator=random, dtype=torch.float64)
    weight_change, output_change = _moved(rope, x, moves)
    return Rotary(
        width=width, rotary=rotary, theta=float(theta), seed=seed, scores=scores,
        plain_score=float(q @ k), by_distance=means,
        diagonal_spread=float(max(np.ptp(group) for group in groups)),
        distance_spread=float(np.ptp(means)),
        spread_bound=bound * float(q.norm() * k.norm()),
        moves=np.array(moves, dtype=np.int64),
        weight_change=weight_change, output_change=output_change,
    )  # fmt: skip


def _moved(rope: Rope, x: torch.Tensor, moves: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Largest change of a weight, and relative change of each treatment's output, by move."""
    first_weights, first_outputs = _attend(rope, x, 0)
    weight_change, output_change = [], []
    for move in moves:
        weights, outputs = _attend(rope, x, move)
        weight_change.append(float((weights - first_weights).abs().max()))
        output_change.append(
            [float((a - b).norm() / b.norm()) for a, b in zip(outputs, first_outputs, strict=True)]
        )
    return np.array(weight_change), np.array(output_change).T


def _attend(rope: Rope, x: torch.Tensor, move: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Weights [T, T], and outputs [1, 1, T, D] by treatment, of the sequence from place `move`."""
    T = x.shape[-2]
    places = torch.arange(move, move + T)
    q, k, v = rope(x[0], places), rope(x[1], places), x[2]
    scored = (q[0, 0] @ k[0, 0].T * q.shape[-1] ** -0.5).masked_fill(
        torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf
    )
    plain = attend(q, k, v).output
    rotated = attend(q, k, rope(v, places)).output
    return scored.softmax(-1), [plain, rotated, rope.back(rotated, places)]


if __name__ == "__main__":
    print(run().picture())
