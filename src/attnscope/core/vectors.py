"""The elementwise loops of the fused path, written as vectors.

The idea: whether a compiler turns a loop over a slice into vector instructions depends on what it
is inlined into (the same loop was found to run 2.5 times slower inside the worker than alone), so
these loops say what they want. Each takes a flat array and where to begin.

Formula
    e^x = 2^n e^r,  n = round(x / ln 2),  r = x - n ln 2,  e^r = 1 + r + r^2 q(r)
    tanh x = m / (m + 2),  m = e^2x - 1

Dtypes: float32.

Not here: products of matrices (microkernel.py), of a few rows (dots.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from attnscope.core.microkernel import (
    _I64,
    _VECTOR,
    _VECTORS,
    COLUMNS,
    LANES,
    _data,
    _fma,
    _load_vector,
    _splat,
    _store_vector,
)

_I32 = ir.IntType(32)
_INTEGERS = ir.VectorType(_I32, LANES)


def _fit() -> list[float]:
    """Coefficients of q, e^r = 1 + r + r^2 q(r) for |r| <= ln(2)/2, fitted at Chebyshev nodes."""
    half = math.log(2.0) / 2 * 1.001
    nodes = half * np.cos(np.pi * (np.arange(32) + 0.5) / 32)
    target = (np.expm1(nodes) - nodes) / nodes**2
    return [float(c) for c in np.polynomial.polynomial.polyfit(nodes, target, 4)]


_Q = _fit()
_SHIFT = 1.5 * 2**23  # adding it rounds to the nearest integer and leaves that in the low bits
_LN2_HIGH = 0.693359375  # few bits, so that n * _LN2_HIGH is exact
_LN2_LOW = math.log(2.0) - _LN2_HIGH
_LEAST = -87.0  # e^x below this counts as 0; the smallest normal float32 is e^-87.3


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [float(np.float32(value))] * LANES)


def _reduced(builder: Any, x: Any) -> tuple[Any, Any]:
    """(e^r - 1, 2^n) of e^x = 2^n e^r. NaN passes through, as no conversion is undefined for it."""
    shifted = _fma(builder, x, _constant(1.0 / math.log(2.0)), _constant(_SHIFT))
    n = builder.fsub(shifted, _constant(_SHIFT))
    r = _fma(builder, n, _constant(-_LN2_HIGH), x)
    r = _fma(builder, n, _constant(-_LN2_LOW), r)
    q = _constant(_Q[4])
    for coefficient in (_Q[3], _Q[2], _Q[1], _Q[0]):
        q = _fma(builder, q, r, _constant(coefficient))
    less_one = _fma(builder, builder.fmul(r, r), q, r)
    bits = builder.bitcast(shifted, _INTEGERS)
    exponent = builder.add(bits, ir.Constant(_INTEGERS, [127] * LANES))
    power = builder.shl(exponent, ir.Constant(_INTEGERS, [23] * LANES))
    return less_one, builder.bitcast(power, _VECTOR)


def _exp(builder: Any, x: Any) -> Any:
    """e^x for x <= 60 within 1 ulp; exactly 0 below -87."""
    less_one, power = _reduced(builder, x)
    value = builder.fmul(builder.fadd(less_one, _constant(1.0)), power)
    return builder.select(builder.fcmp_ordered("<", x, _constant(_LEAST)), _constant(0.0), value)


def _tanh(builder: Any, x: Any) -> Any:
    """tanh within a few ulp, small arguments included."""
    doubled = builder.fadd(x, x)
    for limit, sign in ((40.0, ">"), (-40.0, "<")):
        beyond = builder.fcmp_ordered(sign, doubled, _constant(limit))
        doubled = builder.select(beyond, _constant(limit), doubled)
    less_one, power = _reduced(builder, doubled)
    m = _fma(builder, power, less_one, builder.fsub(power, _constant(1.0)))
    return builder.fdiv(m, builder.fadd(m, _constant(2.0)))


def _sum(builder: Any, vector: Any) -> Any:
    """The sum of a vector's lanes, by halves."""
    lanes = [builder.extract_element(vector, _I32(i)) for i in range(LANES)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [builder.fadd(lanes[i], lanes[i + half]) for i in range(half)]
    return lanes[0]


def _loop(
    builder: Any,
    count: Any,
    step: int,
    start: list[Any],
    body: Callable[[Any, list[Any]], list[Any]],
) -> list[Any]:
    """Run `body(index, carried) -> carried` for 0, step, ... below count; the last carried."""
    before = builder.block
    head, done = builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed(">", count, _I64(0)), head, done)
    builder.position_at_end(head)
    index = builder.phi(_I64)
    index.add_incoming(_I64(0), before)
    carried = [builder.phi(value.type) for value in start]
    for phi, value in zip(carried, start, strict=True):
        phi.add_incoming(value, before)
    following = body(index, list(carried))
    after = builder.add(index, _I64(step))
    index.add_incoming(after, builder.block)
    for phi, value in zip(carried, following, strict=True):
        phi.add_incoming(value, builder.block)
    last = builder.block
    builder.cbranch(builder.icmp_signed("<", after, count), head, done)
    builder.position_at_end(done)
    result = []
    for first, value in zip(start, following, strict=True):
        phi = builder.phi(value.type)
        phi.add_incoming(first, before)
        phi.add_incoming(value, last)
        result.append(phi)
    return result


