"""Widgets that show a row, a head or a mask run on the reader's own text, with exact numbers.

The text is one of a small random model, in Chinese and English with pieces of characters; what a
page shows is compared with the definition, computed from the trace's queries and keys. Pages are
opened from disk and the file is dropped on them (test_lesson_own_served.py has the server).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_samples import Samples
from lessons_site import choose, faults, move, number, numbers, opened
from own_page import HEADS, STARTS, all_own, check, drop, select
from own_truth import SHOWN, Head, gathered, head_of, softmax

import attnscope
from attnscope import tiles
from attnscope.trace import Trace

BOTH = pytest.mark.parametrize("language", ["en", "zh"])
LESSONS = (
    "01-embeddings", "02-projections", "03-softmax", "04-masking", "05-whole", "06-rope",
    "07-heads", "08-cache", "09-grouped", "10-latent", "11-linear", "12-stability", "13-reading",
)  # fmt: skip


@pytest.fixture(scope="module")
def trace(samples: Samples) -> Trace:
    return attnscope.open(samples.traces["llama-long"])


@pytest.fixture(scope="module")
def files(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """A handout for each place where a part may begin."""
    folder = tmp_path_factory.mktemp("handouts")
    found = {}
    for start in STARTS:
        found[start] = folder / f"{start}.json"
        text = json.dumps(tiles.handout(trace, HEADS, start=start), ensure_ascii=False)
        found[start].write_text(text, encoding="utf-8")
    return found


Open = Callable[..., tuple[Any, Head, int]]


@pytest.fixture
def own(page: Any, site: Path, language: str, files: dict[int, Path], trace: Trace) -> Open:
    """A widget on a head and a row of the text: the widget, the head, and the row's token."""

    def go(slug: str, id: str, *, start: int = 0, row: int | None = 50) -> tuple[Any, Head, int]:
        opened(page, site, language, slug)
        widget = page.locator(f"#widget-{id}")
        drop(widget, files[start].read_text(encoding="utf-8"))
        widget.and_(page.locator(".of-own")).wait_for()
        found = head_of(trace, *HEADS[0], start)
        if row is not None:
            select(widget, "row", row)
        return widget, found, start + (row or 0)

    return go


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_three_rules_on_a_real_row(own: Open, start: int) -> None:
    widget, head, row = own("03-softmax", "rules-car", start=start)
    named = head.named(row, 5)
    scores = head.parts(row, named)
    check(widget, "softmax", gathered(softmax(scores), 5))
    np.testing.assert_allclose(numbers(widget, "softmax", 5), head.weights[row, named], **SHOWN)
    check(widget, "proportional", gathered(scores / scores.sum(), 5))
    shifted = scores - scores.min()
    check(widget, "shifted", gathered(shifted / shifted.sum(), 5))
    assert widget.locator(".claimed").count() == 0
    move(widget, "score.1", 3)
    scores[1] = 3
    check(widget, "softmax", gathered(softmax(scores), 5))


@BOTH
def test_the_properties_hold_on_a_real_row(own: Open) -> None:
    widget, head, row = own("03-softmax", "properties", start=36)
    named = head.named(row, 5)
    scores = head.parts(row, named)
    check(widget, "weight", gathered(softmax(scores), 5))
    assert number(widget, "least") == pytest.approx(softmax(scores).min(), rel=1e-6)
    assert number(widget, "law") == pytest.approx(np.exp(scores[0] - scores[1]), rel=1e-6)
    move(widget, "shift", 7)
    assert number(widget, "moved") < 1e-9


@BOTH
def test_a_real_row_under_another_base_and_temperature(own: Open) -> None:
    widget, head, row = own("03-softmax", "temperature")
    scores = head.parts(row, head.named(row, 5))
    check(widget, "base", gathered(softmax(scores * np.log(4)), 5))
    move(widget, "temperature", 2.5)
    check(widget, "temperature", gathered(softmax(scores / 2.5), 5))


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_the_jacobian_of_a_real_row(own: Open, trace: Trace, start: int) -> None:
    widget, head, row = own("03-softmax", "jacobian", start=start)
    named = head.named(row, 5)
    best = max(named, key=lambda key: head.weights[row, key])
    order = [best, *(key for key in named if key != best)]
    w = gathered(softmax(head.parts(row, order)), 5)
    check(widget, "weight", w)
    for i in range(6):
        check(widget, f"J.{i}", (np.diag(w) - np.outer(w, w))[i])
    if start == 0:  # all that the row sees is here: the statistic that the capture measured
        measured = trace.layer(2).statistic("jacobian_norm")[3, row]
        assert number(widget, "norm") == pytest.approx(measured, rel=1e-4)
    move(widget, "spread", 2)
    # A part of a longer text has the joint score of the rest, so this is exact only for the whole.
    if start == 0:
        check(widget, "weight", gathered(softmax(2 * head.parts(row, order)), 5))


