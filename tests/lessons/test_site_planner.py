"""The planner's page as it is made: what it carries, and the script that runs the planner in it."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from attnscope.errors import AttnscopeError
from attnscope.lessons.site import browser_python, load
from attnscope.lessons.site.browser_python import LEFT_OUT, planner_script
from attnscope.lessons.site.planner import FIRST, planner_page
from attnscope.plan.find import built_in_names
from attnscope.plan.page import ask

build = importlib.import_module("attnscope.lessons.site.build")
PLAN = Path(browser_python.__file__).parents[2] / "plan"
VIEW = build.STATIC / "js/planner/view.js"


def page(language: str, *, served: bool) -> str:
    return planner_page(language, build._planner_frame(load(), language), served=served)


def carried(html: str) -> dict[str, Any]:
    found = re.search(r'class="carried">(.*?)</script>', html)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_carries_its_first_answer_and_knows_whom_to_ask(language: str) -> None:
    served, exported = carried(page(language, served=True)), carried(page(language, served=False))
    assert served["api"] == "../api/plan"
    assert "script" not in served
    assert exported["script"] == "../assets/planner-python.js"
    assert "api" not in exported
    assert exported["first"]["answer"] == json.loads(ask(json.dumps(FIRST)))
    assert exported["known"]["builtIn"] == built_in_names()


def test_the_browser_begins_with_the_question_that_the_page_answers() -> None:
    node = shutil.which("node")
    assert node, "the tests of the browser side need Node (see CONTRIBUTING.md)"
    script = (
        f"import {{ question, START }} from {json.dumps(VIEW.as_uri())};"
        "console.log(JSON.stringify(question(START)));"
    )
    done = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True,
                          text=True, check=True, timeout=60)  # fmt: skip
    # Text for text: the page compares the two as text.
    assert done.stdout.strip() == json.dumps(FIRST, separators=(",", ":"))


def test_the_script_holds_the_planner_as_it_is_and_no_more_than_it_needs() -> None:
    script = planner_script()
    assert len(script.encode()) < 3 << 20
    worker = json.loads(script.removeprefix("self.attnscopePlanner = ").rstrip().rstrip(";"))
    assert "</script" not in script.lower().replace("<\\/script", "")
    table = json.loads(re.search(r"update_VFS\((\{.*\})\);\n", worker)[1])  # type: ignore[index]
    for file in PLAN.rglob("*.py"):
        inside = file.relative_to(PLAN.parent)
        name = ".".join(("attnscope", *inside.with_suffix("").parts)).removesuffix(".__init__")
        if inside.as_posix() in LEFT_OUT:
            assert name not in table
        else:
            assert table[name][1] == file.read_text("utf-8")
    files = re.search(r"attnscopeFiles = (\".*\");\n", worker)
    assert files is not None
    held = json.loads(json.loads(files[1]))
    assert held["data/defaults.json"] == (PLAN / "data/defaults.json").read_text("utf-8")
    assert {f"data/configs/{name}.json" for name in built_in_names()} < set(held)


def test_without_brython_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    planner_script.cache_clear()
    monkeypatch.setattr(browser_python.resources, "files", missing)
    with pytest.raises(AttnscopeError, match=r"brython: pip install 'attnscope\[lessons\]'"):
        planner_script()
    planner_script.cache_clear()


def test_every_page_leads_to_the_planner() -> None:
    course = load()
    for language in ("en", "zh"):
        assert ("planner.html") in [address for _, address in build._links(course, language)]
        assert '<p class="beside"><a href="planner.html">' in build.index_page(course, language)
