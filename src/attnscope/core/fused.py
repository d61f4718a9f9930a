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

import functools
import math
from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch.utils.weak import WeakTensorKeyDictionary

from attnscope.core import fused_workers as workers
from attnscope.core.fused_finish import COLUMN_OF
from attnscope.core.fused_strip import STATES, TILE
from attnscope.core.fused_workers import Inputs, Plan, Results, Scratch
from attnscope.core.half import HAS_PAIRS
from attnscope.core.microkernel import COLUMNS, ROWS, UNROLL
from attnscope.core.problem import Attention, PooledMap, Problem, map_cell
from attnscope.core.strip import attend_strip
from attnscope.core.workspace import Workspace, borrow, cpu_threads, crew, lasting

STRIP_BYTES: Final = 1 << 20
"""A kept strip of exponentials per thread; it should stay in the second and third cache levels."""

MOST_ROWS: Final = 96
FEWEST_ROWS: Final = 24

MOST_IDS: Final = 1 << 20
"""Token ids below this are used as they are; others are numbered first."""

SMALL: Final = 4_000_000
"""Below so many FLOPs a second thread costs more than it brings."""

TASKS: Final = 4
"""Decode cuts the keys into so many tasks per thread: few enough to merge, many enough to share."""

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
        return _NOTHING[dtype]
    tensor = tensor.detach().to(dtype)
    while tensor.ndim < 4:
        tensor = tensor[None]
    sizes, steps, offset = tensor.shape, tensor.stride(), 0
    if tensor.is_contiguous():
        flat = tensor.numpy().reshape(-1)
    else:
        offset = int(tensor.storage_offset())
        last = sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
        count = offset + last + 1 if tensor.numel() else 0
        flat = torch.as_strided(tensor, (count,), (1,), 0).numpy()
    moves = (step if n > 1 else 0 for n, step in zip(sizes, steps, strict=True))
    return flat, np.array((offset, *moves), np.int64)


Links = tuple[np.ndarray, np.ndarray]
_NO_LINKS: Final = (np.zeros((1, 0), np.int32), np.zeros((1, 0), np.int32))
_NO_PLANES: Final = tuple(np.zeros((1, 1, 0, 0), d) for d in (np.float32, np.float32, np.int32))
_NO_SINKS: Final = np.zeros(0)
_NO_SLOTS: Final = np.zeros(0, np.int32)
_NO_HALF: Final = np.zeros(0, np.uint16)
_NOTHING: Final[dict[torch.dtype, tuple[np.ndarray, np.ndarray]]] = {
    torch.float32: (np.zeros(0, np.float32), np.zeros(5, np.int64)),
    torch.uint8: (np.zeros(0, np.uint8), np.zeros(5, np.int64)),
}


_linked = WeakTensorKeyDictionary()
"""The links of token tensors that are still about: they are the same for all layers of a model."""


def _links(tokens: torch.Tensor | None, keys: int) -> Links:
    """For `induction_mass`: per query the newest key after a repeat, per key the older; [B, S]."""
    if tokens is None:
        return _NO_LINKS
    version = -1 if tokens.is_inference() else tokens._version
    kept = _linked.get(tokens) if version >= 0 else None
    if kept is not None and kept[:2] == (version, keys):
        return kept[2]
    ids = tokens.detach().reshape(-1, keys).numpy()
    low, high = (int(ids.min()), int(ids.max())) if ids.size else (0, -1)
    if low < 0 or high >= MOST_IDS:
        names, ids = np.unique(ids, return_inverse=True)
        ids, high = ids.reshape(-1, keys), len(names) - 1
    newest, older = np.empty(ids.shape, np.int32), np.empty(ids.shape, np.int32)
    workers.link_repeats(ids.astype(np.int64), newest, older, np.empty(high + 1, np.int32))
    if version >= 0:
        _linked[tokens] = version, keys, (newest, older)
    return newest, older


