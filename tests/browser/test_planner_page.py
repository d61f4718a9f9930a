"""The planner's page in Chromium, from disk: our Python in the page says what Python says.

The sweep asks the worker of the page and this process the same questions and compares the whole
answers, so every number, text and formula on the page is the planner's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lessons_site import address, faults
from looks import every_look
from planner_site import written

from attnscope.lessons.site.planner import FIRST
from attnscope.plan.devices import DEVICES
from attnscope.plan.find import CONFIGS, built_in_names
from attnscope.plan.page import ask

sys.path.insert(0, str(Path(__file__).parents[1] / "plan"))
from test_plan_read import RAW

STARTING = 60_000
"""Milliseconds until the page's Python answers: two seconds on a quiet machine."""
LLAMA = (CONFIGS / "llama-3-8b.json").read_text("utf-8")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("planner"))


def opened(page: Any, site: Path, language: str = "en", view: str = "") -> Any:
    page.set_default_timeout(STARTING)
    page.goto("about:blank")
    page.goto(address(site, language, "planner.html") + view)
    page.wait_for_selector(".course.live:not([aria-busy])")
    return page


def settled(page: Any) -> None:
    """Wait until a change has been asked and answered."""
    page.wait_for_timeout(450)
    page.wait_for_selector(".course:not([aria-busy])")


def shown(page: Any, name: str) -> str:
    """The exact value behind a number of the page."""
    found: str = page.locator(f'.results [data-name="{name}"]').get_attribute("data-value")
    return found


