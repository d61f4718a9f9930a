"""The planner's page in Chromium, from disk: its fields, its numbers, its words, its plot.

Not here: that the page's Python answers as Python does, who else answers (test_planner_python.py).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lessons_site import faults
from looks import every_look
from planner_site import check_shown, opened, said, settled

from attnscope.plan.devices import DEVICES
from attnscope.plan.find import CONFIGS

sys.path.insert(0, str(Path(__file__).parents[1] / "plan"))
from planner_words import chinese
from test_plan_chinese import english

LLAMA = (CONFIGS / "llama-3-8b.json").read_text("utf-8")


def test_a_file_that_is_too_large_or_none_is_refused_in_words(
    page: Any, site: Path, tmp_path: Path
) -> None:
    opened(page, site, "zh")
    page.locator("select[data-field=model]").select_option("…")
    large = tmp_path / "large.json"
    large.write_bytes(b" " * 10_000_000)
    said_of_file = page.locator(".chooser [role=status]").first
    for field in (page.locator(".chooser input[type=file]").first,):
        field.set_input_files(large)
    assert "large.json 有 10,000,000 字节" in said_of_file.inner_text()
    page.evaluate(
        "() => { const data = new DataTransfer();"
        " data.items.add(new File(['x'], 'model.safetensors'));"
        " document.querySelector('.planner-form').dispatchEvent("
        "new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); }"
    )
    assert "model.safetensors 不是 config.json" in said_of_file.inner_text()


@pytest.mark.parametrize(
    "view", ["#n=4096&s=1%2F4&h=3%2C8&v=deepseek-v4-flash", "#m=gemma-3-27b&v=kimi-k2&k=int8"]
)
@pytest.mark.slow
def test_no_english_is_left_on_the_chinese_page(page: Any, site: Path, view: str) -> None:
    """All that is read, with every number's card open in turn."""
    opened(page, site, "zh", view)
    names = {"attnscope", "English", "glm", "qwen", "deepseek", "flash", "gemma", "kimi", "plan"}
    texts = page.evaluate(
        "() => { const found = [document.body.innerText];"
        " for (const one of document.querySelectorAll('.results .fig')) { one.click();"
        " found.push(document.querySelector('.note-card').innerText); }"
        " for (const one of document.querySelectorAll('option')) one.remove();"
        " return found; }"
    )
    assert len(texts) > 80
    left = {one: words for text in texts for one in text.splitlines()
            if (words := [word for word in english(one) if word not in names])
            and not one.startswith("命令行里这样问")}  # fmt: skip
    assert left == {}


@every_look
def test_the_page_reads_without_fault(page: Any, site: Path, language: str, theme: str) -> None:
    opened(page, site, language)
    assert page.locator(".course").get_attribute("data-scheme") == theme
    check_shown(page, said())
    assert faults(page) == []
    page.locator('[data-name="total.0"]').click()
    page.locator("select[data-field=model]").select_option("…")
    page.wait_for_selector(".error:visible")
    assert faults(page) == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_fits_a_phone(page: Any, site: Path, language: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, site, language, "#v=gemma-3-27b")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        "[...document.querySelectorAll('main button:not(.fig), main select, main input')]"
        ".filter((one) => one.offsetParent && one.type !== 'checkbox'"
        " && one.getBoundingClientRect().height < 24).length"
    )
    assert small == 0
    assert page.locator(".plot svg").bounding_box()["width"] <= 360


