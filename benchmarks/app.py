"""How quick the app is on a trace: a real server, a real Chromium, and a hand that pans and zooms.

    python benchmarks/app.py TRACE [--json] [--quick]

Prints, with the bound of each: first paint; a request for tiles as the page makes them (95th
percentile); from a movement of the map until all of it is drawn (95th percentile); the longest task
of the page while it moves; and the server's memory beyond the mapped trace. Exits with 1 where a
bound is missed. reader.py says what is driven, and what is counted.

Without a bound it prints how many of each were counted; how long it takes from opening a link until
the map is drawn; and what any tile costs that nobody came near before, of random heads, levels and
places: the finest levels that a map was not kept of are sums of millions.

Units: milliseconds and MiB. Memory is what the kernel calls anonymous: pages that are no file's.

Not here: how fast a capture is (attnscope bench).
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gate import require
from reader import read

BOUNDS: Final = {
    "first_paint_ms": 1000.0,
    "tile_p95_ms": 50.0,
    "pan_p95_ms": 150.0,
    "longest_task_ms": 100.0,
    "server_mib": 300.0,
}
TILES: Final = 300
HEADS: Final = 4
SAMPLE_SECONDS: Final = 0.05


@contextmanager
def server(trace: Path) -> Iterator[tuple[str, int]]:
    """A running server: its address and its process."""
    with tempfile.TemporaryDirectory() as captures:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "attnscope", "serve", str(trace), "--no-open",
                "--traces", captures,
            ],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()
            process.communicate()


def anonymous(pid: int) -> float:
    """MiB of a process that belong to no file."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not tell the memory of a process")


class Peak(threading.Thread):
    """The most memory a process had while this ran."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.over = pid, 0.0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, anonymous(self.pid))


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def ask_tiles(address: str, info: dict[str, Any], trace: str, count: int) -> list[float]:
    """Milliseconds for single tiles of random heads, levels and places, none asked for twice."""
    parts, draw = urlsplit(address), random.Random(7)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    layers = [layer for layer in info["layers"] if layer["kind"] != "none"]
    times: list[float] = []
    seen: set[tuple[int, ...]] = set()
    for _ in range(50 * count):  # a small trace may have fewer tiles than were asked for
        layer = draw.choice(layers)
        head, level = draw.randrange(layer["query_heads"]), draw.randrange(layer["levels"])
        wide = -(-layer["keys"] // (256 << level))
        high = -(-layer["queries"] // (256 << level))
        y = draw.randrange(high)
        x = draw.randrange(min(wide, y + 1))
        place = (layer["index"], head, level, x, y)
        if place in seen or len(times) == count:
            continue
        seen.add(place)
        query = f"layer={layer['index']}&head={head}&measure=weight&level={level}&at={x}.{y}"
        started = time.perf_counter()
        connection.request("GET", f"{parts.path}api/traces/{trace}/tiles?{query}")
        answer = connection.getresponse()
        body = answer.read()
        times.append(1000 * (time.perf_counter() - started))
        if answer.status != 200:
            raise RuntimeError(f"{query}: {body[:200]!r}")
    connection.close()
    return times


def drive(address: str, trace: str, info: dict[str, Any], *, quick: bool) -> dict[str, float]:
    """A reader's way through some heads; see reader.py for what is driven and counted."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("This benchmark needs Chromium: apt-get install -y chromium")
    tokens = max(layer["queries"] for layer in info["layers"])
    seen = read(program, address, way(trace, info, 1 if quick else HEADS), tokens)
    slow = [one for one in seen.taken_back if one > BOUNDS["tile_p95_ms"]]
    return {
        "first_paint_ms": statistics.median(seen.paints),
        "map_drawn_ms": statistics.median(seen.maps),
        "tile_p95_ms": p95(seen.requests + slow),
        "pan_p95_ms": p95(seen.moves),
        "longest_task_ms": seen.longest_task,
        "requests": len(seen.requests) + len(slow),
        "taken_back": len(seen.taken_back) - len(slow),
        "moves": len(seen.moves),
    }


def way(trace: str, info: dict[str, Any], count: int) -> list[str]:
    """Links to heads of all kinds of layers by turns."""
    kinds: dict[str, list[str]] = {}
    for layer in info["layers"]:
        for head in range(layer["query_heads"] if layer["kind"] != "none" else 0):
            kinds.setdefault(layer["kind"], []).append(f"#map/{trace}/{layer['index']}.{head}")
    draw = random.Random(5)
    for links in kinds.values():
        draw.shuffle(links)
    turns = zip(*(itertools.cycle(links) for _, links in sorted(kinds.items())), strict=True)
    return list(itertools.islice(itertools.chain.from_iterable(turns), count))


def measure(trace: Path, *, quick: bool) -> dict[str, float]:
    """All figures of one trace."""
    tiles = TILES // 10 if quick else TILES
    with server(trace) as (address, pid):
        peak = Peak(pid)
        peak.start()
        parts = urlsplit(address)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port)
        connection.request("GET", f"{parts.path}api/traces")
        [entry] = json.loads(connection.getresponse().read())["traces"]
        connection.request("GET", f"{parts.path}api/traces/{entry['id']}/info")
        info = json.loads(connection.getresponse().read())
        connection.close()
        found = drive(address, entry["id"], info, quick=quick)
        found["any_tile_p95_ms"] = p95(ask_tiles(address, info, entry["id"], tiles))
        peak.over.set()
        peak.join()
        found["server_mib"] = peak.peak
    return found


def main() -> None:
    """Measure, print, and say whether every bound holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; for a look")
    arguments = parser.parse_args()
    if not arguments.quick:
        require("serve/test_server.py")
    found = measure(arguments.trace, quick=arguments.quick)
    if arguments.json:
        print(json.dumps({"schema": "attnscope.benchmark.app/1", **found}, indent=1))
    else:
        for name, value in found.items():
            bound = f"  (at most {BOUNDS[name]:g})" if name in BOUNDS else ""
            print(f"{name:16} {value:8.1f}{bound}")
    missed = [name for name, bound in BOUNDS.items() if found[name] > bound]
    if missed:
        sys.exit(f"Missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
