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
    a, b, c, d = _four(np.where(hidden, 0, mean).astype(np.float64))
    upper, lower = rows[0::2, None], rows[1::2, None]
    total = ((a + b) * upper + (c + d) * lower) / (upper + lower)
    # place = row * half + key, and shall be row * 2 half + key: the row's part once more
    pa, pb, pc, pd = _four(place + (place & -half))
    a, b, c, d = _four(np.where(hidden, -1, most))
    above, below = np.maximum(a, b), np.maximum(c, d)
    where_above = np.where(b > a, pb + half, pa)
    where_below = np.where(d > c, pd + half, pc) + 2 * half * half
    most = np.maximum(above, below).astype(np.float32)
    place = np.where(below > above, where_below, where_above)
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


def _four(plane: np.ndarray) -> tuple[np.ndarray, ...]:
    """Upper left, upper right, lower left and lower right of every four, [h/2, w/2] each."""
    return plane[0::2, 0::2], plane[0::2, 1::2], plane[1::2, 0::2], plane[1::2, 1::2]
