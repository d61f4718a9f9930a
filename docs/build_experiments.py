"""Runs the course's experiments and writes what docs/experiments.md shows of them.

    docs/experiments.md              the blocks between the marks, as the experiments print them
    docs/experiments/*.svg           their plots
    docs/experiments/*.json          the records of those that take minutes, to four digits
    src/…/lessons/data/training.json what pages carry of the training's record (lessons/runs.py)

    python docs/build_experiments.py             those that take seconds
    python docs/build_experiments.py --full      training and sweep too, about ten minutes

tests/lessons/test_experiment_docs.py runs the quick ones again, draws the others from their JSON,
and compares.

Not here: what they measure (src/attnscope/lessons/experiments).
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from attnscope.lessons import runs
from attnscope.lessons.experiments import EXPERIMENTS, NAMES, Result
from attnscope.lessons.experiments.small_model import Recall
from attnscope.lessons.experiments.sweep import Sweep
from attnscope.lessons.experiments.training import Curves, Training, Variant

PAGE: Final = Path(__file__).with_name("experiments.md")
FOLDER: Final = Path(__file__).with_name("experiments")
LONG: Final = ("training", "sweep")
"""Those that take minutes; their records are kept."""


def mark(name: str) -> str:
    """The pattern of an experiment's block: what stands before it, in it and after it."""
    begin = re.escape(f"<!-- {name}: docs/build_experiments.py -->\n```text\n")
    return f"({begin})(.*?)(```\n)"


def shown(page: str, name: str) -> str:
    """The block of an experiment, as the page has it.

    Raises:
        ValueError: the page has no such block.
    """
    found = re.search(mark(name), page, re.DOTALL)
    if found is None:
        raise ValueError(f"{PAGE.name}: no block for {name}")
    return found.group(2)


def replaced(page: str, name: str, picture: str) -> str:
    """The page with an experiment's block printed anew."""
    shown(page, name)
    return re.sub(
        mark(name), lambda m: m[1] + picture.rstrip() + "\n" + m[3], page, flags=re.DOTALL
    )


def rounded(value: Any) -> Any:
    """JSON with floats of four digits; curves of thousands of numbers are not read closer."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def kept(name: str) -> Training | Sweep:
    """The record of a long experiment, from its JSON."""
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))

    def array(value: Any) -> np.ndarray:
        return np.array(value, dtype=np.float64)

    if name == "sweep":
        arrays: dict[str, Any] = {
            key: array(v) if isinstance(v, list) else v for key, v in found.items()
        }
        return Sweep(**{**arrays, "widths": np.array(found["widths"])})
    curves = tuple(
        Curves(
            Variant(**curve["variant"]),
            *(array(curve[key]) for key in ("loss", "right", "max_logit", "entropy")),
        )
        for curve in found["curves"]
    )
    return Training(**{**found, "task": Recall(**found["task"]), "curves": curves})


def write(name: str, result: Result) -> None:
    """An experiment's block, plot and, if it is long, record."""
    FOLDER.mkdir(exist_ok=True)
    if name in LONG:
        text = json.dumps(rounded(result.to_dict()))
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        result = kept(name)
    if isinstance(result, Training):
        runs.write(result)
    page = replaced(PAGE.read_text(encoding="utf-8"), name, result.picture())
    PAGE.write_text(page, encoding="utf-8")
    if (svg := result.svg()) is not None:
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the experiments of minutes too")
    full = parser.parse_args().full
    for name in NAMES:
        if full or name not in LONG:
            print(name, flush=True)
            write(name, EXPERIMENTS[name]())


if __name__ == "__main__":
    main()
