"""What all experiments share: their list, their records, their charts."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from attnscope.lessons.experiments import EXPERIMENTS, NAMES, Result
from attnscope.lessons.experiments.chart import Line, Panel, chart, ticks
from attnscope.lessons.experiments.result import at_least, plain, positive
from attnscope.lessons.experiments.training import Variant

SMALL = {
    "variance": {"widths": (4, 16), "pairs": 500, "rows": 40},
    "rules": {"trials": 100},
    "leak": {"steps": 3},
    "convex": {"trials": 50},
    "rotary": {"positions": 12, "moves": (1, 50), "tokens": 8},
    "sink": {"steps": 3},
    "cache": {"length": 12},
    "latent": {"distances": (0, 5), "pairs": 20},
    "memory": {"counts": (1, 5), "trials": 20},
    "training": {
        "variants": (Variant("plain", 1e-3), Variant("clip", 1e-1, clip=5.0)),
        "head_width": 8, "steps": 12, "seeds": 2,
    },
    "sweep": {"widths": (4, 8), "rates": (1e-3,), "steps": 12, "seeds": 2},
}  # fmt: skip
"""Parameters that make every experiment take a moment."""


def test_every_experiment_is_listed_here() -> None:
    assert tuple(SMALL) == NAMES == tuple(EXPERIMENTS)
    assert len(EXPERIMENTS) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_takes_a_seed_and_keywords_alone(name: str) -> None:
    parameters = inspect.signature(EXPERIMENTS[name]).parameters
    assert parameters["seed"].default == 0
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert "Cost:" in (EXPERIMENTS[name].__doc__ or "")


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_numbers_in_json(name: str) -> None:
    first, again, other = (EXPERIMENTS[name](**SMALL[name], seed=seed) for seed in (3, 3, 4))
    words = [json.dumps(result.to_dict(), allow_nan=False) for result in (first, again, other)]
    assert words[0] == words[1]
    assert words[0] != words[2]


@pytest.mark.parametrize("name", NAMES)
def test_the_record_is_frozen_and_drawn(name: str) -> None:
    result = EXPERIMENTS[name](**SMALL[name])
    assert isinstance(result, Result)
    field = dataclasses.fields(result)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, field, None)
    arrays = [v for f in dataclasses.fields(result)
              if isinstance(v := getattr(result, f.name), np.ndarray)]  # fmt: skip
    assert not any(array.flags.writeable for array in arrays)
    lines = result.picture().splitlines()
    assert 4 <= len(lines) <= 32
    assert max(map(len, lines)) <= 160
    if (svg := result.svg()) is not None:
        root = ElementTree.fromstring(svg)
        assert root.tag.endswith("svg")


def test_a_record_does_not_lock_what_the_caller_gave() -> None:
    scores = np.array([1.0, 2.0])
    EXPERIMENTS["rules"](scores=scores, trials=1)
    scores[0] = 5.0
    sinks = np.array([1.0])
    EXPERIMENTS["sink"](sinks=sinks.tolist(), steps=0)


def test_an_unknown_experiment_names_those_there_are() -> None:
    with pytest.raises(KeyError, match=r"unknown 'varience'; there are variance, rules"):
        EXPERIMENTS["varience"]


def test_listing_them_imports_neither_torch_nor_any_of_them() -> None:
    code = (
        "import sys, attnscope.lessons.experiments as e; list(e.EXPERIMENTS);"
        "print('torch' in sys.modules, 'attnscope.lessons.experiments.rules' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("name", ["rules", "convex", "cache"])
def test_a_module_prints_its_picture(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"attnscope.lessons.experiments.{name}"],
        capture_output=True, text=True, check=True, encoding="utf-8",
    )  # fmt: skip
    assert done.stdout.strip() == EXPERIMENTS[name]().picture().strip()


def test_plain_refuses_what_json_does_not_know() -> None:
    assert plain({"x": float("nan"), "y": [np.float32(0.5), None, "a"]}) == {
        "x": None, "y": [0.5, None, "a"],
    }  # fmt: skip
    with pytest.raises(TypeError, match=r"expected numbers, text or arrays, got set"):
        plain({"x": {1, 2}})


def test_counts_and_sizes_are_checked() -> None:
    with pytest.raises(TypeError, match=r"keys: expected a whole number, got float"):
        at_least("keys", 2.0, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got bool"):
        at_least("keys", True, 1)
    for wrong in (0.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"sigma: expected a finite number above 0"):
            positive("sigma", wrong)


def test_ticks_are_round_and_inside() -> None:
    for low, high in ((0.0, 1.0), (-3.2, 17.9), (1e-4, 2e-4), (0, 4096)):
        found = ticks(low, high)
        assert 2 <= len(found) <= 8
        slack = 1e-9 * (high - low)
        assert all(low - slack <= t <= high + slack for t in found)
        assert np.allclose(np.diff(found), found[1] - found[0])


def places(svg: str) -> np.ndarray:
    """The points of the curves, [n, 2]."""
    drawn = [path.get("d") or "" for path in ElementTree.fromstring(svg).iter()
             if path.get("class") == "line"]  # fmt: skip
    numbers = [float(x) for d in drawn for x in re.findall(r"-?\d+\.?\d*", d)]
    return np.array(numbers).reshape(-1, 2)


def test_a_chart_puts_numbers_where_they_belong() -> None:
    line = Line("a & b", np.array([0.0, 5.0, 10.0]), np.array([0.0, 1.0, 4.0]))
    x, y = places(chart([Panel("p", [line])], columns=1, title="t")).T
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.11)  # two roundings to 0.1
    assert (y[0] - y[1]) * 4 == pytest.approx(y[0] - y[2], abs=0.5)  # five roundings to 0.1
    powers = Line("", np.arange(3.0), np.array([1.0, 10.0, 100.0]))
    _, y = places(chart([Panel("p", [powers], log_y=True)], columns=1, title="t")).T
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], abs=0.21)


@pytest.mark.parametrize("log", [False, True])
def test_a_chart_fills_its_frame(log: bool) -> None:
    """The ends of both ranges are drawn on the frame's four sides."""
    line = Line("a", np.array([0.0, 1.0]), np.array([1.0, 100.0]))
    panel = Panel("p", [line], x_range=(0.0, 1.0), y_range=(1.0, 100.0), log_y=log)
    svg = chart([panel, panel], columns=2, title="t")
    frames = re.findall(r'd="M([\d.]+) ([\d.]+)V([\d.]+)H([\d.]+)" fill="none"', svg)
    assert len(frames) == 2
    corners = [
        (float(x), float(y))
        for left, top, bottom, right in frames
        for x, y in ((left, bottom), (right, top))
    ]
    assert places(svg).tolist() == [list(corner) for corner in corners]


def test_a_chart_leaves_gaps_and_steps() -> None:
    gap = Line("", np.arange(4.0), np.array([1.0, np.nan, 2.0, 3.0]))
    svg = chart([Panel("p", [gap])], columns=1, title="t")
    [path] = [e.get("d") for e in ElementTree.fromstring(svg).iter() if e.get("class") == "line"]
    assert path.count("M") == 2
    steps = Line("", np.arange(3.0), np.array([1.0, 2.0, 2.0]), steps=True)
    assert len(places(chart([Panel("p", [steps])], columns=1, title="t"))) == 5


def test_a_chart_without_points_says_so() -> None:
    with pytest.raises(ValueError, match=r"panels: expected at least one, got none"):
        chart([], columns=1, title="t")
    empty = Panel("p", [Line("", np.zeros(1), np.array([np.nan]))])
    with pytest.raises(ValueError, match=r"panel 'p': expected a finite point, got none"):
        chart([empty], columns=1, title="t")
    with pytest.raises(ValueError, match=r"columns: expected at least 1, got 0"):
        chart([empty], columns=0, title="t")