@pytest.mark.slow
def test_fields_change_the_answer_and_the_address_holds_it(page: Any, site: Path) -> None:
    opened(page, site)
    page.locator("select[data-field=model]").select_option("gemma-3-27b")
    page.locator("select[data-field=versus]").select_option("llama-3-8b")
    page.locator("select[data-field=dtype]").select_option("int8")
    page.locator("select[data-choice=room]").select_option("mi300x")
    page.locator("input[data-field=context]").fill("100000")
    page.locator("input[data-field=batch]").fill("3")
    assert not page.locator("input[data-field=heads]").is_visible()
    page.locator(".more summary").click()
    page.locator("input[data-field=heads]").fill("4,16")
    page.locator("input[data-field=window]").fill("2048")
    page.locator("input[data-field=share]").fill("1/3")
    page.locator("select[data-field=form]").select_option("fp16")
    page.locator("select[data-field=device]").select_option("l40s")
    settled(page)
    wanted = said(
        model={"name": "gemma-3-27b"}, versus={"name": "llama-3-8b"}, kv_dtype="int8",
        room="mi300x", context=100_000, batch=3, heads="4,16", window=2048, share="1/3",
        dtype="fp16", device="l40s",
    )  # fmt: skip
    check_shown(page, wanted)
    assert page.locator(".headline").count() == 2
    view = "#" + page.url.partition("#")[2]
    opened(page, site, "en", view)
    check_shown(page, wanted)
    assert page.locator("input[data-field=batch]").input_value() == "3"
    assert page.locator("input[data-field=share]").is_visible()  # what is asked is not folded away
    page.locator("a.language").click()
    page.wait_for_selector(".headline >> nth=1")
    assert "/zh/planner.html#" in page.url
    check_shown(page, wanted)


@pytest.mark.slow
def test_a_config_is_pasted_dropped_and_chosen(page: Any, site: Path, tmp_path: Path) -> None:
    opened(page, site)
    page.locator("select[data-field=model]").select_option("…")
    page.wait_for_selector(".error:visible")
    assert page.locator(".error").inner_text().startswith("config.json is empty: paste")
    page.locator('textarea[data-field="model.config"]').fill(LLAMA)
    settled(page)
    wanted = said(model={"name": "config.json", "config": LLAMA})
    check_shown(page, wanted)
    assert page.locator(".error").is_hidden()
    area = page.locator('textarea[data-field="model.config"]')
    area.fill("")
    page.locator(".error", has_text="config.json is empty: paste").wait_for()
    assert area.is_visible()
    assert page.locator("select[data-field=model]").input_value() == "…"
    area.fill(LLAMA)
    settled(page)
    check_shown(page, wanted)
    opened(page, site, "en", "#" + page.url.partition("#")[2])
    check_shown(page, wanted)
    assert "llama" in page.locator('textarea[data-field="model.config"]').input_value()
    gemma = (CONFIGS / "gemma-2-9b.json").read_text("utf-8")
    page.evaluate(
        "(text) => { const data = new DataTransfer();"
        " data.items.add(new File([text], 'gemma.json'));"
        " document.querySelector('.planner-form').dispatchEvent("
        "new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); }",
        gemma,
    )
    settled(page)
    assert page.locator(".headline h2").inner_text() == "gemma.json"
    check_shown(page, said(model={"name": "gemma.json", "config": gemma}))
    file = tmp_path / "mine.json"
    file.write_text(LLAMA, "utf-8")
    page.locator(".chooser input[type=file]").first.set_input_files(file)
    settled(page)
    assert page.locator(".headline h2").inner_text() == "mine.json"
    other = tmp_path / "model.gguf"
    other.write_bytes(b"GGUF")
    page.locator(".chooser input[type=file]").first.set_input_files(other)
    assert "`attnscope plan`" in page.locator(".chooser .note").first.inner_text() or (
        "attnscope plan" in page.locator(".chooser [role=status]").first.inner_text()
    )


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_wrong_is_the_planners_own_sentence(page: Any, site: Path, language: str) -> None:
    opened(page, site, language)
    error = page.locator(".error")

    def sentence(**question: Any) -> str:
        own: str = said(**question)["error"]["sentence"]
        return chinese([own])[0] if language == "zh" else own

    page.locator(".more summary").click()
    for field, value, question in (
        ("context", "0", {"context": 0}),
        ("batch", "1.5", {"batch": 1.5}),
        ("heads", "x", {"heads": "x"}),
        ("weights", "heavy", {"weights": "heavy"}),
        ("window", "0", {"window": 0}),
        ("window", "5", {"window": 5}),
        ("share", "1/4", {"share": "1/4"}),
        ("share", "half", {"share": "half"}),
    ):
        one = page.locator(f"input[data-field={field}]")
        before = one.input_value()
        one.fill(value)
        settled(page)
        assert error.inner_text() == sentence(**question)
        assert one.get_attribute("aria-invalid") == "true"
        assert page.locator(f"#{one.get_attribute('aria-describedby')}").is_visible()
        one.fill(before)
        settled(page)
        assert error.is_hidden()
    page.locator("select[data-choice=room]").select_option("…")
    page.locator("input[data-field=room]").fill("80 apples")
    settled(page)
    assert error.inner_text() == sentence(room="80 apples")
    page.locator("input[data-field=room]").fill("80GiB")
    settled(page)
    check_shown(page, said(room="80GiB"))


