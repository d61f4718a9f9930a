"""The fused path of the gated delta rule: Numba on the CPU, whole heads per thread.

The idea: heads never meet, and neither do value columns, so a thread takes the next head (or part
of its columns, where heads are few) until none is left, and nobody waits for anybody. All memory is
taken before the start and kept for the next call.

Shapes: those of delta.py.

Dtypes: float32 inside; bfloat16 and float16 are widened on the way in.

Not here: gradients, float64, other devices; `delta.unable` says so.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from attnscope.core.fused_delta_chunk import CHUNK, Array, Given, Room, Sizes, chunk_worker
from attnscope.core.fused_delta_step import Lines, step_worker
from attnscope.core.microkernel import COLUMNS, LANES, ROWS
from attnscope.core.workspace import Workspace, borrow, cpu_threads, crew

FEW: Final = 4
"""Up to so many tokens are taken one by one."""

SMALL: Final = 300_000
"""Below so many numbers of state, a second thread costs a decoding step more than it brings."""


def _up(number: int, grain: int) -> int:
    return -(-number // grain) * grain


def _flat(x: torch.Tensor) -> tuple[Array, Array]:
    """The memory of a tensor of three or four axes, and [offset, step per axis]; float32."""
    x = x.detach().to(torch.float32)
    steps = [step if size > 1 else 0 for size, step in zip(x.shape, x.stride(), strict=True)]
    offset = x.storage_offset()
    last = offset + sum((n - 1) * s for n, s in zip(x.shape, steps, strict=True))
    flat = torch.as_strided(x, (last + 1 if x.numel() else 0,), (1,), 0)
    return flat.numpy(), np.array([offset, *steps], np.int64)


def delta_fused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    state: torch.Tensor | None,
    scale: float,
    unit: bool,
    chunk: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The rule by compiled loops; `delta.unable` of the tensors must be None.

    Args:
        unit: bring q and k to length one on the way.
        chunk: tokens per chunk, a multiple of ROWS.

    Returns:
        o [B, H, T, E] in the dtype of v (seen from [B, T, H, E] in memory), and the state after the
        last token. None if over chunks the state is not finite: then a number given was not, and
        0 times it would have reached earlier tokens of its chunk.

    Cost: per token and value head 6 D E FLOPs with the state and about 6 chunk (D + E) within the
    chunk; memory of one head's state and chunk per thread, and nothing that grows with T.
    """
    B, G, T, D = q.shape
    H, E = v.shape[1], v.shape[3]
    # numpy asks for large pages, which saves thousands of page faults; torch.empty does not.
    out, after = np.empty((B, T, H, E), np.float32), np.empty((B, H, D, E), np.float32)
    if not T or not out.size or not D:
        after[:] = 0.0 if state is None else state.numpy()
        out[:] = 0.0
        return torch.from_numpy(out).transpose(1, 2).to(v.dtype), torch.from_numpy(after)
    before = np.zeros(0, np.float32) if state is None else state.detach().contiguous().numpy()
    given = Given(*_flat(q), *_flat(k), *_flat(v), *_flat(g), *_flat(beta), before.reshape(-1))
    threads, heads, panels = cpu_threads(), B * H, _up(E, COLUMNS) // COLUMNS
    few = T <= FEW and E % LANES == 0
    if few:
        parts, threads = 1, 1 if heads * D * E * T < SMALL else min(threads, heads)
    else:
        parts = 1 if heads >= 2 * threads else min(panels, -(-2 * threads // heads))
    padded = _up(D, LANES)
    sizes = Sizes(
        heads=H, groups=G, tokens=T, width=D, value_width=E, padded=padded,
        high=_up(padded, ROWS), panels=panels, parts=parts, tasks=heads * parts, chunk=chunk,
        given=state is not None, unit=unit, scale=np.float32(scale),
    )  # fmt: skip
    flat, into, counters = out.reshape(-1), after.reshape(-1), np.zeros(2, np.int64)
    with borrow() as space:
        if few:
            lines = [_lines(space, n, sizes) for n in range(threads)]
            crew(lambda n: step_worker(given, sizes, lines[n], flat, into, counters), threads)
        else:
            rooms = [_room(space, n, sizes) for n in range(threads)]
            crew(lambda n: chunk_worker(given, sizes, rooms[n], flat, into, counters), threads)
    if counters[1]:
        return None
    return torch.from_numpy(out).transpose(1, 2).to(v.dtype), torch.from_numpy(after)


def _lines(space: Workspace, number: int, sizes: Sizes) -> Lines:
    """A thread's memory for single tokens."""
    wide = {"key": sizes.padded, "query": sizes.padded}
    return Lines(
        *(space.take(f"delta/{number}/{n}", wide.get(n, sizes.value_width)) for n in Lines._fields)
    )


def _room(space: Workspace, number: int, sizes: Sizes) -> Room:
    """A thread's memory for chunks."""
    chunk, columns = sizes.chunk, _up(sizes.chunk, COLUMNS)
    size = {
        "keys": columns * sizes.padded,
        "queries": columns * sizes.padded,
        "turned": columns * sizes.high,
        "fixes": chunk * columns,
        "reads": chunk * columns,
        "writes": sizes.panels * chunk * COLUMNS,
        "out": sizes.panels * chunk * COLUMNS,
        "state": sizes.panels * sizes.high * COLUMNS,
    }
    kind = {"logs": np.float64}
    return Room(
        *(
            space.take(f"delta/{number}/{n}", size.get(n, columns), kind.get(n, np.float32))
            for n in Room._fields
        )
    )