def said(**question: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(ask(json.dumps({**FIRST, **question})))
    return answer


def check_shown(page: Any, answer: dict[str, Any]) -> None:
    """What the page shows, against an answer."""
    for at, model in enumerate(answer["models"]):
        assert shown(page, f"total.{at}") == str(model["cache"]["total"]["value"])
        assert shown(page, f"per_token.{at}") == str(model["cache"]["per_token"]["value"])
        for row, one in enumerate(model["schemes"][: 1 if at else None]):
            assert shown(page, f"scheme.{at}.{row}.total") == str(one["total"]["value"])
            assert (
                page.locator(f'[data-name="scheme.{at}.{row}.total"]').inner_text()
                == (one["total"]["exact"])
            )
        for one in model["engines"]:
            if one["total"]:
                assert shown(page, f"engine.{one['engine']}.{at}") == str(one["total"]["value"])
        for one in model["devices"]:
            if one["fit"]:
                assert shown(page, f"fit.{one['device']}.{at}") == str(one["fit"]["value"])
        for one in model["flops"]:
            value = page.locator(f'[data-name="flops.{one["what"]}.{at}"]')
            assert float(value.get_attribute("data-value")) == float(one["number"]["value"])


WORKER = """async (questions) => {
  const script = document.createElement("script");
  script.src = "../assets/planner-python.js";
  await new Promise((done) => { script.onload = done; document.head.append(script); });
  const text = new Blob([window.attnscopePlanner], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(text));
  const answers = [];
  await new Promise((done) => {
    worker.onmessage = ({ data }) => {
      if (!data.ready) answers.push(data.answer ?? "FAILED " + data.failed);
      if (answers.length === questions.length) done();
      else worker.postMessage({ id: 1, question: questions[answers.length] });
    };
  });
  worker.terminate();
  return answers;
}"""


def questions() -> list[dict[str, Any]]:
    """Every built-in model, every raw form of a config, and every way to be wrong."""
    found: list[dict[str, Any]] = [
        {"model": {"name": name}, "room": "h200"} for name in built_in_names()
    ]
    found += [
        {"model": {"name": name, "config": json.dumps(config)}, "weights": "1.5GB",
         "room": "80GiB", "context": 5000, "batch": 3, "kv_dtype": "int4", "heads": "2,3,8"}
        for name, (config, _) in RAW.items()
    ]  # fmt: skip
    found += [
        {"model": {"name": "llama-3-8b"}, "versus": {"name": "deepseek-v3.2"}, "batch": 7,
         "kv_dtype": "fp8", "heads": "4,16", "context": 1_234_567, "room": "1.5TiB"},
        {"model": {"name": "llama-3-8b"}, "context": 10**12, "batch": 10**6},
        {"model": {"name": "smollm2"}, "heads": "3,8", "weights": "0", "room": "24GB"},
        {"model": {"name": "nothing"}}, {"model": {"name": "smollm2"}, "room": "h1000"},
        {"model": {"name": "smollm2"}, "context": 0}, {"model": {"name": "smollm2"}, "batch": 1.5},
        {"model": {"name": "smollm2"}, "heads": "4;8"}, {"model": {"name": "smollm2"}, "colour": 1},
        {"model": {"name": "smollm2"}, "kv_dtype": "int3"},
        {"model": {"name": "smollm2"}, "weights": "heavy"},
    ]  # fmt: skip
    found += [
        {"model": {"name": "国😀.json", "config": text}, "assume_full": assume}
        for assume in (False, True)
        for text in (
            " ", "{", "[1]", '"x"', '{"a":1,}', '{"a":nan}', '{"a":NaN}', '{"a":1e999}',
            "{'a':1}", '{"a":tru}', '{"a":"\x01"}', '{"a":"\\x"}', '{"a":01}', '{"a" 1}',
            '{"a":' + "9" * 5000 + "}", "[" * 90_000, "\ufeff{}", '{"a":1}{', '{"a":"\\ud800"}',
            '{"model_type":"😀国"}', '{"model_type":"bert"}', '{"model_type":"t5"}',
            '{"model_type":"new","hidden_size":64,"num_hidden_layers":3,"num_attention_heads":4}',
            '{"model_type":"llama","hidden_size":-3}',
            '{"model_type":"llama","hidden_size":4096.0,"num_hidden_layers":2,'
            '"num_attention_heads":32,"head_dim":null,"note":"😀"}',
            '{"model_type":"llama","hidden_size":4096.5,"num_attention_heads":32}',
            '{"model_type":"llama","hidden_size":4096,"num_hidden_layers":true}',
            '{"model_type":"llama","hidden_size":[1,2.0,null,true,{"a":1e5}]}',
            '{"model_type":"llama","hidden_size":1e400,"num_attention_heads":1e-7}',
        )
    ]  # fmt: skip
    return found


@pytest.mark.slow
def test_the_pages_python_answers_as_python_does(page: Any, site: Path) -> None:
    requests: list[str] = []
    page.context.on("request", lambda one: requests.append(one.url))
    opened(page, site)
    page.set_default_timeout(600_000)
    asked = [json.dumps(one) for one in questions()]
    answers = page.evaluate(WORKER, asked)
    assert len(answers) == len(asked)
    differ = {}
    for question, answer in zip(asked, answers, strict=True):
        wanted = json.loads(ask(question))
        if answer.startswith("FAILED") or json.loads(answer) != wanted:
            differ[question[:200]] = answer[:300] + " <> " + json.dumps(wanted)[:300]
    assert differ == {}
    assert any(one.endswith("planner-python.js") for one in requests)
    assert [
        one for one in requests if not one.startswith(("file:", "blob:", "about:", "data:"))
    ] == []
    # The comparison can fail: another context is another answer.
    assert json.loads(answers[0]) != said(model=json.loads(asked[0])["model"], context=32769)
    page.expected_errors()  # Brython writes what its interpreter raises to the console


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
    page.locator("input[data-field=heads]").fill("4,16")
    settled(page)
    wanted = said(
        model={"name": "gemma-3-27b"}, versus={"name": "llama-3-8b"}, kv_dtype="int8",
        room="mi300x", context=100_000, batch=3, heads="4,16",
    )  # fmt: skip
    check_shown(page, wanted)
    assert page.locator(".headline").count() == 2
    view = "#" + page.url.partition("#")[2]
    opened(page, site, "en", view)
    check_shown(page, wanted)
    assert page.locator("input[data-field=batch]").input_value() == "3"
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
    for field, value, question in (
        ("context", "0", {"context": 0}),
        ("batch", "1.5", {"batch": 1.5}),
        ("heads", "x", {"heads": "x"}),
        ("weights", "heavy", {"weights": "heavy"}),
    ):
        one = page.locator(f"input[data-field={field}]")
        before = one.input_value()
        one.fill(value)
        settled(page)
        assert error.inner_text() == said(**question)["error"]["sentence"]
        assert one.get_attribute("aria-invalid") == "true"
        assert page.locator(f"#{one.get_attribute('aria-describedby')}").is_visible()
        one.fill(before)
        settled(page)
        assert error.is_hidden()
    page.locator("select[data-choice=room]").select_option("…")
    page.locator("input[data-field=room]").fill("80 apples")
    settled(page)
    assert error.inner_text() == said(room="80 apples")["error"]["sentence"]
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
    assert page.locator(".scrolling .note-card").count() == 0
    assert len(DEVICES) == page.locator('[data-part="fits"] tbody tr').count()


def test_every_control_is_reached_by_keyboard(page: Any, site: Path) -> None:
    opened(page, site)
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


@pytest.fixture(scope="module")
def course_address() -> Iterator[str]:
    command = [sys.executable, "-m", "attnscope", "lessons", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.slow
def test_behind_the_server_the_server_answers(page: Any, course_address: str) -> None:
    page.goto(f"{course_address}zh/planner.html#v=gpt-oss-20b")
    page.wait_for_selector(".headline >> nth=1")
    check_shown(page, said(versus={"name": "gpt-oss-20b"}))
    page.locator("select[data-field=dtype]").select_option("int4")
    settled(page)
    check_shown(page, said(versus={"name": "gpt-oss-20b"}, kv_dtype="int4"))
    page.locator("input[data-field=batch]").fill("0")
    settled(page)
    assert page.locator(".error").inner_text() == said(batch=0)["error"]["sentence"]
    assert page.evaluate("typeof window.attnscopePlanner") == "undefined"


def test_a_page_whose_python_is_missing_names_the_ways_out(
    page: Any, site: Path, tmp_path: Path
) -> None:
    text = (site / "en/planner.html").read_text("utf-8")
    (site / "en/lost.html").write_text(text.replace("planner-python.js", "none.js"), "utf-8")
    page.goto((site / "en/lost.html").as_uri())
    page.wait_for_selector(".course.live")
    check_shown(page, said())  # the first answer needs nobody
    page.locator("select[data-field=dtype]").select_option("int8")
    page.wait_for_selector(".error:visible")
    words = page.locator(".error").inner_text()
    assert "attnscope plan" in words
    assert "attnscope lessons" in words
    page.expected_errors()
    (site / "en/lost.html").unlink()
