"""The picture of `attnscope look` in a terminal: heads as a grid, one row of attention as a table.

The idea: colour helps and is never needed. A head is a letter for its kind and a shade for how
much of a row its largest weight takes; key/value groups stand apart; bars are drawn in eighths.

Not here: the numbers (report.py).
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attnscope.cli.console import Trimmed
from attnscope.cli.report import Attended, HeadLine, LayerLine, Report, split_mass

# Near Okabe and Ito's colours, which all can tell apart, under black letters: dark or light
# terminal. The app's table (serve/static/js/parts/kinds.js) has the same; a test holds them equal.
KINDS: Final[dict[str, tuple[str, str, str]]] = {
    "sink": ("S", "#d55e00", "rests on the first token"),
    "previous-token": ("P", "#2a86c8", "looks at the token before"),
    "induction": ("I", "#c9609a", "looks behind earlier copies"),
    "local": ("L", "#0a9a72", "stays among the last tokens"),
    "uniform": ("U", "#d99400", "spreads evenly"),
    "mixed": ("M", "#8a8f98", "none of these"),
}
"""Letter, colour and meaning of each kind of head."""

SHADES: Final = (" ", "░", "▒", "▓", "█")
ASCII_SHADES: Final = (" ", ".", ":", "=", "#")
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
MASS: Final = 0.9
MOST_ROWS: Final = 24
BAR: Final = 16
NAMED: Final = 4
"""Heads of one kind that are named in the list."""


def draw(report: Report, console: Console) -> None:
    """Print the whole report."""
    plain = not console.encoding.lower().startswith("utf")
    parts: list[RenderableType] = [
        _opening(report),
        Text(),
        _title("Heads", _grid_caption(report)),
        Padding(grid(report, width=console.width - 2, plain=plain), (0, 0, 0, 2), expand=False),
        Text(),
        _title("Heads by kind", "layer.head, the clearest first"),
        Padding(kinds(report.heads), (0, 0, 0, 2), expand=False),
        Text(),
        *_attention(report, width=console.width, plain=plain),
        Text(),
        _title("To open the rest", "add to the command"),
        Text("\n".join(openings(report)), overflow="fold"),
    ]
    console.print(Trimmed(*parts))


def _title(text: str, caption: str = "") -> Text:
    line = Text()
    line.append(text, style="bold")
    if caption:
        line.append(f"  {caption}", style="dim")
    return line


def _opening(report: Report) -> Text:
    model, text, count = report.model, Text(), len(report.tokens)
    text.append(str(model["name"]), style="bold")
    text.append(
        f"  {model['architecture']}, {model['layers']} layers of {model['query_heads']} heads"
        f" on {model['kv_heads']} key/value heads of width {model['head_width']};"
        f" {count} token{'s' * (count != 1)}\n"
    )
    text.append("Next token  ")
    for place, token in enumerate(report.next):
        style = "bold" if place == 0 else "dim"
        text.append(f"{token.text} {token.probability:.1%}   ", style=style)
    for note in report.notes:
        text.append(f"\n{note}")
    return text


def _grid_caption(report: Report) -> str:
    grouped = any(line.groups > 1 for line in report.layers)
    spaced = "; heads on one key/value head stand together" if grouped else ""
    return f"a row is a layer, a column a head{spaced}"


def grid(report: Report, *, width: int, plain: bool = False) -> Text:
    """Layers times heads: letter and colour say the kind, the shade the mean largest weight."""
    cells = {(entry.layer, entry.head): entry for entry in report.heads}
    shades = ASCII_SHADES if plain else SHADES
    text = Text()
    for line in report.layers:  # one line of text, or several where the heads do not fit
        margin = f"{line.index:>4}  "
        if line.reason is not None:
            text.append(margin, style="dim")
            text.append(f"no map: {line.reason}\n", style="dim")
            continue
        room = max(2, (width - len(margin) - 16) // 2)
        for start, stop in _folds(line, room):
            text.append(margin if start == 0 else " " * len(margin), style="dim")
            for head in range(start, stop):
                if start < head and line.groups > 1 and head % line.groups == 0:
                    text.append(" ")
                _cell(text, cells.get((line.index, head)), shades)
            if stop == line.heads:
                text.append(f"  {_layer_kind(line)}", style="dim")
            text.append("\n")
    text.append_text(_legend(shades))
    return text


def _folds(line: LayerLine, room: int) -> Iterable[tuple[int, int]]:
    """Split a layer's heads into lines of at most `room` cells, whole groups where they fit."""
    spaced = 1.5 if line.groups == 2 else 1 + 0.5 / max(line.groups, 1)
    most = max(1, int(room / spaced) if line.groups > 1 else room)
    if most > line.groups > 1:
        most -= most % line.groups
    return [(at, min(at + most, line.heads)) for at in range(0, line.heads, most)]


def _cell(text: Text, line: HeadLine | None, shades: tuple[str, ...]) -> None:
    if line is None:
        text.append("· ")
        return
    letter, colour, _ = KINDS[line.kind]
    text.append(letter, style=f"black on {colour}")
    text.append(shades[_shade(line.values.get("max_weight"))])


def _shade(value: float | None) -> int:
    return 0 if value is None else min(4, max(0, int(value * 5)))


def _layer_kind(line: LayerLine) -> str:
    return f"{line.kind} {line.window}" if line.window is not None else line.kind


def _legend(shades: tuple[str, ...]) -> Text:
    text = Text("\n")
    for kind, (letter, colour, _) in KINDS.items():
        text.append(letter, style=f"black on {colour}")
        text.append(f" {kind}  ")
    text.append("\na row's largest weight, on average, from  ")
    for place, shade in enumerate(shades[1:], start=1):
        text.append(f"{shade} {place * 20}%  ")
    return text


