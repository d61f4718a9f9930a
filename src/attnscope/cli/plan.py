"""`attnscope plan`: bytes and FLOPs of a model's attention, from its config alone.

The idea: parse, ask attnscope.plan for the report, print it as tables or as JSON. Neither torch nor
numpy is imported; a hub id whose config is not here is fetched (the config, nothing else).

Not here: every number (attnscope.plan), what an option may be (plan_asked.py), fetching
(plan_fetch.py), the tables (plan_text.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnscope.cli.plan_asked import asked, check_change, check_count
from attnscope.cli.quick import QuickCommand

if TYPE_CHECKING:
    from attnscope.plan.model import Model

app = typer.Typer(add_completion=False, rich_markup_mode=None)


ConfigName = Annotated[
    str,
    typer.Argument(
        help="A config.json, a folder, a GGUF file, a hub id, or a built-in name (`list`)."
    ),
]
Context = Annotated[
    int | None, typer.Option(help="Tokens of each sequence [32768, or the model's limit].")
]
Batch = Annotated[int, typer.Option(help="Sequences.")]
Dtype = Annotated[
    str | None,
    typer.Option(help="Of activations and weights: bf16, fp16, fp32 [the config's]."),
]
KvDtype = Annotated[
    str | None, typer.Option(help="Of the cache: bf16, fp16, fp8, int8, int4, fp32 [--dtype].")
]
FitIn = Annotated[
    str | None, typer.Option(help="Largest context in so many bytes (141GB, 80GiB, h200).")
]
Weights = Annotated[str, typer.Option(help="Bytes of the weights, or auto: by files, or counted.")]
Device = Annotated[
    str | None, typer.Option(help="A device for its ridge point: a100, h100, h200, b200, ...")
]
Heads = Annotated[str, typer.Option(help="Numbers of KV heads to try, as 8 or 4,8.")]
Window = Annotated[int | None, typer.Option(help="What if the sliding layers had this window.")]
Share = Annotated[str | None, typer.Option(help="What if so many layers were full, as 1/4.")]
Versus = Annotated[str | None, typer.Option(help="Another model, side by side.")]
Explain = Annotated[bool, typer.Option("--explain", help="Each number's config field and formula.")]
PlotFile = Annotated[
    Path | None, typer.Option(help="Draw bytes against context into this SVG file.")
]
AssumeFull = Annotated[
    bool,
    typer.Option("--assume-full", help="Take an unknown architecture for full attention."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("plan", cls=QuickCommand, context_settings={"help_option_names": ["-h", "--help"]})
def plan(
    config: ConfigName,
    context: Context = None,
    batch: Batch = 1,
    dtype: Dtype = None,
    kv_dtype: KvDtype = None,
    fit: FitIn = None,
    weights: Weights = "auto",
    device: Device = None,
    heads: Heads = "8",
    window: Window = None,
    share: Share = None,
    versus: Versus = None,
    explain: Explain = False,
    plot: PlotFile = None,
    assume_full: AssumeFull = False,
    as_json: AsJson = False,
) -> None:
    """Bytes and FLOPs of a model's attention, layer by layer, from its config alone."""
    from attnscope.plan.report import default_context, report

    if config == "list":
        _list(as_json)
        return
    for option, value in (("--context", context), ("--batch", batch), ("--window", window)):
        check_count(option, value)
    model, path = _model(config, assume_full)
    questions = asked(
        context=context or default_context(model), batch=batch, dtype=dtype, kv_dtype=kv_dtype,
        fit=fit, weights=weights, device=device, heads=heads, window=window, share=share,
        explain=explain,
    )  # fmt: skip
    check_change(questions, model)
    said = report(model, questions, path=path)
    other = None
    if versus is not None:
        other, beside = _model(versus, assume_full)
        said["versus"] = report(other, _asked_of_other(questions, other, beside), path=beside)
        said["what_if"].append({**said["versus"]["what_if"][0], "scheme": other.name})
    if plot is not None:
        _plot(plot, model, asked=questions, said=said, other=other, room=fit or device or "device")
    if as_json:
        typer.echo(json.dumps(said))
        return
    from attnscope.cli.plan_text import lines

    typer.echo("\n".join(lines(said, model)))


def _list(as_json: bool) -> None:
    """The built-in models."""
    from attnscope.plan.find import built_in_names

    names = built_in_names()
    if as_json:
        typer.echo(json.dumps({"schema": "attnscope.plan/1", "built_in": names}))
    else:
        typer.echo("\n".join(names))


def _model(config: str, assume_full: bool) -> tuple[Model, Path | None]:
    """Read a model, fetching a hub id's config where it is not here; and where its files lie."""
    from attnscope.plan.find import built_in_names, cached_config, is_hub_id
    from attnscope.plan.read import read

    path = Path(config)
    here = _exists(path)
    if here or config.lower() in built_in_names() or not is_hub_id(config):
        return read(config, assume_full=assume_full), path if here else None
    found = cached_config(config)
    if found is None:
        from attnscope.cli.plan_fetch import fetch

        typer.echo(f"Fetching the config of {config} ...", err=True)
        found = fetch(config)
    return read(found, assume_full=assume_full, name=config), None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _asked_of_other(asked: Any, other: Model, path: Path | None) -> Any:
    """What is asked of the second model: the weights given are the first one's, unless 0."""
    from dataclasses import replace

    from attnscope.plan.weights import weights_of

    asked = replace(asked, explain=False, weights=0 if asked.weights == 0 else None,
                    window=None, share=None)  # fmt: skip
    unknown = asked.weights is None and weights_of(other, path=path, dtype=asked.dtype) is None
    return replace(asked, budget=None) if unknown else asked


def _plot(
    path: Path,
    model: Model,
    *,
    asked: Any,
    said: dict[str, Any],
    other: Model | None,
    room: str,
) -> None:
    """Write the picture."""
    from attnscope.plan.fit import size_text
    from attnscope.plan.plot import Curve, draw
    from attnscope.plan.what_if import schemes

    budget = asked.budget
    if budget is None and asked.device is not None:
        budget = asked.device.memory

    def beside(of: dict[str, Any]) -> int | None:
        """What the weights leave of the device."""
        weights = of["weights"]
        return budget and max(budget - (weights["size"] if weights else 0), 1)

    curves = []
    for row in schemes(model, **asked.schemes):
        label = row.scheme.removeprefix(f"{model.name}, ").removeprefix(f"{model.name} as ")
        curves.append(Curve(label, row.model))
    if other is not None:
        curves.append(Curve(other.name, other, beside(said["versus"])))
    left = beside(said)
    label = ""
    if left is not None:
        label = f"{room}: {size_text(left)}" + (" beside the weights" if said["weights"] else "")
    text = draw(
        curves,
        most_tokens=max(asked.context, model.context_limit or 0, 1024),
        batch=asked.batch,
        budget=left,
        budget_label=label,
        dtype=asked.dtype,
        kv_dtype=asked.kv_dtype,
        title=f"{model.name}: bytes of the cache against context"
        + (f", {asked.batch} sequences" if asked.batch > 1 else ""),
    )
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}.", file=sys.stderr)
