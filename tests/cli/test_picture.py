"""The picture in a terminal: aligned, complete, and readable without colour or Unicode."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from attnscope.cli import gather, picture
from attnscope.cli.console import PIPED_COLUMNS, Trimmed, label, stdout
from attnscope.cli.report import Chosen, HeadLine, LayerLine, NextToken, Report, TokenLine
from attnscope.serve.files import STATIC
from attnscope.trace import KINDS, Trace


@pytest.fixture(scope="module")
def report(trace: Trace) -> Report:
    chosen, attended = gather.choose(trace, layer=0, head=2, query=None)
    return Report(
        model=gather.model_line(trace),
        tokens=gather.token_lines(trace),
        layers=gather.layer_lines(trace),
        heads=gather.head_lines(trace),
        next=[NextToken(7, "' mat'", 0.5), NextToken(8, "' 国'", 0.25)],
        chosen=chosen,
        attended=attended,
        labels=gather.labels(trace),
        timing={"load_s": 1.0, "forward_s": 0.5},
        peak_bytes=1,
    )


def drawn(report: Report, *, width: int = 80, encoding: str = "utf-8") -> list[str]:
    """The lines that a terminal without colour would show."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    picture.draw(report, Console(file=file, width=width, color_system=None, legacy_windows=False))
    file.flush()
    return raw.getvalue().decode(encoding).splitlines()


def test_says_everything(report: Report) -> None:
    shown = "\n".join(drawn(report, width=120))
    for part in (
        "FakeForCausalLM",
        "13 tokens",
        "Next token  ' mat' 50.0%",
        "no map: a recurrent layer",
        "Heads by kind",
        "layer 0, head 2",
        "--save my-trace",
        "attnscope.open('my-trace')",
    ):
        assert part in shown


def test_a_kept_trace_is_named_where_it_lies(report: Report) -> None:
    kept = picture.openings(replace(report, saved="/tmp/a b"))
    assert "attnscope serve '/tmp/a b'" in kept
    assert "import attnscope; trace = attnscope.open('/tmp/a b')" in kept
    assert not [line for line in kept if "--save" in line or "--open" in line]


def test_every_kind_has_a_letter_of_its_own() -> None:
    assert set(picture.KINDS) == set(KINDS)
    letters = [letter for letter, _, _ in picture.KINDS.values()]
    assert len(set(letters)) == len(letters)


def test_grid_shows_each_head_by_its_letter_and_shade(report: Report) -> None:
    lines = picture.grid(report, width=78).plain.splitlines()
    assert lines[0].split("  ")[-1] == "full"
    assert f"sliding {len(report.tokens)}" in lines[1]
    first = [line for line in report.heads if line.layer == 0]
    letters = [picture.KINDS[line.kind][0] for line in first]
    assert lines[0].strip().startswith("0  " + letters[0])
    body = lines[0][6:].replace(" ", "")
    assert [c for c in body if c.isupper() and c in "SPILUM"][:4] == letters
    assert "S█" in lines[0]  # a head that rests on one key: the fullest shade


def test_groups_of_heads_stand_apart(report: Report) -> None:
    """Heads 0 and 1 read key head 0, heads 2 and 3 key head 1: a gap between them."""
    line = picture.grid(report, width=78).plain.splitlines()[0]
    assert line[6 + 4] == " "
    assert line[6 + 5] in "SPILUM"


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
@pytest.mark.parametrize(("heads", "groups"), [(64, 8), (32, 1), (128, 128), (9, 3), (7, 7)])
def test_many_heads_fold_and_fit(report: Report, width: int, heads: int, groups: int) -> None:
    values = {"max_weight": 0.5}
    wide = replace(
        report,
        layers=[LayerLine(0, "full", heads, groups)],
        heads=[HeadLine(0, head, "mixed", dict(values)) for head in range(heads)],
    )
    lines = picture.grid(wide, width=width).plain.splitlines()
    body = lines[: lines.index("")]
    assert sum(line.count("M") for line in body) == heads
    assert all(cell_len(line) <= width for line in body)


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_table_columns_are_aligned_under_wide_characters(report: Report, width: int) -> None:
    lines = drawn(report, width=width)
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["key", "token"])
    header = lines[start]
    # "weight" is right-justified, so every share ends in the cell where its heading ends
    ends = cell_len(header[: header.index("weight")]) + len("weight")
    rows = lines[start + 1 : start + 1 + len(report.attended)]
    rows = [line for line in rows if "%" in line]
    assert len(rows) >= 8
    assert any(cell_len(line) != len(line) for line in rows)  # wide ones among them
    for line in rows:
        assert cell_len(line[: line.index("%") + 1]) == ends


