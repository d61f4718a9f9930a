"""The root of the command line: help, exit codes, and errors as sentences."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import attnscope
from attnscope.cli import main
from attnscope.errors import ModelError
from attnscope.trace import Trace


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    """Put a function in the place of the command `look`."""

    def put(function: Callable[..., None]) -> None:
        monkeypatch.setattr(main.LazyCommand, "load", _loader(function))

    return put


def _loader(function: Callable[..., None]) -> Callable[[Any], Any]:
    def load(self: Any) -> Any:
        wrapped = typer.Typer(add_completion=False, rich_markup_mode=None)
        wrapped.command(self.name)(function)
        return typer.main.get_command(wrapped)

    return load


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command(run: Callable[..., Any], flag: str) -> None:
    shown = run(flag)
    assert shown.code == 0
    assert shown.err == ""
    for name, entry in main.COMMANDS.items():
        assert f"\n  {name} " in shown.out
        assert entry.line in shown.out


def test_nothing_said_is_help_and_wrong_usage(run: Callable[..., Any]) -> None:
    shown = run()
    assert shown.code == main.USAGE
    assert "Usage: attnscope" in shown.err


def test_version(run: Callable[..., Any]) -> None:
    assert run("--version").out == f"attnscope {attnscope.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lok",), "Did you mean 'look'?"),
        (("--wrong",), "No such option: --wrong"),
        (("look", "--wrong"), "No such option: --wrong"),
    ],
)
def test_wrong_usage(run: Callable[..., Any], arguments: tuple[str, ...], said: str) -> None:
    shown = run(*arguments)
    assert shown.code == main.USAGE
    assert shown.out == ""
    assert said in shown.err
    assert "-h'." in shown.err
    assert len(shown.err.splitlines()) <= 2


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (ModelError("no model here. Try another."), "Error: no model here. Try another.\n", 1),
        (ValueError("layer: 99 is not there"), "Error: layer: 99 is not there\n", 1),
        (FileNotFoundError(errno.ENOENT, "No such file", "x.txt"), "x.txt: No such file.", 1),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied.", 1),
        (MemoryError(), "Not enough memory", 1),
        (ModuleNotFoundError("no torch", name="torch"), "pip install 'attnscope[look]'", 1),
        (typer.BadParameter("too many"), "too many", 2),
        (KeyboardInterrupt(), "", 130),
    ],
)
def test_errors_are_sentences(
    run: Callable[..., Any],
    command: Callable[..., None],
    error: BaseException,
    said: str,
    code: int,
) -> None:
    command(raising(error))
    shown = run("look")
    assert shown.code == code
    assert said in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("error", [KeyError("a"), TypeError("b"), ModuleNotFoundError(name="odd")])
def test_a_defect_keeps_its_traceback(
    run: Callable[..., Any], command: Callable[..., None], error: Exception
) -> None:
    command(raising(error))
    with pytest.raises(type(error)):
        run("look")


def test_traceback_when_asked_for(run: Callable[..., Any], command: Callable[..., None]) -> None:
    command(raising(ModelError("no model here")))
    with pytest.raises(ModelError):
        run("--traceback", "look")


def test_a_reader_that_leaves_is_no_error() -> None:
    """`attnscope -h | head -0` says nothing on stderr."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(0.5); import attnscope.__main__ as m; "
         "import sys; sys.argv = ['attnscope', '-h']; m.main()"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == main.PIPE
    assert said == b""


def test_an_interrupted_process_ends_with_130() -> None:
    code = "from attnscope.cli import main; main.app_command = lambda: (_ for _ in ()).throw("
    code += "KeyboardInterrupt); main.main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode == main.INTERRUPTED
    assert ended.stderr == b"Interrupted.\n"


WRITING = """
import sys, time
from attnscope.cli import main
from attnscope.trace import TraceWriter
import attnscope

def write(arguments):
    source = attnscope.open(sys.argv[1])
    arrays = source.layer(0).arrays
    with TraceWriter(sys.argv[2], source.header) as writer:
        writer.add_layer(0, {name: arrays.read(name) for name in arrays.names()})
        try:
            print("half", flush=True)
            time.sleep(60)
        finally:
            print("cleaning", flush=True)
            time.sleep(0.5)

class Command:
    def main(self, arguments, **_):
        write(arguments)

main.app_command = Command
main.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_writer_that_is_ended_leaves_nothing(trace: Trace, tmp_path: Path, sent: int) -> None:
    """One signal ends it, a second (`timeout` sends two) does not cut its cleaning up short."""
    trace.save(tmp_path / "source")
    (tmp_path / "out").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING, tmp_path / "source", tmp_path / "out" / "t"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # where the tests run in the background, a child would ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    assert [one.name[:11] for one in (tmp_path / "out").iterdir()] == [".t.partial-"]
    process.send_signal(sent)
    assert process.stdout.readline() == "cleaning\n"
    if sent == signal.SIGTERM:
        process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert list((tmp_path / "out").iterdir()) == []
    ended = {signal.SIGTERM: (main.TERMINATED, "Terminated.\n"),
             signal.SIGINT: (main.INTERRUPTED, "Interrupted.\n")}  # fmt: skip
    assert (process.returncode, said) == ended[sent]


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
def test_an_ignored_signal_stays_ignored() -> None:
    code = (
        "import signal, os; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "from attnscope.cli import main\n"
        "main.app_command = lambda: os.kill(os.getpid(), signal.SIGTERM) or exit(0)\n"
        "main.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_that_knows_ascii_alone_is_served() -> None:
    code = "from attnscope.cli.main import prepare; prepare(); print('国 ░')"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == b"\\u56fd \\u2591\n"