@BOTH
def test_a_real_row_grows(own: Open) -> None:
    widget, head, row = own("03-softmax", "growth")
    scores = head.parts(row, head.named(row, 8))
    move(widget, "growth", 3)
    check(widget, "weight", gathered(softmax(9 * scores), 8))
    assert number(widget, "largest") == pytest.approx(9 * scores.max(), rel=1e-6)
    widget.locator('[data-name="clip"]').check()
    check(widget, "weight", gathered(softmax(scores * (5 / scores.max())), 8))
    widget.locator('[data-name="norm"]').check()
    assert number(widget, "largest") == pytest.approx(min(5, scores.max()), rel=1e-6)


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_a_real_row_under_three_masks(own: Open, start: int) -> None:
    widget, head, row = own("04-masking", "weights", start=start, row=40)
    window = range(row - 7, row + 5)
    for mask in ("none", "before", "after"):
        choose(widget, mask)
        last = row + 1 if mask == "before" else head.stop
        whole = np.zeros(head.stop)
        whole[:last] = softmax(head.scores[row, :last])
        shown = whole if mask != "after" else np.where(np.arange(head.stop) > row, 0, whole)
        check(widget, "weight", shown[list(window)])
        future = whole[row + 1 :].sum() if mask == "none" else 0
        assert number(widget, "future") == pytest.approx(future, abs=1e-8)
        kept = whole.sum() if mask != "after" else whole[: row + 1].sum()
        assert number(widget, "sum") == pytest.approx(kept, rel=1e-6)


@BOTH
def test_windows_of_a_real_square(own: Open) -> None:
    widget, head, row = own("02-projections", "grid")
    window = range(row - 11, row + 1)
    for i in window:
        shown = [number(widget, f"g.{i}.{j}") for j in window]
        np.testing.assert_allclose(shown, head.scores[i, list(window)], **SHOWN)
    widget, head, row = own("05-whole", "grid", start=36)
    window = range(row - 11, row + 1)
    for i in window:
        shown = [number(widget, f"g.{i - 36}.{j - 36}") for j in window]
        np.testing.assert_allclose(shown, head.weights[i, list(window)], **SHOWN)
        rest = head.weights[i].sum() - head.weights[i, list(window)].sum()
        assert number(widget, f"g.{i - 36}.rest") == pytest.approx(rest, rel=1e-6)


@BOTH
def test_a_real_query_against_its_keys(own: Open) -> None:
    widget, head, row = own("02-projections", "pairs")
    named = head.named(row, 12)
    check(widget, "score", head.scores[row, named])
    move(widget, "length", -0.5)
    check(widget, "score", -0.5 * head.scores[row, named])


@BOTH
def test_a_real_token_is_hidden_by_a_number(own: Open) -> None:
    widget, head, row = own("04-masking", "hide", start=36)
    assert widget.locator('select[data-name="own.row"] option').count() == 63
    named = head.named(row, 5)
    for added in (-2, -9):
        move(widget, "number", added)
        scores = head.parts(row, named)
        whole = softmax(np.insert(scores, 5, head.scores[row, row + 1] + added))
        check(widget, "weight", gathered(whole, 6))


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_what_arrives_of_a_real_row(own: Open, start: int) -> None:
    widget, head, row = own("05-whole", "mixture", start=start)
    arrived = head.weights[row] * head.norms
    for key in head.named(row, 8):
        wanted = {
            "weight": head.weights[row, key], "norm": head.norms[key],
            "arrived": arrived[key], "share": arrived[key] / arrived.sum(),
        }  # fmt: skip
        for name, value in wanted.items():
            assert number(widget, f"{name}.{key - start}") == pytest.approx(value, rel=1e-6)
    assert number(widget, "all") == pytest.approx(arrived.sum(), rel=1e-6)


