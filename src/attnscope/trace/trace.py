"""A captured run: who was observed, every statistic, and any weight of any head, exactly.

The idea: one class, whether the arrays are in memory or in a mapped folder. It holds queries,
keys and one log-sum-exp per row; weights are recomputed for the rows that are asked for, so a trace
of 32,768 tokens answers in milliseconds and in the memory of one row.

Shapes
    weights [t, S]: queries as rows, keys as columns; query r stands at key position S - T + r.

Not here: what a layer does with its arrays (layer.py), how files are written (writer.py).
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from attnscope._callable import LateMethod
from attnscope.errors import TraceError
from attnscope.trace.arrays import MemoryArrays
from attnscope.trace.embeddings import Embeddings
from attnscope.trace.format import EMBEDDINGS
from attnscope.trace.header import Header, LayerInfo, ModelInfo, Scalar, Token
from attnscope.trace.kinds import HeadKind, layer_kinds
from attnscope.trace.layer import LayerRecord, MapPlanes
from attnscope.trace.table import Statistics
from attnscope.trace.writer import TraceWriter, as_header, layer_info, pack

WEIGHTS_LIMIT: Final = 2 << 30
"""Bytes of weights that one call returns at most; a whole map of a long text is a mistake."""


class Attended(NamedTuple):
    """One key that a query looks at.

    `arrived` is the norm of what came from there, weight times |W_O v|; None where the model's
    output projection was not found.
    """

    key: int
    weight: float
    arrived: float | None


class Trace:
    """What `attnscope.capture` and `attnscope.open` give.

    Attributes:
        header: all of trace.json.
        path: the folder, or None for a trace in memory.
    """

    def __init__(
        self,
        header: Header,
        records: Mapping[int, LayerRecord],
        *,
        path: Path | None = None,
        embeddings: Embeddings | None = None,
    ) -> None:
        self.header, self.path = header, path
        self._records, self._embeddings = dict(records), embeddings

    @staticmethod
    def from_arrays(
        header: Header | Mapping[str, Any],
        layers: Mapping[int, Mapping[str, np.ndarray]],
        *,
        embeddings: Mapping[str, np.ndarray] | None = None,
    ) -> Trace:
        """A trace in memory.

        Args:
            header: the fields of trace.json; `layers` says kind, scale, window… of each layer.
            layers: by layer number, the arrays that format.ARRAYS names (statistics may come under
                their own names). Layers of kind "none" have no entry.
            embeddings: `ids` int32 [U], rising, and `vectors` [U, C], a row for each.

        Raises:
            TraceError: a field or an array is not as the format says.

        Cost: a few passes over the arrays; they are not copied.
        """
        read, known = as_header(header)
        for index in layers:
            known.setdefault(index, {"index": index})
        infos, packed = [], {}
        for index in sorted(known):
            arrays = layers.get(index)
            if arrays is not None:
                arrays = packed[index] = pack(arrays, read.block, f"layer {index}")
            infos.append(layer_info(index, known[index], arrays, {}))
        if infos and infos[-1].index >= read.model.layers:
            raise TraceError(
                f"layer {infos[-1].index} is not one of the model's {read.model.layers} layers."
            )
        whole = read.with_layers(infos)
        records = {}
        for info in infos:
            if info.has_map:
                held = MemoryArrays(packed[info.index], f"layer {info.index}")
                records[info.index] = record = LayerRecord(info, held, whole)
                record.check_values()
                record.check_rows()
        kept = None
        if embeddings is not None:
            kept = Embeddings(MemoryArrays(embeddings, EMBEDDINGS))
            kept.verify()
            kept.check_tokens(whole.tokens)
        return Trace(whole, records, embeddings=kept)

    @property
    def model(self) -> ModelInfo:
        """The model that was observed."""
        return self.header.model

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens, with their byte spans in `text`."""
        return self.header.tokens

    @property
    def layers(self) -> tuple[LayerInfo, ...]:
        """The layers that were captured, and those that have no map, with the reason."""
        return self.header.layers

    @property
    def text(self) -> str:
        """The text, generated tokens included."""
        return self.header.text

    @property
    def mode(self) -> str:
        """How it was captured: "replace" or "beside"."""
        return self.header.mode

    @property
    def prompt_tokens(self) -> int:
        """How many of the tokens were given; those after them were generated."""
        return self.header.prompt_tokens

    @property
    def about(self) -> Mapping[str, Scalar]:
        """Further facts of the capture, such as times."""
        return self.header.about

    @property
    def statistics(self) -> Statistics:
        """A row per layer, head and query; see `Statistics`."""
        parts = [(r, np.arange(r.info.query_heads)) for r in self._ordered()]
        names = tuple(name for name in self.header.statistics if name != "received")
        return Statistics(parts, names)

    def layer(self, layer: int) -> LayerRecord:
        """The arrays of one layer.

        Raises:
            ValueError: the layer was not captured, or has no map; the message says which.
            TypeError: `layer` is not a whole number.
        """
        layer = _whole("layer", layer)
        if layer in self._records:
            return self._records[layer]
        for info in self.layers:
            if info.index == layer:
                raise ValueError(f"layer: {layer} has no attention map: {info.reason}")
        raise ValueError(f"layer: {layer} is not in this trace; there are {sorted(self._records)}")

    def weights(
        self,
        layer: int,
        head: int,
        queries: int | slice | Iterable[int] | None = None,
        *,
        dtype: type | np.dtype = np.float32,
    ) -> np.ndarray:
        """Exact attention weights, [t, S] with t the number of queries asked for.

        Args:
            queries: a row (the result still has two axes), a slice, or several; negative numbers
                count from the end; all if not given.
            dtype: float32 or float64, in which scores and weights are computed.

        Returns:
            weights as the model had them: a row sums to one, less the share of a learned sink, and
            is never renormalised; a row that sees nothing is 0.

        Raises:
            ValueError: a layer, head or query that is not there, or more than 2 GiB of weights.
            TypeError: one that is not a whole number.
            TraceError: the numbers do not fit each other; the trace is damaged.

        Cost: 2 t S D FLOPs; memory of the result and some 32 MiB.
        """
        record = self._head(layer, head)
        dtype = np.dtype(dtype)
        if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"dtype: expected float32 or float64, got {dtype}")
        rows = _rows(queries, record.queries)
        size = len(rows) * record.keys * dtype.itemsize
        if size > WEIGHTS_LIMIT:
            raise ValueError(
                f"queries: {len(rows)} rows of {record.keys} weights are {size / 2**30:.1f} GiB; "
                "ask for a slice of them"
            )
        return record.weights(head, rows, dtype=dtype)

    def attended(self, layer: int, head: int, query: int, *, mass: float = 0.9) -> list[Attended]:
        """The keys that a query takes its information from, the largest weight first.

        Args:
            query: negative counts from the end.
            mass: the share (0 < mass <= 1) of the row's weight on tokens after which the list
                ends. A learned sink's share is on no token and does not count.

        Returns:
            As few keys as hold that share, ties by the earlier key; none for a row that sees
            nothing. `arrived` is weight times the norm of the projected value.

        Raises:
            ValueError, TypeError, TraceError: as `weights`.
        """
        if not 0 < mass <= 1:
            raise ValueError(f"mass: expected more than 0 and at most 1, got {mass}")
        record = self._head(layer, head)
        rows = _rows(_whole("query", query), record.queries)
        row = record.weights(head, rows, dtype=np.float64)[0]
        order = np.argsort(-row, kind="stable")
        order = order[row[order] > 0]
        held = np.cumsum(row[order])
        if len(held) and mass < 1:
            # the room of one rounding keeps ten equal weights of 0.1 at nine for a mass of 0.9
            goal = mass * held[-1] * (1 - 1e-12)
            order = order[: int(np.searchsorted(held, goal)) + 1]
        norms = record.norms(head)
        return [
            Attended(int(j), float(row[j]), None if norms is None else float(row[j] * norms[j]))
            for j in order
        ]

    def received(self, layer: int, head: int) -> np.ndarray:
        """How much each key is looked at, [S]: the sum of its weights over the captured queries."""
        return self._head(layer, head).statistic("received")[head]

    def embeddings(self, tokens: slice | None = None) -> np.ndarray | None:
        """The model's input embeddings of some tokens, float32 or float64 [n, C].

        Before positions, scales and norms: rows of the table that token ids are looked up in.

        Args:
            tokens: which, by their places in the text; all if not given.

        Returns: None where the capture did not keep them.

        Raises:
            TraceError: they are damaged.
        """
        if self._embeddings is None:
            return None
        return self._embeddings.of([token.id for token in self.tokens[tokens or slice(None)]])

    def map(self, layer: int, head: int) -> MapPlanes | None:
        """The pooled map of one head ([y, x] planes), or None where none was captured."""
        planes = self._head(layer, head).map()
        if planes is None:
            return None
        return MapPlanes(planes.cell, planes.mean[head], planes.max[head], planes.argmax[head])

    def kinds(self) -> list[HeadKind]:
        """The kind of each head, by the rules of kinds.py, in the order of layers and heads.

        Raises:
            ValueError: a statistic that the rules need was not captured.
        """
        return [kind for record in self._ordered() for kind in layer_kinds(record, self.header)]

    def verify(self) -> None:
        """Read all of it: checksums, the rule of every array, and rows of every head.

        Raises:
            TraceError: the first thing that is wrong.

        Cost: one pass over the files.
        """
        for record in self._ordered():
            record.verify()
        if self._embeddings is not None:
            self._embeddings.verify()
            self._embeddings.check_tokens(self.tokens)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the trace to a folder, which appears whole or not at all.

        Args:
            overwrite: whether a trace that stands there is replaced.

        Raises:
            TraceError: something stands there, or the disk refuses; nothing is left behind.
        """
        with TraceWriter(path, self.header, overwrite=overwrite) as writer:
            for info in self.layers:
                if not info.has_map:
                    writer.add_layer(info.index)
                    continue
                arrays = self._records[info.index].arrays
                writer.add_layer(info.index, {name: arrays.read(name) for name in arrays.names()})
            if self._embeddings is not None:
                arrays = self._embeddings.arrays
                writer.add_embeddings({name: arrays.read(name) for name in arrays.names()})
            return writer.finish()

    to_html = LateMethod("attnscope.serve.export:to_html")
    """Write a part of the trace as one stand-alone page; needs `attnscope[serve]`'s part alone."""

    def __repr__(self) -> str:
        heads = sum(layer.query_heads for layer in self.layers if layer.has_map)
        return (
            f"<Trace of {self.model.name}: {len(self.tokens)} tokens, "
            f"{len(self._records)} layers, {heads} heads>"
        )

    def _ordered(self) -> list[LayerRecord]:
        return [self._records[index] for index in sorted(self._records)]

    def _head(self, layer: int, head: int) -> LayerRecord:
        record, head = self.layer(layer), _whole("head", head)
        if not 0 <= head < record.info.query_heads:
            raise ValueError(
                f"head: {head} is not one of the {record.info.query_heads} heads of layer {layer}"
            )
        return record


def _rows(queries: int | slice | Iterable[int] | None, count: int) -> np.ndarray:
    """The query indices asked for, each 0 <= r < count."""
    if queries is None:
        return np.arange(count)
    if isinstance(queries, slice):
        return np.arange(count)[queries]
    try:
        wanted = [operator.index(queries)]  # type: ignore[arg-type]
    except TypeError:
        if isinstance(queries, str) or not isinstance(queries, Iterable):
            queries = [queries]
        wanted = [_whole("queries", row) for row in queries]
    for row in wanted:
        if not -count <= row < count:
            raise ValueError(f"queries: {row} is not one of the {count} queries")
    return np.array([row % count for row in wanted], np.int64)


def _whole(name: str, value: Any) -> int:
    """A whole number of any type that is one, numpy's too.

    Raises:
        TypeError: it is not.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {value!r}") from None
