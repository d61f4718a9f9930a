"""Every number that a widget of the course shows: compared with Python's, and printed as it is.

The idea: what a lesson's own test reads (test_lesson*.py) is not all that its widgets show. `SEEN`
names every output of every widget; one that is not in it fails here, so that a new one is compared
before its name is added. What no lesson's own test compares, test_lessons_rest.py does.

Not here: widgets on the reader's own text (test_lesson_own.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from lessons_site import SHOWN, opened

from attnscope.lessons import reading
from attnscope.lessons.site import load

PAGES = [one.slug for one in load().lessons["en"]]
GAUGES: Final = ("loss", "right", "largest", "entropy")
RUNS: Final = ("scaled", "growing", "norm", "clip", "unscaled", "smaller")
KINDS: Final = (*reading.ASKED, "mixed")
WORK: Final = [f"{kind}.{fact}" for kind in ("prefill", "step", "weights")
               for fact in ("flops", "bytes", "intensity", "seconds", "waits")]  # fmt: skip

SEEN: Final[dict[str, str]] = {
    "angle": "dot cosine", "cosine": "cosine.#", "grid": "g.#.#", "pairs": "score.#",
    "bytes": "tokens additive dot",
    "rules": "proportional.# shifted.# softmax.# claimed.# "
             "proportional.ratio shifted.ratio softmax.ratio",
    "properties": "weight.# least sum moved rival ratio law",
    "spread": "std.#.# maxWeight.# decided.# entropy.# jacobianNorm.# gradient.#",
    "jacobian": "weight.# J.#.# predicted.# actual.# norm",
    "temperature": "base.# temperature.# apart", "growth": "weight.# bound largest jacobian",
    "weights": "weight.# sum future", "hide": "weight.#", "mix": "weight.# x y",
    "mixture": "weight.# least.# o.# largest.#",
    "order": "weight.# moved fetched", "far": "here there apart",
    "turn": "turned_q turned_k between product", "clocks": "angle.# circle.#", "moved": "change.#",
    "jobs": "weight.#.# wanted.# fetched.# distance best",
    "widths": "joined q_proj o_proj root parameters projections pairs softmaxes",
    "nothing": "weight.# kept open size plain",
    "feeding": "without.total without.again with.total with.again ratio",
    "still": "o.#.# moved.# moved",
    "exact": "anew.differ anew.largest atOnce.differ atOnce.largest",
    "roof": f"tokens ridge {' '.join(WORK)}",
    "groups": "tokens sharing per_token total of_all flops intensity fit",
    "share": "weight.A.# weight.B.# fetched.A.# fetched.B.# moved.A moved.B kept",
    "squeeze": "head.#.# kept off", "forms": "flops.# fresh cached times",
    "merge": "expanded absorbed apart queries", "kept": "tokens bytes.# token.# fits.#",
    "regroup": "softmax.# weights.# by_weights by_table apart tokens pairs table keptPairs "
               "keptTable",
    "memory": "off.# numbers mean right newest again", "sight": "read scanned kept",
    "runs": "step " + " ".join(f"{run}.{gauge}" for run in RUNS for gauge in GAUGES),
    "lid": " ".join(f"{way}.{fact}" for way in ("none", "lid", "soft")
                    for fact in ("weight.#", "first", "second", "slope")),
    "lookup": "most " + " ".join(f"last.{gauge}" for gauge in GAUGES),
    "clipping": "gamma.# q.# k.# after.#",
    "census": "chosen.share chosen.first chosen.arrived chosen.cost "
              + " ".join(f"count.{kind} cost.{kind}" for kind in KINDS),
    "circuit": "weight.# next.#", "reading": "weight.# arrived.# first.weight first.arrived all",
}  # fmt: skip
"""The outputs of each widget, # for a number; here or in its lesson's test each is compared."""


def shown(page: Any) -> list[tuple[str, str, str, str]]:
    """Of every output of the page: its widget, its name, its value and its text."""
    found: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('.widget')].flatMap((widget) =>"
        " [...widget.querySelectorAll('.stand output')].map((one) =>"
        " [widget.dataset.widget, one.dataset.name, one.dataset.value, one.textContent]))"
    )
    return [(a, b, c, d) for a, b, c, d in found]


