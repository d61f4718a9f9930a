"""Attention in strips, with PyTorch operations only: any device, exact, memory that grows with T.

The idea: take a band of query rows and the keys those rows may see, do the ordinary softmax on it,
read every statistic off it while it is in the cache, and reuse its memory for the next band. Query
heads that share a key head stand as further rows of one product, so keys are never repeated.

Formula: that of attend.py; p = e / Z with e the exponentials of softmax.py.

Shapes
    b, g, n, t, s  see bands.py; scores and exponentials [b, g, n, t, s]

Dtypes: scores and weights in float32 (float64 for float64), sums in float64.

Not here: the cut into bands (bands.py), the sums (softmax.py), the closed forms (statistics.py).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import torch

from attnscope.core.bands import Band, Part, parts
from attnscope.core.pool import Pool
from attnscope.core.problem import Attention, Problem
from attnscope.core.reference import wide
from attnscope.core.request import ROW_STATISTICS
from attnscope.core.softmax import exponentials, wide_sum
from attnscope.core.statistics import Moments, needs, statistics_of


def attend_strip(problem: Problem, *, budget: int | None = None) -> Attention:
    """Attention in strips.

    Args:
        budget: bytes of one strip of scores; chosen by the device if not given. The result does
            not depend on it but for rounding.

    Cost: 2 T S (D + E) H FLOPs over the pairs in sight; memory two strips, K and V once in float32
    if they are narrower, and the results.
    """
    device = problem.q.device
    with torch.no_grad(), full_precision(device.type):
        results = Results(problem)
        align = results.pool.cell if results.pool else 1
        buffers = Buffers(problem.accumulate, device)
        for part in parts(problem, budget=budget, align=align):
            for band in part.bands:
                if band.high > band.low:
                    _strip(part, band, results, buffers)
                else:
                    _nothing(part, band, results)
        return results.attention()


@contextlib.contextmanager
def full_precision(kind: str):  # type: ignore[no-untyped-def]
    """Autocast would turn the products of scores into bfloat16 ones."""
    if torch.amp.is_autocast_available(kind):
        with torch.autocast(kind, enabled=False):
            yield
    else:
        yield


class Buffers:
    """A few strips of memory that only grow."""

    def __init__(self, dtype: torch.dtype, device: torch.device, *, count: int = 2) -> None:
        self._kind, self._device, self._count = dtype, device, count
        self._strips: list[torch.Tensor] = []

    def of(self, size: int) -> list[torch.Tensor]:
        """Flat strips of at least `size` numbers, with whatever was left in them."""
        if not self._strips or self._strips[0].numel() < size:
            self._strips = []  # first let go of the old ones, so that both are never held at once
            self._strips = [
                torch.empty(size, dtype=self._kind, device=self._device) for _ in range(self._count)
            ]
        return self._strips


class Results:
    """The tensors of an `Attention` in the making."""

    def __init__(self, problem: Problem) -> None:
        B, H, _, T, S, _, E = problem.sizes
        device, request = problem.q.device, problem.request
        self.problem = problem
        self.kept = problem.accumulate
        self.row_names = tuple(name for name in request.names if name in ROW_STATISTICS)
        self.need = needs(self.row_names)
        self.output = torch.empty(B, H, T, E, dtype=problem.v.dtype, device=device)
        self.empty = torch.empty(B, H, T, dtype=torch.bool, device=device)
        self.rows = torch.zeros(B, H, len(request.rows), S, dtype=self.kept, device=device)
        self.wanted = [row % T for row in request.rows]
        self.received = (
            torch.zeros(B, H, S, dtype=wide(device), device=device)
            if "received" in request.names
            else None
        )
        self.pool = Pool(B, H, T, S, dtype=self.kept, device=device) if request.pool else None
        self.table = {
            name: torch.empty(
                B, H, T, dtype=torch.int64 if name == "argmax" else self.kept, device=device
            )
            for name in self.row_names
        }

    def close(self, part: Part, band: Band, moments: Moments) -> None:
        """Write the statistics of a band's rows; moments are [b, g, n, t]."""
        at = (part.batch, part.heads, band.rows)
        self.empty[at] = moments.empty.flatten(1, 2)
        for name, value in statistics_of(moments, self.row_names).items():
            self.table[name][at] = value.flatten(1, 2)

    def attention(self) -> Attention:
        table = dict(self.table)
        if self.received is not None:
            table["received"] = self.received.to(self.kept)
        return Attention(
            output=self.output,
            empty=self.empty,
            statistics={name: table[name] for name in self.problem.request.names},
            map=self.pool.finish() if self.pool else None,
            rows=self.rows if self.wanted else None,
        )


