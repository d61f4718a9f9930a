"""Which tiles are made while nobody asks: those that a reader of this place is likely to want next.

The idea: a reader who looks at a level goes deeper most of the time, or beside it. So first the
tiles below, then the neighbours, then two levels down, each the nearest first; and the dearest
level of all, just below the captured map, as far as there is room. What takes a few milliseconds
is left out: it is there as soon as it is asked for.

Units: FLOPs; `_PAIR` is what one pair costs beside its product, in the same coin.

Not here: when they are made (prefetch.py), what is kept (held.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from attnscope.tiles.grid import TILE
from attnscope.tiles.source import Source

WORTH: Final = 2.5e8
"""FLOPs of a tile, some 4 ms, from which on it is made ahead."""
_PAIR: Final = 200.0
_BELOW, _BESIDE, _DEEPER = 16, 20, 9
_MOST_TILES: Final = 1 << 16


class Key(NamedTuple):
    """One tile."""

    layer: int
    head: int
    measure: str
    level: int
    x: int
    y: int


class Focus(NamedTuple):
    """The middle of the tiles that were asked for last, in tiles of their level."""

    key: Key
    x: float
    y: float

    @staticmethod
    def of(keys: list[Key]) -> Focus:
        """The middle of those that are of the last one's map and level.

        >>> one = Key(0, 0, "weight", 2, 4, 9)
        >>> Focus.of([one._replace(level=3), one, one._replace(x=5, y=10)])[1:]
        (5.0, 10.0)
        """
        last = keys[-1]
        same = [one for one in keys if one[:4] == last[:4]]
        return Focus(
            last,
            sum(one.x for one in same) / len(same) + 0.5,
            sum(one.y for one in same) / len(same) + 0.5,
        )


def plan(source: Source, focus: Focus, *, dear: int, plain: int) -> Iterator[Key]:
    """The tiles to make ahead, the likeliest first; none twice.

    Args:
        source: of the head.
        focus: where the reader is.
        dear, plain: how many tiles may be made of those that cost a pass over a map, and of others.
    """
    key = focus.key
    measure, base = key.measure, source.base(key.measure)
    if measure == "uniform":
        return
    passes = source.dear(measure, base)
    if passes and _worth(source, base):
        yield from near(source, focus, measure, base, dear)
    level, seen = min(key.level, base), set[Key]()
    wanted = [(level - 1, _BELOW), (level, _BESIDE if level < base else 0)]
    wanted += [(level - 2, _DEEPER), (base - 1, plain)]
    for at, count in wanted:
        if at < 0 or not _worth(source, at):
            continue
        for one in near(source, focus, measure, at, min(count, plain)):
            if one not in seen and len(seen) < plain:
                seen.add(one)
                yield one
    # The map of what arrived, which no capture keeps: a long head's first one is a pass of seconds.
    known = measure.startswith("weight") and source.record.has("value_norms")
    arrived = source.base("arrived")
    if known and not passes and _worth(source, arrived):  # else both would not fit
        yield from near(source, focus, "arrived", arrived, dear)


def near(source: Source, focus: Focus, measure: str, level: int, count: int) -> Iterator[Key]:
    """The tiles of a level that show something, by their distance from the focus."""
    factor = 2.0 ** (focus.key.level - level)
    y0, x0 = focus.y * factor - 0.5, focus.x * factor - 0.5
    high, wide = source.grid.tiles(level)
    if high * wide > _MOST_TILES:  # only a text of a million tokens has as many
        return
    places = [(y, x) for y in range(high) for x in range(wide)]
    places.sort(key=lambda at: (at[0] - y0) ** 2 + (at[1] - x0) ** 2)
    for y, x in places:
        if count <= 0:
            return
        if source.in_sight(source.grid.place(level, x, y)):
            count -= 1
            yield focus.key._replace(measure=measure, level=level, x=x, y=y)


def _worth(source: Source, level: int) -> bool:
    """Whether a tile takes so long that it is made ahead."""
    return 2.0 * (TILE << level) ** 2 * (source.record.info.head_width + _PAIR / 2) >= WORTH
