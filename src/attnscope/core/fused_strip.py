"""One strip of the fused path: scores, softmax, sums and output, while it is in the cache.

The idea: a strip is a few query tokens of all the heads that share one key head. Its rows are
ordered token by token, so that the rows of one register tile see almost the same keys. Keys come in
tiles of TILE; a row's softmax is kept relative to a reference that moves only when a larger score
would endanger float32, and the sums that its statistics need are taken in the pass that computes
the exponentials. What needs the finished denominator (received mass, pooled map, single weights)
is read from the kept strip afterwards.

Formula (x = s - m, m the row's reference, sums over the keys in sight)
    l = sum e^x    u = sum x e^x    s2 = sum e^2x    s3 = sum e^3x    d = sum (i - j) e^x

Shapes
    strip    float32 [slots, rows, TILE], one slot per tile of keys
    acc      float32 [rows, Ep], Ep = E padded to COLUMNS
    state    float64 [rows, STATES]

Dtypes: float32 scores; sums of a tile in float32, across tiles in float64.

Not here: threads, tasks and memory (fused.py); the statistics' closed forms (statistics.py).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from attnscope.core.half import HAS_PAIRS, pair_tile
from attnscope.core.jit import inner
from attnscope.core.microkernel import (
    COLUMNS,
    LANES,
    ROWS,
    output_tile,
    scores_tile,
)
from attnscope.core.vectors import copy_scaled, row_exp, row_exp_moments, row_max, row_softcap

TILE: Final = 256
"""Keys per tile; a tile of scores and its part of V stay in the first two cache levels."""

UNSEEN: Final = np.float32(-1e30)
"""Stands for a score out of sight: its exponential is exactly 0, and 0 * UNSEEN is not NaN."""

FAINT: Final = np.float32(-1e28)
"""No score in sight is taken to be lower than this."""

LAZY: Final = np.float32(8.0)
"""A row's reference moves only when a score exceeds it by this: e^(3 * 8) is far from overflow."""

# Columns of a row's state.
REFERENCE, LARGEST, WHERE, SUM, SUM_X, SUM_2, SUM_3, DISTANCE, SINK = range(9)
STATES: Final = 9


@inner
def copy_line(into, at, line, source, step, count, padded, factor):  # type: ignore[no-untyped-def]
    """into[at + j] = factor * line[source + j * step] for j < count, then zeros up to `padded`."""
    main = count // LANES * LANES if step == 1 else 0
    copy_scaled(into, at, line, source, main, factor)
    for j in range(main, count):
        into[at + j] = np.float32(line[source + j * step] * factor)
    for j in range(count, padded):
        into[at + j] = np.float32(0.0)


