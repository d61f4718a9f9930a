"""Where lines of a lesson end: no full stop or comma begins one, no opening bracket ends one.

Not here: what stands in the lines (test_lessons_walk.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lessons_site import address

ALONE = """
() => {
  const found = { met: 0, alone: [] };
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const place = (node, at) => {
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    return range.getBoundingClientRect();
  };
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.closest(".prose") || node.parentElement.closest("math")) continue;
    for (let at = 0; at < node.data.length; at += 1) {
      const ends = "，。；：！？、）」』".includes(node.data[at]);
      if (!ends && !"（「『".includes(node.data[at])) continue;
      const rest = ends ? node.data.slice(0, at) : node.data.slice(at + 1);
      if (rest !== "") continue;  // no neighbour but text
      let other = ends ? node.previousSibling : node.nextSibling;
      while (other && other.localName !== "button" && other.localName !== "math") {
        other = ends ? other.lastChild : other.firstChild;
      }
      const [sign, boxes] = [place(node, at), other ? other.getClientRects() : []];
      if (!boxes.length || !sign.width) continue;
      const box = ends ? boxes[boxes.length - 1] : boxes[0];
      found.met += 1;
      const apart = ends ? sign.top > box.bottom - 2 : sign.bottom < box.top + 2;
      if (apart) found.alone.push(node.data.slice(Math.max(0, at - 8), at + 8));
    }
  }
  return found;
}
"""


@pytest.mark.parametrize("slug", ["08-cache", "11-linear"])
def test_no_sign_stands_alone_at_an_end_of_a_line(page: Any, site: Path, slug: str) -> None:
    """At many widths; and if it were not held, some would."""
    page.goto(address(site, "zh", f"{slug}.html"))
    page.wait_for_selector(".course.live")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    widths = range(320, 720, 25)

    def alone() -> list[str]:
        said = []
        for width in widths:
            page.set_viewport_size({"width": width, "height": 800})
            found = page.evaluate(ALONE)
            assert found["met"] > 20
            said += [f"{width}: {one}" for one in found["alone"]]
        return said

    assert alone() == []
    page.evaluate(
        "document.querySelectorAll('.whole').forEach((one) => { one.style.whiteSpace = 'normal'; })"
    )
    assert alone() != []
