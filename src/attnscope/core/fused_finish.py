"""What a finished strip of the fused path still holds: its rows' results and its columns' sums.

The idea: once a row's denominator is known, one factor per row and tile turns the kept exponentials
into weights. Columns are summed over a few tokens at a time, which serves the received mass and the
pooled map at once.

Formula
    p_ij = e_ij * factor[tile, row],   factor = exp(reference of the tile - reference of the row) / l

Shapes: see fused_strip.py.

Not here: the closed forms; the sums go out as they are, float64 [B, H, T, SUMS].
"""

from __future__ import annotations

from typing import Final

import numpy as np

from attnscope.core.fused_strip import (
    DISTANCE,
    LARGEST,
    REFERENCE,
    SINK,
    SUM,
    SUM_2,
    SUM_3,
    SUM_X,
    TILE,
    UNSEEN,
    WHERE,
    copy_line,
)
from attnscope.core.jit import compiled
from attnscope.core.microkernel import LANES
from attnscope.core.vectors import add_scaled, pool_scaled

# What is written per row: the moments that statistics.py turns into statistics.
(
    OUT_REFERENCE, OUT_LARGEST, OUT_ALL, OUT_KEYS, OUT_X, OUT_2, OUT_3, OUT_DISTANCE,
    OUT_SELF, OUT_PREVIOUS, OUT_LOCAL, OUT_FIRST, OUT_INDUCTION,
) = range(13)  # fmt: skip
SUMS: Final = 13

_NOTHING = -1e29
"""A row whose largest score is below this saw nothing (UNSEEN is -1e30)."""


@compiled
def finish_rows(state, acc, width, start, rows, heads, head0, out, sums, where):  # type: ignore[no-untyped-def]
    """Divide by the denominators; write outputs `out` [T, H, E] and `sums` [H, T, SUMS]."""
    for row in range(rows):
        token, head = start + row // heads, head0 + row % heads
        line = state[row]
        everything = line[SUM] + line[SINK]
        seen = not (line[LARGEST] < _NOTHING)
        inverse = np.float32(1.0 / everything) if seen else np.float32(0.0)
        target = out[token, head]
        count = target.shape[0] if seen else 0
        copy_line(target, 0, acc, row * width, 1, count, target.shape[0], inverse)
        into = sums[head, token]
        into[OUT_REFERENCE] = line[REFERENCE]
        into[OUT_LARGEST] = line[LARGEST] if seen else -np.inf
        into[OUT_ALL] = everything if seen else line[SINK]
        into[OUT_KEYS] = line[SUM] if seen else 0.0
        into[OUT_X] = line[SUM_X] if seen else 0.0
        into[OUT_2] = line[SUM_2] if seen else 0.0
        into[OUT_3] = line[SUM_3] if seen else 0.0
        into[OUT_DISTANCE] = line[DISTANCE] if seen else 0.0
        where[head, token] = np.int64(line[WHERE]) if seen else -1


@compiled
def factors(state, rows, stride, slots, references):  # type: ignore[no-untyped-def]
    """Turn the references [slots, stride] into the factors that make exponentials weights."""
    for row in range(rows):
        line = state[row]
        seen = not (line[LARGEST] < _NOTHING)
        inverse = 1.0 / (line[SUM] + line[SINK]) if seen else 0.0
        for slot in range(slots):
            at = slot * stride + row
            if seen and references[at] > UNSEEN:
                references[at] = np.float32(np.exp(references[at] - line[REFERENCE]) * inverse)
            else:
                references[at] = np.float32(0.0)


@compiled
def _weight(strip, factor, stride, tile0, row, key):  # type: ignore[no-untyped-def]
    slot = key // TILE - tile0
    return np.float64(strip[(slot * stride + row) * TILE + key % TILE]) * np.float64(
        factor[slot * stride + row]
    )


@compiled
def single_weights(  # type: ignore[no-untyped-def]
    strip, factor, stride, tile0, start, rows, heads, head0, first, end, origin, shift,
    local, sink_keys, newest, older, sums,
):  # fmt: skip
    """Weights on the key itself, the one before, the last few, the first few, and after a repeat.

    `newest[i]` is the last key j <= i whose predecessor holds the token of i (or -1), and
    `older[j]` the one before it with the same predecessor.
    """
    for row in range(rows):
        token, head = start + row // heads, head0 + row % heads
        low, high, position = first[token], end[token], token + shift
        into = sums[head, token]
        own = previous = near = begun = repeat = 0.0
        if low <= position < high:
            own = _weight(strip, factor, stride, tile0, row, position)
        if low <= position - 1 < high:
            previous = _weight(strip, factor, stride, tile0, row, position - 1)
        for key in range(max(low, position - local + 1), min(high, position + 1)):
            near += _weight(strip, factor, stride, tile0, row, key)
        for key in range(max(low, origin[token]), min(high, origin[token] + sink_keys)):
            begun += _weight(strip, factor, stride, tile0, row, key)
        if newest.shape[0] > 0:
            key = newest[position]
            while key >= low:
                if key < high:
                    repeat += _weight(strip, factor, stride, tile0, row, key)
                key = older[key]
        into[OUT_SELF], into[OUT_PREVIOUS], into[OUT_LOCAL] = own, previous, near
        into[OUT_FIRST], into[OUT_INDUCTION] = begun, repeat


