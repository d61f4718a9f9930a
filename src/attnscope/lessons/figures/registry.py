"""What a figure is, and the register of them: an id, and how its number is come by when asked.

The idea: a number that prose prints is declared once, with its inputs, its formula and where both
come from. It is computed when somebody asks for it, from those inputs, by the code that the rest of
the package uses; the formula is a second way to it, which the tests evaluate and compare.

Kinds
    computed   from configs, from the teaching world, or by arithmetic
    measured   by an experiment with a seed, or a count of what a running loop did
    reported   what a paper, a model card or a published config says; cited, not checked here.
               So is what a lesson chose for an example ("as chosen"), which pages mark as chosen

Formulas are arithmetic on the names of the inputs: + - × / ^ and the functions that they name.

Units: bytes are whole numbers of bytes; text writes KiB, MiB and GiB, which are powers of 1,024.

Not here: the figures (the files beside this one), formulas and sources in Chinese (chinese.py),
prose (prose.py), tables (cli/figures.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal

from attnscope.lessons.figures.chinese import chinese
from attnscope.lessons.figures.chinese import unit as chinese_unit

Kind = Literal["computed", "measured", "reported"]
KINDS: Final[tuple[str, ...]] = ("computed", "measured", "reported")
LANGUAGES: Final = ("zh", "en")
Show = str | Callable[[Any], str]

REFERENCE: Final = re.compile(r"\{([A-Za-z]\w*(?:\.[\w-]+)+)\}")
"""An id in braces; it has a dot, so the braces of a formula are left alone."""

SCALES: Final[dict[str, float]] = {
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "million": 10**6,
    "yi": 10**8,  # 亿
}
"""What a template may divide a number by: "{GiB:.2f} GiB"."""


@dataclass(frozen=True)
class Input:
    """A number that goes into a figure, and where it comes from."""

    value: Any
    source: str


Ask = Input | Callable[[], Input]
"""An input, or how to come by it when the figure is asked for."""


@dataclass(frozen=True)
class Figure:
    """A number with all that stands behind it.

    Attributes:
        id: stable words with dots between them; the first word says which file it lives in.
        value: a number, a list of numbers, or a list of tokens.
        unit: of the value; empty for a plain number or count. In English, as the formula and the
            sources are; `told` gives them in Chinese.
        kind: computed, measured or reported.
        formula: how the value follows from the inputs.
        inputs: by the names that the formula uses.
        source: the code, the file or the paper behind it.
        text: how prose prints it, by language: the value at the digits that it deserves.
        title: what it is, by language.
        note: what has to be said with it, by language; empty where nothing has.
    """

    id: str
    value: Any
    unit: str
    kind: Kind
    formula: str
    inputs: Mapping[str, Input]
    source: str
    text: Mapping[str, str]
    title: Mapping[str, str]
    note: Mapping[str, str]

    def told(self, language: str) -> Figure:
        """The figure with its unit, its formula and its sources in a language.

        Values, names of inputs and everything that arithmetic needs stay as they are.
        """
        if language != "zh":
            return self
        return replace(
            self,
            unit=chinese_unit(self.unit),
            formula=chinese(self.formula),
            inputs={n: Input(i.value, chinese(i.source)) for n, i in self.inputs.items()},
            source=chinese(self.source),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; the fields of `attnscope figures --json`."""
        return {
            "id": self.id,
            "value": _plain(self.value),
            "unit": self.unit,
            "kind": self.kind,
            "formula": self.formula,
            "inputs": {
                name: {"value": _plain(one.value), "source": one.source}
                for name, one in self.inputs.items()
            },
            "source": self.source,
            "text": dict(self.text),
            "title": dict(self.title),
            "note": dict(self.note),
        }


