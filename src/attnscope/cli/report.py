"""What `attnscope look` has to say, as plain numbers: the same for people and for --json.

The idea: everything printed is first one object; the picture and the JSON are two ways to write it.

Units
    entropy in nats; distance in tokens; weight is a share of one row; arrived is the norm of what
    the key's value became on its way out of the head (weight times the norm of W_O v).

Not here: how it looks (picture.py), where the numbers come from (the trace).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Final

SCHEMA: Final = "attnscope.look/1"

MODEL_FACTS: Final = (
    "name",
    "architecture",
    "layers",
    "query_heads",
    "kv_heads",
    "head_width",
)
TIMES: Final = ("load_s", "forward_s")

HEAD_VALUES: Final = (
    "entropy",
    "max_weight",
    "max_logit",
    "sink_mass",
    "self_mass",
    "previous_mass",
    "mean_distance",
    "jacobian_norm",
)
"""Statistics of a head, each the mean over its query rows."""


@dataclass(frozen=True)
class TokenLine:
    """One token: its place, its id, its text, and its bytes in the text."""

    index: int
    id: int
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class HeadLine:
    """One head: where it is, what kind it is, and its mean statistics (None: not a number)."""

    layer: int
    head: int
    kind: str
    values: dict[str, float | None]


@dataclass(frozen=True)
class LayerLine:
    """One layer: how it attends, or why it has no map; `groups` heads share one key/value head."""

    index: int
    kind: str
    heads: int
    groups: int
    window: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Attended:
    """What one query takes from one key; `arrived` is None where the model does not tell."""

    query: int
    key: int
    weight: float
    arrived: float | None


@dataclass(frozen=True)
class Chosen:
    """The row that `attended` is about, and why it was chosen (None: the user named it)."""

    layer: int
    head: int
    query: int
    why: str | None
    sink_share: float = 0.0


@dataclass(frozen=True)
class NextToken:
    """A token the model may say next, its text quoted as the labels are."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class Report:
    """The answer of one `attnscope look`.

    Attributes:
        attended: keys from the largest weight down, all those in sight of the chosen row.
        labels: how each token is printed, quoted, in the tokens' order.
        saved: the folder the trace was written to, if it was.
    """

    model: dict[str, Any]
    tokens: list[TokenLine]
    layers: list[LayerLine]
    heads: list[HeadLine]
    next: list[NextToken]
    chosen: Chosen
    attended: list[Attended]
    labels: list[str]
    timing: dict[str, float]
    peak_bytes: int | None
    saved: str | None = None
    notes: list[str] = field(default_factory=list)


def finite(value: float) -> float | None:
    """The number, or None where it is none (JSON has no word for infinity).

    >>> finite(0.5), finite(float("-inf"))
    (0.5, None)
    """
    return float(value) if math.isfinite(value) else None


def split_mass(rows: list[Attended], mass: float, most: int) -> tuple[list[Attended], int]:
    """How many of the rows, largest first, are needed for a share of the row's weight.

    Returns:
        the rows to show (at most `most`), and how many are left.

    >>> rows = [Attended(3, 0, 0.6, 1.0), Attended(3, 2, 0.35, 1.0), Attended(3, 1, 0.05, 1.0)]
    >>> [row.key for row in split_mass(rows, 0.9, 10)[0]], split_mass(rows, 0.9, 1)[1]
    ([0, 2], 2)
    """
    total = sum(row.weight for row in rows)
    shown: list[Attended] = []
    so_far = 0.0
    for row in rows:
        if len(shown) == most or so_far >= mass * total:
            break
        shown.append(row)
        so_far += row.weight
    return shown, len(rows) - len(shown)


def to_json(report: Report) -> dict[str, Any]:
    """The report as the JSON contract has it."""
    return {
        "schema": SCHEMA,
        "model": report.model,
        "tokens": [asdict(token) for token in report.tokens],
        "layers": [
            {"index": line.index, "kind": line.kind, "window": line.window, "reason": line.reason}
            for line in report.layers
        ],
        "heads": [
            {"layer": line.layer, "head": line.head, "kind": line.kind, **line.values}
            for line in report.heads
        ],
        "next": [asdict(token) for token in report.next],
        "chosen": {
            "layer": report.chosen.layer,
            "head": report.chosen.head,
            "query": report.chosen.query,
        },
        "attended": [asdict(row) for row in report.attended],
        "timing": report.timing,
        "memory": {"peak_bytes": report.peak_bytes},
    }
