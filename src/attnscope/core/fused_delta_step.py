"""The gated delta rule token by token in compiled loops, for the few tokens of a decoding step.

The idea: a step costs what reading and writing the state costs. The old state is read once for both
questions, what the key finds and what the query finds; what the query would find after the write
follows from q . k, so the state is not read again, only brought from old to new.

Formula (a = e^g)
    u = beta (v - a k S)        o = c (a q S + (q . k) u)        S <- a S + k u^T

Shapes: state [B, H, D, E], flat; E a multiple of LANES.

Dtypes: float32.

Not here: many tokens (fused_delta_chunk.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.core.dots import AT_ONCE, add_lines, dot
from attnscope.core.fused_delta_chunk import EPSILON, LOWEST, NONE, ONE, Array
from attnscope.core.fused_delta_tiles import blend
from attnscope.core.jit import compiled, inner
from attnscope.core.microkernel import take_number
from attnscope.core.vectors import add_scaled, copy_scaled


class Lines(NamedTuple):
    """One thread's own memory: a key and a query [Dp], what they find and what is written [E]."""

    key: Array
    query: Array
    known: Array
    asked: Array
    write: Array


@inner
def _line(x, at, step, width, padded, unit, into):  # type: ignore[no-untyped-def]
    """Copy one row of q or k, brought to length one if `unit`."""
    for d in range(width):
        into[d] = x[at + d * step]
    for d in range(width, padded):
        into[d] = NONE
    if unit:
        factor = ONE / np.sqrt(dot(into, 0, into, 0, padded) + EPSILON)
        copy_scaled(into, 0, into, 0, padded, factor)


@inner
def _find(state, base, width, columns, lines):  # type: ignore[no-untyped-def]
    """known = k S and asked = q S, a few lines of the state at a time."""
    lines.known[:columns] = NONE
    lines.asked[:columns] = NONE
    whole = width // AT_ONCE * AT_ONCE
    for d in range(0, whole, AT_ONCE):
        at = base + d * columns
        add_lines(lines.known, 0, lines.key, d, state, at, columns, columns)
        add_lines(lines.asked, 0, lines.query, d, state, at, columns, columns)
    for d in range(whole, width):
        at = base + d * columns
        add_scaled(lines.known, 0, state, at, columns, lines.key[d])
        add_scaled(lines.asked, 0, state, at, columns, lines.query[d])


@inner
def _step(b, h, t, given, sizes, old, fresh, lines, out, state):  # type: ignore[no-untyped-def]
    """One token of one head: from the state in `old` (none if `fresh`) to the one in `state`."""
    columns, group = sizes.value_width, h // (sizes.heads // sizes.groups)
    base = (b * sizes.heads + h) * sizes.width * columns
    at = given.k_at
    _line(
        given.k, at[0] + b * at[1] + group * at[2] + t * at[3], at[4], sizes.width, sizes.padded,
        sizes.unit, lines.key,
    )  # fmt: skip
    at = given.q_at
    _line(
        given.q, at[0] + b * at[1] + group * at[2] + t * at[3], at[4], sizes.width, sizes.padded,
        sizes.unit, lines.query,
    )  # fmt: skip
    at = given.g_at
    log = np.float64(given.g[at[0] + b * at[1] + h * at[2] + t * at[3]])
    decay = np.float32(np.exp(LOWEST if log < LOWEST else log))
    at = given.beta_at
    beta = given.beta[at[0] + b * at[1] + h * at[2] + t * at[3]]
    if fresh:
        lines.known[:columns] = NONE
        lines.asked[:columns] = NONE
    else:
        _find(old, base, sizes.width, columns, lines)
    at = given.v_at
    source = at[0] + b * at[1] + h * at[2] + t * at[3]
    meet = dot(lines.key, 0, lines.query, 0, sizes.padded)
    place = ((b * sizes.tokens + t) * sizes.heads + h) * columns
    for e in range(columns):
        write = beta * (given.v[source + e * at[4]] - decay * lines.known[e])
        lines.write[e] = write
        out[place + e] = sizes.scale * (decay * lines.asked[e] + meet * write)
    for d in range(sizes.width):
        line = base + d * columns
        if fresh:
            copy_scaled(state, line, lines.write, 0, columns, lines.key[d])
        else:
            blend(state, line, old, line, decay, lines.write, 0, lines.key[d], columns)


@compiled
def step_worker(given, sizes, lines, out, state, counters):  # type: ignore[no-untyped-def]
    """Take heads until none is left; counters int64, zeroed; E is a multiple of LANES."""
    number = take_number(counters, 0)
    while number < sizes.tasks:
        b, h = number // sizes.heads, number % sizes.heads
        for t in range(sizes.tokens):
            first = t == 0
            old = given.state if first else state
            _step(b, h, t, given, sizes, old, first and not sizes.given, lines, out, state)
        number = take_number(counters, 0)
