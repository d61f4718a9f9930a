"""The course's training runs as pages carry them: curves in windows of five steps, and a summary.

The idea: training takes minutes, so its record is kept (docs/experiments/training.json). A page
needs less: a window's mean of loss, of right answers and of entropy, but a window's *largest* of
the largest score, since one score too large is what is looked for. docs/build_experiments.py
writes the file beside this one; a test makes it again from the record and compares.

Shapes: curves [runs, windows], one run per seed.

Units: loss and entropy in nats; scores are scaled scores.

Not here: the experiment (experiments/training.py), the widget (serve/static/js/widgets/runs.js).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from attnscope.lessons.experiments.training import Curves, Training

PATH: Final = Path(__file__).parent / "data" / "training.json"
WINDOW: Final = 5
IDS: Final = {
    "scaled": "scaled",
    "unscaled": "unscaled",
    "unscaled, drawn smaller": "smaller",
    "growing": "growing",
    "growing + QK-norm": "norm",
    "growing + QK-Clip": "clip",
}
"""What a lesson calls each variant."""
CURVES: Final = ("loss", "right", "largest", "entropy")
DIGITS: Final = 4


def windows(curve: np.ndarray, *, largest: bool = False) -> np.ndarray:
    """Each WINDOW steps as one number, [runs, windows]; a last window may be shorter.

    >>> windows(np.arange(7.0)[None]), windows(np.arange(7.0)[None], largest=True)
    (array([[2. , 5.5]]), array([[4., 6.]]))
    """
    parts = [curve[:, at : at + WINDOW] for at in range(0, curve.shape[1], WINDOW)]
    return np.stack([part.max(1) if largest else part.mean(1) for part in parts], axis=1)


def summary(training: Training) -> dict[str, Any]:
    """What pages carry of a training, in the words of JSON."""
    return {
        "head_width": training.head_width,
        "steps": training.steps,
        "window": WINDOW,
        "seeds": len(training.curves[0].loss),
        "guess": training.guess,
        "sequences": {"keys": training.task.keys, "pairs": training.task.pairs},
        "tau": next(c.variant.clip for c in training.curves if c.variant.clip is not None),
        "alarm": _alarm(training),
        "variants": {IDS[one.variant.name]: _variant(one, training) for one in training.curves},
    }


def _alarm(training: Training) -> int:
    """The last step of the window in which the growing runs, in the mean, first have a score that
    no healthy run has at any step."""
    healthy = training.of("scaled").max_logit.max()
    grown = windows(training.of("growing").max_logit, largest=True).mean(0)
    return _last_step(int((grown > healthy).argmax()), training)


def _last_step(window: int, training: Training) -> int:
    return min(training.steps, (window + 1) * WINDOW)


def _variant(curves: Curves, training: Training) -> dict[str, Any]:
    drawn = {
        "loss": windows(curves.loss),
        "right": windows(curves.right),
        "largest": windows(curves.max_logit, largest=True),
        "entropy": windows(curves.entropy),
    }
    learned = curves.learned_at(training.guess / 2)
    mean = drawn["loss"].mean(0)
    return {
        "rate": curves.variant.rate,
        "curves": {name: _rounded(drawn[name]) for name in CURVES},
        "first": {
            "largest": _rounded(curves.max_logit[:, 0].mean()),
            "entropy": _rounded(curves.entropy[:, 0].mean()),
        },
        "last": {
            "loss": _rounded(curves.last("loss").mean()),
            "right": _rounded(curves.last("right").mean()),
            "largest": _rounded(curves.last("max_logit").mean()),
            "entropy": _rounded(curves.last("entropy").mean()),
        },
        "best": {
            "loss": _rounded(mean.min()),
            "step": _last_step(int(mean.argmin()), training),
        },
        "most": _rounded(curves.max_logit.max()),
        "learned": None if np.isnan(learned).any() else _rounded(learned.mean()),
    }


def _rounded(value: Any) -> Any:
    """Numbers of DIGITS significant digits, as the record has them."""
    found = np.asarray(value, dtype=np.float64)
    if found.ndim:
        return [_rounded(one) for one in found]
    return float(f"{found:.{DIGITS}g}")


@cache
def kept() -> dict[str, Any]:
    """What is in the file."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def write(training: Training) -> None:
    """Write the file."""
    text = json.dumps(summary(training), separators=(",", ":"), allow_nan=False)
    PATH.write_text(text + "\n", encoding="utf-8")
