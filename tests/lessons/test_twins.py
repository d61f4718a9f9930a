"""Every formula that a page computes gives what its twin in Python gives, on the same inputs."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnscope.lessons import twins, world
from attnscope.mechanisms import rivals
from attnscope.mechanisms.qk_clip import clip_factors

MATH = Path(__file__).parents[2] / "src/attnscope/serve/static/js/widgets/math"
CLOSE = 1e-12
"""Both sides compute in float64; logarithms and cosines of different libraries differ by an ulp,
and sums of a thousand terms in another order by some hundred of them."""

ROWS = [
    [10.0, 3.0, -4.0],
    [8.0, 7.0, 9.0],
    [0.0, 0.0],
    [-700.0, 0.0, 700.0],
    [1e-3, -1e-3, 5.0, 5.0, -12.0],
]


def node(module: str, calls: list[tuple[str, list[Any]]]) -> list[Any]:
    """The results of calls to a module's functions; NaN and infinities as text."""
    script = (
        f"import * as m from {json.dumps((MATH / module).as_uri())};"
        "let text='';for await (const part of process.stdin) text+=part;"
        "const plain=(k,v)=>typeof v==='number'&&!Number.isFinite(v)?String(v):"
        "ArrayBuffer.isView(v)?Array.from(v):v;"
        "console.log(JSON.stringify(JSON.parse(text).map(([f,a])=>m[f](...a)),plain));"
    )
    executable = shutil.which("node")
    assert executable, "the tests of the browser side need Node (see CONTRIBUTING.md)"
    done = subprocess.run(
        [executable, "--input-type=module", "-e", script],
        input=json.dumps(calls), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def numbers(value: Any) -> np.ndarray:
    return np.asarray(json.loads(json.dumps(value).replace('"NaN"', "NaN")), dtype=np.float64)


def same(found: Any, wanted: Any, *, tolerance: float = CLOSE) -> bool:
    """Whether two results agree, relative to the larger of their size and 1."""
    a, b = numbers(found), np.asarray(wanted, dtype=np.float64)
    return a.shape == b.shape and bool(
        np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    )


@pytest.mark.parametrize("rule", ["proportional", "shifted", "softmax", "base_two"])
def test_weights_are_those_of_the_mechanism(rule: str) -> None:
    found = node("softmax.js", [("weigh", [row, rule]) for row in ROWS])
    for row, weights in zip(ROWS, found, strict=True):
        wanted = rivals.weigh(torch.tensor(row, dtype=torch.float64), rule)
        wanted = torch.where(wanted.isfinite().all(), wanted, torch.nan)
        assert same(weights, wanted.numpy()), (rule, row)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 1 / math.log(2), 16.0])
def test_temperatures_and_bases_are_those_of_the_mechanism(temperature: float) -> None:
    base = math.exp(1 / temperature)
    calls = [("softmax", [row, temperature]) for row in ROWS[:3]]
    calls += [("powerWeights", [row, base]) for row in ROWS[:3]]
    found = node("softmax.js", calls)
    for at, row in enumerate(ROWS[:3] * 2):
        wanted = rivals.weigh(
            torch.tensor(row, dtype=torch.float64), "temperature", temperature=temperature
        )
        assert same(found[at], wanted.numpy()), (temperature, row)


def test_jacobian_norm_and_entropy_are_those_of_the_mechanism() -> None:
    weights = [rivals.weigh(torch.tensor(row, dtype=torch.float64)) for row in ROWS]
    for name, wanted in (
        ("jacobian", rivals.jacobian),
        ("jacobianNorm", rivals.jacobian_norm),
        ("entropy", lambda w: torch.special.entr(w).sum(-1)),
    ):
        found = node("softmax.js", [(name, [w.tolist()]) for w in weights])
        for w, one in zip(weights, found, strict=True):
            assert same(one, wanted(w).numpy()), (name, w)


def test_random_numbers_are_the_same_for_every_seed() -> None:
    seeds = [0, 1, 7, 99, 2**31, 2**32 - 1]
    found = node("random.js", [("normals", [seed, 501]) for seed in seeds])
    for seed, drawn in zip(seeds, found, strict=True):
        assert same(drawn, twins.normals(seed, 501)), seed


