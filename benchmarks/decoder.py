"""The decoder against transformers' own `generate` with SDPA, on real models.

Whole calls of both, in turns: the prompt read for one token (prefill), and many tokens after a
short prompt (decode) or a long one. Printed is the median of the pairs' ratios, with the smallest
and the largest; below 1 the decoder is faster, above it the exit status is 1. Both run in float32
with the same threads, greedily, and do not stop at an end.

    python benchmarks/decoder.py                    both models
    python benchmarks/decoder.py --model smollm2 --quick
    python benchmarks/decoder.py --model smollm2 --prompts 128,2048

The texts agree, or part at a tie of the logits: the tests that run first say so for 200 tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from gate import require

from attnscope.capture.timing import interleaved, sample_ids
from attnscope.decoder import Decoder, load

CASES = (("prefill", 128, 1), ("prefill", 512, 1), ("prefill", 2048, 1), ("decode", 16, 64),
         ("decode", 1024, 64))  # fmt: skip
"""What is measured, tokens of the prompt, tokens that follow."""
GOAL = 1.0
QUICK = (("prefill", 512, 1), ("decode", 16, 32))


def opened(name: str) -> tuple[Decoder, Any, Any, dict[str, float]]:
    """The decoder, transformers' model and tokenizer, and how long each took to load."""
    from attnscope.capture.models import load as load_theirs
    from attnscope.capture.models import path

    folder = path(name)
    seconds = {}
    load(folder)  # both are timed a second time, when everything is imported
    begun = time.perf_counter()
    decoder = load(folder)
    seconds["ours_load_s"] = round(time.perf_counter() - begun, 2)
    theirs = load_theirs(name, attn_implementation="sdpa")
    begun = time.perf_counter()
    type(theirs.model).from_pretrained(folder)
    seconds["transformers_load_s"] = round(time.perf_counter() - begun, 2)
    return decoder, theirs.model, theirs.tokenizer, seconds


def runs(
    decoder: Decoder, model: Any, ids: torch.Tensor, tokens: int
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Both ways to the same text: transformers', ours."""

    def theirs() -> None:
        model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
            min_new_tokens=tokens,
        )  # fmt: skip

    def ours() -> None:
        for _ in decoder.generate(ids, tokens=tokens, ends=()):
            pass

    return theirs, ours


def measure(name: str, cases: tuple[tuple[str, int, int], ...], *, pairs: int) -> list[float]:
    """The rows of one model; their ratios are returned."""
    ratios = []
    decoder, model, tokenizer, seconds = opened(name)
    print(json.dumps({"model": name, **seconds}), flush=True)
    for kind, prompt, tokens in cases:
        theirs, ours = runs(decoder, model, sample_ids(tokenizer, prompt), tokens)
        ratio = interleaved(theirs, ours, pairs=pairs)
        work = prompt if kind == "prefill" else tokens
        row = {
            "model": name, "case": kind, "prompt": prompt, "tokens": tokens,
            "ours_over_transformers": round(ratio.median, 3), "low": round(ratio.low, 3),
            "high": round(ratio.high, 3),
            "transformers_tokens_per_s": round(work / ratio.plain_s, 1),
            "ours_tokens_per_s": round(work / (ratio.plain_s * ratio.median), 1),
        }  # fmt: skip
        print(json.dumps(row), flush=True)
        ratios.append(ratio.median)
    return ratios


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["smollm2", "gemma3"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--prompts", help="prefill of these lengths alone")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    names = [given.model] if given.model else ["smollm2", "gemma3"]
    tests = ["decoder/test_decoder_logits.py", "decoder/test_decoder_generate.py"]
    if not (given.quick or given.prompts):
        tests.append("decoder/test_decoder_real.py")
    require(*tests)
    cases = QUICK if given.quick else CASES
    if given.prompts:
        cases = tuple(("prefill", int(length), 1) for length in given.prompts.split(","))
    ratios = [ratio for name in names for ratio in measure(name, cases, pairs=given.pairs)]
    if max(ratios) > GOAL:
        sys.exit(f"expected at most {GOAL:g} times transformers' time, got {max(ratios):.3f}")


if __name__ == "__main__":
    main()
