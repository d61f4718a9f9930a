"""The command in a real terminal of the system: in colour, without, on one that can do nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from generate_samples import write_model
from rich.cells import cell_len

pty = pytest.importorskip("pty", reason="this system has no terminals to give")

COLUMNS = 60
STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-9]|4[0-9]|9[0-7]|10[0-7])[0-9;]*m")
TEXT = "国 the cat sat on the mat, the cat sat"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model, as a folder."""
    return write_model(tmp_path_factory.mktemp("models") / "llama", "llama")


def in_a_terminal(model: Path, **environment: str) -> str:
    """What `attnscope look` writes on a terminal of 60 columns."""
    import fcntl
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-m", "attnscope", "look", "-m", str(model), "--layer", "1", TEXT],
        stdin=slave, stdout=slave, stderr=subprocess.PIPE, close_fds=True,
        env={**kept, "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8", **environment},
    )  # fmt: skip
    os.close(slave)
    written = bytearray()
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            part = b""
        if not part:
            break
        written += part
    os.close(master)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said.decode()
    return written.decode("utf-8").replace("\r\n", "\n")


@pytest.fixture(scope="module")
def coloured(model: Path) -> str:
    return in_a_terminal(model, TERM="xterm-256color")


def test_colour_is_an_extra(model: Path, coloured: str) -> None:
    """Without it every word, letter and shade stands where it stood."""
    assert COLOUR.search(coloured)
    without = in_a_terminal(model, TERM="xterm-256color", NO_COLOR="1")
    assert not COLOUR.search(without)
    assert STYLE.sub("", without) == STYLE.sub("", coloured)


def test_a_terminal_that_can_do_nothing_gets_plain_text(model: Path, coloured: str) -> None:
    dumb = in_a_terminal(model, TERM="dumb")
    assert "\x1b" not in dumb
    assert dumb == STYLE.sub("", coloured)


def test_it_is_as_wide_as_the_terminal(coloured: str) -> None:
    lines = STYLE.sub("", coloured).splitlines()
    # what is to be copied into a shell or into Python is kept in one line
    copied = ("attnscope", "import", "trace.")
    too_wide = [line for line in lines if cell_len(line) > COLUMNS]
    assert [line for line in too_wide if not line.startswith(copied)] == []
    assert max(map(cell_len, lines)) > COLUMNS - 8  # and the room is used
    for part in ("Next token", "Heads by kind", "What the last token", "To open the rest"):
        assert part in STYLE.sub("", coloured)
