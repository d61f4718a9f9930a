"""The embeddings of a text's tokens: what its words were to the model before anything was done.

The idea: a text uses few of a vocabulary's rows, so each different token's row is kept once.

Shapes
    ids int32 [U], rising; vectors [U, C], the row of each.

Not here: the file (arrays.py), taking them from a model (capture/vocabulary.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from attnscope.errors import TraceError
from attnscope.trace import values
from attnscope.trace.arrays import Arrays
from attnscope.trace.header import Token

_DTYPES: Final = {"ids": ("I32",), "vectors": ("F32", "F16", "BF16", "F64")}


class Embeddings:
    """Rows of a model's table of embeddings.

    Args:
        arrays: `ids` and `vectors`.

    Raises:
        TraceError: another array, or a shape or dtype that does not fit; naming the file.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        if set(arrays.names()) != set(_DTYPES):
            raise TraceError(f"{arrays.where}: expected the arrays ids and vectors, no others.")
        for name, dtypes in _DTYPES.items():
            if arrays.entry(name).dtype not in dtypes:
                raise TraceError(f"{arrays.where}: {name}: expected {' or '.join(dtypes)}.")
        ids, vectors = (arrays.entry(name).shape for name in _DTYPES)
        if len(ids) != 1 or len(vectors) != 2 or ids[0] != vectors[0] or not vectors[1]:
            raise TraceError(f"{arrays.where}: expected a row of vectors for each of the ids.")

    def of(self, ids: Sequence[int]) -> np.ndarray:
        """The rows of some tokens, float32 [n, C] (float64 if they are kept so).

        Raises:
            TraceError: one is not there, or is no number.

        Cost: reads these rows alone.
        """
        rows = [self._row(at) for at in self._places(np.asarray(ids, np.int64))]
        width = self.arrays.entry("vectors").shape[1]
        return np.stack(rows) if rows else np.zeros((0, width), np.float32)

    def check_tokens(self, tokens: Iterable[Token]) -> None:
        """Every token of a text has a row.

        Raises:
            TraceError: one has not.
        """
        self._places(np.array([token.id for token in tokens], np.int64))

    def verify(self) -> None:
        """Read all of it.

        Raises:
            TraceError: a byte or a number is not what it must be.
        """
        self.arrays.verify()
        self._ids()
        self._check(self.arrays.read("vectors"))

    def _places(self, wanted: np.ndarray) -> np.ndarray:
        """The row of each id."""
        known = self._ids()
        place = np.searchsorted(known, wanted)
        there = place < len(known)
        there[there] = known[place[there]] == wanted[there]
        if not there.all():
            raise TraceError(
                f"{self.arrays.where}: ids: token {int(wanted[~there][0])} of the text has no row."
            )
        return place

    def _ids(self) -> np.ndarray:
        ids = self.arrays.read("ids")
        if np.any(np.diff(ids.astype(np.int64)) <= 0):
            raise TraceError(f"{self.arrays.where}: ids: expected rising numbers.")
        return ids

    def _row(self, at: int) -> np.ndarray:
        row = self.arrays.read("vectors", int(at))
        self._check(row)
        return values.widen(row)

    def _check(self, vectors: np.ndarray) -> None:
        if not values.finite(vectors):
            raise TraceError(f"{self.arrays.where}: vectors: expected finite numbers.")


__all__ = ["Embeddings"]
