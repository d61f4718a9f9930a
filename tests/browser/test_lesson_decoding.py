"""The lessons on the cache and on shared heads, in Chromium: what their widgets show is Python's.

Not here: what every lesson must hold (test_lessons_walk.py).
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lessons_site import SHOWN, choose, move, number, opened

from attnscope.lessons import figures, twins_cache, world
from attnscope.lessons.figures import loops
from attnscope.lessons.figures.configs import model
from attnscope.plan.devices import DEVICES
from attnscope.plan.what_if import with_heads


def test_steps_are_counted_as_the_loop_counts_them(page: Any, site: Path) -> None:
    opened(page, site, "zh", "08-cache")
    widget = page.locator("#widget-feeding")
    assert number(widget, "without.total") == figures.get("cache.without").value
    assert number(widget, "without.again") == figures.get("cache.recomputed").value
    assert number(widget, "with.total") == figures.get("cache.with").value
    move(widget, "prompt", 5)
    move(widget, "generated", 11)
    for name, cached in (("without", False), ("with", True)):
        wanted = loops.feed(5, 11, cached=cached)
        assert number(widget, f"{name}.total") == wanted.total()
        assert number(widget, f"{name}.again") == wanted.total() - len(wanted)
        drawn = widget.locator(".cells").nth(int(cached))
        squares = {
            kind: str(drawn.locator(f"path.{kind}").get_attribute("d")).count("M")
            for kind in ("kept", "computed", "again")
        }
        assert squares["computed"] == len(wanted)
        assert squares["again"] == wanted.total() - len(wanted)
        assert sum(squares.values()) == sum(5 + step for step in range(11))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_earlier_rows_stand_still_behind_a_mask_alone(page: Any, site: Path, language: str) -> None:
    opened(page, site, language, "08-cache")
    widget = page.locator("#widget-still")
    whole = world.load()
    for mask, causal in (("before", True), ("none", False)):
        choose(widget, mask)
        for tokens in (2, 5):
            move(widget, "tokens", tokens)
            now, before = (
                replace(whole, tokens=whole.tokens[:n], embeddings=whole.embeddings[:n]).output(
                    causal=causal
                )
                for n in (tokens, tokens - 1)
            )
            shown = [[number(widget, f"o.{i}.{j}") for j in range(4)] for i in range(tokens)]
            np.testing.assert_allclose(shown, now, rtol=0, atol=SHOWN)
            moves = np.abs(now[:-1] - before).max(1)
            shown = [number(widget, f"moved.{i}") for i in range(tokens - 1)]
            np.testing.assert_allclose(shown, moves, rtol=0, atol=SHOWN)
        verdict = str(widget.locator(".verdict").get_attribute("class"))
        assert ("good" in verdict) is causal


def test_bits_are_those_of_numpy(page: Any, site: Path) -> None:
    opened(page, site, "en", "08-cache")
    widget = page.locator("#widget-exact")
    for seed, tokens, kept in ((1, 24, "whole"), (8, 31, "whole"), (8, 31, "half")):
        move(widget, "seed", seed)
        move(widget, "tokens", tokens)
        choose(widget, kept)
        page.wait_for_timeout(200)
        found = twins_cache.three_ways(seed, tokens, 16, halved=kept == "half")
        for way in ("anew", "atOnce"):
            gap = np.abs(found["cached"].astype(np.float64) - found[way])
            assert number(widget, f"{way}.differ") == (gap > 0).sum()
            assert number(widget, f"{way}.largest") == gap.max()
        assert (number(widget, "anew.differ") == 0) is (kept == "whole")


def test_points_lie_under_the_roof_of_the_planner(page: Any, site: Path) -> None:
    opened(page, site, "en", "08-cache")
    widget = page.locator("#widget-roof")
    for id, name in (("prefill.flops", "prefill.flops"), ("prefill.bytes", "prefill.bytes"),
                     ("step.flops", "step.flops"), ("step.bytes", "step.bytes")):  # fmt: skip
        assert number(widget, name) == figures.get(f"cost.qwen38.{id}").value
    choose(widget, "mha")  # the step and the weights are one point now
    at = [widget.locator(".roof .spot").nth(which).get_attribute("d") for which in (1, 2)]
    assert at[0] == at[1]
    letters = widget.locator(".roof text").filter(has_text=re.compile("^[BC]$"))
    boxes = [letters.nth(which).bounding_box() for which in range(2)]
    assert abs(boxes[0]["y"] - boxes[1]["y"]) > boxes[0]["height"]
    assert number(widget, "ridge") == pytest.approx(figures.get("device.h100.ridge").value)
    for scheme, groups, device, power, batch in (
        ("mha", 24, "a100", 10, 3), ("mqa", 1, "rtx4090", 18, 512), ("gqa", 4, "b200", 4, 1),
    ):  # fmt: skip
        choose(widget, scheme)
        choose(widget, device)
        move(widget, "power", power)
        move(widget, "batch", batch)
        changed, card = with_heads(model("qwen3.8-27b"), groups), DEVICES[device]
        cost = changed.cost(context=2**power)
        read = batch * float(changed.kv(context=1).per_token_bytes) * 2**power
        assert number(widget, "step.flops") == batch * cost.decode_step
        assert number(widget, "step.bytes") == read
        assert number(widget, "step.intensity") == pytest.approx(24 / groups)
        assert number(widget, "prefill.flops") == batch * cost.prefill
        assert number(widget, "weights.intensity") == batch
        seconds = max(read / card.bandwidth, batch * cost.decode_step / card.peak)
        assert number(widget, "step.seconds") == pytest.approx(seconds)
        waits = read / card.bandwidth > batch * cost.decode_step / card.peak
        assert number(widget, "step.waits") == waits


def test_a_function_is_followed_to_its_last_line(page: Any, site: Path) -> None:
    """Every line of the walked functions is on the page, in order, and each has its words."""
    opened(page, site, "en", "08-cache")
    walks = page.locator("figure.walk")
    assert walks.count() == 4
    for at in range(walks.count()):
        where = str(walks.nth(at).locator("figcaption code").text_content())
        path, first = where.split(":")
        source = (Path(figures.__file__).parents[3] / path).read_text(encoding="utf-8").split("\n")
        shown = "\n".join(walks.nth(at).locator("pre").all_text_contents()).split("\n")
        assert shown[0].strip() == source[int(first) - 1].strip()
        rest = iter(line.strip() for line in source[int(first) - 1 :])
        assert all(line.strip() in rest for line in shown)
        said = walks.nth(at).locator("li > .prose").all_text_contents()
        assert len(said) == walks.nth(at).locator("li").count()
        assert all(len(one.strip()) > 10 for one in said)


def test_a_number_of_kv_heads_says_what_is_kept(page: Any, site: Path) -> None:
    opened(page, site, "zh", "09-grouped")
    widget = page.locator("#widget-groups")
    for id, groups in (("mha", 24), ("gqa", 4), ("mqa", 1)):
        move(widget, "groups", groups)
        assert number(widget, "per_token") == figures.get(f"kv.qwen38.{id}.per_token").value
        assert number(widget, "total") == figures.get(f"kv.qwen38.{id}.total").value
        assert number(widget, "intensity") == figures.get(f"cost.qwen38.{id}.intensity").value
        fit = DEVICES["h100"].memory // figures.get(f"kv.qwen38.{id}.total").value
        assert number(widget, "fit") == fit
        ties = str(widget.locator("path.ties").get_attribute("d"))
        ends = re.findall(r"L([\d.]+) ", ties)
        assert len(ends) == 24
        assert len(set(ends)) == groups
        assert [ends.count(one) for one in dict.fromkeys(ends)] == [24 // groups] * groups
        assert [float(one) for one in ends] == sorted(float(one) for one in ends)
    move(widget, "power", 12)
    move(widget, "groups", 8)
    changed = with_heads(model("qwen3.8-27b"), 8)
    assert number(widget, "per_token") == changed.kv(context=1).per_token_bytes
    assert number(widget, "flops") == changed.cost(context=4096).decode_step
    for groups in range(1, 25):
        move(widget, "groups", groups)
        uneven = "bad" in str(widget.locator(".verdict").get_attribute("class"))
        try:
            with_heads(model("qwen3.8-27b"), groups)
        except ValueError:
            assert uneven, groups
            assert np.isnan(number(widget, "per_token"))
        else:
            assert not uneven, groups


def test_heads_on_shared_keys_show_what_the_mechanism_gives(page: Any, site: Path) -> None:
    opened(page, site, "en", "09-grouped")
    widget = page.locator("#widget-share")
    gave, (giver, apple) = 3, (0, 2)
    for how, before in (("own", "heads"), ("mean", "shared")):
        choose(widget, how)
        for letter, key in (("A", giver), ("B", apple)):
            wanted = figures.get(f"world.{before}.{letter.lower()}").value
            assert number(widget, f"weight.{letter}.{key}") == pytest.approx(wanted / 100)
        assert number(widget, "kept") == (8 if how == "own" else 4)
    found = world.load()
    choose(widget, "first")
    assert number(widget, "moved.A") == 0
    q, k = found.q[gave, 2:], found.k[: gave + 1, :2]
    wanted = world.softmax(q @ k.T / np.sqrt(2))
    shown = [number(widget, f"weight.B.{at}") for at in range(gave + 1)]
    np.testing.assert_allclose(shown, wanted, rtol=0, atol=SHOWN)
    fetched = wanted @ found.v[: gave + 1, :2]
    shown = [number(widget, f"fetched.B.{at}") for at in range(2)]
    np.testing.assert_allclose(shown, fetched, rtol=0, atol=SHOWN)
    moved = np.abs(wanted - found.weights(1)[gave, : gave + 1]).max()
    assert number(widget, "moved.B") == pytest.approx(moved)