@BOTH
def test_a_real_row_in_a_triangle(own: Open) -> None:
    widget, head, row = own("05-whole", "mix", start=36)
    named = head.named(row, 2)
    w = head.weights[row, named]
    check(widget, "weight", [*w, 1 - w.sum()])
    move(widget, "score.2", 1)
    check(widget, "weight", softmax(np.array([*head.scores[row, named], 1.0])))


@BOTH
def test_ways_out_for_a_real_row(own: Open) -> None:
    widget, head, row = own("07-heads", "nothing", start=36)
    named = head.named(row, 5)
    scores = head.parts(row, named)
    brought = (head.weights[row] * head.norms).sum()
    move(widget, "number", 2)
    whole = softmax(np.array([*scores, 2.0]))
    check(widget, "weight", [*gathered(whole[:-1], 5), whole[-1]])
    assert number(widget, "own_kept") == pytest.approx(1 - whole[-1], rel=1e-6)
    assert number(widget, "own_size") == pytest.approx(brought * (1 - whole[-1]), rel=1e-6)
    assert number(widget, "plain") == pytest.approx(brought, rel=1e-6)
    choose(widget, "gate")
    opening = 1 / (1 + np.exp(-2))
    assert number(widget, "own_size") == pytest.approx(brought * opening, rel=1e-6)


@BOTH
def test_a_lid_on_a_real_row(own: Open) -> None:
    widget, head, row = own("12-stability", "lid")
    named = sorted(head.named(row, 5), key=lambda key: -head.scores[row, key])
    scores = head.parts(row, named)
    move(widget, "threshold", 2)
    check(widget, "none.weight", gathered(softmax(scores), 5))
    check(widget, "lid.weight", gathered(softmax(np.minimum(scores, 2)), 5))
    check(widget, "soft.weight", gathered(softmax(2 * np.tanh(scores / 2)), 5))


@BOTH
def test_two_real_heads_side_by_side(own: Open, trace: Trace) -> None:
    widget, head, row = own("09-grouped", "share")
    for other, same in (((2, 2), True), ((0, 1), False)):
        select(widget, "other", f"{other[0]}.{other[1]}")
        second = head_of(trace, *other)
        for letter, one in (("A", head), ("B", second)):
            check(widget, f"weight.{letter}", one.weights[row, one.named(row, 8)])
        common = np.minimum(head.weights[row], second.weights[row]).sum()
        assert number(widget, "overlap") == pytest.approx(common, rel=1e-6)
        groups = [number(widget, f"group.{letter}") for letter in "AB"]
        assert (groups[0] == groups[1] and other[0] == 2) is same
    widget, head, row = own("07-heads", "weights", start=36)
    select(widget, "other", "3.0")
    second = head_of(trace, 3, 0, 36)
    window = list(range(row - 11, row + 1))
    check(widget, "weight", head.weights[row, window])
    check(widget, "other.weight", second.weights[row, window])


@BOTH
def test_earlier_rows_stand_still_only_with_the_mask(own: Open) -> None:
    widget, head, _ = own("08-cache", "still", row=None)
    assert number(widget, "moved") == 0
    move(widget, "tokens", 20)
    choose(widget, "none")
    rows = [[softmax(head.scores[i, :n])[:19] for n in (19, 20)] for i in range(19)]
    moves = [np.abs(a - b).max() for a, b in rows]
    assert number(widget, "moved") == pytest.approx(max(moves), rel=1e-5)
    assert number(widget, "moved.12") == pytest.approx(moves[12], rel=1e-5)


@BOTH
def test_a_real_head_in_fewer_numbers(own: Open) -> None:
    widget, head, row = own("10-latent", "squeeze")
    here = head.scores[head.here, head.here]
    u, s, v = np.linalg.svd(here)
    tri = np.tri(len(here), dtype=bool)
    for rank in (4, 9):
        move(widget, "numbers", rank)
        made = np.where(tri, (u[:, :rank] * s[:rank]) @ v[:rank], -np.inf)
        weights = np.array([softmax(one) for one in made])
        named = head.named(row, 8)
        # Eigenvectors of a product of scores have half of a float64's digits.
        np.testing.assert_allclose(numbers(widget, "made", 8), weights[row, named], atol=1e-5)
        check(widget, "weight", head.weights[row, named])
        off = np.abs(weights - head.weights[head.here, head.here]).max()
        assert number(widget, "off") == pytest.approx(off, abs=1e-5)


