"""What attention keeps between calls: one protocol, one class each for what can be kept.

    full.py    every key and value                      grows with the length
    window.py  the last keys and values of a window     stops growing
    latent.py  a latent and a rotated key per token     grows, but slowly (MLA)
    state.py   a recurrent state, a few inputs          never grows
    compressed.py  a window, and entries for many tokens    grows slowly (DeepSeek-V4)
    track.py   the growing buffer that the first three are made of

The idea: `append` takes what is new and returns all that is in sight, in order of position, so that
prefill, chunked prefill and decode are the same call.

Not here: attention, positions.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from attnscope.caches.compressed import CompressedCache
from attnscope.caches.full import FullCache
from attnscope.caches.latent import LatentCache
from attnscope.caches.state import StateCache
from attnscope.caches.window import WindowCache

__all__ = ["Cache", "CompressedCache", "FullCache", "LatentCache", "StateCache", "WindowCache"]


@runtime_checkable
class Cache(Protocol):
    """What all caches have in common.

    `length` counts the tokens that were ever given, which is the position of the next one, whatever
    is still held. `nbytes` are the bytes of what is held (not of spare room, which `allocated`
    adds). `rewind` forgets the tokens from a position on, as far as what is left still serves, and
    says so where it does not. `clear` forgets everything.
    """

    @property
    def length(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def allocated(self) -> int: ...

    def rewind(self, length: int) -> None: ...

    def clear(self) -> None: ...
