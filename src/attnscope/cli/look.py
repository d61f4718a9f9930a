"""`attnscope look`: run a real model on a text, and see what each token takes from which others.

Not here: models and capture (attnscope.capture), the numbers (gather.py), the picture (picture.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from attnscope.cli.console import stdout, step, write_json
from attnscope.errors import TraceError

if TYPE_CHECKING:
    import torch

    from attnscope.cli.report import NextToken, Report

NEXT: Final = 3
"""How many of the likeliest next tokens are shown."""


class Places(NamedTuple):
    """Where the trace and a handout of it are kept; None for nowhere."""

    trace: Path | None = None
    handout: Path | None = None


def look(
    text: Annotated[
        str | None, typer.Argument(help="The text itself.", metavar="TEXT", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Read the text from a file; - is the standard input."),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="A name of `attnscope models list`, a folder, a GGUF or a hub id."
        ),
    ] = "smollm2",
    layer: Annotated[
        int | None,
        typer.Option(
            help="Show a head of this layer; negative numbers count from the end.",
            show_default=False,
        ),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            help="Show the head of this number; negative numbers count from the end.",
            show_default=False,
        ),
    ] = None,
    query: Annotated[
        int | None,
        typer.Option(
            help="Show what this token takes; negative numbers count from the end, the default is "
            "the last token.",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Keep the trace in this new folder, to be opened later."),
    ] = None,
    handout: Annotated[
        Path | None,
        typer.Option(
            help="Write this head and the clearest of each kind, on up to 64 tokens, into this new "
            "JSON file: a page of the course opens it.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every number as JSON.")] = False,
    open_app: Annotated[
        bool, typer.Option("--open", help="Then open the app on it, in the browser.")
    ] = False,
) -> None:
    """See from which tokens each token takes information, and how much.

    Runs the model once on the text, with the exact attention of every layer and head. Prints the
    next token, the heads and their kinds, and where one token takes its information from.
    """
    if (text is None) == (file is None):
        raise typer.BadParameter("give a text or --file, one of the two")
    if open_app and as_json:
        raise typer.BadParameter("--open does not end, so nobody could read its --json: give one")
    if save is not None and save.exists():
        raise TraceError(f"{save}: stands there already. Name a new folder for --save.")
    if handout is not None:
        from attnscope.cli.handout import refuse

        refuse(handout)
    given = text if text is not None else read(file or Path("-"))
    from attnscope.capture.text import check_text

    check_text(given)  # before the seconds that a model takes to load
    save = a_place(model) if open_app and save is None else save
    report = run(
        given, model=model, layer=layer, head=head, query=query, places=Places(save, handout)
    )
    if handout is not None:
        typer.echo(f"{handout}: written; a page of the course opens it.", err=True)
    if as_json:
        from attnscope.cli.report import to_json

        write_json(to_json(report))
        return
    from attnscope.cli.picture import draw

    draw(report, stdout())
    if open_app and save is not None:
        serve_saved(save)


def a_place(model: str) -> Path:
    """A new folder beside those that were captured in the app, which can be opened again later."""
    from attnscope.serve.captures import free_path
    from attnscope.serve.run import traces_folder

    folder = traces_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return free_path(folder, model)


def serve_saved(save: Path) -> None:
    """The app on a trace that was just saved, until it is interrupted.

    `attnscope serve` takes this process's place: what the model took of memory is free again, and
    tiles are made with the threads that serving wants, which are set before numpy is imported.
    """
    command = [
        sys.executable, "-m", "attnscope", "serve", str(save.absolute()),
        "--traces", str(save.absolute().parent),
    ]  # fmt: skip
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform == "win32":  # there the shell would not wait for the one that takes the place
        raise SystemExit(subprocess.call(command))
    os.execv(sys.executable, command)


def read(file: Path) -> str:
    """The text of a file, or of the standard input where the file is `-`.

    Raises:
        ModelError: it cannot be read, or is not UTF-8; the message says where.
    """
    from attnscope.capture.text import read_text

    return read_text(sys.stdin.buffer if str(file) == "-" else file)


def run(
    text: str,
    *,
    model: str,
    layer: int | None,
    head: int | None,
    query: int | None,
    places: Places,
) -> Report:
    """Load, capture and gather.

    Raises:
        AttnscopeError: the model or the text cannot be looked at; the message says why.
        BadParameter: a layer, head or query that is not there; said before the model runs.
        ValueError: a layer without a map.
    """
    from attnscope.cli import gather
    from attnscope.cli.report import Report
    from attnscope.core.memory import resident_peak

    started = time.perf_counter()
    with step(f"Loading {model}"):
        from attnscope.capture.models import load
        from attnscope.capture.session import capture

        loaded = load(model)
    chosen_row = named(loaded, text, layer=layer, head=head, query=query)
    between = time.perf_counter()
    with step("Watching the model read"), last_logits(loaded.model) as logits:
        trace = capture(
            loaded.model, text, tokenizer=loaded.tokenizer, name=model, save=places.trace
        )
    assert not isinstance(trace, list)  # one text, one trace
    finished = time.perf_counter()
    with step("Gathering the statistics"):
        chosen, attended = gather.choose(trace, **chosen_row)
        if places.handout is not None:
            from attnscope.cli.handout import write

            write(places.handout, trace, (chosen.layer, chosen.head), chosen.query)
        return Report(
            model=gather.model_line(trace),
            tokens=gather.token_lines(trace),
            layers=gather.layer_lines(trace),
            heads=gather.head_lines(trace),
            next=likeliest(logits[-1], loaded.tokenizer, [token.id for token in trace.tokens]),
            chosen=chosen,
            attended=attended,
            labels=gather.labels(trace),
            timing={"load_s": between - started, "forward_s": finished - between},
            peak_bytes=resident_peak(),
            saved=None if places.trace is None else str(places.trace),
            notes=gather.notes(trace),
        )


def named(
    loaded: Any, text: str, *, layer: int | None, head: int | None, query: int | None
) -> dict[str, int | None]:
    """The layer, head and query that the user named, counted from the front.

    Everything is known from the config and the tokenizer, so a wrong number costs no forward.
    What a config does not say, as how many heads one layer of several kinds has, the trace will
    (gather.choose).

    Args:
        loaded: a model and its tokenizer, as capture.models.load gives them.
        text: what it will read; its tokens are counted where a query is named.

    Raises:
        BadParameter: one that is not there; the message has the range.
        ModelError: the text is longer than the model reads.
    """
    from attnscope.capture.prompt import context_of
    from attnscope.capture.session import layer_count
    from attnscope.capture.text import token_ids

    config = loaded.model.config.get_text_config()
    found = {"layer": within("--layer", layer, layer_count(config)), "head": head, "query": query}
    heads = _most_heads(config)
    if heads is not None:
        found["head"] = within("--head", head, heads)
    if query is not None:
        tokens = len(token_ids(loaded.tokenizer, text, context=context_of(config)))
        found["query"] = within("--query", query, tokens)
    return found


def _most_heads(config: Any) -> int | None:
    """The most query heads that a layer of this model has; None where the config does not say.

    A config may have one number for all layers, a list of them, or one for each kind of layer.
    """
    said = [value for name, value in config.to_dict().items() if "attention_heads" in name]
    layers = config.per_layer_config if getattr(config, "is_heterogeneous", False) else [config]
    # wherever its own name is other
    said += [getattr(layer, "num_attention_heads", None) for layer in layers]
    found: list[int] = []
    for value in said:
        found += [one for one in (value if isinstance(value, list | tuple) else [value]) if one]
    return max(found, default=None)


def within(option: str, value: int | None, count: int) -> int | None:
    """An index below `count`, negative ones counted from the end; None for None.

    Raises:
        BadParameter: it is not there.

    >>> within("--layer", 3, 30), within("--layer", -1, 30)
    (3, 29)
    """
    if value is None:
        return None
    if not -count <= value < count:
        raise typer.BadParameter(f"{option} must be from 0 to {count - 1}, got {value}.")
    return value % count


@contextmanager
def last_logits(model: Any) -> Iterator[list[torch.Tensor]]:
    """Keep the logits [vocabulary] of the last token of each forward of a model."""
    kept: list[torch.Tensor] = []

    def keep(module: Any, inputs: Any, output: Any) -> None:
        kept.append(output.logits[0, -1].detach().float())

    handle = model.register_forward_hook(keep)
    try:
        yield kept
    finally:
        handle.remove()


def likeliest(
    logits: torch.Tensor, tokenizer: Any, ids: list[int], *, count: int = NEXT
) -> list[NextToken]:
    """The tokens of the largest probability after `ids`, as they can be printed."""
    from attnscope.cli.gather import next_label
    from attnscope.cli.report import NextToken

    top = logits.softmax(-1).topk(min(count, logits.numel()))
    return [
        NextToken(int(index), next_label(tokenizer, ids, int(index)), float(probability))
        for probability, index in zip(top.values, top.indices, strict=True)
    ]
