"""What a finished strip of the fused path still holds: its rows' results and its columns' sums.

The idea: once a row's denominator is known, one factor per row and tile turns the kept exponentials
into weights. Columns are summed over a few tokens at a time, which serves the received mass and the
pooled map at once.

Formula
    p_ij = e_ij * factor[tile, row],   factor = exp(reference of tile - reference of row) / l

Shapes: see fused_strip.py.

Not here: taking the sums (fused_strip.py).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from attnscope.core.dots import dot
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
from attnscope.core.jit import inner
from attnscope.core.microkernel import LANES
from attnscope.core.vectors import add_scaled, pool_scaled

# Columns of `statistics`, float32 [13, H, T]: all of request.ROW_STATISTICS but argmax.
(
    LOGSUMEXP, MAX_LOGIT, MAX_WEIGHT, ENTROPY, EFFECTIVE, PARTICIPATION, JACOBIAN, DISTANCES,
    SELF, PREVIOUS, LOCAL, FIRST, INDUCTION,
) = range(13)  # fmt: skip
COLUMN_OF: Final = {
    "logsumexp": LOGSUMEXP, "max_logit": MAX_LOGIT, "max_weight": MAX_WEIGHT, "entropy": ENTROPY,
    "effective_keys": EFFECTIVE, "participation": PARTICIPATION, "jacobian_norm": JACOBIAN,
    "mean_distance": DISTANCES, "self_mass": SELF, "previous_mass": PREVIOUS, "local_mass": LOCAL,
    "sink_mass": FIRST, "induction_mass": INDUCTION,
}  # fmt: skip

_NOTHING = -1e29
"""A row whose largest score is below this saw nothing (UNSEEN is -1e30)."""


@inner
def _statistics(line, head, token, statistics):  # type: ignore[no-untyped-def]
    """The closed forms of statistics.py for one row that saw something."""
    everything = line[SUM] + line[SINK]
    inverse = 1.0 / everything
    log = np.log(everything)
    a = np.exp(line[LARGEST] - line[REFERENCE]) * inverse
    entropy = max(0.0, (line[SUM] * log - line[SUM_X]) * inverse)
    square, cube = line[SUM_2] * inverse * inverse, line[SUM_3] * inverse * inverse * inverse
    others = max(0.0, 1.0 - a)
    r2, r3 = max(0.0, square - a * a), max(0.0, cube - a * a * a)
    squared = (a * others) ** 2 + r2 * (1 + 2 * a * a) - 2 * r3 + r2 * r2
    statistics[LOGSUMEXP, head, token] = line[REFERENCE] + log
    statistics[MAX_LOGIT, head, token] = line[LARGEST]
    statistics[MAX_WEIGHT, head, token] = a
    statistics[ENTROPY, head, token] = entropy
    statistics[EFFECTIVE, head, token] = np.exp(entropy)
    statistics[PARTICIPATION, head, token] = 1.0 / square
    statistics[JACOBIAN, head, token] = np.sqrt(max(0.0, squared))
    statistics[DISTANCES, head, token] = line[DISTANCE] * inverse


@inner
def finish_rows(  # type: ignore[no-untyped-def]
    state,
    acc,
    width,
    start,
    rows,
    heads,
    head0,
    low,
    high,
    wanted,
    out,
    statistics,
    where,
    empty,
    odd,
):
    """Divide by the denominators; `out` [T, H, E], `statistics` [13, H, T], the rest [H, T].

    `odd[0]` becomes 1 where a NaN or an infinity shows: results are then not to be used.
    """
    for row in range(rows):
        token, head = start + row // heads, head0 + row % heads
        line = state[row]
        seen = not (line[LARGEST] < _NOTHING)
        norm = dot(acc, row * width, acc, row * width, width)
        # Not np.isfinite: Numba takes it for true in a function with any fastmath flag.
        if (norm + line[SUM] + line[SUM_X]) * 0.0 != 0.0 or line[LARGEST] == np.inf:
            odd[0] = 1
        if line[LARGEST] == -np.inf and high[token] > low[token]:
            odd[0] = 1
        inverse = np.float32(1.0 / (line[SUM] + line[SINK])) if seen else np.float32(0.0)
        target = out[token, head]
        count = target.shape[0] if seen else 0
        copy_line(target, 0, acc, row * width, 1, count, target.shape[0], inverse)
        empty[head, token] = not seen
        if not wanted:
            continue
        where[head, token] = np.int64(line[WHERE]) if seen else -1
        if seen:
            _statistics(line, head, token, statistics)
        else:
            for column in range(statistics.shape[0]):
                statistics[column, head, token] = np.float32(0.0)
            has_sink = line[SINK] > 0.0
            statistics[MAX_LOGIT, head, token] = -np.inf
            statistics[LOGSUMEXP, head, token] = line[REFERENCE] if has_sink else -np.inf
            statistics[FIRST, head, token] = 1.0 if has_sink else 0.0


@inner
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


@inner
def _weight(strip, factor, stride, tile0, row, key):  # type: ignore[no-untyped-def]
    slot = key // TILE - tile0
    return np.float64(strip[(slot * stride + row) * TILE + key % TILE]) * np.float64(
        factor[slot * stride + row]
    )


@inner
def single_weights(  # type: ignore[no-untyped-def]
    strip, factor, stride, tile0, start, rows, heads, head0, first, end, origin, shift,
    local, sink_keys, newest, older, state, statistics,
):  # fmt: skip
    """Weights on the key itself, the one before, the last few, the first few, and after a repeat.

    `newest[i]` is the last key j <= i whose predecessor holds the token of i (or -1), and
    `older[j]` the one before it with the same predecessor.
    """
    for row in range(rows):
        token, head = start + row // heads, head0 + row % heads
        low, high, position = first[token], end[token], token + shift
        if high <= low or state[row, LARGEST] < _NOTHING:
            continue
        own = previous = near = repeat = 0.0
        begun = state[row, SINK] / (state[row, SUM] + state[row, SINK])
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
        statistics[SELF, head, token] = own
        statistics[PREVIOUS, head, token] = previous
        statistics[LOCAL, head, token] = near
        statistics[FIRST, head, token] = begun
        statistics[INDUCTION, head, token] = repeat


@inner
def _add_row(strip, at, count, factor, total, first):  # type: ignore[no-untyped-def]
    """Add a row's weights to `total[first:]`."""
    main = count // LANES * LANES
    add_scaled(total, first, strip, at, main, factor)
    for j in range(main, count):
        total[first + j] += strip[at + j] * factor


