"""The colours of the map: those of the values, the same however it is drawn; and what is saved."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from map_page import FINE, READY, Held, View, map_link, place_of, wait_drawn

TRACE = "llama-long"
VIEW = View(700, 900, 20)
PAIRS = [(900, 700), (890, 690), (905, 711), (888, 708), (911, 693)]
STEP = 6
"""Of 255: the two ways round a value to one of 256 colours apart, and colours next to each other
differ by at most 3; two such steps."""

READ_PIXELS = """async ([image, points]) => {
  const blob = await (await fetch('data:image/png;base64,' + image)).blob();
  const bitmap = await createImageBitmap(blob);
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext('2d');
  context.drawImage(bitmap, 0, 0);
  return points.map(([x, y]) => [...context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data]);
}"""

WANTED = """async ([values, look]) => {
  const { paletteTable } = await import('./static/js/draw/palettes.js');
  const { colourIndex } = await import('./static/js/draw/scale.js');
  const table = paletteTable(look.palette);
  return values.map((value) => [...table.subarray(3 * colourIndex(look, value)).subarray(0, 3)]);
}"""


@pytest.fixture(scope="module")
def browser(browser: Any) -> Iterator[Any]:
    """A Chromium that draws WebGL on the processor, so that both ways can be compared."""
    chromium = browser.browser_type.launch(
        executable_path=shutil.which("chromium"),
        args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
    )
    yield chromium
    chromium.close()


@pytest.fixture
def blank(browser: Any) -> Iterator[Any]:
    """A page without the app's policy, to decode pictures in."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def draw_with(page: Any, way: str) -> None:
    """Have maps drawn in one of the two ways."""
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => {"
        " const place = document.getElementById('attnscope');"
        f" if (place) place.dataset.draw = '{way}'; }});"
    )


def open_with(page: Any, open_app: Callable[..., Any], link: str, way: str) -> None:
    """Open a map that is drawn in one of the two ways."""
    draw_with(page, way)
    open_app(link)
    wait_drawn(page)
    assert page.locator(".map-figure").get_attribute("data-drawing") == way


def colours(page: Any, blank: Any, pairs: list[Any], view: View) -> np.ndarray:
    """The colours of the middles of some cells."""
    image = base64.b64encode(page.screenshot()).decode()
    points = [place_of(page, view, query, key) for query, key in pairs]
    return np.array(blank.evaluate(READ_PIXELS, [image, points]), int)[:, :3]


@pytest.mark.parametrize("way", ["webgl2", "canvas2d"])
@pytest.mark.parametrize("scale", ["raw", "log"])
def test_a_cell_has_the_colour_of_its_weight(
    page: Any, open_app: Callable[..., Any], served: Any, blank: Any, way: str, scale: str
) -> None:
    rows = served.traces[TRACE].weights(1, 2, [query for query, _ in PAIRS], dtype=np.float64)
    values = [float(rows[at, key]) for at, (_, key) in enumerate(PAIRS)]
    low, high = (float(f"{end:.4g}") for end in (0.9 * min(values), 1.1 * max(values)))
    fields = f"scale={scale}&range={low},{high}&palette=cividis"
    open_with(page, open_app, map_link(TRACE, 1, 2, VIEW, fields), way)
    found = colours(page, blank, PAIRS, VIEW)
    look = {"scale": scale, "plane": "mean", "low": low, "high": high, "palette": "cividis"}
    wanted = np.array(page.evaluate(WANTED, [values, look]))
    assert np.abs(found - wanted).max() <= STEP
    assert np.ptp(wanted, axis=0).max() > 4 * STEP, "cells so alike would prove nothing"


