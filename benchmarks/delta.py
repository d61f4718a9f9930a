"""The gated delta rule against transformers' two functions, on random numbers.

Ours and theirs get the same tensors, laid out [B, T, H, D] as a layer has them, and both bring q
and k to length one on the way and return the state. They run in turns; printed is the median of the
pairs' ratios, theirs over ours (how many times faster ours is), with the smallest and the largest.

    python benchmarks/delta.py            prefill of 512 and 4,096 tokens, and decoding steps
    python benchmarks/delta.py --chunks   other chunk sizes of the compiled form, at 4,096 tokens

The ceiling printed beside a prefill is the time that its products with the state alone would take
at the speed that this processor's threads reach in one (`matmul_gflops`, PyTorch's own). Exits with
1 where the compiled form is not five times as fast at 4,096 tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from gate import require
from transformers.models.qwen3_next.modeling_qwen3_next import (
    torch_chunk_gated_delta_rule,
    torch_recurrent_gated_delta_rule,
)

from attnscope.capture.timing import interleaved
from attnscope.core.fused_delta import delta_fused
from attnscope.core.microkernel import ROWS
from attnscope.mechanisms.gated_delta import gated_delta

Tensors = tuple[torch.Tensor, ...]
WIDTH = 128
GOAL = 5.0


def random_inputs(groups: int, heads: int, tokens: int) -> Tensors:
    """q, k [1, T, G, D], v [1, T, H, D], g, beta [1, T, H] and a state [1, H, D, D]."""
    random = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random)

    q, k = (normal(1, tokens, groups, WIDTH) for _ in range(2))
    g = -torch.nn.functional.softplus(normal(1, tokens, heads) - 2)
    beta = normal(1, tokens, heads).sigmoid()
    return q, k, normal(1, tokens, heads, WIDTH), g, beta, normal(1, heads, WIDTH, WIDTH)


def ours(given: Tensors, impl: str) -> Callable[[], object]:
    """A call of ours, on views of the same memory."""
    *five, state = given
    q, k, v, g, beta = (x.transpose(1, 2) for x in five)
    return lambda: gated_delta(q, k, v, g=g, beta=beta, state=state, unit=True, impl=impl)


def theirs(given: Tensors) -> Callable[[], object]:
    """A call of transformers': token by token for one token, else over chunks."""
    *five, state = given
    rule = torch_chunk_gated_delta_rule
    if five[0].shape[1] == 1:
        rule = torch_recurrent_gated_delta_rule
    return lambda: rule(
        *five, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True
    )


def matmul_gflops() -> float:
    """What PyTorch's matrix product reaches here on 2,048 x 2,048, the best of five."""
    x = torch.randn(2048, 2048)
    x @ x
    best = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        x @ x
        best = min(best, time.perf_counter() - begun)
    return 2 * 2048**3 / best / 1e9


def compare(impl: str, groups: int, heads: int, tokens: int, *, pairs: int) -> float:
    """One line of the table; its ratio is returned."""
    given = random_inputs(groups, heads, tokens)
    calls = max(1, 4096 // (tokens * 8)) if tokens < 512 else 1
    ratio = interleaved(ours(given, impl), theirs(given), pairs=pairs, calls=calls)
    row = {
        "case": "step" if tokens == 1 else "prefill", "impl": impl, "tokens": tokens,
        "key_heads": groups, "value_heads": heads, "width": WIDTH,
        "theirs_over_ours": round(ratio.median, 2), "low": round(ratio.low, 2),
        "high": round(ratio.high, 2), "ours_ms": round(ratio.plain_s * 1e3, 3),
    }  # fmt: skip
    if tokens > 1:
        # Beside large temporaries of others, theirs waits for fresh memory more than alone.
        row["theirs_alone_ms"] = best_ms(theirs(given))
        row["ours_alone_ms"] = best_ms(ours(given, impl))
        least = 6 * WIDTH * WIDTH * heads * tokens / 1e9
        row["ceiling_ms"] = round(least / matmul_gflops() * 1e3, 2)
    print(json.dumps(row), flush=True)
    return ratio.median


def best_ms(run: Callable[[], object], *, times: int = 7) -> float:
    """The fastest of some runs in a row, nothing else between them."""
    run()
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    return round(min(seconds) * 1e3, 2)


def compare_chunks(*, pairs: int) -> None:
    """Chunk sizes of the compiled form against its own."""
    *five, state = random_inputs(8, 8, 4096)
    turned = [x.transpose(1, 2) for x in five]

    def run(chunk: int) -> Callable[[], object]:
        return lambda: delta_fused(
            *turned, state=state, scale=WIDTH**-0.5, unit=True, chunk=chunk
        )  # fmt: skip

    for tiles in (1, 2, 3, 4, 6, 8):
        ratio = interleaved(run(2 * ROWS), run(tiles * ROWS), pairs=pairs)
        row = {
            "case": "chunk", "chunk": tiles * ROWS, f"over_{2 * ROWS}": round(ratio.median, 3),
            "low": round(ratio.low, 3), "high": round(ratio.high, 3),
        }  # fmt: skip
        print(json.dumps(row), flush=True)


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", action="store_true")
    parser.add_argument("--pairs", type=int, default=9)
    given = parser.parse_args()
    require("mechanisms/test_gated_delta_rule.py")
    with torch.no_grad():
        if given.chunks:
            compare_chunks(pairs=given.pairs)
            return
        short, long = (compare("fused", 8, 8, tokens, pairs=given.pairs) for tokens in (512, 4096))
        compare("chunked", 8, 8, 4096, pairs=given.pairs)
        for groups, heads in ((8, 8), (16, 48)):
            compare("fused", groups, heads, 1, pairs=given.pairs)
    if long < GOAL:
        sys.exit(
            f"expected {GOAL:g} times transformers' speed, got {long:.2f} ({short:.2f} at 512)"
        )


if __name__ == "__main__":
    main()