@inner
def pack_keys(k, at, by_key, by_d, keys, width, start, stop, packed, offset, inner):  # type: ignore[no-untyped-def]
    """Lay keys [S, D] out in panels [panel][d][COLUMNS], zeros where there is no key or no d.

    A key's number d lies at k[at + key * by_key + d * by_d].
    """
    for panel in range(start // COLUMNS, (stop + COLUMNS - 1) // COLUMNS):
        have = max(0, min(COLUMNS, keys - panel * COLUMNS))
        source = k[at + panel * COLUMNS * by_key :]
        into = packed[offset + panel * inner * COLUMNS : offset + (panel + 1) * inner * COLUMNS]
        for d in range(width):
            line, first = into[d * COLUMNS : (d + 1) * COLUMNS], d * by_d
            for column in range(np.uintp(have)):
                line[column] = source[np.uintp(first) + column * np.uintp(by_key)]
            for column in range(have, COLUMNS):
                line[column] = np.float32(0.0)
        for place in range(width * COLUMNS, inner * COLUMNS):
            into[place] = np.float32(0.0)


@inner
def pack_values(v, at, by_key, by_e, keys, width, start, stop, packed, offset, padded):  # type: ignore[no-untyped-def]
    """Lay values [S, E] out in blocks [E / COLUMNS][key][COLUMNS], padded with zeros."""
    stop = (stop + COLUMNS - 1) // COLUMNS * COLUMNS
    for block in range((width + COLUMNS - 1) // COLUMNS):
        columns = min(COLUMNS, width - block * COLUMNS)
        for key in range(start, stop):
            source = at + key * by_key + block * COLUMNS * by_e if key < keys else at
            copy_line(
                packed, offset + (block * padded + key) * COLUMNS, v, source, by_e,
                columns if key < keys else 0, COLUMNS, np.float32(1.0),
            )  # fmt: skip


@inner
def pack_queries(q, at, by_head, by_token, by_d, heads, width, start, stop, scale, packed, inner):  # type: ignore[no-untyped-def]
    """Copy the scaled queries of a strip row by row, [rows, inner]; rows are padded to ROWS."""
    rows = (stop - start) * heads
    for row in range((rows + ROWS - 1) // ROWS * ROWS):
        source = at + row % heads * by_head + (start + row // heads) * by_token
        have = width if row < rows else 0
        copy_line(packed, row * inner, q, source if have else at, by_d, have, inner, scale)


@inner
def _hide(strip, at, begin, stop, low, high):  # type: ignore[no-untyped-def]
    """Put UNSEEN where keys of [begin, stop) are outside [low, high); `at` is where begin lies."""
    for key in range(begin, min(low, stop)):
        strip[at + key - begin] = UNSEEN
    for key in range(max(high, begin), stop):
        strip[at + key - begin] = UNSEEN


@inner
def _add_bias(strip, at, begin, low, high, bias, source, by_key):  # type: ignore[no-untyped-def]
    """Add bias[source + key * by_key] to the scores of keys [low, high)."""
    for key in range(low, high):
        score = np.float32(strip[at + key - begin] + bias[source + key * by_key])
        if score < FAINT:
            # Minus infinity hides a key; the lowest finite number, which some masks use, does not:
            # a row of nothing else is uniform, as in PyTorch.
            score = UNSEEN if score == -np.inf else FAINT
        strip[at + key - begin] = score


@inner
def _apply_mask(strip, at, begin, low, high, mask, source, by_key):  # type: ignore[no-untyped-def]
    """Hide the keys of [low, high) where mask[source + key * by_key] is 0."""
    for key in range(low, high):
        if mask[source + key * by_key] == 0:
            strip[at + key - begin] = UNSEEN


@inner
def _move_reference(state, row, largest, acc, width):  # type: ignore[no-untyped-def]
    """Make `largest` the row's reference and rescale what was summed against the old one."""
    line = state[row]
    old = line[REFERENCE]
    line[REFERENCE] = largest
    if old == -np.inf:
        return
    shift = largest - old
    factor = np.exp(-shift)
    line[SUM_X] = factor * (line[SUM_X] - shift * line[SUM])
    line[SUM] *= factor
    line[SINK] *= factor
    line[DISTANCE] *= factor
    line[SUM_2] *= factor * factor
    line[SUM_3] *= factor * factor * factor
    scale = np.float32(factor)
    for e in range(row * width, (row + 1) * width):
        acc[e] *= scale


@inner
def _find(strip, at, count, value):  # type: ignore[no-untyped-def]
    """Where `value` first stands."""
    for j in range(count):
        if strip[at + j] == value:
            return j
    return 0


@inner
def softmax_row(strip, at, begin, stop, row, position, state, acc, width, moments):  # type: ignore[no-untyped-def]
    """One row of one tile, keys [begin, stop), from scores to exponentials; its reference.

    A score that is the row's largest so far is taken out and added in float64: what is left of a
    nearly one-hot row without its largest weight is small, and would drown in float32 sums.
    """
    count = stop - begin
    largest = row_max(strip, at, count)
    line = state[row]
    top = -1
    if largest > line[LARGEST]:
        line[LARGEST] = largest
        if moments:
            top = _find(strip, at, count, largest)
            line[WHERE] = begin + top
    if largest > line[REFERENCE] + LAZY or line[REFERENCE] == -np.inf:
        _move_reference(state, row, largest, acc, width)
    reference = np.float32(line[REFERENCE])
    if not moments:
        line[SUM] += row_exp(strip, at, count, reference)
        return reference
    if top >= 0:
        strip[at + top] = UNSEEN
    total, times_x, squares, cubes, places = row_exp_moments(strip, at, count, reference)
    offset = np.float64(position - begin)
    line[SUM] += total
    line[SUM_X] += times_x
    line[SUM_2] += squares
    line[SUM_3] += cubes
    line[DISTANCE] += offset * total - places
    if top >= 0:
        x = np.float64(largest) - line[REFERENCE]
        e = np.exp(x)
        strip[at + top] = np.float32(e)
        line[SUM] += e
        line[SUM_X] += x * e
        line[SUM_2] += e * e
        line[SUM_3] += e * e * e
        line[DISTANCE] += (offset - top) * e
    return reference


@inner
def tile_scores(  # type: ignore[no-untyped-def]
    packed_q, panels, panel_low, panel_high, packed_k, k_offset, inner, base, limit, strip, at,
    pairs, scale,
):  # fmt: skip
    """Scores of one tile: only the register tiles that some row of theirs may see.

    `pairs`: queries and keys are packed as pairs of bfloat16, and the queries not yet scaled.
    """
    for key in range(base, min(base + TILE, limit), COLUMNS):
        source = k_offset + key // COLUMNS * inner * COLUMNS
        for panel in range(panels):
            if panel_high[panel] > key and panel_low[panel] < key + COLUMNS:
                into = at + panel * ROWS * TILE + key - base
                if HAS_PAIRS and pairs:
                    pair_tile(
                        packed_q, panel * ROWS * inner, inner, packed_k, source, inner,
                        strip, into, TILE, scale,
                    )  # fmt: skip
                else:
                    scores_tile(
                        packed_q, panel * ROWS * inner, inner, packed_k, source, inner,
                        strip, into, TILE,
                    )  # fmt: skip


@inner
def tile_output(  # type: ignore[no-untyped-def]
    strip, at, panels, panel_low, panel_high, base, packed_v, v_offset, padded, acc, width
):
    """Add a tile's exponentials times its values to the accumulators."""
    for block in range(width // COLUMNS):
        source = v_offset + block * padded * COLUMNS
        for panel in range(panels):
            begin = max(base, panel_low[panel] // COLUMNS * COLUMNS)
            stop = min(base + TILE, (panel_high[panel] + COLUMNS - 1) // COLUMNS * COLUMNS)
            if begin < stop:
                output_tile(
                    strip, at + panel * ROWS * TILE + begin - base, TILE,
                    packed_v, source + begin * COLUMNS, stop - begin,
                    acc, panel * ROWS * width + block * COLUMNS, width,
                )  # fmt: skip


@inner
def tile_softmax(  # type: ignore[no-untyped-def]
    strip, at, base, heads, start, rows, panel_low, panel_high, first, end, shift,
    softcap, bias, bias_at, mask, mask_at, state, acc, width, moments, references, slot_at,
):  # fmt: skip
    """All rows of one tile from scores to exponentials, relative to `references`.

    `first` and `end` are the rows' spans, `shift` is S - T. bias and mask are flat (empty: none);
    `bias_at` and `mask_at` hold where head 0, token 0, key 0 lies and the steps per head, token and
    key.
    """
    plain = softcap == np.float32(0.0) and bias.size == 0 and mask.size == 0
    token, head = start, -1
    for row in range(rows):
        head += 1  # division by the number of heads, once per row and tile, would be felt
        if head == heads:
            token, head = token + 1, 0
        panel = row // ROWS
        begin = max(base, panel_low[panel] // COLUMNS * COLUMNS)
        stop = min(base + TILE, (panel_high[panel] + COLUMNS - 1) // COLUMNS * COLUMNS)
        if begin >= stop:
            continue
        low, high = max(begin, first[token]), min(stop, end[token])
        here = at + row * TILE + begin - base
        if high <= low:
            _hide(strip, here, begin, stop, stop, stop)
            if state[row, REFERENCE] == -np.inf:
                for j in range(stop - begin):
                    strip[here + j] = np.float32(0.0)
                references[slot_at + row] = UNSEEN
                continue
        elif not plain:
            if softcap > np.float32(0.0):
                row_softcap(strip, here, stop - begin, softcap)
            if bias.size > 0:
                source = bias_at[0] + head * bias_at[1] + token * bias_at[2]
                _add_bias(strip, here, begin, low, high, bias, source, bias_at[3])
            if mask.size > 0:
                source = mask_at[0] + head * mask_at[1] + token * mask_at[2]
                _apply_mask(strip, here, begin, low, high, mask, source, mask_at[3])
        if low > begin or high < stop:
            _hide(strip, here, begin, stop, low, high)
        references[slot_at + row] = softmax_row(
            strip, here, begin, stop, row, token + shift, state, acc, width, moments
        )
