"""The bytes are those of the contract: read here with struct, field by field."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_samples import Case, cases, small, trace

from attnscope import tiles
from attnscope.tiles.grid import Grid


def test_a_tile_byte_by_byte() -> None:
    made, _ = trace(Case(T=300, S=300))
    tile = tiles.tile(made, 0, 1, "weight", 1, 0, 0)
    data = tiles.encode(tile)
    assert data[:4] == b"ATTL"
    assert struct.unpack("<6H4I", data[4:32]) == (1, 0, 3, 1, 150, 150, 0, 0, 3 * 4 * 150 * 150, 0)
    assert len(data) == 32 + 3 * 4 * 150 * 150
    planes = [data[32 + n * 90000 : 32 + (n + 1) * 90000] for n in range(3)]
    for plane, array, dtype in zip(
        planes, (tile.mean, tile.max, tile.argmax), ("<f4", "<f4", "<i4"), strict=True
    ):
        np.testing.assert_array_equal(np.frombuffer(plane, dtype).reshape(150, 150), array)
    fine = tiles.encode(tiles.tile(made, 0, 1, "weight", 0, 1, 1))
    assert struct.unpack("<6H4I", fine[4:32]) == (1, 0, 1, 0, 44, 44, 1, 1, 4 * 44 * 44, 0)
    hidden = tiles.encode(tiles.tile(made, 0, 1, "weight", 0, 1, 0))
    assert struct.unpack("<6H4I", hidden[4:]) == (1, 1, 0, 0, 44, 256, 1, 0, 0, 0)
    missing = tiles.encode(tiles.tile(made, 1, 0, "weight", 2, 3, 4))
    assert struct.unpack("<6H4I", missing[4:]) == (1, 2, 0, 2, 0, 0, 3, 4, 0, 0)


def test_the_other_records_byte_by_byte() -> None:
    made, _ = trace(Case(T=9, S=9, sinks=True))
    track = tiles.track(made, 0, 0, "entropy", 0, 0)
    data = tiles.encode_track(track)
    assert data[:4] == b"ATTR"
    assert struct.unpack("<6H4I", data[4:32]) == (1, 0, 2, 0, 9, 1, 0, 0, 72, 0)
    np.testing.assert_array_equal(np.frombuffer(data[32:68], "<f4"), track.mean)
    np.testing.assert_array_equal(np.frombuffer(data[68:], "<f4"), track.max)
    gone = tiles.encode_track(tiles.track(made, 1, 0, "entropy", 2, 5))
    assert struct.unpack("<6H4I", gone[4:]) == (1, 2, 0, 2, 0, 0, 5, 0, 0, 0)
    row = tiles.row(made, 0, 0, [8])
    data = tiles.encode_row(row)
    assert data[:4] == b"ATRW"
    assert struct.unpack("<HHIf", data[4:16]) == (1, 1, 9, np.float32(row.sink))
    assert data[16:32] == bytes(16)
    np.testing.assert_array_equal(np.frombuffer(data[32:68], "<f4"), row.weights)
    np.testing.assert_array_equal(np.frombuffer(data[68:], "<f4"), row.arrived)
    column = tiles.column(made, 0, 0, [2])
    data = tiles.encode_column(column)
    assert data[:4] == b"ATCL"
    assert struct.unpack("<HHI", data[4:12]) == (1, 0, 9)
    assert data[12:32] == bytes(20)
    np.testing.assert_array_equal(np.frombuffer(data[32:], "<f4"), column)
    flow = tiles.flow(made, [8])
    data = tiles.encode_flow(flow)
    assert data[:4] == b"ATFL"
    assert struct.unpack("<HHII", data[4:16]) == (1, 1, 1, 9)
    assert data[16:32] == bytes(16)
    assert np.frombuffer(data[32:36], "<i4").tolist() == [0]
    np.testing.assert_array_equal(np.frombuffer(data[36:72], "<f4"), flow.weights[0])
    np.testing.assert_array_equal(np.frombuffer(data[72:], "<f4"), flow.arrived[0])


@settings(deadline=None)
@given(cases(), st.sampled_from(tiles.MEASURES), st.data())
def test_what_is_written_is_read(case: Case, measure: str, data: st.DataObject) -> None:
    """Records of every kind, one behind the other."""
    made, _ = trace(case)
    with small():
        level = data.draw(st.integers(0, Grid(case.T, case.S).levels - 1))
        tile = tiles.tile(made, 0, 0, measure, level, 0, 0)
        track = tiles.track(made, 0, 0, "received", level, 0)
        row, column = tiles.row(made, 0, 0, [0]), tiles.column(made, 0, 0, [0])
        bytes_ = (
            tiles.encode(tile) + tiles.encode_track(track) + tiles.encode_row(row)
            + tiles.encode_column(column)
        )  # fmt: skip
        names = tuple(tiles.info(made)["tracks"])
        found = tiles.decode(bytes_, tracks=names)
    assert len(found) == 4
    for one, other in zip(found, (tile, track, row, column), strict=True):
        assert type(one) is type(other)
        if isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other)
            continue
        for name, value in vars(other).items():
            if name == "sink":
                assert getattr(one, name) == np.float32(value)
            else:
                np.testing.assert_array_equal(getattr(one, name), value)


@pytest.mark.parametrize("kind", ["tile", "row"])
def test_damaged_bytes_are_refused(kind: str) -> None:
    made, _ = trace(Case())
    if kind == "tile":
        data = tiles.encode(tiles.tile(made, 0, 0, "weight", 0, 0, 0))
    else:
        data = tiles.encode_row(tiles.row(made, 0, 0, [3]))
    for cut in (5, 31, 32, len(data) - 1):
        with pytest.raises(ValueError, match="data: expected"):
            tiles.decode(data[:cut])
    with pytest.raises(ValueError, match="no record begins with"):
        tiles.decode(b"XXXX" + data[4:])
    with pytest.raises(ValueError, match="expected version 1, got 2"):
        tiles.decode(data[:4] + b"\2\0" + data[6:])


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (6, 7, "not a tile of this version"),  # state
        (8, 3, "not a tile of this version"),  # planes of a level-0 tile
        (12, 23, "bytes are not 1 planes"),  # width
        (28, 1, "not a tile of this version"),  # the reserved field
    ],
)
def test_a_tile_that_contradicts_itself_is_refused(at: int, value: int, said: str) -> None:
    data = bytearray(tiles.encode(tiles.tile(trace(Case())[0], 0, 0, "weight", 0, 0, 0)))
    data[at] = value
    with pytest.raises(ValueError, match=said):
        tiles.decode(bytes(data))
