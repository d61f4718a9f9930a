"""What is drawn without text is, pixel by pixel, what was drawn before (pictures/*.png).

Text is left out: its pixels are those of the fonts of a machine. What remains is stable: the tiles
of the map at every scale, its triangle of comparison, the overview's cells and marks, thumbnails
and colour bars. The numbers come from arithmetic in the page, so no capture can change them.

    WRITE_PICTURES=1 python -m pytest tests/browser/test_stored_pictures.py     writes them anew
"""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from fakes import open_fake
from map_page import wait_drawn
from PIL import Image

STORED: Final = Path(__file__).with_name("pictures")
STEP: Final = 6
"""Of 255. Neighbours of a palette differ by at most 3; a last digit of exp may move one."""
SHARE: Final = 1e-3
"""Of pixels that may differ by more: a value on the edge of two colours, a pixel on an edge."""

MAP: Final = ".map-tiles"
PICTURES: Final = {
    "map-log": ("#map/fake/0.2", MAP, {}),
    "map-raw-cividis": ("#map/fake/0.1?scale=raw&palette=cividis&range=0,0.2", MAP, {}),
    "map-uniform-window": ("#map/fake/1.0?scale=uniform", MAP, {}),
    "map-expected-max": ("#map/fake/0.3?scale=expected&plane=max", MAP, {}),
    "map-compared": ("#map/fake/0.0?with=fake/0.3", MAP, {}),
    "map-without-sink": ("#map/fake/0.0?measure=weight-no-sink", MAP, {}),
    "map-near": ("#map/fake/0.2?view=150,160,31.3", MAP, {}),
    "bar-log": ("#map/fake/0.2", ".map-side canvas", {}),
    "heads-by-layer": ("#overview/made", ".field-of-heads canvas", {"layers": 9, "heads": 48}),
    "heads-by-kind": (
        "#overview/made?sort=kind&statistic=mean_distance&palette=cividis",
        ".field-of-heads canvas", {"layers": 40, "heads": 64, "kv": 8, "blind": [2]},
    ),
    "thumbnail": ("#overview/made/1.2", ".detail canvas", {"tokens": 200}),
}  # fmt: skip


def drawn(page: Any, name: str) -> np.ndarray:
    """The canvas of a picture, [height, width, RGBA]."""
    view, place, size = PICTURES[name]
    fake = "fake_trace.js" if "/made" in view else "fake_source.js"
    page.set_viewport_size({"width": 800, "height": 560})
    open_fake(page, view, fake=fake, **size)
    page.wait_for_selector(place)
    if place != ".field-of-heads canvas" and "overview" not in view:
        wait_drawn(page)
    page.wait_for_timeout(400)
    url = page.locator(place).first.evaluate("canvas => canvas.toDataURL('image/png')")
    return read(base64.b64decode(url.partition(",")[2]))


def read(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"), int)


def differs(one: np.ndarray, other: np.ndarray) -> float:
    """The share of pixels that are of another colour."""
    if one.shape != other.shape:
        return 1.0
    return float((np.abs(one - other).max(axis=2) > STEP).mean())


LOOKS: Final = [(name, "light") for name in PICTURES]
LOOKS += [(name, "dark") for name in ("map-log", "map-near", "heads-by-layer", "bar-log")]


@pytest.mark.parametrize(("name", "theme"), LOOKS)
def test_a_picture_is_as_it_was(page: Any, name: str, theme: str) -> None:
    file, found = STORED / f"{name}-{theme}.png", drawn(page, name)
    assert len(np.unique(found.reshape(-1, 4), axis=0)) > 8, "a blank picture would prove nothing"
    if os.environ.get("WRITE_PICTURES"):
        STORED.mkdir(exist_ok=True)
        Image.fromarray(found.astype(np.uint8)).save(file, optimize=True)
    assert differs(found, read(file.read_bytes())) <= SHARE


def test_another_picture_is_caught() -> None:
    """Each picture, moved by three pixels or in other colours, is another."""
    for file in sorted(STORED.glob("*.png")):
        whole = read(file.read_bytes())
        assert differs(whole, whole) == 0
        moved = np.roll(whole, 3, axis=1)
        assert differs(moved, whole) > SHARE
        swapped = whole[:, :, [2, 1, 0, 3]]
        assert differs(swapped, whole) > SHARE
