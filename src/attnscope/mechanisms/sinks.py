"""Attention sinks: somewhere for the weight to go when a head has nothing to look for.

The idea: a softmax must hand out 100 %. A row whose scores are all alike takes a mixture that it
did not want; trained models park that weight on the first token, which is why a window that drops
it breaks them. A logit in the denominator, one per head, is a place that holds nothing: the weights
sum to 1 minus its share. A key and a value of zeros does the same with a logit that is always 0.

Formula (sink b_h of head h, not scaled; s the scaled scores)
    p_ij = exp s_ij / (exp b_h + sum_k exp s_ik)       sum_j p_ij = 1 - exp(b_h) / (the same)
    zero key and value: b_h = 0                        no sink: b_h = -inf

Shapes
    q [B, H, T, D]    k, v [B, G, S, D]    sinks [H]

Paper
    Xiao et al. 2023, arXiv 2309.17453 (the first token as sink, a zero sink, a learned one); Miller
    2023 (softmax1); gpt-oss 2025, arXiv 2508.10925.

Keeps: per token and layer 2 G D numbers, of the last w tokens in a layer with a window.

Not here: a gate on the output, the other way to take nothing (gated.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import torch
from torch import nn

from attnscope.caches import FullCache, WindowCache
from attnscope.core.attend import attend
from attnscope.core.head_inputs import check_heads, check_window
from attnscope.core.heads import HeadAttention, HeadShape, Rotation, head_attention
from attnscope.core.mechanism import About
from attnscope.core.model_fields import Families, ModelFields
from attnscope.core.picture import map_picture
from attnscope.positions import Rope

ABOUT: Final = About(
    name="sinks",
    title_en="Attention sinks",
    title_zh="注意力汇（attention sink）",
    year=2023,
    paper="Xiao et al. 2023 (arXiv 2309.17453); gpt-oss 2025 (arXiv 2508.10925)",
    solved="A head may take nothing: the row of scores 0.04, 0.36, 0.00 no longer has to be "
    "handed out as 30 / 41 / 29 %.",
    stuck="64 numbers in a layer of gpt-oss, and that they help is known from experiments "
    "alone; a row still needs a score for every key.",
    keeps="2 G D numbers per token, of the last w tokens where the layer has a window",
    figures=("world.sink.row", "shape.gptoss20b.heads"),
)

IMPLS: Final = ("reference", "fast")

FAMILIES: Final[Families] = {
    "gpt_oss": {
        "num_key_value_heads": 8, "head_dim": 64, "attention_bias": True, "sliding_window": 128,
        "sliding_window_pattern": 2,
    },
}  # fmt: skip
"""What is served, and what their config.json may leave out (the library's own defaults)."""


def sink_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sinks: torch.Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    impl: str = "fast",
) -> torch.Tensor:
    """Causal attention with a logit per head that takes weight and gives nothing.

    Args:
        q: [B, H, T, D]; the T queries stand at the end of the S keys.
        k: [B, G, S, D].
        v: [B, G, S, E].
        sinks: [H], added to the denominator as they are; -inf is no sink.
        scale: of the scores, not of the sinks; 1 / sqrt(D) if not given.
        window: how many keys a query sees, itself included.
        impl: "reference" (the formula, T x S memory) or "fast".

    Returns:
        [B, H, T, E].

    Raises:
        ValueError, TypeError: sinks of another shape, an unknown impl, or as `check_heads` and
            `check_window`.

    Cost: that of attention without sinks.

    >>> x = torch.ones(1, 1, 1, 2)
    >>> sink_attention(x * 0, x, x, torch.zeros(1)).flatten().tolist()  # half to the sink
    [0.5, 0.5]
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    check_heads(q, k, v)
    if window is not None:
        check_window(window)
    H = q.shape[1]
    if sinks.shape != (H,):
        raise ValueError(
            f"sinks: expected one logit per query head, [{H}], got {list(sinks.shape)}"
        )
    if impl == "fast":
        return head_attention(q, k, v, scale=scale, window=window, sinks=sinks)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    T, S, repeats = q.shape[2], k.shape[2], H // k.shape[1]
    distance = torch.arange(S - T, S)[:, None] - torch.arange(S)[None]
    seen = distance >= 0 if window is None else (distance >= 0) & (distance < window)
    scores = scale * q @ k.repeat_interleave(repeats, 1).mT
    scores = scores.masked_fill(~seen.to(q.device), -torch.inf)
    beside = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)
    weights = torch.cat([scores, beside], -1).softmax(-1)[..., :-1]
    return weights @ v.repeat_interleave(repeats, 1)


def streaming_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    window: int,
    first: int = 4,
    scale: float | None = None,
) -> torch.Tensor:
    """A window that keeps the first tokens too: a sink for models that were trained without one.

    Args:
        q, k, v: as above; keys stay at their places (the paper renumbers them in its cache).
        window: how many of the latest keys a query sees, itself included.
        first: how many of the first keys every query sees; the paper takes 4.
        scale: of the scores; 1 / sqrt(D) if not given.

    Returns:
        [B, H, T, E].

    Raises:
        ValueError, TypeError: a negative `first`, or as `check_heads` and `check_window`.
    """
    check_heads(q, k, v)
    check_window(window)
    if first < 0:
        raise ValueError(f"first: expected at least 0 keys, got {first}")

    def seen(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return (i - j < window) | (j < first)

    return attend(q, k, v, scale=scale, mask=seen).output


class SinkAttention(HeadAttention):
    """gpt-oss's layer: grouped heads with biases and sinks, every other layer with a window.

    Args: as `HeadAttention`.

    Attributes:
        sinks: [H], learned; zero at first, as a key of zeros would be.
    """

    def __init__(
        self,
        shape: HeadShape,
        *,
        rope: Rotation | None = None,
        scale: float | None = None,
        window: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__(shape, rope=rope, scale=scale, window=window, bias=bias)
        self.sinks = nn.Parameter(torch.zeros(shape.heads))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The layer that a config.json describes.

        Raises:
            ConfigError: a field is missing, or the family is not served.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        shape = HeadShape.of(fields)
        return cls(
            shape,
            rope=Rope.from_config(fields.rope(), width=shape.width),
            window=fields.window,
            bias=bool(fields["attention_bias"]),
        )

    def new_cache(
        self, batch: int = 1, *, dtype: torch.dtype | None = None
    ) -> FullCache | WindowCache:
        """An empty cache: of the window, or of everything in a full layer."""
        return FullCache() if self.window is None else WindowCache(self.window)


def picture() -> str:
    """A row that finds nothing, with sinks of several sizes, and a window that loses the first."""
    scores = torch.tensor([0.04, 0.36, 0.00], dtype=torch.float64)
    q, k = torch.ones(1, 1, 1, 1, dtype=torch.float64), scores.view(1, 1, 3, 1)
    values = torch.eye(3, dtype=torch.float64)[None, None]
    shown, worst = {}, 0.0
    for name, sink in {"no sink": -torch.inf, "zero key": 0.0, "b = 1": 1.0, "b = 3": 3.0}.items():
        logit = torch.tensor([sink], dtype=torch.float64)
        row = sink_attention(q, k, values, logit, scale=1.0).flatten()
        share = float(torch.exp(logit) / (torch.exp(logit) + scores.exp().sum()))
        shown[name] = [*row.tolist(), share]
        worst = max(worst, abs(float(row.sum()) - (1 - share)))
    names = ["小明", "把", "苹果", "sink"]
    return "\n".join([
        "scores 0.04, 0.36, 0.00: nothing to look for. Weights and the sink's share, percent:",
        map_picture(shown.values(), rows=list(shown), columns=names, numbers=True),
        f"law: a row sums to 1 - exp(b) / (exp(b) + sum exp s): largest difference {worst:.0e}",
        "",
        "a head looks near and parks 90 % on the first of 64 tokens; through a window of 8 its",
        "output is so many times as large as with all keys:",
        *(f"  {name:42}{size:6.2f}" for name, size in _lost_sink().items()),
    ])  # fmt: skip


def _lost_sink() -> dict[str, float]:
    """The size of the last row's output when a window drops the token that holds its weight."""
    random = torch.Generator().manual_seed(0)
    k = 0.1 * torch.randn(1, 1, 64, 8, generator=random, dtype=torch.float64)
    v = 1 + 0.1 * torch.randn(1, 1, 64, 8, generator=random, dtype=torch.float64)
    v[:, :, 0] = 0.0  # the first token's value is small in trained models too
    k[:, :, :-8] -= 0.5  # what is far off scores 4 lower
    q = torch.ones(1, 1, 1, 8, dtype=torch.float64)
    scores = (q @ k.mT).flatten()
    parked = torch.log(9 * scores[1:].exp().sum())
    k[:, :, 0] = parked / 8
    full = head_attention(q, k, v, scale=1.0).norm()
    # A learned sink learns what to hold in the window it is trained with: 90 % of it.
    sink = torch.log(9 * scores[-8:].exp().sum())[None]
    kept = {
        "the window alone": head_attention(q, k, v, scale=1.0, window=8),
        "the window and the first token": streaming_attention(
            q, k, v, scale=1.0, window=8, first=1
        ),
        "the window and a learned sink of 90 %": sink_attention(q, k, v, sink, scale=1.0, window=8),
    }
    return {name: float(output.norm() / full) for name, output in kept.items()}


if __name__ == "__main__":
    print(picture())