def test_numbers_open_by_keyboard_and_say_what_stands_behind_them(page: Any, site: Path) -> None:
    opened(page, site)
    total = said()["models"][0]["cache"]["total"]
    button = page.locator('[data-name="total.0"]').first
    button.focus()
    page.keyboard.press("Enter")
    card = page.locator(".note-card")
    text = card.inner_text()
    assert total["exact"] in text
    assert total["formula"] in text
    for one in total["inputs"]:
        assert one["name"] in text
        assert one["value"] in text
        assert one["source"] in text
    assert card.locator(".kind.computed").count() == 1
    page.keyboard.press("Escape")
    assert card.count() == 0
    assert page.evaluate("document.activeElement.dataset.name") == "total.0"
    page.locator('[data-name="memory.h100"]').press("Enter")
    assert card.locator(".kind.reported").count() == 1
    assert DEVICES["h100"].sheet in card.inner_text()
    page.locator('[data-name="weighed.0.32768"]').press("Enter")
    assert card.locator(".kind.measured").count() == 1
    assert "transformers" in card.inner_text()
    page.locator('[data-name="planned.0.32768"]').press("Enter")
    assert card.locator(".kind.computed").count() == 1
    page.locator('[data-name="engine.vllm.0"]').press("Enter")
    assert card.locator(".kind.computed").count() == 1  # by a rule that was read, and said so
    assert "vLLM was not run" in card.inner_text()
    engines = page.locator('[data-part="engines"] tbody tr')
    assert [("checked" in one) for one in engines.all_inner_texts()] == [True, False, False, True]
    assert page.locator(".scrolling .note-card").count() == 0
    assert len(DEVICES) == page.locator('[data-part="fits"] tbody tr').count()


