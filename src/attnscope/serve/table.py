"""The numbers of a window of the map as a file: one line per pair in sight.

The idea: level 0 of the map is exact, so the table is read from its tiles, a band of at most 256
rows at a time; only one band is ever in memory, whatever is asked for.

Columns: query, key, and the measure; pairs out of sight have no line.

Not here: what a measure is (attnscope.tiles).
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from attnscope.tiles import TILE, Tiles

FORMATS: Final = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
MOST_CELLS: Final = 4_000_000

Part = Callable[[], bytes]
Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


def table(
    tiles: Tiles,
    what: tuple[int, int, str],
    *,
    rows: tuple[int, int],
    keys: tuple[int, int],
    kind: str,
) -> Iterator[Part]:
    """The pieces of a file.

    Args:
        what: layer, head, measure.
        rows, keys: the first and the last of each, within the map.
        kind: "csv" or "parquet".

    Returns:
        Work that gives the file's bytes, piece after piece; to be done in order.

    Raises:
        ValueError: more than 4 million cells, or Parquet without pyarrow.
    """
    cells = (rows[1] - rows[0] + 1) * (keys[1] - keys[0] + 1)
    if cells > MOST_CELLS:
        raise ValueError(
            f"rows, keys: {cells:,} cells; a table has at most {MOST_CELLS:,}; choose fewer"
        )
    write = _csv if kind == "csv" else _parquet()
    bands = [partial(_band, tiles, what, cut, keys) for cut in _cuts(rows[0], rows[1] + 1)]
    return write(what[2].replace("-", "_"), bands)


def _cuts(start: int, stop: int) -> list[tuple[int, int]]:
    """A range cut where tiles begin."""
    edges = [start, *range((start // TILE + 1) * TILE, stop, TILE), stop]
    return list(itertools.pairwise(edges))


def _band(
    tiles: Tiles, what: tuple[int, int, str], rows: tuple[int, int], keys: tuple[int, int]
) -> Columns:
    """The pairs in sight of some rows within one tile's height."""
    layer, head, measure = what
    y, top = rows[0] // TILE, rows[0] // TILE * TILE
    parts = []
    for start, stop in _cuts(keys[0], keys[1] + 1):
        x, left = start // TILE, start // TILE * TILE
        found = tiles.tile(layer, head, measure, 0, x, y)
        if found.mean is None:
            parts.append(np.full((rows[1] - rows[0], stop - start), np.nan, np.float32))
        else:
            parts.append(found.mean[rows[0] - top : rows[1] - top, start - left : stop - left])
    whole = np.concatenate(parts, axis=1)
    query, key = np.nonzero(~np.isnan(whole))
    return query + rows[0], key + keys[0], whole[query, key]


def _csv(measure: str, bands: Sequence[Callable[[], Columns]]) -> Iterator[Part]:
    def lines(band: Callable[[], Columns]) -> bytes:
        query, key, value = (column.tolist() for column in band())
        # nine digits bring a float32 back exactly
        return "".join(map("%d,%d,%.9g\n".__mod__, zip(query, key, value, strict=True))).encode()

    # The heading comes with the first band, so that damage there is found before anything is sent.
    yield lambda: f"query,key,{measure}\n".encode() + lines(bands[0])
    for band in bands[1:]:
        yield partial(lines, band)


def _parquet() -> Callable[[str, Sequence[Callable[[], Columns]]], Iterator[Part]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise ValueError(
            "format: parquet needs the package pyarrow (pip install 'attnscope[table]'); or ask "
            "for csv"
        ) from None

    def write(measure: str, bands: Sequence[Callable[[], Columns]]) -> Iterator[Part]:
        fields = [
            ("query", pyarrow.int32()),
            ("key", pyarrow.int32()),
            (measure, pyarrow.float32()),
        ]
        schema = pyarrow.schema(fields)
        sink = io.BytesIO()
        writer: Any = parquet.ParquetWriter(_Sink(sink), schema)

        def taken() -> bytes:
            body = sink.getvalue()
            sink.seek(0)
            sink.truncate()
            return body

        def one(band: Callable[[], Columns]) -> bytes:
            arrays = [
                pyarrow.array(column, field.type)
                for column, field in zip(band(), schema, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            return taken()

        def end() -> bytes:
            writer.close()
            return taken()

        for band in bands:
            yield partial(one, band)
        yield end

    return write


class _Sink(io.RawIOBase):
    """A file that counts what went through it, so that its buffer can be emptied on the way."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__()
        self._buffer, self._at = buffer, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        count = self._buffer.write(data)
        self._at += count
        return count

    def tell(self) -> int:
        return self._at
