"""Every input of every widget, by hand and by keyboard alone; and every page behind the server.

The idea: what a widget shows is its outputs, its sentences and its shapes. Each slider, field,
button and box changes some of it, beyond what only repeats the input. By keyboard, everything that
can be pressed or set is reached with Tab, in the order of the page, shows that it is, and works.

Not here: which numbers are right (test_lessons_outputs.py and the lessons' own tests).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lessons_site import choose, move, opened
from served_course import served_course

from attnscope.lessons.site import load

PAGES = [one.slug for one in load().lessons["en"]]
BOTH = pytest.mark.parametrize("language", ["en", "zh"])

STATE = """(widget) => {
  const echo = /^(tokens|fresh|cached)$/;
  const shown = [...widget.querySelectorAll(".stand output")]
    .filter((one) => !echo.test(one.dataset.name))
    .map((one) => `${one.dataset.name} ${one.textContent}`);
  const said = [...widget.querySelectorAll(".verdict, .fact, .sentence, .word, .name")]
    .map((one) => `${one.className} ${one.textContent}`);
  const places = ["d", "cx", "cy", "x", "y", "class", "fill-opacity"];
  const drawn = [...widget.querySelectorAll("svg *")]
    .map((one) => places.map((name) => one.getAttribute(name)).join());
  return JSON.stringify([shown, said, drawn]);
}"""
"""What a widget shows, but for outputs that say no more than their slider does."""


def state(widget: Any) -> str:
    return str(widget.evaluate(STATE))


def far(slider: Any) -> float:
    """The end of a slider that is farther from where it stands."""
    low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
    now = float(slider.input_value())
    return low if abs(now - low) > abs(now - high) else high


WAITING = ("spread", "exact", "lookup")
"""Widgets that compute once their input rests."""


def settle(widget: Any) -> None:
    if widget.get_attribute("data-widget") in WAITING:
        widget.page.wait_for_timeout(260)


def ready(widget: Any, name: str) -> None:
    """What must be on before an input acts: QK-Clip for its threshold, turning for its width."""
    if name in ("16", "64") and widget.get_attribute("data-widget") == "far":
        choose(widget, "rotated")
    if name == "threshold" and widget.get_attribute("data-widget") == "lookup":
        choose(widget, "clip")
    if name == "tau":
        widget.locator('[data-name="clip"]').check()
        move(widget, "growth", 10)


@pytest.mark.parametrize("slug", PAGES)
@BOTH
def test_every_slider_changes_what_its_widget_shows(
    page: Any, site: Path, language: str, slug: str
) -> None:
    """And the field beside it does the same."""
    opened(page, site, language, slug)
    widgets = page.locator(".widget")
    for at in range(widgets.count()):
        widget = widgets.nth(at)
        sliders = widget.locator('.stand input[type="range"]')
        for each in range(sliders.count()):
            slider = sliders.nth(each)
            name, now, end = slider.get_attribute("data-name"), slider.input_value(), far(slider)
            ready(widget, name)
            settle(widget)
            before = state(widget)
            move(widget, name, end)
            settle(widget)
            after = state(widget)
            assert after != before, (widget.get_attribute("id"), name)
            move(widget, name, float(now))
            widget.locator(f'input[data-name="{name}.number"]').fill(f"{end:g}")
            settle(widget)
            assert state(widget) == after, (widget.get_attribute("id"), name)
            move(widget, name, float(now))


@pytest.mark.parametrize("slug", PAGES)
@BOTH
def test_every_button_and_box_changes_what_its_widget_shows(
    page: Any, site: Path, language: str, slug: str
) -> None:
    """Unless it is what is chosen."""
    opened(page, site, language, slug)
    widgets = page.locator(".widget")
    for at in range(widgets.count()):
        widget = widgets.nth(at)
        for each in range(widget.locator(".stand :is(button, input[type=checkbox])").count()):
            one = widget.locator(".stand :is(button, input[type=checkbox])").nth(each)
            if not one.is_visible() or one.get_attribute("aria-pressed") == "true":
                continue
            said = one.evaluate("(one) => one.dataset.choice ?? one.dataset.name ?? one.className")
            ready(widget, said)
            assert acts(widget, one), (widget.get_attribute("id"), said)


def acts(widget: Any, button: Any) -> bool:
    """Whether it changes what is shown, as things are or once some slider was moved.

    Afterwards all is as before: a box is off again, and of a switch the same is chosen.
    """
    chosen = button.locator("xpath=..").locator('[aria-pressed="true"]')
    back = chosen.get_attribute("data-choice") if chosen.count() == 1 else None
    settle(widget)
    before = state(widget)
    press(widget, button)
    found = state(widget) != before
    sliders = widget.locator('.stand input[type="range"]')
    for at in range(0 if found else sliders.count()):
        name, now = sliders.nth(at).get_attribute("data-name"), sliders.nth(at).input_value()
        move(widget, name, far(sliders.nth(at)))
        settle(widget)
        before = state(widget)
        press(widget, button)
        found = state(widget) != before
        move(widget, name, float(now))
        if found:
            break
    if back is not None:
        button.locator("xpath=..").locator(f'[data-choice="{back}"]').click()
    elif button.get_attribute("type") == "checkbox" and button.is_checked():
        button.click()
    return found


def press(widget: Any, button: Any) -> None:
    button.click()
    settle(widget)


def test_a_widget_that_does_not_listen_is_noticed(page: Any, site: Path) -> None:
    opened(page, site, "en", "05-whole")
    widget = page.locator("#widget-mix")
    before = state(widget)
    widget.evaluate(
        "(one) => one.addEventListener('input', (event) => event.stopImmediatePropagation(), true)"
    )
    move(widget, "score.0", 4)
    assert state(widget) == before


REACHED = """() => {
  const shown = (one) => one.offsetParent !== null || one.getClientRects().length > 0;
  const all = [...document.querySelectorAll("a[href], button:not(:disabled), " +
    "input:not(:disabled), select, textarea, summary, [tabindex='0']")]
    .filter((one) => shown(one) && one.tabIndex >= 0);
  // Of radio buttons, Tab goes to one of each group; arrows do the rest.
  const groups = new Set();
  window.stops = all.filter((one) => {
    if (one.type !== "radio") return true;
    const first = !groups.has(one.name);
    groups.add(one.name);
    return first;
  });
  return window.stops.length;
}"""
WHERE = """() => {
  const one = document.activeElement;
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one);
  const rim = outlineStyle !== "none" && parseFloat(outlineWidth) > 0;
  const at = window.stops.findIndex((stop) =>
    stop === one || (one.type === "radio" && stop.type === "radio" && stop.name === one.name));
  return [at, rim || boxShadow !== "none", one.outerHTML.slice(0, 160)];
}"""


@pytest.mark.parametrize("slug", [*PAGES, "index", "timeline"])
@BOTH
def test_everything_is_reached_with_tab_in_order_and_shows_it(
    page: Any, site: Path, language: str, slug: str
) -> None:
    opened(page, site, language, slug)
    count = page.evaluate(REACHED)
    assert count > 20
    for at in range(count):
        page.keyboard.press("Tab")
        found, rim, what = page.evaluate(WHERE)
        assert found == at, what
        assert rim, what


@pytest.mark.parametrize("slug", PAGES)
def test_widgets_work_by_keyboard_alone(page: Any, site: Path, slug: str) -> None:
    """Sliders by arrows, switches by Space, buttons by Enter, boxes by Space."""
    opened(page, site, "zh", slug)
    widgets = page.locator(".widget")
    for at in range(widgets.count()):
        widget = widgets.nth(at)
        sliders = widget.locator('.stand input[type="range"]')
        for each in range(sliders.count()):
            slider = sliders.nth(each)
            ready(widget, slider.get_attribute("data-name"))
            now = slider.input_value()
            settle(widget)
            before = state(widget)
            slider.focus()
            page.keyboard.press("End" if far(slider) > float(now) else "Home")
            settle(widget)
            assert state(widget) != before, slider.get_attribute("data-name")
            page.keyboard.press("ArrowLeft" if far(slider) < float(now) else "ArrowRight")
            move(widget, slider.get_attribute("data-name"), float(now))
        switches = widget.locator(".stand .switch button")
        for each in range(switches.count()):
            one = switches.nth(each)
            if one.is_visible():
                one.focus()
                page.keyboard.press("Space" if each % 2 else "Enter")
                assert one.get_attribute("aria-pressed") == "true"
                assert one.evaluate("(one) => one === document.activeElement")
        boxes = widget.locator('.stand input[type="checkbox"]')
        for each in range(boxes.count()):
            on = boxes.nth(each).is_checked()
            boxes.nth(each).focus()
            page.keyboard.press("Space")
            assert boxes.nth(each).is_checked() is not on


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the served course, with no text captured."""
    with served_course("--traces", str(tmp_path_factory.mktemp("captures"))) as address:
        yield address


SHOWN = """() => [...document.querySelectorAll(".widget")].map((widget) =>
  [widget.id, [...widget.querySelectorAll(".stand output")].map((one) =>
    [one.dataset.name, one.dataset.value, one.textContent])])"""


@pytest.mark.parametrize("slug", PAGES)
@BOTH
def test_a_served_page_shows_what_the_exported_one_does(
    page: Any, site: Path, course: str, language: str, slug: str
) -> None:
    """Behind the server's policy; every number, before and after each slider is moved."""
    found = []
    for address in ((site / language / f"{slug}.html").as_uri(), f"{course}{language}/{slug}.html"):
        page.goto(address)
        page.wait_for_selector(".course.live")
        shown = [page.evaluate(SHOWN)]
        sliders = page.locator('.widget .stand input[type="range"]')
        for at in range(sliders.count()):
            end = far(sliders.nth(at))
            sliders.nth(at).evaluate(
                "(one, value) => { one.value = value;"
                " one.dispatchEvent(new Event('input', { bubbles: true })); }",
                str(end),
            )
        page.wait_for_timeout(500)
        shown.append(page.evaluate(SHOWN))
        found.append(shown)
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]
