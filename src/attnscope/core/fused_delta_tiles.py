"""The innermost loops of the fused delta rule: a triangular solve in registers, decays, transposes.

The idea: they are relatives of microkernel.py and vectors.py, for what the delta rule alone needs,
and written as vectors for the same reasons.

Formula
    solved_tile    X = B + A X, A strictly lower triangular, ROWS rows at a time
    decayed_tile   C <- f C + A B
    fade_lines     A_ij <- a f_j e^(L_i - L_j) A_ij for j <= i, else 0

Dtypes: float32; L in two float32 parts, the second what the first rounds away.

Not here: the order in which a chunk uses them (fused_delta.py).
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from attnscope.core.dots import CACHE_LINE
from attnscope.core.microkernel import (
    _F32,
    _I64,
    _VECTOR,
    _VECTORS,
    COLUMNS,
    LANES,
    ROWS,
    _data,
    _fma,
    _load_vector,
    _splat,
    _store_vector,
    _tile_loop,
)
from attnscope.core.vectors import _I32, _constant, _exp, _loop

NARROW: Final = COLUMNS // 2
"""Columns of `narrow_tile`: enough for the first rows of a triangle."""


def _places(builder: Any, data: Any, stride: Any) -> list[Any]:
    """Pointers to the vectors of a ROWS x COLUMNS tile."""
    return [
        builder.gep(data, [builder.add(builder.mul(stride, _I64(row)), _I64(v * LANES))])
        for row in range(ROWS)
        for v in range(_VECTORS)
    ]


def _numbers(builder: Any, data: Any, stride: Any) -> Any:
    """How `_tile_loop` finds A's number in a row at an index."""
    lines = [builder.gep(data, [builder.mul(stride, _I64(row))]) for row in range(ROWS)]
    return lambda builder, row, index: builder.gep(lines[row], [index])


