"""What lesson 7's widgets compute, in Python: one row or two, what heads cost, taking nothing.

The idea: the page has a few lines for each; here the same numbers come from `attnscope.core`,
`attnscope.mechanisms` and the teaching world.

Formula
    one row    o = softmax(s) V          two rows   o_h = softmax(s_h) V_h, columns of each head
    a sink     sum_j p_j = 1 - e^b / (e^b + sum_k e^s_k)        a gate     sigmoid(z) o

Shapes: scores [T], values [T, d], T the tokens in sight.

Dtypes: float64.

Not here: the experiments that the lesson quotes (experiments/convex.py, experiments/sink.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import torch

from attnscope.core import attend
from attnscope.lessons.twins import Array
from attnscope.lessons.world import World, softmax
from attnscope.mechanisms.multi_head import MultiHeadAttention

Way = Literal["none", "first", "sink", "zero", "gate"]
WAYS: Final[tuple[Way, ...]] = ("none", "first", "sink", "zero", "gate")


def two_jobs(
    world: World, scores: Sequence[Sequence[float]], *, giver: int, thing: int
) -> tuple[Array, float]:
    """What one row of scores fetches, or one for each head, and how far it is from both values.

    Args:
        scores: one row for all columns, or a row for each head; of the first tokens.

    Returns:
        What is fetched [d], and |fetched - (the giver's columns of A, the thing's of B)|.
    """
    v = world.v[: len(scores[0])]
    fetched, wanted = np.zeros(v.shape[1]), np.zeros(v.shape[1])
    for head, token in ((0, giver), (1, thing)):
        columns = world.columns(head)
        row = scores[head] if len(scores) > 1 else scores[0]
        fetched[columns] = softmax(row) @ v[:, columns]
        wanted[columns] = v[token, columns]
    return fetched, float(np.linalg.norm(fetched - wanted))


def head_costs(model: int, heads: int, width: int, tokens: int) -> tuple[int, int, int]:
    """Parameters, FLOPs of the projections, FLOPs of all pairs: as a module of attnscope counts.

    >>> head_costs(4, 2, 2, 3)
    (64, 384, 144)
    """
    with torch.device("meta"):
        found = MultiHeadAttention(model, heads, width=width).counts(tokens)
    return found.parameters, found.projection_flops, found.flops_dense


def taking_nothing(
    scores: Sequence[float], values: Array, *, way: Way, number: float
) -> tuple[Array, float]:
    """What a row fetches, and what it keeps of its 100 %, with a way out or without.

    Args:
        way: "first" is a token before the others whose value is zero and whose score is `number`;
            "zero" a key and a value of zeros; "sink" a logit; "gate" a number before the sigmoid.

    Returns:
        [d], and the sum of the row's weights.
    """
    s, v = np.array(scores, dtype=np.float64), np.array(values, dtype=np.float64)
    if way in ("first", "zero"):
        s = np.append(number if way == "first" else 0.0, s)
        v = np.vstack([np.zeros(v.shape[1]), v])
    # A query of width 1 whose keys are the scores: q . k is the score itself.
    q = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    k, t = (torch.from_numpy(x)[None, None] for x in (s[:, None], v))
    sinks = torch.tensor([number], dtype=torch.float64) if way == "sink" else None
    ones = torch.ones_like(k)
    if way in ("first", "zero"):
        ones[..., 0, :] = 0
    out, kept = (
        attend(q, k, x, scale=1.0, sinks=sinks, causal=False).output.flatten() for x in (t, ones)
    )
    if way == "gate":
        out = out * torch.tensor(number, dtype=torch.float64).sigmoid()
    return np.asarray(out.numpy()), float(kept)
