"""One short latent in place of keys and values, and why the rotation has to stand beside it.

The idea: the teaching world keeps eight numbers a token, four of a key and four of a value. Keep r
numbers instead, from which all eight are made again, as well as r numbers can for this sentence;
beside it, let both heads share one key and one value (the mean of theirs, four numbers). Then put a
rotation between a latent and its key: a query that was brought to the latents once is right at
distance 0 alone, unless the rotation goes to numbers of their own.

Formula (x_i a token; A, B the down and up projections; R_d the rotation by a distance d)
    c_i = x_i A [r]    (k_i, v_i) = c_i B    A = W B^T, B the first r right singular vectors of E W
    q . (U c) = (U^T q) . c           q . (R_d U c) = (U^T R_-d q) . c, another query for every d

Shapes: W = [W_K W_V] [6, 8]; numbers [r]; distances [M].

Dtypes: float64.

Not here: how real models train A and B, with everything else; costs (mechanisms/latent.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.core import latent_parts as parts
from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result, at_least
from attnscope.lessons.world import Array, World, load, softmax
from attnscope.positions import Rope

QUERY, GIVER, GIVEN = "给了", "小明", "苹果"


@dataclass(frozen=True, eq=False)
class Latent(Result):
    """What `run` measured.

    Attributes:
        numbers: [r], what is kept of a token.
        giver, given: [r], weight of 给了 on 小明 in head A, on 苹果 in head B.
        error: [r], largest change of a number that any head fetches for any token.
        whole, shared: numbers of a token's key and value, and of one key and value for both heads.
        exact: the two weights with all of the keys.
        shared_weights, shared_error: both heads reading the mean of their keys and values.
        rank: how many numbers the sentence needs.
        forms_difference: expanded against absorbed, the largest difference of an output.
        distances: [M], of a query and a key.
        merged_error: [M], root mean square error of scores whose query was merged once, relative
            to that of the scores.
        beside_error: [M], the same with the rotation in numbers of its own.
    """

    numbers: np.ndarray
    giver: np.ndarray
    given: np.ndarray
    error: np.ndarray
    whole: int
    shared: int
    exact: np.ndarray
    shared_weights: np.ndarray
    shared_error: float
    rank: int
    forms_difference: float
    distances: np.ndarray
    merged_error: np.ndarray
    beside_error: np.ndarray
    pairs: int
    seed: int

    def picture(self) -> str:
        """Weights by what is kept, then errors by distance."""
        a, b = 100 * self.exact
        lines = [
            f"{'kept of a token':25}{'A: 给了, 小明':>9}{'B: 给了, 苹果':>12}{'off by':>14}",
            f"{f'{self.whole}: keys and values':26}{a:9.1f} %{b:14.1f} %{0:16.3f}",
        ]
        a, b = 100 * self.shared_weights
        lines.append(
            f"{f'{self.shared}: one head for both':26}{a:9.1f} %{b:14.1f} %"
            f"{self.shared_error:16.3f}"
        )
        for r, a, b, off in zip(self.numbers, self.giver, self.given, self.error, strict=True):
            shown = f"{off:16.3f}" if off > 1e-6 else f"{off:16.1e}"
            lines.append(f"{f'{r}: a latent':26}{100 * a:9.1f} %{100 * b:14.1f} %{shown}")
        lines += [
            f"expanded and absorbed outputs differ by {self.forms_difference:.1e}",
            "",
            f"{'distance of query and key':34}" + "".join(f"{d:>9,}" for d in self.distances),
            f"{'rotated key, query merged once':34}"
            + "".join(f"{100 * e:7.1f} %" for e in self.merged_error),
            f"{'rotation in numbers of its own':34}"
            + "".join(f"{e:9.0e}" for e in self.beside_error),
        ]
        return "\n".join(lines)

    def svg(self) -> str:
        """What a latent loses by its width, and what a merged query loses by distance."""
        width = [Line("a latent", self.numbers, self.error)]
        width.append(
            Line("one head for both", np.array([self.shared]), np.array([self.shared_error]),
                 style=1)
        )  # fmt: skip
        away = [Line("query merged once", self.distances, self.merged_error, style=2)]
        away.append(Line("rotation beside it", self.distances, self.beside_error, style=3))
        return chart(
            [
                Panel("what is fetched, off by", width, x_label="numbers kept of a token"),
                Panel("scores, off by", away, x_label="distance", y_label="relative error"),
            ],
            columns=2,
            title="A latent of few numbers, and a rotation in its way",
        )  # fmt: skip


def low_rank(world: World, numbers: int) -> tuple[Array, Array]:
    """Down [C, r] and up [r, 2 d]: the best that r numbers a token can do for this sentence.

    >>> down, up = low_rank(load(), 5)
    >>> bool(np.allclose(load().embeddings @ down @ up[:, :4], load().k))
    True
    """
    both = np.concatenate([world.w_k, world.w_v], axis=1)
    up = np.linalg.svd(world.embeddings @ both)[2][:numbers]
    return both @ up.T, up


def read(world: World, k: Array, v: Array) -> tuple[Array, Array]:
    """Causal weights [heads, T, T] and outputs [T, d], of keys and values [T, d]."""
    weights, outputs = [], []
    for head in range(world.heads):
        columns = world.columns(head)
        scores = world.q[:, columns] @ k[:, columns].T / np.sqrt(columns.stop - columns.start)
        seen = np.where(np.tri(len(world.tokens), dtype=bool), scores, -np.inf)
        weights.append(softmax(seen))
        outputs.append(weights[-1] @ v[:, columns])
    return np.stack(weights), np.concatenate(outputs, axis=1)


def one_head(world: World, x: Array) -> Array:
    """Every head's columns replaced by the mean over heads, [T, d]."""
    mean = x.reshape(len(x), world.heads, -1).mean(1)
    return np.tile(mean, (1, world.heads))


