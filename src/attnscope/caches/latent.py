"""A latent and a rotated key per token, shared by all heads: what MLA keeps.

The idea: keys and values of all heads are products of one short vector per token, so that vector is
kept in their place, beside the one small key that carries the position. Sparse attention keeps a
third vector, by which its indexer finds the keys worth reading.

Formula: bytes = B length (R + Dr [+ Di]) x bytes of a number: 576 numbers for R = 512, Dr = 64.

Shapes: latent [B, t, R], rope_key [B, t, Dr], index [B, t, Di].

Not here: the matrices that make keys and values of a latent (mechanisms/latent.py).
"""

from __future__ import annotations

from typing import overload

import torch

from attnscope.caches.track import Track, count_of, rewound, same_tokens

Two = tuple[torch.Tensor, torch.Tensor]
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class LatentCache:
    """Latents, rotated keys and, if the first append brings them, the indexer's keys.

    >>> cache = LatentCache()
    >>> latents, rope_keys = cache.append(torch.ones(1, 3, 512), torch.ones(1, 3, 64))
    >>> latents.shape, rope_keys.shape, cache.nbytes == 3 * 576 * 4
    (torch.Size([1, 3, 512]), torch.Size([1, 3, 64]), True)
    """

    def __init__(self, *, room: int = 0) -> None:
        self._room = count_of("room", room, 0)
        self._latents = Track("latent", "BtR", room=room)
        self._rope_keys = Track("rope_key", "BtD", room=room)
        self._indexes: Track | None = None

    @property
    def _tracks(self) -> tuple[Track, ...]:
        two = (self._latents, self._rope_keys)
        return two if self._indexes is None else (*two, self._indexes)

    @property
    def length(self) -> int:
        """Tokens ever given, and the position of the next."""
        return self._latents.tokens

    @property
    def nbytes(self) -> int:
        """Bytes of what is held, the indexer's keys included."""
        return sum(track.nbytes for track in self._tracks)

    @property
    def allocated(self) -> int:
        """Bytes held with the spare room."""
        return sum(track.allocated for track in self._tracks)

    @property
    def latents(self) -> torch.Tensor | None:
        """[B, length, R], a view; None before the first append."""
        return self._latents.view()

    @property
    def rope_keys(self) -> torch.Tensor | None:
        """[B, length, Dr], a view; None before the first append."""
        return self._rope_keys.view()

    @property
    def indexes(self) -> torch.Tensor | None:
        """[B, length, Di], a view; None if there are none."""
        return None if self._indexes is None else self._indexes.view()

    @overload
    def append(self, latent: torch.Tensor, rope_key: torch.Tensor) -> Two: ...
    @overload
    def append(
        self, latent: torch.Tensor, rope_key: torch.Tensor, index: torch.Tensor
    ) -> Three: ...

    def append(
        self, latent: torch.Tensor, rope_key: torch.Tensor, index: torch.Tensor | None = None
    ) -> Two | Three:
        """Keep what is new and give all there is.

        Args:
            latent: [B, t, R], after its norm.
            rope_key: [B, t, Dr], rotated.
            index: [B, t, Di], the indexer's keys: at every append, or at none.

        Returns:
            All latents [B, length, R] and rotated keys [B, length, Dr], and the indexer's keys
            [B, length, Di] if given: views of the cache.

        Raises:
            ValueError, TypeError: batch, width, dtype or device changed, or `index` came once and
                not always; nothing is kept.
        """
        if self._latents.buffer is not None and (index is None) != (self._indexes is None):
            had = "no index" if self._indexes is None else "an index"
            now = "none" if index is None else "one"
            raise ValueError(f"index: the cache holds {had} per token, got {now} this time")
        if index is None:
            same_tokens((self._latents, self._rope_keys), (latent, rope_key))
            return self._latents.push(latent), self._rope_keys.push(rope_key)
        indexes = self._indexes or Track("index", "BtI", room=self._room)
        tracks = (self._latents, self._rope_keys, indexes)
        same_tokens(tracks, (latent, rope_key, index))
        self._indexes = indexes
        return self._latents.push(latent), self._rope_keys.push(rope_key), indexes.push(index)

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on.

        Raises:
            ValueError, TypeError: not a length the cache has had.
        """
        gone = rewound(length, self.length)
        for track in self._tracks:
            track.drop(gone)

    def clear(self) -> None:
        """Forget everything and free the room."""
        for track in self._tracks:
            track.clear()
        self._indexes = None
