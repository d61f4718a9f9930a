"""A trace that somebody made to do harm is an error, soon, in little memory, and never an answer.

Every hostile file here carries checksums that fit, as its maker would see to.
"""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trace_samples import (
    Case,
    header,
    layer,
    replace_file,
    rewrite_layer,
    sign,
    sign_text,
    trace,
)

from attnscope.errors import TraceError
from attnscope.trace import Trace, TraceWriter, open_trace
from attnscope.trace.format import MAX_HEADER, MAX_TENSOR_HEADER

CASE = Case(sinks=True, window=6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return trace(CASE).save(tmp_path / "t")


def refused(folder: Path, said: str = ".") -> None:
    with pytest.raises(TraceError, match=said):
        open_trace(folder)


LAYER_FIELDS = [
    ({"file": "../../../etc/passwd"}, "file: expected a name like"),
    ({"file": "/etc/passwd"}, "file: expected a name like"),
    ({"file": "layers/../layers/000.safetensors"}, "file"),
    ({"file": "layers/000.safetensors\n"}, "file"),
    ({"file": "layers/000.safetensors\0"}, "file"),
    ({"file": "layers/001.safetensors"}, "cannot be opened"),
    ({"file": None}, "names no file"),
    ({"file": 7}, "file"),
    ({"window": -1}, "window"),
    ({"window": 0}, "window"),
    ({"window": 10**30}, "window"),
    ({"window": 2.5}, "window"),
    ({"query_heads": 10**9}, "expected shape"),
    ({"query_heads": 6}, "expected shape"),
    ({"query_heads": 5}, "a multiple of"),
    ({"query_heads": 0}, "query_heads"),
    ({"kv_heads": True}, "kv_heads"),
    ({"kv_heads": 1}, "expected shape"),
    ({"head_width": 9}, "expected shape"),
    ({"value_width": -5}, "value_width"),
    ({"scale": "big"}, "scale"),
    ({"scale": 10**400}, "scale"),
    ({"scale": None}, "scale"),
    ({"softcap": 0}, "softcap"),
    ({"softcap": -3.0}, "softcap"),
    ({"causal": 1}, "causal"),
    ({"cross": "no"}, "cross"),
    ({"kind": "Full!"}, "kind"),
    ({"kind": "none"}, "reason"),
    ({"bytes": 0}, "crc32|bytes"),
    ({"bytes": 1 << 60}, "bytes"),
    ({"bytes": -8}, "bytes"),
    ({"crc32": ""}, "crc32"),
    ({"crc32": "zz" * 4}, "crc32"),
    ({"crc32": "00000000"}, "not those that were written"),
    ({"index": 10**9}, "index"),
    ({"index": -1}, "index"),
    ({"index": 1}, "rising numbers"),
    ({"surprise": 1}, "unknown field"),
]


@pytest.mark.parametrize(("fields", "said"), LAYER_FIELDS)
def test_a_layer_entry_is_checked(folder: Path, fields: dict[str, Any], said: str) -> None:
    rewrite_layer(folder, 0, **fields)
    refused(folder, said)


TOKEN = {"index": 0, "id": 0, "text": "a", "start": 0, "end": 1}
FIELDS = [
    ({"model": {}}, "name"),
    ({"model": None}, "expected an object"),
    ({"layers": {}}, "layers"),
    ({"layers": [[]]}, "expected an object"),
    ({"layers": [{"index": 0, "kind": "none", "reason": "x"}] * 5000}, "at most"),
    ({"layers": [{"index": 9, "kind": "none", "reason": "x"}]}, "not one of the model's 2"),
    ({"mode": "sideways"}, "mode"),
    ({"tokens": {}}, "tokens"),
    ({"tokens": []}, "prompt_tokens"),
    ({"tokens": [], "prompt_tokens": 0}, ""),
    ({"tokens": [TOKEN], "prompt_tokens": 1}, "one key per token"),
    ({"tokens": [{**TOKEN, "end": 10**6}]}, "end"),
    ({"tokens": [{**TOKEN, "start": 2}]}, "at least start"),
    ({"tokens": [{**TOKEN, "start": -1}]}, "start"),
    ({"tokens": [{**TOKEN, "index": 1}]}, "its place"),
    ({"tokens": [{**TOKEN, "id": 1.5}]}, "id"),
    ({"tokens": [{**TOKEN, "text": "\ud800"}]}, "valid characters"),
    ({"tokens": [{**TOKEN, "text": None}]}, "text"),
    ({"text": 5}, "text"),
    ({"text": "short"}, "start|end"),
    ({"prompt_tokens": 25}, "prompt_tokens"),
    ({"prompt_tokens": -1}, "prompt_tokens"),
    ({"statistics": "entropy"}, "statistics"),
    ({"statistics": ["entropy", "entropy"]}, "statistics"),
    ({"statistics": [["entropy"]]}, "statistics"),
    ({"statistics": [f"s{n}" for n in range(100)]}, "statistics"),
    ({"statistics": ["entropy"]}, "does not name|expected shape"),
    ({"statistics": []}, "does not name"),
    ({"sink_keys": 0}, "sink_keys"),
    ({"local": "8"}, "local"),
    ({"about": {"a": [1]}}, "about"),
    ({"about": 3}, "about"),
    ({"unheard_of": 1}, "unknown field"),
]


@pytest.mark.parametrize(("fields", "said"), FIELDS)
def test_the_header_is_checked(folder: Path, fields: dict[str, Any], said: str) -> None:
    value = json.loads((folder / "trace.json").read_text())
    text = json.dumps({**value, **fields})  # ASCII, so that a lone surrogate can be written
    (folder / "trace.json").write_bytes(sign_text(text))
    if said:
        refused(folder, said)
    else:
        open_trace(folder).verify()  # a record of no text, as from a vision model


@pytest.mark.parametrize("name", ["model", "mode", "tokens", "text", "statistics", "prompt_tokens"])
def test_a_missing_field_is_named(folder: Path, name: str) -> None:
    value = json.loads((folder / "trace.json").read_text())
    del value[name]
    (folder / "trace.json").write_bytes(sign(value))
    refused(folder, name)


BOMBS: dict[str, bytes] = {
    "nested": b'{"format": "attnscope.trace", "a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "many lists": b'{"a": [' + b"[]," * 9_000_000 + b"[]]}",
    "a number twice": b'{"format": "attnscope.trace", "version": 1, "version": 1}',
    "not a number": b'{"format": "attnscope.trace", "scale": NaN}',
    "infinite": b'{"format": "attnscope.trace", "scale": -Infinity}',
    "endless digits": b'{"format": "attnscope.trace", "version": ' + b"9" * 100_000 + b"}",
    "endless exponent": b'{"format": "attnscope.trace", "version": 1e999999}',
    "not UTF-8": b'{"format": "attnscope.trace\xff"}',
    "UTF-16": '{"format": "attnscope.trace"}'.encode("utf-16"),
    "empty": b"",
    "only a space": b" ",
    "zeros": b"\0" * 1000,
    "a string": b'"attnscope.trace"',
    "null": b"null",
    "too large": b" " * (MAX_HEADER + 1),
}


@pytest.mark.parametrize("name", BOMBS)
def test_json_bombs_cost_little(folder: Path, name: str) -> None:
    (folder / "trace.json").write_bytes(BOMBS[name])
    tracemalloc.start()
    try:
        refused(folder)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * MAX_HEADER  # the file, its text, and no more than that again


def table(folder: Path) -> tuple[dict[str, Any], bytes]:
    """A layer file's table and the bytes after it."""
    data = (folder / "layers/000.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_table(value: Any, rest: bytes, *, length: int | None = None) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + rest


def change(name: str, **fields: Any) -> Callable[[dict[str, Any], bytes], bytes]:
    return lambda t, rest: with_table({**t, name: {**t[name], **fields}}, rest)


TENSOR_FILES: dict[str, tuple[Callable[[dict[str, Any], bytes], bytes], str]] = {
    "length 2^63": (lambda t, rest: with_table(t, rest, length=1 << 63), "cannot be"),
    "length 2^64-1": (lambda t, rest: with_table(t, rest, length=(1 << 64) - 1), "cannot be"),
    "length beyond the file": (lambda t, rest: with_table(t, b"", length=10**5), "cannot be"),
    "length beyond the block": (
        lambda t, rest: with_table(json.dumps(t).encode() + b" " * MAX_TENSOR_HEADER, rest),
        "cannot be",
    ),
    "length zero": (lambda t, rest: with_table(b"", rest), "not valid JSON"),
    "a list": (lambda t, rest: with_table([], rest), "JSON object"),
    "nested": (lambda t, rest: with_table(b"[" * 50_000, rest), "nested|JSON"),
    "twice": (lambda t, rest: with_table(b'{"q": 1, "q": 1}', rest), "twice"),
    "huge shape": (change("q", shape=[1 << 31, 1 << 31, 1 << 31]), "cannot hold"),
    "huger shape": (change("q", shape=[1 << 62, 2]), "shape"),
    "overflowing to the right size": (change("q", shape=[1 << 32, 1 << 32, 12]), "shape"),
    "negative shape": (change("q", shape=[-4, -24, 8]), "shape"),
    "many axes": (change("q", shape=[1] * 40), "shape"),
    "float shape": (change("q", shape=[4.0, 24, 8]), "shape"),
    "swapped axes": (change("q", shape=[4, 8, 24]), "expected shape"),
    "flat": (change("q", shape=[4 * 24 * 8]), "three axes"),
    "one head less": (change("logsumexp", shape=[2, 48]), "expected shape"),
    "unknown dtype": (change("q", dtype="F128"), "dtype"),
    "dtype list": (change("q", dtype=["F32"]), "dtype"),
    "another dtype": (change("q", dtype="I32"), "expected F32 or"),
    "k of another dtype": (
        lambda t, rest: with_table(
            {**t, "k": {**t["k"], "dtype": "I32"}, "q": {**t["q"], "dtype": "F32"}}, rest
        ),
        "expected F32",
    ),
    "wild offsets": (change("q", data_offsets=[0, 1 << 47]), "cannot hold"),
    "wilder offsets": (change("q", data_offsets=[1 << 62, (1 << 62) + 3072]), "data_offsets"),
    "negative offsets": (change("q", data_offsets=[-3072, 0]), "data_offsets"),
    "reversed offsets": (change("q", data_offsets=[3072, 0]), "cannot hold"),
    "three offsets": (change("q", data_offsets=[0, 1, 2]), "data_offsets"),
    "overlapping": (
        lambda t, rest: with_table(
            {**t, "logsumexp": {**t["logsumexp"], "data_offsets": t["received"]["data_offsets"]}},
            rest,
        ),
        "overlap",
    ),
    "extra field": (change("q", extra=1), "nothing else"),
    "no shape": (lambda t, rest: with_table({**t, "q": {"dtype": "F32"}}, rest), "expected dtype"),
    "metadata of numbers": (
        lambda t, rest: with_table({**t, "__metadata__": {"a": 1}}, rest),
        "__metadata__",
    ),
    "a gap": (
        lambda t, rest: with_table({k: v for k, v in t.items() if k != "value_norms"}, rest),
        "gap|expected .* bytes",
    ),
    "bytes left over": (lambda t, rest: with_table(t, rest + b"\0" * 64), "cut short|bytes"),
    "renamed array": (
        lambda t, rest: with_table({("Q" if k == "q" else k): v for k, v in t.items()}, rest),
        "unknown array",
    ),
    "no first": (
        lambda t, rest: with_table(
            {("sinks2" if k == "first" else k): v for k, v in t.items()}, rest
        ),
        "unknown array",
    ),
    "an array of a terminal's escapes": (
        lambda t, rest: with_table({("\x1b[2J" if k == "q" else k): v for k, v in t.items()}, rest),
        r"unknown array '\\x1b",
    ),
}


@pytest.mark.parametrize("name", TENSOR_FILES)
def test_a_hostile_layer_file_is_refused(folder: Path, name: str) -> None:
    make, said = TENSOR_FILES[name]
    replace_file(folder, make(*table(folder)))
    refused(folder, said)


def damaged(name: str, place: tuple[int, ...], value: float) -> dict[str, np.ndarray]:
    arrays = {key: np.array(array) for key, array in layer(CASE)[0].items()}
    arrays[name][place] = value
    return arrays


BAD_NUMBERS = [
    ("q", (1, 10, 3), np.nan, "finite"),
    ("q", (1, 10, 3), np.inf, "finite"),
    ("k", (1, 10, 3), np.nan, "finite"),
    ("value_norms", (1, 10), np.nan, "finite"),
    ("value_norms", (1, 10), -1, "from 0"),
    ("received", (1, 10), -0.5, "from 0"),
    ("sinks", (1,), np.nan, "-inf"),
    ("sinks", (1,), np.inf, "-inf"),
    ("logsumexp", (1, 10), np.nan, "logsumexp"),
    ("logsumexp", (1, 10), np.inf, "logsumexp"),
    ("logsumexp", (1, 10), -np.inf, "logsumexp"),
    ("entropy", (1, 10), np.nan, "entropy"),
    ("max_logit", (1, 10), np.nan, "max_logit"),
    ("first", (10,), -1, "first"),
    ("first", (10,), 0, "window"),
    ("end", (10,), 25, "end"),
    ("end", (10,), 12, "later key"),
    ("origin", (10,), -1, "origin"),
    ("argmax", (1, 10), 24, "argmax"),
    ("argmax", (1, 10), -2, "argmax"),
    ("map_cell", (0,), 3, "power of two"),
    ("map_cell", (0,), 0, "power of two"),
    ("map_cell", (0,), -1, "power of two"),
    ("map_cell", (0,), 2, "expected shape"),
    ("map_mean", (1, 10, 9), np.nan, "masked in different"),
    ("map_max", (1, 10, 9), 1.5, "from 0 to 1"),
    ("map_mean", (1, 10, 9), -0.1, "from 0 to 1"),
    ("map_argmax", (1, 10, 9), 7, "inside a cell"),
]


@pytest.mark.parametrize(("name", "place", "value", "said"), BAD_NUMBERS)
def test_a_number_that_cannot_be_is_refused_at_writing(
    tmp_path: Path, name: str, place: tuple[int, ...], value: float, said: str
) -> None:
    arrays = damaged(name, place, value)
    with pytest.raises(TraceError, match=said):
        Trace.from_arrays(header(CASE), {0: arrays})
    writer = TraceWriter(tmp_path / "t", header(CASE))
    with pytest.raises(TraceError, match=said):
        writer.add_layer(0, arrays)
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "place", "value", "said"), BAD_NUMBERS)
def test_a_number_that_cannot_be_is_refused_at_reading(
    folder: Path, name: str, place: tuple[int, ...], value: float, said: str
) -> None:
    """Written by somebody else, with checksums that fit: found when it is used, at the latest."""
    at = "statistics" if name in ("entropy", "max_logit") else name
    if at == "statistics":
        place = (open_trace(folder).header.block.index(name), *place)
    poke(folder, at, place, value)
    with pytest.raises(TraceError, match=said):
        open_trace(folder).verify()


def poke(folder: Path, name: str, place: tuple[int, ...], value: float) -> None:
    opened = open_trace(folder).layer(0).arrays
    entry = opened.entry(name)
    data = bytearray((folder / "layers/000.safetensors").read_bytes())
    array = np.ndarray(entry.shape, opened.read(name).dtype, buffer=data, offset=entry.offset)
    array[place] = value
    del array
    replace_file(folder, bytes(data))


def test_what_reads_a_bad_number_says_so(folder: Path) -> None:
    poke(folder, "q", (1, 10, 3), np.nan)
    opened = open_trace(folder)
    assert opened.weights(0, 0).shape == (24, 24)  # another head
    for ask in (
        lambda: opened.weights(0, 1),
        lambda: opened.attended(0, 1, 10),
        lambda: opened.save(folder.parent / "copy"),
    ):
        with pytest.raises(TraceError, match="q: expected finite"):
            ask()
    assert not (folder.parent / "copy").exists()


@pytest.mark.parametrize(
    "arrays",
    [
        {"q": [[1.0]]},
        {"q": np.zeros((4, 24, 8), np.int64)},
        {"q": np.zeros((4, 24, 8), np.complex64)},
        {"q": np.zeros((4, 24, 8), object)},
    ],
)
def test_other_types_are_type_errors(arrays: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="q: "):
        Trace.from_arrays(header(CASE), {0: {**layer(CASE)[0], **arrays}})


def test_statistics_that_do_not_fit_the_names() -> None:
    arrays = layer(CASE)[0]
    lacking = {k: v for k, v in arrays.items() if k != "entropy"}
    with pytest.raises(TraceError, match="the statistic entropy is missing"):
        Trace.from_arrays(header(CASE), {0: lacking})
    uneven = {**arrays, "entropy": arrays["entropy"][:, :5]}
    with pytest.raises(TraceError, match="different shapes"):
        Trace.from_arrays(header(CASE), {0: uneven})
    big = {**arrays, "argmax": arrays["argmax"] + (1 << 40)}
    with pytest.raises(TraceError, match="argmax: expected whole numbers that fit"):
        Trace.from_arrays(header(CASE), {0: big})
    for name in ("q", "logsumexp", "first", "received", "argmax", "map_cell", "map_max"):
        some = {k: v for k, v in arrays.items() if k != name}
        with pytest.raises(TraceError, match=f"{name} is missing|{name}: "):
            Trace.from_arrays(header(CASE), {0: some})
