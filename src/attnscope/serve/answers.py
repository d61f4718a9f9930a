"""What a page may ask about traces, whoever carries the question: HTTP or a notebook's channel.

The idea: a question is a path and a query string, an answer is a media type and pieces of work that
each give some bytes. Everything that can be wrong with a question is found before the first piece,
so a carrier can still say so; pieces are done one by one, so it can stop between any two.

    /traces  /models
    /traces/{id}/info | tokens | heads | head | cell | similar | expected       JSON
    /traces/{id}/tiles | tracks | row | column | flow             records of attnscope.tiles
    /traces/{id}/table                                            CSV or Parquet

Not here: status codes and streams (app.py), the channel (attnscope.widget).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Final

from attnscope import tiles as records
from attnscope.serve.parse import Query
from attnscope.serve.store import Store, UnknownTraceError
from attnscope.serve.table import FORMATS, table
from attnscope.tiles import MEASURES, TILE, TRACKS, Tiles

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
SCHEMA: Final = "attnscope.serve/1"
MOST_SIMILAR: Final = 256
MOST_LEVEL: Final = 32
HOW: Final = ("mean", "sum")

Part = Callable[[], bytes]
Check = Callable[[], None]


@dataclass(frozen=True)
class Answer:
    """An answer in the making.

    Attributes:
        media: its type.
        parts: pieces of work in order; the answer is what they give, one after another.
        file: the name under which a reader would keep it, or None.
    """

    media: str
    parts: Iterable[Part]
    file: str | None = None


class UnknownPathError(LookupError):
    """Nothing answers to this path."""


Asked = Callable[[Tiles, Query, Check | None], Answer]


class Answers:
    """Answers questions about the traces of a store.

    Args:
        store: the open traces.
        models: gives the list of models (types.js: DataSource.models).
    """

    def __init__(self, store: Store, models: Callable[[], list[dict[str, Any]]]) -> None:
        self._store, self._models = store, models

    def ask(self, path: str, query: str, *, check: Check | None = None) -> Answer:
        """Check a question and begin its answer.

        Args:
            path: as above.
            query: the query string, without its question mark.
            check: called during long work; what it raises ends it.

        Raises:
            UnknownPathError, UnknownTraceError: nobody answers to this path; no such trace.
            ValueError: a parameter; the message names it and its range.
            TraceError: the trace is damaged.
        """
        given = Query.read(query)
        if path in ("/traces", "/models"):
            given.done()
            if path == "/models":
                return to_json({"schema": SCHEMA, "models": self._models()})
            return to_json({"schema": SCHEMA, "traces": self._store.entries()})
        words = path.split("/")
        if len(words) != 4 or words[:2] != ["", "traces"] or words[3] not in _ASKED:
            raise UnknownPathError("There is nothing here.")
        return _ASKED[words[3]](self._store.tiles(words[2]), given, check)


def to_json(value: Any) -> Answer:
    """An answer that is one JSON value.

    Raises:
        ValueError: a number in it is not finite.
    """
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate of a damaged text must not end the answer.
    encoded = body.encode("utf-8", "replace")
    return Answer(JSON, [lambda: encoded])


def _plain(name: str) -> Asked:
    def asked(tiles: Tiles, given: Query, check: Check | None) -> Answer:
        given.done()
        return to_json(getattr(tiles, name)())

    return asked


def _head(given: Query) -> tuple[int, int]:
    return given.integer("layer"), given.integer("head")


def _tiles(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    measure = given.choice("measure", MEASURES)
    level, at = given.integer("level", most=MOST_LEVEL), given.places("at")
    given.done()
    known = _layer(tiles, layer)
    if known is not None:
        _check_level(known, level)
        for x, y in at:
            _check_place("at: column", x, _across(known["keys"], level))
            _check_place("at: row", y, _across(known["queries"], level))
        _check_head(known, head)

    def part(x: int, y: int) -> Part:
        return lambda: records.encode(tiles.tile(layer, head, measure, level, x, y, check=check))

    return Answer(BYTES, [part(x, y) for x, y in at])


def _tracks(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    names = given.words("names", TRACKS)
    level, at = given.integer("level", most=MOST_LEVEL), given.numbers("at")
    given.done()
    known = _layer(tiles, layer)
    if known is not None:
        _check_level(known, level)
        _check_head(known, head)
        for name in names:
            count = known["keys" if name == "received" else "queries"]
            for x in at:
                _check_place("at", x, _across(count, level))

    def part(name: str, x: int) -> Part:
        return lambda: records.encode_track(tiles.track(layer, head, name, level, x))

    return Answer(BYTES, [part(name, x) for name in names for x in at])


def _row(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    queries, how = given.chosen("queries"), given.choice("how", HOW, "mean")
    given.done()
    return _one(lambda: records.encode_row(tiles.row(layer, head, queries, how, check=check)))


def _column(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    keys, how = given.chosen("keys"), given.choice("how", HOW, "mean")
    given.done()
    return _one(lambda: records.encode_column(tiles.column(layer, head, keys, how, check=check)))


def _flow(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    queries, how = given.chosen("queries"), given.choice("how", HOW, "mean")
    given.done()
    return _one(lambda: records.encode_flow(tiles.flow(queries, how, check=check)))


def _one(part: Part) -> Answer:
    """An answer of one piece, done here: whatever is wrong with it can then still be said."""
    body = part()
    return Answer(BYTES, [lambda: body])


def _cell(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    query, key = given.integer("query"), given.integer("key")
    given.done()
    return to_json(asdict(tiles.cell(layer, head, query, key)))


def _handout(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    start = given.integer("from")
    given.done()
    return to_json(tiles.handout(layer, head, start, check=check))


def _similar(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    count = given.integer("count", most=MOST_SIMILAR)
    given.done()
    return to_json([asdict(one) for one in tiles.similar(layer, head, count, check=check)])


def _expected(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    given.done()
    found = tiles.expected(layer, head, check=check)
    density = [value if isfinite(value) else None for value in found.density.tolist()]
    return to_json({"cell": found.cell, "density": density})


def _table(tiles: Tiles, given: Query, check: Check | None) -> Answer:
    layer, head = _head(given)
    measure = given.choice("measure", MEASURES, "weight")
    rows, keys = given.span("rows"), given.span("keys")
    kind = given.choice("format", tuple(FORMATS), "csv")
    given.done()
    known = _layer(tiles, layer)
    if known is None:
        raise ValueError(f"layer: {layer} has no attention map in this trace")
    _check_head(known, head)
    for name, span, count in (("rows", rows, known["queries"]), ("keys", keys, known["keys"])):
        _check_place(name, span[1], count)
    parts = table(tiles, (layer, head, measure), rows=rows, keys=keys, kind=kind)
    return Answer(FORMATS[kind], parts, f"layer{layer}-head{head}-{measure}.{kind}")


def _layer(tiles: Tiles, index: int) -> dict[str, Any] | None:
    """What `info` says of a layer; None for one without a map, which is an answer of its own."""
    found: dict[str, Any]
    for found in tiles.info()["layers"]:
        if found["index"] == index and found["kind"] != "none":
            return found
    return None


def _across(count: int, level: int) -> int:
    """How many tiles a side has at a level."""
    cells = -(-count // (1 << level))
    return max(1, -(-cells // TILE))


def _check_level(known: dict[str, Any], level: int) -> None:
    if level >= known["levels"]:
        raise ValueError(f"level: expected 0 to {known['levels'] - 1}, got {level}")


def _check_head(known: dict[str, Any], head: int) -> None:
    if head >= known["query_heads"]:
        raise ValueError(
            f"head: {head} is not one of the {known['query_heads']} heads of layer {known['index']}"
        )


def _check_place(name: str, at: int, count: int) -> None:
    if at >= count:
        raise ValueError(f"{name}: expected 0 to {count - 1}, got {at}")


_ASKED: Final[dict[str, Asked]] = {
    "info": _plain("info"),
    "tokens": _plain("token_table"),
    "heads": _plain("heads"),
    "head": _handout,
    "tiles": _tiles,
    "tracks": _tracks,
    "row": _row,
    "column": _column,
    "flow": _flow,
    "cell": _cell,
    "similar": _similar,
    "expected": _expected,
    "table": _table,
}

__all__ = ["Answer", "Answers", "UnknownPathError", "UnknownTraceError", "to_json"]