@intrinsic
def row_max(typingctx, scores, offset, count):  # type: ignore[no-untyped-def]
    """The largest of `count` numbers (a multiple of COLUMNS); NaN is passed over, see `row_exp`."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0], args[1])

        def larger(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        def body(index: Any, best: list[Any]) -> list[Any]:
            places = [
                builder.gep(data, [builder.add(index, _I64(v * LANES))]) for v in range(_VECTORS)
            ]
            return [
                larger(_load_vector(builder, at), old) for at, old in zip(places, best, strict=True)
            ]

        best = _loop(builder, args[2], COLUMNS, [_constant(-math.inf)] * _VECTORS, body)
        vector = best[0]
        for other in best[1:]:
            vector = larger(other, vector)
        lanes = [builder.extract_element(vector, _I32(i)) for i in range(LANES)]
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [larger(lanes[i], lanes[i + half]) for i in range(half)]
        return lanes[0]

    return types.float32(scores, types.int64, types.int64), codegen


@intrinsic
def row_exp(typingctx, scores, offset, count, reference):  # type: ignore[no-untyped-def]
    """e^(s - reference) in place for `count` scores (a multiple of COLUMNS); returns their sum."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0], args[1])
        reference = _splat(builder, args[3])

        def body(index: Any, totals: list[Any]) -> list[Any]:
            following = []
            for v, total in enumerate(totals):
                at = builder.gep(data, [builder.add(index, _I64(v * LANES))])
                e = _exp(builder, builder.fsub(_load_vector(builder, at), reference))
                _store_vector(builder, e, at)
                following.append(builder.fadd(total, e))
            return following

        totals = _loop(builder, args[2], COLUMNS, [_constant(0.0)] * _VECTORS, body)
        vector = totals[0]
        for other in totals[1:]:
            vector = builder.fadd(vector, other)
        return _sum(builder, vector)

    return types.float32(scores, types.int64, types.int64, types.float32), codegen


@intrinsic
def row_exp_moments(typingctx, scores, offset, count, reference):  # type: ignore[no-untyped-def]
    """The same; returns the sums of e, x e, e^2, e^3 and j e, with x = s - reference, j from 0."""
    five = types.UniTuple(types.float32, 5)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0], args[1])
        reference = _splat(builder, args[3])
        ramp = ir.Constant(_VECTOR, [float(i) for i in range(LANES)])

        def body(index: Any, carried: list[Any]) -> list[Any]:
            total, times_x, squares, cubes, places, j = carried
            for v in range(_VECTORS):
                at = builder.gep(data, [builder.add(index, _I64(v * LANES))])
                x = builder.fsub(_load_vector(builder, at), reference)
                e = _exp(builder, x)
                _store_vector(builder, e, at)
                square = builder.fmul(e, e)
                total = builder.fadd(total, e)
                times_x = _fma(builder, e, x, times_x)
                squares = builder.fadd(squares, square)
                cubes = _fma(builder, square, e, cubes)
                places = _fma(builder, e, j, places)
                j = builder.fadd(j, _constant(float(LANES)))
            return [total, times_x, squares, cubes, places, j]

        start = [_constant(0.0)] * 5 + [ramp]
        sums = _loop(builder, args[2], COLUMNS, start, body)[:5]
        return context.make_tuple(builder, five, [_sum(builder, s) for s in sums])

    return five(scores, types.int64, types.int64, types.float32), codegen


