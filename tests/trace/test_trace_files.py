"""A trace on disk: whole or not there, and the same answers when it is opened.

Referee of the file layout: the safetensors library. Deaths of the writer are real ones: a killed
process, a file-size limit, a full disk as the system reports it.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from trace_samples import Case, header, layer, trace

import attnscope
from attnscope.errors import TraceError
from attnscope.trace import Trace, TraceWriter, leftovers, open_trace

CASES = (
    Case(),
    Case(window=5, sinks=True, seed=1),
    Case(softcap=2.0, bias="offset", seed=2),
    Case(dtype=torch.bfloat16, documents=[-1] * 4 + [0] * 20, seed=3),
)


def same(one: Trace, other: Trace) -> None:
    """Every answer is the same, bit for bit."""
    assert one.header.tokens == other.header.tokens
    assert one.model == other.model
    assert one.text == other.text
    for name in one.statistics.names:
        np.testing.assert_array_equal(one.statistics[name], other.statistics[name])
    assert one.kinds() == other.kinds()
    for info in one.layers:
        if not info.has_map:
            assert info == other.layers[-1]
            continue
        for head in range(info.query_heads):
            first, second = one.map(info.index, head), other.map(info.index, head)
            assert first is not None
            assert second is not None
            for plane, twin in zip(first, second, strict=True):
                np.testing.assert_array_equal(plane, twin)
            np.testing.assert_array_equal(
                one.weights(info.index, head), other.weights(info.index, head)
            )
            assert one.attended(info.index, head, -1) == other.attended(info.index, head, -1)
            np.testing.assert_array_equal(
                one.received(info.index, head), other.received(info.index, head)
            )


def test_a_saved_trace_gives_the_same_answers(tmp_path: Path) -> None:
    made = trace(*CASES)
    assert made.save(tmp_path / "t") == tmp_path / "t"
    opened = attnscope.open(tmp_path / "t")
    assert opened.path == tmp_path / "t"
    opened.verify()
    same(made, opened)
    opened.save(tmp_path / "again")
    same(made, open_trace(str(tmp_path / "again")))
    assert leftovers(tmp_path / "t") == []


def test_the_safetensors_library_reads_the_files(tmp_path: Path) -> None:
    made = trace(*CASES)
    made.save(tmp_path / "t")
    for index in (0, 3):
        with safetensors.safe_open(
            tmp_path / "t" / f"layers/{index:03d}.safetensors", framework="pt"
        ) as file:
            arrays = made.layer(index).arrays
            assert set(file.keys()) == set(arrays.names())
            q = file.get_tensor("q")
            assert q.dtype == (torch.bfloat16 if index == 3 else torch.float32)
            for name in arrays.names():
                found = file.get_tensor(name)
                if found.dtype == torch.bfloat16:
                    found = found.view(torch.uint16)
                np.testing.assert_array_equal(found.numpy(), arrays.read(name))


def test_arrays_are_mapped_not_read(tmp_path: Path) -> None:
    trace(Case()).save(tmp_path / "t")
    array = open_trace(tmp_path / "t").layer(0).arrays.read("q")
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_strided_and_big_endian_arrays_are_written_in_order(tmp_path: Path) -> None:
    arrays, _ = layer(Case())
    made = Trace.from_arrays(header(Case()), {0: arrays})
    odd = dict(arrays)
    odd["q"] = np.asfortranarray(arrays["q"])
    odd["k"] = np.repeat(arrays["k"], 2, axis=1)[:, ::2]
    odd["logsumexp"] = arrays["logsumexp"].astype(">f4")
    Trace.from_arrays(header(Case()), {0: odd}).save(tmp_path / "t")
    opened = open_trace(tmp_path / "t")
    opened.verify()
    same(made, opened)


def test_a_trace_is_written_layer_by_layer(tmp_path: Path) -> None:
    """Nothing of a layer stays in memory; the folder has its name only when it is whole."""
    fields = header(*CASES)
    del fields["tokens"], fields["text"], fields["prompt_tokens"]
    writer = TraceWriter(tmp_path / "t", fields)
    for index, case in enumerate(CASES):
        writer.add_layer(index, layer(case)[0])
        assert (leftovers(tmp_path / "t")[0] / f"layers/{index:03d}.safetensors").exists()
    assert not (tmp_path / "t").exists()
    writer.add_layer(4)
    with pytest.raises(ValueError, match="added before"):
        writer.add_layer(0, {})
    for name in ("statistics", "layers"):  # written layers depend on them
        with pytest.raises(ValueError, match=f"{name}: cannot change"):
            writer.update(**{name: header(*CASES)[name]})
    writer.update(**{name: header(*CASES)[name] for name in ("tokens", "text", "prompt_tokens")})
    writer.finish()
    same(trace(*CASES), open_trace(tmp_path / "t"))
    with pytest.raises(ValueError, match="finished"):
        writer.add_layer(5)
    with pytest.raises(ValueError, match="finished"):
        writer.finish()


def test_layer_fields_may_come_with_the_layer(tmp_path: Path) -> None:
    fields = header(Case(window=5))
    told = fields.pop("layers")[0]
    with TraceWriter(tmp_path / "t", fields) as writer:
        index = told.pop("index")
        writer.add_layer(index, layer(Case(window=5))[0], **told)
        writer.add_layer(1, reason="a recurrent layer")
    opened = open_trace(tmp_path / "t")
    assert opened.layers[0].window == 5
    written = json.loads((tmp_path / "t" / "trace.json").read_text(encoding="utf-8"))
    assert written["layers"][1] == {"index": 1, "kind": "none", "reason": "a recurrent layer"}
    same(trace(Case(window=5)), opened)


def test_an_error_in_the_block_leaves_nothing(tmp_path: Path) -> None:
    def capture() -> None:
        with TraceWriter(tmp_path / "t", header(Case())) as writer:
            writer.add_layer(0, layer(Case())[0])
            raise RuntimeError("the model failed")

    with pytest.raises(RuntimeError, match="the model failed"):
        capture()
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_number_of_tokens_leaves_nothing(tmp_path: Path) -> None:
    fields = {**header(Case()), "tokens": [], "text": "", "prompt_tokens": 0}
    writer = TraceWriter(tmp_path / "t", fields)
    writer.add_layer(0, layer(Case())[0])
    writer.update(**{k: header(Case(S=23))[k] for k in ("tokens", "text")})
    with pytest.raises(TraceError, match="one key per token, 23, got 24"):
        writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_what_stands_there_is_kept(tmp_path: Path) -> None:
    made = trace(Case())
    made.save(tmp_path / "t")
    with pytest.raises(TraceError, match=r"t: already exists; .* overwrite=True\.$"):
        made.save(tmp_path / "t")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    for name, said in (("notes", "not a trace"), ("file", "not a trace"), ("link", "not a trace")):
        with pytest.raises(TraceError, match=said):
            made.save(tmp_path / name, overwrite=True)
        with pytest.raises(TraceError, match="already exists"):
            made.save(tmp_path / name)
    assert (tmp_path / "notes" / "diary.txt").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    made.save(tmp_path / "empty")
    same(made, open_trace(tmp_path / "empty"))


@pytest.mark.parametrize("exchange", [True, False])
def test_overwriting_swaps_whole_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr("attnscope.trace.folder._swap", lambda one, other: False)
    trace(Case()).save(tmp_path / "t")
    old = open_trace(tmp_path / "t")
    new = trace(Case(seed=9), Case(seed=10))
    new.save(tmp_path / "t", overwrite=True)
    same(new, open_trace(tmp_path / "t"))
    same(trace(Case()), old)  # who had it open keeps what was there
    again = open_trace(tmp_path / "t")
    again.save(tmp_path / "t", overwrite=True)  # onto itself
    same(new, open_trace(tmp_path / "t"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_a_failing_overwrite_keeps_the_old_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace(Case()).save(tmp_path / "t")
    monkeypatch.setattr("attnscope.trace.folder._swap", lambda one, other: False)
    plain = Path.rename

    def refuse(self: Path, target: Any) -> Path:
        if ".partial-" in self.name:
            raise OSError(errno.EIO, "the disk died")
        return plain(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(TraceError, match="the disk died"):
        trace(Case(seed=9)).save(tmp_path / "t", overwrite=True)
    same(trace(Case()), open_trace(tmp_path / "t"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, after: int
) -> None:
    """The disk fills at the first layer, the second, or the header."""
    calls = iter(range(10))
    plain = os.fsync

    def fsync(handle: int) -> None:
        if next(calls) == after:
            raise OSError(number, os.strerror(number))
        plain(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    said = "cannot be written" if number == errno.EIO else "no room left"
    with pytest.raises(TraceError, match=said):
        trace(Case(), Case(seed=1)).save(tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


def test_a_file_size_limit_is_a_full_disk(tmp_path: Path) -> None:
    """A real limit of the system, in a process of its own."""
    made = trace(Case())
    made.save(tmp_path / "small")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    code = (
        "import sys, attnscope\n"
        "from attnscope.errors import TraceError\n"
        "try:\n    attnscope.open(sys.argv[1]).save(sys.argv[2])\n"
        "except TraceError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "small", tmp_path / "t"],
        preexec_fn=limit, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "no room left on the disk" in done.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["small"]


SLOW_WRITER = """
import sys, time, attnscope
from attnscope.trace import TraceWriter
source = attnscope.open(sys.argv[1])
writer = TraceWriter(sys.argv[2], source.header)
arrays = source.layer(0).arrays
writer.add_layer(0, {name: arrays.read(name) for name in arrays.names()})
print("half", flush=True)
time.sleep(60)
"""


def test_a_killed_writer_leaves_no_trace_and_is_cleaned_up(tmp_path: Path) -> None:
    trace(Case(), Case(seed=1)).save(tmp_path / "source")
    target = tmp_path / "t"
    writer = subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITER, tmp_path / "source", target],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half\n"
        with pytest.raises(TraceError, match=r"no such folder.*left \.t\.partial-"):
            open_trace(target)
        # while it lives, its half-written folder is not ours to remove
        trace(Case()).save(target)
        assert len(leftovers(target)) == 1
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=30)
        assert writer.stdout is not None
        writer.stdout.close()
    same(trace(Case()), open_trace(target))
    trace(Case(seed=4)).save(target, overwrite=True)
    assert leftovers(target) == []
    same(trace(Case(seed=4)), open_trace(target))


def test_a_trace_moved_aside_by_a_crash_is_not_removed(tmp_path: Path) -> None:
    """Between the two renames of a system without exchange, the old trace is all there is."""
    trace(Case()).save(tmp_path / "t")
    (tmp_path / "t").rename(tmp_path / ".t.old-0123456789ab")
    with pytest.raises(TraceError, match=r"left \.t\.old-0123456789ab beside it"):
        open_trace(tmp_path / "t")
    trace(Case(seed=2)).save(tmp_path / "t")
    same(trace(Case()), open_trace(tmp_path / ".t.old-0123456789ab"))
    trace(Case(seed=3)).save(tmp_path / "t", overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_a_text_of_any_language_survives(tmp_path: Path) -> None:
    fields = header(Case())
    text = "小明把苹果给了小王 👩🏽 \u0301 \0 \x7f \u2028" + "x" * 3
    fields["text"] = text
    size = len(text.encode())
    fields["tokens"] = [
        {"index": n, "id": n, "text": '"sha256": "' + "0" * 64, "start": min(n, size), "end": size}
        for n in range(24)
    ]
    made = Trace.from_arrays(fields, {0: layer(Case())[0]})
    made.save(tmp_path / "t")
    opened = open_trace(tmp_path / "t")
    assert opened.text == text
    assert opened.tokens == made.tokens
    value = json.loads((tmp_path / "t" / "trace.json").read_text(encoding="utf-8"))
    assert value["format"] == "attnscope.trace"
    assert value["version"] == 1