@BOTH
def test_what_a_scheme_reads_of_a_real_head(own: Open) -> None:
    widget, head, _ = own("11-linear", "sight", row=None)
    weights = head.weights[head.here, head.here]
    i, j = np.indices(weights.shape)
    choose(widget, "full")
    assert number(widget, "covered") == pytest.approx(1, rel=1e-9)
    choose(widget, "window")
    move(widget, "window", 9)
    assert number(widget, "covered") == pytest.approx(
        np.where(i - j < 9, weights, 0).sum(1).mean(), rel=1e-6)  # fmt: skip
    choose(widget, "chosen")
    move(widget, "count", 4)
    best = -np.sort(-weights, axis=1)[:, :4]
    assert number(widget, "covered") == pytest.approx(best.sum(1).mean(), rel=1e-6)


@BOTH
@pytest.mark.parametrize("start", STARTS)
def test_the_readers_heads_take_the_place_of_the_lessons(
    own: Open, trace: Trace, start: int
) -> None:
    widget, _, _ = own("13-reading", "reading", start=start, row=None)
    buttons = widget.locator(".stand .switch").first.locator("button")
    assert [one.split()[0] for one in buttons.all_inner_texts()] == ["2.3", "0.1", "2.2", "3.0"]
    text = "".join(widget.locator(".word").all_inner_texts())
    labels = tiles.handout(trace, HEADS, start=start)["tokens"]
    first, last = labels["spans"][0][0], labels["spans"][-1][1]
    assert text == trace.text.encode()[first:last].decode()
    for at in (0, 3):
        choose(widget, str(at), 0)
        head = head_of(trace, *HEADS[at], start)
        row = start + 44
        move(widget, "row", row + 1)
        arrived = head.weights[row] * head.norms
        for key in head.named(row, 8):
            shown = number(widget, f"weight.{key - start}")
            assert shown == pytest.approx(head.weights[row, key], rel=1e-6)
            share = number(widget, f"arrived.{key - start}")
            assert share == pytest.approx(arrived[key] / arrived.sum(), rel=1e-6)
        if start:
            beyond = head.weights[row, :start].sum()
            assert number(widget, "beyond.weight") == pytest.approx(beyond, rel=1e-6)
        else:
            even = arrived.sum() / head.norms[: row + 1].mean()
            assert number(widget, "all") == pytest.approx(even, rel=1e-6)


@BOTH
def test_the_readers_heads_are_counted_by_kind(own: Open, trace: Trace) -> None:
    widget, _, _ = own("13-reading", "census", row=None)
    kinds = trace.kinds()
    for kind in ("sink", "previous-token", "induction", "local", "uniform", "mixed"):
        assert number(widget, f"count.{kind}") == sum(one.kind == kind for one in kinds)
    assert widget.locator("svg.census > rect:not(.ring)").count() == 16
    move(widget, "layer", 1)
    move(widget, "head", 2)
    [one] = [one for one in kinds if (one.layer, one.head) == (1, 2)]
    assert number(widget, "chosen.share") == pytest.approx(one.share, rel=1e-6)
    first = trace.layer(1).statistic("sink_mass")[2].mean()
    assert number(widget, "chosen.first") == pytest.approx(first, rel=1e-6)


@BOTH
def test_what_a_silence_costs_is_said_to_be_in_no_capture(own: Open) -> None:
    """The heads are shown by their weight on the first token then, and not as if by their cost."""
    widget, _, _ = own("13-reading", "census-cost", row=None)
    pressed = widget.locator('.stand [aria-pressed="true"]')
    assert [one.get_attribute("data-choice") for one in pressed.all()] == ["first"]
    note = widget.locator(".stand > .note").first.inner_text()
    assert note.startswith(("What a head's silence costs is in no capture", "让一个头不出声"))


