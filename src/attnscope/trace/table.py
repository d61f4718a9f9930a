"""The statistics of a trace as a table: a row per layer, head and query, a column per statistic.

The idea: the table is a view. A column is put together from the layers' arrays when it is asked
for, so a trace of 32,768 tokens costs nothing until a column is read, and then that column only.

Units
    nats, tokens, shares of 1; the meaning of each column is that of core.request.

Not here: `received`, which has a value per key (Trace.received); kinds of heads (kinds.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from attnscope.trace.layer import LayerRecord

NO_MEAN = ("argmax",)
"""Columns that name something, and so have no mean."""


class Columns:
    """Named columns of one length."""

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        self._columns = dict(columns)
        self._names = tuple(self._columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return self._names

    def __len__(self) -> int:
        return len(self._columns[self._names[0]]) if self._names else 0

    def __getitem__(self, name: str) -> np.ndarray:
        """One column.

        Raises:
            KeyError: no such column; the message lists them.
        """
        if name not in self._names:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._names)}")
        return self._column(name)

    def _column(self, name: str) -> np.ndarray:
        return self._columns[name]

    def to_dict(self) -> dict[str, np.ndarray]:
        """All columns as arrays."""
        return {name: self[name] for name in self.names}

    def to_arrow(self) -> Any:
        """The table as `pyarrow.Table` (pip install 'attnscope[table]')."""
        import pyarrow

        return pyarrow.table({name: pyarrow.array(self[name]) for name in self.names})

    def to_pandas(self) -> Any:
        """The table as `pandas.DataFrame` (pip install 'attnscope[table]')."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def _line(self, index: int) -> list[str]:
        return [_say(self._columns[name][index]) for name in self.names]

    def __repr__(self) -> str:
        title = f"{type(self).__name__}: {len(self)} rows"
        if not self._names:
            return title
        shown = list(range(len(self))) if len(self) <= 10 else [*range(5), *range(-5, 0)]
        lines = [list(self.names), *(self._line(index % len(self)) for index in shown)]
        widths = [max(len(line[c]) for line in lines) for c in range(len(self.names))]
        text = ["  ".join(w.rjust(n) for w, n in zip(line, widths, strict=True)) for line in lines]
        if len(shown) < len(self):
            text.insert(6, "…")
        return "\n".join([title, *text])


class Means(Columns):
    """One row per layer and head: the mean of each statistic over the queries that see a key."""


class Statistics(Columns):
    """One row per layer, head and query, computed column by column from the layers' arrays."""

    def __init__(
        self, parts: Sequence[tuple[LayerRecord, np.ndarray]], statistics: tuple[str, ...]
    ) -> None:
        """`parts` are the layers and, of each, the heads that are in the table."""
        super().__init__({})
        self._parts = tuple(parts)
        self._statistics = statistics
        self._names = ("layer", "head", "query", *statistics)

    def __len__(self) -> int:
        return sum(len(heads) * record.queries for record, heads in self._parts)

    def _column(self, name: str) -> np.ndarray:
        pieces = [self._piece(name, record, heads) for record, heads in self._parts]
        empty = np.int32 if name in ("layer", "head", "query", "argmax") else np.float32
        return np.concatenate(pieces) if pieces else np.empty(0, empty)

    def _piece(self, name: str, record: LayerRecord, heads: np.ndarray) -> np.ndarray:
        rows = record.queries
        if name == "layer":
            return np.full(len(heads) * rows, record.info.index, np.int32)
        if name == "head":
            return np.repeat(heads.astype(np.int32), rows)
        if name == "query":
            return np.tile(np.arange(rows, dtype=np.int32), len(heads))
        values = record.statistic(name)
        return (values if len(heads) == len(values) else values[heads]).reshape(-1)

    def select(
        self, *, layer: int | Iterable[int] | None = None, head: int | Iterable[int] | None = None
    ) -> Statistics:
        """The rows of some layers and heads.

        Args:
            layer, head: a number or several; all if not given.

        Raises:
            ValueError: a layer that is not in this table, or a head that none of its layers has.
        """
        layers, wanted = _several(layer), _several(head)
        have = {record.info.index for record, _ in self._parts}
        for number in layers or ():
            if number not in have:
                raise ValueError(f"layer: {number} is not in this table; there are {sorted(have)}")
        parts = []
        for record, heads in self._parts:
            if layers is None or record.info.index in layers:
                kept = heads if wanted is None else heads[np.isin(heads, sorted(wanted))]
                if len(kept):
                    parts.append((record, kept))
        if wanted is not None:
            found: set[int] = set()
            found.update(*(heads.tolist() for _, heads in parts))
            if wanted - found:
                raise ValueError(f"head: no layer of this table has a head {min(wanted - found)}")
        return Statistics(parts, self._statistics)

    def mean(self) -> Means:
        """The mean of each statistic per layer and head, over the queries that see a key.

        `argmax` has none. A head all of whose rows are empty has NaN.
        """
        names = [name for name in self._statistics if name not in NO_MEAN]
        columns: dict[str, list[Any]] = {name: [] for name in ("layer", "head", *names)}
        for record, heads in self._parts:
            alive = record.sight > 0
            columns["layer"] += [np.full(len(heads), record.info.index, np.int32)]
            columns["head"] += [heads.astype(np.int32)]
            for name in names:
                values = record.statistic(name)[heads]
                if not alive.all():
                    values = values[:, alive]
                count = values.shape[1]
                total = values.sum(axis=1, dtype=np.float64)
                columns[name] += [total / count if count else np.full(len(heads), np.nan)]
        empty = {"layer": np.int32, "head": np.int32}
        return Means(
            {
                name: np.concatenate(pieces) if pieces else np.empty(0, empty.get(name, np.float64))
                for name, pieces in columns.items()
            }
        )

    def _line(self, index: int) -> list[str]:
        for record, heads in self._parts:
            size = len(heads) * record.queries
            if index < size:
                head, row = int(heads[index // record.queries]), index % record.queries
                cells = [record.info.index, head, row]
                cells += [record.statistic(name)[head, row] for name in self._statistics]
                return [_say(cell) for cell in cells]
            index -= size
        raise IndexError(index)


def _several(value: int | Iterable[int] | None) -> set[int] | None:
    if value is None:
        return None
    return {int(value)} if isinstance(value, int | np.integer) else {int(v) for v in value}


def _say(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