def kinds(heads: list[HeadLine]) -> Table:
    """How many heads there are of each kind, what the kind does, and the clearest of them."""
    by_kind: dict[str, list[HeadLine]] = defaultdict(list)
    for line in heads:
        by_kind[line.kind].append(line)
    table = Table.grid(padding=(0, 2))
    for kind, (letter, colour, meaning) in KINDS.items():
        found = by_kind.get(kind, [])
        if not found:
            continue
        found.sort(key=lambda line: -(line.values.get(_mark(kind)) or 0.0))
        names = "  ".join(f"{line.layer}.{line.head}" for line in found[:NAMED])
        more = "  …" if len(found) > NAMED else ""
        table.add_row(
            Text(letter, style=f"black on {colour}"),
            Text(kind),
            Text(str(len(found)), justify="right"),
            Text(meaning, style="dim"),
            Text(names + more),
        )
    return table


def _mark(kind: str) -> str:
    """The statistic by which heads of a kind are ordered."""
    return {
        "sink": "sink_mass",
        "previous-token": "previous_mass",
        "uniform": "entropy",
    }.get(kind, "max_weight")


def _attention(report: Report, *, width: int, plain: bool) -> list[RenderableType]:
    chosen = report.chosen
    last = chosen.query == len(report.tokens) - 1
    name = "the last token" if last else f"token {chosen.query}"
    heading = f"What {name} {report.labels[chosen.query]} takes, and from where"
    caption = f"layer {chosen.layer}, head {chosen.head}"
    if chosen.why is not None:
        caption += f": {chosen.why}"
    shown, left = split_mass(report.attended, MASS, MOST_ROWS)
    if not shown:
        nothing = Text("  This token sees no key in this layer.")
        return [_title(heading), Text(f"  {caption}", style="dim"), nothing]
    table = attended(report, shown, left, width=width, plain=plain)
    return [
        _title(heading),
        Text(f"  {caption}", style="dim", overflow="fold"),
        Padding(table, (0, 0, 0, 2), expand=False),
    ]


def attended(
    report: Report, shown: list[Attended], left: int, *, width: int, plain: bool = False
) -> Table:
    """The keys of one row from the largest weight down, then all others as one line."""
    cells = max(4, min(BAR, (width - 56) // 2))
    room = max(8, min(28, width - 2 * cells - 34))
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    for name, side in (("key", "right"), ("token", "left"), ("weight", "right"), ("", "left")):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("arrived", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    rest = report.attended[len(shown) :]
    strongest = max((row.arrived or 0.0 for row in report.attended), default=0.0)
    for row in shown:
        share = (row.arrived or 0.0) / strongest if strongest else 0.0
        table.add_row(
            str(row.key),
            _fit(report.labels[row.key], room),
            f"{row.weight:.1%}",
            Text(bar(row.weight, plain=plain, cells=cells), style="#2a86c8"),
            _norm(row.arrived),
            Text(bar(share, plain=plain, cells=cells), style="#c9609a"),
        )
    if report.chosen.sink_share > 0:
        share = report.chosen.sink_share
        table.add_row(
            "",
            "(learned sink)",
            f"{share:.1%}",
            Text(bar(share, plain=plain, cells=cells)),
            "0",
            "",
        )
    if left:
        weight = sum(row.weight for row in rest)
        many = f"the other {left}" if left > 1 else "the other one"
        table.add_row(
            "", many, f"{weight:.1%}", Text(bar(weight, plain=plain, cells=cells)), "", ""
        )
    return table


def _norm(value: float | None) -> str:
    return "not told" if value is None else f"{value:.3g}"


def _fit(text: str, room: int) -> Text:
    """A label cut to the cells there are (a Chinese character takes two)."""
    if cell_len(text) > room:
        text = set_cell_size(text, room - 1).rstrip() + "…"
    return Text(text, no_wrap=True)


def bar(share: float, *, plain: bool = False, cells: int = BAR) -> str:
    """A bar of a share between 0 and 1, in eighths of a cell.

    >>> bar(0.5, cells=4), bar(0.3, cells=4, plain=True)
    ('██', '#')
    """
    eighths = round(max(0.0, min(1.0, share)) * cells * 8)
    if plain:
        return "#" * round(eighths / 8)
    full, part = divmod(eighths, 8)
    return EIGHTHS[8] * full + (EIGHTHS[part] if part else "")


def openings(report: Report) -> list[str]:
    """How to see what was left out: what to add to the command, and lines to paste.

    Python's own prompt takes no indented line, so what can be pasted stands at the margin.
    """
    chosen, folder = report.chosen, report.saved or "my-trace"
    layers = [line for line in report.layers if line.reason is None]
    other = layers[len(layers) // 2].index if layers else chosen.layer
    row = f"--layer {other} --head 0 --query {chosen.query}"
    added = [(row, "another row"), ("--json", "every number")]
    if report.saved is None:
        added += [("--open", "the map, in the browser"), (f"--save {folder}", "keep the trace")]
    width = max(len(option) for option, _ in added)
    then = "It is kept:" if report.saved else "Once it is kept,"
    return [
        *(f"  {option:<{width}}  {what}" for option, what in added),
        f"  {then} in the browser and in Python",
        f"attnscope serve {shlex.quote(folder)}",
        f"import attnscope; trace = attnscope.open({folder!r})",
        f"trace.weights({chosen.layer}, {chosen.head}, queries=[{chosen.query}])",
        f"trace.attended({chosen.layer}, {chosen.head}, {chosen.query}, mass=0.99)",
    ]
