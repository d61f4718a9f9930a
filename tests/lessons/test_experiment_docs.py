"""docs/experiments.md says what the experiments say."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from attnscope.lessons.experiments import EXPERIMENTS, NAMES, sweep

ROOT = Path(__file__).parents[2]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = load(ROOT / "docs" / "build_experiments.py")
PAGE = build.PAGE.read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def differences(fresh: str, printed: str) -> list[str]:
    """Lines that differ in a word, or in a number by more than another processor explains.

    Trained numbers may move by a tenth or two units of the last printed digit; what is rounding
    itself (below 1e-5) may be any other such number.
    """
    found = []
    if len(fresh.splitlines()) != len(printed.splitlines()):
        found.append("another number of lines")
    for now, before in zip(fresh.splitlines(), printed.splitlines(), strict=False):
        words = [re.sub("[▏▎▍▌▋▊▉█░▒▓·o ]", "", NUMBER.sub("", text)) for text in (now, before)]
        pairs = zip(NUMBER.findall(now), NUMBER.findall(before), strict=False)
        if words[0] != words[1] or not all(close(a, b) for a, b in pairs):
            found.append(f"{before!r} is now {now!r}")
    return found


def close(now: str, before: str) -> bool:
    a, b = (float(text.replace(",", "")) for text in (now, before))
    if max(abs(a), abs(b)) < 1e-5:
        return True
    digits = len(before.split("e")[0].partition(".")[2])
    step = 10.0**-digits if digits else 0.0
    return abs(a - b) <= 2 * step + (0.1 * abs(b) if digits else 0.0)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in build.LONG])
def test_a_block_is_what_a_fresh_run_prints(name: str) -> None:
    result = EXPERIMENTS[name]()
    assert differences(result.picture(), build.shown(PAGE, name)) == []
    assert f"python -m attnscope.lessons.experiments.{name}`" in PAGE


@pytest.mark.parametrize("name", build.LONG)
def test_a_long_block_is_drawn_from_its_record(name: str) -> None:
    result = build.kept(name)
    assert result.picture().strip() == build.shown(PAGE, name).strip()
    assert result.svg() == (build.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert build.rounded(result.to_dict()) == build.rounded(build.kept(name).to_dict())


def test_what_the_page_claims_of_training_is_in_the_record() -> None:
    found = build.kept("training")
    scaled, unscaled = found.of("scaled"), found.of("unscaled")
    assert (found.head_width, scaled.loss.shape) == (256, (3, found.steps))
    assert (unscaled.last("loss") > scaled.last("loss")).all()
    half = found.guess / 2
    smaller = found.of("unscaled, drawn smaller")
    assert (np.abs(smaller.learned_at(half) / scaled.learned_at(half) - 1) < 0.2).all()
    assert (smaller.max_logit.max(1) > 3 * scaled.max_logit.max(1)).all()
    assert (smaller.last("loss") > scaled.last("loss")).all()
    assert (smaller.last("loss") < unscaled.last("loss")).all()
    assert (np.nan_to_num(unscaled.learned_at(half), nan=np.inf) > scaled.learned_at(half)).all()
    growing = found.of("growing")
    for name in ("QK-norm", "QK-Clip"):
        held = found.of(f"growing + {name}")
        assert held.variant.rate == growing.variant.rate == 10 * scaled.variant.rate
        assert (held.max_logit.max(1) < 0.05 * growing.max_logit.max(1)).all()
        assert (held.last("loss") < growing.last("loss")).all()


def test_what_the_page_claims_of_the_sweep_is_in_the_record() -> None:
    found = build.kept("sweep")
    asked = inspect.signature(sweep.run).parameters
    for name in ("widths", "rates", "steps", "seed"):  # it is the run that nothing was said to
        assert np.array_equal(getattr(found, name), asked[name].default), name
    scaled, unscaled = found.loss.mean(-1)
    assert (unscaled > scaled).all()
    scaled, unscaled = found.best()
    assert (unscaled > scaled).all()
    assert (np.diff((unscaled - scaled).mean(-1)) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["training"])
def test_a_record_is_what_a_fresh_run_gives_for_its_first_steps(name: str) -> None:
    """The first 30 steps: after hundreds, other processors' last bits show."""
    kept, fresh = build.kept(name), EXPERIMENTS[name](steps=30)
    for before, now in zip(kept.curves, fresh.curves, strict=True):
        assert np.allclose(before.loss[:, :30], now.loss, rtol=0.02), before.variant.name


def test_a_page_that_lies_is_caught() -> None:
    block = build.shown(PAGE, "variance")
    assert differences(block, block) == []
    assert differences(block, block.replace("sqrt(d) sigma^2 =  16", "sqrt(d) sigma^2 =  19"))
    assert differences(block, block.replace("mean entropy", "meen entropy"))
    assert differences(block, block + "more\n")
    with pytest.raises(ValueError, match=r"experiments.md: no block for nothing"):
        build.shown(PAGE, "nothing")