def run(
    *, distances: Sequence[int] = (0, 1, 4, 16, 64, 256), pairs: int = 400, seed: int = 0
) -> Latent:
    """Squeeze the teaching world, and put a rotation in the way of random latents.

    Args:
        distances: of a query and a key.
        pairs: random queries, latents and projections at every distance.
        seed: of all that is random.

    Raises:
        ValueError, TypeError: a count that is too small, or no distance.

    Cost: milliseconds and some MiB with the defaults.

    >>> found = run(distances=(0, 8), pairs=20)
    >>> bool(found.merged_error[0] < 1e-12 < 0.1 < found.merged_error[1])
    True
    """
    at_least("pairs", pairs, 1)
    if not distances:
        raise ValueError("distances: expected at least one, got none")
    for one in distances:
        at_least("distances", one, 0)
    world = load()
    weights, exact = read(world, world.k, world.v)
    row, giver, given = (world.index(one) for one in (QUERY, GIVER, GIVEN))
    made = np.concatenate([world.k, world.v], axis=1)
    rank = int(np.linalg.matrix_rank(made))
    found = []
    for r in range(1, rank + 1):
        down, up = low_rank(world, r)
        again = world.embeddings @ down @ up
        w, o = read(world, *np.split(again, 2, axis=1))
        found.append((w[0, row, giver], w[1, row, given], np.abs(o - exact).max()))
    shared, fetched = read(world, one_head(world, world.k), one_head(world, world.v))
    merged, beside = _rotated(distances, pairs, seed)
    columns = np.array(found).T
    return Latent(
        numbers=np.arange(1, rank + 1), giver=columns[0], given=columns[1], error=columns[2],
        whole=made.shape[1], shared=made.shape[1] // world.heads, rank=rank,
        exact=np.array([weights[0, row, giver], weights[1, row, given]]),
        shared_weights=np.array([shared[0, row, giver], shared[1, row, given]]),
        shared_error=float(np.abs(fetched - exact).max()),
        forms_difference=_forms(seed), distances=np.array(distances, dtype=np.int64),
        merged_error=merged, beside_error=beside, pairs=pairs, seed=seed,
    )  # fmt: skip


def _draw(seed: int, *shape: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def _forms(seed: int) -> float:
    """Expanded against absorbed, on one random layer with rotated numbers beside its latents."""
    H, T, N, D, R, E = 3, 9, 6, 4, 8, 5
    q, c, up = (_draw(seed + n, *shape) for n, shape in
                enumerate(((1, H, T, N + D), (1, T, R), (H * (N + E), R))))  # fmt: skip
    keys = Rope.plain(D, interleaved=True)(_draw(seed + 3, 1, T, D), torch.arange(T))
    both = [form(q, c, keys, up, scale=0.3) for form in (parts.expanded, parts.absorbed)]
    return float((both[0] - both[1]).abs().max())


def _rotated(distances: Sequence[int], pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Relative errors of a merged query: with a rotated key, and with the rotation beside it."""
    N, D, R = 64, 16, 48
    up = _draw(seed + 4, 2 * N, R) / R**0.5  # the rows of one head's key; its value's go unread
    q, c = _draw(seed + 5, 1, 1, pairs, N + D), _draw(seed + 6, 1, pairs, R)
    key = _draw(seed + 7, 1, pairs, D)
    inside, outside = Rope.plain(N, interleaved=True), Rope.plain(D, interleaved=True)
    merged, beside = [], []
    for one in distances:
        place = torch.full((pairs,), one)
        turned = outside(q[..., N:], place)
        query = torch.cat([q[..., :N], turned], -1)
        made = parts.keys_and_values(query, c, key, up)[0]
        brought = parts.latent_queries(query, c, key, up)
        # Pair by pair: query n with key n. The query stands `one` places behind its key.
        rotated = (inside(q[..., :N], place) * made[..., :N]).sum(-1)
        once = (brought[..., :R] * c).sum(-1)
        expanded = (query * made).sum(-1)
        absorbed = (brought * torch.cat([c, key], -1)).sum(-1)
        merged.append(float((once - rotated).norm() / rotated.norm()))
        beside.append(float((absorbed - expanded).norm() / expanded.norm()))
    return np.array(merged), np.array(beside)


if __name__ == "__main__":
    print(run().picture())
