"""Every tile of every level says what the dense map says: mean, max, argmax, and what is masked.

Referee: float64 weights and cells counted one by one in tile_samples; no code of the package.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tile_samples import Case, Truth, brute, cases, header, room, small, trace, truth

from attnscope import tiles
from attnscope.errors import TraceError
from attnscope.tiles import grid as sizes
from attnscope.tiles.grid import Grid
from attnscope.trace import Trace

TINY = 1e-37
"""Below this float32 has fewer digits; a weight so small is 0 for all purposes."""


def check_tile(
    tile: tiles.Tile, case: Case, found: Truth, *, measure: str, head: int, relative: float
) -> None:
    """Hold one tile against the dense map."""
    value, seen = found.measure(measure, case, head)
    side, cell = sizes.TILE << tile.level, 1 << tile.level
    under = np.s_[tile.y * side : (tile.y + 1) * side, tile.x * side : (tile.x + 1) * side]
    value, seen = value[under], seen[under]
    mean, most, _ = brute(value, seen, tile.level)
    assert (tile.height, tile.width) == mean.shape
    if np.isnan(mean).all():
        assert tile.state == "masked"
        assert tile.mean is tile.max is tile.argmax is None
        return
    assert tile.state == "values"
    assert tile.mean is not None
    assert tile.max is not None
    assert tile.mean.dtype == tile.max.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(tile.mean), np.isnan(mean))
    np.testing.assert_allclose(tile.mean, mean, rtol=relative, atol=TINY)
    np.testing.assert_allclose(tile.max, most, rtol=relative, atol=TINY)
    if tile.level == 0:
        assert tile.argmax is None
        assert tile.max is tile.mean
        return
    assert tile.argmax is not None
    assert tile.argmax.dtype == np.int32
    np.testing.assert_array_equal(tile.argmax < 0, np.isnan(mean))
    v, u = np.nonzero(tile.argmax >= 0)
    row, key = np.divmod(tile.argmax[v, u], cell)
    pair = v * cell + row, u * cell + key
    assert seen[pair].all()
    # where several are equally large, any of them will do: the value decides
    np.testing.assert_allclose(value[pair], most[v, u], rtol=relative, atol=TINY)


def check_level(case: Case, *, measure: str, head: int, level: int) -> None:
    """Read all tiles of a level and hold them against the dense map."""
    made, (found,) = trace(case)
    rows, columns = Grid(case.T, case.S).tiles(level)
    relative = room(case, found)
    assert relative < 1e-3  # a bound that lets everything pass would show nothing
    for y in range(rows):
        for x in range(columns):
            tile = tiles.tile(made, 0, head, measure, level, x, y)
            assert (tile.level, tile.x, tile.y) == (level, x, y)
            check_tile(tile, case, found, measure=measure, head=head, relative=relative)


@settings(deadline=None)  # the first example imports and compiles
@given(cases(), st.sampled_from(tiles.MEASURES), st.data())
def test_every_level_is_the_dense_map(case: Case, measure: str, data: st.DataObject) -> None:
    # blocks higher and wider than a cell, and lower and narrower
    rows, columns = data.draw(st.sampled_from([2, 8])), data.draw(st.sampled_from([4, 16]))
    stored = data.draw(st.sampled_from([4, 16]))  # with 4, cells of 16 by 16 are computed
    with small(rows=rows, columns=columns, stored=stored):
        level = data.draw(st.integers(0, Grid(case.T, case.S).levels - 1))
        head = data.draw(st.integers(0, case.H - 1))
        check_level(case, measure=measure, head=head, level=level)


@settings(deadline=None)  # the first example imports and compiles
@given(cases(), st.sampled_from(tiles.MEASURES))
@example(Case(T=70, S=70), "weight")
def test_every_level_holds_the_same_weight(case: Case, measure: str) -> None:
    """Summed over its cells, each level gives the map's whole sum; its largest is the largest."""
    made, (found,) = trace(case)
    value, seen = found.measure(measure, case, 0)
    with small():
        grid = Grid(case.T, case.S)
        for level in range(grid.levels):
            total, most = 0.0, 0.0
            for y in range(grid.tiles(level)[0]):
                for x in range(grid.tiles(level)[1]):
                    tile = tiles.tile(made, 0, 0, measure, level, x, y)
                    if tile.mean is None or tile.max is None:
                        continue
                    start = (np.arange(tile.height) + y * sizes.TILE) << level
                    count = np.minimum(start + (1 << level), case.T) - start
                    total += float(np.nansum(tile.mean * count[:, None].astype(float)))
                    most = max(most, float(np.nanmax(tile.max)))
            assert total == pytest.approx(value[seen].sum(), rel=room(case, found), abs=TINY)
            assert most == pytest.approx(value[seen].max(initial=0), rel=room(case, found))


