"""The Python side of the widget that counts bits: a random causal head in float32, three ways.

The idea: whether a cache changes a bit is a question about the order of sums, so both sides say the
order: term by term, or in four lanes as a vector unit adds. Every operation is rounded to float32.

Formula
    sum, one     ((0 + t0) + t1) + …
    sum, lanes   (l0 + l1) + (l2 + l3) with l_i = t_i + t_(i+4) + …
    row          softmax(q k_j / sqrt(d)) v_j over the keys up to the row, weights divided first

Shapes: x [T, d]; weights [d, d]; outputs [T, d].

Dtypes: float32; bfloat16 where the cache is asked to keep half the bytes.

Not here: real caches and kernels (attnscope.caches, experiments/cache.py).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from attnscope.lessons.twins import normals

Array = npt.NDArray[np.float32]
Order = Literal["one", "lanes"]
ONE = np.float32(1)


def added(terms: Array, order: Order) -> Array:
    """The sums over the last axis, in float32 and in the order asked for.

    >>> added(np.array([[1e8, 1.0, 1.0, 1.0, -1e8]], np.float32), "one").tolist()
    [0.0]
    >>> added(np.array([[1e8, 1.0, 1.0, 1.0, -1e8]], np.float32), "lanes").tolist()
    [3.0]
    """
    lanes = np.zeros((1 if order == "one" else 4, *terms.shape[:-1]), np.float32)
    for at in range(terms.shape[-1]):
        lanes[at % len(lanes)] += terms[..., at]
    if order == "one":
        return np.asarray(lanes[0])
    return np.asarray((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))


def project(x: Array, weight: Array, order: Order) -> Array:
    """x [n, c] times weight [c, d]."""
    return added(x[:, None, :] * weight.T[None], order)


def attend(q: Array, keys: Array, values: Array, order: Order) -> Array:
    """One row q [d] over keys and values [n, d]."""
    scale = ONE / np.sqrt(np.float32(len(q)))
    scores = added(q[None] * keys, order) * scale
    powers = np.exp((scores - scores.max()).astype(np.float64)).astype(np.float32)
    weights = powers / added(powers, order)
    return added((weights[:, None] * values).T, order)


def half(values: Array) -> Array:
    """The nearest bfloat16 numbers, ties to even, as float32."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(
        0xFFFF0000
    )
    return np.asarray(rounded.view(np.float32))


def three_ways(seed: int, tokens: int, width: int, *, halved: bool = False) -> dict[str, Array]:
    """Outputs with a cache, with every prefix computed anew, and with all rows at once in lanes.

    Args:
        halved: whether the cache keeps bfloat16.
    """
    drawn = normals(seed, width * (tokens + 3 * width)).astype(np.float32).reshape(-1, width)
    x = drawn[:tokens]
    shrunk = ONE / np.sqrt(np.float32(width))
    w_q, w_k, w_v = (drawn[tokens:] * shrunk).reshape(3, width, width)
    kept: list[tuple[Array, Array]] = []
    cached, anew = [], []
    for at in range(tokens):
        row = x[at : at + 1]
        k, v = project(row, w_k, "one"), project(row, w_v, "one")
        kept.append((half(k), half(v)) if halved else (k, v))
        keys, values = (np.concatenate(part) for part in zip(*kept, strict=True))
        q = project(row, w_q, "one")[0]
        cached.append(attend(q, keys, values, "one"))
        seen = x[: at + 1]
        anew.append(attend(q, project(seen, w_k, "one"), project(seen, w_v, "one"), "one"))
    q, k, v = (project(x, w, "lanes") for w in (w_q, w_k, w_v))
    at_once = [attend(q[at], k[: at + 1], v[: at + 1], "lanes") for at in range(tokens)]
    return {
        "cached": np.stack(cached), "anew": np.stack(anew), "atOnce": np.stack(at_once),
    }  # fmt: skip
