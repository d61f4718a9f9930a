"""A trace that is cut short, damaged, foreign, too new or made of links says so when opened."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from trace_samples import Case, header, layer, rewrite, rewrite_layer, trace

from attnscope.errors import TraceError
from attnscope.trace import Trace, open_trace
from attnscope.trace.format import BLOCK


def test_every_shortened_file_is_an_error(tmp_path: Path) -> None:
    trace(Case()).save(tmp_path / "t")
    for name in ("trace.json", "layers/000.safetensors"):
        path = tmp_path / "t" / name
        data = path.read_bytes()
        for size in (0, 1, 7, 8, 9, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:size])
            with pytest.raises(TraceError):
                open_trace(tmp_path / "t")
        path.write_bytes(data + b"\0")
        with pytest.raises(TraceError):
            open_trace(tmp_path / "t")
        path.unlink()
        with pytest.raises(TraceError):
            open_trace(tmp_path / "t")
        path.write_bytes(data)
    open_trace(tmp_path / "t").verify()


def test_every_error_of_an_opened_folder_names_it_once(tmp_path: Path) -> None:
    """Of the header, of a layer's file when it is opened, and of what is read of it later."""
    folder = tmp_path / "d1"
    trace(Case(H=2, G=1, T=900, S=900, D=64)).save(folder)
    file = folder / "layers/000.safetensors"
    whole = {path: path.read_bytes() for path in (folder / "trace.json", file)}

    def said() -> str:
        with pytest.raises(TraceError) as found:
            open_trace(folder).verify()
        return str(found.value)

    def flipped(path: Path, place: int) -> str:
        data = bytearray(whole[path])
        data[place] ^= 1
        path.write_bytes(data)
        shown = said()
        path.write_bytes(whole[path])
        return shown

    found = [flipped(folder / "trace.json", len(whole[folder / "trace.json"]) // 2)]
    (folder / "trace.json").write_text("{")
    found.append(said())
    (folder / "trace.json").write_bytes(whole[folder / "trace.json"])
    found += [flipped(file, 9), flipped(file, len(whole[file]) - 1)]
    file.write_bytes(whole[file][:-1])
    found.append(said())
    file.unlink()
    found.append(said())
    for one in found:
        assert one.startswith(f"{folder}: "), one
        assert one.count(str(folder)) == 1, one
    assert len(set(found)) == len(found)  # each says what it is


def test_a_flipped_bit_is_found_by_the_read_that_meets_it(tmp_path: Path) -> None:
    """Opening stays cheap: blocks are checked when they are used, and by verify()."""
    case = Case(H=2, G=1, T=900, S=900, D=64)
    arrays, _ = layer(case)
    Trace.from_arrays(header(case), {0: arrays}).save(tmp_path / "t")
    path = tmp_path / "t" / "layers/000.safetensors"
    data = bytearray(path.read_bytes())
    assert len(data) > 3 * BLOCK
    entry = open_trace(tmp_path / "t").layer(0).arrays.entry("q")
    place = entry.offset + entry.nbytes - 1  # the last row of the last head
    assert place // BLOCK > 0
    data[place] ^= 1
    path.write_bytes(data)
    opened = open_trace(tmp_path / "t")
    opened.weights(0, 0, slice(0, 5))
    for ask in (lambda: opened.weights(0, 1, -1), opened.verify):
        with pytest.raises(TraceError, match="the file is damaged"):
            ask()


def test_every_block_of_a_long_read_is_checked(tmp_path: Path) -> None:
    case = Case(H=2, G=1, T=900, S=900, D=256)
    arrays, _ = layer(case)
    Trace.from_arrays(header(case), {0: arrays}).save(tmp_path / "t")
    path = tmp_path / "t" / "layers/000.safetensors"
    whole = path.read_bytes()
    entry = open_trace(tmp_path / "t").layer(0).arrays.entry("q")
    first, last = entry.offset // BLOCK, (entry.offset + entry.nbytes - 1) // BLOCK
    assert last - first > 3
    for block in range(first + 1, last):
        data = bytearray(whole)
        data[block * BLOCK + 5] ^= 1
        path.write_bytes(data)
        with pytest.raises(TraceError, match="the file is damaged"):
            open_trace(tmp_path / "t").layer(0).array("q")


def test_a_read_of_some_rows_checks_their_blocks_and_no_others(tmp_path: Path) -> None:
    case = Case(H=2, G=1, T=600, S=600, bias="full")
    arrays, _ = layer(case)
    Trace.from_arrays(header(case), {0: arrays}).save(tmp_path / "t")
    path = tmp_path / "t" / "layers/000.safetensors"
    entry = open_trace(tmp_path / "t").layer(0).arrays.entry("bias")
    row_bytes = entry.nbytes // (2 * 600)
    place = entry.offset + (600 + 400) * row_bytes + 7  # head 1, row 400
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    opened = open_trace(tmp_path / "t").layer(0).arrays
    apart = BLOCK // row_bytes + 2  # so many rows away is another block
    for outer, rows in ((1, slice(0, 400 - apart)), (1, slice(400 + apart, 600)), (0, None)):
        np.testing.assert_array_equal(
            opened.read("bias", outer, rows), arrays["bias"][outer, rows or slice(None)]
        )
    for outer, rows in ((1, slice(400, 401)), (1, slice(390, 600)), (1, slice(0, 401)), (1, None)):
        with pytest.raises(TraceError, match="the file is damaged"):
            open_trace(tmp_path / "t").layer(0).arrays.read("bias", outer, rows)


def test_a_newer_version_says_so(tmp_path: Path) -> None:
    trace(Case()).save(tmp_path / "t")
    rewrite(tmp_path / "t", version=2, anything={"new": True})
    with pytest.raises(TraceError, match=r"format version 2.*update attnscope"):
        open_trace(tmp_path / "t")
    for version in (0, -1, 1.0, True, "1", None, 10**40):
        rewrite(tmp_path / "t", version=version)
        with pytest.raises(TraceError, match="version"):
            open_trace(tmp_path / "t")


def test_foreign_folders_and_files(tmp_path: Path) -> None:
    for name, content in (("a", "{}"), ("b", '{"format": "zip"}'), ("c", "[1]"), ("d", "hello")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace.json").write_text(content)
        with pytest.raises(TraceError, match=r"trace\.json"):
            open_trace(tmp_path / name)
    (tmp_path / "e").mkdir()
    with pytest.raises(TraceError, match="not an attnscope trace"):
        open_trace(tmp_path / "e")
    with pytest.raises(TraceError, match="a trace is a folder"):
        open_trace(tmp_path / "a" / "trace.json")
    with pytest.raises(TraceError, match="no such folder"):
        open_trace(tmp_path / "nowhere")


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    trace(Case()).save(tmp_path / "t")
    inside = tmp_path / "t" / "layers" / "000.safetensors"
    outside = tmp_path / "secret"
    inside.rename(outside)
    inside.symlink_to(outside)
    with pytest.raises(TraceError, match="cannot be opened"):
        open_trace(tmp_path / "t")
    inside.unlink()
    os.mkfifo(inside)
    began = time.monotonic()
    with pytest.raises(TraceError, match="plain file"):
        open_trace(tmp_path / "t")
    assert time.monotonic() - began < 10  # did not wait for a writer
    inside.unlink()
    inside.mkdir()
    with pytest.raises(TraceError):
        open_trace(tmp_path / "t")
    inside.rmdir()
    outside.rename(inside)
    open_trace(tmp_path / "t")
    layers = tmp_path / "t" / "layers"
    layers.rename(tmp_path / "elsewhere")
    layers.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TraceError, match="is a link"):
        open_trace(tmp_path / "t")
    layers.unlink()
    (tmp_path / "elsewhere").rename(layers)
    real = tmp_path / "t" / "trace.json"
    real.rename(tmp_path / "header")
    real.symlink_to(tmp_path / "header")
    with pytest.raises(TraceError, match="cannot be opened"):
        open_trace(tmp_path / "t")


def test_a_scale_that_was_changed_and_signed_does_not_become_weights(tmp_path: Path) -> None:
    folder = trace(Case()).save(tmp_path / "t")
    rewrite_layer(folder, 0, scale=0.61)
    with pytest.raises(TraceError, match="do not sum"):
        open_trace(folder).weights(0, 0)
    rewrite(folder, text="x" * 200)  # the text is free to tell; the header stays whole
    assert open_trace(folder).text == "x" * 200
