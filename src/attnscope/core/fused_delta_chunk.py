"""The gated delta rule in compiled loops: chunk by chunk, each in the first two caches.

The idea: within a chunk of a few tokens every step is a small matrix product, and a register tile
of microkernel.py is made for those. A thread carries one head (or some of its value columns, which
never meet) through all chunks with the state and everything that a chunk needs in its own cache, so
that the only memory read and written is q, k, v and the output, once.

Formula (one chunk, L_i the sum of its log decays up to token i, S the state before it)
    A_ij = -beta_i e^(L_i - L_j) k_i . k_j   (j < i)     P_ij = c e^(L_i - L_j) q_i . k_j   (j <= i)
    U = beta V - beta e^L (K S) + A U      solved row by row: A is strictly lower triangular
    O = c e^L (Q S) + P U                  S <- e^(L_last) S + K^T (e^(L_last - L) U)
    where k and q are brought to length one, the factors go with A, P and the rows of K and Q.

Shapes (C tokens of a chunk padded to ROWS, Cp to COLUMNS; Dp: D padded to LANES, Dr: then to ROWS)
    keys, queries  [Cp, Dp]                   turned, K^T  [Cp / COLUMNS, Dr, COLUMNS]
    fixes (A), reads (P)  [C, Cp]             writes (U), out (O)  [Ep / COLUMNS, C, COLUMNS]
    state (S)  [Ep / COLUMNS, Dr, COLUMNS]

Dtypes: float32; sums of log decays in float64.

Not here: memory, threads and tasks (fused_delta.py), a few tokens (fused_delta_step.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscope.core.dots import dot, fetch
from attnscope.core.fused_delta_tiles import (
    NARROW,
    copy_panels,
    decayed_tile,
    fade_lines,
    fetch_far,
    narrow_tile,
    solved_tile,
    transpose_block,
)
from attnscope.core.jit import compiled, inner
from attnscope.core.microkernel import COLUMNS, LANES, ROWS, scores_tile, take_number
from attnscope.core.vectors import copy_scaled, row_exp

Array = NDArray[np.generic]

CHUNK: Final = 2 * ROWS if ROWS >= 12 else 4 * ROWS
"""Tokens per chunk, a multiple of ROWS: fewer read the state more often, more make more pairs."""

LOWEST: Final = -1e3
"""No log decay counts as lower: its exponential is 0 anyway, and -inf - -inf would be NaN."""

EPSILON: Final = np.float32(1e-6)
"""Added to a squared length before its root is taken."""

ONE: Final = np.float32(1.0)
NONE: Final = np.float32(0.0)


class Given(NamedTuple):
    """Flat arrays and where to find things in them: `*_at` is an offset, then a step per axis."""

    q: Array
    q_at: Array
    k: Array
    k_at: Array
    v: Array
    v_at: Array
    g: Array
    g_at: Array
    beta: Array
    beta_at: Array
    state: Array


class Sizes(NamedTuple):
    """Sizes and wishes."""

    heads: int
    groups: int
    tokens: int
    width: int
    value_width: int
    padded: int
    high: int
    panels: int
    parts: int
    tasks: int
    chunk: int
    given: bool
    unit: bool
    scale: np.float32


class Room(NamedTuple):
    """One thread's own memory: tables as in the module's Shapes, then one number per token."""

    keys: Array
    queries: Array
    turned: Array
    fixes: Array
    reads: Array
    writes: Array
    out: Array
    state: Array
    logs: Array
    log_high: Array
    log_low: Array
    decays: Array
    left: Array
    beta: Array
    key_length: Array
    query_length: Array


class Part(NamedTuple):
    """Where a task is: batch, head, key head, value panels [low, stop), tokens [start, + have)."""

    b: int
    h: int
    group: int
    low: int
    stop: int
    start: int
    have: int
    rows: int
    stride: int


@inner
def _load_rows(x, at, part, width, padded, into):  # type: ignore[no-untyped-def]
    """Copy the tokens' rows of q or k; numbers and rows beyond are zero."""
    first = at[0] + part.b * at[1] + part.group * at[2] + part.start * at[3]
    main = width // LANES * LANES if at[4] == 1 else 0
    for row in range(part.have):
        copy_scaled(into, row * padded, x, first + row * at[3], main, ONE)
        for j in range(main, width):
            into[row * padded + j] = x[first + row * at[3] + j * at[4]]
        for j in range(width, padded):
            into[row * padded + j] = NONE
    if part.have < part.rows:
        into[part.have * padded : part.rows * padded] = NONE


