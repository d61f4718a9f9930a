"""The exported course, from disk in Chromium: every page, every widget, keyboard, themes, phone.

Every test fails on an error in the page's console (conftest.py). What widgets show is compared with
Python's mechanisms on the inputs that the test has set.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lessons_site import SHOWN, address, choose, faults, move, number, opened
from looks import every_look

from attnscope.lessons import figures, twins, world
from attnscope.lessons.site import load
from attnscope.lessons.site.widgets import WIDGETS
from attnscope.mechanisms import rivals

COURSE = load()
PAGES = [one.slug for one in COURSE.lessons["en"]]


def softmax(scores: list[float]) -> np.ndarray:
    found: np.ndarray = rivals.weigh(torch.tensor(scores, dtype=torch.float64)).numpy()
    return found


@every_look
@pytest.mark.parametrize("slug", PAGES)
def test_a_lesson_reads_without_fault(
    page: Any, site: Path, language: str, theme: str, slug: str
) -> None:
    opened(page, site, language, slug)
    root = page.locator(".course")
    assert root.get_attribute("data-scheme") == theme
    assert page.locator("h1").count() == 1
    assert page.locator(".widget .stand:empty").count() == 0
    assert page.locator("math").count() > 0
    assert faults(page) == []


@pytest.mark.parametrize("slug", PAGES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_lesson_fits_a_phone(page: Any, site: Path, language: str, slug: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, site, language, slug)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        "[...document.querySelectorAll('main button:not(.fig, .term), main select')]"
        ".filter((one) => one.offsetParent && one.getBoundingClientRect().height < 24).length"
    )
    assert small == 0


def test_every_widget_of_the_course_is_on_some_page() -> None:
    placed = {
        block.words[0]
        for lesson in COURSE.lessons["en"]
        for block in lesson.document.blocks()
        if block.name == "widget"
    }
    assert placed == WIDGETS.keys()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_rules_show_what_python_computes(page: Any, site: Path, language: str) -> None:
    opened(page, site, language, "03-softmax")
    widget = page.locator("#widget-rules-car")
    move(widget, "score.0", 4.5)
    move(widget, "score.2", -9)
    for rule in ("proportional", "shifted", "softmax"):
        wanted = rivals.weigh(torch.tensor([4.5, 3.0, -9.0], dtype=torch.float64), rule)
        shown = [number(widget, f"{rule}.{at}") for at in range(3)]
        np.testing.assert_allclose(shown, wanted.numpy(), rtol=0, atol=SHOWN)
    widget.locator('[data-name="join"]').click()
    wanted = rivals.weigh(torch.tensor([4.5, 3.0, -9.0, -11.0], dtype=torch.float64), "shifted")
    shown = [number(widget, f"shifted.{at}") for at in range(4)]
    np.testing.assert_allclose(shown, wanted.numpy(), rtol=0, atol=SHOWN)
    assert "bad" in str(widget.locator('[data-name="shifted.verdict"]').get_attribute("class"))
    assert "bad" not in str(widget.locator('[data-name="softmax.verdict"]').get_attribute("class"))
    for name, value in zip(("proportional.0", "proportional.2"), (1.111, -0.444), strict=True):
        widget.locator('[data-name="reset"]').click()
        assert number(widget, name) == pytest.approx(value, abs=1e-3)


def test_the_properties_hold_while_they_are_dragged(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    widget = page.locator("#widget-properties")
    for scores, shift in (([-10, 1, 0.5, -1], 0), ([2, -3, 9.5, 4], 12.5), ([0, 0, 10, -10], -20)):
        for at, score in enumerate(scores):
            move(widget, f"score.{at}", score)
        move(widget, "shift", shift)
        weights = softmax([float(s) for s in scores])
        assert number(widget, "least") == pytest.approx(weights.min(), rel=1e-9)
        assert number(widget, "least") > 0
        assert number(widget, "sum") == pytest.approx(1, abs=1e-12)
        assert number(widget, "moved") < 1e-12
        assert number(widget, "ratio") == pytest.approx(np.exp(scores[0] - scores[1]), rel=1e-9)
        assert number(widget, "law") == pytest.approx(number(widget, "ratio"), rel=1e-9)


def test_the_spread_shows_what_python_draws(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    widget = page.locator("#widget-spread")
    move(widget, "seed", 7)
    move(widget, "pairs", 1000)
    page.wait_for_timeout(600)
    for at, width in enumerate((4, 64, 256)):
        drawn = twins.products(7, width, 1000)
        spread = np.sqrt((drawn**2).mean())
        assert number(widget, f"std.0.{at}") == pytest.approx(spread, rel=1e-9)
        assert number(widget, f"std.1.{at}") == pytest.approx(spread / np.sqrt(width), rel=1e-9)
    for kind, wanted in enumerate(twins.row_statistics(7, 256, 120, 16)):
        for name, value in wanted.items():
            assert number(widget, f"{name}.{kind}") == pytest.approx(value, rel=1e-8, abs=1e-12)


def test_the_jacobian_shows_what_python_computes(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    widget = page.locator("#widget-jacobian")
    base = torch.tensor([1.1, 0.4, -0.3, -1.2], dtype=torch.float64)
    for spread, nudge in ((1.0, 0.5), (3.3, -0.25), (16.0, 1.0)):
        move(widget, "spread", spread)
        move(widget, "nudge", nudge)
        weights = rivals.weigh(base * spread)
        wanted = rivals.jacobian(weights)
        shown = [[number(widget, f"J.{i}.{j}") for j in range(4)] for i in range(4)]
        np.testing.assert_allclose(shown, wanted.numpy(), rtol=0, atol=SHOWN)
        norm = float(rivals.jacobian_norm(weights))
        assert number(widget, "norm") == pytest.approx(norm, rel=1e-8)
        moved = rivals.weigh(base * spread + torch.tensor([nudge, 0, 0, 0])) - weights
        actual = [number(widget, f"actual.{i}") for i in range(4)]
        np.testing.assert_allclose(actual, moved.numpy(), rtol=0, atol=SHOWN)


def test_base_and_temperature_meet_where_python_says(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    widget = page.locator("#widget-temperature")
    move(widget, "base", 2)
    move(widget, "temperature", 1.44)
    wanted = rivals.weigh(torch.tensor([2.0, 1, 0, -1], dtype=torch.float64), "base_two").numpy()
    shown = [number(widget, f"base.{at}") for at in range(4)]
    np.testing.assert_allclose(shown, wanted, rtol=0, atol=SHOWN)
    assert "good" in str(widget.locator('[data-name="verdict"]').get_attribute("class"))
    move(widget, "temperature", 0.9)
    assert "good" not in str(widget.locator('[data-name="verdict"]').get_attribute("class"))


def test_growth_is_held_by_the_norm_and_the_clip(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    widget = page.locator("#widget-growth")
    move(widget, "growth", 8)
    free = twins.grown_scores(3, 64, 6, 8)
    assert number(widget, "largest") == pytest.approx(free.max(), rel=1e-9)
    shown = [number(widget, f"weight.{at}") for at in range(6)]
    np.testing.assert_allclose(shown, softmax(free.tolist()), rtol=0, atol=SHOWN)
    widget.locator('[data-name="clip"]').check()
    assert number(widget, "largest") == pytest.approx(5, rel=1e-9)
    widget.locator('[data-name="clip"]').uncheck()
    widget.locator('[data-name="norm"]').check()
    held = twins.grown_scores(3, 64, 6, 8, norm=True)
    assert number(widget, "largest") == pytest.approx(held.max(), rel=1e-9)


def test_widgets_on_the_sentence_show_what_python_computes(page: Any, site: Path) -> None:
    found = world.load()
    opened(page, site, "zh", "01-embeddings")
    widget = page.locator("#widget-cosine")
    choose(widget, "0")
    move(widget, "feature.1", 0.7)
    changed = found.embeddings.copy()
    changed[0, 1] = 0.7
    wanted = [world.cosine(changed[0], row) for row in changed]
    shown = [number(widget, f"cosine.{at}") for at in range(5)]
    np.testing.assert_allclose(shown, wanted, rtol=0, atol=SHOWN)
    opened(page, site, "zh", "02-projections")
    widget = page.locator("#widget-pairs")
    move(widget, "q.1", -1.5)
    q = found.q[3].copy()
    q[1] = -1.5
    shown = [number(widget, f"score.{at}") for at in range(5)]
    np.testing.assert_allclose(shown, found.k @ q, rtol=0, atol=SHOWN)
    opened(page, site, "zh", "04-masking")
    widget = page.locator("#widget-weights")
    for mask, wanted_rows in (("none", found.weights(causal=False)), ("before", found.weights()),
                              ("after", np.tril(found.weights(causal=False)))):  # fmt: skip
        choose(widget, mask, 1)
        shown = [number(widget, f"weight.{at}") for at in range(5)]
        np.testing.assert_allclose(shown, wanted_rows[3], rtol=0, atol=SHOWN)
    assert number(widget, "sum") == pytest.approx(0.675, abs=5e-4)
    opened(page, site, "zh", "05-whole")
    widget = page.locator("#widget-mixture")
    choose(widget, "1", 1)
    shown = [number(widget, f"o.{at}") for at in range(2)]
    np.testing.assert_allclose(shown, found.output(1)[3], rtol=0, atol=SHOWN)
    grid = page.locator("#widget-grid")
    choose(grid, "0", 1)
    shown = [number(grid, f"g.3.{at}") for at in range(5)]
    np.testing.assert_allclose(shown, found.weights(0)[3], rtol=0, atol=SHOWN)


def test_arrows_bytes_hidden_scores_and_mixtures_are_right(page: Any, site: Path) -> None:
    opened(page, site, "en", "01-embeddings")
    widget = page.locator("#widget-angle")
    move(widget, "degrees", 120)
    move(widget, "length", 3)
    assert number(widget, "cosine") == pytest.approx(-0.5, abs=1e-12)
    assert number(widget, "dot") == pytest.approx(-2.25, abs=1e-12)
    opened(page, site, "en", "02-projections")
    widget = page.locator("#widget-bytes")
    assert number(widget, "additive") == figures.get("additive.bytes").value
    assert number(widget, "dot") == figures.get("dot_product.bytes").value
    opened(page, site, "en", "04-masking")
    widget = page.locator("#widget-hide")
    move(widget, "number", -12)
    assert number(widget, "weight.2") == pytest.approx(softmax([1, 0, 3 - 12])[2], rel=1e-9)
    move(widget, "number", -800)
    assert number(widget, "weight.2") == 0
    opened(page, site, "en", "05-whole")
    widget = page.locator("#widget-mix")
    for rule, inside in (("softmax", True), ("proportional", False)):
        choose(widget, rule)
        move(widget, "score.0", -4)
        assert ("good" in str(widget.locator(".verdict").get_attribute("class"))) is inside


@pytest.mark.parametrize("slug", PAGES)
def test_predictions_are_settled_before_they_are_revealed(page: Any, site: Path, slug: str) -> None:
    opened(page, site, "zh", slug)
    asked = page.locator(".predict")
    assert asked.count() >= 1
    for at in range(asked.count()):
        one = asked.nth(at)
        assert one.locator(".reveal").is_hidden()
        assert one.locator(".settle").is_disabled()
        wrong = one.locator("input:not([data-right])").first
        wrong.focus()
        page.keyboard.press("Space")
        one.locator(".settle").focus()
        page.keyboard.press("Enter")
        assert one.locator(".reveal").is_visible()
        assert one.locator("label.right").count() == 1
        assert one.locator("label.wrong").count() == 1


WIDE = str.maketrans("0123456789.-%", "０１２３４５６７８９．－％")


@pytest.mark.parametrize("slug", PAGES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_exercises_take_the_right_answer_and_no_other(
    page: Any, site: Path, language: str, slug: str
) -> None:
    """As people type it: with a comma, a percent sign, in full-width digits, with its unit."""
    opened(page, site, language, slug)
    asked = page.locator(".exercise")
    for at in range(asked.count()):
        one = asked.nth(at)
        answer = float(one.get_attribute("data-answer"))
        within = float(one.get_attribute("data-within"))
        field, verdict = one.locator("input"), one.locator(".verdict")
        right, wrong = f"{answer:.6f}", f"{answer + 3 * within:.6f}"
        unit = one.locator(".unit").inner_text() if one.locator(".unit").count() else ""
        for given, mark in (
            (wrong, "bad"), ("much", "bad"), ("", "bad"), (wrong.replace(".", ","), "bad"),
            (f" {right}% ".replace("-", "−"), "good"), (right.replace(".", ","), "good"),
            (right.translate(WIDE), "good"), (f"{right} {unit}", "good"),
        ):  # fmt: skip
            field.fill(given)
            field.press("Enter")
            assert mark in str(verdict.get_attribute("class")), (given, answer)


@pytest.mark.parametrize("slug", PAGES)
def test_figures_and_terms_open_by_keyboard(page: Any, site: Path, slug: str) -> None:
    opened(page, site, "en", slug)
    button = page.locator("main p .fig:visible").first
    id = str(button.get_attribute("data-figure"))
    button.focus()
    page.keyboard.press("Enter")
    card = page.locator(".note-card")
    assert card.count() == 1
    figure, shown = figures.get(id), card.inner_text()
    assert figure.title["en"] in shown
    chosen = figure.formula == "as chosen"
    assert ("chosen for the example" if chosen else figure.formula) in shown
    assert button.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert card.count() == 0
    assert page.evaluate("document.activeElement.dataset.figure") == id
    page.locator(".term").first.press("Enter")
    assert card.count() == 1


@pytest.mark.parametrize("slug", PAGES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_terms_of_a_formula_explain_themselves(
    page: Any, site: Path, language: str, slug: str
) -> None:
    opened(page, site, language, slug)
    formulas = page.locator(".formula")
    assert formulas.count() >= 1
    for at in range(formulas.count()):
        explained(page, formulas.nth(at))


def explained(page: Any, formula: Any) -> None:
    """Each underlined term is chosen by keyboard and shows its own words; nothing else is."""
    terms = formula.locator(".ask")
    assert terms.count() >= 2
    for at in range(terms.count()):
        assert terms.nth(at).evaluate("(one) => getComputedStyle(one).borderBottomStyle") != "none"
    assert formula.locator(".card:visible").count() == 0
    for at in range(terms.count()):
        if at == 0:
            terms.first.focus()
        else:
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        shown = formula.locator(".card:visible")
        assert shown.count() == 1
        assert shown.get_attribute("data-term") == terms.nth(at).get_attribute("data-ask")
    terms.first.click()
    assert formula.locator(".card:visible").get_attribute("data-term") == terms.first.get_attribute(
        "data-ask"
    )


def test_mathml_is_laid_out_as_mathematics(page: Any, site: Path) -> None:
    """A fraction is taller than a line, and Chinese in a formula is as wide as in a sentence."""
    opened(page, site, "zh", "03-softmax")
    tall, inside, beside, text = page.evaluate("""() => {
      const words = document.querySelector(".formula math mtext");
      const plain = document.createElement("span");
      const { fontFamily, fontSize } = getComputedStyle(words);
      plain.textContent = words.textContent;
      Object.assign(plain.style, { fontFamily, fontSize, whiteSpace: "pre" });
      document.body.append(plain);
      const box = (element) => element.getBoundingClientRect();
      const fraction = document.querySelector(".formula math mfrac");
      return [box(fraction).height, box(words).width, box(plain).width, plain.textContent];
    }""")
    assert tall > 40
    assert any("\u4e00" <= character <= "\u9fff" for character in text)
    assert inside == pytest.approx(beside, rel=0.05)
    assert inside > 8 * len(text)


def test_the_scheme_is_chosen_and_remembered(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    root = page.locator(".course")
    assert root.get_attribute("data-scheme") == "light"
    page.locator(".scheme").press("Enter")
    assert root.get_attribute("data-scheme") == "dark"
    page.reload()
    assert root.get_attribute("data-scheme") == "dark"


@every_look
def test_the_timeline_and_the_lists_read_without_fault(
    page: Any, site: Path, language: str, theme: str
) -> None:
    for name in ("index", "timeline"):
        page.goto(address(site, language, f"{name}.html"))
        page.wait_for_selector(".course.live")
        assert faults(page) == []
    generations = page.locator(".timeline > li")
    assert generations.count() >= 18
    page.locator(".timeline .fig").first.click()
    assert page.locator(".note-card").count() == 1
    page.goto((site / "index.html").as_uri())
    page.get_by_role("link", name=re.compile("一个 token" if language == "zh" else "takes")).click()
    page.wait_for_selector("main.index")


def test_a_lesson_leads_to_the_same_lesson_in_the_other_language(page: Any, site: Path) -> None:
    opened(page, site, "en", "03-softmax")
    page.locator("a.language").click()
    assert page.url.endswith("/zh/03-softmax.html")
    assert page.locator("html").get_attribute("lang") == "zh-Hans"


def test_a_damaged_widget_says_so(page: Any, site: Path, tmp_path: Path) -> None:
    """A page that carries nonsense shows a sentence, and its error is in the console."""
    text = (site / "en/03-softmax.html").read_text(encoding="utf-8")
    data = re.search(r'class="carried">(.*?)</script>', text)
    assert data is not None
    carried = json.loads(data[1])
    carried["widgets"][0]["options"] = {}
    (site / "en/damaged.html").write_text(text.replace(data[1], json.dumps(carried)))
    opened(page, site, "en", "damaged")
    assert page.locator(".widget .stand > .verdict.bad").count() == 1
    page.expected_errors()
    (site / "en/damaged.html").unlink()
