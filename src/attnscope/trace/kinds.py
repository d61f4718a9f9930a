"""What a head mostly does, by rules written down here and nowhere else.

The idea: a head is named for where it puts its weight *beyond chance*. A head that spreads its
weight evenly over the n keys in sight puts c/n of it on any c of them; what is above that, as a
share of what could be above, is the excess

    excess = mean over rows of (mass - c/n) / (1 - c/n)

1 for a head that looks there alone, 0 for one that does not care, below 0 for one that avoids it.
Rows in which the c keys are more than half of all in sight say nothing and are left out.

Rules, the first that holds:
    previous-token   excess of the key just before the query is at least 1/2
    induction        excess of the keys that follow an earlier copy of the query's token is at
                     least 1/2, over the rows that have such a key
    sink             excess of the document's first keys, and of the learned sink, is at least 1/2
    local            excess of the last `local` keys is at least 1/2
    uniform          the row's entropy is on average within log 2 of log n: the weight spreads over
                     at least half of the keys in sight
    mixed            anything else

Why 1/2: more weight lies in that place than everywhere else together, so at most one of two
disjoint places can hold it, and the name does not depend on the order of the rules. The narrower
place is asked first where one contains another (the previous key is also local). Fewer than four
rows that count decide nothing.

Not here: colours and letters for the kinds (cli, tiles).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from attnscope.trace.header import Header
from attnscope.trace.layer import LayerRecord

KINDS: Final = ("sink", "previous-token", "induction", "local", "uniform", "mixed")
HALF: Final = 0.5
LEAST_ROWS: Final = 4
LEAST_SIGHT: Final = 4
"""Rows with fewer keys in sight do not count for `uniform`: their entropy has nowhere to go."""
NEEDED: Final = ("previous_mass", "sink_mass", "local_mass", "entropy")


class HeadKind(NamedTuple):
    """A head's kind, and the excess that decided it (for `mixed`, the largest that did not)."""

    layer: int
    head: int
    kind: str
    share: float


def layer_kinds(record: LayerRecord, header: Header) -> list[HeadKind]:
    """The kinds of one layer's heads.

    Args:
        record: a layer with a map; `induction` is asked only where `induction_mass` and the tokens
            are there. Cross-attention, where positions do not match, is `uniform` or `mixed`.

    Raises:
        ValueError: a statistic that the rules need was not captured.

    Cost: a few passes over the layer's statistics, and O(T log T) for the copies of tokens.
    """
    shares = layer_shares(record, header)
    return [HeadKind(record.info.index, head, *decide(one)) for head, one in enumerate(shares)]


def layer_shares(record: LayerRecord, header: Header) -> list[dict[str, float]]:
    """What the rules compare with a half: for each head, by kind, in the order that they are asked.

    -inf where too few rows count. Arguments, errors and cost are those of `layer_kinds`.
    """
    missing = [name for name in NEEDED if name not in header.statistics]
    if missing:
        raise ValueError(
            f"kinds: the trace lacks {', '.join(missing)}; capture with statistics='all'"
        )
    first, end, origin = (part.astype(np.int64) for part in record.spans)
    sight = record.sight
    position = record.keys - record.queries + np.arange(record.queries)
    excesses: dict[str, np.ndarray] = {}
    if not record.info.cross:
        here = np.minimum(position + 1, end)  # one past the last key at or before the query
        one = (first < position) & (position <= end)
        excesses["previous-token"] = _excess(record, "previous_mass", one.astype(int), sight)
        if header.tokens and "induction_mass" in header.statistics:
            ids = np.array([token.id for token in header.tokens], np.int64)
            copies = copies_in_sight(ids, position, first=first, end=end)
            excesses["induction"] = _excess(
                record, "induction_mass", copies, sight, only=copies > 0
            )
        sinks = np.minimum(end, origin + header.sink_keys) - np.maximum(first, origin)
        excesses["sink"] = _excess(record, "sink_mass", np.maximum(sinks, 0), sight)
        near = here - np.maximum(first, position - header.local + 1)
        excesses["local"] = _excess(record, "local_mass", np.maximum(near, 0), sight)
    spread = _spread(record, sight)
    return [
        {
            **{kind: float(one[head]) for kind, one in excesses.items()},
            "uniform": float(spread[head]),
        }
        for head in range(len(spread))
    ]


def copies_in_sight(
    ids: np.ndarray, position: np.ndarray, *, first: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """How many keys j in sight, 1 <= j <= i, follow a copy of query i's token: ids[j-1] == ids[i].

    Args:
        ids: token ids of the S keys.
        position: key position i of each query.
        first, end: keys in sight of each query.

    >>> three = np.arange(3)
    >>> copies_in_sight(np.array([5, 7, 5]), three, first=np.zeros(3, int), end=three + 1)
    array([0, 0, 1])
    """
    token = np.unique(ids, return_inverse=True)[1].reshape(-1)
    span = len(ids) + 1
    places = np.sort(token * span + np.arange(len(ids)))
    row = token[position] * span
    lo = np.maximum(first, 1) - 1
    hi = np.maximum(np.minimum(end, position + 1) - 1, lo)
    return np.searchsorted(places, row + hi) - np.searchsorted(places, row + lo)


def _excess(
    record: LayerRecord,
    name: str,
    count: np.ndarray,
    sight: np.ndarray,
    *,
    only: np.ndarray | None = None,
) -> np.ndarray:
    """The excess of each head, [H]; -inf where too few rows count."""
    chance = count / np.maximum(sight, 1)
    counts = (sight > 0) & (chance <= HALF)
    if only is not None:
        counts &= only
    mass = record.statistic(name)
    if counts.sum() < LEAST_ROWS:
        return np.full(len(mass), -np.inf)
    chance = chance[counts]
    result: np.ndarray = ((mass[:, counts] - chance) / (1 - chance)).mean(axis=1)
    return result


def _spread(record: LayerRecord, sight: np.ndarray) -> np.ndarray:
    """exp of the mean of entropy - log n, [H]: the share of the keys that a head spreads over."""
    entropy = record.statistic("entropy")
    counts = sight >= LEAST_SIGHT
    if counts.sum() < LEAST_ROWS:
        return np.zeros(len(entropy))
    result: np.ndarray = np.exp((entropy[:, counts] - np.log(sight[counts])).mean(axis=1))
    return result


def decide(shares: dict[str, float], *, half: float = HALF) -> tuple[str, float]:
    """A head's kind by the first rule that holds, and the share that decided it.

    Args:
        shares: of `layer_shares`.
        half: how large a share must be; the package's names are those at HALF.

    >>> decide({"previous-token": 0.1, "sink": 0.6, "uniform": 0.7})
    ('sink', 0.6)
    """
    for kind, share in shares.items():
        if share >= half:
            return kind, share
    return "mixed", max(shares.values())
