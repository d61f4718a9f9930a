"""What is computed twice without a cache, and which bits are the same with one.

The idea: a loop generates tokens twice, once feeding everything again at every step and once with a
cache, which is fed what is new; the key/value projection counts the tokens it is given. Then the
outputs are compared bit by bit. The cache changes no bit against a loop that computes each prefix
anew, row by row, with the same small products. Against one full masked product the last bits
differ: a product of many rows adds in another order. So "bit-identical" needs the words "to what".

Formula (prompt of p tokens, g generated, so g forwards)
    without    sum_(t=p)^(p+g-1) t = g p + g (g - 1) / 2           of them anew: all but p + g - 1
    with       p + g - 1

Shapes: tokens [T]; outputs [T, d].

Dtypes: float32, whose last bits are in question.

Not here: how many bytes a cache takes (plan/), faster decoding (core/fused_decode.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.caches import FullCache
from attnscope.core.picture import shade
from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result, at_least
from attnscope.lessons.experiments.small_model import reproducible
from attnscope.lessons.world import load

MODEL, VOCABULARY = 32, 50


@dataclass(frozen=True, eq=False)
class Cached(Result):
    """What `run` counted and compared.

    Attributes:
        prompt, generate: tokens given, and tokens generated.
        fed_without, fed_with: [generate], tokens whose key and value a step computed.
        computed_without, computed_with: their sums, by the counter.
        recomputed: of `computed_without`, those that an earlier step had computed already.
        tokens_without, tokens_with: [generate], what was generated; the same.
        prefix_forwards, prefix_positions: one forward per prefix of a text of `prompt + generate`
            tokens, and the positions fed: 5 and 15 for 5.
        question_forwards, question_positions: of the prefixes that have a next token to guess.
        length: rows compared bit by bit.
        equal_row_by_row: whether every bit with the cache is that of feeding each prefix row by
            row, for these rows and for the teaching world.
        world_difference: largest difference to one full masked product, in the teaching world.
        full_difference: the same for `length` random rows.
        full_share: share of the numbers that differ from it in any bit.
        largest: the largest output, to measure the difference by.
        bound: the largest difference that rounding can explain.
    """

    prompt: int
    generate: int
    seed: int
    fed_without: np.ndarray
    fed_with: np.ndarray
    computed_without: int
    computed_with: int
    recomputed: int
    tokens_without: np.ndarray
    tokens_with: np.ndarray
    prefix_forwards: int
    prefix_positions: int
    question_forwards: int
    question_positions: int
    length: int
    equal_row_by_row: bool
    world_difference: float
    full_difference: float
    full_share: float
    largest: float
    bound: float

    def picture(self) -> str:
        """A cell per key and value computed, step by step, and what the bits say."""
        lines = [
            f"prompt of {self.prompt}, {self.generate} generated; {shade(1.0)} computed first, "
            f"{shade(0.25)} computed again"
        ]
        for name, fed in (("without a cache", self.fed_without), ("with a cache", self.fed_with)):
            had = 0
            lines.append(name)
            for step, count in enumerate(fed.tolist()):
                start = self.prompt + step - count
                cells = "  " * start + "".join(
                    shade(0.25 if place < had else 1.0) for place in range(start, start + count)
                )
                lines.append(f"  step {step + 1}  {cells}")
                had = max(had, start + count)
        lines += [
            f"keys and values computed: {self.computed_without} without, {self.recomputed} of them "
            f"again; {self.computed_with} with",
            f"a forward per prefix of {self.prompt + self.generate} tokens: {self.prefix_forwards} "
            f"forwards, {self.prefix_positions} positions (the {self.question_forwards} that have "
            f"a next token: {self.question_positions})",
            f"{self.length} rows with a cache against each prefix row by row: "
            + ("every bit the same" if self.equal_row_by_row else "BITS DIFFER"),
            f"against one full masked product: up to {self.full_difference:.1e} apart, "
            f"{100 * self.full_share:.0f} % of the numbers differ (teaching world: "
            f"{self.world_difference:.1e})",
        ]
        return "\n".join(lines)

    def svg(self) -> str:
        """Keys and values computed in all, by step."""
        steps = np.arange(1, self.generate + 1)
        lines = [
            Line("without a cache", steps, np.cumsum(self.fed_without), style=1),
            Line("with a cache", steps, np.cumsum(self.fed_with), style=0),
        ]
        panel = Panel(
            f"prompt of {self.prompt}", lines, x_label="token generated",
            y_label="keys and values computed",
        )  # fmt: skip
        return chart([panel], columns=1, title="What a cache saves")


class _Layer:
    """One attention head between an embedding and an output layer, which counts what it is given.

    Args:
        w_q, w_k, w_v: [C, d].
    """

    def __init__(self, w_q: torch.Tensor, w_k: torch.Tensor, w_v: torch.Tensor) -> None:
        self.w_q, self.w_k, self.w_v = w_q, w_k, w_v
        self.scale = w_q.shape[1] ** -0.5
        self.embed = torch.randn(VOCABULARY, len(w_q))
        self.out = torch.randn(w_v.shape[1], VOCABULARY)
        self.computed: list[int] = []
        """The positions of all keys and values ever computed."""

    def keys_values(self, x: torch.Tensor, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        """[t, C] to keys and values [t, d] of the positions from `start`."""
        self.computed += range(start, start + len(x))
        return x @ self.w_k, x @ self.w_v

    def row(self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Output [1, d] of the last token x [1, C], which sees all the keys."""
        scores = (x @ self.w_q) @ k.T * self.scale
        return scores.softmax(-1) @ v

    def full(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs [T, d] of all tokens by one masked product."""
        k, v = self.keys_values(x, 0)
        scores = (x @ self.w_q) @ k.T * self.scale
        hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v

    def next(self, output: torch.Tensor) -> int:
        """The likeliest token after the last row."""
        return int((output[-1] @ self.out).argmax())


def run(*, prompt: int = 2, generate: int = 3, length: int = 48, seed: int = 0) -> Cached:
    """Generate with and without a cache and count; then compare bits.

    Args:
        prompt: tokens given.
        generate: tokens to generate.
        length: rows of the comparison.
        seed: of weights and tokens.

    Raises:
        ValueError, TypeError: a count below 1, or a length below 2.

    Cost: milliseconds; the loops take about generate^2 and length^2 small products.

    >>> found = run()
    >>> found.computed_without, found.recomputed, found.computed_with, found.equal_row_by_row
    (9, 5, 4, True)
    """
    at_least("prompt", prompt, 1)
    at_least("generate", generate, 1)
    at_least("length", length, 2)
    with reproducible(seed):
        layer = _Layer(*torch.randn(3, MODEL, MODEL) / math.sqrt(MODEL))
        start = torch.randint(VOCABULARY, (prompt,)).tolist()
        without, places, tokens_without = _generate(layer, start, generate, cached=False)
        using, _, tokens_with = _generate(layer, start, generate, cached=True)
        prefixes = _prefixes(layer, prompt + generate)
        x = torch.randn(length, MODEL)
        cached, anew, full = _cached(layer, x), _row_by_row(layer, x), layer.full(x)
        world = load().astype(np.float32)
        told, *matrices = (
            torch.tensor(m) for m in (world.embeddings, world.w_q, world.w_k, world.w_v)
        )
        small = _Layer(*matrices)
        of_world = _cached(small, told), _row_by_row(small, told), small.full(told)
    gap = (cached - full).abs()
    return Cached(
        prompt=prompt, generate=generate, seed=seed,
        fed_without=np.array(without), fed_with=np.array(using),
        computed_without=sum(without), computed_with=sum(using),
        recomputed=len(places) - len(set(places)),
        tokens_without=np.array(tokens_without), tokens_with=np.array(tokens_with),
        prefix_forwards=len(prefixes), prefix_positions=sum(prefixes),
        question_forwards=len(prefixes) - 1, question_positions=sum(prefixes[:-1]),
        length=length,
        equal_row_by_row=torch.equal(cached, anew) and torch.equal(of_world[0], of_world[1]),
        world_difference=float((of_world[0] - of_world[2]).abs().max()),
        full_difference=float(gap.max()), full_share=float((gap > 0).float().mean()),
        largest=float(full.abs().max()), bound=_bound(layer, x),
    )  # fmt: skip


def _bound(layer: _Layer, x: torch.Tensor) -> float:
    """The largest difference of two float32 outputs that rounding can explain.

    A sum over n numbers is off by up to n units of the sum of their magnitudes, in whatever order.
    q and k come from sums over C and the score is one over d; an error e of the scores changes a
    weight by a factor of up to exp(2 e); the output is a sum over T of values from sums over C.
    """
    C, d = layer.w_q.shape
    unit = float(torch.finfo(torch.float32).eps)
    q, k, v = (x.abs() @ w.abs() for w in (layer.w_q, layer.w_k, layer.w_v))
    score = float((q @ k.T).max()) * layer.scale
    # Both outputs may be off, on either side.
    return 2 * unit * float(v.max()) * (2 * (2 * C + d) * score + len(x) + C + 4)


def _generate(
    layer: _Layer, start: list[int], generate: int, *, cached: bool
) -> tuple[list[int], list[int], list[int]]:
    """Tokens fed to the projection by step, their positions all told, and what was generated."""
    cache, tokens, fed = FullCache(), list(start), []
    layer.computed.clear()
    for _ in range(generate):
        known, before = cache.length, len(layer.computed)
        x = layer.embed[tokens[known:]]
        k, v = layer.keys_values(x, known)
        if cached:
            k, v = _append(cache, k, v)
        output = layer.row(x[-1:], k, v)
        fed.append(len(layer.computed) - before)
        tokens.append(layer.next(output))
    return fed, list(layer.computed), tokens[len(start) :]


def _append(
    cache: FullCache, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    keys, values = cache.append(k[None, None], v[None, None])
    return keys[0, 0], values[0, 0]


def _prefixes(layer: _Layer, length: int) -> list[int]:
    """Positions fed by each forward, one forward per prefix of a text."""
    text, fed = torch.randn(length, MODEL), []
    for end in range(1, length + 1):
        before = len(layer.computed)
        layer.full(text[:end])
        fed.append(len(layer.computed) - before)
    return fed


def _cached(layer: _Layer, x: torch.Tensor) -> torch.Tensor:
    """A token at a time, keys and values kept."""
    cache, rows = FullCache(), []
    for place in range(len(x)):
        token = x[place : place + 1]
        rows.append(layer.row(token, *_append(cache, *layer.keys_values(token, place))))
    return torch.cat(rows)


def _row_by_row(layer: _Layer, x: torch.Tensor) -> torch.Tensor:
    """Every prefix anew: all its keys and values computed again, a row at a time, nothing kept."""
    rows = []
    for end in range(1, len(x) + 1):
        pairs = [layer.keys_values(x[place : place + 1], place) for place in range(end)]
        k, v = (torch.cat(part) for part in zip(*pairs, strict=True))
        rows.append(layer.row(x[end - 1 : end], k, v))
    return torch.cat(rows)


if __name__ == "__main__":
    print(run().picture())