@intrinsic
def row_softcap(typingctx, scores, offset, count, softcap):  # type: ignore[no-untyped-def]
    """c tanh(s / c) in place for `count` scores (a multiple of LANES)."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0], args[1])
        cap = _splat(builder, args[3])

        def body(index: Any, carried: list[Any]) -> list[Any]:
            at = builder.gep(data, [index])
            bent = _tanh(builder, builder.fdiv(_load_vector(builder, at), cap))
            _store_vector(builder, builder.fmul(bent, cap), at)
            return carried

        _loop(builder, args[2], LANES, [], body)
        return context.get_dummy_value()

    return types.void(scores, types.int64, types.int64, types.float32), codegen


@intrinsic
def copy_scaled(typingctx, into, into_at, line, line_at, count, factor):  # type: ignore[no-untyped-def]
    """into[j] = factor * line[j] for `count` numbers (a multiple of LANES)."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        target = _data(context, builder, sig.args[0], args[0], args[1])
        data = _data(context, builder, sig.args[2], args[2], args[3])
        factor = _splat(builder, args[5])

        def body(index: Any, carried: list[Any]) -> list[Any]:
            value = builder.fmul(_load_vector(builder, builder.gep(data, [index])), factor)
            _store_vector(builder, value, builder.gep(target, [index]))
            return carried

        _loop(builder, args[4], LANES, [], body)
        return context.get_dummy_value()

    arguments = (into, types.int64, line, types.int64, types.int64, types.float32)
    return types.void(*arguments), codegen


@intrinsic
def add_scaled(typingctx, total, total_at, line, line_at, count, factor):  # type: ignore[no-untyped-def]
    """total[j] += factor * line[j] for `count` numbers (a multiple of LANES)."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        into = _data(context, builder, sig.args[0], args[0], args[1])
        data = _data(context, builder, sig.args[2], args[2], args[3])
        factor = _splat(builder, args[5])

        def body(index: Any, carried: list[Any]) -> list[Any]:
            at = builder.gep(into, [index])
            line = _load_vector(builder, builder.gep(data, [index]))
            _store_vector(builder, _fma(builder, line, factor, _load_vector(builder, at)), at)
            return carried

        _loop(builder, args[4], LANES, [], body)
        return context.get_dummy_value()

    arguments = (total, types.int64, line, types.int64, types.int64, types.float32)
    return types.void(*arguments), codegen


@intrinsic
def pool_scaled(typingctx, total, largest, where, line_at, line, at, count, factor, place):  # type: ignore[no-untyped-def]
    """With w[j] = factor * line[at + j]: total += w, and where w > largest, keep w and `place`.

    total, largest (float32) and where (int32) are indexed from `line_at`; count is a multiple of
    LANES.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        sums = _data(context, builder, sig.args[0], args[0], args[3])
        most = _data(context, builder, sig.args[1], args[1], args[3])
        places = _data(context, builder, sig.args[2], args[2], args[3])
        data = _data(context, builder, sig.args[4], args[4], args[5])
        factor = _splat(builder, args[7])
        zeros = ir.Constant(_INTEGERS, [0] * LANES)
        one = builder.insert_element(ir.Constant(_INTEGERS, ir.Undefined), args[8], _I32(0))
        place = builder.shuffle_vector(one, ir.Constant(_INTEGERS, ir.Undefined), zeros)

        def body(index: Any, carried: list[Any]) -> list[Any]:
            weight = builder.fmul(_load_vector(builder, builder.gep(data, [index])), factor)
            at = builder.gep(sums, [index])
            _store_vector(builder, builder.fadd(_load_vector(builder, at), weight), at)
            at = builder.gep(most, [index])
            old = _load_vector(builder, at)
            more = builder.fcmp_ordered(">", weight, old)
            _store_vector(builder, builder.select(more, weight, old), at)
            at = builder.bitcast(builder.gep(places, [index]), _INTEGERS.as_pointer())
            had = builder.load(at)
            had.align = 4
            builder.store(builder.select(more, place, had), at).align = 4
            return carried

        _loop(builder, args[6], LANES, [], body)
        return context.get_dummy_value()

    arguments = (
        total, largest, where, types.int64, line, types.int64, types.int64, types.float32,
        types.int32,
    )  # fmt: skip
    return types.void(*arguments), codegen
