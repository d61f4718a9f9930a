"""Answers without a carrier: the rim of what may be asked, and numbers that follow the question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from attnscope import tiles
from attnscope.serve.answers import Answers, UnknownTraceError
from attnscope.serve.store import MOST_AWAKE, Store
from tests.tiles.tile_samples import Case, trace

CASE = Case(H=2, T=20, S=300, D=4)
"""Twenty queries after keys that were kept: one tile high and two wide, of two levels."""
WINDOWED = Case(H=2, T=30, S=30, window=5)
MAP = "/traces/text"


class Asked:
    """A store of one trace of two layers (0 and 2; 1 has no map), and its answers."""

    def __init__(self, case: Case) -> None:
        made, [self.truth] = trace(case)
        self.store = Store()
        assert self.store.add(made, name="text")["id"] == "text"
        self.answers = Answers(self.store, list)

    def body(self, path: str, query: str, **options: Any) -> bytes:
        return b"".join(part() for part in self.answers.ask(MAP + path, query, **options).parts)

    def refused(self, path: str, query: str) -> str:
        """What is said before any piece of the answer is made."""
        with pytest.raises(ValueError, match=r"expected|is not one of") as caught:
            self.answers.ask(MAP + path, query)
        return str(caught.value)


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    made = Asked(CASE)
    yield made
    made.store.close()


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("/tiles", "layer=0&head=2&measure=weight&level=0&at=0.0",
         "head: 2 is not one of the 2 heads of layer 0"),
        ("/tiles", "layer=0&head=0&measure=weight&level=2&at=0.0", "level: expected 0 to 1, got 2"),
        ("/tiles", "layer=0&head=0&measure=weight&level=0&at=2.0",
         "at: column: expected 0 to 1, got 2"),
        ("/tiles", "layer=0&head=0&measure=weight&level=0&at=0.1",
         "at: row: expected 0 to 0, got 1"),
        ("/tracks", "layer=0&head=0&names=received&level=0&at=2", "at: expected 0 to 1, got 2"),
        ("/tracks", "layer=0&head=0&names=entropy&level=0&at=1", "at: expected 0 to 0, got 1"),
        ("/tracks", "layer=0&head=2&names=entropy&level=0&at=0",
         "head: 2 is not one of the 2 heads of layer 0"),
        ("/tracks", "layer=0&head=0&names=entropy&level=2&at=0", "level: expected 0 to 1, got 2"),
        ("/table", "layer=0&head=0&rows=0-20&keys=0", "rows: expected 0 to 19, got 20"),
        ("/table", "layer=0&head=0&rows=0&keys=0-300", "keys: expected 0 to 299, got 300"),
        ("/table", "layer=0&head=2&rows=0&keys=0", "head: 2 is not one of the 2 heads of layer 0"),
    ],
)  # fmt: skip
def test_one_beyond_the_last_is_refused_before_the_first_piece(
    asked: Asked, path: str, query: str, said: str
) -> None:
    assert asked.refused(path, query) == said


def test_the_last_of_a_side_is_there(asked: Asked) -> None:
    """Keys are more than queries: each side has its own number of tiles."""
    [tile] = tiles.decode(asked.body("/tiles", "layer=0&head=1&measure=weight&level=0&at=1.0"))
    seen = asked.truth.seen[1][:, 256:]
    expected = np.where(seen, asked.truth.weights[1][:, 256:], np.nan)
    np.testing.assert_allclose(tile.mean, expected, rtol=1e-4)  # float32, and scores of some 10
    [track] = tiles.decode(
        asked.body("/tracks", "layer=0&head=1&names=received&level=0&at=1"), tracks=("received",)
    )
    received = asked.truth.weights[1].sum(axis=0)[256:]
    np.testing.assert_allclose(track.mean, received, rtol=1e-4)


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_several_keys_are_joined_as_it_was_asked(asked: Asked, how: str) -> None:
    for path, query, axis, part in (
        ("/column", f"layer=0&head=0&keys=3,7-9&how={how}", 1, np.s_[:, [3, 7, 8, 9]]),
        ("/row", f"layer=0&head=0&queries=3,7-9&how={how}", 0, np.s_[[3, 7, 8, 9]]),
    ):
        [found] = tiles.decode(asked.body(path, query))
        found = getattr(found, "weights", found)
        block = asked.truth.weights[0][part]
        joined = block.sum(axis=axis) if how == "sum" else block.mean(axis=axis)
        np.testing.assert_allclose(found, joined, rtol=1e-4)


def test_a_distance_that_nobody_sees_has_no_mean() -> None:
    """A window of five: nothing is in sight beyond it, which is not a mean of zero."""
    made = Asked(WINDOWED)
    found = json.loads(made.body("/expected", "layer=0&head=0"))
    made.store.close()
    assert found["cell"] == 1
    assert [value is None for value in found["density"]] == [False] * 5 + [True] * 25
    own = made.truth.weights[0]
    for distance in range(5):
        expected = np.diagonal(own, -distance).mean()
        assert found["density"][distance] == pytest.approx(expected, rel=1e-4)


def test_a_tile_asks_whether_it_is_still_wanted(asked: Asked) -> None:
    class GoneError(Exception):
        pass

    def gone() -> None:
        raise GoneError

    query = "layer=0&head=0&measure=arrived&level=1&at=0.0"
    with pytest.raises(GoneError):
        asked.body("/tiles", query, check=gone)
    assert asked.body("/tiles", query)[:4] == b"ATTL"


def test_traces_of_one_name_are_told_apart() -> None:
    store = Store()
    made = [trace(Case(seed=seed))[0] for seed in range(3)]
    ids = [store.add(one, name="A text")["id"] for one in made]
    assert ids == ["a-text", "a-text-2", "a-text-3"]
    assert [entry["name"] for entry in store.entries()] == ["A text"] * 3
    for key, one in zip(ids, made, strict=True):
        assert store.tiles(key).cell(0, 0, 9, 3) == tiles.cell(one, 0, 0, 9, 3)
    store.close()
    with pytest.raises(UnknownTraceError, match="no such trace"):
        store.tiles("a-text-4")


def test_the_trace_used_longest_ago_lets_its_tiles_go() -> None:
    store = Store()
    ids = [store.add(trace(Case())[0], name="text")["id"] for _ in range(MOST_AWAKE + 1)]
    awake = {key: store.tiles(key) for key in ids[:-1]}
    for key in ids[:-1]:
        awake[key].tile(0, 0, "weight", 0, 0, 0)
        assert store.tiles(key) is awake[key], "kept as long as there is room"
    assert store.tiles(ids[0]) is awake[ids[0]]
    store.tiles(ids[-1])
    assert store.tiles(ids[0]) is awake[ids[0]], "used a moment ago"
    assert store.tiles(ids[1]) is not awake[ids[1]]
    store.close()
