"""From scores to weights: the softmax, and the rules that it beat.

The idea: weights for an average must be positive and sum to one, and how two keys share must be
their own affair. Dividing by the sum fails on a negative score; subtracting the smallest first lets
a key that nobody looks at decide how two others share. The exponential has neither fault, because
it turns a difference of scores into a ratio of weights.

Formula (over the keys in sight)
    proportional    w_j = s_j / sum_k s_k
    shifted         w_j = (s_j - min s) / sum_k (s_k - min s)
    base_two        w_j = 2^s_j / sum_k 2^s_k                     temperature 1 / ln 2
    temperature     w_j = exp(s_j / t) / sum_k exp(s_k / t)
    softmax         w_j = exp(s_j) / sum_k exp(s_k)               w_a / w_b = exp(s_a - s_b)
    Jacobian of the softmax    dw_i / ds_j = w_i (delta_ij - w_j), which is diag(w) - w w^T

Shapes: scores and weights [..., S], one row per query; a Jacobian [..., S, S].

Dtypes: float64 is computed in float64, all else in float32; weights have the dtype of the scores.

Paper: Vaswani et al. 2017, arXiv 1706.03762, eq. 1 (the name is Bridle's, 1990).

Keeps: nothing.

Not here: the scores (dot_product.py), the weighted average, learned sinks (sinks.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from attnscope.core.mechanism import About, Counts
from attnscope.core.picture import bars

ABOUT = About(
    name="rivals",
    title_en="From scores to weights: the softmax and its rivals",
    title_zh="从分数到权重：softmax 与它的对手",
    year=2017,
    paper="Vaswani et al. 2017, arXiv 1706.03762, eq. 1; softmax: Bridle 1990",
    solved=(
        "Weights that are positive, sum to one and depend on differences of scores alone; dividing "
        "10, 3, -4 by their sum gives the last one -44.4 %."
    ),
    stuck=(
        "Nothing says who may see whom: trained on a whole sentence at once, the verb's row gives "
        "32.5 % of its weight to the very answer it has to predict."
    ),
    keeps="nothing",
    figures=("softmax.8_7_9", "proportional.10_3_-4", "world.unmasked.answer"),
)

LAWS: Final[dict[str, str]] = {
    "positive": "every weight is above 0",
    "sums_to_one": "the weights of every row exist and sum to 1",
    "shift": "a constant added to the whole row changes nothing",
    "others": "how two keys share does not depend on a third key",
}
"""What weights for an average should obey."""


@dataclass(frozen=True)
class Rule:
    """A way from scores to weights.

    Attributes:
        name: what `rule=` calls it.
        formula: in plain text.
        breaks: the laws (keys of `LAWS`) that it does not obey.
        example: a row of scores on which it fails, or () if it obeys all four.
        why: what happens on the example, in a sentence.
    """

    name: str
    formula: str
    breaks: tuple[str, ...]
    example: tuple[float, ...]
    why: str


RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        Rule(
            "proportional",
            "s_j / sum s",
            ("positive", "sums_to_one", "shift"),
            (10.0, 3.0, -4.0),
            "a negative score becomes a negative weight, and scores that sum to 0 have no weights",
        ),
        Rule(
            "shifted",
            "(s_j - min s) / sum (s - min s)",
            ("positive", "sums_to_one", "others"),
            (10.0, 3.0, -4.0, -11.0),
            "a new lowest key changes how the others share; equal scores have no weights",
        ),
        Rule("base_two", "2^s_j / sum 2^s", (), (), "the softmax at temperature 1 / ln 2"),
        Rule("temperature", "e^(s_j / t) / sum e^(s / t)", (), (), "the softmax of scores / t"),
        Rule("softmax", "e^s_j / sum e^s", (), (), "all four laws hold"),
    )
}
"""Every rule by name."""


def weigh(
    scores: torch.Tensor,
    rule: str = "softmax",
    *,
    temperature: float | None = None,
    seen: torch.Tensor | None = None,
) -> torch.Tensor:
    """Weights of every row of scores by a rule, faults included.

    Args:
        scores: [..., S].
        rule: a key of `RULES`.
        temperature: t of the rule "temperature" (1 if not given); no other rule takes one.
        seen: bool, broadcastable to the scores: the keys in sight. A key out of sight weighs 0 and
            takes no part; a row that sees nothing weighs 0 everywhere.

    Returns:
        [..., S]. Where a rule has no answer (a sum of 0) the row is infinite or NaN.

    Raises:
        ValueError, TypeError: an unknown rule, a temperature that is not above 0 or is given to a
            rule without one, scores that are not floats, a mask that does not fit.

    >>> [round(100 * w, 1) for w in weigh(torch.tensor([8.0, 7.0, 9.0])).tolist()]
    [24.5, 9.0, 66.5]
    >>> [round(100 * w, 1) for w in weigh(torch.tensor([10.0, 3.0, -4.0]), "proportional").tolist()]
    [111.1, 33.3, -44.4]
    """
    t = _temperature(rule, temperature)
    wide, visible = _checked(scores, seen)
    mass = _FORMULAS[rule](wide, visible, t).masked_fill(~visible, 0.0)
    blind = ~visible.any(-1, keepdim=True)
    total = mass.sum(-1, keepdim=True).masked_fill(blind, 1.0)
    return (mass / total).masked_fill(~visible, 0.0).to(scores.dtype)


def jacobian(weights: torch.Tensor, *, temperature: float = 1.0) -> torch.Tensor:
    """How each weight of a softmax moves with each score: (diag(w) - w w^T) / t, [..., S, S].

    Cost: S^2 numbers per row; `jacobian_norm` needs S.

    >>> jacobian(torch.tensor([0.5, 0.5])).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    outer = weights[..., :, None] * weights[..., None, :]
    return (torch.diag_embed(weights) - outer) / _positive(temperature)


