"""What a trace says of itself: JSON that a browser can rely on, the tracks, and the bytes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_samples import Case, cases, header, small, trace, truth

from attnscope import tiles
from attnscope.tiles import grid as sizes
from attnscope.trace import Trace


def test_info_is_the_contract() -> None:
    layers = [
        Case(H=4, G=2, T=600, S=600, sinks=True),
        Case(H=4, G=2, T=600, S=600, window=9, norms=False),
        Case(H=4, G=2, T=5, S=7, causal=False, cross=True),
    ]
    found = json.loads(json.dumps(tiles.info(trace(*layers)[0]), allow_nan=False))
    assert found["schema"] == "attnscope.tiles/1"
    assert found["model"] == {
        "name": "tiny", "architecture": "TinyForCausalLM", "layers": 4, "query_heads": 4,
        "kv_heads": 2, "head_width": 4,
    }  # fmt: skip
    assert found["tile"] == 256
    assert found["measures"] == list(tiles.MEASURES)
    assert found["tracks"] == ["received", "entropy", "sink_mass"]
    assert found["statistics"] == ["logsumexp", "entropy", "sink_mass"]
    assert (found["prompt_tokens"], found["sink_keys"]) == (0, 1)
    full, sliding, cross, none = found["layers"]
    assert full == {
        "index": 0, "kind": "full", "reason": None, "window": None, "query_heads": 4,
        "kv_heads": 2, "queries": 600, "keys": 600, "levels": 3, "causal": True, "cross": False,
        "arrived": True, "sink_logit": True,
    }  # fmt: skip
    assert (sliding["kind"], sliding["window"]) == ("sliding", 9)
    assert (sliding["arrived"], sliding["sink_logit"]) == (False, False)
    assert (cross["queries"], cross["keys"], cross["levels"], cross["cross"]) == (5, 7, 1, True)
    assert (none["kind"], none["reason"], none["levels"]) == ("none", "a recurrent layer", 0)


def test_info_names_only_what_there_is() -> None:
    case = Case(norms=False)
    arrays = truth(case).arrays
    fields = header(case) | {"statistics": ["logsumexp", "entropy"]}
    for name in ("received", "sink_mass"):
        del arrays[name]
    found = tiles.info(Trace.from_arrays(fields, {0: arrays}))
    assert found["measures"] == ["weight", "weight-no-sink", "uniform"]
    assert found["tracks"] == ["entropy"]


def test_heads_are_means_over_rows_that_see() -> None:
    """Without the statistics that the rules need, the kind is unknown and nothing is made up."""
    case = Case(documents=(-1,) * 4 + (0,) * 20)
    made, (found,) = trace(case)
    rows = tiles.heads(made)
    json.dumps(rows, allow_nan=False)
    assert [(row["layer"], row["head"]) for row in rows] == [(0, 0), (0, 1)]
    for row in rows:
        assert (row["kind"], row["score"]) == ("unknown", 0.0)
        assert set(row["statistics"]) == {"logsumexp", "entropy", "sink_mass"}
        for name, value in row["statistics"].items():
            expected = found.arrays[name][row["head"], 4:].astype(np.float64).mean()
            assert value == pytest.approx(expected, rel=1e-12)


def test_a_head_that_sees_nothing_has_no_means() -> None:
    case = Case(T=8, S=8, documents=(-1,) * 8)
    rows = tiles.heads(trace(case)[0])
    assert [row["statistics"] for row in rows] == [{}, {}]


def test_heads_name_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnscope.trace import HeadKind

    kinds = [HeadKind(0, 0, "sink", 0.9), HeadKind(0, 1, "mixed", -np.inf)]
    monkeypatch.setattr(Trace, "kinds", lambda self: kinds)
    found = tiles.heads(trace(Case())[0])
    assert [(row["kind"], row["score"]) for row in found] == [("sink", 0.9), ("mixed", 0.0)]


@settings(deadline=None)
@given(cases(), st.sampled_from(tiles.TRACKS), st.data())
def test_tracks_are_means_and_largest_of_their_cells(
    case: Case, name: str, data: st.DataObject
) -> None:
    made, (found,) = trace(case)
    head = data.draw(st.integers(0, case.H - 1))
    values = found.arrays[name][head].astype(np.float64)
    if name != "received":
        values = np.where(_alive(case, found), values, np.nan)
    with small():
        level = data.draw(st.integers(0, sizes.Grid(case.T, case.S).levels - 1))
        cell, x = 1 << level, 0
        pieces = [values[at : at + cell] for at in range(0, len(values), cell)]
        while True:
            piece = tiles.track(made, 0, head, name, level, x)
            mine = pieces[x * 8 : (x + 1) * 8]
            assert (piece.state, piece.width, piece.x) == ("values", len(mine), x)
            assert piece.mean is not None
            assert piece.max is not None
            for mean, most, part in zip(piece.mean, piece.max, mine, strict=True):
                if np.isnan(part).all():
                    assert np.isnan(mean)
                    assert np.isnan(most)
                else:
                    assert mean == pytest.approx(np.nanmean(part), rel=1e-6)  # one rounding
                    assert most == np.float32(np.nanmax(part))
            x += 1
            if x * 8 >= len(pieces):
                break
        with pytest.raises(ValueError, match="x: expected"):
            tiles.track(made, 0, head, name, level, x)


def _alive(case: Case, found: object) -> np.ndarray:
    """Rows that see a key by spans and mask; a bias of -inf is the model's own business."""
    arrays = found.arrays  # type: ignore[attr-defined]
    j = np.arange(case.S)
    seen = (j >= arrays["first"][:, None]) & (j < arrays["end"][:, None])
    if "mask" in arrays:
        seen = seen & np.unpackbits(arrays["mask"], axis=1, count=case.S).astype(bool)
    return seen.any(axis=1)


def test_tracks_that_are_not_there() -> None:
    made, _ = trace(Case())
    assert tiles.track(made, 1, 0, "entropy", 0, 0).state == "missing"
    with pytest.raises(ValueError, match="names: expected some of received"):
        tiles.track(made, 0, 0, "mood", 0, 0)
    with pytest.raises(ValueError, match="level: expected"):
        tiles.track(made, 0, 0, "entropy", 1, 0)
    with pytest.raises(ValueError, match="head: expected"):
        tiles.track(made, 0, 2, "entropy", 0, 0)


def test_the_index_of_a_track_counts_the_tracks_of_info() -> None:
    made, _ = trace(Case())
    names = tiles.info(made)["tracks"]
    for index, name in enumerate(names):
        assert tiles.track(made, 0, 0, name, 0, 0).index == index


def test_levels_end_before_a_place_overflows() -> None:
    """argmax is int32: a cell is at most 2^15 of each, whatever a trace declares."""
    grid = sizes.Grid(1 << 30, 1 << 30)
    assert grid.levels == 16
    assert (1 << (grid.levels - 1)) ** 2 - 1 < 1 << 31
    assert grid.place(15, 0, 0).width == 256


def test_importing_tiles_imports_no_torch() -> None:
    code = "import sys, attnscope.tiles; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
