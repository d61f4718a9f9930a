"""How a problem is cut: groups of heads, bands of query rows, and the scores of one band.

The idea: the rows of a band see one stretch of keys, from the first key that any of them sees to
the last. The band is as high as a budget of bytes allows, so that its scores stay in the cache, and
never so high that the keys it skips under a window are fewer than those it reads.

Formula
    s_ij = softcap(scale * q_i . k_j) + bias_ij, and -inf out of sight

Shapes
    b, g, n  batch rows, key heads, and query heads per key head of a part
    t, s     rows and keys of a band
    q [b, g, n, T, D]    k [b, g, S, D]    v [b, g, S, E]    scores [b, g, n, t, s]

Not here: softmax, statistics (strip.py), gradients (gradient.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch

from attnscope.core.problem import Problem

CPU_BYTES: Final = 2 << 20
"""A band of scores on the CPU: two of them stay in the cache of one core or two."""

DEVICE_BYTES: Final = 256 << 20
"""A band of scores elsewhere: enough work for one launch, little memory."""

FEWEST_ROWS: Final = 32
"""Below so many rows a matrix product reads its keys too often."""


@dataclass(frozen=True)
class Band:
    """Query rows [start, stop) and the keys [low, high) that they read between them."""

    start: int
    stop: int
    low: int
    high: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def keys(self) -> slice:
        return slice(self.low, self.high)


@dataclass(frozen=True)
class Part:
    """Some batch rows and key heads of a problem, in the dtype in which it is computed.

    Attributes:
        batch, groups, heads: which ones, as slices of B, G and H.
        q: [b, g, n, T, D], in the dtype of the problem.
        k: [b, g, S, D], in float32 or float64.
        v: [b, g, S, E], likewise.
        first, end: [b or 1, T] of the spans.
        finite: whether k and v hold neither NaN nor infinity.
        bands: how its rows are cut.
    """

    problem: Problem
    batch: slice
    groups: slice
    heads: slice
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    first: torch.Tensor
    end: torch.Tensor
    finite: bool
    bands: list[Band]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """b, g, n."""
        b, g, n = self.q.shape[:3]
        return b, g, n

    def queries(self, band: Band) -> torch.Tensor:
        """The band's queries, scaled, [b g, n t, D]."""
        q = self.q[:, :, :, band.rows].to(self.k.dtype) * self.problem.scale
        return q.flatten(2, 3).flatten(0, 1)

    def scores(self, band: Band, out: torch.Tensor) -> torch.Tensor:
        """The band's scores, softened by the cap, -inf out of sight, [b, g, n, t, s].

        Args:
            out: flat memory of at least as many numbers; the result is a view of it.
        """
        raw = self.raw(band, out)
        cap = self.problem.softcap
        if cap is not None:
            raw.div_(cap).tanh_().mul_(cap)
        return self.biased(raw, band)

    def raw(self, band: Band, out: torch.Tensor) -> torch.Tensor:
        """scale * q . k of the band, [b, g, n, t, s], in `out`."""
        b, g, n = self.sizes
        t, s = band.stop - band.start, band.high - band.low
        keys = self.k[:, :, band.keys].flatten(0, 1)
        flat = out[: b * g * n * t * s].view(b * g, n * t, s)
        torch.bmm(self.queries(band), keys.transpose(1, 2), out=flat)
        return flat.view(b, g, n, t, s)

    def biased(self, scores: torch.Tensor, band: Band) -> torch.Tensor:
        """Add the bias and hide what is out of sight, in place."""
        if self.problem.bias is not None:
            scores += self.cut(self.problem.bias, band)
        self._hide(scores, band)
        return scores

    def cut(self, tensor: torch.Tensor, band: Band) -> torch.Tensor:
        """The band's piece of a tensor that broadcasts to [B, H, T, S]; axes of 1 stay 1."""
        while tensor.ndim < 4:
            tensor = tensor[None]
        wanted = (self.batch, self.heads, band.rows, band.keys)
        whole = slice(None)
        piece = tensor[
            tuple(w if n > 1 else whole for w, n in zip(wanted, tensor.shape, strict=True))
        ]
        if tensor.shape[1] > 1:
            return piece.unflatten(1, self.sizes[1:])
        return piece[:, :, None]

    def _hide(self, scores: torch.Tensor, band: Band) -> None:
        """Write -inf out of sight; columns that every row sees are not touched."""
        first, end = self.first[:, band.rows], self.end[:, band.rows]
        starts, stops = int(first.max()), int(end.min())
        for low, high in _outside(band, starts, stops):
            j = torch.arange(low, high, device=scores.device)
            hidden = (j < first[..., None]) | (j >= end[..., None])
            columns = scores[..., low - band.low : high - band.low]
            columns.masked_fill_(hidden[:, None, None], -torch.inf)
        if self.problem.mask is not None:
            scores.masked_fill_(~self._mask(band), -torch.inf)

    def visible(self, band: Band) -> torch.Tensor:
        """Which of the band's keys each row sees, bool [b or 1, g or 1, n or 1, t, s]."""
        j = torch.arange(band.low, band.high, device=self.k.device)
        first, end = self.first[:, band.rows, None], self.end[:, band.rows, None]
        seen = ((j >= first) & (j < end))[:, None, None]
        return seen if self.problem.mask is None else seen & self._mask(band)

    def _mask(self, band: Band) -> torch.Tensor:
        mask = self.problem.mask
        if isinstance(mask, torch.Tensor):
            return self.cut(mask, band)
        assert mask is not None
        device = self.k.device
        shift = self.problem.k.shape[2] - self.problem.q.shape[2]

        def axis(low: int, high: int, place: int) -> torch.Tensor:
            shape = [1, 1, 1, 1]
            shape[place] = -1
            return torch.arange(low, high, device=device).view(shape)

        seen = mask(
            axis(self.batch.start, self.batch.stop, 0),
            axis(self.heads.start, self.heads.stop, 1),
            axis(band.start + shift, band.stop + shift, 2),
            axis(band.low, band.high, 3),
        )
        while seen.ndim < 4:
            seen = seen[None]
        return seen.unflatten(1, self.sizes[1:]) if seen.shape[1] > 1 else seen[:, :, None]