def jacobian_norm(weights: torch.Tensor, *, temperature: float = 1.0) -> torch.Tensor:
    """The Frobenius norm of `jacobian`, from sums of powers: sqrt(S2 - 2 S3 + S2^2) / t, [...].

    The sum is taken around the largest weight a, with Rk the other weights' powers, so that the
    norm of a nearly one-hot row is not what is left over when 1 - 2 + 1 cancels:
    a^2 R1^2 + R2 (1 + 2 a^2) - 2 R3 + R2^2.

    >>> jacobian_norm(torch.tensor([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [0.5, 0.0]
    """
    top = weights.amax(-1, keepdim=True)
    first = torch.zeros_like(weights, dtype=torch.bool)
    first.scatter_(-1, weights.argmax(-1, keepdim=True), True)
    rest = weights.masked_fill(first, 0.0)
    a, (r1, r2, r3) = top.squeeze(-1), ((rest**k).sum(-1) for k in (1, 2, 3))
    square = a**2 * r1**2 + r2 * (1 + 2 * a**2) - 2 * r3 + r2**2
    return square.clamp(min=0.0).sqrt() / _positive(temperature)


class ScoresToWeights(torch.nn.Module):
    """The layer between scores and weights, with the rule to choose. It learns nothing."""

    def __init__(self, rule: str = "softmax", *, temperature: float | None = None) -> None:
        """A layer that applies `weigh` with this rule and temperature."""
        super().__init__()
        _temperature(rule, temperature)
        self.rule = rule
        self.temperature = temperature

    def forward(self, scores: torch.Tensor, *, seen: torch.Tensor | None = None) -> torch.Tensor:
        """Weights [..., S] of scores [..., S]; see `weigh`."""
        return weigh(scores, self.rule, temperature=self.temperature, seen=seen)

    def counts(
        self, tokens: int, cached: int = 0, *, dtype: torch.dtype = torch.bfloat16
    ) -> Counts:
        """Nothing: no rule learns, keeps, or multiplies matrices."""
        return Counts(0, 0, 0, 0, 0, 0)

    def extra_repr(self) -> str:
        """For the module's repr."""
        return f"rule={self.rule!r}, temperature={self.temperature}"


def _proportional(s: torch.Tensor, seen: torch.Tensor, t: float) -> torch.Tensor:
    return s