@inner
def _load_values(given, sizes, part, room):  # type: ignore[no-untyped-def]
    """Lay beta V out in panels; what is beyond is zero."""
    at = given.v_at
    first = at[0] + part.b * at[1] + part.h * at[2] + part.start * at[3]
    step = part.rows * COLUMNS
    whole = min(part.stop, sizes.value_width // COLUMNS) if at[4] == 1 else part.low
    for row in range(part.rows):
        if row < part.have:
            source, beta = first + row * at[3], room.beta[row]
            copy_panels(
                room.writes, part.low * step + row * COLUMNS, step,
                given.v, source + part.low * COLUMNS, COLUMNS, whole - part.low, beta,
            )  # fmt: skip
            for panel in range(whole, part.stop):
                place = panel * step + row * COLUMNS - panel * COLUMNS
                for e in range(panel * COLUMNS, (panel + 1) * COLUMNS):
                    here = e < sizes.value_width
                    room.writes[place + e] = beta * given.v[source + e * at[4]] if here else NONE
        else:
            for panel in range(part.low, part.stop):
                for place in range(
                    panel * step + row * COLUMNS, panel * step + (row + 1) * COLUMNS
                ):
                    room.writes[place] = NONE


@inner
def _load_decays(given, sizes, part, room):  # type: ignore[no-untyped-def]
    """The sums of log decays and what follows from them alone; tokens beyond change nothing."""
    at, total = given.g_at, 0.0
    first = at[0] + part.b * at[1] + part.h * at[2] + part.start * at[3]
    beta_at = given.beta_at
    beta_first = beta_at[0] + part.b * beta_at[1] + part.h * beta_at[2] + part.start * beta_at[3]
    for row in range(part.stride):
        room.beta[row] = NONE
        if row < part.have:
            step = np.float64(given.g[first + row * at[3]])
            total += LOWEST if step < LOWEST else step
            room.beta[row] = given.beta[beta_first + row * beta_at[3]]
        room.logs[row] = total
    for row in range(part.stride):
        high = np.float32(room.logs[row])
        room.log_high[row] = high
        room.log_low[row] = np.float32(room.logs[row] - np.float64(high))
        room.decays[row] = high
        room.left[row] = np.float32(total - room.logs[row])
    row_exp(room.decays, 0, part.stride, NONE)
    row_exp(room.left, 0, part.stride, NONE)


@inner
def _turn(room, sizes, part):  # type: ignore[no-untyped-def]
    """K^T in panels of COLUMNS tokens; the rows of `keys` are zero up to `stride`."""
    padded = sizes.padded
    for row in range(0, part.stride, LANES):
        into = row // COLUMNS * sizes.high * COLUMNS + row % COLUMNS
        for d in range(0, padded, LANES):
            transpose_block(
                room.keys, row * padded + d, padded, room.turned, into + d * COLUMNS, COLUMNS
            )


@inner
def _pair_tile(rows, first, padded, room, turned, table, place, stride, narrow):  # type: ignore[no-untyped-def]
    """Products of ROWS keys or queries with a panel of keys, or with its left half."""
    at = first * padded
    if narrow:
        narrow_tile(rows, at, padded, room.turned, turned, padded, table, place, stride)
    else:
        scores_tile(rows, at, padded, room.turned, turned, padded, table, place, stride)


@inner
def _pairs(room, sizes, part):  # type: ignore[no-untyped-def]
    """A and P, and the factors that bring keys and queries to length one."""
    padded, stride = sizes.padded, part.stride
    for first in range(0, part.rows, ROWS):
        panels = (first + ROWS + COLUMNS - 1) // COLUMNS
        for panel in range(panels):
            place, turned = first * stride + panel * COLUMNS, panel * sizes.high * COLUMNS
            narrow = first + ROWS - panel * COLUMNS <= NARROW
            _pair_tile(room.keys, first, padded, room, turned, room.fixes, place, stride, narrow)
            _pair_tile(room.queries, first, padded, room, turned, room.reads, place, stride, narrow)
        for row in range(first, first + ROWS):
            room.key_length[row] = room.query_length[row] = ONE
            if sizes.unit:
                square = room.fixes[row * stride + row]
                room.key_length[row] = ONE / np.sqrt(square + EPSILON)
                square = dot(room.queries, row * padded, room.queries, row * padded, padded)
                room.query_length[row] = ONE / np.sqrt(square + EPSILON)
        for row in range(first, first + ROWS):
            factors = (
                -room.beta[row] * room.key_length[row], sizes.scale * room.query_length[row]
            )  # fmt: skip
            fade_lines(
                room.fixes, room.reads, row * stride, factors, room.log_high, room.log_low,
                room.key_length, row, panels * COLUMNS,
            )  # fmt: skip


@inner
def _scale_rows(room, sizes, part):  # type: ignore[no-untyped-def]
    """Keys become -beta e^L k, queries c e^L q: what they read the old state with."""
    for row in range(part.rows):
        at, decay = row * sizes.padded, room.decays[row]
        weight = -room.beta[row] * decay * room.key_length[row]
        copy_scaled(room.keys, at, room.keys, at, sizes.padded, weight)
        weight = sizes.scale * decay * room.query_length[row]
        copy_scaled(room.queries, at, room.queries, at, sizes.padded, weight)
        room.left[row] *= room.key_length[row]


@inner
def _column(room, sizes, part, panel):  # type: ignore[no-untyped-def]
    """COLUMNS value columns of a chunk: solve U, read O, move S on."""
    padded, stride, rows = sizes.padded, part.stride, part.rows
    state, writes = panel * sizes.high * COLUMNS, panel * rows * COLUMNS
    for first in range(0, rows, ROWS):
        decayed_tile(
            room.keys, first * padded, padded, room.state, state, padded,
            room.writes, writes + first * COLUMNS, ONE,
        )  # fmt: skip
        # The tables left the first cache since the last panel; they are wanted after this tile.
        fetch(room.fixes, first * stride, ROWS * stride)
        fetch(room.reads, first * stride, ROWS * stride)
        scores_tile(
            room.queries, first * padded, padded, room.state, state, padded,
            room.out, writes + first * COLUMNS, COLUMNS,
        )  # fmt: skip
    for first in range(0, rows, ROWS):
        solved_tile(room.fixes, first * stride, stride, room.writes, writes, first)
        decayed_tile(
            room.reads, first * stride, stride, room.writes, writes, first + ROWS,
            room.out, writes + first * COLUMNS, ONE,
        )  # fmt: skip
    for row in range(rows):
        at = writes + row * COLUMNS
        copy_scaled(room.writes, at, room.writes, at, COLUMNS, room.left[row])
    kept = room.decays[rows - 1]
    for block in range(0, rows, COLUMNS):
        turned, many = block // COLUMNS * sizes.high * COLUMNS, min(COLUMNS, rows - block)
        for d in range(0, sizes.high, ROWS):
            decayed_tile(
                room.turned, turned + d * COLUMNS, COLUMNS, room.writes, writes + block * COLUMNS,
                many, room.state, state + d * COLUMNS, kept if block == 0 else ONE,
            )  # fmt: skip


@inner
def _store_rows(room, sizes, part, out):  # type: ignore[no-untyped-def]
    """Copy O to out [B, T, H, E]."""
    step = part.rows * COLUMNS
    whole = min(part.stop, sizes.value_width // COLUMNS)
    for row in range(part.have):
        token = part.b * sizes.tokens + part.start + row
        place = (token * sizes.heads + part.h) * sizes.value_width
        copy_panels(
            out, place + part.low * COLUMNS, COLUMNS,
            room.out, part.low * step + row * COLUMNS, step, whole - part.low, ONE,
        )  # fmt: skip
        for panel in range(whole, part.stop):
            source = panel * step + row * COLUMNS - panel * COLUMNS
            for e in range(panel * COLUMNS, sizes.value_width):
                out[place + e] = room.out[source + e]


@inner
def _fetch_rows(x, at, b, h, first, last, width):  # type: ignore[no-untyped-def]
    """Ask for the rows of tokens [first, last) of one head."""
    for token in range(first, last):
        fetch_far(x, at[0] + b * at[1] + h * at[2] + token * at[3], width)


@inner
def _fetch_next(given, sizes, part, panel, out):  # type: ignore[no-untyped-def]
    """Ask for a share of what the next chunk reads and this one writes, while it is computed."""
    panels, number = part.stop - part.low, panel - part.low
    low, high = number * part.have // panels, (number + 1) * part.have // panels
    for row in range(part.start + low, part.start + high):
        place = (part.b * sizes.tokens + row) * sizes.heads + part.h
        fetch_far(out, place * sizes.value_width, sizes.value_width)
    start = part.start + part.have
    following = min(sizes.chunk, sizes.tokens - start)
    low, high = start + number * following // panels, start + (number + 1) * following // panels
    _fetch_rows(given.k, given.k_at, part.b, part.group, low, high, sizes.width)
    _fetch_rows(given.q, given.q_at, part.b, part.group, low, high, sizes.width)
    _fetch_rows(given.v, given.v_at, part.b, part.h, low, high, sizes.value_width)


@inner
def _chunk(given, sizes, part, room, out):  # type: ignore[no-untyped-def]
    """One chunk of one head, from its rows in memory to its output and the next state."""
    _load_rows(given.k, given.k_at, part, sizes.width, sizes.padded, room.keys)
    _load_rows(given.q, given.q_at, part, sizes.width, sizes.padded, room.queries)
    _load_decays(given, sizes, part, room)
    _load_values(given, sizes, part, room)
    _turn(room, sizes, part)
    _pairs(room, sizes, part)
    _scale_rows(room, sizes, part)
    for panel in range(part.low, part.stop):
        _fetch_next(given, sizes, part, panel, out)
        _column(room, sizes, part, panel)
    _store_rows(room, sizes, part, out)


@inner
def _load_state(b, h, low, stop, given, sizes, room):  # type: ignore[no-untyped-def]
    """Bring the head's state, or zeros, into panels."""
    base = (b * sizes.heads + h) * sizes.width * sizes.value_width
    room.state[low * sizes.high * COLUMNS : stop * sizes.high * COLUMNS] = NONE
    for panel in range(low, stop if sizes.given else low):
        first = panel * COLUMNS
        for d in range(sizes.width):
            place, there = (panel * sizes.high + d) * COLUMNS, base + d * sizes.value_width + first
            for j in range(min(COLUMNS, sizes.value_width - first)):
                room.state[place + j] = given.state[there + j]


@inner
def _store_state(b, h, low, stop, sizes, room, state):  # type: ignore[no-untyped-def]
    """Bring the head's state from panels to state [B, H, D, E]; whether all of it is finite."""
    base, sound = (b * sizes.heads + h) * sizes.width * sizes.value_width, NONE
    for panel in range(low, stop):
        first = panel * COLUMNS
        for d in range(sizes.width):
            place, there = (panel * sizes.high + d) * COLUMNS, base + d * sizes.value_width + first
            for j in range(min(COLUMNS, sizes.value_width - first)):
                state[there + j] = room.state[place + j]
                sound += room.state[place + j] * NONE  # NaN from then on, if that is not finite
    return sound == NONE


@compiled
def chunk_worker(given, sizes, room, out, state, counters):  # type: ignore[no-untyped-def]
    """Take heads (or parts of their value columns) until none is left.

    counters, int64 [2], zeroed: the next task; afterwards above 0 if a state is not finite.
    """
    room.turned[:] = NONE  # its lines beyond Dp are read and never written
    room.keys[:] = NONE  # and so are the rows beyond a chunk
    number = take_number(counters, 0)
    while number < sizes.tasks:
        piece, head = number % sizes.parts, number // sizes.parts
        b, h = head // sizes.heads, head % sizes.heads
        low, stop = piece * sizes.panels // sizes.parts, (piece + 1) * sizes.panels // sizes.parts
        _load_state(b, h, low, stop, given, sizes, room)
        for start in range(0, sizes.tokens, sizes.chunk):
            have = min(sizes.chunk, sizes.tokens - start)
            rows = (have + ROWS - 1) // ROWS * ROWS
            stride = (rows + COLUMNS - 1) // COLUMNS * COLUMNS
            group = h // (sizes.heads // sizes.groups)
            part = Part(b, h, group, low, stop, start, have, rows, stride)
            _chunk(given, sizes, part, room, out)
        if not _store_state(b, h, low, stop, sizes, room, state):
            counters[1] = 1
        number = take_number(counters, 0)
