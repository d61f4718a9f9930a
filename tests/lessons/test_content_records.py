"""What pages print of slow experiments is what the experiments give when they are run again."""

from __future__ import annotations

from typing import Any

import pytest

from attnscope.lessons import records
from attnscope.lessons.experiments import EXPERIMENTS
from attnscope.lessons.site import values

EXACT = {"leak": ("share", "entropy_rate", "guess", "answer", "unmasked", "masked")}
"""Fields that no training goes into."""


def differences(kept: Any, now: Any, near: float, where: str = "") -> list[str]:
    """Where two records differ by more than a share of their size (1 at least)."""
    if isinstance(kept, dict) and isinstance(now, dict) and kept.keys() == now.keys():
        return [d for key in kept for d in differences(kept[key], now[key], near, f"{where}/{key}")]
    if isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        pairs = enumerate(zip(kept, now, strict=True))
        return [d for at, (a, b) in pairs for d in differences(a, b, near, f"{where}/{at}")]
    if isinstance(kept, float) and isinstance(now, float | int):
        return [] if abs(kept - now) <= near * max(1.0, abs(kept)) else [f"{where}: {kept}, {now}"]
    return [] if kept == now else [f"{where}: {kept}, {now}"]


def test_the_variance_that_is_kept_is_what_runs() -> None:
    """The same draws; sums in another order may differ in float64's last digits."""
    assert (
        differences(records.recorded()["variance"], EXPERIMENTS["variance"]().to_dict(), 1e-6) == []
    )


@pytest.mark.slow
def test_the_leak_that_is_kept_is_what_runs() -> None:
    """Training doubles rounding at every step, so another processor agrees to a few per cent."""
    kept, now = records.recorded()["leak"], EXPERIMENTS["leak"]().to_dict()
    for name in EXACT["leak"]:
        assert differences(kept[name], now[name], 1e-9, name) == []
    for name in ("causal_last", "causal_prefix"):
        assert differences(kept[name], now[name], 0.02, name) == []
    assert now["leaky_last"] < 0.01 > kept["leaky_last"]
    assert min(now["leaky_prefix"], kept["leaky_prefix"]) > 2 * kept["guess"]


def test_the_sink_that_is_kept_is_what_runs() -> None:
    """What no training goes into to the last digits; what was learned says the same."""
    kept, now = records.recorded()["sink"], EXPERIMENTS["sink"]().to_dict()
    learned = {name for name in kept if name.startswith("learned_")}
    for name in kept.keys() - learned:
        assert differences(kept[name], now[name], 1e-12, name) == []
    for found in (kept, now):
        error, still = found["learned_error"], found["learned_still"]
        assert max(error["sink"], error["gate"]) < error["plain"] / 3
        assert max(still["sink"], still["gate"]) < still["plain"] / 2
    assert differences(kept["learned_error"], now["learned_error"], 0.02) == []


def test_pages_take_kept_records() -> None:
    assert values.experiment("leak") is records.recorded()["leak"]
    assert set(records.KEPT) == records.recorded().keys()


def test_a_changed_record_is_noticed() -> None:
    kept = {"a": [1.0, 2.0], "b": "x"}
    assert differences(kept, {"a": [1.0, 2.1], "b": "x"}, 1e-6) == ["/a/1: 2.0, 2.1"]
    assert differences(kept, {"a": [1.0], "b": "x"}, 1e-6)
    assert differences(kept, {"a": [1.0, 2.0], "b": "y"}, 1e-6) == ["/b: x, y"]
