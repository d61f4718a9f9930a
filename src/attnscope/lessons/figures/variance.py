"""Why the scores are divided by the square root of d: the law, and dot products that were drawn.

Formula (q, k with independent entries of mean 0 and variance sigma^2; s = q . k)
    Var s = d sigma^4        std s = sqrt(d) sigma^2        std(s / sqrt(d)) = sigma^2

Not here: what it does to the softmax and its gradient (lessons/experiments).
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Final

import numpy as np

from attnscope.lessons.figures.registry import Ask, figure, given
from attnscope.lessons.world import Array

SIGMA: Final = given(1, "standard deviation of each entry, as near initialisation")
PAIRS: Final = given(20_000, "pairs of vectors drawn")
SEED: Final = given(7, "seed of numpy.random.default_rng")
DRAWN: Final = "drawn with a seed (lessons/figures/variance.py)"
WIDTHS: Final = (4, 64, 256)


@cache
def drawn(d: int, n: int, seed: int) -> tuple[Array, Array]:
    """Dot products of n random queries, each with two random keys: two arrays [n].

    Cost: 3 n d normal numbers.
    """
    random = np.random.default_rng(seed)
    q, one, other = (random.standard_normal((n, d)) for _ in range(3))
    return np.einsum("nd,nd->n", q, one), np.einsum("nd,nd->n", q, other)


def law(d: int, sigma: float) -> float:
    return math.sqrt(d) * sigma**2


def raw(d: int, n: int, seed: int) -> float:
    return float(drawn(d, n, seed)[0].std())


def scaled(d: int, n: int, seed: int) -> float:
    return float((drawn(d, n, seed)[0] / math.sqrt(d)).std())


def spread(d: int, n: int, seed: int) -> float:
    return float(drawn(d, n, seed)[0].var())


def gap(d: int, n: int, seed: int) -> float:
    one, other = drawn(d, n, seed)
    return float(np.abs(one - other).mean())


def _declare(d: int) -> None:
    width: Ask = given(d, "head width")
    run = {"d": width, "n": PAIRS, "seed": SEED}
    measured = partial(figure, kind="measured", inputs=run, source=DRAWN)
    figure(
        f"variance.law.{d}", inputs={"d": width, "sigma": SIGMA}, show="{:g}",
        formula="sqrt(d) × sigma ^ 2", source="independent terms: Var(q . k) = d sigma^4",
        en=f"Standard deviation of q . k at d = {d}, by the law",
        zh=f"d = {d} 时 q·k 的标准差（推导）",
    )(law)  # fmt: skip
    measured(
        f"variance.std.{d}", show="{:.2g}", formula="std(q . k)",
        en=f"Standard deviation of q . k at d = {d}", zh=f"d = {d} 时 q·k 的标准差（真算）",
    )(raw)  # fmt: skip
    measured(
        f"variance.scaled.{d}", show="{:.2g}", formula="std(q . k / sqrt(d))",
        en=f"Standard deviation of q . k / sqrt(d) at d = {d}",
        zh=f"d = {d} 时 q·k ÷ √d 的标准差（真算）",
    )(scaled)  # fmt: skip
    measured(
        f"variance.var.{d}", show="{:.1f}", formula="var(q . k)",
        en=f"Variance of q . k at d = {d}", zh=f"d = {d} 时 q·k 的方差（真算）",
        note=f"The law says {d}; so many draws are within a few hundredths of it.",
        note_zh=f"推导给出 {d}；抽这么多次，误差在百分之几以内。",
    )(spread)  # fmt: skip
    measured(
        f"variance.gap.{d}", show="{:.1f}", formula="mean(abs(q . k_1 - q . k_2))",
        en=f"How far two scores of a row are apart at d = {d}, on average",
        zh=f"d = {d} 时同一行两个分数平均相差",
    )(gap)  # fmt: skip


for _d in WIDTHS:
    _declare(_d)
