"""The pooled map, gathered while bands of weights pass by.

The idea: a map of T x S weights that nobody stores is seen as a picture of at most 1024 x 1024
cells. Each band adds its sums to the cells it touches, and keeps their largest weight and where.

Formula (a cell has `cell` queries and `cell` keys; fewer at the rim)
    mean = (sum over its queries and keys of p) / (number of its queries)
    max  = the largest p;  argmax = (row in the cell) * cell + (key in the cell)

Shapes
    mean, max, argmax: [B, H, y, x]

Not here: finer levels of the map; they are recomputed from q, k and the log-sum-exp on demand.
"""

from __future__ import annotations

import torch

from attnscope.core.problem import PooledMap, map_cell


class Pool:
    """A pooled map in the making."""

    def __init__(
        self, batch: int, heads: int, queries: int, keys: int, *,
        dtype: torch.dtype, device: torch.device,
    ) -> None:  # fmt: skip
        self.cell = map_cell(queries, keys)
        self.queries, self.keys = queries, keys
        shape = (batch, heads, -(-queries // self.cell), -(-keys // self.cell))
        self.total = torch.zeros(shape, dtype=dtype, device=device)
        self.most = torch.full(shape, -1.0, dtype=dtype, device=device)
        self.place = torch.full(shape, -1, dtype=torch.int32, device=device)

    def add(
        self, weights: torch.Tensor, visible: torch.Tensor, *,
        batch: slice, heads: slice, start: int, low: int,
    ) -> None:  # fmt: skip
        """Add a band.

        Args:
            weights: [b, h, t, s], 0 out of sight.
            visible: bool that broadcasts to the same shape.
            batch, heads: which batch rows and heads they are.
            start: the first query of the band.
            low: its first key.
        """
        cell = self.cell
        b, h, t, s = weights.shape
        y0, y1 = start // cell, -(-(start + t) // cell)
        x0, x1 = low // cell, -(-(low + s) // cell)
        beyond = (low - x0 * cell, x1 * cell - low - s, start - y0 * cell, y1 * cell - start - t)

        def cells(plane: torch.Tensor, fill: float) -> torch.Tensor:
            padded = torch.nn.functional.pad(plane, beyond, value=fill) if any(beyond) else plane
            return padded.reshape(b, h, y1 - y0, cell, x1 - x0, cell)

        at = (batch, heads, slice(y0, y1), slice(x0, x1))
        self.total[at] += cells(weights, 0.0).sum(dim=(3, 5))
        shown = cells(weights.masked_fill(~visible, -1.0), -1.0).transpose(3, 4).flatten(4)
        best, place = shown.max(dim=-1)
        # A NaN is larger than everything, and stays.
        better = (best > self.most[at]) | best.isnan() & ~self.most[at].isnan()
        self.most[at] = torch.where(better, best, self.most[at])
        self.place[at] = torch.where(better, place.int(), self.place[at])

    def finish(self) -> PooledMap:
        """The map, once; cells without a pair in sight are NaN, their argmax -1."""
        hidden = self.most < 0
        rows = torch.full((self.total.shape[2], 1), self.cell, device=self.total.device)
        if len(rows):
            rows[-1] = self.queries - (len(rows) - 1) * self.cell
        return PooledMap(
            self.cell,
            self.total.div_(rows).masked_fill_(hidden, torch.nan),
            self.most.masked_fill_(hidden, torch.nan),
            self.place,
        )
