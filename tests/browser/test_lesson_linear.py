"""The widgets of the lesson on linear and sparse attention show what Python computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lessons_site import SHOWN, choose, move, number, opened

from attnscope.lessons import figures, twins
from attnscope.lessons.experiments.memory import table
from attnscope.lessons.site import keepers
from attnscope.plan.flops import causal_pairs, entry_pairs

SLUG = "11-linear"


def widget(page: Any, site: Path, name: str, language: str = "en") -> Any:
    return opened(page, site, language, SLUG).locator(f"#widget-{name}")


def test_both_orders_agree_and_are_counted(page: Any, site: Path) -> None:
    one = widget(page, site, "regroup", "zh")
    move(one, "seed", 9)
    drawn = torch.from_numpy(twins.normals(9, 4 * 13)).view(-1, 4)
    q, k, v = drawn[0], drawn[1:7], drawn[7:]
    scores = (torch.nn.functional.elu(k) + 1) @ (torch.nn.functional.elu(q) + 1)
    weights = scores / scores.sum()
    shown = [number(one, f"weights.{at}") for at in range(6)]
    np.testing.assert_allclose(shown, weights.numpy(), rtol=0, atol=SHOWN)
    assert number(one, "by_table") == pytest.approx(float(weights @ v[:, 0]), abs=SHOWN)
    assert number(one, "apart") < 1e-12
    move(one, "power", 10)
    move(one, "width", 64)
    assert number(one, "pairs") == causal_pairs(1024) * 2 * 64
    assert number(one, "keptTable") == 64 * 65
    assert "good" in str(one.locator('[data-name="verdict"]').get_attribute("class"))
    move(one, "power", 4)
    assert "good" not in str(one.locator('[data-name="verdict"]').get_attribute("class"))


def test_a_table_gives_back_what_the_mechanism_does(page: Any, site: Path) -> None:
    one = widget(page, site, "memory")
    for rule in ("add", "delta", "gated"):
        choose(one, rule)
        for name, value in (("pairs", 20), ("width", 7), ("seed", 4)):
            move(one, name, value)
        drawn = torch.from_numpy(twins.normals(4, 2 * 20 * 7)).view(2, 1, 20, 7)
        k, v = drawn[0] / drawn[0].norm(dim=-1, keepdim=True), drawn[1]
        read = k @ table(rule, k, v, decay=0.9)
        wanted = ((read - v).norm(dim=-1) / v.norm(dim=-1))[0]
        shown = [number(one, f"off.{at}") for at in range(20)]
        np.testing.assert_allclose(shown, wanted.numpy(), rtol=0, atol=SHOWN)
        assert (number(one, "newest") < 1e-12) is (rule != "add")
    box = one.locator('input[data-name="again"]')
    for rule, found in (("add", 0), ("delta", -1)):
        choose(one, rule)
        move(one, "pairs", 1)
        box.check()
        # Written with a value and with its opposite: nothing is left of a sum.
        assert number(one, "again") == pytest.approx(found, abs=1e-12)
        box.uncheck()
        assert number(one, "again") == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_who_reads_whom_is_what_the_planner_counts(page: Any, site: Path, language: str) -> None:
    one = widget(page, site, "sight", language)
    move(one, "tokens", 50)
    move(one, "ratio", 6)
    assert number(one, "read") == causal_pairs(50, 6) + entry_pairs(50, 6, 3)
    assert number(one, "scanned") == entry_pairs(50, 6)
    assert number(one, "kept") == 6 + 50 // 6
    before = one.locator("path.cells-2").get_attribute("d")
    move(one, "seed", 12)
    assert one.locator("path.cells-2").get_attribute("d") != before
    choose(one, "chosen")
    assert number(one, "read") == causal_pairs(50, 3)
    assert (number(one, "scanned"), number(one, "kept")) == (causal_pairs(50), 50)
    assert one.locator('input[data-name="window"]').count() == 0
    choose(one, "window")
    assert (number(one, "scanned"), number(one, "kept")) == (0, 6)
    assert one.locator("path.cells-2").get_attribute("d") == ""


def test_bytes_are_the_planners(page: Any, site: Path) -> None:
    one = widget(page, site, "kept")
    models = [keepers._models()[id] for id in ("qwen38-full", "qwen38", "glm53", "flash")]
    for power in (0, 7, 20):
        move(one, "power", power)
        for at, source in enumerate(models):
            assert number(one, f"bytes.{at}") == source.bytes_at(2**power, dtype="bf16")
    assert number(one, "token.3") == figures.get("kv.dsv41flash.per_token").value
    assert number(one, "token.1") == figures.get("kv.qwen38.gqa.per_token").value
