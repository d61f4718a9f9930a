"""The docs cannot lie: their commands exist, their examples run, their links and numbers hold."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_surface import build

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/*.md")]
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
STEP = 0.15
"""By how much a printed number may differ on another processor: one in its last printed digit."""


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def command_lines(text: str) -> Iterator[list[str]]:
    """The commands of the sh blocks, without comments."""
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    for words in command_lines(page.read_text(encoding="utf-8")):
        if words[0] == "make":
            for target in (word for word in words[1:] if "=" not in word):
                assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_the_options_they_are_shown_with(page: Path) -> None:
    flags = build.flags()
    for words in command_lines(page.read_text(encoding="utf-8")):
        if Path(words[0]).name != "attnscope":
            continue
        name = f"attnscope {words[1]}"
        if f"{name} {' '.join(words[2:3])}" in flags:
            name = f"{name} {words[2]}"
        known = {part for flag in flags[name] for part in flag.split("|")} | {"-h", "--help"}
        used = {word.split("=")[0] for word in words[2:] if re.match(r"-{1,2}[a-z]", word)}
        assert used <= known, f"{name}: {used - known}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_by_hand_is_what_make_does() -> None:
    """The pip and pytest lines for those without make are those of the Makefile."""
    lines = [" ".join(words) for words in command_lines(README)]
    [pip] = [line for line in lines if line.endswith("-e .[look,table,serve,lessons]")]
    assert "-c constraints.txt" in pip
    assert "-e '.[look,table,serve,lessons]'" in MAKEFILE
    [test] = [line for line in lines if "-m pytest" in line]
    recipe = MAKEFILE.split("\ntest:")[1].split("\n\n")[0]
    assert test.split(" -m ")[1].replace("-n 2", "-n $(WORKERS)") in recipe
    assert re.search(r"^WORKERS \?= 2$", MAKEFILE, re.MULTILINE)
    assert f"TEXT ?= {build.TEXT}\n" in MAKEFILE
    looks = [words[2:] for words in command_lines(README) if "attnscope look" in " ".join(words)]
    assert [build.TEXT] in looks


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    for page in PAGES:
        for named in re.findall(r"(?:attnscope|\.)\[([a-z,]+)\]", page.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras, f"{page.name}: {named}"


def requirement(line: str) -> str:
    """The name of a requirement, as pip compares it."""
    return re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower().replace("_", "-")


def test_constraints_pin_everything_that_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {
        requirement(line)
        for lines in [project["dependencies"], *project["optional-dependencies"].values()]
        for line in lines
    } - {"attnscope"}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {requirement(line): line for line in lines if line and not line.startswith("#")}
    assert wanted - pinned.keys() == set()
    for line in pinned.values():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line), line


@pytest.mark.real_model
@pytest.mark.slow
def test_python_example_runs(tmp_path: Path) -> None:
    [example] = blocks(README, "python")
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "apple-trace" / "trace.json").exists()
    assert "The" in done.stdout


def test_plan_example_runs() -> None:
    [words] = [words for words in command_lines(README) if words[:2] == ["attnscope", "plan"]]
    assert build.attnscope(*words[1:])


def differences(printed: str, shown: str) -> list[str]:
    """Lines that differ in more than a number's last digit and the length of a bar."""
    found = []
    lines = zip(printed.splitlines(), shown.splitlines(), strict=False)
    if len(printed.splitlines()) != len(shown.splitlines()):
        found.append("another number of lines")
    for now, before in lines:
        words = [re.sub(r"\s+", " ", re.sub("[▏▎▍▌▋▊▉█░▒▓]", "", NUMBER.sub("0", x))).strip()
                 for x in (now, before)]  # fmt: skip
        numbers = zip(NUMBER.findall(now), NUMBER.findall(before), strict=False)
        close = all(abs(float(a) - float(b)) <= STEP for a, b in numbers)
        if words[0] != words[1] or not close:
            found.append(f"{before!r} is now {now!r}")
    return found


@pytest.mark.real_model
@pytest.mark.slow
def test_printed_block_is_what_the_command_prints() -> None:
    fresh = blocks(build.readme(), "text")[0]
    assert differences(fresh, blocks(README, "text")[0]) == [], "run: make docs"


def test_a_printed_block_that_lies_is_caught() -> None:
    shown = blocks(README, "text")[0]
    assert "Next token" in shown
    assert differences(shown, shown) == []
    assert differences(shown.replace("48.9%", "49.2%"), shown)
    assert differences(shown.replace("sink", "sunk"), shown)
    assert differences(shown + "more\n", shown)
