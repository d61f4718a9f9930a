"""The fused path against PyTorch's scaled_dot_product_attention, on captured and on random Q, K, V.

Ours gives the output and *all* row and column statistics; PyTorch's gives the output alone. Both
run in turns; printed is the median of the pairs' ratios, with the smallest and the largest.

    python benchmarks/attention.py                  the shapes and lengths of the issue
    python benchmarks/attention.py --loaded         while another process holds one core
    python benchmarks/attention.py --quick          short lengths only
    python benchmarks/attention.py --dtype bfloat16
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parent))

from gate import require

from attnscope.capture.timing import interleaved, sample_ids
from attnscope.core import attend

SHAPES = {"smollm2": (9, 3, 64), "qwen3-0.6b": (16, 8, 128), "gemma3": (4, 1, 256)}
LENGTHS = (512, 2048, 8192)
QKV = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def random_qkv(shape: tuple[int, int, int], queries: int, keys: int, dtype: torch.dtype) -> QKV:
    """As a model lays them out: [B, T, H, D] in memory, viewed as [B, H, T, D].

    In decode keys and values come from a cache, which is [B, G, S, D] in memory.
    """
    heads, groups, width = shape
    generator = torch.Generator().manual_seed(0)
    sizes = ((queries, heads), (keys, groups), (keys, groups))
    q, k, v = (
        torch.randn(1, n, h, width, generator=generator).to(dtype).transpose(1, 2) for n, h in sizes
    )
    return (q, k.contiguous(), v.contiguous()) if queries == 1 else (q, k, v)


def captured_qkv(name: str, tokens: int, layer: int) -> tuple[QKV, float]:
    """Q, K, V (after norms and positions) and the scale of one full layer of a real model."""
    from attnscope.capture.models import load

    loaded = load(name)
    kept: list[tuple[QKV, float]] = []
    plain = functional.scaled_dot_product_attention

    def spy(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: object, **kw: object
    ) -> object:
        scale = kw.get("scale") or q.shape[-1] ** -0.5
        kept.append(((q, k, v), float(scale)))  # type: ignore[arg-type]
        return plain(q, k, v, *rest, **kw)  # type: ignore[arg-type]

    functional.scaled_dot_product_attention = spy  # type: ignore[assignment]
    try:
        with torch.no_grad():
            ids = sample_ids(loaded.tokenizer, tokens)
            loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
    finally:
        functional.scaled_dot_product_attention = plain
    (q, k, v), scale = kept[layer]
    groups = loaded.model.config.get_text_config().num_key_value_heads
    if k.shape[1] != groups:  # repeated for PyTorch's sake; the model holds them once
        k, v = (x[:, :: x.shape[1] // groups].contiguous() for x in (k, v))
    return (q, k, v), scale


def compare(name: str, qkv: QKV, scale: float | None, *, pairs: int) -> dict[str, object]:
    """One row of the table."""
    q, k, v = qkv
    queries, keys = q.shape[2], k.shape[2]
    tokens = torch.arange(keys) % 997
    from attnscope.core import Request

    wanted = Request.of("all", tokens=tokens)

    def ours() -> None:
        attend(q, k, v, scale=scale, statistics=wanted, impl="fused")

    def theirs() -> None:
        functional.scaled_dot_product_attention(
            q, k, v, scale=scale, is_causal=queries > 1, enable_gqa=True
        )

    work = 4 * q.shape[1] * queries * keys * q.shape[3]
    calls = max(1, int(2e10 // work)) if work < 1e10 else 1
    ratio = interleaved(theirs, ours, pairs=pairs, calls=min(calls, 200))
    row = {
        "case": name, "queries": queries, "keys": keys,
        "dtype": str(q.dtype).removeprefix("torch."),
        "ours_over_sdpa": round(ratio.median, 3), "low": round(ratio.low, 3),
        "high": round(ratio.high, 3), "sdpa_ms": round(ratio.plain_s * 1e3, 2),
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


@contextlib.contextmanager
def one_core_busy(wanted: bool) -> Iterator[None]:
    """Another process that computes without pause, as on a machine that is shared."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if wanted else None
    try:
        yield
    finally:
        if other is not None:
            other.kill()
            other.wait()


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loaded", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--random-only", action="store_true")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--pairs", type=int, default=7)
    given = parser.parse_args()
    require("core/test_core_sdpa.py")
    dtype = getattr(torch, given.dtype)
    lengths = LENGTHS[:2] if given.quick else LENGTHS
    with one_core_busy(given.loaded):
        for name, shape in SHAPES.items():
            for length in lengths:
                qkv = random_qkv(shape, length, length, dtype)
                compare(f"{name} random", qkv, None, pairs=given.pairs)
            compare(f"{name} decode", random_qkv(shape, 1, 8192, dtype), None, pairs=given.pairs)
        if given.random_only:
            return
        for name, layer in (("smollm2", 10), ("gemma3", 5)):
            for length in lengths:
                qkv, scale = captured_qkv(name, length, layer)
                q, k, v = (x.to(dtype) for x in qkv)
                compare(f"{name} layer {layer}", (q, k, v), scale, pairs=given.pairs)


if __name__ == "__main__":
    main()
