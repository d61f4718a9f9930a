"""What one thread of the fused path does: pack, then carry tasks from queries to statistics.

The idea: see fused.py. The arguments are grouped in four named tuples, so that a worker reads as
the list of its steps.

Not here: the choice of sizes and the allocation of memory (fused.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscope.core.fused_finish import columns, factors, finish_rows, full_rows, single_weights
from attnscope.core.fused_strip import (
    LARGEST,
    REFERENCE,
    SINK,
    STATES,
    TILE,
    pack_keys,
    pack_queries,
    pack_values,
    tile_output,
    tile_scores,
    tile_softmax,
)
from attnscope.core.half import HAS_PAIRS, pack_key_pairs, pack_query_pairs
from attnscope.core.jit import compiled, inner
from attnscope.core.microkernel import COLUMNS, ROWS, read_number, take_number

Array = NDArray[np.generic]


class Inputs(NamedTuple):
    """Flat arrays and where to find things in them: `*_at` is offset, then a step per axis.

    `k_half` and `v_half` are the bits of bfloat16 keys and values, where they are read as they lie;
    `k` and `v` are then empty.
    """

    q: Array
    q_at: Array
    k: Array
    k_at: Array
    v: Array
    v_at: Array
    bias: Array
    bias_at: Array
    mask: Array
    mask_at: Array
    sinks: Array
    first: Array
    end: Array
    origin: Array
    newest: Array
    older: Array
    slot_of: Array
    k_half: Array
    v_half: Array


class Plan(NamedTuple):
    """Sizes and wishes; all integers but the last two."""

    batch: int
    heads: int
    groups: int
    queries: int
    keys: int
    width: int
    value_width: int
    inner: int
    padded: int
    packed_low: int
    packed_high: int
    tokens: int
    unit: int
    slots: int
    cell: int
    local: int
    sink_keys: int
    wanted: bool
    moments: bool
    keep: bool
    singles: bool
    received: bool
    pool: bool
    rows: bool
    pairs: bool
    scale: np.float32
    softcap: np.float32


class Scratch(NamedTuple):
    """Memory: the packed keys and values shared by all threads, the rest one thread's own."""

    packed_k: Array
    packed_v: Array
    packed_q: Array
    strip: Array
    acc: Array
    state: Array
    references: Array
    panel_low: Array
    panel_high: Array
    total: Array
    largest: Array
    where: Array
    received: Array
    wide: Array


class Chunks(NamedTuple):
    """Memory that the threads of the decode path share: each chunk of keys has its own part."""

    strip: Array
    references: Array
    state: Array
    acc: Array
    chunks: int
    tiles: int


class Results(NamedTuple):
    """What the call returns, shared: every task writes its own part."""

    out: Array
    statistics: Array
    where: Array
    empty: Array
    odd: Array
    mean: Array
    most: Array
    place: Array
    rows: Array
    received: Array


PACK_KEYS = 512
"""Keys per packing task, a multiple of COLUMNS."""


@inner
def _pack(number, inputs, plan, scratch):  # type: ignore[no-untyped-def]
    chunks = (plan.packed_high - plan.packed_low + PACK_KEYS - 1) // PACK_KEYS
    head = number // chunks
    b, g = head // plan.groups, head % plan.groups
    start = plan.packed_low + number % chunks * PACK_KEYS
    stop = min(start + PACK_KEYS, plan.packed_high)
    at = inputs.k_at
    source, into = at[0] + b * at[1] + g * at[2], head * plan.padded * plan.inner
    if HAS_PAIRS and plan.pairs:
        pack_key_pairs(
            inputs.k.view(np.uint32), source, at[3], at[4], plan.keys, plan.width, start, stop,
            scratch.packed_k.view(np.uint32), into, plan.inner,
        )  # fmt: skip
    else:
        pack_keys(
            inputs.k, source, at[3], at[4], plan.keys, plan.width, start, stop,
            scratch.packed_k, into, plan.inner,
        )  # fmt: skip
    at = inputs.v_at
    blocks = (plan.value_width + COLUMNS - 1) // COLUMNS
    pack_values(
        inputs.v, at[0] + b * at[1] + g * at[2], at[3], at[4], plan.keys, plan.value_width, start,
        stop, scratch.packed_v, head * blocks * plan.padded * COLUMNS, plan.padded,
    )  # fmt: skip


