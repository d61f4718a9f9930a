"""Who answers the planner's page: our Python in the page, from disk, or the server.

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
from planner_site import check_shown, opened, said, settled, written

from attnscope.plan.find import built_in_names
from attnscope.plan.page import ask

sys.path.insert(0, str(Path(__file__).parents[1] / "plan"))
from planner_words import chinese
from test_plan_read import RAW


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("planner"))


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
        {"model": {"name": "qwen3.8-27b"}, "dtype": "fp32", "device": "a100", "window": 4096,
         "share": "1/4", "room": "80GiB", "versus": {"name": "gemma-3-27b"}},
        {"model": {"name": "gemma-3-27b"}, "window": 77, "dtype": "bf16", "kv_dtype": "fp8"},
        {"model": {"name": "gpt-oss-20b"}, "dtype": "bf16", "share": "0/3", "room": "rtx4090"},
        {"model": {"name": "llama-3-8b"}, "share": "1/4"},
        {"model": {"name": "llama-3-8b"}, "window": 5}, {"model": {"name": "smollm2"}, "window": 0},
        {"model": {"name": "smollm2"}, "share": "½"},
        {"model": {"name": "smollm2"}, "share": "5/4"},
        {"model": {"name": "smollm2"}, "dtype": "int4"},
        {"model": {"name": "smollm2"}, "device": "x"},
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
    page.locator(".more summary").click()
    page.locator("input[data-field=window]").fill("1000")
    page.locator("input[data-field=share]").fill("1/8")
    page.locator("select[data-field=form]").select_option("fp32")
    page.locator("select[data-field=device]").select_option("rtx4090")
    settled(page)
    asked = {"window": 1000, "share": "1/8", "dtype": "fp32", "device": "rtx4090"}
    check_shown(page, said(versus={"name": "gpt-oss-20b"}, kv_dtype="int4", **asked))
    page.locator("input[data-field=batch]").fill("0")
    settled(page)
    assert page.locator(".error").inner_text() == chinese([said(batch=0)["error"]["sentence"]])[0]
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
