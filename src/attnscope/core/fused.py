"""The fused path of `attend`: Numba on the CPU, whole tasks per thread, no barrier between steps.

The idea: a task is a few query tokens of one key head, and a thread carries it from the packed
queries to the finished statistics inside one compiled call. Threads meet once, after the keys and
values are packed; then each takes the next task, longest first, until none is left, so that a
thread that loses its core to another process delays nobody. All memory is taken before the start
and kept for the next call.

Shapes: those of problem.py. Dtypes: float32 inside; bfloat16 and float16 are widened on the way in.

Not here: float64, mask functions, and a boolean mask together with a pooled map; `unable` says so,
and `attend` with impl="auto" takes strip.py for them.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch

from attnscope.core import fused_workers as workers
from attnscope.core.fused_finish import COLUMN_OF
from attnscope.core.fused_strip import STATES, TILE
from attnscope.core.fused_workers import Inputs, Plan, Results, Scratch
from attnscope.core.microkernel import COLUMNS, ROWS, UNROLL
from attnscope.core.problem import Attention, PooledMap, Problem, map_cell
from attnscope.core.strip import attend_strip
from attnscope.core.workspace import Workspace, borrow, cpu_threads, crew

STRIP_BYTES: Final = 1 << 20
"""A kept strip of exponentials per thread; it should stay in the second and third cache levels."""

MOST_ROWS: Final = 96
FEWEST_ROWS: Final = 24

MOST_IDS: Final = 1 << 20
"""Token ids below this are used as they are; others are numbered first."""

SMALL: Final = 4_000_000
"""Below so many FLOPs a second thread costs more than it brings."""

FEW_ROWS: Final = 12
"""Up to so many query rows per key head, keys are read where they lie and not packed."""

SINGLES: Final = frozenset(
    {"self_mass", "previous_mass", "local_mass", "sink_mass", "induction_mass"}
)
MOMENTS: Final = frozenset(
    {"entropy", "effective_keys", "participation", "jacobian_norm", "mean_distance", "argmax"}
)


def unable(problem: Problem) -> str | None:
    """Why the fused path cannot do this problem, or None if it can."""
    if problem.q.device.type != "cpu":
        return f"it runs on the CPU, and the tensors are on {problem.q.device}"
    if problem.accumulate == torch.float64:
        return "it computes in float32, and the tensors are float64"
    if problem.mask is not None and not isinstance(problem.mask, torch.Tensor):
        return "the mask is a function whose rows are not intervals"
    if problem.mask is not None and problem.request.pool:
        return "a pooled map under a boolean mask needs the mask's own pooling"
    return None


def _flat(tensor: torch.Tensor | None, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    """A tensor of four axes as its flat memory and [offset, step per axis]; no copy if dtype fits.

    Axes of length one get step zero, so that they broadcast.
    """
    if tensor is None:
        return np.zeros(0, _NUMPY[dtype]), np.zeros(5, np.int64)
    tensor = tensor.detach().to(dtype)
    while tensor.ndim < 4:
        tensor = tensor[None]
    offset = tensor.storage_offset()
    steps = [
        step if size > 1 else 0 for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    last = offset + sum((n - 1) * s for n, s in zip(tensor.shape, steps, strict=True))
    flat = torch.as_strided(tensor, (last + 1 if tensor.numel() else 0,), (1,), 0)
    return flat.numpy(), np.array([offset, *steps], np.int64)


_NUMPY: Final = {torch.float32: np.float32, torch.uint8: np.uint8}


def _links(tokens: torch.Tensor | None, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """For `induction_mass`: per query the newest key after a repeat, per key the older; [B, S]."""
    if tokens is None:
        return np.zeros((1, 0), np.int32), np.zeros((1, 0), np.int32)
    ids = tokens.detach().reshape(-1, keys).numpy()
    low, high = (int(ids.min()), int(ids.max())) if ids.size else (0, -1)
    if low < 0 or high >= MOST_IDS:
        names, ids = np.unique(ids, return_inverse=True)
        ids, high = ids.reshape(-1, keys), len(names) - 1
    newest, older = np.empty(ids.shape, np.int32), np.empty(ids.shape, np.int32)
    workers.link_repeats(ids.astype(np.int64), newest, older, np.empty(high + 1, np.int32))
    return newest, older


def _plan(problem: Problem) -> Plan:
    """Choose the sizes of strips and tasks."""
    B, H, G, T, S, D, E = problem.sizes
    request, names = problem.request, frozenset(problem.request.names)
    singles = bool(names & SINGLES)
    keep = singles or "received" in names or request.pool or bool(request.rows)
    first, end = problem.spans.first.numpy(), problem.spans.end.numpy()
    seen = end > first
    low, high = int(first.min(where=seen, initial=S)), int(end.max(where=seen, initial=0))
    low, high = (low // TILE * TILE, high) if high > low else (0, 0)
    cell = map_cell(T, S)
    heads = H // G
    widest = int((end - first).max(initial=0))
    rows = max(FEWEST_ROWS, min(MOST_ROWS, STRIP_BYTES // 4 // max(widest, 1)))
    grain = ROWS // math.gcd(heads, ROWS)
    tokens = max(grain, rows // heads // grain * grain)
    unit = tokens
    if request.pool:
        tokens = max(cell, tokens // cell * cell) if cell <= tokens else tokens
        if cell > tokens:
            tokens = 1 << (tokens.bit_length() - 1)
        unit = max(tokens, cell)
    return Plan(
        batch=B, heads=H, groups=G, queries=T, keys=S, width=D, value_width=E,
        inner=-(-D // UNROLL) * UNROLL, padded=-(-S // COLUMNS) * COLUMNS,
        packed_low=low, packed_high=high, tokens=tokens, unit=unit,
        slots=(high - low + TILE - 1) // TILE, cell=cell, local=request.local,
        sink_keys=request.sink_keys, wanted=bool(names), moments=bool(names & MOMENTS),
        keep=keep, singles=singles, received="received" in names, pool=request.pool,
        rows=bool(request.rows),
        scale=np.float32(problem.scale), softcap=np.float32(problem.softcap or 0.0),
    )  # fmt: skip


def _most_slots(problem: Problem, plan: Plan) -> int:
    """The largest number of tiles that any strip touches."""
    if not plan.keep or not plan.queries:
        return 1
    first, end = problem.spans.first.numpy(), problem.spans.end.numpy()
    seen = end > first
    starts = np.arange(0, plan.queries, plan.tokens)
    low = np.minimum.reduceat(np.where(seen, first, plan.keys), starts, axis=1) // TILE
    high = -(-np.maximum.reduceat(np.where(seen, end, 0), starts, axis=1) // TILE)
    # Units begin anew at multiples of `unit`; a strip never spans two of them.
    return max(1, int((high - low).max()))


def attend_fused(problem: Problem) -> Attention:
    """Attention by the fused path; `unable(problem)` must be None.

    Cost: memory of one strip per thread and of the packed keys and values (as large as K and V);
    nothing of T x S but in decode, where T x S is one row per head.
    """
    plan = _plan(problem)
    inputs = _inputs(problem)
    B, H, T, S, E = plan.batch, plan.heads, plan.queries, plan.keys, plan.value_width
    side = (-(-T // plan.cell), -(-S // plan.cell)) if plan.pool else (0, 0)
    planes = (B, H, *side) if plan.pool else (1, H, 0, 0)
    results = Results(
        out=np.empty((B, T, H, E), np.float32),
        statistics=np.empty((len(COLUMN_OF), B, H, T if plan.wanted else 0), np.float32),
        where=np.empty((B, H, T if plan.wanted else 0), np.int64),
        empty=np.empty((B, H, T), np.bool_),
        odd=np.zeros(1, np.int64),
        mean=np.full(planes, np.nan, np.float32),
        most=np.full(planes, np.nan, np.float32),
        place=np.full(planes, -1, np.int32),
        rows=np.zeros((B, H, len(_wanted_rows(problem)), S), np.float32),
    )
    work = 2.0 * B * H * T * (plan.packed_high - plan.packed_low) * (plan.width + E)
    threads = 1 if work < SMALL else cpu_threads()
    if not B * H * T:
        return _attention(problem, plan, results, torch.zeros(B, H, S))
    decode = T * (H // plan.groups) <= FEW_ROWS
    with borrow() as space:
        # Each head is finished by one thread in decode, so one line per head is enough there.
        received = _received(space, plan, 1 if decode else threads)
        if decode:
            _run_decode(inputs, plan, results, received, threads, space)
        else:
            _run_prefill(
                inputs, plan, results, received, threads, space, _most_slots(problem, plan)
            )
        one = received[0] if len(received) == 1 else received.sum(axis=0)
        seen_by_key = torch.from_numpy(one).to(torch.float32)  # a copy: the memory goes back
    if not results.odd[0]:
        return _attention(problem, plan, results, seen_by_key)
    # The vector loops compare scores, and multiply keys out of sight by 0: with a NaN or an
    # infinity about, both mislead. A worker saw one; the strips take the care that it needs.
    return attend_strip(problem)


def _received(space: Workspace, plan: Plan, copies: int) -> np.ndarray:
    """Zeroed float64 [copies, B, H, S] for the sums over columns, or empty if nobody asked."""
    shape = (copies, plan.batch, plan.heads, plan.keys)
    if not plan.received:
        return np.zeros((copies, 1, plan.heads, 0))
    into = space.take("received", math.prod(shape), np.float64)[: math.prod(shape)]
    into.fill(0.0)
    return into.reshape(shape)


def _inputs(problem: Problem) -> Inputs:
    q, q_at = _flat(problem.q, torch.float32)
    k, k_at = _flat(problem.k, torch.float32)
    v, v_at = _flat(problem.v, torch.float32)
    bias, bias_at = _flat(problem.bias, torch.float32)
    mask, mask_at = _flat(problem.mask, torch.uint8)  # type: ignore[arg-type]
    sinks, spans = problem.sinks, problem.spans
    T = problem.q.shape[2]
    slot_of = np.full(T, -1, np.int32)
    for slot, row in enumerate(_wanted_rows(problem)):
        slot_of[row] = slot
    newest, older = _links(problem.request.tokens, problem.k.shape[2])
    return Inputs(
        q, q_at, k, k_at, v, v_at, bias, bias_at, mask, mask_at,
        np.zeros(0) if sinks is None else sinks.detach().double().numpy(),
        np.ascontiguousarray(spans.first.numpy()),
        np.ascontiguousarray(spans.end.numpy()),
        np.ascontiguousarray(spans.origin.numpy()),
        newest, older, slot_of,
    )  # fmt: skip


def _wanted_rows(problem: Problem) -> list[int]:
    """The queries whose full rows are wanted, each once."""
    T = problem.q.shape[2]
    return sorted({row % T for row in problem.request.rows})


def _scratch(
    space: Workspace,
    number: int,
    plan: Plan,
    received: np.ndarray,
    sizes: tuple[int, int, int, int],
) -> Scratch:
    """The memory of thread `number`; sizes: packed queries, strip, rows and references."""
    query_size, strip_size, rows, reference_size = sizes
    blocks = -(-plan.value_width // COLUMNS)
    heads = plan.batch * plan.groups

    def own(name: str, size: int, dtype: type[np.generic] = np.float32) -> np.ndarray:
        return space.take(f"{name}/{number}", size, dtype)

    packed = strip_size > 0
    return Scratch(
        packed_k=space.take("k", heads * plan.padded * plan.inner if packed else 0),
        packed_v=space.take("v", heads * blocks * plan.padded * COLUMNS if packed else 0),
        packed_q=own("q", query_size),
        strip=own("strip", strip_size),
        acc=own("acc", rows * blocks * COLUMNS if packed else 0),
        state=own("state", rows * STATES, np.float64).reshape(-1, STATES)
        if packed
        else np.zeros((0, STATES)),
        references=own("references", reference_size),
        panel_low=own("low", rows // ROWS + 1, np.int64),
        panel_high=own("high", rows // ROWS + 1, np.int64),
        total=own("total", TILE),
        largest=own("largest", TILE),
        where=own("where", TILE, np.int32),
        received=received[number % len(received)],
    )


def _run_prefill(
    inputs: Inputs, plan: Plan, results: Results, received: np.ndarray, threads: int,
    space: Workspace, slots: int,
) -> None:  # fmt: skip
    rows = -(-plan.tokens * (plan.heads // plan.groups) // ROWS) * ROWS
    sizes = (rows * plan.inner, slots * rows * TILE, rows, (plan.slots + 1) * rows)
    scratch = [_scratch(space, n, plan, received, sizes) for n in range(threads)]
    counters = np.zeros(3, np.int64)
    crew(lambda n: workers.prefill_worker(inputs, plan, scratch[n], results, counters), threads)


def _run_decode(
    inputs: Inputs,
    plan: Plan,
    results: Results,
    received: np.ndarray,
    threads: int,
    space: Workspace,
) -> None:
    from attnscope.core.fused_decode import decode_worker

    heads, pairs = plan.heads // plan.groups, plan.batch * plan.groups
    rows = plan.queries * heads
    tiles = max(1, min(plan.slots, -(-plan.slots * pairs // (4 * threads))))
    chunks = max(1, -(-plan.slots // tiles))
    width = -(-plan.value_width // COLUMNS) * COLUMNS
    shared = workers.Chunks(
        strip=space.take("chunks/strip", pairs * plan.slots * rows * TILE),
        references=space.take("chunks/references", pairs * plan.slots * rows),
        state=space.take("chunks/state", pairs * chunks * rows * STATES, np.float64).reshape(
            -1, STATES
        ),
        acc=space.take("chunks/acc", pairs * chunks * -(-rows // ROWS) * ROWS * width),
        chunks=chunks,
        tiles=tiles,
    )
    sizes = (rows * plan.width, 0, rows, 0)
    scratch = [_scratch(space, n, plan, received, sizes) for n in range(threads)]
    counters = np.zeros(1 + pairs, np.int64)
    crew(lambda n: decode_worker(inputs, plan, shared, scratch[n], results, counters), threads)


def _attention(problem: Problem, plan: Plan, results: Results, received: torch.Tensor) -> Attention:
    """Bring what the threads wrote to the form that `attend` returns."""
    output = torch.from_numpy(results.out).transpose(1, 2).to(problem.v.dtype)
    statistics = {}
    for name in problem.request.names:
        if name == "received":
            statistics[name] = received
        elif name == "argmax":
            statistics[name] = torch.from_numpy(results.where)
        else:
            statistics[name] = torch.from_numpy(results.statistics[COLUMN_OF[name]])
    pooled = None
    if plan.pool:
        counts = np.full(results.mean.shape[2], plan.cell)
        counts[-1:] = plan.queries - (results.mean.shape[2] - 1) * plan.cell
        np.divide(results.mean, counts[:, None], out=results.mean, casting="same_kind")
        planes = (torch.from_numpy(p) for p in (results.mean, results.most, results.place))
        pooled = PooledMap(plan.cell, *planes)
    rows = None
    if problem.request.rows:
        wanted = _wanted_rows(problem)
        order = [wanted.index(row % plan.queries) for row in problem.request.rows]
        rows = torch.from_numpy(results.rows)[:, :, order]
    return Attention(output, torch.from_numpy(results.empty), statistics, pooled, rows)
