"""What a lesson says without a number: arrows and hands, marks and colours, where the reader is.

Not here: the numbers themselves (test_lesson_*.py, test_lessons_rest.py).
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from lessons_site import address, choose, move, opened

from attnscope.lessons import reading


def tip(path: Any) -> complex:
    """Where a line from the middle ends, with y upwards as on paper."""
    x, y = map(float, re.match(r"M0 0L(\S+) (-?[\d.]+)", path.get_attribute("d")).groups())
    return complex(x, -y)


def turned(point: complex) -> float:
    """The angle of a point in degrees, 0 to 360."""
    return math.degrees(math.atan2(point.imag, point.real)) % 360


def test_arrows_are_drawn_where_their_numbers_say(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "06-rope").locator("#widget-turn")
    for name, value in (("i", 9), ("j", 4), ("degrees", 15), ("between", -30)):
        move(widget, name, value)
    for name, still, by in (("law", -30, 9 * 15), ("second", 0, 4 * 15)):
        assert turned(tip(widget.locator(f"path.{name}.faint"))) == pytest.approx(
            still % 360, abs=0.2
        )
        now = tip(widget.locator(f"path.{name}:not(.faint)"))
        assert turned(now) == pytest.approx((still + by) % 360, abs=0.2)
    q, k = (abs(tip(widget.locator(f"path.{name}:not(.faint)"))) for name in ("law", "second"))
    assert q / k == pytest.approx(1.5 / 2, rel=0.01)
    # Around the whole circle, to either side: as on a clock, and never below 0.
    move(widget, "j", 20)
    between = widget.locator('output[data-name="between"]')
    assert between.inner_text() == f"{(-30 + 15 * (9 - 20)) % 360}°"


def test_hands_point_where_their_numbers_say(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "06-rope").locator("#widget-clocks")
    move(widget, "position", 3)
    hands = widget.locator(".clock path.law")
    assert hands.count() == 8
    for at in range(8):
        angle = 3 * 10_000 ** (-at / 8)
        assert turned(tip(hands.nth(at))) == pytest.approx(math.degrees(angle) % 360, abs=0.1)


def test_tokens_of_a_moved_sentence_say_their_new_places(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "06-rope").locator("#widget-order")
    widget.locator('[data-name="swap.0"]').click()
    move(widget, "start", 150)
    assert widget.locator(".sentence small").all_inner_texts() == [str(150 + at) for at in range(5)]
    assert widget.locator(".sentence .asks").count() == 1


def test_a_row_that_moved_is_marked_and_one_that_stood_still_too(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "08-cache").locator("#widget-still")
    for mask, mark in (("before", "good"), ("none", "bad")):
        choose(widget, mask)
        move(widget, "tokens", 5)
        cells = widget.locator('output[data-name^="moved."]')
        for at in range(4):
            still = float(cells.nth(at).get_attribute("data-value")) == 0
            assert ("good" if still else "bad") in str(cells.nth(at).get_attribute("class"))
        assert mark in str(widget.locator(".verdict").get_attribute("class"))


def test_a_real_map_is_drawn_row_by_row_and_a_row_is_chosen_on_it(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "13-reading").locator("#widget-reading")
    choose(widget, "0")
    rows = reading.kept()["maps"][0]["weights"]
    drawn = {
        (int(i), int(j)): at
        for at, path in enumerate(widget.locator("svg path.shade").all())
        for j, i in re.findall(r"M(\d+) (\d+)h1v1h-1z", path.get_attribute("d") or "")
    }
    wanted = {
        (i, j): min(9, math.ceil(w * 10) - 1)
        for i, row in enumerate(rows) for j, w in enumerate(row) if w >= 0.02
    }  # fmt: skip
    assert drawn == wanted
    map_ = widget.locator("svg.real-map")
    box = map_.bounding_box()
    row = 11
    map_.click(position={"x": box["width"] * 0.8, "y": box["height"] * (row + 0.5) / len(rows)})
    chosen = widget.locator('input[type="range"][data-name="row"]')
    assert chosen.input_value() == str(row + 1)
    later = widget.locator(".word").evaluate_all("(all) => all.map((one) => one.matches('.later'))")
    assert later == [at > row for at in range(len(rows))]


def test_a_circuit_says_whether_its_token_answers_with_itself(page: Any, site: Path) -> None:
    opened(page, site, "en", "13-reading")
    widget = page.locator("#widget-circuit")
    widget.locator('[data-name="tokens"]').fill("a x y z x")
    verdict = widget.locator('[data-name="verdict"]')
    said = []
    for layers in ("one", "two"):
        choose(widget, layers)
        said.append(verdict.inner_text())
    assert said[0].startswith("It found its own likes, and says x again")
    assert said[1] == "It says y."
    # The same two sentences of a text whose first token is the last again.
    widget.locator('[data-name="tokens"]').fill("x y z x")
    assert verdict.inner_text() == said[1]
    choose(widget, "one")
    assert verdict.inner_text() == said[0]


def test_a_published_shape_moves_the_sliders(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "07-heads").locator("#widget-widths")
    for name, shape in (("one", (1024, 1, 2048)), ("published", (1024, 16, 128))):
        widget.locator(f'button[data-name="{name}"]').click()
        sliders = [
            widget.locator(f'input[type="range"][data-name="{one}"]').input_value()
            for one in ("model", "heads", "width")
        ]
        assert tuple(map(int, sliders)) == shape


def test_a_settled_prediction_says_so_and_stays_settled(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    first = page.locator(".predict").first
    for right, said in ((False, "It goes otherwise"), (True, "That is it")):
        page.reload()
        page.wait_for_selector(".course.live")
        marked = "[data-right]" if right else ":not([data-right])"
        first.locator(f"input{marked}").last.check()
        first.locator(".settle").click()
        assert first.locator(".reveal h4").inner_text() == said
        assert first.locator("label.right").count() == 1
        assert first.locator("label.wrong").count() == (not right)
        assert first.locator("input:enabled").count() == 0
        assert page.evaluate("document.activeElement.matches('.reveal')")


def test_the_section_that_is_read_is_marked_in_the_list(page: Any, site: Path) -> None:
    page.goto(address(site, "en", "03-softmax.html"))
    page.wait_for_selector(".course.live")
    links = page.locator(".contents a")
    heads = page.locator("main h2[id]")
    assert links.count() == heads.count() > 4
    for at in (0, 2, 4):
        heads.nth(at).evaluate("(one) => window.scrollTo(0, one.offsetTop - 100)")
        page.wait_for_function(
            "(at) => document.querySelectorAll('.contents a')[at].matches('[aria-current]')",
            arg=at,
        )
        assert page.locator(".contents [aria-current]").count() == 1


def test_shapes_of_the_flow_are_of_the_pressed_kind(page: Any, site: Path) -> None:
    flow = opened(page, site, "en", "07-heads").locator(".flow")
    for kind, other in (("real", "small"), ("small", "real")):
        flow.locator(f'button[data-shape="{kind}"]').click()
        assert flow.locator('button[aria-pressed="true"]').get_attribute("data-shape") == kind
        assert flow.locator(f"li.now .{kind}").first.is_visible()
        assert flow.locator(f"li.now .{other}").first.is_hidden()


def test_a_scheme_follows_the_system_until_the_reader_chooses(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    root = page.locator(".course")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "(now) => document.querySelector('.course').dataset.scheme === now", arg=scheme
        )
    root.locator(".scheme").click()
    assert root.get_attribute("data-scheme") == "dark"
    page.emulate_media(color_scheme="dark")
    page.emulate_media(color_scheme="light")
    assert page.evaluate("new Promise((go) => setTimeout(go, 50))") is None
    assert root.get_attribute("data-scheme") == "dark"