def _plan(problem: Problem) -> Plan:
    """Choose the sizes of strips and tasks."""
    wanted = problem.request
    return _sized(
        problem.sizes, problem.spans.extent, problem.scale, problem.softcap or 0.0,
        (wanted.names, wanted.pool, bool(wanted.rows), wanted.local, wanted.sink_keys),
        HAS_PAIRS and problem.q.dtype == torch.bfloat16,
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def _sized(
    sizes: tuple[int, ...], extent: tuple[int, int, int], scale: float, softcap: float,
    wanted: tuple[tuple[str, ...], bool, bool, int, int], pairs: bool,
) -> Plan:  # fmt: skip
    """`_plan` of what it depends on: the same object for all layers of a model, and for a while."""
    B, H, G, T, S, D, E = sizes
    asked, pool, full, local, sink_keys = wanted
    names = frozenset(asked)
    singles = bool(names & SINGLES)
    keep = singles or "received" in names or pool or full
    low, high, widest = extent
    low, high = (low // TILE * TILE, high) if high > low else (0, 0)
    cell, words = map_cell(T, S), -(-D // 2) if pairs else D
    heads = H // G
    rows = max(FEWEST_ROWS, min(MOST_ROWS, STRIP_BYTES // 4 // max(widest, 1)))
    grain = ROWS // math.gcd(heads, ROWS)
    tokens = max(grain, rows // heads // grain * grain)
    unit = tokens
    if pool:
        tokens = max(cell, tokens // cell * cell) if cell <= tokens else tokens
        if cell > tokens:
            tokens = 1 << (tokens.bit_length() - 1)
        unit = max(tokens, cell)
    return Plan(
        batch=B, heads=H, groups=G, queries=T, keys=S, width=D, value_width=E,
        inner=-(-words // UNROLL) * UNROLL, padded=-(-S // COLUMNS) * COLUMNS,
        packed_low=low, packed_high=high, tokens=tokens, unit=unit,
        slots=(high - low + TILE - 1) // TILE, cell=cell, local=local,
        sink_keys=sink_keys, wanted=bool(names), moments=bool(names & MOMENTS),
        keep=keep, singles=singles, received="received" in names, pool=pool, rows=full,
        pairs=pairs,
        scale=np.float32(scale), softcap=np.float32(softcap),
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
    B, H, T, E = plan.batch, plan.heads, plan.queries, plan.value_width
    decode = T * (H // plan.groups) <= FEW_ROWS
    inputs = _inputs(problem, as_they_lie=decode and problem.k.dtype == torch.bfloat16)
    results = _results(problem, plan, np.empty if decode else lasting)
    work = 2.0 * B * H * T * (plan.packed_high - plan.packed_low) * (plan.width + E)
    threads = 1 if work < SMALL else cpu_threads()
    if not B * H * T:
        results.received.fill(0.0)
        return _attention(problem, plan, results)
    with borrow() as space:
        if decode:
            _run_decode(inputs, plan, results, threads, space)
        else:
            _run_prefill(inputs, plan, results, threads, space, _most_slots(problem, plan))
    if not results.odd[0]:
        return _attention(problem, plan, results)
    # The vector loops compare scores, and multiply keys out of sight by 0: with a NaN or an
    # infinity about, both mislead. A worker saw one; the strips take the care that it needs.
    return attend_strip(problem)


def _results(problem: Problem, plan: Plan, room: Callable[..., np.ndarray]) -> Results:
    """Room for what the threads will write; what nobody asked for gets none.

    In decode `room` is the heap: new pages of the system would cost a tenth of the step.
    """
    B, H, T, S, E = plan.batch, plan.heads, plan.queries, plan.keys, plan.value_width
    planes = _NO_PLANES
    if plan.pool:
        shape = (B, H, -(-T // plan.cell), -(-S // plan.cell))
        planes = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
        planes = *planes, np.full(shape, -1, np.int32)
    return Results(
        out=np.empty((B, T, H, E), np.float32),
        statistics=room((len(COLUMN_OF), B, H, T if plan.wanted else 0), np.float32),
        where=room((B, H, T if plan.wanted else 0), np.int64),
        empty=room((B, H, T), np.bool_),
        odd=np.zeros(1, np.int64),
        mean=planes[0],
        most=planes[1],
        place=planes[2],
        rows=np.zeros((B, H, len(_wanted_rows(problem)), S), np.float32),
        received=room((B, H, S if plan.received else 0), np.float32),
    )


def _received(space: Workspace, plan: Plan, copies: int) -> np.ndarray:
    """Float64 [copies, B, H, S] for the sums over columns, or empty if nobody asked."""
    shape = (copies, plan.batch, plan.heads, plan.keys)
    if not plan.received:
        return np.zeros((copies, 1, plan.heads, 0))
    size = math.prod(shape)
    return space.take("received", size, np.float64)[:size].reshape(shape)


def _inputs(problem: Problem, *, as_they_lie: bool) -> Inputs:
    """What the workers read. `as_they_lie`: bfloat16 keys and values are not widened here."""
    q, q_at = _flat(problem.q, torch.float32)
    k_half = v_half = _NO_HALF
    if as_they_lie:
        k, v = _NOTHING[torch.float32][0], _NOTHING[torch.float32][0]
        k_half, k_at = _flat(problem.k.detach().view(torch.int16), torch.int16)
        v_half, v_at = _flat(problem.v.detach().view(torch.int16), torch.int16)
        k_half, v_half = k_half.view(np.uint16), v_half.view(np.uint16)
    else:
        k, k_at = _flat(problem.k, torch.float32)
        v, v_at = _flat(problem.v, torch.float32)
    bias, bias_at = _flat(problem.bias, torch.float32)
    mask, mask_at = _flat(problem.mask, torch.uint8)  # type: ignore[arg-type]
    sinks = _NO_SINKS if problem.sinks is None else problem.sinks.detach().double().numpy()
    newest, older = _links(problem.request.tokens, problem.k.shape[2])
    slot_of = _NO_SLOTS
    if problem.request.rows:
        slot_of = np.full(problem.q.shape[2], -1, np.int32)
        wanted = _wanted_rows(problem)
        slot_of[wanted] = np.arange(len(wanted))
    return Inputs(
        q, q_at, k, k_at, v, v_at, bias, bias_at, mask, mask_at, sinks,
        *problem.spans.arrays, newest, older, slot_of, k_half, v_half,
    )  # fmt: skip


def _wanted_rows(problem: Problem) -> list[int]:
    """The queries whose full rows are wanted, each once."""
    if not problem.request.rows:
        return []
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
        wide=own("wide", 0 if packed else TILE * max(plan.width, plan.value_width)),
    )


def _run_prefill(
    inputs: Inputs, plan: Plan, results: Results, threads: int, space: Workspace, slots: int
) -> None:  # fmt: skip
    rows = -(-plan.tokens * (plan.heads // plan.groups) // ROWS) * ROWS
    sizes = (rows * plan.inner, slots * rows * TILE, rows, (plan.slots + 1) * rows)
    received = _received(space, plan, threads)
    received.fill(0.0)
    scratch = [_scratch(space, n, plan, received, sizes) for n in range(threads)]
    counters = np.zeros(3, np.int64)
    crew(lambda n: workers.prefill_worker(inputs, plan, scratch[n], results, counters), threads)
    if plan.received:
        np.sum(received, axis=0, out=received[0])
        results.received[...] = received[0]


def _run_decode(
    inputs: Inputs, plan: Plan, results: Results, threads: int, space: Workspace
) -> None:  # fmt: skip
    from attnscope.core.fused_decode import decode_worker

    shared, scratch = space.remember(
        "decode", (plan, threads), lambda: _decode_memory(space, plan, threads)
    )
    counters = np.zeros(1 + plan.batch * plan.groups, np.int64)
    crew(lambda n: decode_worker(inputs, plan, shared, scratch[n], results, counters), threads)


def _decode_memory(
    space: Workspace, plan: Plan, threads: int
) -> tuple[workers.Chunks, list[Scratch]]:
    """What the threads of a decode share, and what each has for itself."""
    heads, pairs = plan.heads // plan.groups, plan.batch * plan.groups
    rows = plan.queries * heads
    tiles = max(1, min(plan.slots, -(-plan.slots * pairs // (TASKS * threads))))
    chunks = max(1, -(-plan.slots // tiles))
    width = -(-plan.value_width // COLUMNS) * COLUMNS
    state = space.take("chunks/state", pairs * chunks * rows * STATES, np.float64)
    shared = workers.Chunks(
        strip=space.take("chunks/strip", pairs * plan.slots * rows * TILE),
        references=space.take("chunks/references", pairs * plan.slots * rows),
        state=state[: state.size // STATES * STATES].reshape(-1, STATES),
        acc=space.take("chunks/acc", pairs * chunks * -(-rows // ROWS) * ROWS * width),
        chunks=chunks,
        tiles=tiles,
    )
    # Each head is finished by one thread, so one line per head is enough.
    received = _received(space, plan, 1)
    sizes = (rows * plan.width, 0, rows, 0)
    return shared, [_scratch(space, n, plan, received, sizes) for n in range(threads)]


def _attention(problem: Problem, plan: Plan, results: Results) -> Attention:
    """Bring what the threads wrote to the form that `attend` returns."""
    output = torch.from_numpy(results.out).transpose(1, 2).to(problem.v.dtype)
    statistics = {}
    columns = torch.from_numpy(results.statistics).unbind()
    for name in problem.request.names:
        if name == "received":
            statistics[name] = torch.from_numpy(results.received)
        elif name == "argmax":
            statistics[name] = torch.from_numpy(results.where)
        else:
            statistics[name] = columns[COLUMN_OF[name]]
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
