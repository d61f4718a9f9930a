"""A row with nothing to look for: what the softmax makes of it, a sink, and a gate.

The idea: 苹果 sees three tokens whose scores differ by a third of a point. The softmax has one
hundred per cent to give and gives it: the head fetches a mixture that nobody asked for. A sink
takes part in the division and has no value, so the row may sum to less than one; a gate multiplies
what was fetched. Then three small heads learn to fetch a value where some key matches and nothing
where none does: a head can say "nothing" only with a sink or a gate.

Formula (b the sink's logit; a key of zeros with a value of zeros is the sink b = 0)
    p_j = exp s_j / (sum_k exp s_k + exp b)        o = sum_j p_j v_j        gated: sigmoid(g) o
    kept = sum_j p_j = 1 / (1 + exp(b - logsumexp s)), and o is `kept` times the plain output

Shapes: scores, weights [T]; sinks [N]; kept [N].

Paper: Xiao et al. 2023, arXiv 2309.17453 (sinks); Qiu et al. 2025, arXiv 2505.06708 (gate).

Not here: sinks that a trained model grew by itself on its first token (capture/).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.core import attend
from attnscope.core.picture import bar, pad, width
from attnscope.lessons.experiments.chart import Line, Panel, chart
from attnscope.lessons.experiments.result import Result, at_least
from attnscope.lessons.experiments.small_model import reproducible
from attnscope.lessons.world import ENGLISH, World, load

ROW = "苹果"
WAYS = ("plain", "sink", "gate")


@dataclass(frozen=True, eq=False)
class Sink(Result):
    """What `run` computed.

    Attributes:
        tokens, scores, weights: [T], what 苹果 has in sight, and its plain softmax.
        sinks: [N], logits of the sink.
        weights_with_sink: [N, T].
        kept: [N], what the row sums to.
        plain_norm: |output| of the plain row.
        norms: [N], |output| with each sink.
        zero_key_norm: |output| with a key and a value of zeros in sight: the sink of logit 0.
        gates: [M], numbers before the sigmoid.
        gated_norms: [M], |output| behind the gate.
        learned_error: by way, mean squared error of a head trained to fetch or to keep still, on
            new rows, divided by that of always answering zero.
        learned_still: by way, mean |output| on rows where nothing matches.
        learned_found: by way, the error on rows where a key matches, as `learned_error`.
    """

    tokens: tuple[str, ...]
    scores: np.ndarray
    weights: np.ndarray
    sinks: np.ndarray
    weights_with_sink: np.ndarray
    kept: np.ndarray
    plain_norm: float
    norms: np.ndarray
    zero_key_norm: float
    gates: np.ndarray
    gated_norms: np.ndarray
    seed: int
    steps: int
    learned_error: dict[str, float]
    learned_still: dict[str, float]
    learned_found: dict[str, float]

    def picture(self) -> str:
        """The row without and with a sink, the gate, and the three trained heads."""
        left = max(width(token) for token in self.tokens)
        lines = [f"row {ROW}, scaled scores " + ", ".join(f"{s:.2f}" for s in self.scores)]
        for token, weight in zip(self.tokens, self.weights, strict=True):
            lines.append(f"  {pad(token, left)} {100 * weight:5.1f} %  {bar(weight)}")
        lines.append(f"  |output| {self.plain_norm:.3f}")
        for sink, kept, norm in zip(self.sinks, self.kept, self.norms, strict=True):
            lines.append(
                f"  sink {sink:4g}: the row keeps {100 * kept:5.1f} %, |output| {norm:.3f}"
            )
        lines.append(f"  a key and a value of zeros: |output| {self.zero_key_norm:.3f}")
        for gate, norm in zip(self.gates, self.gated_norms, strict=True):
            lines.append(f"  gate sigmoid({gate:g}): weights as before, |output| {norm:.3f}")
        lines.append(
            f"heads trained {self.steps} steps to fetch what matches, and nothing if nothing does"
        )
        for way in WAYS:
            lines.append(
                f"  {way:6} error {self.learned_error[way]:.3f} of answering zero always; where "
                f"nothing matches |output| {self.learned_still[way]:.2f}"
            )
        return "\n".join(lines)

    def svg(self) -> str:
        """Weights and what is kept of the row, against the sink's logit."""
        b = np.linspace(-6.0, 8.0, 141)
        total = float(np.logaddexp.reduce(self.scores))
        kept = 1 / (1 + np.exp(b - total))
        lines = [
            Line(ENGLISH.get(token, token), b, kept * weight, style=place)
            for place, (token, weight) in enumerate(zip(self.tokens, self.weights, strict=True))
        ]
        lines += [
            Line("the row's sum", b, kept, style=3),
            Line("the sink", b, 1 - kept, style=-1),
        ]
        panel = Panel(
            "a row with nothing to look for", lines, x_label="logit of the sink",
            y_label="weight", y_range=(0.0, 1.0),
        )  # fmt: skip
        return chart([panel], columns=1, title="How a sink takes weight")


