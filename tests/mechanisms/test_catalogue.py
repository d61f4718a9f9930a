"""The catalogue: every mechanism is in it, says what it must, and draws its picture when run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from attnscope import mechanisms
from attnscope.core import fused, fused_delta
from attnscope.core.mechanism import About
from attnscope.lessons import figures

FOLDER = Path(mechanisms.__file__).parent
WORDS = ("title_en", "title_zh", "paper", "solved", "stuck", "keeps")


HALF_WIDTH = re.compile(r"[一-鿿]\s?[,;:?!()]|[,;:?!()]\s?[一-鿿]")
"""A mark of the Latin script beside a Chinese character."""


def test_every_file_is_in_the_catalogue() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files == set(mechanisms.NAMES)
    assert tuple(entry.name for entry in mechanisms.CATALOGUE) == mechanisms.NAMES
    assert isinstance(mechanisms.CATALOGUE, tuple)


@pytest.mark.parametrize("name", mechanisms.NAMES)
def test_an_entry_says_what_it_must(name: str) -> None:
    entry = getattr(mechanisms, name).ABOUT
    assert isinstance(entry, About)
    assert all(getattr(entry, word).strip() for word in WORDS)
    assert 1985 <= entry.year <= 2026
    assert any("一" <= c <= "鿿" for c in entry.title_zh)
    assert not HALF_WIDTH.search(entry.title_zh), "Chinese has marks of its own width"
    assert any(c.isdigit() for c in entry.stuck), "where it got stuck is a real number"
    unknown = [i for i in entry.figures if i not in figures.ids()]
    assert unknown == []


NUMBER = re.compile(r"(?<![A-Za-z0-9.])(?<![A-Za-z]-)\d+(?:,\d{3})*(?:\.\d+)?(?![A-Za-z0-9])")
BARE = {
    "rnn": {"1"},  # state t - 1
    "masking": {"100"},  # per cent that a softmax has
    "sliding": {"3"},  # the name Gemma 3
    "compressed": {"4"},  # the smaller of the ratios, of which the figure is the largest
}
"""Numbers of `stuck` that are no figures."""


@pytest.mark.parametrize("name", mechanisms.NAMES)
def test_the_number_it_got_stuck_at_is_a_figure(name: str) -> None:
    entry = getattr(mechanisms, name).ABOUT
    printed = " ".join(figures.get(id).text["en"] for id in entry.figures)
    said = set(NUMBER.findall(entry.stuck)) - BARE.get(name, set())
    assert said - set(re.findall(r"\d[\d,]*(?:\.\d+)?", printed)) == set()
    assert entry.figures


@pytest.mark.parametrize("name", mechanisms.NAMES)
def test_no_first_picture_waits_for_a_compiler(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled loops take up to 40 s when they are made; a picture is drawn without them."""

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("the picture asks for compiled loops")

    monkeypatch.setattr(fused, "attend_fused", compiled)
    monkeypatch.setattr(fused_delta, "delta_fused", compiled)
    assert getattr(mechanisms, name).picture()


@pytest.mark.slow
@pytest.mark.parametrize("name", mechanisms.NAMES)
def test_each_draws_its_picture_when_run(name: str) -> None:
    """In a process of its own, as a reader runs it; runpy would warn of a module imported twice."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-W", "error", "-m", f"attnscope.mechanisms.{name}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-500:]
    lines = run.stdout.splitlines()
    assert 5 <= len(lines) <= 40
    assert max(map(len, lines)) <= 110
    assert any(c.isdigit() for c in run.stdout)
    # Some operations on the meta device load PyTorch's compiler, which takes seconds.
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "torch" in loaded
    assert "torch._dynamo" not in loaded
