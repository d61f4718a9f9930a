"""The last keys and values of a sliding window: memory that stops growing.

The idea: a query that sees w keys, itself included, needs w - 1 earlier ones. Older ones are
forgotten, and the cache weighs the same at a thousand tokens and at a million.

What was traded: a true ring holds w slots and writes over the oldest, but then the keys lie in the
wrong order, broken in two, and attention must either undo that at each step (a copy of the window)
or know of it. Here the window slides through a buffer of up to 2w slots and moves to a fresh one
when it reaches the end: one token copied per step on average, twice the memory, and what is given
out is one run of memory in order of position. `nbytes` counts the window, `allocated` the buffer.

transformers' sliding layer holds w - 1 tokens between steps, since the next query brings its own
key. This one holds w: the same but for one token, and it can take the newest token back.

Shapes: k [B, G, t, D], v [B, G, t, E].

Not here: the mask. `core.attend` with the same window and the t queries at the end of the keys
given out is right, whatever t is.
"""

from __future__ import annotations

import torch

from attnscope.caches.track import LEAST, Track, count_of, rewound, same_tokens


class WindowCache:
    """Keys and values of the last `window` tokens.

    Args:
        window: how many keys a query sees, itself included.

    >>> cache = WindowCache(3)
    >>> for position in range(10):
    ...     x = torch.full((1, 1, 1, 2), float(position))
    ...     keys, values = cache.append(x, x)
    >>> keys[0, 0, :, 0].tolist(), cache.length, cache.nbytes == 3 * 2 * 2 * 4
    ([7.0, 8.0, 9.0], 10, True)
    """

    def __init__(self, window: int) -> None:
        self.window = count_of("window", window, 1)
        limit = window + max(window, LEAST)
        self._keys = Track("k", "BGtD", limit=limit)
        self._values = Track("v", "BGtE", limit=limit)
        self._length = 0

    @property
    def length(self) -> int:
        """Tokens ever given, and the position of the next."""
        return self._length

    @property
    def held(self) -> int:
        """Tokens still here: the last min(length, window), or one less after a rewind."""
        return self._keys.tokens

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values held."""
        return self._keys.nbytes + self._values.nbytes

    @property
    def allocated(self) -> int:
        """Bytes held with the room the window slides in."""
        return self._keys.allocated + self._values.allocated

    @property
    def keys(self) -> torch.Tensor | None:
        """[B, G, held, D], a view; None before the first append."""
        return self._keys.view()

    @property
    def values(self) -> torch.Tensor | None:
        """[B, G, held, E], a view; None before the first append."""
        return self._values.view()

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep what is new and give all that the new queries may see.

        Args:
            k: [B, G, t, D], of the t tokens that follow, after norms and positions.
            v: [B, G, t, E].

        Returns:
            Keys [B, G, n + t, D] and values [B, G, n + t, E] in order of position, ending at the
            newest: the n = min(length, window - 1) tokens before, and the new ones.

        Raises:
            ValueError, TypeError: batch, heads, width, dtype or device changed; nothing is kept.

        Cost: copies the new tokens, and the window once in `window` steps. A chunk too long for the
        buffer is joined with the window in a tensor that the cache does not keep.
        """
        count = same_tokens((self._keys, self._values), (k, v))
        given = (self._add(self._keys, k), self._add(self._values, v))
        self._length += count
        return given

    def _add(self, track: Track, new: torch.Tensor) -> torch.Tensor:
        seen = min(track.tokens, self.window - 1)
        if new.shape[-2] == 0:
            return track.push(new)[..., track.tokens - seen :, :]
        if track.limit is None or seen + new.shape[-2] <= track.limit:
            given = track.push(new, visible=seen)
        else:
            before = track.view(seen) if seen else None
            given = new if before is None else torch.cat([before, new], dim=-2)
            track.hold(given[..., -self.window :, :])
        track.begin = max(track.begin, track.end - self.window)
        return given

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on.

        Raises:
            ValueError: keys that the token at `length` would see have left the window. Before
                anything has left, any length will do; after that, one token can be taken back.
        """
        gone = rewound(length, self._length)
        if length == 0:
            return self.clear()
        first = self._length - self.held
        if first > max(0, length - self.window + 1):
            raise ValueError(
                f"length: the token at {length} would see keys from {length - self.window + 1} on, "
                f"but a window of {self.window} after {self._length} tokens holds those from "
                f"{first} on; clear() and feed the tokens again, or keep them in a FullCache"
            )
        self._keys.drop(gone)
        self._values.drop(gone)
        self._length = length

    def clear(self) -> None:
        """Forget everything and free the room."""
        self._keys.clear()
        self._values.clear()
        self._length = 0
