"""A recurrent state and the last inputs of a short convolution: memory that never grows.

The idea: an RNN or a linear attention folds every token into one state of fixed size. What it keeps
after a million tokens weighs as much as after one, and what it forgot cannot be had back.

Formula: bytes = B H Dk Dv x 4 (a float32 matrix per head), and the inputs of the convolution.

Dtypes: the state is float32 whatever the model's dtype, because each token's rounding stays in it;
float64 is taken too, for oracles. The convolution's inputs are kept as they come.

Not here: the recurrence itself.
"""

from __future__ import annotations

import torch

from attnscope.caches.track import count_of, rewound


class StateCache:
    """The state after the last token.

    >>> cache = StateCache()
    >>> cache.update(torch.zeros(1, 48, 128, 128), None, tokens=7)
    >>> cache.length, cache.nbytes
    (7, 3145728)
    """

    def __init__(self) -> None:
        self._state: torch.Tensor | None = None
        self._conv: torch.Tensor | None = None
        self._length = 0

    @property
    def state(self) -> torch.Tensor | None:
        """The recurrent state, [B, ...]; None before the first update."""
        return self._state

    @property
    def conv(self) -> torch.Tensor | None:
        """The last inputs of the convolution, [B, ...]; None if there are none."""
        return self._conv

    @property
    def length(self) -> int:
        """Tokens ever given, and the position of the next."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of state and convolution inputs."""
        return sum(x.nbytes for x in (self._state, self._conv) if x is not None)

    @property
    def allocated(self) -> int:
        """The same: nothing is laid out ahead."""
        return self.nbytes

    def update(self, state: torch.Tensor, conv: torch.Tensor | None, *, tokens: int) -> None:
        """Put a newer state in place of the one held.

        Args:
            state: float32 (or float64), [B, ...], the same shape each time.
            conv: the last inputs of the convolution, [B, ...], or None.
            tokens: how many tokens went into it since the last update.

        Raises:
            ValueError, TypeError: shape, dtype or device changed, or the state is narrower than
                float32; nothing is changed.
        """
        count_of("tokens", tokens, 0)
        if not isinstance(state, torch.Tensor):
            raise TypeError(f"state: expected a tensor, got {type(state).__name__}")
        if state.dtype not in (torch.float32, torch.float64):
            raise TypeError(
                f"state: expected float32, got {state.dtype}; the rounding of each token stays in "
                "a recurrent state, so keep it in float32 whatever the model's dtype"
            )
        if conv is not None and not isinstance(conv, torch.Tensor):
            raise TypeError(f"conv: expected a tensor or None, got {type(conv).__name__}")
        first = self._state is None
        _same("state", self._state, state, first)
        _same("conv", self._conv, conv, first)
        if conv is not None and (conv.ndim == 0 or state.ndim == 0 or len(conv) != len(state)):
            raise ValueError(
                f"conv: expected the batch of state {list(state.shape)} first, got "
                f"{list(conv.shape)}"
            )
        self._state = _own(state)
        self._conv = None if conv is None else _own(conv)
        self._length += tokens

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on: possible for all or none of them.

        Raises:
            ValueError: a part of them, which a state cannot be taken apart into.
        """
        if rewound(length, self._length) == 0:
            return
        if length > 0:
            raise ValueError(
                f"length: a recurrent state of {self._length} tokens cannot be taken back to "
                f"{length}; clear() it and feed the tokens again"
            )
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._state = self._conv = None
        self._length = 0


def _same(name: str, held: torch.Tensor | None, new: torch.Tensor | None, first: bool) -> None:
    if first:
        return
    if (held is None) != (new is None):
        had, now = ("none", "one") if held is None else ("one", "none")
        raise ValueError(f"{name}: the cache held {had} before, got {now} this time")
    if held is None or new is None:
        return
    if held.shape != new.shape:
        raise ValueError(
            f"{name}: the cache holds shape {list(held.shape)}, got {list(new.shape)}; clear() it "
            "for another batch"
        )
    if held.dtype != new.dtype:
        raise TypeError(f"{name}: the cache holds {held.dtype}, got {new.dtype}")
    if held.device != new.device:
        raise ValueError(f"{name}: the cache is on {held.device}, got a tensor on {new.device}")


def _own(x: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a copy where it is a window into a larger one that would stay alive."""
    return x if x.untyped_storage().nbytes() == x.nbytes else x.clone()
