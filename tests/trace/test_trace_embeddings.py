"""Embeddings and angles in a trace: what comes back, and what is refused."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save
from trace_samples import Case, embeddings, header, layer, rewrite, trace

from attnscope.errors import TraceError
from attnscope.trace import Trace, TraceWriter, open_trace

FILE = "embeddings.safetensors"


def with_file(folder: Path, data: bytes) -> None:
    """Other bytes in the file of embeddings, with length and checksums that fit."""
    (folder / FILE).write_bytes(data)
    step = 1 << 18
    sums = [zlib.crc32(data[at : at + step]) for at in range(0, len(data), step)]
    entry = {"file": FILE, "bytes": len(data), "crc32": "".join(f"{s:08x}" for s in sums)}
    rewrite(folder, embeddings=entry)


def test_each_token_gets_the_row_of_its_id_in_memory_and_from_disk(tmp_path: Path) -> None:
    made = trace(Case())
    kept = embeddings(header(Case())["tokens"])
    wanted = np.stack(
        [kept["vectors"][kept["ids"].tolist().index(token.id)] for token in made.tokens]
    )
    opened = open_trace(made.save(tmp_path / "t"))
    copied = open_trace(opened.save(tmp_path / "copy"))
    for one in (made, opened, copied):
        assert np.array_equal(one.embeddings(), wanted)
        assert np.array_equal(one.embeddings(slice(3, 7)), wanted[3:7])
        assert one.embeddings(slice(0, 0)).shape == (0, 5)
        one.verify()


def test_the_file_is_one_that_other_programs_read(tmp_path: Path) -> None:
    folder = trace(Case()).save(tmp_path / "t")
    read = load_file(folder / FILE)
    kept = embeddings(header(Case())["tokens"])
    assert np.array_equal(read["ids"], kept["ids"])
    assert np.array_equal(read["vectors"], kept["vectors"])


def test_a_trace_without_them_says_none_and_names_no_file(tmp_path: Path) -> None:
    arrays, _ = layer(Case())
    for name in ("rope_frequencies", "rope_pairs"):
        del arrays[name]
    folder = Trace.from_arrays(header(Case()), {0: arrays}).save(tmp_path / "t")
    assert "embeddings" not in json.loads((folder / "trace.json").read_text())
    assert not (folder / FILE).exists()
    opened = open_trace(folder)
    assert opened.embeddings() is None
    assert opened.layer(0).rotation is None
    opened.verify()


def test_bfloat16_comes_back_as_float32() -> None:
    kept = embeddings(header(Case())["tokens"])
    bits = (kept["vectors"].view(np.uint32) >> 16).astype(np.uint16)
    made = Trace.from_arrays(
        header(Case()), {0: layer(Case())[0]}, embeddings={"ids": kept["ids"], "vectors": bits}
    )
    wanted = (bits.astype(np.uint32) << 16).view(np.float32)
    at = kept["ids"].tolist().index(made.tokens[0].id)
    assert np.array_equal(made.embeddings(slice(0, 1))[0], wanted[at])


def write(path: Path, given: dict[str, np.ndarray]) -> None:
    """A trace layer by layer, with these embeddings."""
    with TraceWriter(path, header(Case())) as writer:
        writer.add_layer(0, layer(Case())[0])
        writer.add_layer(1)
        writer.add_embeddings(given)


WRONG: dict[str, tuple[Any, str]] = {
    "a token has no row": (lambda e: {n: a[1:] for n, a in e.items()}, "has no row"),
    "ids fall": (lambda e: {"ids": e["ids"][::-1].copy(), "vectors": e["vectors"]}, "rising"),
    "an id twice": (lambda e: {n: np.concatenate([a[:1], a]) for n, a in e.items()}, "rising"),
    "a row too few": (lambda e: e | {"vectors": e["vectors"][1:]}, "a row of vectors for each"),
    "no width": (lambda e: e | {"vectors": e["vectors"][:, :0]}, "a row of vectors for each"),
    "one axis": (lambda e: e | {"vectors": e["vectors"][:, 0].copy()}, "a row of vectors for each"),
    "no number": (lambda e: e | {"vectors": e["vectors"] * np.float32("nan")}, "finite numbers"),
    "ids in float": (lambda e: e | {"ids": e["ids"].astype(np.float32)}, "ids: expected I32"),
    "vectors in int": (lambda e: e | {"vectors": e["vectors"].astype(np.int32)}, "vectors: exp"),
    "another array": (lambda e: e | {"more": e["ids"]}, "ids and vectors, no others"),
    "one missing": (lambda e: {"ids": e["ids"]}, "ids and vectors, no others"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_in_memory_by_the_writer_and_by_the_reader(
    name: str, tmp_path: Path
) -> None:
    change, said = WRONG[name]
    given = change(embeddings(header(Case())["tokens"]))
    with pytest.raises(TraceError, match=said):
        Trace.from_arrays(header(Case()), {0: layer(Case())[0]}, embeddings=given)

    with pytest.raises(TraceError, match=said):
        write(tmp_path / "w", given)
    assert list(tmp_path.iterdir()) == []

    folder = trace(Case()).save(tmp_path / "t")
    with_file(folder, save(given))
    with pytest.raises(TraceError, match=said) as found:
        open_trace(folder).verify()
    assert str(found.value).startswith(f"{folder}: ")


def test_a_row_that_is_read_is_checked_at_once(tmp_path: Path) -> None:
    folder = trace(Case()).save(tmp_path / "t")
    kept = embeddings(header(Case())["tokens"])
    kept["vectors"][-1] = np.inf
    with_file(folder, save(kept))
    opened = open_trace(folder)
    ids = [token.id for token in opened.tokens]
    good, bad = ids.index(kept["ids"][0]), ids.index(kept["ids"][-1])
    assert opened.embeddings(slice(good, good + 1)) is not None
    with pytest.raises(TraceError, match="finite"):
        opened.embeddings(slice(bad, bad + 1))


def test_a_flipped_bit_a_link_and_another_name_are_found(tmp_path: Path) -> None:
    folder = trace(Case()).save(tmp_path / "t")
    data = bytearray((folder / FILE).read_bytes())
    data[-1] ^= 1
    (folder / FILE).write_bytes(data)
    with pytest.raises(TraceError, match="damaged"):
        open_trace(folder)
    data[-1] ^= 1
    (tmp_path / "aside").write_bytes(data)
    (folder / FILE).unlink()
    (folder / FILE).symlink_to(tmp_path / "aside")
    with pytest.raises(TraceError, match="cannot be opened"):
        open_trace(folder)
    (folder / FILE).unlink()
    (folder / FILE).write_bytes(data)
    open_trace(folder).verify()
    entry = json.loads((folder / "trace.json").read_text())["embeddings"]
    for change, said in (
        ({"file": "../aside"}, "file: expected embeddings.safetensors"),
        ({"bytes": -1}, "bytes: expected a whole number"),
        ({"bytes": entry["bytes"] + 1}, "cut short or belongs to another"),
        ({"crc32": "00"}, "crc32 of embeddings.safetensors"),
        ({"more": 1}, "unknown field"),
    ):
        rewrite(folder, embeddings=entry | change)
        with pytest.raises(TraceError, match=said):
            open_trace(folder)
    rewrite(folder, embeddings=[])
    with pytest.raises(TraceError, match="expected an object"):
        open_trace(folder)


ANGLES: dict[str, tuple[dict[str, Any], str]] = {
    "one alone": ({"rope_pairs": None}, "rope_pairs is missing"),
    "the other alone": ({"rope_frequencies": None}, "rope_frequencies is missing"),
    "a pair too few": ({"rope_frequencies": np.ones(3, np.float32)}, "expected shape"),
    "more pairs than numbers": (
        {"rope_frequencies": np.ones(5, np.float32), "rope_pairs": np.zeros((5, 2), np.int32)},
        "more than the 8 numbers",
    ),
    "outside": ({"rope_pairs": np.array([[0, 4], [1, 5], [2, 6], [3, 8]], np.int32)}, "none twice"),
    "negative": ({"rope_pairs": np.array([[0, 4], [1, 5], [2, 6], [3, -1]], np.int32)}, "none twi"),
    "twice": ({"rope_pairs": np.array([[0, 4], [1, 5], [2, 6], [3, 6]], np.int32)}, "none twice"),
    "no number": ({"rope_frequencies": np.full(4, np.nan, np.float32)}, "finite"),
    "three beside each other": ({"rope_pairs": np.zeros((4, 3), np.int32)}, "expected shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANGLES)
def test_angles_that_cannot_be_are_refused(name: str) -> None:
    change, said = ANGLES[name]
    arrays = {**layer(Case())[0], **change}
    kept = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(TraceError, match=said):
        Trace.from_arrays(header(Case()), {0: kept})


def test_a_layer_may_say_that_it_turns_nothing(tmp_path: Path) -> None:
    arrays = layer(Case())[0] | {
        "rope_frequencies": np.zeros(0, np.float32), "rope_pairs": np.zeros((0, 2), np.int32),
    }  # fmt: skip
    folder = Trace.from_arrays(header(Case()), {0: arrays}).save(tmp_path / "t")
    opened = open_trace(folder)
    opened.verify()
    assert opened.layer(0).rotation.pairs.shape == (0, 2)