def _strip(part: Part, band: Band, results: Results, buffers: Buffers) -> None:
    b, g, n = part.sizes
    t, s = band.stop - band.start, band.high - band.low
    first, second = buffers.of(b * g * n * t * s)
    scores = part.scores(band, first)
    spare = second[: scores.numel()].view(scores.shape)
    sink = sink_of(part)
    e, spare, moments = exponentials(scores, spare, sink=sink, need=results.need)
    sums = _sums(part, band, e, results.need)
    if moments.where is not None:
        sums["where"] = moments.where + band.low
    moments = replace(moments, **sums)
    results.close(part, band, moments)
    inverse = moments.inverse.to(e.dtype)
    bad = inverse.isnan()
    if bool(bad.any()):
        # A NaN row is NaN wherever it sees, and must not spoil the keys that it does not see.
        e.masked_fill_(bad[..., None], torch.nan).masked_fill_(~part.visible(band), 0.0)
        inverse = inverse.masked_fill(bad, 1.0)
    values = part.v[:, :, band.keys]
    usable = values if part.finite else torch.where(values.isfinite(), values, 0.0)
    product = torch.bmm(e.view(b * g, n * t, s), usable.flatten(0, 1)).view(b, g, n, t, -1)
    if not part.finite:
        product += _rest(e, values, part.visible(band))
    output = (product * inverse[..., None]).flatten(1, 2)
    results.output[part.batch, part.heads, band.rows] = output.to(results.output.dtype)
    _columns(part, band, results, e=e, inverse=inverse)


def _nothing(part: Part, band: Band, results: Results) -> None:
    """A band none of whose rows sees a key."""
    shape = (*part.sizes, band.stop - band.start)
    dtype = wide(part.k.device)
    zeros = torch.zeros(shape, dtype=dtype, device=part.k.device)
    below = torch.full_like(zeros, -torch.inf)
    sink = sink_of(part)
    reference = below if sink is None else sink.to(dtype).expand(shape)
    share = None if sink is None else torch.where(reference == -torch.inf, 0.0, zeros + 1.0)
    fields = {name: zeros for name in results.need if name != "where"}
    if "where" in results.need:
        fields["where"] = torch.full(shape, -1, device=zeros.device)
    moments = Moments(reference=reference, largest=below, keys=zeros, sink=share, **fields)
    results.close(part, band, moments)
    results.output[part.batch, part.heads, band.rows] = 0


def sink_of(part: Part) -> torch.Tensor | None:
    """The part's sink logits, [1, g, n, 1]."""
    sinks = part.problem.sinks
    if sinks is None:
        return None
    return sinks.detach()[part.heads].to(part.k.dtype).view(1, *part.sizes[1:], 1)


