"""Writes a trace layer by layer, so that a long capture never holds more than one.

The idea: each layer is checked (rules of every array, and a few rows recomputed against their
log-sum-exp) and written at once into a folder that nobody sees; the header comes last and the
folder then gets its name. What cannot be read back exactly is refused here, while the model that
made it is still there to ask.

Not here: the folder's safety (folder.py), the file's layout (tensors.py).
"""

from __future__ import annotations

import datetime
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np

from attnscope import __version__
from attnscope.errors import TraceError
from attnscope.trace.arrays import Arrays, MemoryArrays
from attnscope.trace.document import encode
from attnscope.trace.embeddings import Embeddings
from attnscope.trace.folder import NewFolder
from attnscope.trace.format import (
    ARRAYS,
    BLOCK,
    EMBEDDINGS,
    HEADER,
    MAX_COUNT,
    MAX_LAYERS,
    layer_file,
)
from attnscope.trace.header import FileInfo, Header, LayerInfo, read_header, read_layer, to_json
from attnscope.trace.layer import LayerRecord
from attnscope.trace.tensors import file_bytes

_DEFAULTS: Final[dict[str, Any]] = {"tokens": (), "text": "", "prompt_tokens": 0}
_FROM_ARRAYS: Final = (
    ("query_heads", "q", 0),
    ("kv_heads", "k", 0),
    ("head_width", "q", 2),
)


class TraceWriter:
    """A trace in the making; use it in a `with` block, which finishes or discards it.

    Args:
        path: the folder to make.
        header: a `Header`, or the fields of trace.json as a mapping: `model`, `mode`, `statistics`,
            and `tokens`, `text`, `prompt_tokens`, `sink_keys`, `local`, `about` where known.
            Entries under `layers` are what `add_layer` starts from.
        overwrite: whether a trace that stands at `path` is replaced (when this one is whole).

    Raises:
        TraceError: a field is wrong, something stands at `path`, or it cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        header: Header | Mapping[str, Any],
        *,
        overwrite: bool = False,
    ) -> None:
        self._header, self._known = as_header(header)
        self._layers: dict[int, LayerInfo] = {}
        self._keys: dict[int, int] = {}
        self._embeddings: Embeddings | None = None
        self._open = True
        self._folder = NewFolder(Path(os.path.abspath(path)), overwrite=overwrite)

    def add_layer(
        self, index: int, arrays: Mapping[str, np.ndarray] | None = None, **about: Any
    ) -> None:
        """Check one layer and write it.

        Args:
            index: the layer's number in the model; each once, in any order.
            arrays: as format.ARRAYS says. Statistics may come under their own names ([H, T] each)
                instead of packed in `statistics`. None for a layer without a map.
            about: the layer's fields in trace.json (`kind`, `window`, `value_width`, `scale`…)
                where the header does not have them; heads and widths are read from the arrays.

        Raises:
            TraceError: a field, a shape or a number is wrong, or the disk refuses.
            TypeError: an array of a dtype that a trace does not hold.
        """
        if not self._open:
            raise ValueError("this trace is finished; make a new writer")
        if index in self._layers:
            raise ValueError(f"layer {index} was added before")
        info = layer_info(index, self._known.get(index, {}), arrays, about)
        if index >= min(self._header.model.layers, MAX_LAYERS):
            raise TraceError(
                f"layer {index} is not one of the model's {self._header.model.layers} layers."
            )
        if arrays is not None:
            record = self._checked(info, arrays)
            self._keys[index] = record.keys
            try:
                stored = self._written(layer_file(index), record.arrays)
            except BaseException:
                self.abort()
                raise
            info = replace(info, file=stored.file, bytes=stored.bytes, crc32=stored.crc32)
        self._layers[index] = info

    def add_embeddings(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Check the embeddings of the text's tokens; they are written at the end.

        Args:
            arrays: `ids` int32 [U], rising, and `vectors` [U, C], a row for each.

        Raises:
            TraceError: a shape or a number is wrong.
            TypeError: an array of a dtype that a trace does not hold.
        """
        self._embeddings = Embeddings(MemoryArrays(arrays, EMBEDDINGS))
        self._embeddings.verify()

    def update(self, **fields: Any) -> None:
        """Change fields of the header that were not known at the start, such as `tokens`.

        Raises:
            TraceError: a field is wrong.
            ValueError: `statistics` or `layers`, which written layers depend on.
        """
        for name in ("statistics", "layers"):
            if name in fields:
                raise ValueError(f"{name}: cannot change after layers were written")
        self._header = read_header({**to_json(self._header), **fields})

    def finish(self) -> Path:
        """Write the header and give the folder its name.

        Returns: the path of the trace.

        Raises:
            TraceError: a layer does not have one key per token, or the disk refuses. Nothing is
                left behind then.
        """
        if not self._open:
            raise ValueError("this trace is finished already")
        try:
            tokens = len(self._header.tokens)
            for index, keys in self._keys.items():
                if tokens and keys != tokens and not self._layers[index].cross:
                    raise TraceError(
                        f"layer {index}: expected one key per token, {tokens}, got {keys}."
                    )
            layers = tuple(self._layers[index] for index in sorted(self._layers))
            stored = None
            if self._embeddings is not None:
                self._embeddings.check_tokens(self._header.tokens)
                stored = self._written(EMBEDDINGS, self._embeddings.arrays)
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            header = replace(
                self._header,
                layers=layers,
                embeddings=stored,
                created=self._header.created or now,
                attnscope=self._header.attnscope or __version__,
            )
            self._folder.write(HEADER, [encode(to_json(header))])
            self._folder.publish()
        except BaseException:
            self.abort()
            raise
        self._open = False
        return self._folder.path

    def abort(self) -> None:
        """Remove what was written; harmless after `finish`."""
        if self._open:
            self._open = False
            self._folder.discard()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._open:
            self.finish()
        self.abort()

    def _checked(self, info: LayerInfo, arrays: Mapping[str, np.ndarray]) -> LayerRecord:
        where = f"layer {info.index}"
        packed = pack(arrays, self._header.block, where)
        record = LayerRecord(info, MemoryArrays(packed, where), self._header)
        record.check_values()
        record.check_rows()
        return record

    def _written(self, file: str, arrays: Arrays) -> FileInfo:
        checksums = Checksums()
        pieces = file_bytes({name: arrays.read(name) for name in arrays.names()})
        self._folder.write(file, checksums.watch(pieces))
        return FileInfo(file, checksums.size, checksums.hex())


