"""How much watching costs: whole forwards of a real model, watched and not, side by side.

The idea: two runs a minute apart on a busy machine cannot be compared, two neighbours can. So every
mode is timed in pairs with the plain forward, in turns, and the median of the pairs' ratios counts.
Peak memory is that of a process of its own, which loads the model and runs one forward.

Modes
    plain    the model's own forward with PyTorch's fused attention (sdpa)
    replace  attnscope computes output and all row and key statistics of every layer and head
    beside   the model's kernel runs untouched, the statistics are computed beside it
    eager    transformers' own way to weights: every layer's T x S matrix is built and returned

Units: seconds, bytes.

Not here: the command (cli/bench.py) and the kernels alone (benchmarks/attention.py).
"""

from __future__ import annotations

import gc
import inspect
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

MODES: Final = ("plain", "replace", "beside", "eager")

EAGER_MOST: Final = 2048
"""Beyond so many tokens eager attention with all weights no longer fits an ordinary laptop."""

_BOOKS: Final = ("argparse", "typing", "inspect", "decimal", "tarfile", "datetime", "difflib")


def sample_text() -> str:
    """A long text that is on every machine: the source of some modules of the standard library."""
    parts = []
    for name in _BOOKS:
        module = __import__(name)
        parts.append(inspect.getsource(module))
    return "\n".join(parts)


def sample_ids(tokenizer: Any, tokens: int) -> torch.Tensor:
    """Ids [1, tokens] of a text that is on every machine.

    Raises:
        ValueError: the text is shorter than that.
    """
    ids = tokenizer(sample_text()[: tokens * 8], verbose=False)["input_ids"]
    if len(ids) < tokens:
        raise ValueError(f"tokens: expected at most {len(ids)} with this tokenizer, got {tokens}")
    return torch.tensor([ids[:tokens]])


def forward(model: Any, ids: torch.Tensor, mode: str) -> None:
    """One forward over ids [1, T] in one of MODES; results are dropped."""
    from attnscope.capture.interface import watching
    from attnscope.capture.watch import Wanted, Watch
    from attnscope.core import STATISTICS

    with torch.no_grad():
        if mode == "plain":
            model(input_ids=ids, use_cache=False, logits_to_keep=1)
        elif mode == "eager":
            before = model.config._attn_implementation  # no SDPA in Gemma 2 and gpt-oss
            model.set_attn_implementation("eager")
            try:
                model(input_ids=ids, use_cache=False, logits_to_keep=1, output_attentions=True)
            finally:
                model.set_attn_implementation(before)
        else:
            wanted = Wanted(STATISTICS, pool=False, keep=False, norms=False)
            watch = Watch(model, wanted, mode=mode, on_layer=_drop)
            with watching(watch):
                model(input_ids=ids, use_cache=False, logits_to_keep=1)


def _drop(_index: int, _records: list[Any]) -> None:
    """Forget a layer: here only the time it took counts."""


@dataclass(frozen=True)
class Ratio:
    """Pairs of neighbouring runs.

    Attributes:
        median: of the ratios, other over plain.
        low, high: the smallest and the largest of them.
        plain_s: the median time of the plain runs.
    """

    median: float
    low: float
    high: float
    plain_s: float


def interleaved(
    plain: Callable[[], None], other: Callable[[], None], *, pairs: int, calls: int = 1
) -> Ratio:
    """Time two things in turns, after one run of each that does not count.

    Args:
        calls: how often each is called within one timing.
    """
    plain()
    other()
    ratios, base = [], []
    for number in range(pairs):
        # Which goes first alternates, so that a drift of the machine favours neither.
        order = (plain, other) if number % 2 == 0 else (other, plain)
        seconds = {}
        for run in order:
            gc.collect()
            begun = time.perf_counter()
            for _ in range(calls):
                run()
            seconds[run] = (time.perf_counter() - begun) / calls
        ratios.append(seconds[other] / seconds[plain])
        base.append(seconds[plain])
    median = statistics.median
    return Ratio(median(ratios), min(ratios), max(ratios), median(base))


def peak_bytes(model: str, tokens: int, mode: str) -> int:
    """The largest resident memory of a process that loads a model and runs one forward.

    Raises:
        RuntimeError: the process failed; the message holds its last line.
    """
    command = [sys.executable, "-m", "attnscope.capture.timing", model, str(tokens), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it was killed"]
        raise RuntimeError(f"peak of {mode} at {tokens} tokens: {last[0]}")
    return int(json.loads(done.stdout)["peak_bytes"])


def _child(arguments: list[str]) -> None:
    from attnscope.capture.models import load
    from attnscope.core.memory import resident_peak

    name, tokens, mode = arguments
    loaded = load(name)
    ids = sample_ids(loaded.tokenizer, int(tokens))
    forward(loaded.model, ids[:, :16], "plain")
    before = resident_peak()
    forward(loaded.model, ids, mode)
    peak = resident_peak()
    print(json.dumps({"peak_bytes": peak, "before_bytes": before}))


if __name__ == "__main__":
    _child(sys.argv[1:])
