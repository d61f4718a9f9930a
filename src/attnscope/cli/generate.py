"""`attnscope generate`: let a real model go on with a text, and record what every step looked at.

Not here: how it is done (generation.py), whole characters (stream.py), the trace (recorder.py).
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from attnscope.cli import generation
from attnscope.cli.console import safe, write_json
from attnscope.cli.generation import MOST_SEED, TOKENS, Generated, Wanted
from attnscope.errors import TraceError


def to_json(report: Generated) -> dict[str, Any]:
    """The JSON of a report."""
    said = asdict(report)
    said["memory"] = {"peak_bytes": said.pop("peak")}
    return {"schema": "attnscope.generate/1", **said}


Text = Annotated[str | None, typer.Argument(help="The text to go on with.", show_default=False)]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="Read the text from a file; - is the standard input."),
]
Model = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="A name of `attnscope models list`, a folder, a GGUF or a hub id."
    ),
]
Tokens = Annotated[int, typer.Option("--tokens", "-n", help="At most so many tokens.")]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Draw the next token; above 1 more freely, below 1 less. Without this, --top-k and "
        "--top-p the likeliest is taken.",
        show_default=False,
    ),
]
TopK = Annotated[
    int | None, typer.Option(help="Draw among so many likeliest tokens.", show_default=False)
]
TopP = Annotated[
    float | None,
    typer.Option(help="Draw among the likeliest of so much mass, up to 1.", show_default=False),
]
Seed = Annotated[int | None, typer.Option(help="Draw the same again.", show_default=False)]
Stop = Annotated[
    list[str] | None,
    typer.Option(help="End before this text; may be given several times.", show_default=False),
]
Chat = Annotated[
    bool, typer.Option("--chat", help="Ask it as a question, in the model's chat template.")
]
Recorded = Annotated[
    Path | None, typer.Option(help="Record the attention of every step in this new folder.")
]
Json = Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")]


def generate(
    text: Text = None,
    file: File = None,
    model: Model = "smollm2",
    tokens: Tokens = TOKENS,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    stop: Stop = None,
    chat: Chat = False,
    trace: Recorded = None,
    as_json: Json = False,
) -> None:
    """Let a model go on with a text.

    The text comes on the standard output as it is made. Runs Llama, Qwen3 and Gemma 3 models.
    """
    if (text is None) == (file is None):
        raise typer.BadParameter("give a text or --file, one of the two")
    if tokens < 1:
        raise typer.BadParameter(f"--tokens: expected at least 1, got {tokens}")
    if seed is not None and not 0 <= seed < MOST_SEED:
        raise typer.BadParameter(f"--seed: expected a whole number from 0 on, got {seed}")
    drawn = drawing(temperature, top_k, top_p)
    if seed is not None and drawn is None:
        raise typer.BadParameter(
            "--seed: nothing is drawn; give --temperature, --top-k or --top-p as well"
        )
    if "" in (stop or []):
        raise typer.BadParameter("--stop: expected some text, got none")
    if trace is not None and trace.exists():
        raise TraceError(f"{trace}: stands there already. Name a new folder for --trace.")
    from attnscope.capture.text import check_text
    from attnscope.cli.look import read

    words = text if text is not None else read(file or Path("-"))
    check_text(words)  # before the seconds that a model takes to load
    wanted = Wanted(tokens, drawn, seed, tuple(stop or ()), chat, trace)
    write = _silent if as_json else _show
    report = generation.run(words, model=model, wanted=wanted, write=write)
    if as_json:
        write_json(to_json(report))
    else:
        typer.echo()
        typer.echo(summary(report), err=True)


def drawing(
    temperature: float | None, top_k: int | None, top_p: float | None
) -> dict[str, Any] | None:
    """The settings of sampling; None where none was given.

    Raises:
        typer.BadParameter: one has no meaning. It is said before PyTorch is imported.
    """
    if temperature is None and top_k is None and top_p is None:
        return None
    if temperature is not None and not 0 < temperature < float("inf"):
        raise typer.BadParameter(
            f"--temperature: expected a number above 0, got {temperature}; leave it out for the "
            "likeliest token at each step"
        )
    if top_k is not None and top_k < 1:
        raise typer.BadParameter(f"--top-k: expected at least 1 token, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise typer.BadParameter(f"--top-p: expected a mass above 0 and up to 1, got {top_p}")
    return {
        "temperature": 1.0 if temperature is None else temperature,
        "top_k": top_k,
        "top_p": 1.0 if top_p is None else top_p,
    }


def summary(report: Generated) -> str:
    """How it went, in a line."""
    count, per_s = len(report.generated["tokens"]), report.timing["tokens_per_s"]
    why = {"length": "", "end": ", where the model ended", "stop": ", up to --stop"}[report.ended]
    said = f"{count} token{'' if count == 1 else 's'}{why}"
    said += "" if per_s is None else f"; {per_s:.1f} per second"
    if report.sampling is not None:
        said += f"; --seed {report.sampling['seed']}"
    return said if report.trace is None else f"{said}; trace in {report.trace}"


def _show(piece: str) -> None:
    """Write on the standard output at once; a terminal gets nothing that would steer it."""
    if piece:
        sys.stdout.write(safe(piece) if sys.stdout.isatty() else piece)
        sys.stdout.flush()


def _silent(piece: str) -> None:
    """Write nothing: all of it comes at the end."""
