"""Why the dot product is divided by sqrt(d): its variance, and what the softmax makes of it.

The idea: draw queries and keys at random, measure how far their dot products spread, and put rows
of them through the softmax once as they are and once divided by sqrt(d).

Formula (components independent, mean 0, variance sigma^2; Vaswani et al. 2017, arXiv 1706.03762,
section 3.2)
    Var(q.k) = d sigma^4         std(q.k) = sqrt(d) sigma^2
    the error of a measured variance, n pairs of normal vectors: sigma^4 sqrt((2 d^2 + 6 d) / n),
    because E (q.k)^4 = 3 d (d + 2) sigma^8
    J = diag(p) - p p^T; dL/ds = J dL/dp: a softmax that has decided passes on almost nothing

The stated loss: a query has one right key, drawn at random, and should fetch its value, so L is
1/2 |sum_j p_j v_j - v_right|^2 / width, with values of 8 independent standard normals. Autograd
gives dL/ds, with s the numbers that go into the softmax, and dL/dq, which lies one factor further:
dL/dq = scale * sum_j dL/ds_j k_j. So dividing by sqrt(d) also divides what reaches q and its
projection; the record holds both, the mean and the median, since a few undecided rows carry most of
the mean.

Shapes: [W] by width d, [2, W] with row 0 raw and row 1 divided by sqrt(d).

Units: entropy in nats.

Not here: whether a model learns worse for it (training.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result, at_least, positive

VALUE_WIDTH = 8
PIECE = 1 << 22
"""How many random numbers are drawn at a time; fixed, so that the stream is the same everywhere."""


@dataclass(frozen=True, eq=False)
class Variance(Result):
    """What `run` measured. [2, W] means raw first, then divided by sqrt(d).

    Attributes:
        widths: d, [W].
        sigma: standard deviation of every component of q and k.
        pairs: dot products in a histogram and in `std`, each of its own q and k.
        rows, keys: rows of scores that went through the softmax, and scores in a row.
        std: [2, W], around the known mean 0.
        std_predicted: [2, W], sqrt(d) sigma^2 and sigma^2.
        std_error: [2, W], one standard error of `std`, from the closed form above.
        max_weight, entropy, jacobian_norm: [2, W], means over rows.
        gradient_scores, gradient_query: [2, W], mean norms of dL/ds and dL/dq of a row.
        gradient_scores_median, gradient_query_median: [2, W].
        error: for each of the names from `max_weight` to `gradient_query`, one standard error of
            the mean, [2, W].
        decided: [2, W], share of rows whose largest weight is above 0.99.
        edges: [N + 1], one axis for all histograms.
        share: [2, W, N], share of the pairs in each bin; the end bins hold what lies beyond.
        fine_edges, fine_share: [N + 1] and [W, N], the scaled ones again on an axis of their own.
    """

    widths: np.ndarray
    sigma: float
    pairs: int
    rows: int
    keys: int
    seed: int
    std: np.ndarray
    std_predicted: np.ndarray
    std_error: np.ndarray
    max_weight: np.ndarray
    entropy: np.ndarray
    jacobian_norm: np.ndarray
    gradient_scores: np.ndarray
    gradient_query: np.ndarray
    gradient_scores_median: np.ndarray
    gradient_query_median: np.ndarray
    error: dict[str, np.ndarray]
    decided: np.ndarray
    edges: np.ndarray
    share: np.ndarray
    fine_edges: np.ndarray
    fine_share: np.ndarray

    def picture(self) -> str:
        """Standard deviations by width, then the table of the widest."""
        lines = [
            f"q.k of {self.pairs:,} random pairs, every component of variance {self.sigma**2:g}"
        ]
        for place, width in enumerate(self.widths):
            lines.append(
                f"  d = {width:<5d} std {self.std[0, place]:7.3f} +- {self.std_error[0, place]:.3f}"
                f"   sqrt(d) sigma^2 = {self.std_predicted[0, place]:7.3f}"
                f"   after / sqrt(d): {self.std[1, place]:.3f}"
            )
        last = int(np.argmax(self.widths))
        lines += [
            "",
            f"{self.rows:,} rows of {self.keys} keys, d = {self.widths[last]}"
            f"{'':11}raw   / sqrt(d)",
        ]
        for label, name in ROWS:
            raw, scaled = getattr(self, name)[:, last]
            lines.append(f"  {label:<32}{raw:9.4f}  {scaled:9.4f}")
        return "\n".join(lines)

    def svg(self) -> str:
        """Histograms: raw, scaled on the same axis, scaled again on an axis of their own."""
        panels = []
        for kind, name in ((0, "raw"), (1, "/ sqrt(d)")):
            for place in range(len(self.widths)):
                panels.append(
                    _panel(self, self.edges, self.share[kind], which=(kind, place), name=name)
                )
        for place in range(len(self.widths)):
            panels.append(
                _panel(
                    self,
                    self.fine_edges,
                    self.fine_share,
                    which=(1, place),
                    name="/ sqrt(d), magnified",
                )
            )
        return chart(panels, columns=len(self.widths), title="Dot products of random vectors")


ROWS = (
    ("mean largest weight", "max_weight"),
    ("rows with a weight above 0.99", "decided"),
    ("mean entropy, nats", "entropy"),
    ("mean Jacobian norm", "jacobian_norm"),
    ("gradient at the scores, mean", "gradient_scores"),
    ("gradient at the scores, median", "gradient_scores_median"),
    ("gradient at q, mean", "gradient_query"),
    ("gradient at q, median", "gradient_query_median"),
)
MEANS = ("max_weight", "entropy", "jacobian_norm", "gradient_scores", "gradient_query")


def _panel(
    found: Variance, edges: np.ndarray, shares: np.ndarray, *, which: tuple[int, int], name: str
) -> Panel:
    """A histogram as a density, with the normal curve of the predicted standard deviation."""
    kind, place = which
    density = shares[place] / np.diff(edges)
    spread = found.std_predicted[kind, place]
    x = np.linspace(edges[0], edges[-1], 801)
    normal = np.exp(-((x / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
    heights = np.append(density, density[-1])
    top = float(max((shares / np.diff(edges)).max(), normal.max() if kind else 0.0)) * 1.05
    return Panel(
        title=f"d = {found.widths[place]}, {name}: std {found.std[kind, place]:.2f}",
        lines=[
            Line("measured density", edges, heights, steps=True),
            Line("normal curve of the predicted std", x, normal, style=-1),
        ],
        x_label="score",
        x_range=(float(edges[0]), float(edges[-1])),
        y_range=(0.0, top),
    )


def run(
    *,
    widths: Sequence[int] = (4, 64, 256),
    sigma: float = 1.0,
    pairs: int = 50_000,
    rows: int = 4_000,
    keys: int = 16,
    bins: int = 128,
    seed: int = 0,
) -> Variance:
    """Measure dot products of random vectors, and rows of them behind the softmax.

    Args:
        widths: widths d of q and k; each has random numbers of its own, so adding one changes none.
        sigma: standard deviation of the normal components.
        pairs: dot products for `std` and the histograms.
        rows: rows for the softmax.
        keys: scores in a row.
        bins: bins of a histogram.
        seed: of all random numbers.

    Raises:
        ValueError, TypeError: a width, count or sigma that is too small.

    Cost: 2 d (pairs + rows * keys) FLOPs for each width and as many random numbers: 2 s and under
    100 MiB with the defaults on two cores.

    >>> found = run(widths=(4,), pairs=2000, rows=50)
    >>> bool(abs(found.std[0, 0] - 2) < 4 * found.std_error[0, 0])
    True
    """
    if not widths:
        raise ValueError("widths: expected at least one, got none")
    for width in widths:
        at_least("widths", width, 1)
    positive("sigma", sigma)
    for name, count, least in (("pairs", pairs, 2), ("rows", rows, 2), ("keys", keys, 2),
                               ("bins", bins, 2)):  # fmt: skip
        at_least(name, count, least)
    root = np.sqrt(np.asarray(widths, dtype=np.float64))
    scores = [_pairs(d, sigma, pairs, np.random.default_rng([seed, d, 0])) for d in widths]
    both = np.stack(
        [np.stack(scores), np.stack([s / r for s, r in zip(scores, root, strict=True)])]
    )
    predicted = np.stack([root * sigma**2, np.full(len(root), sigma**2)])
    error_of_variance = sigma**4 * np.sqrt((2 * root**4 + 6 * root**2) / pairs)
    std_error = error_of_variance / (2 * predicted[0])
    edges = np.linspace(-4.0, 4.0, bins + 1)
    wide = edges * predicted[0].max()
    softmax = [
        _softmax(d, sigma, (rows, keys), np.random.default_rng([seed, d, 1])) for d in widths
    ]
    by_name = {name: np.stack([s[name] for s in softmax], axis=-1) for name in softmax[0]}
    means = {name: by_name[name].mean(0) for name in MEANS}
    errors = {name: by_name[name].std(0, ddof=1) / math.sqrt(rows) for name in MEANS}
    return Variance(
        widths=np.array(widths, dtype=np.int64), sigma=float(sigma), pairs=pairs, rows=rows,
        keys=keys, seed=seed,
        std=np.sqrt((both**2).mean(-1)), std_predicted=predicted,
        std_error=np.stack([std_error, std_error / root]),
        **means, error=errors,
        gradient_scores_median=np.median(by_name["gradient_scores"], axis=0),
        gradient_query_median=np.median(by_name["gradient_query"], axis=0),
        decided=(by_name["max_weight"] > 0.99).mean(0),
        edges=wide, share=_shares(both, wide),
        fine_edges=edges * sigma**2, fine_share=_shares(both[1], edges * sigma**2),
    )  # fmt: skip


def _pairs(d: int, sigma: float, pairs: int, random: np.random.Generator) -> np.ndarray:
    """[pairs] dot products, each of a q and a k of its own; memory of PIECE numbers at a time."""
    found = []
    step = max(1, PIECE // (2 * d))
    for start in range(0, pairs, step):
        drawn = random.standard_normal((2, min(step, pairs - start), d)) * sigma
        found.append(np.einsum("nd,nd->n", drawn[0], drawn[1]))
    return np.concatenate(found)


def _shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Shares of the last axis by bin; the end bins also hold what lies beyond them."""
    inside = np.clip(values, edges[0], edges[-1])
    lines = inside.reshape(-1, inside.shape[-1])
    counts = np.stack([np.histogram(line, edges)[0] for line in lines])
    return counts.reshape(*values.shape[:-1], -1) / values.shape[-1]