def test_random_numbers_are_normal() -> None:
    """Mean, variance and fourth moment of a large draw, within five of their standard errors."""
    drawn, n = twins.normals(3, 200_000), 200_000
    assert abs(drawn.mean()) < 5 / math.sqrt(n)
    assert abs(drawn.var() - 1) < 5 * math.sqrt(2 / n)
    assert abs((drawn**4).mean() - 3) < 5 * math.sqrt(96 / n)
    assert abs(np.mean(drawn[::2] * drawn[1::2])) < 5 / math.sqrt(n / 2)


def test_products_and_rows_are_the_same() -> None:
    calls = [("products", [seed, d, 200]) for seed in (1, 42) for d in (4, 64, 256)]
    found = node("spread.js", calls)
    for (_, arguments), drawn in zip(calls, found, strict=True):
        assert same(drawn, twins.products(*arguments), tolerance=1e-11), arguments
    [rows] = node("spread.js", [("rowStatistics", [5, 64, 40, 16])])
    for one, wanted in zip(rows, twins.row_statistics(5, 64, 40, 16), strict=True):
        assert one.keys() == wanted.keys()
        for name, value in wanted.items():
            assert same(one[name], value, tolerance=1e-10), name


def test_a_histogram_counts_as_numpy_does() -> None:
    drawn = twins.products(2, 16, 3000)
    [counts] = node("spread.js", [("histogram", [drawn.tolist(), -6, 6, 24])])
    wanted, _ = np.histogram(np.clip(drawn, -6, 6), bins=24, range=(-6, 6))
    assert counts == wanted.tolist()
    assert counts[0] > 0 < counts[-1]  # the ends hold what lies beyond


def test_grown_scores_and_clipping_are_the_same() -> None:
    for held in ({}, {"norm": True}, {"tau": 5.0}, {"norm": True, "tau": 0.5}):
        [found] = node("growth.js", [("grownScores", [3, 64, 6, 4.5, held])])
        assert same(found, twins.grown_scores(3, 64, 6, 4.5, **held), tolerance=1e-11), held
    largest = [50.0, 100.0, 400.0, -3.0]
    found = node("growth.js", [("clipFactor", [one, 100.0]) for one in largest])
    assert same(found, clip_factors(largest).numpy())


def test_a_norm_keeps_scores_within_the_root_of_the_width() -> None:
    for growth in (1.0, 10.0, 1000.0):
        assert np.abs(twins.grown_scores(3, 64, 50, growth, norm=True)).max() <= 8 + 1e-9
    assert np.abs(twins.grown_scores(3, 64, 50, 10.0)).max() > 8


def test_a_twin_that_went_astray_is_noticed() -> None:
    [found] = node("softmax.js", [("softmax", [[8, 7, 9], 1])])
    assert not same(found, rivals.weigh(torch.tensor([8.0, 7.0, 9.001])).double().numpy())
    assert not same([1.0, "NaN"], [1.0, 2.0])
    assert not same([1.0], [1.0, 2.0])


def _world() -> dict[str, Any]:
    found = world.load()
    return {
        "tokens": list(found.tokens), "features": [], "heads": found.heads,
        "E": found.embeddings.tolist(), "W_Q": found.w_q.tolist(), "W_K": found.w_k.tolist(),
        "W_V": found.w_v.tolist(),
    }  # fmt: skip


@pytest.mark.parametrize("head", [None, 0, 1])
def test_the_worlds_attention_is_the_same(head: int | None) -> None:
    found, given = world.load(), _world()
    columns = found.columns(head)
    calls: list[tuple[str, list[Any]]] = [
        ("products", [given, head]),
        ("weights", [given, {"head": head, "mask": "none"}]),
        ("weights", [given, {"head": head, "mask": "before"}]),
        ("weights", [given, {"head": head, "mask": "after"}]),
        ("outputs", [given, {"head": head}]),
        ("outputs", [given, {"head": head, "fetch": "K"}]),
    ]
    bare = found.weights(head, causal=False)
    wanted = [
        found.q[:, columns] @ found.k[:, columns].T,
        bare,
        found.weights(head),
        np.tril(bare),
        found.output(head),
        found.weights(head) @ found.k[:, columns],
    ]
    for (name, _), one, expected in zip(calls, node("world.js", calls), wanted, strict=True):
        assert same(one, expected), name


def test_cosines_are_the_same() -> None:
    rows = world.load().embeddings
    calls = [("cosine", [a.tolist(), b.tolist()]) for a in rows for b in rows]
    wanted = [world.cosine(a, b) for a in rows for b in rows]
    assert same(node("world.js", calls), wanted)
