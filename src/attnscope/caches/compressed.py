"""A window of raw tokens and, behind it, entries that each stand for several tokens.

The idea: near tokens are kept as they are and forgotten again; of every `ratio` tokens one entry
stays. What has not filled its group yet waits, and so does what the next entry will read again.

Formula (T tokens, ratio m, a token's vector D wide, what waits W wide: D, or 2 D with overlap)
    held = min(T, window) D + floor(T / m) D + (T mod m) 2 W + [T >= m and overlap] 2 m D numbers

Shapes: raw [B, t, D]; values and gates [B, t, W]; entries [B, n, D].

Not here: how tokens become an entry (mechanisms/compressed.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attnscope.caches.track import Track, count_of, rewound, same_tokens
from attnscope.caches.window import WindowCache


@dataclass(frozen=True)
class Closed:
    """Groups that are complete.

    Attributes:
        values, gates: [B, n, m, W] of the n groups that just filled.
        first: the number of the first of them, counted from the text's beginning.
        before: values and gates [B, m, W] of the group before that one; None if there is none, or
            if nobody reads it.
    """

    values: torch.Tensor
    gates: torch.Tensor
    first: int
    before: tuple[torch.Tensor, torch.Tensor] | None


class EntryTrack:
    """The entries of one compressor, and the tokens that wait.

    Args:
        ratio: m, tokens per entry.
        overlap: whether an entry also reads the first halves of the group before its own.
    """

    def __init__(self, ratio: int, *, overlap: bool = False) -> None:
        self.ratio, self.overlap = count_of("ratio", ratio, 1), overlap
        self._entries = Track("entry", "BtD")
        self._waiting: tuple[torch.Tensor, torch.Tensor] | None = None
        self._before: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def entries(self) -> int:
        """How many are held."""
        return self._entries.tokens

    @property
    def waiting(self) -> int:
        """How many tokens have not filled their group."""
        return 0 if self._waiting is None else self._waiting[0].shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of entries and of what waits."""
        return self._entries.nbytes + self._aside

    @property
    def allocated(self) -> int:
        """Bytes with the spare room."""
        return self._entries.allocated + self._aside

    @property
    def _aside(self) -> int:
        pairs = [pair for pair in (self._waiting, self._before) if pair is not None]
        return sum(part.nbytes for pair in pairs for part in pair)

    def close(self, values: torch.Tensor, gates: torch.Tensor) -> Closed:
        """Take new tokens, and give the groups that are complete now.

        Args:
            values, gates: [B, t, W], the t tokens that follow.

        Raises:
            ValueError: their shapes differ from each other or from what came before.
        """
        if values.ndim != 3 or values.shape != gates.shape:
            raise ValueError(
                f"values, gates: expected the same [B, t, W], got {list(values.shape)} and "
                f"{list(gates.shape)}"
            )
        if self._waiting is not None:
            held = self._waiting[0]
            if (held.shape[0], held.shape[2]) != (values.shape[0], values.shape[2]):
                raise ValueError(
                    f"values: the cache holds batch and width {held.shape[0]} x {held.shape[2]}, "
                    f"got {values.shape[0]} x {values.shape[2]}; clear() it for other sequences"
                )
            values = torch.cat([held, values], dim=1)
            gates = torch.cat([self._waiting[1], gates], dim=1)
        B, _, W = values.shape
        m, full = self.ratio, values.shape[1] // self.ratio
        groups = [part[:, : full * m].reshape(B, full, m, W) for part in (values, gates)]
        # Copies: a slice would keep the whole prompt's projections alive.
        self._waiting = (values[:, full * m :].clone(), gates[:, full * m :].clone())
        closed = Closed(groups[0], groups[1], self.entries, self._before)
        if self.overlap and full:
            half = W // 2
            self._before = (groups[0][:, -1, :, :half].clone(), groups[1][:, -1, :, :half].clone())
        return closed

    def keep(self, entries: torch.Tensor) -> torch.Tensor:
        """Hold new entries [B, n, D], and give all of them."""
        same_tokens((self._entries,), (entries,))
        return self._entries.push(entries)

    def fits(self, length: int) -> bool:
        """Whether going back to `length` tokens leaves every entry as it is."""
        return self.entries * self.ratio <= length

    def drop_to(self, length: int) -> None:
        """Let the waiting tokens from position `length` on go."""
        left = length - self.entries * self.ratio
        if self._waiting is not None:
            self._waiting = (self._waiting[0][:, :left], self._waiting[1][:, :left])

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._waiting = self._before = None