@inner
def _pool_row(strip, at, count, factor, place, total, largest, where, first):  # type: ignore[no-untyped-def]
    """The same, keeping the largest weight of each column and the token it came from."""
    main = count // LANES * LANES
    pool_scaled(total, largest, where, first, strip, at, main, factor, place)
    for j in range(main, count):
        weight = np.float32(strip[at + j] * factor)
        total[first + j] += weight
        if weight > largest[first + j]:
            largest[first + j], where[first + j] = weight, place


@inner
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


@inner
def _add_columns(into, part):  # type: ignore[no-untyped-def]
    for j in range(np.uintp(part.shape[0])):
        into[j] += part[j]


@inner
def _receive_row(into, line, factor):  # type: ignore[no-untyped-def]
    for j in range(np.uintp(line.shape[0])):
        into[j] += line[j] * factor


@inner
def _one_token(strip, factor, tile0, slots, token, heads, head0, first, end, received):  # type: ignore[no-untyped-def]
    """`columns` of a strip of one token: there is nothing to sum, so the row goes out as it is."""
    for slot in range(slots):
        base = (tile0 + slot) * TILE
        low, high = max(base, first[token]), min(base + TILE, end[token])
        for head in range(heads):
            if low < high:
                row = slot * heads + head
                at = row * TILE - base
                into = received[head0 + head, low:high]
                _receive_row(into, strip[at + low : at + high], factor[row])


@inner
def columns(  # type: ignore[no-untyped-def]
    strip, factor, stride, tile0, slots, start, tokens, heads, head0, first, end,
    received, want_received, pool, cell,
    mean, most, place, total, largest, where,
):  # fmt: skip
    """Sum a strip's weights over its tokens: `received` [H, S] and the pooled map [H, y, x].

    `total`, `largest` and `where` are scratch lines of TILE; `received` is empty where not wanted.
    """
    if tokens == 1 and stride == heads and not pool:
        _one_token(strip, factor, tile0, slots, start, heads, head0, first, end, received)
        return
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
                        _add_columns(
                            received[head0 + head, low:high], total[low - base : high - base]
                        )
                    if pool:
                        y = token // cell
                        _pool_cells(
                            low, high, base, cell, total, largest, where,
                            mean[head0 + head, y], most[head0 + head, y], place[head0 + head, y],
                        )  # fmt: skip
                token = stop


@inner
def full_rows(strip, factor, stride, tile0, start, rows, heads, head0, first, end, slot_of, into):  # type: ignore[no-untyped-def]
    """Copy the weights of the tokens whose full rows are wanted, `into` [H, wanted, S]."""
    for row in range(rows):
        token, head = start + row // heads, head0 + row % heads
        place = slot_of[token]
        if place >= 0:
            for key in range(first[token], end[token]):
                into[head, place, key] = np.float32(_weight(strip, factor, stride, tile0, row, key))
