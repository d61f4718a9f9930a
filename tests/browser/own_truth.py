"""A head of a saved trace by the definition, in float64, for what a page shows of a reader's text.

Not here: the tests (test_lesson_own.py), handouts (attnscope.tiles).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnscope.trace import Trace

MOST = 64
SHOWN = {"rtol": 1e-6, "atol": 1e-8}
"""Nine digits are carried; sums and exponentials of some tens of them are taken."""


@dataclass(frozen=True)
class Head:
    """One causal head: all of it, and which part is on the page.

    Attributes:
        scores: [T, T], hidden pairs too.
        weights: [T, T], 0 where hidden.
        norms: [T].
        start, stop: the part.
    """

    scores: np.ndarray
    weights: np.ndarray
    norms: np.ndarray
    start: int
    stop: int

    @property
    def here(self) -> slice:
        return slice(self.start, self.stop)

    def named(self, row: int, most: int) -> list[int]:
        """The keys of the part that take most of a row, in the order of the text."""
        order = np.argsort(-self.weights[row, self.start : row + 1], kind="stable")[:most]
        return sorted(int(one) + self.start for one in order)

    def rest(self, row: int, named: list[int]) -> list[int]:
        """The other keys of the part that a row sees."""
        return [key for key in range(self.start, row + 1) if key not in named]

    def outside(self, row: int) -> list[float]:
        """The joint score of what a row sees before the part, if it sees some."""
        return [float(np.logaddexp.reduce(self.scores[row, : self.start]))] if self.start else []

    def parts(self, row: int, named: list[int]) -> np.ndarray:
        """The scores that a rule is applied to: named, rest, outside."""
        keys = [*named, *self.rest(row, named)]
        return np.array([*self.scores[row, keys], *self.outside(row)])


def head_of(trace: Trace, layer: int, head: int, start: int = 0) -> Head:
    """A head from the queries and keys of its trace."""
    record = trace.layer(layer)
    group = head * record.info.kv_heads // record.info.query_heads
    q, k = (record.array(name).astype(np.float64) for name in ("q", "k"))
    scores = record.info.scale * q[head] @ k[group].T
    raised = np.where(np.tri(len(scores), dtype=bool), np.exp(scores - scores.max()), 0)
    norms = record.norms(head)
    assert norms is not None
    weights = raised / raised.sum(1, keepdims=True)
    return Head(scores, weights, norms.astype(float), start, min(start + MOST, len(scores)))


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max())
    found: np.ndarray = raised / raised.sum()
    return found


def gathered(values: np.ndarray, named: int) -> np.ndarray:
    """Values one by one, and what the others come to."""
    if len(values) == named:
        return values
    return np.array([*values[:named], values[named:].sum()])
