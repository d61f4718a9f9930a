"""An induction circuit by hand: two heads that continue a pattern, or one that cannot.

The idea: every token's content is a one-hot name. A head of the first layer brings each token the
name of the one before it. A head of the second asks with its own name for tokens whose predecessor
has it, and fetches their names: what came after, the last time.

Formula (e_i the one-hot name of token i, b the sharpness, softmax over the keys up to i)
    first layer    p_i = sum_j softmax_j(b [j = i - 1]) e_j      p_0 = 0: nobody is before it
    second layer   w_ij = softmax_j(b e_i . p_j)       with one layer alone: softmax_j(b e_i . e_j)
    says next      sum_j w_ij e_j

Shapes: tokens T, names N: e and p [T, N]; weights [T]; next [N].

Paper: Olsson et al. 2022, arXiv 2209.11895, who found such pairs of heads in trained models.

Not here: real heads (lessons/reading.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscope.lessons.twins import Array
from attnscope.lessons.world import softmax


def circuit(
    tokens: Sequence[str], sharpness: float, *, two: bool = True
) -> tuple[Array, list[str], Array]:
    """The last token's weights, the names in order of first use, and what it says comes next.

    Args:
        tokens: at least one.
        sharpness: what a match scores.
        two: both layers, or the second alone with its own names as keys.

    >>> weights, names, says = circuit("A B C A".split(), 20.0)
    >>> names[int(says.argmax())]
    'B'
    >>> names[int(circuit("A B C A".split(), 20.0, two=False)[2].argmax())]
    'A'
    """
    names = list(dict.fromkeys(tokens))
    known = np.array([[float(name == token) for name in names] for token in tokens])
    scores = sharpness * np.eye(len(tokens), k=-1)
    scores[~np.tri(len(tokens), dtype=bool)] = -np.inf
    before = softmax(scores) @ known
    before[0] = 0.0
    keys = before if two else known
    weights: Array = softmax(sharpness * (keys @ known[-1])).astype(np.float64)
    says: Array = np.asarray(weights @ known)
    return weights, names, says
