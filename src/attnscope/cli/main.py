"""The entry point of the command line: finds the command, and says errors in a sentence.

The idea: a command's module is imported only when that command is called, so `attnscope -h` reads
a small table and nothing heavy. Errors that are a user's to mend come out as one or two sentences
on stderr and an exit code; anything else is a defect and keeps its traceback.

Exit codes
    0 done; 1 failed; 2 wrong usage; 130 interrupted; 141 the reader of the output went away;
    143 ended by SIGTERM.

Not here: what a command does (one file per command beside this one).
"""

from __future__ import annotations

import importlib
import io
import itertools
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import attnscope
from attnscope._callable import missing_package
from attnscope.cli.quick import Quick
from attnscope.errors import AttnscopeError

USAGE, FAILED, INTERRUPTED, PIPE, TERMINATED = 2, 1, 130, 141, 143
CONTEXT: Final = {"help_option_names": ["-h", "--help"]}


class Terminated(BaseException):
    """SIGTERM came. Like KeyboardInterrupt it is no Exception, so that nothing but cleaning up
    happens on its way out.
    """


@dataclass(frozen=True)
class Entry:
    """Where a command lives, and its line in the help page."""

    module: str
    attribute: str
    line: str


COMMANDS: Final[dict[str, Entry]] = {
    "look": Entry(
        "attnscope.cli.look", "look", "See from which tokens each token takes information."
    ),
    "generate": Entry(
        "attnscope.cli.generate", "generate", "Let a model go on with a text, step by step."
    ),
    "serve": Entry("attnscope.cli.serve", "serve", "Open the app on saved traces, in the browser."),
    "lessons": Entry(
        "attnscope.cli.lessons", "lessons", "Open the course, or write it as a site of its own."
    ),
    "plan": Entry("attnscope.cli.plan", "app", "Bytes and FLOPs of a model's attention."),
    "figures": Entry("attnscope.cli.figures", "app", "Every number of the course, computed."),
    "models": Entry("attnscope.cli.models", "app", "List, fetch and find models."),
    "bench": Entry("attnscope.cli.bench", "bench", "What observing costs, on this machine."),
}


class LazyCommand(TyperCommand):
    """A name and a line of help that becomes the real command when it is called."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, callback=None, short_help=entry.line, rich_markup_mode=None)
        self.entry = entry

    def load(self) -> Any:
        """Import the command's module and build the command from its function or its Typer."""
        found = getattr(importlib.import_module(self.entry.module), self.entry.attribute)
        if not isinstance(found, typer.Typer):
            wrapped = typer.Typer(add_completion=False, rich_markup_mode=None)
            wrapped.command(self.name, context_settings=dict(CONTEXT))(found)
            found = wrapped
        found.rich_markup_mode = None
        command = typer.main.get_command(found)
        command.name = self.name
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments with the real command in this one's place."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


class LazyGroup(Quick, TyperGroup):
    """The root: lists the table, imports nothing."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            self.add_command(LazyCommand(name, entry), name)


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings=dict(CONTEXT),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnscope {attnscope.__version__}")
        raise typer.Exit


@app.callback(
    help="From which tokens does a token take information, how much, and at what cost?",
    epilog="attnscope COMMAND -h tells more about a command.",
)
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Say the version and stop."
    ),
    traceback: bool = typer.Option(
        False, "--traceback", help="On an error, show where in the code it came from."
    ),
) -> None:
    """Hold the options that stand before the command."""


def sentence(error: BaseException) -> tuple[str, int] | None:
    """Turn an error into what the user reads and the exit code; None for a defect of ours."""
    usage = typer.BadParameter.__mro__[1]  # UsageError, wherever this typer keeps its click
    if isinstance(error, usage):
        message = error.format_message()  # type: ignore[attr-defined]
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "attnscope"
        return f"{message}\nTry '{path} -h'.", USAGE
    if isinstance(error, AttnscopeError | ValueError):
        return str(error) or type(error).__name__, FAILED
    if isinstance(error, ModuleNotFoundError):
        message = missing_package(error)
        return (message, FAILED) if message else None
    if isinstance(error, MemoryError):
        return "Not enough memory for this text with this model. Try a shorter text.", FAILED
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}.", FAILED
    return None


def _wants_traceback(arguments: Sequence[str]) -> bool:
    """Whether --traceback stands before the command (behind it, it is the command's own)."""
    before = itertools.takewhile(lambda argument: argument.startswith("-"), arguments)
    return "--traceback" in before


def _quiet_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; a defect of ours raises.

    Args:
        arguments: what stands after `attnscope`.
    """
    try:
        code = app_command().main(list(arguments), prog_name="attnscope", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("Interrupted.", err=True)
        return INTERRUPTED
    except Terminated:
        typer.echo("Terminated.", err=True)
        return TERMINATED
    except BrokenPipeError:
        _quiet_stdout()
        return PIPE
    except SystemExit as leaving:  # typer's own answer to a broken pipe
        if not isinstance(leaving.__context__, BrokenPipeError):
            raise
        _quiet_stdout()
        return PIPE
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)  # type: ignore[attr-defined]
            return USAGE
        said = sentence(error)
        if said is None or _wants_traceback(arguments):
            raise
        typer.echo(f"Error: {said[0]}", err=True)
        return said[1]
    return code if isinstance(code, int) else 0


def app_command() -> Any:
    """The root command, built once per call (cheap: nothing but the table)."""
    return typer.main.get_command(app)


def prepare() -> None:
    """Let a terminal that lacks a character show its escape rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _terminate(*_: object) -> None:
    """End as Ctrl-C does; `timeout` and its like send a second signal, which must not cut it short.

    Raises:
        Terminated: always.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def main() -> None:
    """What the `attnscope` script calls."""
    prepare()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # whoever had it ignored meant it
        signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))