def _softmax(
    d: int, sigma: float, shape: tuple[int, int], random: np.random.Generator
) -> dict[str, np.ndarray]:
    """For each row, [rows, 2]: the softmax's statistics and the norms of its gradients."""
    rows, keys = shape
    step = max(1, PIECE // (keys * max(d, keys)))
    parts = []
    for start in range(0, rows, step):
        n = min(step, rows - start)
        q, k, v = (
            torch.from_numpy(random.standard_normal(size))
            for size in ((n, d), (n, keys, d), (n, keys, VALUE_WIDTH))
        )
        right = torch.from_numpy(random.integers(0, keys, n))
        parts.append(
            [_row_statistics(q * sigma, k * sigma, v, right, scale=s) for s in (1.0, d**-0.5)]
        )
    return {
        name: np.stack(
            [np.concatenate([part[kind][name] for part in parts]) for kind in (0, 1)], -1
        )
        for name in MEANS
    }


def _row_statistics(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, right: torch.Tensor, *, scale: float
) -> dict[str, np.ndarray]:
    """The statistics of each row, in float64; the gradients by autograd."""
    q = q.clone().requires_grad_()
    scores = torch.einsum("nd,nkd->nk", q, k) * scale
    scores.retain_grad()
    p = scores.softmax(-1)
    fetched = torch.einsum("nk,nkd->nd", p, v)
    wanted = v[torch.arange(len(v)), right]
    # Rows do not meet, so the gradient of the sum holds each row's own.
    (0.5 * (fetched - wanted).square().sum() / v.shape[-1]).backward()
    assert scores.grad is not None  # both were asked for
    assert q.grad is not None
    p = p.detach()
    jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    return {
        "max_weight": p.amax(-1).numpy(),
        "entropy": torch.special.entr(p).sum(-1).numpy(),
        "jacobian_norm": torch.linalg.matrix_norm(jacobian).numpy(),
        "gradient_scores": scores.grad.norm(dim=-1).numpy(),
        "gradient_query": q.grad.norm(dim=-1).numpy(),
    }


if __name__ == "__main__":
    print(run().picture())