@dataclass(frozen=True)
class Entry:
    """A figure as it is declared, not computed yet."""

    id: str
    kind: Kind
    unit: str
    formula: str
    asks: Mapping[str, Ask]
    source: str
    show: Mapping[str, Show]
    join: Mapping[str, str]
    title: Mapping[str, str]
    note: Mapping[str, str]
    compute: Callable[..., Any]

    @cached_property
    def inputs(self) -> dict[str, Input]:
        """The inputs, come by the first time."""
        return {n: a if isinstance(a, Input) else a() for n, a in self.asks.items()}

    @cached_property
    def value(self) -> Any:
        """The value, computed the first time."""
        return exact(self.compute(**{name: one.value for name, one in self.inputs.items()}))

    @cached_property
    def text(self) -> dict[str, str]:
        """The value as prose prints it, by language."""
        return {at: printed(self.value, self.show[at], self.join[at]) for at in LANGUAGES}


ENTRIES: Final[dict[str, Entry]] = {}
"""Every entry of the files imported so far, in the order in which they declare them."""


def figure(
    id: str,
    *,
    en: str,
    zh: str,
    formula: str,
    source: str,
    inputs: Mapping[str, Ask] | None = None,
    unit: str = "",
    show: Show = "{:,}",
    show_zh: Show | None = None,
    join: str = " / ",
    join_zh: str | None = None,
    kind: Kind = "computed",
    note: str = "",
    note_zh: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the function below as the way to a figure; it is called with the inputs by name.

    Args:
        en, zh: what the figure is, in a few words.
        show: a template of `str.format` for the value or for each entry of a list; {KiB}, {MiB},
            {GiB}, {million} and {yi} are the value divided by these. Or a function to the text.
        show_zh: where Chinese writes the number otherwise.
        join, join_zh: what stands between the entries of a list.
        note, note_zh: what has to be said with the number, in both languages or in none; {id}
            stands for what another figure prints.

    Raises:
        ValueError: the id is taken, or a note is there in one language only.
    """
    if id in ENTRIES:
        raise ValueError(f"figure {id!r} is registered twice")
    if bool(note) != bool(note_zh):
        raise ValueError(f"figure {id!r}: a note needs both languages")

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        ENTRIES[id] = Entry(
            id=id,
            kind=kind,
            unit=unit,
            formula=formula,
            asks=dict(inputs or {}),
            source=source,
            show={"zh": show_zh or show, "en": show},
            join={"zh": join if join_zh is None else join_zh, "en": join},
            title={"zh": zh, "en": en},
            note={"zh": note_zh, "en": note},
            compute=compute,
        )
        return compute

    return register


def reported(id: str, value: Any, **about: Any) -> None:
    """Register a number that a paper, a model card or the lesson itself gives.

    Args:
        about: as `figure` takes it; `source` names the paper and the place in it.
    """
    figure(id, kind="reported", formula=about.pop("formula", "as reported"), **about)(lambda: value)


def given(value: Any, source: str) -> Input:
    """An input that is chosen, with who chose it."""
    return Input(value, source)


def printed(value: Any, show: Show, join: str) -> str:
    """A value as text.

    >>> printed(65536, "{KiB:.0f} KiB", " / "), printed((0.5, 1.0), "{:.1f}", ", ")
    ('64 KiB', '0.5, 1.0')
    """
    if callable(show):
        return show(value)
    entries = value if isinstance(value, tuple) else (value,)
    return join.join(show.format(one, **_scaled(one)) for one in entries)


def _scaled(value: Any) -> dict[str, float]:
    return {} if isinstance(value, str) else {name: value / by for name, by in SCALES.items()}


def exact(value: Any) -> Any:
    """Python's own numbers, whole where they are whole by construction; lists as tuples.

    >>> exact([Fraction(4, 2), Fraction(1, 2)])
    (2, 0.5)
    """
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    if isinstance(value, list | tuple):
        return tuple(exact(one) for one in value)
    if isinstance(value, bool | int | str | float):
        return value if type(value) in (bool, int, str) else float(value)
    return exact(value.tolist())  # numpy's


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value
