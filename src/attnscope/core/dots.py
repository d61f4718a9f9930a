"""A few rows against many keys, where they lie: dot products and sums of lines, for decode.

The idea: with so few rows a register tile would stand empty, so a row meets `AT_ONCE` keys at a
time; their four sums of lanes are made together, which takes a third of the work of one by one. The
memory that comes next is asked for meanwhile.

Dtypes: float32.

Not here: packed products (microkernel.py), elementwise loops (vectors.py).
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from attnscope.core.microkernel import (
    _I64,
    LANES,
    _data,
    _fma,
    _load_vector,
    _splat,
    _store_vector,
)
from attnscope.core.vectors import _I32, _constant, _loop, _sum

CACHE_LINE: Final = 16
"""Floats in a line of the processor's cache."""


@intrinsic
def fetch(typingctx, array, at, count):  # type: ignore[no-untyped-def]
    """Ask for the cache lines of array[at : at + count], which will be read soon.

    The processor reads ahead by itself, but not beyond a page of memory, and a page is soon read.
    It is a hint: it may name memory that is not there.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0], args[1])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        start = builder.block
        head, done = builder.append_basic_block("fetch"), builder.append_basic_block("fetched")
        builder.cbranch(builder.icmp_signed(">", args[2], _I64(0)), head, done)
        builder.position_at_end(head)
        index = builder.phi(_I64)
        index.add_incoming(_I64(0), start)
        line = builder.bitcast(builder.gep(data, [index]), byte)
        builder.call(hint, [line, number(0), number(3), number(1)])  # to read, keep close, data
        after = builder.add(index, _I64(CACHE_LINE))
        index.add_incoming(after, head)
        builder.cbranch(builder.icmp_signed("<", after, args[2]), head, done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), codegen


def _halves(builder: Any, a: Any, b: Any, low: list[int], high: list[int]) -> Any:
    """The sum of two choices of lanes from a and b."""
    pick = ir.VectorType(_I32, len(low))
    one, two = (builder.shuffle_vector(a, b, ir.Constant(pick, lanes)) for lanes in (low, high))
    return builder.fadd(one, two)


def _sums(builder: Any, vectors: list[Any]) -> Any:
    """The sums of the lanes of four vectors, as one vector of four.

    Lanes are folded until four are left; the fours are then added while they are transposed.
    """
    lanes = LANES
    while lanes > 4:
        lanes //= 2
        low, high = list(range(lanes)), list(range(lanes, 2 * lanes))
        vectors = [_halves(builder, v, v, low, high) for v in vectors]
    a, b, c, d = vectors
    ab = _halves(builder, a, b, [0, 4, 1, 5], [2, 6, 3, 7])  # a0+a2, b0+b2, a1+a3, b1+b3
    cd = _halves(builder, c, d, [0, 4, 1, 5], [2, 6, 3, 7])
    return _halves(builder, ab, cd, [0, 1, 4, 5], [2, 3, 6, 7])


@intrinsic
def dot(typingctx, a, a_at, b, b_at, count):  # type: ignore[no-untyped-def]
    """The sum of a[j] * b[j] over `count` numbers (a multiple of LANES)."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        left = _data(context, builder, sig.args[0], args[0], args[1])
        right = _data(context, builder, sig.args[2], args[2], args[3])

        def body(index: Any, total: list[Any]) -> list[Any]:
            x = _load_vector(builder, builder.gep(left, [index]))
            y = _load_vector(builder, builder.gep(right, [index]))
            return [_fma(builder, x, y, total[0])]

        return _sum(builder, _loop(builder, args[4], LANES, [_constant(0.0)], body)[0])

    return types.float32(a, types.int64, b, types.int64, types.int64), codegen


AT_ONCE: Final = 4
"""Keys that `dots` and `add_lines` take together."""


@intrinsic
def dots(typingctx, a, a_at, b, b_at, b_step, count, out, out_at):  # type: ignore[no-untyped-def]
    """out[n] = sum of a[j] * b[n * b_step + j] for n < AT_ONCE; `count` is a multiple of LANES."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        left = _data(context, builder, sig.args[0], args[0], args[1])
        right = _data(context, builder, sig.args[2], args[2], args[3])
        into = _data(context, builder, sig.args[6], args[6], args[7])
        lines = [builder.gep(right, [builder.mul(args[4], _I64(n))]) for n in range(AT_ONCE)]

        def body(index: Any, totals: list[Any]) -> list[Any]:
            x = _load_vector(builder, builder.gep(left, [index]))
            pairs = zip(lines, totals, strict=True)
            return [
                _fma(builder, x, _load_vector(builder, builder.gep(line, [index])), total)
                for line, total in pairs
            ]

        totals = _loop(builder, args[5], LANES, [_constant(0.0)] * AT_ONCE, body)
        four = _sums(builder, totals)
        builder.store(four, builder.bitcast(into, four.type.as_pointer())).align = 4
        return context.get_dummy_value()

    arguments = (
        a, types.int64, b, types.int64, types.int64, types.int64, out, types.int64,
    )  # fmt: skip
    return types.void(*arguments), codegen


@intrinsic
def add_lines(typingctx, total, total_at, weights, weights_at, lines, lines_at, step, count):  # type: ignore[no-untyped-def]
    """total[j] += sum over n < AT_ONCE of weights[n] * lines[n * step + j], count of LANES."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        into = _data(context, builder, sig.args[0], args[0], args[1])
        given = _data(context, builder, sig.args[2], args[2], args[3])
        data = _data(context, builder, sig.args[4], args[4], args[5])
        rows = [builder.gep(data, [builder.mul(args[6], _I64(n))]) for n in range(AT_ONCE)]
        factors = [
            _splat(builder, builder.load(builder.gep(given, [_I64(n)]))) for n in range(AT_ONCE)
        ]

        def body(index: Any, carried: list[Any]) -> list[Any]:
            at = builder.gep(into, [index])
            value = _load_vector(builder, at)
            for row, factor in zip(rows, factors, strict=True):
                line = _load_vector(builder, builder.gep(row, [index]))
                value = _fma(builder, line, factor, value)
            _store_vector(builder, value, at)
            return carried

        _loop(builder, args[7], LANES, [], body)
        return context.get_dummy_value()

    arguments = (
        total, types.int64, weights, types.int64, lines, types.int64, types.int64, types.int64,
    )  # fmt: skip
    return types.void(*arguments), codegen
