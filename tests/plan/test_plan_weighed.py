"""What the planner's page calls measured was weighed: here again, and equal to the plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import transformers
import weigh_built_in

from attnscope.plan import read
from attnscope.plan.engines import CHECKED, allocations
from attnscope.plan.find import built_in, built_in_names
from attnscope.plan.page import ask
from attnscope.plan.weighed import weighed

TRUTH = json.loads((Path(__file__).parent / "kv_truth.json").read_text("utf-8"))
TABLE = json.loads(weigh_built_in.TARGET.read_text("utf-8"))
SMALL = ("smollm2", "gemma-3-270m", "qwen3-0.6b")
"""Built in a second; `python tests/plan/weigh_built_in.py` weighs them all."""
DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_is_of_the_installed_version_and_has_every_model_that_it_builds() -> None:
    assert TABLE["transformers"] == transformers.__version__
    known = transformers.CONFIG_MAPPING
    can = {name for name in built_in_names() if built_in(name).config["model_type"] in known}
    assert set(TABLE["bytes"]) == can
    assert len(can) >= 19


@pytest.mark.parametrize("name", SMALL)
def test_what_is_weighed_now_is_what_the_table_says(name: str) -> None:
    assert weigh_built_in.weigh_built_in(name) == TABLE["bytes"][name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt-oss-20b", "deepseek-v3.2", "qwen3-next-80b-a3b"])
def test_large_models_weigh_what_the_table_says(name: str) -> None:
    assert weigh_built_in.weigh_built_in(name, (1_024,)) == {"1024": TABLE["bytes"][name]["1024"]}


@pytest.mark.parametrize("name", [name for name in TRUTH if not name.startswith("_")])
def test_an_earlier_weighing_by_other_hands_says_the_same(name: str) -> None:
    measured = {"1024": TRUTH[name]["measured_1024"], "32768": TRUTH[name]["measured_32k"]}
    assert TABLE["bytes"][name] == measured


@pytest.mark.parametrize("name", built_in_names())
def test_the_plan_is_what_was_weighed(name: str) -> None:
    found = weighed(read(name))
    if name not in TABLE["bytes"]:
        assert found is None
        return
    assert found is not None
    assert [tokens for tokens, _, _ in found.rows] == list(weigh_built_in.LENGTHS)
    for tokens, size, planned in found.rows:
        assert size == planned == TABLE["bytes"][name][str(tokens)]


def test_only_a_built_in_model_as_it_is_was_weighed() -> None:
    def part(**question: Any) -> dict[str, Any]:
        answer = json.loads(ask(json.dumps(question)))
        found: dict[str, Any] = answer["models"][0]
        return found

    built = part(model={"name": "smollm2"}, kv_dtype="int4", batch=5)["weighed"]["rows"]
    assert [one["measured"]["kind"] for one in built] == ["measured"] * 2
    assert [one["planned"]["kind"] for one in built] == ["computed"] * 2
    assert built[1]["measured"]["value"] == TABLE["bytes"]["smollm2"]["32768"]
    assert TABLE["transformers"] in built[1]["measured"]["source"]
    text = json.dumps(built_in("smollm2").config)
    assert part(model={"name": "smollm2", "config": text})["weighed"] is None
    assert part(model={"name": "kimi-k2"})["weighed"] is None


def test_engines_whose_rules_were_checked_are_those_that_the_docs_name() -> None:
    text = " ".join((DOCS / "plan.md").read_text("utf-8").split())
    assert set(CHECKED) == {one.engine for one in allocations(read("smollm2"), context=1)}
    rows = dict(re.findall(r"\| (transformers|vLLM|SGLang|llama\.cpp) \| ([^|]+) \|", text))
    for engine, (evidence, _) in CHECKED.items():
        name = {"vllm": "vLLM", "sglang": "SGLang"}.get(engine, engine)
        assert evidence == ("measured" if "measured" in rows[name] else "source"), engine
        assert ("was not run" in CHECKED[engine][1]) == (evidence == "source")
    assert "What is not checked by running: vLLM and SGLang." in text
    architectures = re.search(r"GGUF files of (\d+) architectures", text)
    assert architectures is not None
    assert f"of {architectures[1]} architectures" in CHECKED["llama.cpp"][1]
    families = (DOCS / "plan_families.md").read_text("utf-8")
    agree = re.search(r"^\| (\d+) \| \d+ \| 0 \| 0 \|$", families, re.MULTILINE)
    assert agree is not None
    assert f"of {agree[1]} families" in CHECKED["transformers"][1]
