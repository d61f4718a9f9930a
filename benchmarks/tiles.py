"""How long a tile takes, on traces of the real sizes with random queries and keys.

Two kinds of layer of gemma3 at 32,768 tokens (head width 256; a full one, and one of window 512, of
which the model has 15 to 3) and a layer of smollm2 at 8,192 (width 64), saved and opened by memory
map, with the map that a capture stores. Printed per level: median and 95th percentile of tiles that
were not there before. Then a reader's way, head after head: the whole, and six tiles around a place
on every level down to the pairs; the 95th percentile of all its requests has to be within 50 ms.
Memory is what the process holds beyond the mapped file.

    python benchmarks/tiles.py
    python benchmarks/tiles.py --tiles 30 --heads 36
    python benchmarks/tiles.py --scale 8               texts of an eighth of the length, to try it
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# One BLAS thread: the two threads that share a tile's strips are the tile source's own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from gate import require

from attnscope.tiles import MEASURES, Tiles
from attnscope.tiles.grid import TILE, Grid
from attnscope.tiles.head import Head
from attnscope.tiles.source import Source
from attnscope.tiles.strips import Region, Scratch, Workshop, cells
from attnscope.trace import Trace, TraceWriter, open_trace

GOAL_MS = 50.0
GOAL_MB = 300
LAYERS = {
    "gemma3 full": {"tokens": 32768, "width": 256, "window": None, "share": 3},
    "gemma3 sliding": {"tokens": 32768, "width": 256, "window": 512, "share": 15},
    "smollm2": {"tokens": 8192, "width": 64, "window": None, "share": 18},
}
"""What is measured; `share` is how often a reader opens such a head."""


def logsumexp(q: np.ndarray, k: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The log-sum-exp of each row, band by band in float32."""
    found, tokens = np.empty(len(q), np.float32), len(q)
    for at in range(0, tokens, 256):
        rows = np.arange(at, min(at + 256, tokens))
        keys = np.arange(first[at], rows[-1] + 1)
        scores = q[rows] @ k[keys].T * np.float32(q.shape[1] ** -0.5)
        scores[(keys > rows[:, None]) | (keys < first[rows, None])] = -np.inf
        top = scores.max(axis=1, keepdims=True)
        np.exp(scores - top, out=scores)
        found[rows] = np.log(scores.sum(axis=1)) + top[:, 0]
    return found


def saved(folder: Path, *, tokens: int, width: int, window: int | None) -> Path:
    """A trace of one layer and one head, with the map that a capture stores."""
    make = np.random.default_rng(0)
    q = make.standard_normal((tokens, width), dtype=np.float32)
    k = make.standard_normal((tokens, width), dtype=np.float32)
    place = np.arange(tokens, dtype=np.int32)
    first = np.maximum(place - (window or tokens) + 1, 0).astype(np.int32)
    arrays = {
        "q": q[None], "k": k[None], "logsumexp": logsumexp(q, k, first)[None],
        "first": first, "end": place + 1, "origin": np.zeros(tokens, np.int32),
        "value_norms": make.random((1, tokens), dtype=np.float32),
    }  # fmt: skip
    header = {
        "model": {"name": "random", "architecture": "Random", "layers": 1, "query_heads": 1,
                  "kv_heads": 1, "head_width": width, "width": width},
        "mode": "replace", "statistics": ["logsumexp"], "tokens": [], "text": "",
        "layers": [{"index": 0, "kind": "sliding" if window else "full", "window": window,
                    "value_width": width, "scale": width**-0.5}],
    }  # fmt: skip
    bare = Trace.from_arrays(header, {0: arrays})
    grid = Grid(tokens, tokens)
    whole = Region(grid.whole, *(slice(0, n) for n in grid.cells(grid.whole)))
    mean, most, argmax = cells(Head(bare.layer(0), 0, 1), whole, Workshop(Scratch()))
    arrays |= {"map_mean": mean[None], "map_max": most[None], "map_argmax": argmax[None]}
    arrays["map_cell"] = np.array([1 << grid.whole], np.int32)
    with TraceWriter(folder, header) as writer:
        writer.add_layer(0, arrays)
    return folder


