"""A coarser level from a finer one, exactly: four cells become one.

Formula (r_i = queries of the finer cell's row, fewer at the rim; h = keys of a finer cell)
    mean = (sum over its four cells of mean * r_i) / (sum over its two rows of r_i)
    max  = the largest of the four;  argmax is counted in the new cell

Not here: where the finer cells come from (tiling.py).
"""

from __future__ import annotations

import numpy as np

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def pooled(planes: Triple, counts: np.ndarray, half: int) -> Triple:
    """The next level of some cells that begin at an even row and an even column.

    Args:
        planes: mean, max and argmax, [h, w] each, NaN and -1 where masked.
        counts: how many queries each of the h rows of cells has.
        half: queries and keys of a finer cell's side.

    >>> one = np.array([[1.0, np.nan], [0.5, 0.25]], np.float32)
    >>> place = np.array([[0, -1], [0, 0]], np.int32)
    >>> [plane.tolist() for plane in pooled((one, one, place), np.array([1, 1]), 1)]
    [[[0.875]], [[1.0]], [[0]]]
    """
    mean, most, place = (_even(plane, fill) for plane, fill in zip(planes, _FILL, strict=True))
    rows = np.pad(counts, (0, len(mean) - len(counts))).astype(np.float64)
    hidden = place < 0
    sums = np.where(hidden, 0, mean) * rows[:, None]
    total = _quads(sums).sum(axis=2) / _pairs(rows).sum(axis=1)[:, None]
    value = _quads(np.where(hidden, -1, most))
    best = value.argmax(axis=2)[..., None]
    most = np.take_along_axis(value, best, axis=2)[..., 0].astype(np.float32)
    row, key = np.divmod(place, half)
    row[1::2] += half
    key[:, 1::2] += half
    place = np.take_along_axis(_quads(row * (2 * half) + key), best, axis=2)[..., 0]
    masked = most < 0
    total[masked] = np.nan
    most[masked] = np.nan
    place[masked] = -1
    return total.astype(np.float32), most, place.astype(np.int32)


_FILL = (np.nan, np.nan, -1)


def _even(plane: np.ndarray, fill: float) -> np.ndarray:
    """An even number of rows and columns."""
    h, w = plane.shape
    if h % 2 == 0 and w % 2 == 0:
        return plane
    return np.pad(plane, ((0, h % 2), (0, w % 2)), constant_values=fill)


def _quads(plane: np.ndarray) -> np.ndarray:
    """[h, w] as [h/2, w/2, 4]: the two of the upper row first."""
    h, w = plane.shape
    return plane.reshape(h // 2, 2, w // 2, 2).transpose(0, 2, 1, 3).reshape(h // 2, w // 2, 4)


def _pairs(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(-1, 2)
