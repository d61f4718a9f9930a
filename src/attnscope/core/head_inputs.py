"""What attention by heads refuses: shapes and dtypes that do not go together, named in a sentence.

The idea: PyTorch would broadcast one value head, or one sequence, over many, and give numbers that
nobody asked for. So every function of q, k and v looks at them first.

Shapes: q [B, H, T, D]; k [B, G, S, D]; v [B, G, S, E]; H a multiple of G.

Not here: masks and the other options of `attend`, which checks its own.
"""

from __future__ import annotations

import torch


def check_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = True) -> None:
    """Refuse what is no attention of H query heads to G key heads.

    Args:
        causal: whether the T queries stand at the end of the S keys.

    Raises:
        ValueError: a rank, batch, length, width or number of heads.
        TypeError: dtypes that differ, or are no floats.

    >>> x = torch.zeros(1, 4, 3, 8)
    >>> check_heads(x, x[:, :2], x[:, :2])
    >>> check_heads(x, x[:, :3], x[:, :3])
    Traceback (most recent call last):
    ValueError: q: expected heads that are a multiple of the 3 of k, got 4
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(f"{name}: expected [B, H, T, D], got {list(x.shape)}")
        if x.dtype != q.dtype or not x.is_floating_point():
            raise TypeError(f"{name}: expected a floating dtype like q's {q.dtype}, got {x.dtype}")
    (B, H, T, D), (_, G, S, _) = q.shape, k.shape
    if k.shape[0] != B or k.shape[3] != D:
        raise ValueError(f"k: expected [{B}, G, S, {D}] like q, got {list(k.shape)}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v: expected {list(k.shape[:3])} like k and a width, got {list(v.shape)}")
    if not G or H % G:
        raise ValueError(f"q: expected heads that are a multiple of the {G} of k, got {H}")
    if T > S and (causal or not S):
        raise ValueError(f"k: {T} queries cannot stand at the end of {S} keys")


def check_window(window: int) -> None:
    """Refuse what is no number of keys.

    Raises:
        TypeError: no whole number.
        ValueError: less than the query's own key.
    """
    if isinstance(window, bool) or not isinstance(window, int):
        raise TypeError(f"window: expected a whole number of keys, got {window!r}")
    if window < 1:
        raise ValueError(f"window: expected at least 1 key (the query itself), got {window}")
