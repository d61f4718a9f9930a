"""Products of bfloat16 numbers, where the processor has an instruction for them.

The idea: q . k of bfloat16 inputs needs no wider numbers than it has. AVX-512's VDPBF16PS takes 16
pairs of two at once and adds their products in float32, which is twice the work of a float32
multiply-add. Only the scores are made so; they, the exponentials and all sums stay float32.

Formula
    scores[r, c] = factor * sum over pairs p of (A[r, 2p] B[2p, c] + A[r, 2p+1] B[2p+1, c])

Dtypes: a pair of bfloat16 numbers lies in the 32 bits of one float32 of the packed arrays, the even
one in the lower half.

Not here: other processors (there bfloat16 is widened while it is packed).
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from attnscope.core.jit import inner
from attnscope.core.microkernel import (
    _I64,
    _VECTOR,
    _VECTORS,
    COLUMNS,
    LANES,
    ROWS,
    _data,
    _splat,
    _store_vector,
    _tile_loop,
)

HAS_PAIRS: Final = LANES == 16 and llvm.get_host_cpu_features().get("avx512bf16", False)
"""Whether this processor multiplies pairs."""

if HAS_PAIRS:
    llvm.initialize_native_asmparser()


def _pairs(builder: Any, a: Any, b: Any, total: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    # Written as an instruction: LLVM's name for it has changed its types between versions.
    code = ir.InlineAsm(kind, "vdpbf16ps $1, $2, $0", "=v,v,v,0", side_effect=False)
    return builder.call(code, [b, a, total])


@intrinsic
def pair_tile(typingctx, a, a_at, a_step, b, b_at, count, c, c_at, c_step, factor):  # type: ignore[no-untyped-def]
    """One ROWS x COLUMNS tile of scores; A row by row, B packed `[count, COLUMNS]`, in pairs."""
    signature = types.void(
        a, types.int64, types.int64, b, types.int64, types.int64, c, types.int64, types.int64,
        types.float32,
    )  # fmt: skip

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a_data = _data(context, builder, sig.args[0], args[0], args[1])
        b_data = _data(context, builder, sig.args[3], args[3], args[4])
        c_data = _data(context, builder, sig.args[6], args[6], args[7])
        lines = [builder.gep(a_data, [builder.mul(args[2], _I64(row))]) for row in range(ROWS)]

        def a_place(builder: Any, row: int, index: Any) -> Any:
            return builder.gep(lines[row], [index])

        start = [ir.Constant(_VECTOR, [0.0] * LANES)] * (ROWS * _VECTORS)
        sums = _tile_loop(builder, a_place, b_data, args[5], start, _pairs)
        scale = _splat(builder, args[9])
        for slot, value in enumerate(sums):
            row, vector = divmod(slot, _VECTORS)
            step = builder.add(builder.mul(args[8], _I64(row)), _I64(vector * LANES))
            _store_vector(builder, builder.fmul(value, scale), builder.gep(c_data, [step]))
        return context.get_dummy_value()

    return signature, codegen


@inner
def pack_key_pairs(k, at, by_key, by_d, keys, width, start, stop, packed, offset, count):  # type: ignore[no-untyped-def]
    """`pack_keys` in pairs; `k` and `packed` are the bits of float32 numbers, uint32.

    The numbers came from bfloat16, so the upper 16 bits are all there is of them.
    """
    for panel in range(start // COLUMNS, (stop + COLUMNS - 1) // COLUMNS):
        have = max(0, min(COLUMNS, keys - panel * COLUMNS))
        source = k[at + panel * COLUMNS * by_key :]
        for pair in range(count):
            place = offset + (panel * count + pair) * COLUMNS
            line = packed[place : place + COLUMNS]
            low, high = np.uintp(2 * pair * by_d), np.uintp((2 * pair + 1) * by_d)
            if 2 * pair + 1 < width:
                for column in range(np.uintp(have)):
                    key = column * np.uintp(by_key)
                    upper = source[high + key] & np.uint32(0xFFFF0000)
                    line[column] = upper | (source[low + key] >> np.uint32(16))
            elif 2 * pair < width:
                for column in range(np.uintp(have)):
                    line[column] = source[low + column * np.uintp(by_key)] >> np.uint32(16)
            for column in range(have if 2 * pair < width else 0, COLUMNS):
                line[column] = np.uint32(0)


@inner
def pack_query_pairs(q, at, by_head, by_token, by_d, heads, width, start, stop, packed, count):  # type: ignore[no-untyped-def]
    """`pack_queries` in pairs and unscaled; `q` and `packed` are bits, uint32."""
    rows = (stop - start) * heads
    for row in range((rows + ROWS - 1) // ROWS * ROWS):
        source = at + row % heads * by_head + (start + row // heads) * by_token
        for pair in range(count):
            word = np.uint32(0)
            if row < rows and 2 * pair < width:
                word = q[source + 2 * pair * by_d] >> np.uint32(16)
                if 2 * pair + 1 < width:
                    word |= q[source + (2 * pair + 1) * by_d] & np.uint32(0xFFFF0000)
            packed[row * count + pair] = word


@inner
def widen(half, at, by_key, by_d, width, begin, stop, base, wide):  # type: ignore[no-untyped-def]
    """Keys [begin, stop) of bfloat16 bits as float32, `wide[key - base, d]`; `wide` is uint32."""
    for key in range(begin, stop):
        into = wide[(key - base) * width : (key - base + 1) * width]
        source = at + key * by_key
        if by_d == 1:
            line = half[source : source + width]
            for d in range(np.uintp(width)):
                into[d] = np.uint32(line[d]) << np.uint32(16)
        else:
            for d in range(width):
                into[d] = np.uint32(half[source + d * by_d]) << np.uint32(16)