def states(page: Any) -> list[tuple[str, str, str, str]]:
    """What is shown as the page opens, and after each button of its widgets but those of tables."""
    found = shown(page)
    buttons = page.locator(".widget .stand button:not(.cell)")
    for at in range(buttons.count()):
        if at < buttons.count() and buttons.nth(at).is_visible():
            buttons.nth(at).click()
            found += shown(page)
    return found


SIZES: Final = {
    "%": 1e-2, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    "billion": 1e9, "×10⁹": 1e9, "µs": 1e-6, "ms": 1e-3,
}  # fmt: skip
NUMBER: Final = re.compile(
    r"(?P<below>[<>])?(?P<sign>−)?(?P<digits>[\d,]+(?:\.\d+)?)"
    r"(?:e(?P<power>−?\d+)|·10(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹]+))?\s*(?P<unit>%|billion|×10⁹|[KMGT]iB|µs|ms)?"
)
OTHERS: Final = {
    "kept": {"fits.#"}, "roof": {"prefill.waits", "step.waits", "weights.waits"},
    "forms": {"flops.#"}, "widths": {"q_proj", "o_proj"},
}  # fmt: skip
"""Outputs that print something else than their value: yes or no, what a device waits for, FLOPs
beside a bar of shares, the sides of a table whose size is the value."""


def agrees(value: float, text: str) -> bool:
    """Whether a text prints a value, to the digits that it has; other numbers may stand beside."""
    if not np.isfinite(value):
        return text == "–"
    return any(_prints(value, found) for found in NUMBER.finditer(text)) or (
        text == "0" and abs(value) < SHOWN  # what is nothing but rounding is printed as nothing
    )


def _prints(value: float, found: re.Match[str]) -> bool:
    digits = found["digits"].replace(",", "")
    raised = (found["raised"] or "").translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))
    power = int((found["power"] or raised or "0").replace("−", "-"))
    unit = SIZES.get(found["unit"] or "", 1.0) * 10.0**power
    printed = (-1 if found["sign"] else 1) * float(digits) * unit
    if found["below"]:
        return 0 < abs(value) < abs(printed) and (value < 0) == bool(found["sign"])
    last = unit * 10.0 ** -len(digits.partition(".")[2])
    # Differences of shares are printed as they are, in points of a hundred.
    return any(abs(one - printed) <= 0.5001 * last for one in (value, 100 * value))


@pytest.mark.parametrize("slug", PAGES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_output_prints_its_value_and_is_one_that_is_compared(
    page: Any, site: Path, language: str, slug: str
) -> None:
    opened(page, site, language, slug)
    found = states(page)
    assert found
    for widget, name, value, text in found:
        family = re.sub(r"\d+", "#", name)
        assert family in SEEN[widget].split(), (widget, name)
        if family not in OTHERS.get(widget, ()):
            assert agrees(float(value), text), (widget, name, value, text)


def test_every_output_that_is_named_is_there(page: Any, site: Path) -> None:
    names: dict[str, set[str]] = {}
    for slug in PAGES:
        opened(page, site, "en", slug)
        for widget, name, _, _ in states(page):
            names.setdefault(widget, set()).add(re.sub(r"\d+", "#", name))
    assert {widget: set(names.split()) for widget, names in SEEN.items()} == names


def test_a_text_that_prints_another_value_is_noticed() -> None:
    for value, text, other in (
        (0.214, "21.4 %", "21.5 %"), (-0.5, "−0.500", "0.500"), (1536.0, "1.5 KiB", "1.6 KiB"),
        (3.3e12, "3.30·10¹²", "3.30·10¹¹"), (1.2e-7, "1.2e−7", "1.2e−8"), (80.0, "80.0", "−80.0"),
        (2e-5, "<0.01 %", "0.02 %"), (4.0, "4 / 8", "5 / 8"), (np.nan, "–", "0"),
    ):  # fmt: skip
        assert agrees(value, text), text
        assert not agrees(value, other), other
    assert not agrees(1.0, "–")
