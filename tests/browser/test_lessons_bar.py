"""The bar of the course's pages: from every page to index, timeline and planner, at every width.

Not here: what stands below it (test_lessons_walk.py, test_planner_page.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lessons_site import address

WAYS = ["index.html", "timeline.html", "planner.html"]


@pytest.mark.parametrize("width", [320, 360, 480, 1280])
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", [*WAYS, "01-embeddings.html"])
def test_every_page_is_reached_from_every_page(
    page: Any, site: Path, language: str, name: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(address(site, language, name))
    links = page.locator(".ways a")
    assert [links.nth(at).get_attribute("href") for at in range(links.count())] == WAYS
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [links.nth(at).bounding_box() for at in range(3)]
    boxes += [
        page.locator("header.bar .language").bounding_box(),
        page.locator("header.bar .scheme").bounding_box(),
    ]
    for at, box in enumerate(boxes):
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["height"] >= 24
        for other in boxes[:at]:  # no two lie upon each other
            apart_x = (
                box["x"] >= other["x"] + other["width"] or other["x"] >= box["x"] + box["width"]
            )
            apart_y = (
                box["y"] >= other["y"] + other["height"] or other["y"] >= box["y"] + box["height"]
            )
            assert apart_x or apart_y
    here = page.locator(".ways [aria-current=page]")
    assert here.count() == (name in WAYS)
    if name in WAYS:
        assert here.get_attribute("href") == name
    links.nth(1).click()
    page.wait_for_url("**/timeline.html")
    page.locator(".ways a").nth(2).click()
    page.wait_for_url("**/planner.html")
    page.locator(".ways a").nth(0).click()
    page.wait_for_url("**/index.html")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_timeline_says_where_its_reader_came_from(page: Any, site: Path, language: str) -> None:
    page.goto(address(site, language, "timeline.html"))
    marks = page.locator(".timeline > li mark")
    assert marks.count() >= 18
    assert not any(marks.nth(at).is_visible() for at in range(marks.count()))
    for slug, name in (("08-cache", "cache"), ("12-stability", "qk_norm")):
        page.goto(address(site, language, f"{slug}.html"))
        page.locator(".here > p a").click()
        page.wait_for_url(f"**/timeline.html#{name}")
        seen = [at for at in range(marks.count()) if marks.nth(at).is_visible()]
        assert len(seen) == 1
        said = {"en": "You are here", "zh": "你在这里"}[language]
        assert marks.nth(seen[0]).text_content() == said
        assert page.locator(f"#{name} mark").is_visible()


@pytest.mark.parametrize("name", ["timeline.html", "03-softmax.html"])
def test_what_a_link_names_is_not_behind_the_bar(page: Any, site: Path, name: str) -> None:
    """On a phone, where the bar has two rows and stays."""
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(address(site, "en", name))
    ids = page.evaluate(
        "[...document.querySelectorAll('main h2[id], .timeline > li[id]')].map((one) => one.id)"
    )
    assert len(ids) > 3
    for one in ids[:4]:
        page.goto(address(site, "en", name) + f"#{one}")
        top = page.evaluate("(id) => document.getElementById(id).getBoundingClientRect().top", one)
        bar = page.locator("header.bar").bounding_box()
        assert top >= bar["y"] + bar["height"] - 0.5
