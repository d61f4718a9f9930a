"""Referees of the figures: the teaching world in fractions, exponentials to fifty digits, configs.

Nothing here goes through attnscope.plan or attnscope.lessons.world.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.lessons import figures

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "src" / "attnscope" / "plan" / "data" / "configs"
WORLD = ROOT / "src" / "attnscope" / "lessons" / "data" / "teaching_world.json"
TRUTH = json.loads((ROOT / "tests" / "plan" / "kv_truth.json").read_text(encoding="utf-8"))
"""Bytes of the cache tensors that the real model classes made."""
GIB, MIB, KIB = 2**30, 2**20, 2**10
DIGITS = 1e-13
"""float64 against 50 decimal digits, over a handful of operations."""


def config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def value(id: str) -> Any:
    return figures.get(id).value


def softmax(scores: list[Fraction] | list[int], divisor: Decimal = Decimal(1)) -> list[Decimal]:
    """Weights in percent, to 50 digits."""
    with localcontext() as context:
        context.prec = 50
        powers = [
            (Decimal(Fraction(s).numerator) / Fraction(s).denominator / divisor).exp()
            for s in scores
        ]
        return [100 * one / sum(powers) for one in powers]


class Exact:
    """The teaching world in fractions."""

    def __init__(self) -> None:
        raw = json.loads(WORLD.read_text(encoding="utf-8"), parse_float=Fraction)
        self.tokens: list[str] = raw["tokens"]
        self.e = [[Fraction(x) for x in row] for row in raw["E"]]
        self.q, self.k, self.v = (self.projected(raw[name]) for name in ("W_Q", "W_K", "W_V"))

    def projected(self, w: list[list[Any]]) -> list[list[Fraction]]:
        return [
            [sum(x * Fraction(w[i][j]) for i, x in enumerate(row)) for j in range(len(w[0]))]
            for row in self.e
        ]  # fmt: skip

    def at(self, token: str) -> int:
        return self.tokens.index(token)

    def scores(self, token: str, columns: slice = slice(None)) -> list[Fraction]:
        q = self.q[self.at(token)][columns]
        return [dot(q, k[columns]) for k in self.k]

    def weights(
        self, token: str, *, columns: slice = slice(None), causal: bool = True
    ) -> list[Decimal]:
        width = len(self.q[0][columns])
        scores = self.scores(token, columns)
        scores = scores[: self.at(token) + 1] if causal else scores
        with localcontext() as context:
            context.prec = 50
            return softmax(scores, Decimal(width).sqrt())


def dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def cosine(a: list[Fraction], b: list[Fraction]) -> float:
    squared = dot(a, b) ** 2 / (dot(a, a) * dot(b, b))
    return math.copysign(math.sqrt(squared), dot(a, b))


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(
        np.array(ours, dtype=np.float64), np.array(theirs, dtype=np.float64), rtol=DIGITS
    )