LONG = {
    "causal": Case(T=1100, S=1100, D=8, H=1, sink_keys=4),
    "causal, captured map": Case(T=1100, S=1100, D=8, H=1, stored=1),
    "sliding": Case(T=1100, S=1100, D=8, H=1, window=100, stored=1),
    "decoded chunk": Case(T=300, S=1100, D=8, H=1),
    "packed": Case(T=600, S=600, D=8, H=1, documents=tuple([0] * 250 + [1] * 350), sink_keys=2),
}


@pytest.mark.parametrize("measure", tiles.MEASURES)
@pytest.mark.parametrize("name", LONG)
def test_tiles_of_full_size_are_the_dense_map(name: str, measure: str) -> None:
    """The sizes that users get: tiles of 256 cells and blocks of 256 rows."""
    case = LONG[name]
    made, (found,) = trace(case)
    for level in range(Grid(case.T, case.S).levels):
        rows, columns = Grid(case.T, case.S).tiles(level)
        for at in {(0, 0), (rows - 1, 0), (rows - 1, columns - 1), (rows // 2, columns // 2)}:
            tile = tiles.tile(made, 0, 0, measure, level, at[1], at[0])
            check_tile(
                tile, case, found, measure=measure, head=0, relative=room(case, found)
            )  # fmt: skip


def test_equal_weights_name_one_of_them() -> None:
    """Every weight of a row is the same, so every pair of a cell's best row is a largest one."""
    case = Case(T=40, S=40, scale=0.0, causal=False)
    with small():
        for level in range(3):
            check_level(case, measure="weight", head=0, level=level)


def test_a_map_of_no_rows_is_masked() -> None:
    case = Case(T=0, S=5, causal=False, cross=True)
    tile = tiles.tile(trace(case)[0], 0, 0, "weight", 0, 0, 0)
    assert (tile.state, tile.width, tile.height) == ("masked", 5, 0)


def test_missing_is_an_answer() -> None:
    made, _ = trace(Case(norms=False))
    for layer in (1, 7, -3):
        assert tiles.tile(made, layer, 0, "weight", 3, 1, 2) == tiles.Tile("missing", 3, 1, 2, 0, 0)
    assert tiles.tile(made, 0, 0, "arrived", 0, 0, 0).state == "missing"
    assert tiles.tile(made, 0, 0, "arrived-no-sink", 9, 0, 0).state == "missing"
    assert tiles.tile(made, 0, 0, "weight-no-sink", 0, 0, 0).state == "values"


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"measure": "sum"}, ValueError, "measure: expected one of weight, arrived,.*got 'sum'"),
        ({"measure": None}, ValueError, "measure: expected one of"),
        ({"head": 2}, ValueError, "head: expected a whole number from 0 to 1, got 2"),
        ({"head": -1}, ValueError, "head: .* got -1"),
        ({"level": 3}, ValueError, "level: expected a whole number from 0 to 2, got 3"),
        ({"level": -1}, ValueError, "level: .* got -1"),
        ({"level": 0.5}, TypeError, "level: expected a whole number, got float"),
        ({"x": 3}, ValueError, "x: expected a whole number from 0 to 2, got 3"),
        ({"y": 1 << 200}, ValueError, "y: .* got a number of 201 bits"),
        ({"layer": "0"}, TypeError, "layer: expected a whole number, got str"),
        ({"layer": 1, "level": -1}, ValueError, "level: .* got -1"),
        ({"layer": 1, "measure": "?"}, ValueError, "measure: expected"),
    ],
)
def test_what_is_not_there_is_said(change: dict, error: type, said: str) -> None:
    made, _ = trace(Case(T=600, S=600, H=2))
    asked = {"layer": 0, "head": 0, "measure": "weight", "level": 0, "x": 0, "y": 0} | change
    with pytest.raises(error, match=said):
        tiles.tile(made, **asked)