class CompressedCache:
    """The window of one layer, the entries of its attention and, if it has one, of its indexer.

    Args:
        window: how many raw tokens a query sees, itself included.
        ratio: tokens per entry; 0 keeps a window alone.
        overlap: whether entries overlap.
        index: whether an indexer keeps entries of its own.

    >>> cache = CompressedCache(window=2, ratio=4)
    >>> raw = cache.append(torch.ones(1, 5, 8))
    >>> closed = cache.entries.close(torch.ones(1, 5, 8), torch.zeros(1, 5, 8))
    >>> cache.entries.keep(closed.values.mean(2)).shape, cache.entries.waiting, cache.length
    (torch.Size([1, 1, 8]), 1, 5)
    >>> cache.nbytes == (2 * 8 + 1 * 8 + 1 * 2 * 8) * 4
    True
    """

    def __init__(
        self, window: int, *, ratio: int = 0, overlap: bool = False, index: bool = False
    ) -> None:
        self._window = WindowCache(window)
        self._entries = EntryTrack(ratio, overlap=overlap) if ratio else None
        self._index = EntryTrack(ratio, overlap=overlap) if ratio and index else None

    @property
    def _tracks(self) -> tuple[EntryTrack, ...]:
        return tuple(track for track in (self._entries, self._index) if track is not None)

    @property
    def entries(self) -> EntryTrack:
        """Those that attention reads."""
        return _there(self._entries, "entries")

    @property
    def index(self) -> EntryTrack:
        """Those that the indexer reads."""
        return _there(self._index, "index entries")

    @property
    def length(self) -> int:
        """Tokens ever given, and the position of the next."""
        return self._window.length

    @property
    def nbytes(self) -> int:
        """Bytes of what is held, what waits included."""
        return self._window.nbytes + sum(track.nbytes for track in self._tracks)

    @property
    def allocated(self) -> int:
        """Bytes held with the spare room."""
        return self._window.allocated + sum(track.allocated for track in self._tracks)

    def append(self, raw: torch.Tensor) -> torch.Tensor:
        """Keep new raw tokens in the window.

        Args:
            raw: [B, t, D], one vector that is key and value.

        Returns:
            [B, n + t, D]: what the new queries may see, ending at the newest.
        """
        if raw.ndim != 3:
            raise ValueError(f"raw: expected [B, t, D], got {list(raw.shape)}")
        # The value is the key: a value of no width is kept beside it.
        return self._window.append(raw[:, None], raw[:, None, :, :0])[0][:, 0]

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on.

        Raises:
            ValueError: an entry stands for tokens on both sides of it, or raw tokens that the next
                query would see have left the window.
        """
        rewound(length, self.length)
        if length == 0:
            return self.clear()
        for track in self._tracks:
            if not track.fits(length):
                raise ValueError(
                    f"length: the last entry stands for tokens up to "
                    f"{track.entries * track.ratio - 1} and cannot be opened again to go back to "
                    f"{length}; clear() and feed the tokens again"
                )
        self._window.rewind(length)
        for track in self._tracks:
            track.drop_to(length)

    def clear(self) -> None:
        """Forget everything and free the room."""
        self._window.clear()
        for track in self._tracks:
            track.clear()


def _there(track: EntryTrack | None, what: str) -> EntryTrack:
    if track is None:
        raise ValueError(f"this cache keeps no {what}; make it with the layer's new_cache()")
    return track