def test_every_control_is_reached_by_keyboard(page: Any, site: Path) -> None:
    opened(page, site)
    page.locator(".more summary").focus()
    page.keyboard.press("Enter")
    wanted = set(page.evaluate(
        "[...document.querySelectorAll('.planner-form :is(select, input, textarea, button)')]"
        ".filter((one) => one.offsetParent).map((one, at) => { one.dataset.tab = at; return at; })"
    ))  # fmt: skip
    reached = set()
    page.locator(".skip").focus()
    for _ in range(len(wanted) + 10):
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement.dataset.tab ?? null")
        if at is not None:
            reached.add(int(at))
    assert reached == wanted
    page.locator(".asked input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    assert page.locator("input[data-field=context]").input_value() == "65536"
    check_shown(page, said(context=65536))


def test_the_plot_draws_a_line_for_each_scheme_and_takes_a_context(page: Any, site: Path) -> None:
    opened(page, site)
    picture = said()["picture"]
    assert page.locator(".plot .scheme").count() == len(picture["lines"])
    assert page.locator(".legend li").count() == len(picture["lines"])
    assert page.locator(".plot .room").count() == 1
    # The lines are where the bytes are: heights of the last points, by their logarithms.
    ends = page.evaluate(
        "[...document.querySelectorAll('.plot .scheme')].map((one) => Number(one"
        ".getAttribute('points').split(' ').at(-1).split(',')[1]))"
    )
    sizes = [one["sizes"][-1] for one in picture["lines"]]
    assert sorted(range(len(ends)), key=lambda at: -ends[at]) == sorted(
        range(len(sizes)), key=lambda at: sizes[at]
    )
    plot = page.locator(".plot")
    plot.click(position={"x": plot.bounding_box()["width"] * 0.5, "y": 60})
    settled(page)
    context = int(page.locator("input[data-field=context]").input_value())
    assert 100 < context < 10_000
    check_shown(page, said(context=context))


def test_the_plot_is_logarithmic_and_has_the_devices_line_where_its_room_ends(
    page: Any, site: Path
) -> None:
    """Every point of every line, by the logarithms of the planner's own values."""
    opened(page, site)
    picture = said()["picture"]
    drawn, [room] = page.evaluate(
        "[[...document.querySelectorAll('.plot .scheme')].map((one) => one.getAttribute('points')"
        ".split(' ').map((point) => point.split(',').map(Number))),"
        " [...document.querySelectorAll('.plot .room path')].map((one) =>"
        " Number(one.getAttribute('d').match(/M[\\d.]+ ([\\d.]+)H/)[1]))]"
    )
    wanted = {tuple(map(float, one["sizes"])) for one in picture["lines"]}
    lengths = [float(one) for one in picture["lengths"]]
    points = np.array(drawn)  # [lines, lengths, 2]
    assert points.shape == (len(wanted), len(lengths), 2)
    across = np.polyfit(np.log2(lengths), points[0, :, 0], 1)
    assert across[0] > 0
    shown = []
    low, high = (np.log2(min(map(min, wanted))), np.log2(max(map(max, wanted))))
    down = np.polyfit([low, high], [points[..., 1].max(), points[..., 1].min()], 1)
    for line in points:
        np.testing.assert_allclose(line[:, 0], np.polyval(across, np.log2(lengths)), atol=0.11)
        shown.append((line[:, 1] - down[1]) / down[0])
    for sizes in wanted:
        # A height is rounded to a tenth of a pixel.
        assert any(np.allclose(np.log2(sizes), one, atol=0.2 / -down[0]) for one in shown)
    bytes_of_room = 2 ** ((room - down[1]) / down[0])
    assert bytes_of_room == pytest.approx(float(picture["rooms"][0]), rel=0.02)


@pytest.mark.parametrize(
    ("language", "beyond"), [("en", "Beyond the model: 32,768 tokens"), ("zh", "超出模型的上限：")]
)
def test_a_context_beyond_the_model_is_said_at_its_top(
    page: Any, site: Path, language: str, beyond: str
) -> None:
    opened(page, site, language, "#m=qwen3.8-27b&v=llama-3-8b")
    told = page.locator(".headline .beyond")
    assert told.count() == 1
    assert told.inner_text().startswith(beyond)
    assert "8,192" in told.inner_text()
    assert page.locator('.headline[data-model="llama-3-8b"] .beyond[role=status]').count() == 1
    top = page.locator('.headline[data-model="llama-3-8b"] .total').bounding_box()
    assert told.bounding_box()["y"] < top["y"]
    page.locator("input[data-field=context]").fill("8192")
    settled(page)
    assert told.count() == 0


def test_numbers_of_the_question_before_are_dimmed(page: Any, site: Path) -> None:
    opened(page, site)
    results = page.locator(".results")
    assert "stale" not in str(results.get_attribute("class"))
    page.locator("select[data-field=model]").select_option("gemma-3-27b")
    assert page.locator(".headline").get_attribute("data-model") == "qwen3.8-27b"
    assert "stale" in str(results.get_attribute("class"))
    assert results.get_attribute("aria-busy") == "true"
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.results')).opacity < 0.5"
        " || document.querySelector('.headline').dataset.model === 'gemma-3-27b'"
    )
    page.wait_for_selector('.headline[data-model="gemma-3-27b"]')
    assert "stale" not in str(results.get_attribute("class"))
    assert results.get_attribute("aria-busy") is None
    assert results.evaluate("(one) => getComputedStyle(one).opacity") == "1"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_unknown_architecture_names_the_box_of_the_page(
    page: Any, site: Path, language: str
) -> None:
    opened(page, site, language)
    page.locator("select[data-field=model]").select_option("…")
    field = page.locator('textarea[data-field="model.config"]')
    field.fill(LLAMA.replace('"llama"', '"unheard_of"'))
    settled(page)
    error = page.locator(".error").inner_text()
    assert "unheard_of" in error
    assert "--" not in error
    assert "assume_full" not in error
    if language == "en":
        assert f"“{page.locator('.more summary').inner_text()}”" in error
    page.locator(".more summary").click()
    box = page.locator("label.assume")
    label = box.inner_text().strip()
    said_of_box = error.split("“")[1].split("”")[0]
    assert language == "zh" or label.startswith(said_of_box)
    box.locator("input").check()
    settled(page)
    assert page.locator(".error").is_hidden()
    assert page.locator(".headline .assumed").count() == 1