def test_names_of_results_keep_their_room_on_a_phone(
    page: Any, site: Path, files: dict[int, Path]
) -> None:
    """Two results in one line left the name of the first a letter a line."""
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, site, "zh", "04-masking")
    widget = page.locator("#widget-weights")
    drop(widget, files[0].read_text(encoding="utf-8"))
    widget.locator('[data-name="own.guide"]').wait_for()
    names = widget.locator(".stand dt")
    assert names.count() >= 2
    for name in names.all():
        box = name.bounding_box()
        assert box["width"] > 3 * box["height"]


def test_the_choice_is_offered_again_and_can_be_undone(
    page: Any, site: Path, files: dict[int, Path]
) -> None:
    """In the next widget, on the next page, in the other language; back brings the lesson's."""
    opened(page, site, "en", "03-softmax")
    widget = page.locator("#widget-rules-car")
    before = widget.locator(".stand").inner_html()
    drop(widget, files[0].read_text(encoding="utf-8"))
    widget.locator('[data-name="score.4"]').wait_for()
    select(widget, "layer", 3)
    select(widget, "row", 20)
    said = "Your text: small llama, head 3.0, tokens 1 to 64 of 2000."
    widget.get_by_text(said).wait_for()
    about = widget.locator('[data-name="own.guide"]')
    assert "about the lesson's example" in about.inner_text()
    guide = widget.locator(".guide")
    about.evaluate("one => { one.open = false; }")  # `opened` unfolds a page's folds
    assert not guide.is_visible()
    about.locator("summary").click()
    assert guide.is_visible()
    widget.locator('[data-name="own.back"]').click()
    assert about.is_hidden()
    assert guide.is_visible()
    assert widget.locator(".stand").inner_html() == before
    assert widget.locator("[role=status]").first.inner_text() == "The lesson's example again."
    offer = page.locator('#widget-jacobian [data-name="own"]')
    assert offer.inner_text() == "Try this on your own text (small llama, layer 3, head 0)"
    opened(page, site, "zh", "04-masking")
    widget = page.locator("#widget-weights")
    button = widget.locator('[data-name="own"]')
    assert button.inner_text() == "换成自己的文本（small llama，第 3 层第 0 个头）"
    button.click()
    widget.get_by_text("你的文本：small llama，头 3.0，共 2000 个 token").wait_for()
    assert widget.locator('select[data-name="own.row"]').input_value() == "20"
    page.reload()
    page.wait_for_selector(".course.live")
    assert "small llama" in page.locator('#widget-hide [data-name="own"]').inner_text()


BAD = {
    "empty": ("", "no JSON"),
    "half": ('{"schema": "attnscope.head/1", "tok', "no JSON"),
    "nan": ('{"schema": "attnscope.head/1", "model": NaN}', "no JSON"),
    "foreign": ('{"schema": "attnscope.look/1"}', "something else"),
    "list": ("[1, 2, 3]", "something else"),
    "newer": ('{"schema": "attnscope.head/9"}', "another format"),
    "tokens": ('{"schema": "attnscope.head/1", "tokens": {"labels": []}}', "damaged"),
}


def test_a_file_that_is_none_is_a_sentence_and_changes_nothing(
    page: Any, site: Path, files: dict[int, Path], tmp_path: Path
) -> None:
    opened(page, site, "en", "03-softmax")
    widget = page.locator("#widget-rules-car")
    before = widget.locator(".stand").inner_html()
    fault = widget.locator(".own .fault")
    for text, said in BAD.values():
        drop(widget, text)
        fault.get_by_text(said).wait_for()
    good = json.loads(files[0].read_text(encoding="utf-8"))
    for damage, said in (
        (lambda v: v["heads"][0]["scores"][5].pop(), "heads[0].scores is not"),
        (lambda v: v["heads"][0]["scores"][5].__setitem__(0, 9.5), "heads[0].weights[5] is not"),
        (lambda v: v["heads"][1].__setitem__("norms", ["x"] * 64), "heads[1].norms is not"),
        (lambda v: v["tokens"]["labels"].__setitem__(0, "\ufffd"), "tokens.labels is not"),
    ):
        value = json.loads(json.dumps(good))
        damage(value)
        drop(widget, json.dumps(value))
        fault.get_by_text(said).wait_for()
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(50 << 20)
    widget.locator('input[data-name="own.file"]').set_input_files(large)
    fault.get_by_text("larger than 16 MB").wait_for()
    assert widget.locator(".stand").inner_html() == before
    assert "of-own" not in str(widget.get_attribute("class"))
    assert page.evaluate("sessionStorage.length") == 0
    drop(widget, json.dumps(good))
    widget.get_by_text("Your text:").wait_for()
    shown = widget.locator(".stand").inner_html()
    drop(widget, "{")
    fault.get_by_text("no JSON").wait_for()
    assert widget.locator(".stand").inner_html() == shown


