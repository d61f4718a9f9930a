"""The Python side of what widgets draw at random, so that a test can say what a page must show.

The idea: the page draws with mulberry32 and Box-Muller, since both are a few lines in any language;
here are the same lines with numpy. What is not random has its twin elsewhere (mechanisms/rivals.py,
mechanisms/qk_norm.py, lessons/world.py).

Formula
    state += 0x6D2B79F5        bits = a mixing of the state, 32 bits a step
    r = sqrt(-2 ln ((b1 + 1/2) / 2^32))    z1 = r cos(2 pi b2 / 2^32)    z2 = r sin(2 pi b2 / 2^32)

Dtypes: float64, as in a browser; logarithms and cosines may differ in the last bit.

Not here: the experiments of the course (lessons/experiments), which draw with numpy's generator.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from attnscope.lessons.world import softmax

Array = npt.NDArray[np.float64]
STEP: Final = 0x6D2B79F5
MASK: Final = 0xFFFFFFFF
VALUE_WIDTH: Final = 8


def bits(seed: int, count: int) -> npt.NDArray[np.uint32]:
    """So many 32-bit numbers.

    >>> bits(1, 2).tolist()
    [2693262067, 11749833]
    """
    steps = (seed + STEP * np.arange(1, count + 1, dtype=np.uint64)) & MASK
    state = steps.astype(np.uint32)
    t = (state ^ (state >> np.uint32(15))) * (state | np.uint32(1))
    t = (t + (t ^ (t >> np.uint32(7))) * (t | np.uint32(61))) ^ t
    found: npt.NDArray[np.uint32] = t ^ (t >> np.uint32(14))
    return found


def normals(seed: int, count: int) -> Array:
    """So many standard normal numbers, [count]."""
    drawn = bits(seed, count + count % 2).astype(np.float64).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log((drawn[:, 0] + 0.5) / 2**32))
    angle = 2 * np.pi * drawn[:, 1] / 2**32
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return both.reshape(-1)[:count]


def products(seed: int, width: int, pairs: int) -> Array:
    """Dot products of random q and k, each pair of its own, [pairs]."""
    drawn = normals(seed * 1009 + width, 2 * width * pairs).reshape(pairs, 2, width)
    return np.einsum("nd,nd->n", drawn[:, 0], drawn[:, 1])


def row_statistics(seed: int, width: int, rows: int, keys: int) -> list[dict[str, float]]:
    """What a softmax makes of random rows, undivided and divided by sqrt(width).

    The gradient is that of |sum_j p_j v_j - v_right|^2 / (2 VALUE_WIDTH) at the scores, by its
    definition J dL/dp with the whole Jacobian; row i has its right key at i modulo `keys`.
    """
    each = width * (keys + 1) + keys * VALUE_WIDTH
    drawn = normals(seed * 1009 + width + 500009, rows * each).reshape(rows, each)
    q = drawn[:, :width]
    k = drawn[:, width : width * (keys + 1)].reshape(rows, keys, width)
    v = drawn[:, width * (keys + 1) :].reshape(rows, keys, VALUE_WIDTH)
    raw = np.einsum("nd,nkd->nk", q, k)
    right = v[np.arange(rows), np.arange(rows) % keys]
    return [_statistics(softmax(raw * scale), v, right) for scale in (1.0, width**-0.5)]


def _statistics(p: Any, v: Array, right: Array) -> dict[str, float]:
    jacobian = np.einsum("nk,kl->nkl", p, np.eye(p.shape[1])) - p[:, :, None] * p[:, None, :]
    missing = np.einsum("nk,nke->ne", p, v) - right
    slopes = np.einsum("ne,nke->nk", missing, v) / VALUE_WIDTH
    gradient = np.linalg.norm(np.einsum("nkl,nl->nk", jacobian, slopes), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(p > 0, p * np.log(p), 0.0).sum(-1)
    return {
        "maxWeight": float(p.max(-1).mean()),
        "decided": float((p.max(-1) > 0.99).mean()),
        "entropy": float(entropy.mean()),
        "jacobianNorm": float(np.linalg.norm(jacobian, axis=(1, 2)).mean()),
        "gradient": float(np.median(gradient)),
    }


def grown_scores(
    seed: int, width: int, keys: int, growth: float, *, norm: bool = False, tau: float | None = None
) -> Array:
    """Scaled scores of a random query with random keys, q and k grown by a factor each, [keys]."""
    drawn = normals(seed, width * (keys + 1)).reshape(keys + 1, width) * growth
    if norm:
        drawn = drawn / np.sqrt((drawn**2).mean(-1, keepdims=True))
    scores: Array = drawn[1:] @ drawn[0] / np.sqrt(width)
    return scores if tau is None else scores * min(1.0, tau / max(float(scores.max()), tau))
