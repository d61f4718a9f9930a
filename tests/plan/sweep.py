"""The sweep: every causal-LM family of the installed transformers, weighed and planned.

Run
    python tests/plan/sweep.py            all families, and rewrite docs/plan_families.md
    python tests/plan/sweep.py llama ...  these families, printed
    python tests/plan/sweep.py --update llama ...  these families, and their rows in the table

Not here: how a cache is weighed (weigh.py).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import weigh

from attnscope.errors import ConfigError
from attnscope.plan.engines.transformers import layer_bytes
from attnscope.plan.families import REFUSED as REFUSED_BY_NAME
from attnscope.plan.read import from_config

TABLE = Path(__file__).parents[2] / "docs" / "plan_families.md"
AGREES, REFUSED, DISAGREES, UNWEIGHED = "agrees", "refused", "DISAGREES", "not weighed"


@dataclass(frozen=True)
class Verdict:
    """What became of one family."""

    family: str
    outcome: str
    detail: str


def judge(family: str, weighed: Mapping[str, Any]) -> Verdict:
    """Compare the plan of `config.to_dict()` with the weighed cache, layer by layer.

    A family that the planner refuses by name counts as refused whether or not its cache could be
    weighed; one that could not even be configured counts as not weighed.
    """
    config = weighed.get("config") or {"model_type": family}
    if "config" not in weighed and family not in REFUSED_BY_NAME:
        return Verdict(family, UNWEIGHED, str(weighed.get("error")))
    try:
        model = from_config(config, name=family)
    except ConfigError as error:
        return Verdict(family, REFUSED, str(error).removeprefix(f"{family}: "))
    if "error" in weighed:
        return Verdict(family, UNWEIGHED, weighed["error"])
    for length, measured in weighed["bytes"].items():
        # Layers that keep nothing may or may not stand in the list; order is the model's affair.
        planned = sorted(one for one in layer_bytes(model, int(length), dtype="bf16") if one)
        held = sorted(one for one in measured if one)
        if planned != held:
            text = f"{length} tokens: {sum(planned):,} B planned, {sum(held):,} B held"
            return Verdict(family, DISAGREES, text)
    kinds = sorted({layer.kind for layer in model.layers})
    sizes = ", ".join(f"{sum(b):,} B at {n}" for n, b in weighed["bytes"].items())
    return Verdict(family, AGREES, f"{', '.join(kinds)}: {sizes}")


def table(verdicts: list[Verdict], version: str) -> str:
    """The document."""
    counts = {
        one: sum(v.outcome == one for v in verdicts)
        for one in (AGREES, REFUSED, DISAGREES, UNWEIGHED)
    }
    lines = [
        "# Families the planner was checked against",
        "",
        "Written by `python tests/plan/sweep.py`; do not edit.",
        "",
        f"transformers {version}: {len(verdicts)} causal-LM families. Each was built from its",
        "own configuration class on the meta device (a few on the CPU), run forward once at two",
        "lengths with `DynamicCache(config=...)`, every cache tensor weighed, and compared, layer",
        "by layer, with the plan of `config.to_dict()`.",
        "",
        "| agrees | refused, with the reason | disagrees | not weighed |",
        "|---|---|---|---|",
        f"| {counts[AGREES]} | {counts[REFUSED]} | {counts[DISAGREES]} | {counts[UNWEIGHED]} |",
        "",
        "| family | outcome | kinds of layers and bytes, or the reason |",
        "|---|---|---|",
    ]
    lines += [f"| {v.family} | {v.outcome} | {_cell(v.detail)} |" for v in verdicts]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")[:300]


def rows(text: str) -> list[Verdict]:
    """The verdicts that a table of the document holds."""
    known = "|".join((AGREES, REFUSED, DISAGREES, UNWEIGHED))
    return [Verdict(*row) for row in re.findall(rf"^\| (\S+) \| ({known}) \| (.*) \|$", text, re.M)]


def main() -> None:
    """Sweep the families named, or all."""
    import torch
    import transformers

    torch.set_num_threads(1)
    version = transformers.__version__
    update = "--update" in sys.argv
    named = [one for one in sys.argv[1:] if not one.startswith("--")]
    verdicts = []
    for family in named or weigh.families():
        verdicts.append(judge(family, weigh.weigh(family)))
        print(verdicts[-1], flush=True)
    if update:
        before = TABLE.read_text("utf-8")
        if f"transformers {version}:" not in before:
            sys.exit("the table is of another version; sweep all families")
        fresh = {one.family: one for one in verdicts}
        verdicts = [fresh.get(one.family, one) for one in rows(before)]
    if update or not named:
        TABLE.write_text(table(verdicts, version), "utf-8")
    if any(one.outcome == DISAGREES for one in verdicts):
        sys.exit("some families disagree")


if __name__ == "__main__":
    main()
