"""axe-core on what the screens show only when asked: in both languages, light and dark.

The screens as they open are in test_shell_app.py, the map's panels in test_map_view.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import axe
from fakes import open_fake
from looks import every_look
from map_page import map_link, wait_drawn


@every_look
def test_the_flow_with_all_its_parts(page: Any, language: str, theme: str) -> None:
    """A generated text, a chosen range, its bytes, a learned sink left out, all heads at once."""
    open_fake(page, f"#flow/made/1.2?lang={language}&q=40-44", tokens=120, prompt=100, sink=True)
    page.wait_for_selector(".flow .keys tbody tr")
    page.wait_for_selector(".flow .steps")
    assert axe.faults(page) == []
    page.locator(".flow details summary").first.click()
    page.wait_for_selector(".flow details tbody tr")
    page.locator(".flow .tools input[type=checkbox]").check()
    page.wait_for_function("() => location.hash.includes('no-sink')")
    page.locator(".flow .text").press("Escape")
    page.locator(".flow .text").press("/")
    page.keyboard.type("apple")
    assert axe.faults(page) == []
    page.locator(".flow .tools select").first.select_option("")
    page.locator(".flow .text").press("End")
    page.wait_for_function("() => location.hash.includes('q=119')")
    page.wait_for_selector(".flow .keys tbody tr")
    assert axe.faults(page) == []


@every_look
def test_the_overview_with_a_head_and_those_like_it(page: Any, language: str, theme: str) -> None:
    """Sorted, cut to the first few, layers without a map between them, the list of heads alike."""
    open_fake(page, f"#overview/made/2.1?lang={language}", blind=[1])
    page.wait_for_selector("[role=gridcell]")
    page.locator("[role=gridcell][tabindex='0']").press("l")
    page.wait_for_selector(".like ol li")
    assert axe.faults(page) == []


@every_look
def test_the_map_with_a_second_head_and_a_message(
    open_app: Callable[..., Any], language: str, theme: str
) -> None:
    link = map_link("llama-long", 1, 2, None, "with=llama-long/1.3&measure=weight-no-sink")
    page = open_app(link + "&scale=expected")
    wait_drawn(page)
    page.keyboard.press("/")
    page.keyboard.type("The cat")
    page.wait_for_timeout(300)
    assert axe.faults(page) == []
    page.keyboard.press("Escape")
    page.goto("about:blank")
    page = open_app("#map/hybrid-short")
    wait_drawn(page)
    page.locator(".map select").first.select_option("0")
    page.wait_for_selector(".map-none", state="visible")
    assert axe.faults(page) == []


@every_look
def test_a_capture_on_its_way_and_one_that_failed(page: Any, language: str, theme: str) -> None:
    for end in ("slow", "failed"):
        page.goto("about:blank")
        open_fake(page, f"#home/made?lang={language}", capture=end)
        page.locator(".capture textarea").fill("Hello")
        page.locator(".capture input[type=number]").fill("2")
        page.locator(".capture button[type=submit]").click()
        if end == "slow":
            page.get_by_text("word1").wait_for()
        else:
            page.locator(".capture .fault").filter(has_text=re.compile(".")).wait_for()
        assert axe.faults(page) == []


@every_look
def test_a_page_by_mail(page: Any, served: Any, tmp_path: Path, language: str, theme: str) -> None:
    place = served.traces["llama-short"].to_html(tmp_path / "page.html", layers=[1, 2])
    for view in ("", map_link("page", 1, 2), "#flow/page/1.2?q=20"):
        page.goto("about:blank")
        page.goto(place.as_uri() + view)
        page.wait_for_selector(".attnscope .stage > :not([hidden])")
        page.wait_for_timeout(300)
        assert page.locator(".attnscope").first.get_attribute("data-scheme") == theme
        assert axe.faults(page) == []
