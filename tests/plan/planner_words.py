"""Every text of an answer of the planner's page, and the page's own translation of texts.

Not here: what is asked of them (test_plan_chinese.py).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attnscope.serve

JS = Path(attnscope.serve.__file__).parent / "static/js"
TEXTS = ("formula", "source", "note", "exact", "text")


def texts(answer: dict[str, Any]) -> Iterator[str]:
    """What the page shows of an answer in the planner's own words."""
    if answer["error"]:
        yield answer["error"]["sentence"]
        return
    for model in answer["models"]:
        yield from (*model["notes"], *model["assumed"])
        if model["weights_unknown"]:
            yield model["weights_unknown"]
        for group in model["groups"]:
            yield from (group["kind"], group["layers"])
        for engine in model["engines"]:
            yield from (engine["version"], engine["reason"])
    for line in answer["picture"]["lines"]:
        yield line["label"]
    yield from _numbers(answer["models"])


def _numbers(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one)
    if not isinstance(value, dict):
        return
    if "exact" in value:
        yield from (value[name] for name in TEXTS)
        for one in value["inputs"]:
            yield from (one["name"], one["value"], one["source"])
    for one in value.values():
        yield from _numbers(one)


def chinese(said: list[str]) -> list[str]:
    """The texts as the Chinese page has them."""
    node = shutil.which("node")
    assert node, "the tests of the browser side need Node (see CONTRIBUTING.md)"
    script = (
        'import { readFileSync } from "node:fs";'
        f"import {{ wording }} from {json.dumps((JS / 'planner/words.js').as_uri())};"
        f"import {{ PHRASES, PLAN }} from {json.dumps((JS / 'text/zh/plan.js').as_uri())};"
        "const w = wording(PLAN, PHRASES);"
        'console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(w)));'
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script],
        input=json.dumps(said), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found: list[str] = json.loads(done.stdout)
    return found