def test_script_in_a_token_is_text(page: Any, site: Path, files: dict[int, Path]) -> None:
    value = json.loads(files[0].read_text(encoding="utf-8"))
    attack = "<img src=x onerror='window.broken = 1'><script>window.broken = 1</script>"
    value["tokens"]["labels"] = [attack] * 64
    value["model"] = attack
    for slug, id in (("13-reading", "reading"), ("05-whole", "grid"), ("05-whole", "mix")):
        opened(page, site, "en", slug)
        widget = page.locator(f"#widget-{id}")
        drop(widget, json.dumps(value))
        widget.get_by_text("Your text:").wait_for()
        assert attack[:20] in widget.inner_text()
    page.wait_for_timeout(200)
    assert page.evaluate("window.broken") is None
    assert page.locator("img[src='x']").count() == 0


@pytest.mark.parametrize(("language", "theme"), [("en", "light"), ("zh", "dark")])
@pytest.mark.parametrize("slug", LESSONS)
def test_own_texts_read_without_fault(
    page: Any, site: Path, language: str, theme: str, slug: str, files: dict[int, Path]
) -> None:
    opened(page, site, language, slug)
    assert page.locator(".course").get_attribute("data-scheme") == theme
    assert len(list(all_own(page, files[36].read_text(encoding="utf-8")))) > 0
    assert faults(page) == []
    if language == "zh":
        said = " ".join(page.locator(".own").all_inner_texts())
        assert "Your text" not in said


@pytest.mark.parametrize("slug", LESSONS)
def test_own_texts_fit_a_phone_and_answer_every_input(
    page: Any, site: Path, slug: str, files: dict[int, Path]
) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, site, "zh", slug)
    for widget in all_own(page, files[36].read_text(encoding="utf-8")):
        for name in ("layer", "head", "row"):
            one = widget.locator(f'select[data-name="own.{name}"]')
            if one.is_visible() and one.locator("option").count() > 1:
                before = widget.locator(".own-said").inner_text()
                other = one.evaluate("(s) => [...s.options].find((o) => o.value !== s.value).value")
                one.select_option(other)
                page.wait_for_function(
                    "([one, before]) => one.innerText !== before",
                    arg=[widget.locator(".own-said").element_handle(), before],
                )
        for slider in widget.locator('.stand input[type="range"]').all():
            before = widget.locator(".stand").inner_html()
            name = str(slider.get_attribute("data-name"))
            low = float(slider.get_attribute("min") or 0)
            high = float(slider.get_attribute("max") or 0)
            now = float(slider.input_value())
            if name == "tau":
                continue  # acts once QK-Clip is on
            move(widget, name, low if abs(now - low) > abs(now - high) else high)
            assert widget.locator(".stand").inner_html() != before, (slug, name)
            move(widget, name, now)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_text_is_opened_and_chosen_by_keyboard_alone(
    page: Any, site: Path, files: dict[int, Path]
) -> None:
    opened(page, site, "en", "04-masking")
    widget = page.locator("#widget-weights")
    button = widget.locator('[data-name="own"]')
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    panel = page.locator(f"#{button.get_attribute('aria-controls')}")
    assert panel.is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.name") == "own.file"
    with page.expect_file_chooser() as waiting:
        page.keyboard.press("Space")
    waiting.value.set_files(files[0])
    widget.get_by_text("Your text:").wait_for()
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.dataset.name"))
    assert reached[:3] == ["own.layer", "own.head", "own.row"]
    widget.locator('select[data-name="own.row"]').focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    widget.get_by_text("Token 59 ").wait_for()
    page.keyboard.press("Shift+Tab")
    button.focus()
    page.keyboard.press("Enter")
    assert panel.is_hidden()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.name") == "own.back"
    page.keyboard.press("Enter")
    assert widget.locator("[role=status]").first.inner_text() == "The lesson's example again."
    assert page.evaluate("document.activeElement.dataset.name") == "own"