@inner
def panel_spans(first, end, start, rows, heads, low, high):  # type: ignore[no-untyped-def]
    """The keys in sight of each register tile's rows, and of the whole strip."""
    panels = (rows + ROWS - 1) // ROWS
    least, most = np.int64(1) << 60, np.int64(0)
    for panel in range(panels):
        low[panel], high[panel] = np.int64(1) << 60, 0
        for row in range(panel * ROWS, min(rows, (panel + 1) * ROWS)):
            token = start + row // heads
            if end[token] > first[token]:
                low[panel] = min(low[panel], np.int64(first[token]))
                high[panel] = max(high[panel], np.int64(end[token]))
        least, most = min(least, low[panel]), max(most, high[panel])
    return panels, least, most


@inner
def begin_rows(state, acc, rows, width, heads, head0, sinks):  # type: ignore[no-untyped-def]
    """A row starts with nothing, or with its head's sink in the denominator."""
    for row in range(rows):
        for column in range(STATES):
            state[row, column] = 0.0
        state[row, LARGEST] = -np.inf
        state[row, REFERENCE] = -np.inf
        if sinks.size > 0:
            state[row, REFERENCE] = sinks[head0 + row % heads]
            state[row, SINK] = 1.0
    acc[: min(acc.size, (rows + ROWS - 1) // ROWS * ROWS * width)] = np.float32(0.0)


@inner
def read_kept(  # type: ignore[no-untyped-def]
    b, g, start, stop, stride, tile0, slots, strip, references, state, receive,
    inputs, plan, scratch, results,
):  # fmt: skip
    """What is wanted of the kept exponentials of query tokens [start, stop), once whole.

    `receive`: whether this is the place that adds to `received`.
    """
    heads = plan.heads // plan.groups
    head0, rows = g * heads, (stop - start) * heads
    seen_by = min(b, inputs.first.shape[0] - 1)
    first, end, origin = inputs.first[seen_by], inputs.end[seen_by], inputs.origin[seen_by]
    factors(state, rows, stride, slots, references)
    if plan.singles:
        linked = min(b, inputs.newest.shape[0] - 1)
        single_weights(
            strip, references, stride, tile0, start, rows, heads, head0, first, end, origin,
            plan.keys - plan.queries, plan.local, plan.sink_keys, inputs.newest[linked],
            inputs.older[linked], state, results.statistics[:, b],
        )  # fmt: skip
    if receive or plan.pool:
        columns(
            strip, references, stride, tile0, slots, start, stop - start, heads, head0, first, end,
            scratch.received[min(b, scratch.received.shape[0] - 1)], receive, plan.pool,
            plan.cell, results.mean[min(b, results.mean.shape[0] - 1)],
            results.most[min(b, results.mean.shape[0] - 1)],
            results.place[min(b, results.mean.shape[0] - 1)],
            scratch.total, scratch.largest, scratch.where,
        )  # fmt: skip
    if plan.rows:
        full_rows(
            strip, references, stride, tile0, start, rows, heads, head0, first, end,
            inputs.slot_of, results.rows[b],
        )  # fmt: skip


@inner
def _strip(b, g, start, stop, inputs, plan, scratch, results):  # type: ignore[no-untyped-def]
    """One strip: query tokens [start, stop) of the heads that share key head g."""
    heads = plan.heads // plan.groups
    head0, rows = g * heads, (stop - start) * heads
    seen_by = min(b, inputs.first.shape[0] - 1)
    first, end = inputs.first[seen_by], inputs.end[seen_by]
    shift = plan.keys - plan.queries
    blocks = (plan.value_width + COLUMNS - 1) // COLUMNS
    width = blocks * COLUMNS
    strip, acc, state, references = scratch.strip, scratch.acc, scratch.state, scratch.references
    low, high = scratch.panel_low, scratch.panel_high
    at = inputs.q_at
    source = at[0] + b * at[1] + head0 * at[2]
    if HAS_PAIRS and plan.pairs:
        pack_query_pairs(
            inputs.q.view(np.uint32), source, at[2], at[3], at[4], heads, plan.width, start, stop,
            scratch.packed_q.view(np.uint32), plan.inner,
        )  # fmt: skip
    else:
        pack_queries(
            inputs.q, source, at[2], at[3], at[4], heads, plan.width, start, stop, plan.scale,
            scratch.packed_q, plan.inner,
        )  # fmt: skip
    begin_rows(state, acc, rows, width, heads, head0, inputs.sinks)
    panels, least, most = panel_spans(first, end, start, rows, heads, low, high)
    stride = panels * ROWS
    bias_at = (
        inputs.bias_at[0] + b * inputs.bias_at[1] + head0 * inputs.bias_at[2],
        inputs.bias_at[2], inputs.bias_at[3], inputs.bias_at[4],
    )  # fmt: skip
    mask_at = (
        inputs.mask_at[0] + b * inputs.mask_at[1] + head0 * inputs.mask_at[2],
        inputs.mask_at[2], inputs.mask_at[3], inputs.mask_at[4],
    )  # fmt: skip
    tile0 = least // TILE if most > 0 else 0
    slots = (most + TILE - 1) // TILE - tile0 if most > 0 else 0
    for slot in range(slots):
        base = (tile0 + slot) * TILE
        place = slot * stride * TILE if plan.keep else 0
        for row in range(stride):
            references[slot * stride + row] = -np.inf
        tile_scores(
            scratch.packed_q, panels, low, high, scratch.packed_k,
            (b * plan.groups + g) * plan.padded * plan.inner, plan.inner, base, most, strip, place,
            plan.pairs, plan.scale,
        )  # fmt: skip
        tile_softmax(
            strip, place, base, heads, start, rows, low, high, first, end, shift, plan.softcap,
            inputs.bias, bias_at, inputs.mask, mask_at, state, acc, width, plan.moments,
            references, slot * stride,
        )  # fmt: skip
        tile_output(
            strip, place, panels, low, high, base, scratch.packed_v,
            (b * plan.groups + g) * blocks * plan.padded * COLUMNS, plan.padded, acc, width,
        )  # fmt: skip
    finish_rows(
        state, acc, width, start, rows, heads, head0, first, end, plan.wanted,
        results.out[b], results.statistics[:, b], results.where[b], results.empty[b],
        results.odd,
    )  # fmt: skip
    if not plan.keep:
        return
    read_kept(
        b, g, start, stop, stride, tile0, slots, strip, references, state, plan.received,
        inputs, plan, scratch, results,
    )  # fmt: skip


@compiled
def prefill_worker(inputs, plan, scratch, results, counters):  # type: ignore[no-untyped-def]
    """Take packing tasks, wait for the others', take strips; counters is int64 [3], zeroed."""
    chunks = (plan.packed_high - plan.packed_low + PACK_KEYS - 1) // PACK_KEYS
    packing = plan.batch * plan.groups * chunks
    number = take_number(counters, 0)
    while number < packing:
        _pack(number, inputs, plan, scratch)
        take_number(counters, 1)
        number = take_number(counters, 0)
    while read_number(counters, 1) < packing:
        pass
    units = (plan.queries + plan.unit - 1) // plan.unit
    pairs = plan.batch * plan.groups
    number = take_number(counters, 2)
    while number < units * pairs:
        # The last tokens see the most keys under a causal mask: the longest tasks go first.
        unit, pair = units - 1 - number // pairs, number % pairs
        start, limit = unit * plan.unit, min(plan.queries, (unit + 1) * plan.unit)
        while start < limit:
            stop = min(limit, start + plan.tokens)
            _strip(
                pair // plan.groups, pair % plan.groups, start, stop, inputs, plan, scratch, results
            )
            start = stop
        number = take_number(counters, 2)


@compiled
def link_repeats(tokens, newest, older, last):  # type: ignore[no-untyped-def]
    """Chains of keys that follow the same token, for `induction_mass`.

    Args:
        tokens: int64 [B, S], ids 0, 1, ... below the length of `last`, which is scratch (int32).
        newest: int32 [B, S], gets per position i the last key 1 <= j <= i with tokens[j - 1] equal
            to tokens[i], or -1.
        older: int32 [B, S], gets per key j the one before it whose predecessor is the same, or -1.
    """
    batch, keys = tokens.shape
    for b in range(batch):
        last[:] = -1
        for i in range(keys):
            older[b, i] = -1
            if i > 0:
                older[b, i] = last[tokens[b, i - 1]]
                last[tokens[b, i - 1]] = i
            newest[b, i] = last[tokens[b, i]]