def test_weights_shown_add_up(report: Report) -> None:
    shown, left = picture.split_mass(report.attended, picture.MASS, picture.MOST_ROWS)
    assert len(shown) + left == len(report.attended)
    assert sum(row.weight for row in report.attended) == pytest.approx(1, abs=1e-5)  # float32 lse
    lines = drawn(report)
    rest = next(line for line in lines if "the other" in line)
    share = sum(row.weight for row in report.attended[len(shown) :])
    assert f"{share:.1%}" in rest


def test_learned_sink_has_a_line(report: Report) -> None:
    sink = replace(report, chosen=replace(report.chosen, sink_share=0.25))
    assert any("(learned sink)" in line and "25.0%" in line for line in drawn(sink))


def test_a_row_that_sees_nothing_says_so(report: Report) -> None:
    blind = replace(report, attended=[], chosen=Chosen(0, 0, 0, None))
    assert any("sees no key" in line for line in drawn(blind))


def test_unknown_projection_is_not_a_number(report: Report) -> None:
    unknown = replace(report, attended=[replace(row, arrived=None) for row in report.attended])
    assert any("not told" in line for line in drawn(unknown))


def test_ascii_terminal_gets_ascii_shades(report: Report) -> None:
    text = "\n".join(drawn(report, encoding="ascii"))
    assert text.isascii()
    assert "S#" in text
    assert "\\u2588" not in text  # no bar or shade had to be escaped


def test_saved_trace_is_named(report: Report) -> None:
    lines = drawn(replace(report, saved="here/kept"))
    assert any("attnscope.open('here/kept')" in line for line in lines)
    assert not any("--save" in line for line in lines)


def test_a_hostile_token_cannot_move_the_cursor(report: Report) -> None:
    hostile = "\x1b[2J\u202e[red]\n"
    tokens = [TokenLine(0, 1, hostile, 0, 3)]
    labels = [label(hostile)] * len(report.labels)
    lines = drawn(replace(report, tokens=tokens, labels=labels))
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[2J\\u202e[red]\\n" in text  # and markup in a token is no markup


def test_long_labels_are_cut_to_their_cells(report: Report) -> None:
    labels = ["'" + "国" * 60 + "'"] * len(report.labels)
    for line in drawn(replace(report, labels=labels)):
        assert cell_len(line) <= 80


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_ends_in_blanks(report: Report, width: int) -> None:
    lines = drawn(report, width=width)
    assert [line for line in lines if line != line.rstrip()] == []
    assert "" in lines  # lines between the parts are kept


def test_with_colours_no_line_ends_in_blanks_either(report: Report) -> None:
    file = io.StringIO()
    picture.draw(report, Console(file=file, width=80, force_terminal=True, color_system="256"))
    coloured = file.getvalue()
    assert "\x1b[" in coloured
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured.splitlines()]
    assert [line for line in plain if line != line.rstrip()] == []
    assert plain == drawn(report)


def test_blanks_that_can_be_seen_are_kept() -> None:
    file = io.StringIO()
    console = Console(file=file, width=20, color_system=None)
    console.print(Trimmed(Text("a  ", style="on red"), Text("b  ", style="red"), Text("  ")))
    assert file.getvalue() == "a  \nb\n\n"


@pytest.mark.parametrize(
    ("terminal", "columns", "width"),
    [(False, None, PIPED_COLUMNS), (False, "72", 72), (True, "72", 72), (False, "", PIPED_COLUMNS)],
)
def test_the_width_is_the_readers(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, columns: str | None, width: int
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert stdout().width == width


def test_a_terminal_tells_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert stdout().width < PIPED_COLUMNS


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, ""), (1, "████"), (0.5, "██"), (1 / 32, "▏"), (2, "████"), (-1, "")],
)
def test_bar(share: float, drawn: str) -> None:
    assert picture.bar(share, cells=4) == drawn


def test_kinds_look_as_in_the_app() -> None:
    """Letter and colour of each kind are one table, written once for each language."""
    script = (STATIC / "js" / "parts" / "kinds.js").read_text("utf-8")
    entry = r'^  "?([a-z-]+)"?: \{ letter: "(.)", colour: "(#[0-9a-f]{6})"'
    app = {kind: (letter, colour) for kind, letter, colour in re.findall(entry, script, re.M)}
    assert app == {kind: (letter, colour) for kind, (letter, colour, _) in picture.KINDS.items()}
    assert set(app) == set(KINDS)
    for _, colour in app.values():
        assert contrast_with_black(colour) > 4.5  # what WCAG asks of a letter


def contrast_with_black(colour: str) -> float:
    """The ratio of WCAG 2.1, from sRGB."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) / 0.05
