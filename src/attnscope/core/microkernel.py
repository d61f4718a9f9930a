"""The innermost loops of the fused path: two register-tiled matrix products and an atomic counter.

The idea: a compiler does not find the register tiling of a matrix product by itself, so the tile is
written in LLVM's own terms: ROWS x COLUMNS accumulators that stay in registers while the inner
dimension runs. Everything around it is ordinary Numba, so that a strip can skip what its rows may
not see at a grain of ROWS x COLUMNS and use each tile of scores while it is in the cache.

Formula
    scores tile     C[r, c]  = sum_d A[r, d] B[d, c]        (A row by row, B packed in panels)
    output tile     C[r, c] += sum_j P[r, j] B[j, c]

Dtypes: float32.

Not here: any knowledge of attention.
"""

from __future__ import annotations

import platform
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _tile() -> tuple[int, int, int]:
    """Lanes of a vector, vectors per tile row and rows per tile for this processor.

    As many accumulators as fit its registers, leaving room for the two or more vectors of B.
    """
    features = llvm.get_host_cpu_features()
    if features.get("avx512f", False):
        return 16, 2, 12  # 24 of 32 registers
    if platform.machine().lower() in ("aarch64", "arm64"):
        return 4, 4, 6  # 24 of 32 registers
    return 8, 2, 6  # 12 of 16 registers


LANES, _VECTORS, ROWS = _tile()
COLUMNS: Final = LANES * _VECTORS
UNROLL: Final = 4
"""The inner dimension of both products is a multiple of this (padded with zeros)."""

_F32 = ir.FloatType()
_I64 = ir.IntType(64)
_VECTOR = ir.VectorType(_F32, LANES)
_ALIGN = 4


def _data(context: Any, builder: Any, kind: Any, value: Any, offset: Any) -> Any:
    """Pointer to element `offset` of a Numba array."""
    array = context.make_array(kind)(context, builder, value)
    return builder.gep(array.data, [offset])


def _load_vector(builder: Any, pointer: Any) -> Any:
    value = builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()))
    value.align = _ALIGN
    return value


def _store_vector(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, builder.bitcast(pointer, _VECTOR.as_pointer())).align = _ALIGN


def _splat(builder: Any, scalar: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    name = f"llvm.fma.v{LANES}f32"
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, [a, b, c])


def _tile_loop(
    builder: Any, a_at: Any, b: Any, inner: Any, start: list[Any], multiply_add: Any = _fma
) -> list[Any]:
    """Run the inner dimension with the accumulators in registers; returns their last values.

    Args:
        a_at: (builder, row, index) -> pointer to the scalar of A.
        b: pointer to B, COLUMNS numbers per index.
        inner: how many indices, a multiple of UNROLL.
        start: ROWS * _VECTORS first values.
        multiply_add: (builder, vector of A, vector of B, sum) -> sum.
    """
    before = builder.block
    head = builder.append_basic_block("inner")
    done = builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", inner, _I64(0)), head, done)

    builder.position_at_end(head)
    index = builder.phi(_I64)
    index.add_incoming(_I64(0), before)
    sums = [builder.phi(_VECTOR) for _ in start]
    for phi, value in zip(sums, start, strict=True):
        phi.add_incoming(value, before)
    current: list[Any] = list(sums)
    for step in range(UNROLL):
        at = builder.add(index, _I64(step))
        base = builder.gep(b, [builder.mul(at, _I64(COLUMNS))])
        columns = [
            _load_vector(builder, builder.gep(base, [_I64(v * LANES)])) for v in range(_VECTORS)
        ]
        for row in range(ROWS):
            scalar = _splat(builder, builder.load(a_at(builder, row, at)))
            for v in range(_VECTORS):
                slot = row * _VECTORS + v
                current[slot] = multiply_add(builder, scalar, columns[v], current[slot])
    following = builder.add(index, _I64(UNROLL))
    index.add_incoming(following, head)
    for phi, value in zip(sums, current, strict=True):
        phi.add_incoming(value, head)
    builder.cbranch(builder.icmp_signed("<", following, inner), head, done)

    builder.position_at_end(done)
    result = []
    for first, last in zip(start, current, strict=True):
        phi = builder.phi(_VECTOR)
        phi.add_incoming(first, before)
        phi.add_incoming(last, head)
        result.append(phi)
    return result


@intrinsic
def scores_tile(typingctx, a, a_offset, a_stride, b, b_offset, inner, c, c_offset, c_stride):  # type: ignore[no-untyped-def]
    """C[r, c] = sum over d of A[r, d] * B[d, c]; A row by row, B packed `[inner, COLUMNS]`."""
    return _product(a, b, c, add=False)


@intrinsic
def output_tile(typingctx, a, a_offset, a_stride, b, b_offset, inner, c, c_offset, c_stride):  # type: ignore[no-untyped-def]
    """C[r, c] += sum over j of A[r, j] * B[j, c]; A row by row, B packed `[inner, COLUMNS]`."""
    return _product(a, b, c, add=True)


def _product(a: Any, b: Any, c: Any, *, add: bool) -> tuple[Any, Any]:
    """Signature and code of one ROWS x COLUMNS tile, overwriting C or adding to it."""
    signature = types.void(
        a, types.int64, types.int64, b, types.int64, types.int64, c, types.int64, types.int64
    )

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a_data = _data(context, builder, sig.args[0], args[0], args[1])
        b_data = _data(context, builder, sig.args[3], args[3], args[4])
        c_data = _data(context, builder, sig.args[6], args[6], args[7])
        lines = [builder.gep(a_data, [builder.mul(args[2], _I64(row))]) for row in range(ROWS)]

        def a_at(builder: Any, row: int, index: Any) -> Any:
            return builder.gep(lines[row], [index])

        places = [
            builder.gep(c_data, [builder.add(builder.mul(args[8], _I64(row)), _I64(v * LANES))])
            for row in range(ROWS)
            for v in range(_VECTORS)
        ]
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        start = [_load_vector(builder, place) if add else zero for place in places]
        sums = _tile_loop(builder, a_at, b_data, args[5], start)
        for value, place in zip(sums, places, strict=True):
            _store_vector(builder, value, place)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def take_number(typingctx, counters, index):  # type: ignore[no-untyped-def]
    """Atomically add one to `counters[index]` and return its value before: a thread's next task."""
    signature = types.int64(counters, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _data(context, builder, sig.args[0], args[0], args[1])
        return builder.atomic_rmw("add", place, _I64(1), "acq_rel")

    return signature, codegen


@intrinsic
def read_number(typingctx, counters, index):  # type: ignore[no-untyped-def]
    """Atomically read `counters[index]`."""
    signature = types.int64(counters, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _data(context, builder, sig.args[0], args[0], args[1])
        return builder.atomic_rmw("add", place, _I64(0), "acq_rel")

    return signature, codegen
