"""Takes the pictures of the app that README shows, from real traces, in a real Chromium.

    docs/pictures/overview.png   all heads of SmolLM2 on a short text
    docs/pictures/map.png        one head of SmolLM2 on this repository's LICENSE
    docs/pictures/flow.png       the flow into one token of the short text
    docs/pictures/zoom.png       from the whole map to one pair of tokens, animated

    python docs/pictures.py      about two minutes; needs Chromium, Pillow, and smollm2 pulled

What is shown is chosen by rules (the head with the most induction mass, its largest far pair), so
the pictures follow the model. Each file stays under 400 kB, or the script fails.

Not here: the pictures of the experiments (build_experiments.py).
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import attnscope
from attnscope.trace import Trace

FOLDER: Final = Path(__file__).with_name("pictures")
LICENSE: Final = Path(__file__).parent.parent / "LICENSE"
MODEL: Final = "smollm2"
SHORT: Final = (
    "Xiao Ming gave the apple to Xiao Wang. 小明把苹果给了小王。 Later that day the teacher asked "
    "the class who had the apple, and Xiao Wang raised his hand.\n\n"
    "When Mary and John went to the store, John gave a drink to Mary. When Xiao Ming and Xiao "
    "Wang went to the market, Xiao Ming gave the apple to"
)
MOST_BYTES: Final = 400_000
FRAMES: Final = 20
FAR: Final = 200
FIRST: Final = 32
"""Keys among the first are sinks, and no pair worth a picture."""
LOOK: Final = "&scale=log&range=0.001,1&lang=en"
"""Weights under a thousandth are as dark as none: a picture of noise is large and says nothing."""
SIZE: Final = (406, 320)
COLOURS: Final = 32
NEAREST: Final = 44.0
"""CSS pixels per token at the end of the zoom: wide enough for the tokens' text."""


@dataclass(frozen=True)
class Pair:
    """A pair of tokens of one head, far apart and heavily attended."""

    layer: int
    head: int
    query: int
    key: int


def main() -> None:
    """Capture, serve, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        short = attnscope.capture(MODEL, SHORT, save=place / "short", generate=12)
        text = LICENSE.read_text("utf-8")
        long = attnscope.capture(MODEL, text, save=place / "license")
        pair = far_pair(long)
        with served([place / "short", place / "license"], place) as address:
            take(address, folder, asked=asking_token(short), pair=pair, whole=len(long.tokens))


def far_pair(trace: Trace) -> Pair:
    """A large weight on a key far back, of the head that looks most behind earlier copies."""
    means = trace.statistics.mean()
    at = int(np.argmax(means["induction_mass"]))
    layer, head = int(means["layer"][at]), int(means["head"][at])
    far = np.tril(np.asarray(trace.weights(layer, head)), -FAR)
    far[:, :FIRST] = 0.0
    # Where many are as large as can be told, the one in the middle of the text looks best.
    queries, keys = np.nonzero(far >= 0.9 * far.max())
    middle = int(np.argmin(np.abs(queries + keys - len(far))))
    return Pair(layer, head, int(queries[middle]), int(keys[middle]))


def asking_token(trace: Trace) -> int:
    """The last token of the prompt, from which the first generated one came."""
    return trace.prompt_tokens - 1


@contextmanager
def served(traces: list[Path], place: Path) -> Iterator[str]:
    """The address of a server on these traces."""
    command = [sys.executable, "-m", "attnscope", "serve", *map(str, traces)]
    command += ["--no-open", "--traces", str(place / "captured")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)


def take(address: str, folder: Path, *, asked: int, pair: Pair, whole: int) -> None:
    """Open each view and write its picture."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 760}, reduced_motion="reduce")
        here = f"license/{pair.layer}.{pair.head}"
        views = {
            "overview": "#overview/short?lang=en",
            "map": f"#map/{here}?scale=log&lang=en",
            "flow": f"#flow/short?q={asked}&lang=en",
        }
        for name, view in views.items():
            page.goto("about:blank")
            page.goto(address + view)
            still(page)
            if name == "overview":
                page.locator("[role=gridcell]").first.wait_for()
                page.mouse.move(250, 400)
                still(page)
            write(folder / f"{name}.png", smaller(page.screenshot()))
        write(folder / "zoom.png", zoom(page, address, here, pair=pair, whole=whole))
        browser.close()


def still(page: Any) -> None:
    """Wait until nothing is asked of the server and everything is painted."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(700)


def smaller(png: bytes) -> bytes:
    """The same picture with 256 colours, which is enough for palettes and text."""
    from PIL import Image

    made = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(made, "PNG", optimize=True)
    return made.getvalue()


def zoom(page: Any, address: str, here: str, *, pair: Pair, whole: int) -> bytes:
    """Frames from the whole map to the pair, as an animated PNG."""
    from PIL import Image

    page.set_viewport_size({"width": 1000, "height": 620})
    clip = {"x": 0, "y": 98, "width": 662, "height": 522}  # the map alone
    start = 0.58 * 620 / whole
    frames = []
    for step in range(FRAMES):
        share = step / (FRAMES - 1)
        pixels = start * (NEAREST / start) ** share
        # The middle goes to the pair as fast as the picture grows, so that it runs straight.
        moved = 1 - (start / pixels - start / NEAREST) / (1 - start / NEAREST)
        x = whole / 2 + (pair.key + 0.5 - whole / 2) * moved
        y = whole / 2 + (pair.query + 0.5 - whole / 2) * moved
        chosen = f"&q={pair.query}&k={pair.key}" if step == FRAMES - 1 else ""
        view = f"#map/{here}?view={x:.4f},{y:.4f},{pixels:.5f}{LOOK}{chosen}"
        if step == 0:
            page.goto("about:blank")
            page.goto(address + view)
        else:
            page.evaluate("view => { location.hash = view; }", view)
        still(page)
        picture = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")
        frames.append(picture.resize(SIZE, Image.Resampling.LANCZOS))
    both = Image.new("RGB", (SIZE[0], SIZE[1] * 2))
    both.paste(frames[0], (0, 0))
    both.paste(frames[-1], (0, SIZE[1]))
    colours = both.quantize(COLOURS)
    flat = [one.quantize(palette=colours, dither=Image.Dither.NONE) for one in frames]
    made = io.BytesIO()
    times = [1200] + [110] * (FRAMES - 2) + [3000]
    flat[0].save(made, "PNG", save_all=True, append_images=flat[1:], duration=times, loop=0)
    return made.getvalue()


def write(file: Path, data: bytes) -> None:
    """Write a picture.

    Raises:
        ValueError: it is too large for a README.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"{file.name}: {len(data):,} bytes, expected at most {MOST_BYTES:,}")
    file.write_bytes(data)
    print(f"{file}  {len(data):,} bytes")


if __name__ == "__main__":
    main()
