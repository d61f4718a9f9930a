"""A few query rows against many keys (decode): the fused path without packing.

The idea: with one query token there is nothing to reuse, so keys and values are read once, where
they lie, by all query heads that share them. The keys of one head are cut into chunks that threads
take; whoever finishes the last chunk of a head merges them, so there is no barrier here either.

Formula: partial sums relative to references a and b merge at r = max(a, b):
    l = l_a e^(a - r) + l_b e^(b - r), and so on for the other sums (fused_strip.py).

Shapes: as in fused_strip.py, with one strip per (batch, key head) and one state per chunk and row.

Not here: the choice between this and the packed path (fused.py).
"""

from __future__ import annotations

import numpy as np

from attnscope.core.dots import AT_ONCE, add_lines, dot, dots, fetch
from attnscope.core.fused_finish import finish_rows
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
    WHERE,
    copy_line,
    tile_softmax,
)
from attnscope.core.fused_workers import begin_rows, panel_spans, read_kept
from attnscope.core.half import widen
from attnscope.core.jit import compiled, inner
from attnscope.core.microkernel import COLUMNS, LANES, ROWS, take_number
from attnscope.core.vectors import add_scaled

AHEAD = 12
"""How many keys ahead the memory is asked for."""


@inner
def _copy_queries(q, at, by_head, by_token, by_d, heads, width, queries, scale, into):  # type: ignore[no-untyped-def]
    """The scaled queries, row by row [T * heads, D]."""
    for row in range(queries * heads):
        source = at + row % heads * by_head + row // heads * by_token
        copy_line(into, row * width, q, source, by_d, width, width, scale)


@inner
def _dot(q, at, k, source, by_d, width):  # type: ignore[no-untyped-def]
    """q[at:] . k[source:], any stride of k."""
    main = width // LANES * LANES if by_d == 1 else 0
    total = dot(q, at, k, source, main)
    for d in range(main, width):
        total += q[at + d] * k[source + d * by_d]
    return total


@inner
def _tile_dots(q, rows, width, k, at, by_key, by_d, base, low, high, strip, place):  # type: ignore[no-untyped-def]
    """Scores of the keys [low, high) of one tile; the rest of the tile is zeroed."""
    for row in range(rows):
        for key in range(base, low):
            strip[place + row * TILE + key - base] = np.float32(0.0)
        for key in range(high, base + TILE):
            strip[place + row * TILE + key - base] = np.float32(0.0)
    together = (high - low) // AT_ONCE * AT_ONCE if by_d == 1 and width % LANES == 0 else 0
    for key in range(low, low + together, AT_ONCE):
        source, into = at + key * by_key, place + key - base
        for ahead in range(AHEAD, AHEAD + AT_ONCE):
            fetch(k, source + ahead * by_key, width)
        for row in range(rows):
            dots(q, row * width, k, source, by_key, width, strip, into + row * TILE)
    for key in range(low + together, high):
        source = at + key * by_key
        for row in range(rows):
            strip[place + row * TILE + key - base] = _dot(q, row * width, k, source, by_d, width)


@inner
def _add_value(acc, at, weight, v, source, by_e, width):  # type: ignore[no-untyped-def]
    main = width // LANES * LANES if by_e == 1 else 0
    add_scaled(acc, at, v, source, main, weight)
    for e in range(main, width):
        acc[at + e] += weight * v[source + e * by_e]


