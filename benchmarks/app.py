"""How quick the app is on a trace: a real server, a real Chromium, and a hand that pans and zooms.

    python benchmarks/app.py TRACE [--json] [--quick]

Prints, with the bound of each: first paint, a request for tiles as the page makes them (95th
percentile), from a movement of the map until all of it is drawn (95th percentile), the longest task
of the page while it moves, and the server's memory beyond the mapped trace. Exits with 1 where a
bound is missed. Without a bound it prints what any tile costs that nobody came near before, of
random heads, levels and places: the finest levels that a map was not kept of are sums of millions.

Units: milliseconds and MiB. Memory is what the kernel calls anonymous: pages that are no file's.

Not here: how fast a capture is (attnscope bench).
"""

from __future__ import annotations

import argparse
import http.client
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

BOUNDS: Final = {
    "first_paint_ms": 1000.0,
    "tile_p95_ms": 50.0,
    "pan_p95_ms": 150.0,
    "longest_task_ms": 100.0,
    "server_mib": 300.0,
}
TILES, PANS = 300, 60
SAMPLE_SECONDS: Final = 0.05

WATCH: Final = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.tasks.push(one.duration);
  }).observe({ type: "longtask" });
}"""
REQUESTS: Final = """() => {
  performance.clearResourceTimings();
  performance.setResourceTimingBufferSize(10000);
}"""
TAKEN: Final = """() => performance.getEntriesByType("resource")
  .filter((one) => one.name.includes("/tiles?") && one.responseStatus === 200)
  .map((one) => one.responseEnd - one.requestStart)"""
PAN: Final = """(key) => new Promise((resolve) => {
  const figure = document.querySelector(".map-figure");
  const proxy = document.querySelector(".map-proxy");
  proxy.focus();
  const started = performance.now();
  proxy.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const look = (frames) => {
    const drawn = frames > 1 && figure.dataset.pending === "0";
    if (drawn || performance.now() - started > 10000) resolve(performance.now() - started);
    else requestAnimationFrame(() => look(frames + 1));
  };
  requestAnimationFrame(() => look(0));
})"""
PAINT: Final = """() => new Promise((resolve) => {
  const found = performance.getEntriesByName("first-contentful-paint")[0];
  if (found) resolve(found.startTime);
  else new PerformanceObserver((list, self) => {
    self.disconnect();
    resolve(list.getEntriesByName("first-contentful-paint")[0].startTime);
  }).observe({ type: "paint", buffered: true });
})"""


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
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
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


def drive(address: str, trace: str, info: dict[str, Any], pans: int) -> dict[str, float]:
    """Open the map in Chromium, zoom and pan."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        sys.exit("This benchmark needs Chromium: apt-get install -y chromium")
    mapped = [one for one in info["layers"] if one["kind"] != "none"]
    layer = next((one for one in mapped if one["kind"] == "full"), mapped[0])
    view = f"#map/{trace}/{layer['index']}.0"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        paints = []
        for _ in range(3):
            page.goto("about:blank")
            page.goto(address + view)
            paints.append(page.evaluate(PAINT))
            # not wait_for_function: the page's policy forbids to evaluate strings
            page.wait_for_selector(
                ".map-figure[data-pending='0']", state="attached", timeout=60_000
            )
        page.evaluate(WATCH)
        page.evaluate(REQUESTS)
        draw, times = random.Random(3), []
        for step in range(pans):
            key = "+" if step % 6 == 5 else draw.choice("wasd")
            if step % 30 == 29:
                key = "f"
            times.append(page.evaluate(PAN, key))
        longest = max(page.evaluate("window.tasks"), default=0.0)
        requests = page.evaluate(TAKEN)
        browser.close()
    return {
        "tile_p95_ms": p95(requests),
        "first_paint_ms": statistics.median(paints),
        "pan_p95_ms": p95(times),
        "longest_task_ms": longest,
    }


def measure(trace: Path, *, quick: bool) -> dict[str, float]:
    """All figures of one trace."""
    tiles, pans = (TILES // 10, PANS // 4) if quick else (TILES, PANS)
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
        found = drive(address, entry["id"], info, pans)
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
