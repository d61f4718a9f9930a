"""docs/plan.md cannot say what is no longer true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from attnscope.plan.engines import llamacpp, sglang, vllm
from attnscope.plan.engines import transformers as hf
from attnscope.plan.model import KINDS
from attnscope.plan.read import read
from attnscope.plan.report import SCHEMA, Asked, report

PAGE = Path(__file__).parents[2] / "docs" / "plan.md"


def test_examples_run() -> None:
    done = doctest.testfile(str(PAGE), module_relative=False)
    assert done.attempted >= 7
    assert done.failed == 0


def test_the_kinds_are_the_codes() -> None:
    text = PAGE.read_text("utf-8").split("<!-- kinds -->")[1].split("<!-- /kinds -->")[0]
    assert dict(re.findall(r"^\| `(\S+)` \| (.+) \|$", text, re.M)) == KINDS


def test_every_field_of_the_json_is_named() -> None:
    text = PAGE.read_text("utf-8")
    said = report(read("llama-3-8b"), Asked(context=10, budget=10**12, explain=True))
    assert SCHEMA in text
    assert all(f"`{field}`" in text for field in said)


def test_the_versions_are_the_engines() -> None:
    text = PAGE.read_text("utf-8")
    for engine in (hf, vllm, sglang, llamacpp):
        numbers = re.findall(r"\d+\.\d+(?:\.\d+)?|b\d+|[0-9a-f]{12}", engine.VERSION)
        assert numbers
        assert all(one in text for one in numbers), engine.VERSION
