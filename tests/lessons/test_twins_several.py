"""What lesson 7 computes in the page is what attnscope.core and attnscope.mechanisms give."""

from __future__ import annotations

import numpy as np
import pytest
from test_twins import _world, node, same

from attnscope.lessons import several, world
from attnscope.lessons.experiments import convex, sink

TOKENS = {"giver": 0, "thing": 2}


def test_one_row_and_two_bring_the_same() -> None:
    random = np.random.default_rng(2)
    found, given = world.load(), _world()
    rows = [(random.standard_normal((count, 4)) * 4).tolist() for count in (1, 2) * 5]
    calls = [("twoJobs", [given, scores, TOKENS]) for scores in rows]
    for scores, one in zip(rows, node("heads.js", calls), strict=True):
        fetched, distance = several.two_jobs(found, scores, **TOKENS)
        assert same(one["fetched"], fetched.tolist()), scores
        assert same(one["distance"], distance), scores
        assert same(one["wanted"], convex.run(trials=1).wanted.tolist())


def test_the_sentences_own_rows_are_those_of_the_experiment() -> None:
    found, known = world.load(), convex.run(trials=1)
    one = [found.scores()[3, :4].tolist()]
    two = [found.scores(head)[3, :4].tolist() for head in (0, 1)]
    for scores, distance in ((one, known.one_head_distance), (two, known.two_heads_distance)):
        [js] = node("heads.js", [("twoJobs", [_world(), scores, TOKENS])])
        assert same(js["distance"], distance)


def test_no_single_row_comes_nearer_than_the_nearest_mixture() -> None:
    """Ten thousand rows of every sharpness; two rows go below it at once."""
    random = np.random.default_rng(0)
    found, least = world.load(), convex.run(trials=1).nearest_distance
    rows = random.standard_normal((10_000, 4)) * np.exp(random.uniform(-1, 4, (10_000, 1)))
    nearest = min(several.two_jobs(found, [row.tolist()], **TOKENS)[1] for row in rows)
    assert least - 1e-12 <= nearest < least + 0.05
    assert several.two_jobs(found, [[30, 0, 0, 0], [0, 0, 30, 0]], **TOKENS)[1] < 1e-9


@pytest.mark.parametrize(
    ("model", "heads", "width"),
    [(1024, 16, 128), (1024, 1, 2048), (1024, 16, 64), (256, 3, 16)],
)
def test_heads_cost_what_a_module_counts(model: int, heads: int, width: int) -> None:
    [found] = node("heads.js", [("headCosts", [model, heads, width, 512])])
    wanted = several.head_costs(model, heads, width, 512)
    # A product and the sum it goes into are two FLOPs.
    flops = (2 * found["projections"], 2 * found["pairs"])
    assert (found["parameters"], *flops) == wanted
    assert found["joined"] == heads * width


def test_cutting_costs_nothing_and_another_width_does() -> None:
    whole, cut, narrow = (
        several.head_costs(1024, *shape, 512) for shape in ((1, 2048), (16, 128), (16, 64))
    )
    assert whole == cut
    assert narrow[0] * 2 == cut[0]


@pytest.mark.parametrize("way", several.WAYS)
def test_taking_nothing_is_the_same(way: several.Way) -> None:
    found = world.load()
    row = found.index("苹果")
    values = found.v[: row + 1]
    cases = [
        (scores, number)
        for scores in (found.scores()[row, : row + 1].tolist(), [3.0, -2.0, 0.5])
        for number in (-6.0, 0.0, 2.5, 10.0)
    ]
    calls = [("takingNothing", [s, values.tolist(), way, number]) for s, number in cases]
    for (scores, number), one in zip(cases, node("heads.js", calls), strict=True):
        fetched, kept = several.taking_nothing(scores, values, way=way, number=number)
        assert same(one["fetched"], fetched.tolist()), (scores, number)
        assert same(one["kept"], kept), (scores, number)
        assert same(one["kept"] + one["beside"], 1.0)


def test_a_sink_keeps_what_the_experiment_says() -> None:
    known = sink.run(steps=0)
    values = world.load().v[: len(known.scores)]
    [row] = node("heads.js", [("rowOf", [_world(), 2])])
    assert same(row["scores"], known.scores.tolist())
    assert same(row["values"], values.tolist())
    given = (row["scores"], row["values"])
    calls = [("takingNothing", [*given, "sink", b]) for b in known.sinks.tolist()]
    calls += [("takingNothing", [*given, "zero", 99.0])]
    calls += [("takingNothing", [*given, "gate", z]) for z in known.gates.tolist()]
    found = node("heads.js", calls)
    norms = [*known.norms, known.zero_key_norm, *known.gated_norms]
    assert same([np.linalg.norm(one["fetched"]) for one in found], norms)
    assert same([one["kept"] for one in found[: len(known.kept)]], known.kept.tolist())


def test_a_first_token_and_a_sink_of_its_score_are_one_thing() -> None:
    values = world.load().v[:3]
    for number in (-1.0, 4.0):
        one, other = (
            several.taking_nothing([0.1, 0.2, 0.3], values, way=way, number=number)
            for way in ("first", "sink")
        )
        assert same(one[0].tolist(), other[0])
        assert not same(one[0].tolist(), several.taking_nothing(
            [0.1, 0.2, 0.3], values, way="none", number=number)[0])  # fmt: skip
