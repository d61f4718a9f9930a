"""Causal masking: minus infinity before the softmax, and two ways that look alike and are wrong.

The idea: trained on a whole sentence at once, a token would read the answer it has to predict. Set
every later score to minus infinity before the softmax, and the later weights are exactly 0, the
others sum to one, and a single pass answers the question of every prefix. Masked after the softmax
the rows sum to less than one, by a share that the future decides; with a large negative number in
place of minus infinity, the number has to be large enough, and a row that sees nothing attends to
the future evenly.

Formula (s the scaled scores; j > i is the future)
    before    p_ij = exp s_ij / sum_{k <= i} exp s_ik                    0 for j > i
    after     p_ij = exp s_ij / sum_k exp s_ik = before * share_i        0 for j > i
    number    p_i = softmax(s_i + n [j > i])      n -1e9, -1e4, ...; -inf gives NaN in a blind row

Shapes: q [B, H, T, D], k [B, H, S, D], v [B, H, S, E]; the T queries stand at the end of the keys.

Dtypes: "number" adds and takes its softmax in the dtype of q, which is its whole question; the
others are computed in float32 (float64 for float64).

Paper: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.3.

Keeps: D + E numbers per token: a key and a value.

Not here: windows, packed documents (core/masks.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from attnscope.caches import FullCache
from attnscope.core.attend import attend
from attnscope.core.mechanism import About, Seen
from attnscope.core.one_head import OneHead
from attnscope.core.picture import map_picture

ABOUT = About(
    name="masking",
    title_en="Causal masking",
    title_zh="因果掩码",
    year=2017,
    paper="Vaswani et al. 2017, arXiv 1706.03762, section 3.2.3",
    solved=(
        "The weight of every later token is exactly 0, so one forward answers what prefix by "
        "prefix takes 5 forwards and 15 positions."
    ),
    stuck=(
        "One softmax has one 100 %: the row of the verb must find giver and gift, and splits into "
        "56.5 % for the gift and 39.4 % for the giver."
    ),
    keeps="2 D numbers per token: a key and a value",
    figures=("world.unmasked.answer", "world.causal.apple", "world.causal.giver"),
)

WAYS: Final[dict[str, str]] = {
    "before": "later scores are -inf before the softmax: right",
    "after": "later weights are set to 0 after the softmax: rows sum to less than 1",
    "number": "a finite number is added to later scores: right while it is large enough",
}
"""How a future can be hidden."""

IMPLS: Final = ("reference", "fast")


def masked_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    way: str = "before",
    number: float = -1e9,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    impl: str = "reference",
) -> torch.Tensor:
    """Causal attention with the future hidden in one of three ways.

    Args:
        q: [B, H, T, D].
        k: [B, H, S, D].
        v: [B, H, S, E].
        way: a key of `WAYS`.
        number: what the way "number" adds to a score out of sight.
        mask: a further bool mask, broadcastable to [B, H, T, S]; True: may see. It is hidden in
            the same way.
        scale: of the scores; 1 / sqrt(D) if not given.
        impl: "reference", or "fast" (`attend`), which does it the right way only.

    Returns:
        [B, H, T, E]. A row that sees nothing is 0 before and after; with a number it is an average
        of what it should not see, with -inf it is NaN.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.

    Cost: 2 T S (D + E) H FLOPs; "reference" holds T x S weights.
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    if v.ndim != 4 or v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v: expected {list(k.shape[:3])} like k and a width, got {list(v.shape)}")
    if impl == "reference":
        weights = masked_weights(q, k, way=way, number=number, mask=mask, scale=scale)
        return (weights @ v.to(weights.dtype)).to(v.dtype)
    if way != "before":
        raise ValueError(f"impl: 'fast' does it right, way={way!r} is for impl='reference'")
    return attend(q, k, v, scale=scale, mask=mask).output