class Checksums:
    """CRC-32 of each block of a stream."""

    def __init__(self) -> None:
        self.size = 0
        self._values: list[int] = []

    def watch(self, pieces: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """Pass the pieces on, taking their checksums."""
        for piece in pieces:
            view, at = memoryview(piece), 0
            while at < len(view):
                if self.size % BLOCK == 0:
                    self._values.append(0)
                part = view[at : at + BLOCK - self.size % BLOCK]
                self._values[-1] = zlib.crc32(part, self._values[-1])
                self.size += len(part)
                at += len(part)
            yield piece

    def hex(self) -> str:
        """Eight hex digits for each block so far.

        >>> sums = Checksums()
        >>> list(sums.watch(iter([b"123456789"]))), sums.hex()
        ([b'123456789'], 'cbf43926')
        """
        return "".join(f"{value:08x}" for value in self._values)


def as_header(header: Header | Mapping[str, Any]) -> tuple[Header, dict[int, dict[str, Any]]]:
    """Check a header that a caller wrote, and set its layers' fields apart.

    Fields that an unfinished trace may not know yet (`tokens`, `text`, `prompt_tokens`) may be
    missing.
    """
    if isinstance(header, Header):
        header = to_json(header)
    if not isinstance(header, Mapping):
        raise TypeError(f"header: expected a Header or a mapping, got {type(header).__name__}")
    entries = header.get("layers", ())
    if not isinstance(entries, list | tuple) or not all(isinstance(e, Mapping) for e in entries):
        raise TraceError("trace.json: layers: expected a list of objects.")
    known: dict[int, dict[str, Any]] = {}
    for entry in entries:
        index = entry.get("index")
        if not isinstance(index, int) or index in known:
            raise TraceError("trace.json: layers: expected each with a number of its own.")
        known[index] = dict(entry)
    return read_header({**_DEFAULTS, **header, "layers": ()}), known


def layer_info(
    index: int,
    known: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray] | None,
    about: Mapping[str, Any],
) -> LayerInfo:
    """A layer's entry from what the header, the caller and the arrays say."""
    fields: dict[str, Any] = {**known, **about, "index": index}
    for name in ("file", "bytes", "crc32"):
        fields.pop(name, None)
    if arrays is None:
        if fields.setdefault("kind", "none") != "none":
            raise TraceError(f"layer {index}: kind {fields['kind']}: its arrays are missing.")
        kept = ("index", "kind", "reason", "name")
        return read_layer({name: fields[name] for name in kept if name in fields})
    if fields.get("kind") == "none":
        raise TraceError(f"layer {index}: kind none: it has arrays, so it has a map.")
    for name, array, axis in _FROM_ARRAYS:
        if array not in arrays:
            raise TraceError(f"layer {index}: the array {array} is missing.")
        if not isinstance(arrays[array], np.ndarray):
            kind = type(arrays[array]).__name__
            raise TypeError(f"{array}: expected a numpy array, got {kind}")
        if arrays[array].ndim != 3:
            raise TraceError(f"layer {index}: {array}: expected three axes.")
        fields.setdefault(name, arrays[array].shape[axis])
    return read_layer(fields)


def pack(
    arrays: Mapping[str, np.ndarray], block: tuple[str, ...], where: str
) -> dict[str, np.ndarray]:
    """Put statistics that come under their own names into the one array `statistics`.

    >>> packed = pack({"entropy": np.zeros((2, 3), np.float32)}, ("entropy",), "layer 0")
    >>> packed["statistics"].shape
    (1, 2, 3)
    """
    packed = {name: _integers(name, array, where) for name, array in arrays.items()}
    loose = {name: packed.pop(name) for name in block if name in packed}
    if not loose:
        return packed
    missing = [name for name in block if name not in loose]
    if missing or "statistics" in packed:
        raise TraceError(
            f"{where}: the statistic {(missing or list(loose))[0]} is missing or twice."
        )
    shapes = {np.shape(array) for array in loose.values()}
    if len(shapes) != 1:
        raise TraceError(f"{where}: its statistics have different shapes.")
    packed["statistics"] = np.stack([loose[name] for name in block])
    return packed


def _integers(name: str, array: Any, where: str) -> Any:
    """Whole numbers of any width as int32, which the format holds; `map_cell` may be a number."""
    if name not in ARRAYS or ARRAYS[name].dtypes != ("I32",):
        return array
    array = np.atleast_1d(np.asarray(array))
    if array.dtype == np.int32 or array.dtype.kind not in "iu":
        return array
    if array.size and (array.min() < -1 or array.max() >= MAX_COUNT):
        raise TraceError(f"{where}: {name}: expected whole numbers that fit int32.")
    return array.astype(np.int32)