@compiled
def _add_row(strip, at, count, factor, total, first):  # type: ignore[no-untyped-def]
    """Add a row's weights to `total[first:]`."""
    main = count // LANES * LANES
    add_scaled(total, first, strip, at, main, factor)
    for j in range(main, count):
        total[first + j] += strip[at + j] * factor


@compiled
def _pool_row(strip, at, count, factor, place, total, largest, where, first):  # type: ignore[no-untyped-def]
    """The same, keeping the largest weight of each column and the token it came from."""
    main = count // LANES * LANES
    pool_scaled(total, largest, where, first, strip, at, main, factor, place)
    for j in range(main, count):
        weight = np.float32(strip[at + j] * factor)
        total[first + j] += weight
        if weight > largest[first + j]:
            largest[first + j], where[first + j] = weight, place


@compiled
def _pool_cells(low, high, base, cell, total, largest, where, mean, most, place):  # type: ignore[no-untyped-def]
    """Add the columns [low, high) of one cell row to the map's lines [x]."""
    for x in range(low // cell, (high - 1) // cell + 1):
        weight, best, at = np.float32(0.0), np.float32(-1.0), np.int32(0)
        for key in range(max(low, x * cell), min(high, (x + 1) * cell)):
            j = key - base
            weight += total[j]
            if largest[j] > best:
                best, at = largest[j], np.int32(where[j] * cell + key - x * cell)
        if best < np.float32(0.0):
            continue
        if np.isnan(mean[x]):
            mean[x], most[x], place[x] = np.float32(0.0), np.float32(-1.0), np.int32(-1)
        mean[x] += weight
        if best > most[x]:
            most[x], place[x] = best, at


@compiled
def columns(  # type: ignore[no-untyped-def]
    strip, factor, stride, tile0, slots, start, tokens, heads, head0, first, end,
    received, want_received, pool, cell,
    mean, most, place, total, largest, where,
):  # fmt: skip
    """Sum a strip's weights over its tokens: `received` [H, S] and the pooled map [H, y, x].

    `total`, `largest` and `where` are scratch lines of TILE; `received` is empty where not wanted.
    """
    for slot in range(slots):
        base = (tile0 + slot) * TILE
        for head in range(heads):
            group = cell if pool else tokens
            token = start
            while token < start + tokens:
                stop = min(start + tokens, token - token % group + group if pool else token + group)
                low, high = base + TILE, base
                seen_low, seen_high = base + TILE, base
                for j in range(TILE):
                    total[j] = np.float32(0.0)
                if pool:
                    for j in range(TILE):
                        largest[j] = np.float32(-1.0)
                for t in range(token, stop):
                    begin, after = max(base, first[t]), min(base + TILE, end[t])
                    if begin >= after:
                        continue
                    seen_low, seen_high = min(seen_low, begin), max(seen_high, after)
                    row = (t - start) * heads + head
                    at = (slot * stride + row) * TILE
                    scale = factor[slot * stride + row]
                    if pool:
                        _pool_row(
                            strip, at + begin - base, after - begin, scale, np.int32(t % cell),
                            total, largest, where, begin - base,
                        )  # fmt: skip
                    else:
                        _add_row(
                            strip, at + begin - base, after - begin, scale, total, begin - base
                        )
                low, high = seen_low, seen_high
                if low < high:
                    if want_received:
                        for key in range(low, high):
                            received[head0 + head, key] += total[key - base]
                    if pool:
                        y = token // cell
                        _pool_cells(
                            low, high, base, cell, total, largest, where,
                            mean[head0 + head, y], most[head0 + head, y], place[head0 + head, y],
                        )  # fmt: skip
                token = stop


@compiled
def full_rows(strip, factor, stride, tile0, start, rows, heads, head0, first, end, slot_of, into):  # type: ignore[no-untyped-def]
    """Copy the weights of the tokens whose full rows are wanted, `into` [H, wanted, S]."""
    for row in range(rows):
        token, head = start + row // heads, head0 + row % heads
        place = slot_of[token]
        if place >= 0:
            for key in range(first[token], end[token]):
                into[head, place, key] = np.float32(_weight(strip, factor, stride, tile0, row, key))
