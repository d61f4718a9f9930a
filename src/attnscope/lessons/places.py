"""What lesson 6's widgets compute, in Python: scores and outputs of tokens that know their places.

The idea: the page turns vectors by a few lines of its own; here the same numbers come from
`attnscope.positions` and `attnscope.core`, which are tested against a model's own library. Vectors
are drawn as the page draws them (twins.py).

Formula (R_i the rotation of position i, P_i the sines and cosines of Vaswani et al. 2017)
    none       q . k                    added      (q + P_i) . (k + P_j)
    rotated    (R_i q) . (R_j k)

Shapes: as in world.py; everything is one head.

Dtypes: float64.

Not here: drawing (twins.py), the experiment that the lesson quotes (experiments/rotary.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import torch

from attnscope.core import attend
from attnscope.lessons.twins import Array, normals
from attnscope.lessons.world import World, softmax
from attnscope.positions import Rope

Way = Literal["none", "added", "rotated"]
WAYS: Final[tuple[Way, ...]] = ("none", "added", "rotated")


def rope(rotary: int, theta: float) -> Rope:
    """Rotation by the paper's frequencies in float64.

    >>> rope(4, 100.0).frequencies
    (1.0, 0.1)
    """
    return Rope(tuple(theta ** (-2 * m / rotary) for m in range(rotary // 2)))


def rotated(x: Array, places: Sequence[int], turning: Rope) -> Array:
    """Rows turned by their positions, [T, D]."""
    turned = turning(torch.from_numpy(np.array(x))[None], torch.tensor(list(places)))
    return np.asarray(turned[0].numpy())


def sinusoid(place: int, width: int) -> Array:
    """P_i of Vaswani et al. 2017: sines at even places and cosines at odd ones, [width].

    >>> sinusoid(0, 4).tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    at = np.arange(width)
    angle = place * 10_000.0 ** (-(at - at % 2) / width)
    return np.asarray(np.where(at % 2, np.cos(angle), np.sin(angle)))


def scores_by_distance(
    seed: int, width: int, *, rotary: int, theta: float, way: Way, start: int, count: int
) -> Array:
    """The product of one query and one key, the key at `start`, the query 0, 1, … further, [count].

    Args:
        seed: of both vectors, drawn as the page draws them.
        rotary: how many numbers turn.
    """
    q, k = normals(seed, 2 * width).reshape(2, width)
    places = range(start, start + count)
    if way == "none":
        return np.full(count, q @ k)
    if way == "added":
        key = k + sinusoid(start, width)
        return np.array([(q + sinusoid(place, width)) @ key for place in places])
    turning = rope(rotary, theta)
    queries = rotated(np.tile(q, (count, 1)), places, turning)
    return np.asarray(queries @ rotated(k[None], [start], turning)[0])


def placed_row(
    world: World, order: Sequence[int], row: int, *, way: Way, start: int, theta: float = 10_000.0
) -> tuple[Array, Array]:
    """A token's causal weights when the sentence stands in another order, further down.

    Args:
        order: the tokens' numbers in the order in which they stand.
        row: the number of the token that asks.
        start: the position of the first.

    Returns:
        Weights [T] by the tokens' numbers, and what is fetched [d].
    """
    x = world.embeddings[list(order)]
    places = range(start, start + len(order))
    if way == "added":
        x = x + np.stack([sinusoid(place, x.shape[1]) for place in places])
    q, k, v = x @ world.w_q, x @ world.w_k, x @ world.w_v
    if way == "rotated":
        turning = rope(q.shape[1], theta)
        q, k = rotated(q, places, turning), rotated(k, places, turning)
    at = list(order).index(row)
    found = softmax(k[: at + 1] @ q[at] / np.sqrt(q.shape[1]))
    weights = np.zeros(len(order))
    weights[list(order[: at + 1])] = found
    return weights, found @ v[: at + 1]


def moved_outputs(seed: int, *, width: int, tokens: int, move: int) -> list[float]:
    """How much a move changes what a random sequence fetches, relative to its size.

    Returns:
        With v plain, with v rotated too, and with v rotated and the output turned back.
    """
    x = torch.from_numpy(normals(seed, 3 * tokens * width).reshape(3, 1, 1, tokens, width).copy())
    turning = rope(width, 10_000.0)

    def outputs(start: int) -> list[torch.Tensor]:
        places = torch.arange(start, start + tokens)
        q, k = turning(x[0], places), turning(x[1], places)
        plain = attend(q, k, x[2]).output
        turned = attend(q, k, turning(x[2], places)).output
        return [plain, turned, turning.back(turned, places)]

    return [
        float((there - here).norm() / here.norm())
        for here, there in zip(outputs(0), outputs(move), strict=True)
    ]
