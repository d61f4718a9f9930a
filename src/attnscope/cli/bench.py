"""`attnscope bench`: what watching a model costs, as ratios to its plain forward."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Annotated, Any

import typer


def bench(
    model: Annotated[str, typer.Option(help="A name, folder, .gguf file or hub id.")] = "smollm2",
    tokens: Annotated[str, typer.Option(help="Lengths, with commas.")] = "512,2048",
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of runs per ratio.")] = 5,
    memory: Annotated[bool, typer.Option(help="Measure peak memory too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time whole forwards, watched and plain, in turns on this machine."""
    rows = measure(model, lengths(tokens), pairs=pairs, memory=memory)
    if as_json:
        print(json.dumps({"schema": "attnscope.bench/1", "rows": rows}, indent=2))
        return
    show(rows)


def lengths(text: str) -> list[int]:
    """Read "512,2048".

    >>> lengths("512, 2048")
    [512, 2048]
    """
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"expected lengths like 512,2048, got {text!r}", param_hint="--tokens"
        )
    return [int(part) for part in parts]


def measure(model: str, tokens: list[int], *, pairs: int, memory: bool) -> list[dict[str, Any]]:
    """A row per length, as the JSON contract says."""
    from attnscope.capture.models import load
    from attnscope.capture.prompt import check_length, context_of
    from attnscope.capture.timing import (
        EAGER_MOST,
        forward,
        interleaved,
        peak_bytes,
        sample_ids,
    )

    loaded = load(model)
    rows = []
    for count in tokens:
        check_length(context_of(loaded.model.config.get_text_config()), count)
        ids = sample_ids(loaded.tokenizer, count)
        row: dict[str, Any] = {"model": model, "tokens": count}
        calls = max(1, 512 // count)
        for name, mode in (
            ("observed_over_plain", "replace"),
            ("beside_over_plain", "beside"),
            ("eager_over_plain", "eager"),
        ):
            if mode == "eager" and count > EAGER_MOST:
                row[name] = None
                continue
            print(f"{model}, {count} tokens: {mode} against plain", file=sys.stderr, flush=True)
            ratio = interleaved(
                partial(forward, loaded.model, ids, "plain"),
                partial(forward, loaded.model, ids, mode),
                pairs=pairs,
                calls=calls,
            )
            row.setdefault("plain_s", round(ratio.plain_s, 4))
            row[name] = round(ratio.median, 4)
            row[name.replace("_over_plain", "_range")] = [round(ratio.low, 4), round(ratio.high, 4)]
        if memory:
            print(f"{model}, {count} tokens: peak memory", file=sys.stderr, flush=True)
            plain, observed = (peak_bytes(model, count, mode) for mode in ("plain", "replace"))
            row["peak_plain_bytes"], row["peak_observed_bytes"] = plain, observed
            row["peak_observed_over_plain"] = round(observed / plain, 4)
        rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """The rows as a table for people."""
    from rich.table import Table

    from attnscope.cli.console import Trimmed, stdout

    table = Table(title="Time and memory of a forward, relative to the model's own", box=None)
    columns = ("model", "tokens", "plain", "watched", "beside", "eager", "memory")
    for name in columns:
        table.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        ratios = [
            row.get(name)
            for name in (
                "observed_over_plain",
                "beside_over_plain",
                "eager_over_plain",
                "peak_observed_over_plain",
            )
        ]
        table.add_row(
            row["model"], f"{row['tokens']:,}", f"{row['plain_s']:.2f} s",
            *("-" if ratio is None else f"{ratio:.2f}x" for ratio in ratios),
        )  # fmt: skip
    said = (
        "watched: all statistics of every head, output computed here; beside: the model's own "
        "kernel runs untouched; eager: all weights built and kept (up to 2,048 tokens)."
    )
    stdout().print(Trimmed(table, said))
