"""The Python side of the small training that a page runs: one head that learns to look up names.

The idea: the page moves W_Q and W_K by gradients worked out by hand; here PyTorch differentiates
the same loss by itself, so that a page which agrees has its gradients right. Each step draws new
rows: some names with a random value each, one of the names asked for, and the loss is how far what
is fetched is from that name's value.

Formula (e the names' embeddings, fixed; x asked, y_j listed, r the right one)
    s_j = (e_x W_Q) . (e_{y_j} W_K) / sqrt(d)      w = softmax(s)      o = sum_j w_j v_j
    loss = mean over rows of |o - v_r|^2 / VALUE_WIDTH      W -= rate * d loss / d W
    norm: q, k over their root mean square      clip: W_Q, W_K *= sqrt(min(1, threshold / max s))

Dtypes: float64. Sums run in another order than the page's, and a run that has gone astray doubles
such a difference at every step.

Not here: the experiment that is recorded (experiments/training.py), drawing (lessons/twins.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch

from attnscope.lessons.twins import Array, bits, normals

NAMES: Final = 16
LISTED: Final = 8
ROWS: Final = 16
EMBEDDING: Final = 8
WIDTH: Final = 64
VALUE_WIDTH: Final = 4
Hold = Literal["none", "norm", "clip"]


@dataclass(frozen=True)
class Run:
    """A run, one number a step: those before the step's update.

    Attributes:
        loss: mean over rows.
        right: share of rows whose largest weight is on the name asked for.
        largest: the largest scaled score.
        entropy: mean over rows, in nats.
    """

    loss: list[float]
    right: list[float]
    largest: list[float]
    entropy: list[float]


def rows(seed: int, step: int) -> tuple[np.ndarray, np.ndarray, Array]:
    """What a step sees: names listed [ROWS, LISTED], place of the right one [ROWS], values."""
    start = seed * 7919 + step * 104729
    drawn = bits(start, ROWS * (LISTED + 1)).reshape(ROWS, LISTED + 1).astype(np.int64)
    listed = np.empty((ROWS, LISTED), np.int64)
    for row, numbers in enumerate(drawn):
        pool = list(range(NAMES))
        for at in range(LISTED):
            other = at + int(numbers[at]) % (NAMES - at)
            pool[at], pool[other] = pool[other], pool[at]
        listed[row] = pool[:LISTED]
    values = normals(start + 1, ROWS * LISTED * VALUE_WIDTH)
    return listed, drawn[:, LISTED] % LISTED, values.reshape(ROWS, LISTED, VALUE_WIDTH)


def train(
    seed: int, rate: float, steps: int, *, hold: Hold = "none", threshold: float = 10.0
) -> Run:
    """Train the head.

    Args:
        seed: of the names, the projections and the rows.
        rate: how far a step goes along the gradient.
        steps: how many.
        hold: nothing, QK-norm without weights of its own, or QK-Clip.
        threshold: of QK-Clip.
    """
    size = EMBEDDING * WIDTH
    drawn = torch.from_numpy(normals(seed, NAMES * EMBEDDING + 2 * size).copy())
    names = drawn[: NAMES * EMBEDDING].view(NAMES, EMBEDDING)
    start = drawn[NAMES * EMBEDDING :].view(2, EMBEDDING, WIDTH) / math.sqrt(EMBEDDING)
    w_q, w_k = (one.clone().requires_grad_() for one in start)
    found = Run([], [], [], [])
    for step in range(steps):
        listed, right, v = (torch.from_numpy(one) for one in rows(seed, step))
        row = torch.arange(ROWS)
        q, k = names[listed[row, right]] @ w_q, names[listed] @ w_k
        if hold == "norm":
            q, k = (x / x.pow(2).mean(-1, keepdim=True).sqrt() for x in (q, k))
        scores = torch.einsum("rd,rjd->rj", q, k) / math.sqrt(WIDTH)
        weights = scores.softmax(-1)
        fetched = torch.einsum("rj,rje->re", weights, v)
        loss = (fetched - v[row, right]).square().mean()
        slopes = torch.autograd.grad(loss, (w_q, w_k))
        largest = float(scores.detach().max())
        found.loss.append(float(loss.detach()))
        found.right.append(float((weights.argmax(-1) == right).double().mean()))
        found.largest.append(largest)
        found.entropy.append(float(torch.special.entr(weights.detach()).sum(-1).mean()))
        factor = 1.0
        if hold == "clip" and largest > threshold:
            factor = math.sqrt(threshold / largest)
        with torch.no_grad():
            for w, slope in zip((w_q, w_k), slopes, strict=True):
                w.sub_(rate * slope).mul_(factor)
    return found
