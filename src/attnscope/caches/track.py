"""One tensor that grows along its second-last axis, in room that was laid out ahead.

The idea: concatenating at every step copies everything that is held, T^2 / 2 tokens for T steps.
A track writes into spare room and gives out a view; when the room is used up it moves to one 1.5
times as large, so each token is copied about twice in all (`moves` counts).

    slots    . . [ dropped ] [ held: begin .. end ) [ spare: end .. capacity )

A view once given out never changes (but for tokens appended after a rewind): what is new goes to
slots that no view reaches, and a move goes to a fresh buffer.

Shapes: [..., tokens, width]; every other axis is fixed by the first tensor that comes.

Gradients: a part that requires them cannot be written in place without cutting the graph, so such
parts are concatenated, and there is no spare room. Under `torch.no_grad` there is.

Not here: how much to keep (full.py, window.py, latent.py).
"""

from __future__ import annotations

import torch

LEAST = 16
"""Slots of the smallest buffer, so that the first few steps do not each move."""


class Track:
    """A growing tensor.

    Args:
        name: of the argument it is given as, for messages.
        axes: letters of its axes, such as "BGtD".
        room: slots to lay out at first.
        limit: slots that no buffer exceeds, or None.
    """

    def __init__(self, name: str, axes: str, *, room: int = 0, limit: int | None = None) -> None:
        self.name, self.axes = name, axes
        self.room, self.limit = room, limit
        self.buffer: torch.Tensor | None = None
        self.begin = self.end = 0
        self.reached = 0
        self.moves = 0

    @property
    def tokens(self) -> int:
        """How many are held."""
        return self.end - self.begin

    @property
    def capacity(self) -> int:
        """Slots laid out."""
        return 0 if self.buffer is None else self.buffer.shape[-2]

    @property
    def allocated(self) -> int:
        """Bytes laid out."""
        return 0 if self.buffer is None else self.buffer.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of what is held."""
        return 0 if self.buffer is None else self.allocated // max(1, self.capacity) * self.tokens

    def view(self, last: int | None = None) -> torch.Tensor | None:
        """What is held, or the last few of it; None before anything came."""
        if self.buffer is None:
            return None
        first = self.begin if last is None else self.end - last
        return self.buffer[..., first : self.end, :]

    def check(self, new: torch.Tensor) -> None:
        """Refuse what does not go with what came before.

        Raises:
            TypeError: not a tensor, or another dtype.
            ValueError: another rank, batch, number of heads, width or device.
        """
        letters = ", ".join(self.axes)
        if not isinstance(new, torch.Tensor):
            raise TypeError(f"{self.name}: expected a tensor [{letters}], got {type(new).__name__}")
        if new.ndim != len(self.axes):
            raise ValueError(f"{self.name}: expected [{letters}], got shape {list(new.shape)}")
        if self.buffer is None:
            return
        held = self.buffer
        if new.dtype != held.dtype:
            raise TypeError(
                f"{self.name}: the cache holds {held.dtype}, got {new.dtype}; cast it, or start "
                "a new cache"
            )
        if new.device != held.device:
            raise ValueError(
                f"{self.name}: the cache is on {held.device}, got a tensor on {new.device}"
            )
        for axis, letter in enumerate(self.axes):
            if letter != "t" and new.shape[axis] != held.shape[axis]:
                kind = {"B": "batch", "G": "heads"}.get(letter, "width")
                raise ValueError(
                    f"{self.name}: the cache holds {kind} {letter} = {held.shape[axis]}, got "
                    f"{new.shape[axis]} in shape {list(new.shape)}; a cache serves one batch of "
                    "sequences, clear() it for the next"
                )

    def push(self, new: torch.Tensor, *, visible: int | None = None) -> torch.Tensor:
        """Write what is new behind what is held.

        Args:
            new: a tensor that passed `check`.
            visible: hold no more than this many of the earlier ones, if given.

        Returns:
            The earlier ones that are still held, and the new ones: a view of the buffer.
        """
        count = new.shape[-2]
        if visible is not None:
            self.begin = max(self.begin, self.end - visible)
        buffer = self.buffer
        if torch.is_grad_enabled() and (
            new.requires_grad or (buffer is not None and buffer.requires_grad)
        ):
            return self._join(new)
        if buffer is None or self.end + count > buffer.shape[-2] or _frozen(buffer):
            buffer = self._move(new, self.tokens + count)
        end = self.end + count
        if count:
            # `data` because a graph may hold a view of earlier slots, which stay as they are, and
            # autograd counts writes per buffer. Slots written anew after a rewind do count.
            fresh = self.end >= self.reached
            (buffer.data if fresh else buffer)[..., self.end : end, :] = new
        self.end, self.reached = end, max(end, self.reached)
        return buffer[..., self.begin : end, :]

    def hold(self, whole: torch.Tensor) -> None:
        """Forget all and hold this, in a buffer that grows no further than the limit."""
        self.buffer, self.begin, self.end = None, 0, 0
        self.push(whole)

    def drop(self, count: int) -> None:
        """Forget the newest few."""
        self.end -= count

    def clear(self) -> None:
        """Forget everything, the buffer too."""
        self.buffer, self.begin, self.end = None, 0, 0

    def _join(self, new: torch.Tensor) -> torch.Tensor:
        held = self.view()
        self.buffer = torch.cat([held, new], dim=-2) if held is not None else new
        self.begin, self.end = 0, self.buffer.shape[-2]
        self.reached = self.end
        return self.buffer

    def _move(self, like: torch.Tensor, needed: int) -> torch.Tensor:
        """A fresh buffer with what is held at its beginning."""
        slots = max(needed, self.room, LEAST if self.buffer is None else 3 * self.capacity // 2)
        if self.limit is not None and 2 * slots > self.limit:
            slots = self.limit
        shape = (*like.shape[:-2], slots, like.shape[-1])
        fresh = torch.empty(shape, dtype=like.dtype, device=like.device)
        held = self.view()
        if held is not None:
            self.moves += 1
            fresh[..., : self.tokens, :] = held
        self.buffer, self.begin, self.end = fresh, 0, self.tokens
        self.reached = self.end
        return fresh


def _frozen(buffer: torch.Tensor) -> bool:
    """Whether the buffer may not be written to here: it is part of a graph, or was made in
    inference mode and that has ended."""
    return buffer.requires_grad or (buffer.is_inference() and not torch.is_inference_mode_enabled())


def same_tokens(tracks: tuple[Track, ...], parts: tuple[torch.Tensor, ...]) -> int:
    """Check every part against its track, and all against each other, before any is written.

    Returns:
        How many new tokens there are.

    Raises:
        ValueError, TypeError: as `Track.check`, or the parts differ in batch, heads or tokens.
    """
    for track, part in zip(tracks, parts, strict=True):
        track.check(part)
    first, lead = tracks[0], parts[0]
    for track, part in zip(tracks[1:], parts[1:], strict=True):
        if part.shape[:-1] != lead.shape[:-1]:
            what = "batch, heads and tokens" if "G" in track.axes else "batch and tokens"
            raise ValueError(
                f"{track.name}: expected the {what} of {first.name}, {list(lead.shape[:-1])}, got "
                f"{list(part.shape[:-1])}"
            )
        if part.device != lead.device:
            raise ValueError(f"{track.name}: on {part.device}, but {first.name} on {lead.device}")
    return lead.shape[-2]


def rewound(length: int, held: int) -> int:
    """Check a length to go back to, and say how many tokens that forgets.

    Raises:
        TypeError: not an integer.
        ValueError: negative, or beyond what was ever given.
    """
    if isinstance(length, bool) or not isinstance(length, int):
        raise TypeError(f"length: expected an integer, got {type(length).__name__}")
    if not 0 <= length <= held:
        raise ValueError(f"length: a cache of {held} tokens rewinds to 0 .. {held}, got {length}")
    return held - length


def count_of(name: str, value: int, least: int) -> int:
    """Check a number of tokens.

    Raises:
        TypeError: not an integer.
        ValueError: too small.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")
    return value