def _shifted(s: torch.Tensor, seen: torch.Tensor, t: float) -> torch.Tensor:
    return s - s.masked_fill(~seen, torch.inf).amin(-1, keepdim=True)


def _exponential(s: torch.Tensor, seen: torch.Tensor, t: float) -> torch.Tensor:
    return torch.exp(_below_largest(s, seen) / t)


def _base_two(s: torch.Tensor, seen: torch.Tensor, t: float) -> torch.Tensor:
    return torch.exp2(_below_largest(s, seen))


_FORMULAS: Final[dict[str, Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]]] = {
    "proportional": _proportional,
    "shifted": _shifted,
    "base_two": _base_two,
    "temperature": _exponential,
    "softmax": _exponential,
}


def _below_largest(s: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Scores minus the largest in sight, -inf out of sight: the same weights without overflow.

    Masked here and not after exp, whose slope out of sight may be infinite: 0 * inf is NaN.
    """
    s = s.masked_fill(~seen, -torch.inf)
    largest = s.detach().amax(-1, keepdim=True)
    return s - largest.masked_fill(largest == -torch.inf, 0.0)


def _checked(scores: torch.Tensor, seen: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The scores in the dtype they are computed in, and the keys in sight in their shape."""
    if not scores.dtype.is_floating_point:
        raise TypeError(f"scores: expected a floating dtype, got {scores.dtype}")
    if scores.ndim == 0 or scores.shape[-1] == 0:
        raise ValueError(f"scores: expected [..., S] with S >= 1, got {list(scores.shape)}")
    if seen is None:
        seen = torch.ones((), dtype=torch.bool, device=scores.device)
    if seen.dtype != torch.bool:
        raise TypeError(f"seen: expected bool (True: in sight), got {seen.dtype}")
    try:
        visible = seen.expand(scores.shape)
    except RuntimeError:
        raise ValueError(
            f"seen: expected a shape that broadcasts to {list(scores.shape)}, got "
            f"{list(seen.shape)}"
        ) from None
    return (scores if scores.dtype == torch.float64 else scores.float()), visible


def _temperature(rule: str, temperature: float | None) -> float:
    if rule not in RULES:
        raise ValueError(f"rule: unknown {rule!r}; there are {', '.join(RULES)}")
    if temperature is None:
        return 1.0
    if rule != "temperature":
        raise ValueError(
            f"temperature: rule {rule!r} takes none, got {temperature}; choose rule='temperature'"
        )
    return _positive(temperature)


def _positive(temperature: float) -> float:
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature: expected a number above 0, got {temperature}")
    return temperature


def picture() -> str:
    """Three rules on the same scores, and how an unrelated key moves the ratio of two others."""
    scores = torch.tensor([10.0, 3.0, -4.0], dtype=torch.float64)
    lines = ["scores 10, 3, -4"]
    for name in ("proportional", "shifted", "softmax"):
        percent = (100 * weigh(scores, name)).tolist()
        shown = {f"{s:g}": w for s, w in zip(scores.tolist(), percent, strict=True)}
        lines += [f"{name}: {RULES[name].formula}", bars(shown, most=120.0, unit=" %")]
    lines.append("a fourth key of score s comes: the first key's weight over the second's")
    for name in ("proportional", "shifted", "softmax"):
        ratios = []
        for new in (None, -11.0, 1.0):
            row = scores if new is None else torch.cat([scores, scores.new_tensor([new])])
            weights = weigh(row, name)
            ratios.append(
                f"{'none' if new is None else f's={new:g}'} {weights[0] / weights[1]:.4g}"
            )
        lines.append(f"  {name:13} " + "   ".join(ratios))
    gap = float((weigh(scores, "base_two") - weigh(scores * math.log(2.0))).abs().max())
    w = weigh(torch.tensor([8.0, 7.0, 9.0], dtype=torch.float64))
    lines += [
        "softmax of 8, 7, 9: " + " / ".join(f"{100 * x:.1f} %" for x in w.tolist()),
        f"law: w_a / w_b = exp(s_a - s_b): {w[0] / w[1]:.6f} = {math.e:.6f}",
        f"law: base 2 is temperature 1 / ln 2: largest difference {gap:.1e}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