def masked_weights(
    q: torch.Tensor,
    k: torch.Tensor,
    *,
    way: str = "before",
    number: float = -1e9,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """The weights [B, H, T, S]; see `masked_attention`.

    >>> q, k = torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 3, 4)
    >>> masked_weights(q, k)[0, 0, 1].tolist()
    [0.5, 0.5, 0.0]
    >>> masked_weights(q, k, way="after")[0, 0, 1].sum().mul(3).tolist()
    2.0
    """
    if way not in WAYS:
        raise ValueError(f"way: unknown {way!r}; there are {', '.join(WAYS)}")
    if not number < 0:
        raise ValueError(f"number: expected a negative number, got {number}")
    seen = _sight(q, k, mask)
    wide = q.dtype if way == "number" else torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(wide) @ k.to(wide).mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if way == "number":
        return (scores + torch.where(seen, 0.0, stored(number, wide))).softmax(-1)
    if way == "after":
        return scores.softmax(-1).masked_fill(~seen, 0.0)
    # A row that sees nothing has no softmax; it is given one and loses it, so that its gradient
    # is 0 and not NaN.
    hidden = ~seen & seen.any(-1, keepdim=True)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(~seen, 0.0)


def share_in_sight(
    q: torch.Tensor,
    k: torch.Tensor,
    *,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """What is left of each row masked after the softmax, [B, H, T]: output after = share * before.

    The logarithm of the share is the difference of two log-sum-exps, that of the keys in sight and
    that of all; so the share depends on keys that the row must not know.
    """
    return masked_weights(q, k, way="after", mask=mask, scale=scale).sum(-1)


def stored(number: float, dtype: torch.dtype) -> torch.Tensor:
    """The number as the dtype holds it: -1e9 in float16 is -inf.

    >>> float(stored(-1e9, torch.float16)), float(stored(-1e9, torch.bfloat16))
    (-inf, -998244352.0)
    """
    return torch.tensor(number, dtype=torch.float64).to(dtype)


@dataclass(frozen=True)
class Leak:
    """What a number in place of -inf lets through in one dtype.

    Attributes:
        dtype, number: which.
        stored: the number as the dtype holds it.
        ordinary: the weight of hidden keys where all scores are 0.
        extreme: the same where the visible score is -`reach` and the hidden ones are +`reach`.
        blind: the weights' sum in a row that sees nothing: 0 would be right, 1 is the whole row
            given to the future, NaN spreads.
        reach: how far scores go in `extreme`.
    """

    dtype: torch.dtype
    number: float
    stored: float
    ordinary: float
    extreme: float
    blind: float
    reach: float


def leak(number: float, dtype: torch.dtype, *, reach: float = 6000.0) -> Leak:
    """Measure what a number hides: one visible key, and two keys of the future.

    >>> leak(-1e4, torch.float32).extreme, round(leak(-1e9, torch.float32).blind, 6)
    (1.0, 1.0)
    """

    def weight(visible: float, hidden: float, *, blind: bool = False) -> float:
        q = torch.ones(1, 1, 1, 1, dtype=dtype)
        k = torch.tensor([visible, hidden, hidden], dtype=dtype).view(1, 1, 3, 1)
        mask = torch.tensor([not blind, False, False])
        p = masked_weights(q, k, way="number", number=number, mask=mask, scale=1.0)
        return float((p if blind else p[..., 1:]).double().sum())

    return Leak(
        dtype, number, float(stored(number, dtype)), weight(0.0, 0.0), weight(-reach, reach),
        weight(0.0, 0.0, blind=True), reach,
    )  # fmt: skip


@dataclass
class Tally:
    """What a layer was made to do: how many calls, and how many positions in them all."""

    forwards: int = 0
    positions: int = 0


def by_prefix(layer: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, Tally]:
    """The last row of every prefix, each from a forward of its own, with what was counted.

    Args:
        layer: any module from [B, T, C] to [B, T, E].
        x: [B, T, C].

    Returns:
        [B, T, E], and the tally of a counter that hung on the layer meanwhile.
    """
    with _Counter(layer) as tally:
        rows = [layer(x[:, :length])[:, -1] for length in range(1, x.shape[1] + 1)]
    return torch.stack(rows, 1), tally


def at_once(layer: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, Tally]:
    """The same from one forward, which is right if no row of the layer sees its future."""
    with _Counter(layer) as tally:
        y = layer(x)
    return y, tally


class _Counter:
    def __init__(self, layer: nn.Module) -> None:
        self.layer, self.tally = layer, Tally()

    def __enter__(self) -> Tally:
        self.hook = self.layer.register_forward_pre_hook(self._count)
        return self.tally

    def __exit__(self, *_: object) -> None:
        self.hook.remove()

    def _count(self, layer: nn.Module, given: tuple[Any, ...]) -> None:
        self.tally.forwards += 1
        self.tally.positions += given[0].shape[1]


class MaskedAttention(OneHead):
    """One head whose future is hidden in one of three ways; see `OneHead` for the other arguments.

    Args:
        way: a key of `WAYS`.
        number: of the way "number".

    Done right, prefill and step-by-step decode agree. Masked after the softmax they do not: a
    step's future does not exist yet, and takes no share.
    """

    def __init__(
        self, model: int, width: int, *, way: str = "before", number: float = -1e9, **options: Any
    ) -> None:
        if options.get("causal") is False:
            raise ValueError("causal: this layer is about causal masking; use DotProductAttention")
        super().__init__(model, width, **options)
        if way not in WAYS:
            raise ValueError(f"way: unknown {way!r}; there are {', '.join(WAYS)}")
        self.way, self.number = way, number

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """See `masked_attention`."""
        impl = "fast" if self.way == "before" and q.device.type != "meta" else "reference"
        return masked_attention(
            q, k, v, way=self.way, number=self.number, scale=self.scale, impl=impl
        )

    def seen(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: int) -> Seen:
        """What whoever watches is told; only the right way can be told."""
        if self.way != "before":
            raise ValueError(
                f"watch: a Seen describes masking before the softmax, not way={self.way!r}; "
                "masked_weights gives the weights"
            )
        return super().seen(q, k, v, start)

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache; batch and dtype are those of the first tokens."""
        return FullCache()


def _sight(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Which keys each query sees, bool, broadcastable to [B, H, T, S]."""
    for name, x in (("q", q), ("k", k)):
        if x.ndim != 4:
            raise ValueError(f"{name}: expected [B, H, T, D], got {list(x.shape)}")
    T, S = q.shape[2], k.shape[2]
    if k.shape[:2] != q.shape[:2] or k.shape[3] != q.shape[3] or T > S:
        raise ValueError(
            f"k: expected [{q.shape[0]}, {q.shape[1]}, S, {q.shape[3]}] with S >= {T}, the "
            f"queries, got {list(k.shape)}"
        )
    seen = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
    if mask is None:
        return seen
    if mask.dtype != torch.bool:
        raise TypeError(f"mask: expected bool (True: may see), got {mask.dtype}")
    whole = (*q.shape[:2], T, S)
    try:
        mask.expand(whole)
    except RuntimeError:
        raise ValueError(
            f"mask: expected a shape that broadcasts to {list(whole)}, got {list(mask.shape)}"
        ) from None
    return seen & mask


def picture() -> str:
    """The map right and wrong, what numbers leak, and the counted forwards."""
    random = torch.Generator().manual_seed(3)
    q, k = (1.5 * torch.randn(1, 1, 5, 8, generator=random, dtype=torch.float64) for _ in "qk")
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    lines = []
    for way in ("before", "after"):
        p = masked_weights(q, k, way=way)[0, 0]
        drawn = map_picture(p.masked_fill(future, torch.nan).tolist(), numbers=True).splitlines()
        lines.append(f"{way} the softmax, percent, and the sum of the row")
        lines += [f"{row:36} {100 * s:6.1f}" for row, s in zip(drawn, p.sum(-1), strict=True)]
    lines.append(
        "hidden by        in        stored as    leaks   leaks at +-6000   blind row gives"
    )
    for number in (-torch.inf, -1e9, -1e4):
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            x = leak(number, dtype)
            lines.append(
                f"{number:<12g} {str(dtype).removeprefix('torch.'):>9} {x.stored:>14.6g} "
                f"{x.ordinary:8.3g} {x.extreme:11.3g}       {x.blind:11.3g}"
            )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layer = MaskedAttention(8, 8).double()
    x5 = torch.randn(1, 5, 8, generator=random, dtype=torch.float64)
    with torch.no_grad():
        (one, a), (each, b) = at_once(layer, x5), by_prefix(layer, x5)
        _, c = by_prefix(layer, x5[:, :4])
    lines += [
        f"5 prefixes: {b.forwards} forwards, {b.positions} positions; masked, all at once: "
        f"{a.forwards} and {a.positions}; the 4 questions alone: {c.forwards} and {c.positions}",
        f"law: row i of one forward is prefix i's own: off by {(one - each).abs().max():.1e}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
