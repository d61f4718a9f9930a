"""Figures in a terminal: a table by topic, or one after the other with all that is behind them.

The idea: the printed number first, what it is beside it, the id and the kind below in a fainter
hand; nothing needs colour to be read.

Not here: the figures (attnscope.lessons.figures).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attnscope.cli.console import Trimmed, stdout
from attnscope.lessons.figures import TOPICS, Figure, topic_of

WORDS: Final[dict[str, dict[str, str]]] = {
    "en": {
        "computed": "computed", "measured": "measured", "reported": "reported", "value": "value",
        "formula": "formula", "inputs": "inputs", "source": "source", "note": "note",
        "none": "No figure is of this kind.",
        "more": "{count} figures. attnscope figures ID shows one with its formula, inputs and "
        "source; --json all of them.",
    },
    "zh": {
        "computed": "计算", "measured": "实测", "reported": "报告", "value": "值",
        "formula": "公式", "inputs": "输入", "source": "来源", "note": "说明",
        "none": "没有这一类的数。",
        "more": "共 {count} 个数。attnscope figures ID 显示一个数的公式、输入和来源；"
        "--json 显示全部。",
    },
}  # fmt: skip
NUMBER: Final = 26
"""Columns that the printed number takes at most; longer lists are folded."""


def show_table(figures: list[Figure], language: str) -> None:
    """Print all figures, topic by topic."""
    console = stdout(highlight=False)
    words = WORDS[language]
    for topic, (english, chinese, _) in TOPICS.items():
        rows = [one for one in figures if topic_of(one.id) == topic]
        if rows:
            console.print(Trimmed(Text(chinese if language == "zh" else english, style="bold")))
            console.print(Trimmed(Padding(_table(rows, language), (0, 0, 1, 2), expand=False)))
    last = words["more"].format(count=len(figures)) if figures else words["none"]
    console.print(Trimmed(last))


def _table(rows: Iterable[Figure], language: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", max_width=NUMBER, overflow="fold")
    table.add_column(overflow="fold")
    for one in rows:
        below = Text(f"{one.id}  {WORDS[language][one.kind]}", style="dim")
        what = Group(Text(one.title[language]), below)
        table.add_row(Text(one.text[language], style="bold"), what)
    return table


def show_each(figures: list[Figure], language: str) -> None:
    """Print figures one after the other, each with what stands behind it."""
    console = stdout(highlight=False)
    if not figures:
        console.print(WORDS[language]["none"])
    for at, one in enumerate(figures):
        if at:
            console.print()
        console.print(
            Trimmed(
                Text.assemble(
                    (one.text[language], "bold"), f"  {one.title[language]}\n",
                    (f"{one.id}  {WORDS[language][one.kind]}", "dim"),
                )
            )
        )  # fmt: skip
        behind = _behind(one.told(language), language)
        console.print(Trimmed(Padding(behind, (0, 0, 0, 2), expand=False)))


def _behind(one: Figure, language: str) -> Table:
    words = WORDS[language]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row(words["value"], Text(f"{_plain(one.value)} {one.unit}".rstrip()))
    table.add_row(words["formula"], Text(one.formula))
    if one.inputs:
        inputs = [
            Text.assemble(f"{name} = {_plain(given.value)}  ", (given.source, "dim"))
            for name, given in one.inputs.items()
        ]
        table.add_row(words["inputs"], Group(*inputs))
    table.add_row(words["source"], Text(one.source))
    if one.note[language]:
        table.add_row(words["note"], Text(one.note[language]))
    return table


def _plain(value: Any) -> str:
    """A value in full: whole numbers with commas, others to twelve digits."""
    if isinstance(value, tuple | list):
        return ", ".join(_plain(one) for one in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
