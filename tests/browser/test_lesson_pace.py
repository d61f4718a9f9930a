"""A page's minutes are those of another reading of it: the browser's, with its own idea of words.

Not here: which minutes a lesson may take (tests/lessons/test_lesson_minutes.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnscope.lessons.site import load
from attnscope.lessons.site.pace import CHARACTERS, EXPERIMENT, PREDICTION, WORDS, reading_minutes

READ = r"""(html) => {
  const main = new DOMParser().parseFromString(html, "text/html").querySelector("main");
  const all = (what) => [...main.querySelectorAll(what)];
  const besides = [
    "nav", ".which", ".question", ".deeper", ".exercises", ".notes", ".ask-hint", ".choose",
    ".here ol", ".flow li:not(.now)",
  ];
  all(besides.join()).forEach((one) => one.remove());
  const spoken = /^[^()[\]{},;|\s\u2061-\u2064]+$/u;
  const leaves = all("mi, mn, mo");
  const signs = leaves.filter((one) => spoken.test(one.textContent)).length;
  leaves.forEach((one) => one.remove());
  all("p, li, td, th, h1, h2, h3, h4, dt, dd, summary, div, pre, label")
    .forEach((one) => one.append(" "));
  const text = main.textContent;
  const rest = text.replace(/\p{Script=Han}/gu, " ");
  const pieces = [...new Intl.Segmenter("en", { granularity: "word" }).segment(rest)];
  return {
    words: pieces.filter((one) => one.isWordLike).length + signs + all("msqrt, mfrac").length,
    characters: text.match(/\p{Script=Han}/gu)?.length ?? 0,
    experiments: all(".widget").length,
    predictions: all(".predict").length,
  };
}"""
"""What stands on the way through a page."""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_minutes_are_those_of_the_browsers_reading(page: Any, site: Path, language: str) -> None:
    """Within 2 %: it cuts `1-0` and `d_k` in words of its own."""
    page.goto("about:blank")
    for lesson in load().lessons[language]:
        html = (site / language / f"{lesson.slug}.html").read_text("utf-8")
        found = page.evaluate(READ, html)
        theirs = found["words"] / WORDS + found["characters"] / CHARACTERS
        theirs += found["experiments"] * EXPERIMENT + found["predictions"] * PREDICTION
        ours = reading_minutes(html[html.index("<main") : html.index("</main>")])
        assert ours == pytest.approx(theirs, rel=0.02), lesson.slug
