"""Numbers of the course's widgets that no lesson's own test compares with Python's.

Not here: which numbers there are (test_lessons_outputs.py), the others (test_lesson*.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lessons_site import SHOWN, choose, move, number, numbers, opened

from attnscope.lessons import figures, reading, several, twins, twins_cache, world
from attnscope.lessons.experiments.memory import table
from attnscope.lessons.figures import loops
from attnscope.lessons.figures.configs import model
from attnscope.mechanisms import rivals
from attnscope.mechanisms.additive import pair_bytes
from attnscope.plan.devices import DEVICES
from attnscope.plan.what_if import with_heads


def test_lesson_2_bytes_are_the_mechanisms(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "02-projections").locator("#widget-bytes")
    for power, width in ((6, 16), (11, 512), (18, 1024)):
        move(widget, "power", power)
        move(widget, "width", width)
        tokens = 2**power
        assert number(widget, "tokens") == tokens
        assert number(widget, "additive") == pair_bytes(tokens, tokens, width)
        assert number(widget, "dot") == pair_bytes(tokens, tokens, 1)


def test_lesson_3_ratios_and_bars_are_the_mechanisms(page: Any, site: Path) -> None:
    opened(page, site, "zh", "03-softmax")
    widget = page.locator("#widget-rules-879")
    assert numbers(widget, "claimed", 3) == [0.4, 0.3, 0.3]
    move(widget, "score.0", 2.5)
    scores = torch.tensor([2.5, 7.0, 9.0], dtype=torch.float64)
    for rule in ("proportional", "softmax"):
        weights = rivals.weigh(scores, rule)
        wanted = float(weights[0] / weights[1])
        assert number(widget, f"{rule}.ratio") == pytest.approx(wanted, rel=SHOWN)
    assert number(widget, "shifted.ratio") == 0  # the first is the lowest now
    widget = page.locator("#widget-properties")
    move(widget, "score.2", -2.5)
    move(widget, "shift", 3)
    scores = torch.tensor([2, 1, -2.5, -1], dtype=torch.float64)
    np.testing.assert_allclose(numbers(widget, "weight", 4), rivals.weigh(scores), atol=SHOWN)
    moved = rivals.weigh(scores + 3, "proportional") - rivals.weigh(scores, "proportional")
    assert number(widget, "rival") == pytest.approx(float(moved.abs().max()), rel=SHOWN)
    widget = page.locator("#widget-jacobian")
    move(widget, "spread", 2.4)
    move(widget, "nudge", -0.6)
    weights = rivals.weigh(2.4 * torch.tensor([1.1, 0.4, -0.3, -1.2], dtype=torch.float64))
    np.testing.assert_allclose(numbers(widget, "weight", 4), weights, rtol=0, atol=SHOWN)
    predicted = rivals.jacobian(weights)[:, 0] * -0.6
    np.testing.assert_allclose(numbers(widget, "predicted", 4), predicted, rtol=0, atol=SHOWN)


def test_lesson_3_temperatures_and_growth_are_the_mechanisms(page: Any, site: Path) -> None:
    widget = opened(page, site, "zh", "03-softmax").locator("#widget-temperature")
    move(widget, "base", 3)
    move(widget, "temperature", 2.5)
    row = torch.tensor([2.0, 1, 0, -1], dtype=torch.float64)
    warm, based = (
        rivals.weigh(row, "temperature", temperature=one) for one in (2.5, float(1 / np.log(3)))
    )
    np.testing.assert_allclose(numbers(widget, "temperature", 4), warm, rtol=0, atol=SHOWN)
    np.testing.assert_allclose(numbers(widget, "base", 4), based, rtol=0, atol=SHOWN)
    assert number(widget, "apart") == pytest.approx(float((warm - based).abs().max()), rel=SHOWN)
    widget = page.locator("#widget-growth")
    move(widget, "growth", 3)
    assert number(widget, "bound") == pytest.approx(9, rel=SHOWN)
    weights = rivals.weigh(torch.from_numpy(twins.grown_scores(3, 64, 6, 3)))
    wanted = float(rivals.jacobian_norm(weights))
    assert number(widget, "jacobian") == pytest.approx(wanted, rel=1e-8)


def test_lesson_4_masks_as_the_world_does(page: Any, site: Path) -> None:
    bare = world.load().weights(causal=False)
    widget = opened(page, site, "en", "04-masking").locator("#widget-weights")
    for row, mask, weights in (
        (1, "none", bare), (2, "before", world.load().weights()), (0, "after", np.tril(bare)),
    ):  # fmt: skip
        choose(widget, str(row), 0)
        choose(widget, mask, 1)
        np.testing.assert_allclose(numbers(widget, "weight", 5), weights[row], rtol=0, atol=SHOWN)
        assert number(widget, "future") == pytest.approx(weights[row, row + 1 :].sum(), abs=SHOWN)
        assert number(widget, "sum") == pytest.approx(weights[row].sum(), abs=SHOWN)
    widget = page.locator("#widget-hide")
    move(widget, "number", -6)
    move(widget, "hidden", 2.5)
    wanted = rivals.weigh(torch.tensor([1, 0, 2.5 - 6], dtype=torch.float64))
    np.testing.assert_allclose(numbers(widget, "weight", 3), wanted, rtol=0, atol=SHOWN)


def test_lesson_5_mixes_as_the_world_does(page: Any, site: Path) -> None:
    found = world.load()
    widget = opened(page, site, "en", "05-whole").locator("#widget-mixture")
    for row, head, fetch, values in ((2, 0, "V", found.v), (4, None, "K", found.k)):
        choose(widget, str(row), 0)
        choose(widget, "all" if head is None else str(head), 1)
        choose(widget, fetch, 2)
        columns = values[: row + 1, found.columns(head)]
        weights = found.weights(head)[row]
        np.testing.assert_allclose(numbers(widget, "weight", 5), weights, rtol=0, atol=SHOWN)
        for name, wanted in (("least", columns.min(0)), ("largest", columns.max(0)),
                             ("o", weights[: row + 1] @ columns)):  # fmt: skip
            shown = numbers(widget, name, columns.shape[1])
            np.testing.assert_allclose(shown, wanted, rtol=0, atol=SHOWN)
    widget = page.locator("#widget-mix")
    scores = torch.tensor([-3, 2, 2.5], dtype=torch.float64)
    for at, score in enumerate(scores):
        move(widget, f"score.{at}", float(score))
    corners = np.array([[-80, -50], [80, -50], [0, 80]])  # A and B below, C above
    for rule in ("softmax", "proportional"):
        choose(widget, rule)
        weights = rivals.weigh(scores, rule).numpy()
        np.testing.assert_allclose(numbers(widget, "weight", 3), weights, rtol=0, atol=SHOWN)
        shown = [number(widget, "x"), number(widget, "y")]
        np.testing.assert_allclose(shown, weights @ corners, rtol=0, atol=100 * SHOWN)


def test_lesson_7_wants_and_shares_as_python_does(page: Any, site: Path) -> None:
    opened(page, site, "en", "07-heads")
    found = world.load()
    wanted = [*found.v[0, :2], *found.v[2, 2:]]
    np.testing.assert_allclose(numbers(page.locator("#widget-jobs"), "wanted", 4), wanted)
    widget = page.locator("#widget-widths")
    move(widget, "heads", 12)
    for side, said in (("q_proj", "1,024 → 1,536"), ("o_proj", "1,536 → 1,024")):
        assert number(widget, side) == 1024 * 12 * 128
        assert widget.locator(f'[data-name="{side}"]').inner_text() == said
    widget = page.locator("#widget-nothing")
    for way in several.WAYS:
        choose(widget, way)
        move(widget, "number", 1.5)
        beside = {"none": -np.inf, "gate": -np.inf, "zero": 0.0}.get(way, 1.5)
        shares = world.softmax([0.04, 0.36, 0.0, beside])
        np.testing.assert_allclose(numbers(widget, "weight", 4), shares, rtol=0, atol=SHOWN)
        gate = 1 / (1 + np.exp(-1.5)) if way == "gate" else np.nan
        assert number(widget, "open") == pytest.approx(gate, rel=SHOWN, nan_ok=True)


def test_lesson_8_work_is_the_planners(page: Any, site: Path) -> None:
    opened(page, site, "en", "08-cache")
    widget = page.locator("#widget-feeding")
    move(widget, "prompt", 4)
    move(widget, "generated", 9)
    without, kept = (loops.feed(4, 9, cached=cached).total() for cached in (False, True))
    assert number(widget, "ratio") == pytest.approx(without / kept)
    widget = page.locator("#widget-still")
    choose(widget, "none")
    move(widget, "tokens", 5)
    assert number(widget, "moved") == max(numbers(widget, "moved", 4)) > 0
    widget = page.locator("#widget-roof")
    choose(widget, "a100")
    for name, value in (("power", 9), ("batch", 7)):
        move(widget, name, value)
    card, anchor = DEVICES["a100"], model("qwen3.8-27b")
    full = [one.heads for one in anchor.layers if one.heads is not None]
    # Queries are read and outputs written as well, at two bytes a number.
    ends = len(full) * 2 * full[0].query * full[0].qk * 2 * 512
    read = float(anchor.kv(context=1).per_token_bytes) * 512 + ends
    works = {"prefill": (7 * anchor.cost(context=512).prefill, 7 * read), "weights": (14e6, 2e6)}
    assert number(widget, "tokens") == 512
    for kind, (flops, size) in works.items():
        assert number(widget, f"{kind}.flops") == flops
        assert number(widget, f"{kind}.bytes") == size
        assert number(widget, f"{kind}.intensity") == pytest.approx(flops / size)
        seconds = max(size / card.bandwidth, flops / card.peak)
        assert number(widget, f"{kind}.seconds") == pytest.approx(seconds)
        assert number(widget, f"{kind}.waits") == (size / card.bandwidth > flops / card.peak)


def test_bits_are_those_of_numpy_at_both_ends(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "08-cache").locator("#widget-exact")
    slider = widget.locator('input[data-name="tokens"]')
    for seed, end in ((99, "min"), (3, "max")):
        tokens = int(slider.get_attribute(end))
        move(widget, "seed", seed)
        move(widget, "tokens", tokens)
        page.wait_for_timeout(200)
        found = twins_cache.three_ways(seed, tokens, 16)
        for way in ("anew", "atOnce"):
            gap = np.abs(found["cached"].astype(np.float64) - found[way])
            assert number(widget, f"{way}.differ") == (gap > 0).sum()
            assert number(widget, f"{way}.largest") == gap.max()


def test_lesson_9_shares_as_the_mechanism_does(page: Any, site: Path) -> None:
    opened(page, site, "zh", "09-grouped")
    widget = page.locator("#widget-groups")
    move(widget, "power", 14)
    anchor = model("qwen3.8-27b")
    for groups in (1, 6, 24):
        move(widget, "groups", groups)
        assert number(widget, "tokens") == 2**14
        assert number(widget, "sharing") == 24 // groups
        whole, few = (
            float(with_heads(anchor, heads).kv(context=1).per_token_bytes) for heads in (24, groups)
        )
        assert number(widget, "of_all") == pytest.approx(few / whole)
    widget = page.locator("#widget-share")
    found = world.load()
    choose(widget, "mean")
    keys, values = ((one[:, :2] + one[:, 2:]) / 2 for one in (found.k, found.v))
    for head, letter in enumerate("AB"):
        q = found.q[3, 2 * head : 2 * head + 2]
        weights = world.softmax(keys[:4] @ q / np.sqrt(2))
        shown = numbers(widget, f"fetched.{letter}", 2)
        np.testing.assert_allclose(shown, weights @ values[:4], rtol=0, atol=SHOWN)


def test_lesson_10_counts_and_forms_are_right(page: Any, site: Path) -> None:
    opened(page, site, "en", "10-latent")
    widget = page.locator("#widget-forms")
    move(widget, "fresh", 5)
    move(widget, "cached", 0)
    assert (number(widget, "fresh"), number(widget, "cached")) == (32, 0)
    move(widget, "fresh", 0)
    move(widget, "cached", 13)
    for at, form in enumerate(("expanded", "absorbed")):
        text = widget.locator(f'[data-name="flops.{at}"]').inner_text()
        # The figure has one token less in sight.
        wanted = figures.get(f"mla.v3.step.{form}").value
        assert float(text.removesuffix(" G")) * 1e9 == pytest.approx(wanted, rel=0.01), text
    widget = page.locator("#widget-merge")
    for where in ("none", "beside"):
        choose(widget, where)
        move(widget, "distance", 9)
        one, other = (number(widget, form) for form in ("expanded", "absorbed"))
        assert other == pytest.approx(one, abs=1e-12)
    widget = page.locator("#widget-kept")
    move(widget, "power", 9)
    assert number(widget, "tokens") == 512


def test_lesson_11_tables_are_right(page: Any, site: Path) -> None:
    opened(page, site, "en", "11-linear")
    widget = page.locator("#widget-regroup")
    for name, value in (("seed", 4), ("power", 9), ("width", 32)):
        move(widget, name, value)
    drawn = torch.from_numpy(twins.normals(4, 4 * 13)).view(-1, 4)
    q, k, v = drawn[0], drawn[1:7], drawn[7:]
    soft = torch.softmax(k @ q / 2, 0)
    np.testing.assert_allclose(numbers(widget, "softmax", 6), soft, rtol=0, atol=SHOWN)
    scores = (torch.nn.functional.elu(k) + 1) @ (torch.nn.functional.elu(q) + 1)
    wanted = float(scores / scores.sum() @ v[:, 0])
    assert number(widget, "by_weights") == pytest.approx(wanted, abs=SHOWN)
    assert (number(widget, "tokens"), number(widget, "keptPairs")) == (512, 2 * 512 * 32)
    # Into the table and out of it for each token, and the division's sum.
    assert number(widget, "table") == 512 * (32 * 32 + 32 * 32 + 32)
    widget = page.locator("#widget-memory")
    choose(widget, "delta")
    for name, value in (("pairs", 20), ("width", 6), ("seed", 8)):
        move(widget, name, value)
    drawn = torch.from_numpy(twins.normals(8, 2 * 20 * 6)).view(2, 1, 20, 6)
    k, v = drawn[0] / drawn[0].norm(dim=-1, keepdim=True), drawn[1]
    off = ((k @ table("delta", k, v) - v).norm(dim=-1) / v.norm(dim=-1))[0]
    assert number(widget, "numbers") == 36
    assert number(widget, "mean") == pytest.approx(float((off**2).mean().sqrt()), rel=SHOWN)
    assert number(widget, "right") == int((off < 0.5).sum())


def test_lesson_12_holds_the_first_score(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "12-stability").locator("#widget-lid")
    move(widget, "score.0", 25)
    move(widget, "threshold", 20)
    for way, first, slope in (("none", 25.0, 1.0), ("lid", 20.0, 0.0),
                              ("soft", 20 * np.tanh(1.25), 1 - np.tanh(1.25) ** 2)):  # fmt: skip
        assert number(widget, f"{way}.first") == pytest.approx(first, rel=SHOWN)
        assert number(widget, f"{way}.slope") == pytest.approx(slope, rel=SHOWN)


def test_lesson_13_says_a_heads_share(page: Any, site: Path) -> None:
    widget = opened(page, site, "en", "13-reading").locator("#widget-census")
    for layer, head in ((17, 5), (0, 0), (3, 8)):
        move(widget, "layer", layer)
        move(widget, "head", head)
        one = reading.kept()["heads"][layer * 9 + head]
        shares = dict(zip(reading.ASKED, one["shares"], strict=True))
        kind = reading.kind_of(one, half=0.5)
        there = [share for share in shares.values() if share is not None]
        wanted = max(there) if kind == "mixed" else shares[kind]
        assert number(widget, "chosen.share") == pytest.approx(wanted, rel=SHOWN)