@pytest.mark.parametrize("way", ["webgl2", "canvas2d"])
def test_a_tile_that_is_not_here_has_its_parents_colours_meanwhile(
    page: Any, open_app: Callable[..., Any], served: Any, blank: Any, way: str
) -> None:
    """A coarse cell's mean sums over its keys: each pair is shown its even part of it."""
    size, first, last = 8, 888, 912  # cells of the tile that holds the whole text
    rows = served.traces[TRACE].weights(1, 2, slice(first, last), dtype=np.float64)
    corners = [(904, 696), (888, 704), (896, 688), (896, 704)]
    pairs = [(top + at, left + size - 1 - at) for top, left in corners for at in (0, 3, 7)]
    own = [float(rows[query - first, key]) for query, key in pairs]
    cells = [rows[top - first :][:size, left : left + size].mean() for top, left in corners]
    parts = np.repeat(cells, len(pairs) // len(cells)).tolist()
    low, high = (float(f"{end:.4g}") for end in (0.9 * min(parts), 1.1 * max(parts)))
    look = {"scale": "log", "plane": "mean", "low": low, "high": high, "palette": "cividis"}
    held = Held(page, FINE)
    draw_with(page, way)
    open_app(map_link(TRACE, 1, 2, VIEW, f"scale=log&range={low},{high}&palette=cividis"))
    page.wait_for_selector(".map-figure[data-pending='1']")  # the one tile in sight
    page.wait_for_selector(f".map-figure[data-drawing='{way}']")
    assert len(held.routes) == 1
    for values in (parts, own):
        found = colours(page, blank, pairs, VIEW)
        wanted = np.array(page.evaluate(WANTED, [values, look]))
        assert np.abs(found - wanted).max() <= STEP
        assert np.ptp(wanted, axis=0).max() > 4 * STEP, "cells so alike would prove nothing"
        held.free()
        page.wait_for_function(READY)


@pytest.mark.parametrize(
    "fields",
    [
        "scale=uniform&range=0.2,5",
        "scale=expected&plane=max&range=0.2,5",
        "scale=log&range=0.0001,0.01&with=llama-long/3.0",
    ],
)
@pytest.mark.parametrize(("pixels", "cell"), [(20.0, 1), (0.37, 4)])
def test_both_ways_of_drawing_give_the_same_colours(
    page: Any, open_app: Callable[..., Any], blank: Any, fields: str, pixels: float, cell: int
) -> None:
    view = View(700, 900, pixels)
    spread = range(-12, 13, 6) if cell == 1 else range(-600, 601, 300)
    # The middle of the cell, in tokens: the middle of its middle pair.
    middle = [
        (
            (900 + down) // cell * cell + (cell - 1) / 2,
            (700 + right) // cell * cell + (cell - 1) / 2,
        )
        for down in spread
        for right in spread
    ]
    link = map_link(TRACE, 1, 2, view, fields)
    seen = []
    for way in ("webgl2", "canvas2d"):
        open_with(page, open_app, link, way)
        inside = [pair for pair in middle if in_sight(page, view, pair)]
        seen.append(colours(page, blank, inside, view))
    assert len(seen[0]) >= 9
    assert np.abs(seen[0] - seen[1]).max() <= STEP
    assert np.ptp(seen[0], axis=0).max() > 4 * STEP


def in_sight(page: Any, view: View, pair: tuple[float, float]) -> bool:
    """Whether a place is on the picture and on the map."""
    try:
        place_of(page, view, *pair)
    except AssertionError:
        return False
    return min(pair) >= 0 and max(pair) < 1990


def test_what_is_masked_is_paper(page: Any, open_app: Callable[..., Any], blank: Any) -> None:
    view = View(500, 500, 20)
    for way in ("webgl2", "canvas2d"):
        open_with(page, open_app, map_link(TRACE, 1, 2, view), way)
        found = colours(page, blank, [(495, 505), (500, 501)], view)
        assert found.tolist() == [[0xF7, 0xF7, 0xF5]] * 2  # --ground, in the light


@pytest.mark.parametrize("way", ["webgl2", "canvas2d"])
@pytest.mark.parametrize("pixels", [3.37, 0.77])
def test_no_seam_shows_between_tiles(
    page: Any, open_app: Callable[..., Any], blank: Any, way: str, pixels: float
) -> None:
    """Where every weight is above the bright end, what is in sight is one colour."""
    view = View(900, 1400, pixels)
    open_with(page, open_app, map_link(TRACE, 1, 2, view, "scale=log&range=1e-30,1e-29"), way)
    box = page.locator(".map-tiles").bounding_box()
    image = base64.b64encode(page.screenshot()).decode()
    # From the middle of the picture to its lower left: rows see every key there.
    left, top = box["x"] + box["width"] / 4, box["y"] + box["height"] / 2
    right, bottom = box["x"] + box["width"] / 2, min(box["y"] + box["height"], 790)
    points = [[x, y] for y in range(int(top), int(bottom) - 4) for x in (left, right)]
    points += [[x, y] for x in range(int(left), int(right)) for y in (top, bottom - 5)]
    found = np.array(blank.evaluate(READ_PIXELS, [image, points]), int)[:, :3]
    assert len(found) > 500
    assert np.ptp(found, axis=0).max() == 0


def save(page: Any, kind: str) -> tuple[str, bytes]:
    """Save by the menu; the file's name and its bytes."""
    page.locator(".map-export summary").click()
    with page.expect_download() as download:
        page.locator(f"[data-export={kind}]").click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_numbers_in_sight_are_saved(
    open_app: Callable[..., Any], served: Any, kind: str
) -> None:
    view = View(700, 720, 40)
    page = open_app(map_link(TRACE, 1, 2, view))
    wait_drawn(page)
    name, data = save(page, kind)
    assert name.endswith(f"layer1-head2-weight.{kind}")
    if kind == "csv":
        rows = list(csv.DictReader(io.StringIO(data.decode())))
        table = [(int(one["query"]), int(one["key"]), float(one["weight"])) for one in rows]
    else:
        parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
        columns = parquet.read_table(io.BytesIO(data)).to_pydict()
        table = list(zip(columns["query"], columns["key"], columns["weight"], strict=True))
    box = page.locator(".map-tiles").bounding_box()
    half = box["height"] / 2 / view.pixels
    queries = sorted({query for query, _, _ in table})
    assert queries == list(range(int(720 - half), int(np.ceil(720 + half))))
    weights = served.traces[TRACE].weights(1, 2, queries, dtype=np.float64)
    found = {(query, key): value for query, key, value in table}
    assert all(key <= query for query, key in found)
    for (query, key), value in found.items():
        assert value == pytest.approx(weights[query - queries[0], key], rel=1e-5)  # float32


def test_a_saved_drawing_says_what_it_is(open_app: Callable[..., Any]) -> None:
    page = open_app(map_link(TRACE, 1, 2, VIEW, "scale=log&palette=cividis"))
    wait_drawn(page)
    name, data = save(page, "svg")
    assert name.endswith("layer1-head2-weight.svg")
    root = ElementTree.fromstring(data)
    assert root.tag.endswith("svg")
    texts = "\n".join("".join(one.itertext()) for one in root.iter() if one.tag.endswith("}text"))
    for part in [
        "layer 1, head 2",
        "Attention weight, Log",
        "10⁻⁵",
        "queries ↓",
        "keys →",
        "small",
    ]:
        assert part in texts
    image = next(one for one in root.iter() if one.tag.endswith("image"))
    assert base64.b64decode(image.attrib["href"].partition(",")[2]).startswith(b"\x89PNG")
    view = json.loads(next(one for one in root.iter() if one.tag.endswith("metadata")).text or "")
    assert (view["layer"], view["head"], view["scale"]) == (1, 2, "log")
    secret = re.findall(r"[0-9a-f]{32}", page.url)[0]
    assert secret.encode() not in data


def test_a_saved_picture_is_the_figure(page: Any, open_app: Callable[..., Any], blank: Any) -> None:
    open_with(page, open_app, map_link(TRACE, 1, 2, VIEW, "scale=log"), "webgl2")
    _, data = save(page, "png")
    box = page.locator(".map-figure").bounding_box()
    tiles = page.locator(".map-tiles").bounding_box()
    width, height = np.frombuffer(data[16:24], ">u4")
    assert width == 2 * int(box["width"])
    assert height > 2 * int(box["height"])  # the scale below it
    on_page = [place_of(page, VIEW, *pair) for pair in PAIRS]
    points = [[2 * (x - box["x"]), 2 * (y - box["y"])] for x, y in on_page]
    saved = np.array(blank.evaluate(READ_PIXELS, [base64.b64encode(data).decode(), points]))[:, :3]
    assert tiles["width"] > 0
    assert np.abs(saved - colours(page, blank, PAIRS, VIEW)).max() <= STEP
