"""`attnscope plan`: bytes and FLOPs of a model's attention, from its config alone.

The idea: parse, ask attnscope.plan for the report, print it as tables or as JSON. Neither torch nor
numpy is imported; a hub id whose config is not here is fetched (the config, nothing else).

Not here: every number (attnscope.plan).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnscope.cli.quick import QuickCommand

if TYPE_CHECKING:
    from attnscope.plan.model import Model

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("plan", cls=QuickCommand, context_settings={"help_option_names": ["-h", "--help"]})
def plan(
    config: Annotated[
        str,
        typer.Argument(
            help="A config.json, a folder, a GGUF file, a hub id, or a built-in name (`list`)."
        ),
    ],
    context: Annotated[
        int | None, typer.Option(help="Tokens of each sequence [32768, or the model's limit].")
    ] = None,
    batch: Annotated[int, typer.Option(help="Sequences.")] = 1,
    dtype: Annotated[
        str | None,
        typer.Option(help="Of activations and weights: bf16, fp16, fp32 [the config's]."),
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option(help="Of the cache: bf16, fp16, fp8, int8, int4, fp32 [--dtype].")
    ] = None,
    fit: Annotated[
        str | None, typer.Option(help="Largest context in so many bytes (141GB, 80GiB, h200).")
    ] = None,
    weights: Annotated[
        str, typer.Option(help="Bytes of the weights, or auto: by files, or counted.")
    ] = "auto",
    device: Annotated[
        str | None, typer.Option(help="A device for its ridge point: a100, h100, h200, b200, ...")
    ] = None,
    heads: Annotated[str, typer.Option(help="Numbers of KV heads to try, as 8 or 4,8.")] = "8",
    window: Annotated[
        int | None, typer.Option(help="What if the sliding layers had this window.")
    ] = None,
    share: Annotated[
        str | None, typer.Option(help="What if so many layers were full, as 1/4.")
    ] = None,
    versus: Annotated[str | None, typer.Option(help="Another model, side by side.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Each number's config field and formula.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw bytes against context into this SVG file.")
    ] = None,
    assume_full: Annotated[
        bool,
        typer.Option("--assume-full", help="Take an unknown architecture for full attention."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Bytes and FLOPs of a model's attention, layer by layer, from its config alone."""
    from attnscope.plan.report import default_context, report

    if config == "list":
        _list(as_json)
        return
    model, path = _model(config, assume_full)
    asked = _asked(
        context=context or default_context(model), batch=batch, dtype=dtype, kv_dtype=kv_dtype,
        fit=fit, weights=weights, device=device, heads=heads, explain=explain,
    )  # fmt: skip
    if context is not None and context < 1:
        raise typer.BadParameter(f"--context must be at least 1, got {context}.")
    said = report(model, asked, path=path)
    others = _others(model, asked, window=window, share=share, versus=versus, full=assume_full)
    said["what_if"] += [row for _, row in others]
    if plot is not None:
        _plot(plot, model, asked, said, [one for one, _ in others])
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
    from attnscope.plan.find import HUB_ID, built_in_names, cached_config
    from attnscope.plan.read import read

    path = Path(config)
    here = _exists(path)
    if here or config.lower() in built_in_names() or not HUB_ID.fullmatch(config):
        return read(config, assume_full=assume_full), path if here else None
    found = cached_config(config) or _fetch(config)
    return read(found, assume_full=assume_full, name=config), None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _fetch(hub_id: str) -> Path:
    """Fetch the config of a hub id, and nothing else of it."""
    from attnscope.capture.hub import fetch_config
    from attnscope.errors import AttnscopeError, ConfigError

    typer.echo(f"Fetching the config of {hub_id} ...", err=True)
    try:
        return fetch_config(hub_id)
    except ModuleNotFoundError:
        raise ConfigError(
            f"There is no file {hub_id!r}, and fetching a config from the hub needs the package "
            "huggingface_hub: pip install 'attnscope[look]'."
        ) from None
    except AttnscopeError as error:
        raise ConfigError(
            f"There is no file {hub_id!r}, and its config is not to be had from the hub: {error}"
        ) from None


def _asked(
    *, context: int, batch: int, dtype: str | None, kv_dtype: str | None, fit: str | None,
    weights: str, device: str | None, heads: str, explain: bool,
) -> Any:  # fmt: skip
    from attnscope.plan.devices import DEVICES, find_device
    from attnscope.plan.fit import parse_bytes
    from attnscope.plan.report import Asked

    budget = None
    if fit is not None:
        known = DEVICES.get(fit.lower())
        budget = known.memory if known is not None else parse_bytes(fit)
    groups = []
    for one in heads.split(","):
        if not one.strip().isdigit() or int(one) < 1:
            raise typer.BadParameter(f"--heads must be numbers such as 4,8, got {heads!r}.")
        groups.append(int(one))
    return Asked(
        context=context,
        batch=batch,
        dtype=dtype,
        kv_dtype=kv_dtype,
        budget=budget,
        weights=None if weights == "auto" else parse_bytes(weights),
        device=None if device is None else find_device(device),
        groups=tuple(groups),
        explain=explain,
    )


def _others(
    model: Model, asked: Any, *, window: int | None, share: str | None, versus: str | None,
    full: bool,
) -> list[tuple[Model, dict[str, Any]]]:  # fmt: skip
    """The models that were asked for beside this one, each with its row."""
    from attnscope.plan.bytes import answer
    from attnscope.plan.report import number
    from attnscope.plan.what_if import with_share, with_window

    found = []
    if share is not None:
        first, _, of = share.partition("/")
        if not first.isdigit() or not of.isdigit() or int(of) < 1:
            raise typer.BadParameter(f"--share must look like 1/4, got {share!r}.")
        found.append(with_share(model, int(first), int(of), window=window))
    elif window is not None:
        found.append(with_window(model, window))
    if versus is not None:
        found.append(_model(versus, full)[0])
    rows = []
    for one in found:
        kv = answer(one, context=asked.context, batch=asked.batch, dtype=asked.dtype,
                    kv_dtype=asked.kv_dtype)  # fmt: skip
        rows.append(
            (
                one,
                {
                    "scheme": one.name,
                    "per_token_bytes": number(kv.per_token_bytes),
                    "total_bytes": kv.total_bytes,
                },
            )
        )
    return rows


def _plot(path: Path, model: Model, asked: Any, said: dict[str, Any], others: list[Model]) -> None:
    """Write the picture."""
    from attnscope.plan.plot import Curve, draw, size_text
    from attnscope.plan.what_if import schemes

    rows = schemes(model, context=asked.context, groups=asked.groups)
    curves = [Curve(row.scheme, row.model) for row in rows]
    curves += [Curve(one.name, one) for one in others]
    budget, label = None, ""
    if asked.budget is not None:
        budget = max(asked.budget - said["fit"]["weights"], 1)
        label = f"{size_text(budget)} beside the weights"
    text = draw(
        curves,
        most_tokens=max(asked.context, model.context_limit or 0, 1024),
        batch=asked.batch,
        budget=budget,
        budget_label=label,
        dtype=asked.dtype,
        kv_dtype=asked.kv_dtype,
        title=f"{model.name}: bytes of the cache against context"
        + (f", {asked.batch} sequences" if asked.batch > 1 else ""),
    )
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}.", file=sys.stderr)