@inner
def _tile_values(  # type: ignore[no-untyped-def]
    strip, place, rows, panel_low, panel_high, v, at, by_key, by_e, base, acc, width, padded
):
    """Add exponentials times values of the keys of one tile that the rows of a panel may see."""
    for panel in range((rows + ROWS - 1) // ROWS):
        low, high = max(base, panel_low[panel]), min(base + TILE, panel_high[panel])
        last = min(rows, (panel + 1) * ROWS)
        together = (
            max(0, high - low) // AT_ONCE * AT_ONCE if by_e == 1 and width % LANES == 0 else 0
        )
        for key in range(low, low + together, AT_ONCE):
            source, given = at + key * by_key, place + key - base
            for ahead in range(AHEAD, AHEAD + AT_ONCE):
                fetch(v, source + ahead * by_key, width)
            for row in range(panel * ROWS, last):
                add_lines(acc, row * padded, strip, given + row * TILE, v, source, by_key, width)
        for key in range(low + together, high):
            source = at + key * by_key
            for row in range(panel * ROWS, last):
                weight = strip[place + row * TILE + key - base]
                _add_value(acc, row * padded, weight, v, source, by_e, width)


@inner
def _one_tile_dots(b, g, rows, base, begin, stop, place, inputs, plan, shared, scratch):  # type: ignore[no-untyped-def]
    """Scores of the keys [begin, stop) of a tile, widened first where they are bfloat16."""
    at, width = inputs.k_at, plan.width
    source = at[0] + b * at[1] + g * at[2]
    if inputs.k_half.size > 0:
        wide = scratch.wide
        widen(inputs.k_half, source, at[3], at[4], width, begin, stop, base, wide.view(np.uint32))
        _tile_dots(
            scratch.packed_q, rows, width, wide, -base * width, width, 1, base, begin, stop,
            shared.strip, place,
        )  # fmt: skip
    else:
        _tile_dots(
            scratch.packed_q, rows, width, inputs.k, source, at[3], at[4], base, begin, stop,
            shared.strip, place,
        )  # fmt: skip


@inner
def _one_tile_values(b, g, rows, base, begin, stop, place, inputs, plan, shared, scratch, acc):  # type: ignore[no-untyped-def]
    """Add the values of a tile, widened first where they are bfloat16."""
    at, width = inputs.v_at, plan.value_width
    source = at[0] + b * at[1] + g * at[2]
    low, high = scratch.panel_low, scratch.panel_high
    padded = (width + COLUMNS - 1) // COLUMNS * COLUMNS
    if inputs.v_half.size > 0:
        wide = scratch.wide
        widen(inputs.v_half, source, at[3], at[4], width, begin, stop, base, wide.view(np.uint32))
        _tile_values(
            shared.strip, place, rows, low, high, wide, -base * width, width, 1, base, acc, width,
            padded,
        )  # fmt: skip
    else:
        _tile_values(
            shared.strip, place, rows, low, high, inputs.v, source, at[3], at[4], base, acc, width,
            padded,
        )  # fmt: skip


@inner
def _merge(into, other, acc, other_acc, width):  # type: ignore[no-untyped-def]
    """Add one row's partial sums to another's; `into` and `other` are states of one row."""
    if other[LARGEST] > into[LARGEST]:
        into[LARGEST], into[WHERE] = other[LARGEST], other[WHERE]
    if other[REFERENCE] == -np.inf:
        return
    reference = max(into[REFERENCE], other[REFERENCE])
    for line, sign in ((into, 0), (other, 1)):
        shift = reference - line[REFERENCE] if line[REFERENCE] != -np.inf else 0.0
        factor = np.exp(-shift)
        line[SUM_X] = factor * (line[SUM_X] - shift * line[SUM])
        line[SUM] *= factor
        line[SINK] *= factor
        line[DISTANCE] *= factor
        line[SUM_2] *= factor * factor
        line[SUM_3] *= factor * factor * factor
        line[REFERENCE] = reference
        scale = np.float32(factor)
        part = other_acc if sign else acc
        for e in range(width):
            part[e] *= scale
    for column in (SUM, SUM_X, SUM_2, SUM_3, DISTANCE, SINK):
        into[column] += other[column]
    for e in range(width):
        acc[e] += other_acc[e]


@inner
def _chunk(pair, chunk, tile0, inputs, plan, shared, scratch):  # type: ignore[no-untyped-def]
    """Partial sums of one chunk of keys for all rows of one key head."""
    b, g = pair // plan.groups, pair % plan.groups
    heads = plan.heads // plan.groups
    head0, rows = g * heads, plan.queries * heads
    width = (plan.value_width + COLUMNS - 1) // COLUMNS * COLUMNS
    seen_by = min(b, inputs.first.shape[0] - 1)
    first, end = inputs.first[seen_by], inputs.end[seen_by]
    low, high = scratch.panel_low, scratch.panel_high
    panel_spans(first, end, 0, rows, heads, low, high)
    at = inputs.q_at
    _copy_queries(
        inputs.q, at[0] + b * at[1] + head0 * at[2], at[2], at[3], at[4], heads, plan.width,
        plan.queries, plan.scale, scratch.packed_q,
    )  # fmt: skip
    number = pair * shared.chunks + chunk
    state = shared.state[number * rows : (number + 1) * rows]
    acc = shared.acc[number * rows * width : (number + 1) * rows * width]
    begin_rows(
        state, acc, rows, width, heads, head0, inputs.sinks if chunk == 0 else inputs.sinks[:0]
    )
    bias_at = (
        inputs.bias_at[0] + b * inputs.bias_at[1] + head0 * inputs.bias_at[2],
        inputs.bias_at[2], inputs.bias_at[3], inputs.bias_at[4],
    )  # fmt: skip
    mask_at = (
        inputs.mask_at[0] + b * inputs.mask_at[1] + head0 * inputs.mask_at[2],
        inputs.mask_at[2], inputs.mask_at[3], inputs.mask_at[4],
    )  # fmt: skip
    for slot in range(chunk * shared.tiles, min((chunk + 1) * shared.tiles, plan.slots)):
        base = (tile0 + slot) * TILE
        place = (pair * plan.slots + slot) * rows * TILE
        references = (pair * plan.slots + slot) * rows
        for row in range(rows):
            shared.references[references + row] = -np.inf
        begin = max(base, plan.packed_low)
        stop = min(base + TILE, plan.packed_high)
        _one_tile_dots(b, g, rows, base, begin, stop, place, inputs, plan, shared, scratch)
        tile_softmax(
            shared.strip, place, base, heads, 0, rows, low, high, first, end,
            plan.keys - plan.queries, plan.softcap, inputs.bias, bias_at, inputs.mask, mask_at,
            state, acc, width, plan.moments, shared.references, references,
        )  # fmt: skip
        _one_tile_values(b, g, rows, base, begin, stop, place, inputs, plan, shared, scratch, acc)


@inner
def _narrow(wide, line):  # type: ignore[no-untyped-def]
    for j in range(np.uintp(line.shape[0])):
        line[j] = np.float32(wide[j])


@inner
def _scaled(into, given, factor):  # type: ignore[no-untyped-def]
    for j in range(np.uintp(into.shape[0])):
        into[j] = given[j] * factor


@inner
def _give_row(strip, factor, head, heads, tile0, slots, low, high, line):  # type: ignore[no-untyped-def]
    """The weights of one query are what its keys receive: nothing to add up."""
    line[: min(low, line.shape[0])] = np.float32(0.0)
    line[max(high, 0) :] = np.float32(0.0)
    for slot in range(slots):
        base = (tile0 + slot) * TILE
        begin, stop = max(base, low), min(base + TILE, high)
        if begin < stop:
            row = slot * heads + head
            at = row * TILE - base
            _scaled(line[begin:stop], strip[at + begin : at + stop], np.float32(factor[row]))


@inner
def _finish(pair, tile0, inputs, plan, shared, scratch, results):  # type: ignore[no-untyped-def]
    """Merge the chunks of one key head and write its results."""
    b, g = pair // plan.groups, pair % plan.groups
    heads = plan.heads // plan.groups
    rows = plan.queries * heads
    width = (plan.value_width + COLUMNS - 1) // COLUMNS * COLUMNS
    seen_by = min(b, inputs.first.shape[0] - 1)
    seen_first, seen_end = inputs.first[seen_by], inputs.end[seen_by]
    first = pair * shared.chunks
    state = shared.state[first * rows : (first + 1) * rows]
    acc = shared.acc[first * rows * width : (first + 1) * rows * width]
    for chunk in range(1, shared.chunks):
        at = (first + chunk) * rows
        for row in range(rows):
            _merge(
                state[row], shared.state[at + row], acc[row * width : (row + 1) * width],
                shared.acc[(at + row) * width : (at + row + 1) * width], width,
            )  # fmt: skip
    finish_rows(
        state, acc, width, 0, rows, heads, g * heads, seen_first, seen_end, plan.wanted,
        results.out[b], results.statistics[:, b], results.where[b], results.empty[b],
        results.odd,
    )  # fmt: skip
    if not plan.keep:
        return
    begin = pair * plan.slots * rows
    stop = begin + plan.slots * rows
    strip = shared.strip[begin * TILE : stop * TILE]
    references = shared.references[begin:stop]
    alone = plan.received and plan.queries == 1 and not plan.pool
    if plan.received and not alone:
        scratch.received[b, g * heads : (g + 1) * heads] = 0.0
    read_kept(
        b, g, 0, plan.queries, rows, tile0, plan.slots, strip, references, state,
        plan.received and not alone, inputs, plan, scratch, results,
    )  # fmt: skip
    if alone:
        low, high = np.int64(seen_first[0]), np.int64(seen_end[0])
        for head in range(heads):
            line = results.received[b, g * heads + head]
            _give_row(strip, references, head, heads, tile0, plan.slots, low, high, line)
    elif plan.received:
        for head in range(g * heads, (g + 1) * heads):
            _narrow(scratch.received[b, head], results.received[b, head])


@compiled
def decode_worker(inputs, plan, shared, scratch, results, counters):  # type: ignore[no-untyped-def]
    """Take chunks until none is left; counters is int64 [1 + batch * groups], zeroed."""
    pairs = plan.batch * plan.groups
    tile0 = plan.packed_low // TILE
    number = take_number(counters, 0)
    while number < pairs * shared.chunks:
        pair, chunk = number // shared.chunks, number % shared.chunks
        _chunk(pair, chunk, tile0, inputs, plan, shared, scratch)
        if take_number(counters, 1 + pair) == shared.chunks - 1:
            _finish(pair, tile0, inputs, plan, shared, scratch, results)
        number = take_number(counters, 0)
