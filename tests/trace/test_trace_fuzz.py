"""A trace that a disk damaged, or that somebody signed anew, opens to the same answers or says so.

Bytes are changed anywhere in any file; the only exception that may come out is TraceError.
"""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trace_samples import Case, sign_text, trace

from attnscope.errors import TraceError
from attnscope.trace import Trace, open_trace
from attnscope.trace.document import decode, encode, parse_json

CASE = Case(sinks=True, window=6)


def answers(opened: Trace) -> list[Any]:
    """Everything a reader may ask, as plain values."""
    opened.verify()
    return [
        repr(opened.header.tokens),
        opened.text,
        opened.layers[0].window,
        opened.layers[0].scale,
        *(opened.weights(0, head).tobytes() for head in range(4)),
        *(opened.statistics[name].tobytes() for name in opened.statistics.names),
        *(opened.received(0, head).tobytes() for head in range(4)),
        repr(opened.kinds()),
        rows_of(opened),
    ]


def rows_of(opened: Trace) -> bytes | None:
    """The tokens' embeddings."""
    found = opened.embeddings()
    return None if found is None else found.tobytes()


_MADE = Path(tempfile.mkdtemp(prefix="attnscope-test-"))
_WHOLE = trace(CASE).save(_MADE / "t")
_ANSWERS = answers(open_trace(_WHOLE))
_FILES = {
    name: (_WHOLE / name).read_bytes()
    for name in ("trace.json", "layers/000.safetensors", "embeddings.safetensors")
}


@pytest.fixture(scope="module", autouse=True)
def _remove() -> Iterator[None]:
    yield
    shutil.rmtree(_MADE)


def outcome(call: Callable[[], Any]) -> Any:
    """What the call gives, or the TraceError that it raises; any other error is a failure."""
    try:
        return call()
    except TraceError as error:
        return error


def is_clear(found: Any) -> bool:
    """Whether it is an error in a sentence or two that a terminal can show."""
    return isinstance(found, TraceError) and 10 < len(str(found)) < 600 and str(found).isprintable()


def opens_to_the_same_or_says_so(**contents: bytes) -> None:
    for name, data in _FILES.items():
        (_WHOLE / name).write_bytes(contents.get(name.replace("/", "_").replace(".", "_"), data))
    found = outcome(lambda: answers(open_trace(_WHOLE)))
    assert found == _ANSWERS or is_clear(found)


edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 255), st.sampled_from(["set", "cut", "add"])),
    min_size=1,
    max_size=4,
)


def edit(data: bytes, changes: list[tuple[float, int, str]]) -> bytes:
    changed = bytearray(data)
    for where, value, what in changes:
        place = int(where * max(len(changed) - 1, 0))
        if what == "set" and changed:
            changed[place] = value
        elif what == "cut":
            del changed[place : place + value]
        else:
            changed[place:place] = bytes([value])
    return bytes(changed)


@settings(max_examples=150, deadline=None)
@given(edits)
def test_a_damaged_header_is_an_error(changes: list[tuple[float, int, str]]) -> None:
    opens_to_the_same_or_says_so(trace_json=edit(_FILES["trace.json"], changes))


@settings(max_examples=150, deadline=None)
@given(edits)
def test_a_damaged_layer_is_an_error(changes: list[tuple[float, int, str]]) -> None:
    data = edit(_FILES["layers/000.safetensors"], changes)
    opens_to_the_same_or_says_so(layers_000_safetensors=data)


@settings(max_examples=60, deadline=None)
@given(edits)
def test_damaged_embeddings_are_an_error(changes: list[tuple[float, int, str]]) -> None:
    data = edit(_FILES["embeddings.safetensors"], changes)
    opens_to_the_same_or_says_so(embeddings_safetensors=data)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, tokens after the first left out."""
    found = [at] if at else []
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in entries:
        if at == ("tokens",) and name > 0:
            break
        found += paths(inner, (*at, name)) if isinstance(inner, dict | list) else [(*at, name)]
    return found


_HEADER = json.loads(_FILES["trace.json"])
_FREE = {"model", "about", "created", "attnscope", "mode", "prompt_tokens"}
"""Fields that describe and that no array depends on: any valid value is as good as another."""


@settings(max_examples=250, deadline=None)
@example(("layers", 0, "softcap"), 1160.0)
@example(("layers", 0, "scale"), 0.51)
@example(("layers", 0, "scale"), 3.9e37)
@example(("layers", 0, "scale"), 1e300)
@example(("layers", 0, "softcap"), 1e300)
@example(("layers", 0, "softcap"), 1e-300)
@example(("about",), {"\ud7fc": []})
@given(st.sampled_from(paths(_HEADER)), json_values)
def test_a_signed_header_with_any_field_changed(place: tuple[Any, ...], value: Any) -> None:
    """A maker who signs may tell another story, but never crash the reader or corrupt weights."""
    changed = copy.deepcopy(_HEADER)
    at = changed
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    text = json.dumps(changed)  # ASCII: the value may hold lone surrogates
    for name, data in _FILES.items():
        (_WHOLE / name).write_bytes(data)
    (_WHOLE / "trace.json").write_bytes(sign_text(text))
    opened = outcome(lambda: open_trace(_WHOLE))
    whole = outcome(opened.verify) if isinstance(opened, Trace) else opened
    if whole is not None:
        assert is_clear(whole)
        return
    told = {"tokens", "text", "layers", "statistics", "local", "sink_keys", "embeddings"}
    assert place[0] in _FREE | told
    if place[0] == "embeddings":
        assert rows_of(opened) in (None, _ANSWERS[-1])  # a signed trace without them is a trace
    if not opened.layers or not opened.layers[0].has_map:
        return  # a signed trace of fewer layers is a trace
    for head in range(4):
        found = outcome(lambda head=head: opened.weights(0, head))
        if is_clear(found):
            return  # its rows do not sum to what they should
        if place[-1] in ("scale", "softcap"):
            # A signed number that moves every row's sum by less than its rounding cannot be told
            # from the true one; some 1e-5 here, and every row (also those of one key) must pass.
            true = np.frombuffer(_ANSWERS[4 + head], found.dtype).reshape(found.shape)
            np.testing.assert_allclose(found, true, atol=1e-4, rtol=0)
        else:
            assert found.tobytes() == _ANSWERS[4 + head]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    for read in (decode, lambda d: parse_json(d, "here")):
        found = outcome(lambda read=read: read(data))
        assert isinstance(found, dict) or is_clear(found)


def test_the_fuzzers_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its checksums, damage becomes another answer, and the harness above says so."""
    data = bytearray(_FILES["layers/000.safetensors"])
    for name, content in _FILES.items():
        (_WHOLE / name).write_bytes(content)
    entry = open_trace(_WHOLE).layer(0).arrays.entry("received")
    data[entry.offset] ^= 1
    monkeypatch.setattr("attnscope.trace.arrays.MappedArrays._touch", lambda self, a, b: None)
    with pytest.raises(AssertionError):
        opens_to_the_same_or_says_so(layers_000_safetensors=bytes(data))


def test_encode_and_decode_are_inverse() -> None:
    value = {"a": [1, 2.5, "\u2028", None], "text": '"sha256": "' + "0" * 64 + '"'}
    data = encode(value)
    assert {k: v for k, v in decode(data).items() if k in value} == value
    with pytest.raises(TraceError, match="damaged"):
        decode(data.replace(b"2.5", b"2.6"))
    with pytest.raises(TraceError, match="damaged"):
        decode(data.replace(b'"sha256"', b'"sha257"', 1))