def _sums(part: Part, band: Band, e: torch.Tensor, need: frozenset[str]) -> dict[str, torch.Tensor]:
    """The sums of exponentials that depend on where the keys stand, [b, g, n, t]."""
    request, dtype = part.problem.request, wide(e.device)
    shift = part.problem.k.shape[2] - part.problem.q.shape[2]
    i = torch.arange(band.start + shift, band.stop + shift, device=e.device)
    sums: dict[str, torch.Tensor] = {}
    if "distance" in need:
        # Counted from the middle of the rows: distances near the query, where weights tend to be
        # large, are then small numbers, and exact.
        middle = int(i[len(i) // 2])
        j = torch.arange(band.low, band.high, device=e.device)
        moment = torch.mv(e.view(-1, e.shape[-1]), (middle - j).to(e.dtype)).view(e.shape[:-1])
        sums["distance"] = moment.to(dtype) + (i - middle) * wide_sum(e, dtype)
    if "own" in need:
        sums["own"] = _picked(e, i[:, None], band).to(dtype)
    if "previous" in need:
        sums["previous"] = _picked(e, i[:, None] - 1, band).to(dtype)
    if "near" in need:
        back = torch.arange(request.local, device=e.device)
        sums["near"] = _picked(e, i[:, None] - back, band).to(dtype)
    if "begun" in need:
        origin = part.problem.spans.origin
        of = origin[part.batch] if origin.shape[0] > 1 else origin
        ahead = torch.arange(request.sink_keys, device=e.device)
        sums["begun"] = _picked(e, of[:, band.rows, None] + ahead, band).to(dtype)
    if "repeat" in need:
        sums["repeat"] = wide_sum(e * _follows_repeat(part, band, i), dtype)
    return sums


def _picked(e: torch.Tensor, keys: torch.Tensor, band: Band) -> torch.Tensor:
    """The sum of each row's exponentials at some keys; keys outside the band count 0.

    Args:
        e: [b, g, n, t, s].
        keys: [t, m] or [b or 1, t, m].
    """
    while keys.ndim < 3:
        keys = keys[None]
    inside = ((keys >= band.low) & (keys < band.high))[:, None, None]
    at = (keys - band.low).clamp(0, e.shape[-1] - 1)[:, None, None]
    found = torch.gather(e, -1, at.expand(*e.shape[:-1], -1).long())
    return torch.where(inside, found, 0.0).sum(-1)


def _follows_repeat(part: Part, band: Band, i: torch.Tensor) -> torch.Tensor:
    """Whether the token before key j is the query's own, and j <= i; [b or 1, 1, 1, t, s]."""
    problem = part.problem
    tokens = problem.request.tokens
    assert tokens is not None, "Request checks this"
    S = problem.k.shape[2]
    ids = tokens.to(i.device).reshape(-1, S)
    ids = ids[part.batch] if ids.shape[0] > 1 else ids
    j = torch.arange(band.low, band.high, device=i.device)
    before = ids[:, (j - 1).clamp(min=0)][:, None, :]
    own = ids[:, i.clamp(min=0)][:, :, None]
    follows = (before == own) & (j >= 1) & (j <= i[:, None]) & (i[:, None] >= 0)
    return follows[:, None, None]


def _rest(e: torch.Tensor, values: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """What NaN and infinite values add to the rows that see them, and to no other row.

    A product over all keys would multiply them by the 0 of keys out of sight, which is NaN.
    """
    total = torch.zeros(*e.shape[:-1], values.shape[-1], dtype=e.dtype, device=e.device)
    odd = ~values.isfinite()
    for key in odd.any(-1).flatten(0, -2).any(0).nonzero().flatten().tolist():
        column = torch.where(odd[:, :, key], values[:, :, key], 0.0)[:, :, None, None]
        seen = visible[..., key, None].expand(*e.shape[:-1], 1)
        total += torch.where(seen & (column != 0), e[..., key, None] * column, 0.0)
    return total


def _columns(
    part: Part, band: Band, results: Results, *, e: torch.Tensor, inverse: torch.Tensor
) -> None:
    """What is summed down the columns, and single rows; overwrites the exponentials."""
    b, g, n, t, s = e.shape
    at = (part.batch, part.heads)
    if results.received is not None:
        totals = torch.bmm(inverse.view(b * g * n, 1, t), e.view(b * g * n, t, s))
        results.received[(*at, band.keys)] += totals.view(b, g * n, s)
    for slot, row in enumerate(results.wanted):
        if band.start <= row < band.stop:
            place = row - band.start
            weights = e[:, :, :, place] * inverse[:, :, :, place, None]
            results.rows[(*at, slot, band.keys)] = weights.flatten(1, 2)
    if results.pool is not None:
        visible = part.visible(band).expand(e.shape).flatten(1, 2)
        results.pool.add(
            e.mul_(inverse[..., None]).flatten(1, 2), visible,
            batch=part.batch, heads=part.heads, start=band.start, low=band.low,
        )  # fmt: skip
