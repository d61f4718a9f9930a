"""What every mechanism says of itself: where it comes from, what it costs, what it attended to.

The idea: a mechanism is a `torch.nn.Module` and a function. Around them stand three small records:
`About` for the catalogue, `Counts` for parameters, FLOPs and bytes, and `Seen` for whoever wants to
look at a module's attention while it runs, handed to the `watch` that its forward was given.

Units
    FLOPs: matrix products alone, one multiply-add is 2. Bytes: of the tensors kept between calls.

Not here: any mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from attnscope.core.attend import attend
from attnscope.core.problem import Attention
from attnscope.core.request import Request


@dataclass(frozen=True)
class About:
    """A mechanism's entry in the catalogue.

    Attributes:
        name: the module's name, as in `attnscope.mechanisms.<name>`.
        title_en, title_zh: what a heading calls it.
        year: of the paper.
        paper: authors, year and arXiv id; the section or equation where it was checked.
        solved: what it made possible, a sentence.
        stuck: where it got stuck, a sentence with the real number in it.
        figures: ids of the registered figures that the sentence's numbers are.
        keeps: what it keeps per token and layer.
    """

    name: str
    title_en: str
    title_zh: str
    year: int
    paper: str
    solved: str
    stuck: str
    keeps: str
    figures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counts:
    """What `tokens` new queries behind `cached` earlier tokens cost one layer, per sequence.

    Attributes:
        parameters: numbers that are learned.
        projection_flops: products with learned matrices.
        flops: products of attention itself, over the pairs in sight alone.
        flops_dense: the same when masked pairs are computed and thrown away, which is how
            `FlopCounterMode` counts.
        bytes_per_token: kept for each further token, within every window.
        kept_bytes: kept after these tokens, all told.
        fixed_bytes: the part of it that does not depend on the length.
    """

    parameters: int
    projection_flops: int
    flops: int
    flops_dense: int
    bytes_per_token: int
    kept_bytes: int
    fixed_bytes: int = 0


@dataclass(frozen=True)
class Seen:
    """One call of attention inside a module, for whoever watches it.

    Attributes:
        q: [B, H, T, D], after norms and positions.
        k: [B, G, S, D]; the T queries stand at the end of the S keys.
        v: [B, G, S, E].
        start: the position of the first query; `start + T - S` is that of the first key.
        scale, window, softcap, sinks, causal: as `attnscope.core.attend` takes them.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    start: int
    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None
    causal: bool = True

    def attend(self, statistics: Request | str | None = None) -> Attention:
        """The same attention once more, with statistics."""
        return attend(
            self.q, self.k, self.v, scale=self.scale, window=self.window, softcap=self.softcap,
            sinks=self.sinks, causal=self.causal, statistics=statistics,
        )  # fmt: skip


Watch = Callable[[Seen], None]


def parameters_of(module: torch.nn.Module) -> int:
    """How many numbers a module learns.

    >>> parameters_of(torch.nn.Linear(3, 2))
    8
    """
    return sum(p.numel() for p in module.parameters())


def pairs_in_sight(tokens: int, cached: int = 0, window: int | None = None) -> int:
    """Pairs (query, key) in sight of causal queries `cached .. cached + tokens - 1`.

    >>> pairs_in_sight(4), pairs_in_sight(1, 9), pairs_in_sight(4, 0, 2)
    (10, 10, 7)
    """
    last = cached + tokens
    if window is None or window >= last:
        return (last * (last + 1) - cached * (cached + 1)) // 2
    ramp = max(0, min(last, window) - cached)
    return (ramp * (2 * cached + ramp + 1)) // 2 + (tokens - ramp) * window