def run(
    *,
    world: World | None = None,
    sinks: Sequence[float] = (0.0, 2.0, 4.0),
    gates: Sequence[float] = (0.0, -4.0),
    steps: int = 300,
    seed: int = 0,
) -> Sink:
    """Take the row 苹果 apart, and train three heads on rows with something and nothing to find.

    Args:
        world: another world with this token; the package's own if not given.
        sinks: logits of the learned sink.
        gates: numbers before the gate's sigmoid.
        steps: of training; 0 trains nothing, and the learned errors are those of fresh heads.
        seed: of the training.

    Raises:
        ValueError, TypeError: no sink or gate, one that is no number, negative steps.

    Cost: 3 ms a step and head, about 3 s with the defaults.

    >>> found = run(steps=0)
    >>> [round(100 * w) for w in found.weights]
    [30, 41, 29]
    """
    world = world or load()
    at_least("steps", steps, 0)
    for name, given in (("sinks", sinks), ("gates", gates)):
        if not given or not all(math.isfinite(x) for x in given):
            raise ValueError(f"{name}: expected finite numbers, got {tuple(given)}")
    row = world.index(ROW)
    scores = world.scores()[row, : row + 1]
    values = world.v[: row + 1]
    weights = world.weights()[row, : row + 1]
    q = torch.from_numpy(world.q[row])[None, None, None]
    k, v = (torch.from_numpy(x[: row + 1].copy())[None, None] for x in (world.k, world.v))
    outputs = [
        attend(q, k, v, sinks=torch.tensor([b], dtype=torch.float64)).output.flatten()
        for b in sinks
    ]
    kept = 1 / (1 + np.exp(np.asarray(sinks) - np.logaddexp.reduce(scores)))
    zero = torch.zeros(1, 1, 1, k.shape[-1], dtype=torch.float64)
    zero_key = attend(q, torch.cat([zero, k], 2), torch.cat([zero, v], 2)).output
    plain_norm = float(np.linalg.norm(weights @ values))
    gate = 1 / (1 + np.exp(-np.asarray(gates, dtype=np.float64)))
    learned = {way: _learn(way, steps, seed) for way in WAYS}
    return Sink(
        tokens=world.tokens[: row + 1], scores=scores, weights=weights,
        sinks=np.array(sinks, dtype=np.float64),
        weights_with_sink=kept[:, None] * weights, kept=kept, plain_norm=plain_norm,
        norms=np.array([float(o.norm()) for o in outputs]),
        zero_key_norm=float(zero_key.norm()),
        gates=np.array(gates, dtype=np.float64), gated_norms=gate * plain_norm,
        seed=seed, steps=steps,
        learned_error={way: found[0] for way, found in learned.items()},
        learned_still={way: found[1] for way, found in learned.items()},
        learned_found={way: found[2] for way, found in learned.items()},
    )  # fmt: skip


KEYS, KEY_WIDTH, VALUE_WIDTH = 8, 16, 8


def _rows(
    size: int, names: torch.Tensor, random: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows to train on: query, keys, values, target, and which rows have something to find.

    A query is a name; half of the rows have a key of the same name, the others do not.
    """
    order = torch.rand(size, len(names), generator=random).argsort(-1)
    asked = torch.where(
        torch.rand(size, generator=random) < 0.5,
        order[:, 0], order[:, KEYS],
    )  # fmt: skip
    values = torch.randn(size, KEYS, VALUE_WIDTH, generator=random) + 1.0
    found = asked == order[:, 0]
    # The match stands anywhere in the row.
    place = torch.rand(size, KEYS, generator=random).argsort(-1)
    keys = order[:, :KEYS].gather(1, place)
    target = (values * (keys == asked[:, None])[..., None]).sum(1)
    return names[asked], names[keys], values, target, found


def _learn(way: str, steps: int, seed: int) -> tuple[float, float, float]:
    """Relative error, |output| where nothing matches, relative error where something does."""
    with reproducible(seed):
        random = torch.Generator().manual_seed(seed)
        names = torch.randn(4 * KEYS, KEY_WIDTH, generator=random)
        W_q, W_k = (torch.nn.Parameter(torch.eye(KEY_WIDTH) / 2) for _ in range(2))
        sink = torch.nn.Parameter(torch.zeros(1))
        # The gate sees the query and what was fetched, as a gate behind a residual stream would.
        gate = torch.nn.Sequential(
            torch.nn.Linear(KEY_WIDTH + VALUE_WIDTH, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )

        def head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            out = attend(
                (q @ W_q)[:, None, None], (k @ W_k)[:, None], v[:, None],
                sinks=sink if way == "sink" else None, causal=False, impl="strip",
            ).output[:, 0, 0]  # fmt: skip
            if way == "gate":
                out = out * gate(torch.cat([q, out], -1)).sigmoid()
            return out

        adam = torch.optim.Adam([W_q, W_k, sink, *gate.parameters()], lr=1e-2)
        for _ in range(steps):
            q, k, v, target, _found = _rows(256, names, random)
            loss = (head(q, k, v) - target).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        with torch.no_grad():
            q, k, v, target, found = _rows(4096, names, random)
            out = head(q, k, v)
            error = (out - target).square().sum(-1)
            base = target.square().sum(-1)
            return (
                float(error.sum() / base.sum()),
                float(out[~found].norm(dim=-1).mean()),
                float(error[found].sum() / base[found].sum()),
            )


if __name__ == "__main__":
    print(run().picture())