def _outside(band: Band, starts: int, stops: int) -> list[tuple[int, int]]:
    """The key ranges that some row of the band does not see."""
    left = (band.low, min(starts, band.high))
    right = (max(stops, band.low), band.high)
    if left[1] >= right[0]:
        return [(band.low, band.high)] if band.low < band.high else []
    return [piece for piece in (left, right) if piece[0] < piece[1]]


def parts(problem: Problem, *, budget: int | None = None, align: int = 1) -> Iterator[Part]:
    """Cut a problem into parts whose bands of scores take about `budget` bytes.

    Args:
        budget: bytes of one band of scores; chosen by the device if not given.
        align: bands neither begin nor end inside a block of so many rows, unless one block is
            more than a band.
    """
    B, H, G, T, S, _, _ = problem.sizes
    n = H // G
    dtype = problem.accumulate
    if budget is None:
        budget = CPU_BYTES if problem.q.device.type == "cpu" else DEVICE_BYTES
    numbers = max(1, budget // dtype.itemsize)
    everything = B * H * T * S
    together = max(1, B) if everything <= numbers else 1
    first, end = problem.spans.first, problem.spans.end
    widest = int((end - first).max()) if T else 0
    groups = max(1, min(G, numbers // max(1, n * min(T, FEWEST_ROWS) * widest)))
    for b in range(0, B, together):
        batch = slice(b, b + together)
        of = batch if first.shape[0] > 1 else slice(None)
        rows = numbers // max(1, min(groups, G) * n * together)
        bands = list(_bands(first[of], end[of], numbers=rows, align=align))
        for g in range(0, G, groups):
            some = slice(g, min(g + groups, G))
            heads = slice(some.start * n, some.stop * n)
            k = problem.k.detach()[batch, some].to(dtype)
            v = problem.v.detach()[batch, some].to(dtype)
            yield Part(
                problem=problem, batch=batch, groups=some, heads=heads,
                q=problem.q.detach()[batch, heads].unflatten(1, (-1, n)), k=k, v=v,
                first=first[of], end=end[of], bands=bands,
                finite=_finite(k) and _finite(v),
            )  # fmt: skip


def _finite(values: torch.Tensor) -> bool:
    """Whether no number is NaN or infinite, without a second tensor of their size."""
    return not values.numel() or all(bool(x.isfinite()) for x in torch.aminmax(values))


def _bands(first: torch.Tensor, end: torch.Tensor, *, numbers: int, align: int) -> Iterator[Band]:
    """Cut the rows so that rows x keys of a band stay within `numbers`."""
    seen = end > first
    lows = torch.where(seen, first, torch.iinfo(first.dtype).max).amin(0).tolist()
    highs = torch.where(seen, end, 0).amax(0).tolist()
    T, start = len(lows), 0
    while start < T:
        width = max(1, highs[start] - lows[start])
        height = max(1, min(T - start, max(width, FEWEST_ROWS), numbers // width))
        stop = _aligned(start, start + height, align) if align > 1 else start + height
        stop = min(stop, T)
        low, high = min(lows[start:stop]), max(highs[start:stop])
        # Rows of other documents, or later rows, may have made the band wider than its budget.
        while stop - start > 1 and (stop - start) * (high - low) > 2 * numbers:
            stop = min(_aligned(start, start + (stop - start) // 2, align), stop - 1)
            low, high = min(lows[start:stop]), max(highs[start:stop])
        yield Band(start, stop, low if high > low else 0, high if high > low else 0)
        start = stop


def _aligned(start: int, stop: int, align: int) -> int:
    """`stop` moved down to a multiple of `align`, or to the end of the block that `start` is in."""
    down = stop // align * align
    if down > start:
        return down
    return min(stop, (start // align + 1) * align)
