"""Every key and value ever seen: what ordinary attention keeps.

The idea: the row of a new query needs all earlier keys and values, and those do not change; so they
are computed once and kept. A step computes one key and one value, in place of all of them.

Formula: bytes = B G length (D + E) x bytes of a number.

Shapes: k [B, G, t, D], v [B, G, t, E]; B batch, G key/value heads, t new tokens.

Not here: a bound on the length (window.py), fewer numbers per token (latent.py).
"""

from __future__ import annotations

import torch

from attnscope.caches.track import Track, count_of, rewound, same_tokens


class FullCache:
    """Keys and values of all tokens, in room that grows by half as much again when it is full.

    Args:
        room: tokens to lay out room for at the first append; more still fit.

    >>> cache = FullCache()
    >>> keys, values = cache.append(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 5))
    >>> keys, values = cache.append(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 5))
    >>> keys.shape, values.shape, cache.length, cache.nbytes == 4 * 2 * (4 + 5) * 4
    (torch.Size([1, 2, 4, 4]), torch.Size([1, 2, 4, 5]), 4, True)
    """

    def __init__(self, *, room: int = 0) -> None:
        count_of("room", room, 0)
        self._keys = Track("k", "BGtD", room=room)
        self._values = Track("v", "BGtE", room=room)

    @property
    def length(self) -> int:
        """Tokens ever given, and the position of the next."""
        return self._keys.tokens

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values held."""
        return self._keys.nbytes + self._values.nbytes

    @property
    def allocated(self) -> int:
        """Bytes held with the spare room."""
        return self._keys.allocated + self._values.allocated

    @property
    def keys(self) -> torch.Tensor | None:
        """[B, G, length, D], a view; None before the first append."""
        return self._keys.view()

    @property
    def values(self) -> torch.Tensor | None:
        """[B, G, length, E], a view; None before the first append."""
        return self._values.view()

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep what is new and give all there is.

        Args:
            k: [B, G, t, D], of the t tokens that follow, after norms and positions.
            v: [B, G, t, E].

        Returns:
            All keys [B, G, length, D] and values [B, G, length, E], as views of the cache.

        Raises:
            ValueError, TypeError: batch, heads, width, dtype or device changed; nothing is kept.

        Cost: copies the new tokens, and now and then all: about three copies per token in all.
        """
        same_tokens((self._keys, self._values), (k, v))
        return self._keys.push(k), self._values.push(v)

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on.

        Raises:
            ValueError, TypeError: not a length the cache has had.
        """
        gone = rewound(length, self.length)
        self._keys.drop(gone)
        self._values.drop(gone)

    def clear(self) -> None:
        """Forget everything and free the room."""
        self._keys.clear()
        self._values.clear()
