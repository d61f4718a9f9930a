"""Memory that grows with the length, not with its square, and keys that are never repeated."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from attnscope.testing import implementations

SCRIPT = """
import json, re, sys, torch
from attnscope.core import attend, Request
# Not ru_maxrss: a child begins with that of the process that started it.
high = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
impl, T, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
gradient = mode == "gradient"
torch.set_num_threads(1)
make = lambda h, t: torch.randn(1, h, t, 16, requires_grad=gradient)
def run(t):
    q, k, v = make(8, 1 if mode == "decode" else t), make(1, t), make(1, t)
    request = Request.of("all", pool=mode == "map", rows=(-1,))
    out = attend(q, k, v, statistics=request, impl=impl).output
    if gradient:
        out.sum().backward()
run(64)
run(512)  # several strips: libraries that only these use are paged in before it counts
before = high()
run(T)
print(json.dumps(high() - before))
"""


def peak(impl: str, tokens: int, mode: str = "plain") -> float:
    """How many MiB a fresh process grows by for one call."""
    command = [sys.executable, "-c", SCRIPT, impl, str(tokens), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout) / 1024


def stays_within(most: float, impl: str, tokens: int, mode: str) -> bool:
    """Whether one of three processes grows by less; what else is paged in adds, never subtracts."""
    return any(peak(impl, tokens, mode) < most for _ in range(3))


@pytest.mark.parametrize(("mode", "most"), [("plain", 48), ("gradient", 64), ("map", 190)])
def test_strips_take_little(mode: str, most: float) -> None:
    """8 heads of 4,096 tokens: the weights alone would be 512 MiB.

    Inputs, results and two strips are about 16 MiB; a map of 8 heads is 3 x 32 MiB at any length.
    """
    assert stays_within(most, "strip", 4096, mode)


@pytest.mark.parametrize("impl", [name for name in implementations() if name != "reference"])
def test_keys_are_not_repeated_for_the_heads_that_share_them(impl: str) -> None:
    """K and V of 400,000 tokens are 24 MiB each; repeated for 8 heads they would be 390."""
    assert stays_within(190, impl, 400_000, "decode")


def test_the_measurement_sees_the_whole_matrix() -> None:
    """The reference makes it, in float64 and several times: 8 heads of 1,024 tokens are 64 MiB."""
    assert peak("reference", 1024) > 128
