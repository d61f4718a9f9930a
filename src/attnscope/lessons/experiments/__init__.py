"""The course's experiments: functions with a seed whose results lessons, notebooks and tests share.

The idea: every picture in a lesson is made of numbers that can be asked for again. An experiment is
a function `run(*, seed=0, ...)` in a file of its own; it returns a frozen record of floats and
arrays with `to_dict()` for JSON, `picture()` for a terminal and, where a plot helps, `svg()`. The
same seed gives the same numbers; `python -m attnscope.lessons.experiments.<name>` prints them.

    variance   why the dot product is divided by sqrt(d)
    rules      three ways from scores to weights, and what breaks
    leak       what a missing, late or finite causal mask does
    convex     an output is a mixture of values; one softmax cannot do two jobs
    rotary     rotated q and k know the distance alone; rotated v would know the place
    sink       a row with nothing to look for, and two ways not to fetch
    cache      what is computed twice without a cache; which bits are the same with one
    latent     a latent of few numbers for keys and values; a rotation in its way
    memory     what a table of fixed size gives back after more and more pairs
    training   learning with and without 1 / sqrt(d), and with logits that grow
    sweep      the same claim at several widths and learning rates

>>> EXPERIMENTS["rules"](scores=(8.0, 7.0, 9.0)).weights["softmax"].round(3).tolist()
[0.245, 0.09, 0.665]

Not here: the prose around them (lessons/content), the registered figures (lessons/figures).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from attnscope.lessons.experiments.result import Result

NAMES: Final[tuple[str, ...]] = (
    "variance",
    "rules",
    "leak",
    "convex",
    "rotary",
    "sink",
    "cache",
    "latent",
    "memory",
    "training",
    "sweep",
)
"""The files, in the order of the course."""

__all__ = ["EXPERIMENTS", "NAMES", "Result"]


class _Experiments(Mapping[str, Callable[..., Any]]):
    """The `run` functions by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in NAMES:
            raise KeyError(f"experiment: unknown {name!r}; there are {', '.join(NAMES)}")
        run: Callable[..., Any] = importlib.import_module(f"{__name__}.{name}").run
        return run

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


EXPERIMENTS: Final[Mapping[str, Callable[..., Any]]] = _Experiments()
"""Every experiment by name; looking one up imports it."""