@intrinsic
def narrow_tile(typingctx, a, a_at, a_stride, b, b_at, inner, c, c_at, c_stride):  # type: ignore[no-untyped-def]
    """The left NARROW columns of a tile: C[r, c] = sum over d of A[r, d] B[d, c], B by COLUMNS."""
    signature = types.void(
        a, types.int64, types.int64, b, types.int64, types.int64, c, types.int64, types.int64
    )

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = _numbers(builder, _data(context, builder, sig.args[0], args[0], args[1]), args[2])
        b_data = _data(context, builder, sig.args[3], args[3], args[4])
        c_data = _data(context, builder, sig.args[6], args[6], args[7])
        vectors = NARROW // LANES

        def body(index: Any, sums: list[Any]) -> list[Any]:
            line = builder.gep(b_data, [builder.mul(index, _I64(COLUMNS))])
            columns = [
                _load_vector(builder, builder.gep(line, [_I64(v * LANES)])) for v in range(vectors)
            ]
            following = []
            for row in range(ROWS):
                factor = _splat(builder, builder.load(number(builder, row, index)))
                for v in range(vectors):
                    following.append(_fma(builder, factor, columns[v], sums[row * vectors + v]))
            return following

        sums = _loop(builder, args[5], 1, [_constant(0.0)] * (ROWS * vectors), body)
        for row in range(ROWS):
            line = builder.gep(c_data, [builder.mul(args[8], _I64(row))])
            for v in range(vectors):
                place = builder.gep(line, [_I64(v * LANES)])
                _store_vector(builder, sums[row * vectors + v], place)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def decayed_tile(typingctx, a, a_at, a_stride, b, b_at, inner, c, c_at, factor):  # type: ignore[no-untyped-def]
    """C[r, c] = factor * C[r, c] + sum over j of A[r, j] * B[j, c]; B and C packed by COLUMNS.

    The sum is made first and C added to it once: where C is large, adding to it term by term would
    round at its size each time.
    """
    signature = types.void(
        a, types.int64, types.int64, b, types.int64, types.int64, c, types.int64, types.float32
    )

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a_data = _data(context, builder, sig.args[0], args[0], args[1])
        b_data = _data(context, builder, sig.args[3], args[3], args[4])
        c_data = _data(context, builder, sig.args[6], args[6], args[7])
        factor = _splat(builder, args[8])
        places = _places(builder, c_data, _I64(COLUMNS))
        start = [_constant(0.0)] * len(places)
        sums = _tile_loop(builder, _numbers(builder, a_data, args[2]), b_data, args[5], start)
        for value, place in zip(sums, places, strict=True):
            value = _fma(builder, _load_vector(builder, place), factor, value)
            _store_vector(builder, value, place)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def solved_tile(typingctx, a, a_at, a_stride, b, b_at, before):  # type: ignore[no-untyped-def]
    """Rows `before .. before + ROWS` of X = B + A X, where the rows of X above them are known.

    A is strictly lower triangular, row by row; B is packed by COLUMNS and overwritten by X.
    `a_at` is where A's row `before` begins, `b_at` where B's first row begins.
    """
    signature = types.void(a, types.int64, types.int64, b, types.int64, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a_data = _data(context, builder, sig.args[0], args[0], args[1])
        b_data = _data(context, builder, sig.args[3], args[3], args[4])
        before = args[5]
        number = _numbers(builder, a_data, args[2])
        own = builder.gep(b_data, [builder.mul(before, _I64(COLUMNS))])
        places = _places(builder, own, _I64(COLUMNS))
        start = [_load_vector(builder, place) for place in places]
        rows = _tile_loop(builder, number, b_data, before, start)
        for row in range(ROWS):
            for column in range(row):
                index = builder.add(before, _I64(column))
                factor = _splat(builder, builder.load(number(builder, row, index)))
                for v in range(_VECTORS):
                    at = row * _VECTORS + v
                    rows[at] = _fma(builder, factor, rows[column * _VECTORS + v], rows[at])
        for value, place in zip(rows, places, strict=True):
            _store_vector(builder, value, place)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def fade_lines(typingctx, one, other, at, factors, high, low, lengths, row, count):  # type: ignore[no-untyped-def]
    """Lines of two tables times their factor and lengths[j] e^(L_row - L_j), and 0 for j > row.

    `high` and `low` are the parts of L; `count` is a multiple of LANES.
    """
    signature = types.void(
        one, other, types.int64, types.UniTuple(types.float32, 2), high, low, lengths, types.int64,
        types.int64,
    )  # fmt: skip

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        tables = [_data(context, builder, sig.args[n], args[n], args[2]) for n in (0, 1)]
        factors = [_splat(builder, builder.extract_value(args[3], n)) for n in (0, 1)]
        parts = [_data(context, builder, sig.args[n], args[n], _I64(0)) for n in (4, 5)]
        scales = _data(context, builder, sig.args[6], args[6], _I64(0))
        own = [_splat(builder, builder.load(builder.gep(part, [args[7]]))) for part in parts]
        row = _splat(builder, builder.sitofp(args[7], _F32))
        ramp = ir.Constant(_VECTOR, [float(i) for i in range(LANES)])

        def body(index: Any, carried: list[Any]) -> list[Any]:
            logs = [
                builder.fsub(mine, _load_vector(builder, builder.gep(part, [index])))
                for mine, part in zip(own, parts, strict=True)
            ]
            decay = _exp(builder, builder.fadd(*logs))
            decay = builder.fmul(decay, _load_vector(builder, builder.gep(scales, [index])))
            seen = builder.fcmp_ordered("<=", carried[0], row)
            for table, factor in zip(tables, factors, strict=True):
                place = builder.gep(table, [index])
                weight = builder.fmul(decay, factor)
                value = builder.fmul(_load_vector(builder, place), weight)
                _store_vector(builder, builder.select(seen, value, _constant(0.0)), place)
            return [builder.fadd(carried[0], _constant(float(LANES)))]

        _loop(builder, args[8], LANES, [ramp], body)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def copy_panels(typingctx, into, into_at, into_step, line, line_at, line_step, panels, factor):  # type: ignore[no-untyped-def]
    """into[into_at + p * into_step + c] = factor * line[line_at + p * line_step + c], c < COLUMNS.

    p runs over `panels`.
    """
    signature = types.void(
        into, types.int64, types.int64, line, types.int64, types.int64, types.int64, types.float32
    )

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        target = _data(context, builder, sig.args[0], args[0], args[1])
        source = _data(context, builder, sig.args[3], args[3], args[4])
        factor = _splat(builder, args[7])

        def body(panel: Any, carried: list[Any]) -> list[Any]:
            there = builder.gep(target, [builder.mul(panel, args[2])])
            here = builder.gep(source, [builder.mul(panel, args[5])])
            for v in range(_VECTORS):
                value = _load_vector(builder, builder.gep(here, [_I64(v * LANES)]))
                place = builder.gep(there, [_I64(v * LANES)])
                _store_vector(builder, builder.fmul(value, factor), place)
            return carried

        _loop(builder, args[6], 1, [], body)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def blend(typingctx, into, into_at, a, a_at, by_a, b, b_at, by_b, count):  # type: ignore[no-untyped-def]
    """into[j] = by_a * a[j] + by_b * b[j] for `count` numbers (a multiple of LANES)."""
    signature = types.void(
        into, types.int64, a, types.int64, types.float32, b, types.int64, types.float32, types.int64
    )

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        target, one, other = (
            _data(context, builder, sig.args[n], args[n], args[n + 1]) for n in (0, 2, 5)
        )
        by_a, by_b = _splat(builder, args[4]), _splat(builder, args[7])

        def body(index: Any, carried: list[Any]) -> list[Any]:
            x = builder.fmul(_load_vector(builder, builder.gep(one, [index])), by_a)
            y = _load_vector(builder, builder.gep(other, [index]))
            _store_vector(builder, _fma(builder, y, by_b, x), builder.gep(target, [index]))
            return carried

        _loop(builder, args[8], LANES, [], body)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def transpose_block(typingctx, source, source_at, source_step, into, into_at, into_step):  # type: ignore[no-untyped-def]
    """into[into_at + c * into_step + r] = source[source_at + r * source_step + c], r, c < LANES."""
    signature = types.void(source, types.int64, types.int64, into, types.int64, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0], args[1])
        target = _data(context, builder, sig.args[3], args[3], args[4])
        rows = [
            _load_vector(builder, builder.gep(data, [builder.mul(args[2], _I64(r))]))
            for r in range(LANES)
        ]
        step = 1
        while step < LANES:  # swap the off-diagonal blocks of step x step
            low = [c if not c & step else LANES + c - step for c in range(LANES)]
            high = [c + step if not c & step else LANES + c for c in range(LANES)]
            for r in (r for r in range(LANES) if not r & step):
                a, b = rows[r], rows[r + step]
                for place, mask in ((r, low), (r + step, high)):
                    chosen = ir.Constant(ir.VectorType(_I32, LANES), mask)
                    rows[place] = builder.shuffle_vector(a, b, chosen)
            step *= 2
        for c, value in enumerate(rows):
            _store_vector(builder, value, builder.gep(target, [builder.mul(args[5], _I64(c))]))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def fetch_far(typingctx, array, at, count):  # type: ignore[no-untyped-def]
    """Ask for array[at : at + count] to be brought to the second cache, and no nearer.

    What the next chunk wants would only drive out of the first cache what this one uses.
    """
    signature = types.void(array, types.int64, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0], args[1])
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, second_cache, of_data = (_I32(n) for n in (0, 2, 1))

        def body(index: Any, carried: list[Any]) -> list[Any]:
            line = builder.bitcast(builder.gep(data, [index]), byte)
            builder.call(hint, [line, read, second_cache, of_data])
            return carried

        _loop(builder, args[2], CACHE_LINE, [], body)
        return context.get_dummy_value()

    return signature, codegen
