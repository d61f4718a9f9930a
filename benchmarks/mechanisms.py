"""Causal, grouped, windowed and sunk attention through `attend` against PyTorch's equivalent.

PyTorch's scaled_dot_product_attention gets what says the same: `is_causal`, `enable_gqa`, a dense
band of booleans for the window, an extra key of zeros for a sink of logit 0. Masks and longer keys
are made before the clock starts. Ours is timed giving the output alone, and giving all statistics
too. Both run in turns; printed is the median of the pairs' ratios, ours over theirs. Exits with 1
where the output alone takes longer than PyTorch's.

    python benchmarks/mechanisms.py                    the table, 16 heads of 128
    python benchmarks/mechanisms.py --growth           how the time grows, with fitted exponents
    python benchmarks/mechanisms.py --cases window     one kind of attention only
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parent))

from gate import require

from attnscope.capture.timing import interleaved
from attnscope.core import attend
from attnscope.core.mechanism import pairs_in_sight

HEADS, WIDTH, WINDOW = 16, 128, 512
LONG_HEADS = 2
GOAL = 1.0
CASES = ("causal", "gqa", "window", "sinks")


@dataclass
class Case:
    """The same attention twice.

    Attributes:
        ours: keywords of `attend`, and its q, k and v.
        theirs: those of scaled_dot_product_attention.
    """

    ours: dict[str, Any]
    theirs: dict[str, Any]

    def attend(self, *, watched: bool) -> torch.Tensor:
        """Ours, with or without all statistics."""
        return attend(**self.ours, statistics="all" if watched else None).output

    def sdpa(self) -> torch.Tensor:
        """PyTorch's."""
        return functional.scaled_dot_product_attention(**self.theirs)


def heads_of(count: int, tokens: int, seed: int) -> torch.Tensor:
    """[1, H, T, D], seen from [1, T, H, D] in memory, as a layer has it."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(1, tokens, count, WIDTH, generator=random).transpose(1, 2)


def case_of(kind: str, tokens: int, *, heads: int = HEADS) -> Case:
    """One kind of attention of `tokens` tokens to themselves."""
    groups = heads if kind == "causal" else heads // 2
    q, k, v = (heads_of(n, tokens, s) for s, n in enumerate((heads, groups, groups)))
    both = {"query": q, "key": k, "value": v, "enable_gqa": groups < heads}
    mine = {"q": q, "k": k, "v": v}
    if kind in ("causal", "gqa"):
        return Case(mine, {**both, "is_causal": True})
    seen = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    if kind == "window":
        seen = seen.triu(1 - WINDOW)
        return Case({**mine, "window": WINDOW}, {**both, "attn_mask": seen})
    # A key of zeros scores 0 with every query: a sink of logit 0, whose value is 0.
    k, v = (functional.pad(x, (0, 0, 1, 0)) for x in (k, v))
    seen = functional.pad(seen, (1, 0), value=True)
    longer = {**both, "key": k, "value": v, "attn_mask": seen}
    return Case({**mine, "sinks": torch.zeros(heads)}, longer)


def compare(kind: str, tokens: int, *, pairs: int) -> float:
    """Two lines: the output alone, whose ratio is returned, and with all statistics."""
    case = case_of(kind, tokens)
    gap = float((case.attend(watched=False) - case.sdpa()).abs().max())
    if gap > 1e-5:  # numbers near 1; some dozens of roundings
        sys.exit(f"{kind}: the two differ by {gap:.1e}, so they are not the same attention")
    found = []
    for watched in (False, True):
        ratio = interleaved(
            lambda: case.sdpa(), lambda w=watched: case.attend(watched=w), pairs=pairs  # type: ignore[misc]
        )  # fmt: skip
        row = {
            "case": kind, "tokens": tokens, "statistics": "all" if watched else "none",
            "ours_over_sdpa": round(ratio.median, 3), "low": round(ratio.low, 3),
            "high": round(ratio.high, 3), "sdpa_ms": round(ratio.plain_s * 1e3, 2),
        }  # fmt: skip
        print(json.dumps(row), flush=True)
        found.append(ratio.median)
    return found[0]


def growth(name: str, make: Callable[[int], Callable[[], Any]], sizes: list[int]) -> None:
    """Time every size in turns, and fit the exponent of time against size.

    Three numbers tell it: the exponent of log time against log size; that of the FLOPs at the same
    sizes, which is what the time would have if every FLOP took as long; and how far the polynomial
    a + b n^p, with the whole p that is expected, is off.
    """
    runs = {size: make(size) for size in sizes}
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    calls = {size: 1 for size in sizes}
    for size, run in runs.items():
        run()
        begun = time.perf_counter()
        run()
        calls[size] = max(1, min(200, int(0.05 / (time.perf_counter() - begun))))
    for _ in range(7):
        for size, run in runs.items():
            begun = time.perf_counter()
            for _ in range(calls[size]):
                run()
            seconds[size].append((time.perf_counter() - begun) / calls[size])
    n = np.array(sizes, float)
    t = np.array([statistics.median(seconds[size]) for size in sizes])
    expected = 1 if "decode" in name else 2
    b, a = np.polyfit(n**expected, t, 1, w=1 / t)
    off = float(np.abs((a + b * n**expected) / t - 1).max())
    pairs = [size if expected == 1 else pairs_in_sight(size) for size in sizes]
    row = {
        "case": name, "sizes": sizes, "ms": [round(x * 1e3, 3) for x in t.tolist()],
        "exponent": exponent(n, t), "exponent_of_flops": exponent(n, np.array(pairs, float)),
        f"fit_a_plus_b_n^{expected}": [round(a * 1e3, 4), float(f"{b * 1e3:.4g}")],
        "off_by_at_most": round(off, 3),
    }  # fmt: skip
    print(json.dumps(row), flush=True)


def exponent(n: np.ndarray, t: np.ndarray) -> float:
    """p of the t = c n^p that is nearest on logarithmic axes."""
    return round(float(np.polyfit(np.log(n), np.log(t), 1)[0]), 3)


def prefill(tokens: int) -> Callable[[], Any]:
    """Grouped causal attention of a whole text: few heads, so that texts can be long."""
    case = case_of("gqa", tokens, heads=LONG_HEADS)
    return lambda: case.attend(watched=False)


def decode(cached: int) -> Callable[[], Any]:
    """One query on a cache that lies [1, G, S, D] in memory."""
    q = heads_of(HEADS, 1, 0).contiguous()
    k, v = (heads_of(HEADS // 2, cached, s).contiguous() for s in (1, 2))
    return lambda: attend(q, k, v).output


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--tokens", default="2048,4096")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    require("core/test_core_sdpa.py")
    with torch.no_grad():
        if given.growth:
            growth("prefill", prefill, [2048, 4096, 8192, 16384])
            growth("decode", decode, [4096, 8192, 16384, 32768, 65536])
            return
        slow = {
            (kind, tokens): ratio
            for kind in given.cases.split(",")
            for tokens in given.tokens.split(",")
            if (ratio := compare(kind, int(tokens), pairs=given.pairs)) > GOAL
        }
    if slow:
        sys.exit(f"expected at most {GOAL:g} times PyTorch's time, got {slow}")


if __name__ == "__main__":
    main()
