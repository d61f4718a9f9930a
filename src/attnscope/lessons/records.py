"""Experiments that take longer than a reader waits, run beforehand and kept as JSON.

The idea: a page needs a few numbers of them; whoever changes an experiment runs this file, and a
test runs the experiments again and compares, so that what is kept cannot go stale.

    python -m attnscope.lessons.records        runs them and writes data/experiments.json

Not here: the experiments (lessons/experiments), experiments that run in a moment (site/values.py).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from attnscope.lessons.experiments import EXPERIMENTS

KEPT: Final = ("variance", "leak", "sink")
"""Experiments of seconds to a minute; those of several minutes are not on any page."""
PATH: Final = Path(__file__).parent / "data" / "experiments.json"


@cache
def recorded() -> dict[str, Any]:
    """Every record that is kept, by the experiment's name."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Run the experiments with their defaults and keep what they return."""
    found = {name: EXPERIMENTS[name]().to_dict() for name in KEPT}
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    PATH.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