def timed(call: Callable[[], object]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def say(**row: object) -> None:
    print(json.dumps(row), flush=True)


def spread(times: list[float]) -> dict[str, float]:
    return {
        "median_ms": round(float(np.median(times)), 2),
        "p95_ms": round(float(np.percentile(times, 95)), 2),
        "max_ms": round(max(times), 2),
    }


def shown(source: Source, level: int, measure: str) -> list[tuple[int, int]]:
    """The tiles of a level that show something."""
    high, wide = source.grid.tiles(level)
    return [
        (x, y) for y in range(high) for x in range(wide)
        if source.in_sight(source.grid.place(level, x, y))
    ] if high * wide < 1 << 15 else []  # fmt: skip


def by_level(name: str, trace: Trace, count: int) -> None:
    """Tiles that were not there before, level by level."""
    make = np.random.default_rng(1)
    source = Source(Head(trace.layer(0), 0, 1))
    for measure in MEASURES:
        for level in reversed(range(source.grid.levels)):
            if measure not in ("weight", "uniform") and level >= source.grid.whole:
                continue  # a pass over the map: printed apart
            places = shown(source, level, measure)
            picked = make.permutation(len(places))[:count]
            times = []
            with Tiles(trace, cache_bytes=0, prefetch=False) as held:
                held.tile(0, 0, measure, 0, 0, 0)
                for one in picked:
                    times.append(timed(lambda: held.tile(0, 0, measure, level, *places[one])))  # noqa: B023
            say(case=name, measure=measure, level=level, tiles=len(times), **spread(times))
        if measure.startswith("arrived") or measure == "weight-no-sink":
            with Tiles(trace, prefetch=False) as held:
                top = source.grid.levels - 1
                first = timed(lambda: held.tile(0, 0, measure, top, 0, 0))  # noqa: B023
                base = timed(lambda: held.tile(0, 0, measure, source.grid.whole, 0, 0))  # noqa: B023
            say(case=name, measure=measure, whole_map_first_ms=round(first), then_ms=round(base, 2))


def way(held: Tiles, make: np.random.Generator, tokens: int) -> Iterator[float]:
    """The requests of somebody who opens a head and zooms to a pair, in milliseconds each."""
    grid = Grid(tokens, tokens)
    query = int(make.integers(tokens))
    key = int(make.integers(max(0, query - 512), query + 1))
    for level in reversed(range(grid.levels)):
        high, wide = grid.tiles(level)
        y, x = query // (TILE << level), key // (TILE << level)
        for v in (y, y + 1 if y + 1 < high else y - 1):
            for u in (x - 1, x, x + 1):
                if 0 <= v < high and 0 <= u < wide:
                    yield timed(lambda: held.tile(0, 0, "weight", level, u, v))  # noqa: B023


@contextmanager
def watched() -> Iterator[list[int]]:
    """The largest anonymous memory of the process meanwhile, in bytes, as the list's last entry."""
    found, stop = [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
            line = next(line for line in lines if line.startswith("RssAnon"))
            found[0] = max(found[0], int(line.split()[1]) << 10)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def main() -> None:
    """Run it; exit with 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=20, help="tiles per level")
    parser.add_argument("--heads", type=int, default=36, help="heads that the reader opens")
    parser.add_argument("--scale", type=int, default=1, help="divides the length of the texts")
    given = parser.parse_args()
    require(
        "tiles/test_tile.py::test_every_level_is_the_dense_map",
        "tiles/test_held.py::test_every_tile_is_the_pure_one",
    )
    with tempfile.TemporaryDirectory() as folder:
        traces = {}
        for name, case in LAYERS.items():
            sizes = {"tokens": case["tokens"] // given.scale, "width": case["width"]}
            path = saved(Path(folder) / name.replace(" ", "-"), window=case["window"], **sizes)
            traces[name] = open_trace(path)
        # nothing of the making is left in the figures
        with watched() as memory:
            for name, trace in traces.items():
                by_level(name, trace, given.tiles)
            make, all_times = np.random.default_rng(2), []
            total = sum(case["share"] for case in LAYERS.values())
            for name, case in LAYERS.items():
                times: list[float] = []
                for _ in range(max(1, round(given.heads * case["share"] / total))):
                    with Tiles(traces[name]) as held:  # a new one: nothing is kept from before
                        times += way(held, make, case["tokens"] // given.scale)
                say(case=name, way="the whole, then six tiles a level", requests=len(times),
                    **spread(times))  # fmt: skip
                all_times += times
        held_mb = memory[0] / 2**20
        result = spread(all_times)
        say(case="all", requests=len(all_times), anonymous_mb=round(held_mb), **result)
    if result["p95_ms"] > GOAL_MS or held_mb > GOAL_MB:
        sys.exit(f"expected a 95th percentile within {GOAL_MS:g} ms and {GOAL_MB} MB")


if __name__ == "__main__":
    main()
