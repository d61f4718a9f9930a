"""The widgets of the lesson on latents show what Python computes on the inputs that are set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lessons_site import SHOWN, choose, move, number, opened

from attnscope.lessons import figures, world
from attnscope.lessons.experiments import latent
from attnscope.lessons.site import keepers
from attnscope.mechanisms.latent import cheaper

SLUG = "10-latent"


def widget(page: Any, site: Path, name: str, language: str = "en") -> Any:
    return opened(page, site, language, SLUG).locator(f"#widget-{name}")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_squeezing_shows_the_experiment(page: Any, site: Path, language: str) -> None:
    found, record = world.load(), latent.run()
    one = widget(page, site, "squeeze", language)
    for numbers in (1, 2, 4, 5):
        move(one, "numbers", numbers)
        assert number(one, "head.0.0") == pytest.approx(record.giver[numbers - 1], abs=SHOWN)
        assert number(one, "head.1.2") == pytest.approx(record.given[numbers - 1], abs=SHOWN)
        assert number(one, "off") == pytest.approx(record.error[numbers - 1], abs=SHOWN)
        verdict = str(one.locator('[data-name="verdict"]').get_attribute("class"))
        assert ("good" in verdict) is (numbers == 5)
    choose(one, "shared")
    assert number(one, "kept") == record.shared
    assert number(one, "off") == pytest.approx(record.shared_error, abs=SHOWN)
    choose(one, "2", 1)
    weights, _ = latent.read(found, latent.one_head(found, found.k), found.v)
    shown = [number(one, f"head.1.{at}") for at in range(5)]
    np.testing.assert_allclose(shown, weights[1, 2], rtol=0, atol=SHOWN)


def test_forms_part_where_a_rotation_stands_between(page: Any, site: Path) -> None:
    one = widget(page, site, "merge")
    for where, same in (("none", True), ("key", False), ("beside", True)):
        choose(one, where)
        move(one, "distance", 17)
        assert (number(one, "apart") < 1e-12) is same
        assert number(one, "queries") == (1 if same else 41)
        seventeen = number(one, "expanded")
        move(one, "distance", 0)
        assert number(one, "apart") < 1e-12
        # Positions are in the score unless nothing is rotated.
        assert (abs(number(one, "expanded") - seventeen) < 1e-12) is (where == "none")


def test_forms_cost_what_the_figures_say(page: Any, site: Path) -> None:
    one = widget(page, site, "forms")
    sizes = keepers.forms("en")
    del sizes["heads"]
    for fresh, cached in ((0, 13), (7, 13), (8, 16), (12, 0)):
        move(one, "fresh", fresh)
        move(one, "cached", cached)
        before = 2**cached if cached else 0
        least = cheaper(2**fresh, before, **sizes)
        shares = [number(one, "flops.0"), number(one, "flops.1")]
        assert ("expanded", "absorbed")[shares.index(min(shares))] == least
        assert number(one, "times") == pytest.approx(1 / min(shares), rel=1e-12)
    move(one, "fresh", 0)
    move(one, "cached", 13)
    # The figure has 8,192 tokens in sight; the page 8,192 cached ones and the new one.
    assert number(one, "times") == pytest.approx(figures.get("mla.v3.step.ratio").value, rel=0.01)


def test_bytes_are_the_figures(page: Any, site: Path) -> None:
    one = widget(page, site, "kept")
    move(one, "power", 20)
    wanted = ["kv.ds67b.mha.per_token", "kv.ds67b.gqa.per_token", "kv.dsv2.per_token",
              "kv.dsv3.per_token", "kv.glm53.all.per_token"]  # fmt: skip
    for at, id in enumerate(wanted):
        per_token = figures.get(id).value
        assert number(one, f"token.{at}") == per_token
        assert number(one, f"bytes.{at}") == per_token * 2**20
    assert number(one, "bytes.1") == figures.get("kv.ds67b.gqa.total").value
    assert number(one, "bytes.4") == figures.get("kv.glm53.all.total").value
    line = one.locator("path.limit").get_attribute("d")
    move(one, "memory", 92)
    assert one.locator("path.limit").get_attribute("d") != line
    assert number(one, "fits.4") == 0
    move(one, "memory", 96)
    assert number(one, "fits.4") == 1
    move(one, "requests", 3)
    assert number(one, "bytes.4") == 3 * figures.get("kv.glm53.all.total").value
    assert number(one, "fits.4") == 0