def band(made: Trace, measure: str, level: int, row: int) -> None:
    """Read all tiles over one row."""
    for x in range(Grid(60, 60).tiles(level)[1]):
        tiles.tile(made, 0, 0, measure, level, x, (row >> level) // sizes.TILE)


def damaged(case: Case, **arrays: np.ndarray) -> Trace:
    """A trace whose damage the samples at its making do not meet."""
    held = truth(case).arrays | arrays
    return Trace.from_arrays(header(case), {0: held})


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("measure", ["weight", "arrived", "weight-no-sink"])
@pytest.mark.parametrize("change", [-3.0, -1e4, -np.inf, -3e38])
def test_a_weight_above_one_is_an_error(level: int, measure: str, change: float) -> None:
    """A log-sum-exp that is too small makes weights that cannot be; every tile over it says so."""
    case = Case(T=60, S=60, H=1, softcap=0.5)  # scores within half a unit: no weight is near one
    lse = truth(case).arrays["logsumexp"].copy()
    lse[0, 41] = np.float32(lse[0, 41] + change) if change > -1e38 else np.float32(change)
    if np.isneginf(change):
        # -inf where keys are seen is refused by the trace itself, unless a mask might hide them
        case = replace(case, mask=1.0)
    if change == -3.0:
        lse[0, 41] -= 3  # 41 keys: each weight is some 1/41 times e^6
    with small():
        made = damaged(case, logsumexp=lse)
        with pytest.raises(TraceError, match="above one or no number"):
            band(made, measure, level, 41)


def test_scores_without_a_number_are_an_error() -> None:
    """inf - inf: q and k are finite, and their product is not."""
    case = Case(T=60, S=60, H=1)
    q = truth(case).arrays["q"].copy()
    q[0, 41] = [3e38, -3e38, 3e38, -3e38]
    with small():
        made = damaged(case, q=q)
        for level in range(3):
            with pytest.raises(TraceError, match="above one or no number"):
                band(made, "weight", level, 41)


@pytest.mark.parametrize("name", ["q", "k"])
def test_a_number_that_is_none_is_an_error(name: str) -> None:
    case = Case(T=60, S=60, H=1)
    held = truth(case).arrays
    made = Trace.from_arrays(header(case), {0: held})
    held[name][0, 20, 1] = np.nan  # after the checks: as a file that was written over
    for level in range(3):
        at = (20 >> level) // 8
        with pytest.raises(TraceError, match=f"{name}: expected finite numbers"), small():
            tiles.tile(made, 0, 0, "weight", level, at, at)


@pytest.mark.parametrize(
    ("plane", "value", "said"),
    [
        ("map_mean", 1.5, "map_mean: expected weights from 0 to 1"),
        ("map_max", -0.1, "map_max: expected weights from 0 to 1"),
        ("map_max", np.nan, "masked in different cells"),
        ("map_argmax", -1, "masked in different cells"),
        ("map_argmax", 4, "places inside a cell of 2 by 2"),
        ("map_argmax", 3, "names a (row|key) that is not there"),
    ],
)
def test_a_captured_map_that_cannot_be_is_an_error(plane: str, value: float, said: str) -> None:
    case = Case(T=59, S=59, H=1, stored=1)
    held = truth(case).arrays
    made = Trace.from_arrays(header(case), {0: held})
    held[plane][0, 29, 29] = value
    with small():
        tiles.tile(made, 0, 0, "weight", 1, 0, 0)  # what is not touched is not judged
        with pytest.raises(TraceError, match=said):
            tiles.tile(made, 0, 0, "weight", 1, 3, 3)
        with pytest.raises(TraceError, match=said):
            tiles.tile(made, 0, 0, "weight", 3, 0, 0)


def test_a_map_of_another_pyramid_is_not_used() -> None:
    """A cell larger than the whole picture's: the tiles are computed as if there were none."""
    case = Case(T=30, S=30, stored=6)
    with small():
        for level in range(Grid(30, 30).levels):
            check_level(case, measure="weight", head=1, level=level)


def test_large_scores_are_allowed_their_rounding() -> None:
    """Scores of a thousand have few digits left in float32: a weight of 1.001 is no damage."""
    case = Case(T=60, S=60, H=1, D=8, scale=60.0)
    made, (found,) = trace(case)
    assert np.abs(found.scores).max() > 500
    relative = room(case, found)
    assert relative > 1e-3
    for level in range(3):
        with small():
            tile = tiles.tile(made, 0, 0, "weight", level, 0, 0)
            check_tile(tile, case, found, measure="weight", head=0, relative=relative)
