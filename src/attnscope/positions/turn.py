"""Turning pairs of numbers by given angles, in one call or in many at the same positions.

Formula: y_m = x_m cos - x_n sin, y_n = x_n cos + x_m sin for the pair (m, n).

Shapes: x [B, H, T, D] or [B, T, D]; cos, sin [T, r/2] or [B, T, r/2].

Dtypes: float32, or float64 where x or the tables are; the result is rounded once to x's dtype.
Products are rounded before they are added, never fused, so that a token is turned to the same bits
alone, in a chunk or in a whole text, and the bits are those of transformers in float32.

Not here: the angles (rope.py).
"""

from __future__ import annotations

import torch

FEW = 2**14
"""Numbers below which a call costs more than the memory it touches."""


def rotate(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
    trailing: bool = False,
) -> torch.Tensor:
    """Turn the pairs of x by the angles whose cosines and sines are given.

    Args:
        x: [B, H, T, D] or [B, T, D].
        cos, sin: [T, r/2] or [B, T, r/2], one angle per pair, the same for all heads.
        interleaved: pairs are neighbours (2m, 2m + 1), and not halves (m, m + r/2).
        trailing: the last r numbers are turned, and not the first r.

    Returns:
        The same shape and dtype; the D - r other numbers pass as they are.

    Raises:
        ValueError, TypeError: shapes that do not go together, or numbers that are no floats.

    Cost: 6 FLOPs per pair; one new tensor, and half of one for a while.

    >>> x = torch.tensor([[[1.0, 2.0, 0.0, 0.0]]])
    >>> quarter = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    >>> rotate(x, *quarter).tolist()
    [[[-2.0, 1.0, 0.0, 0.0]]]
    """
    _check(x, cos, sin)
    pairs = cos.shape[-1]
    if pairs == 0:
        return x
    if x.ndim == 4 and cos.ndim == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    wide = _wide(x, cos, sin)
    traced = torch.is_grad_enabled() and (x.requires_grad or cos.requires_grad or sin.requires_grad)
    plainly = traced or x.numel() <= FEW or torch._C._are_functorch_transforms_active()
    turn = _formula if plainly else _written
    begin = x.shape[-1] - 2 * pairs if trailing else 0
    y = turn(x.to(wide), cos.to(wide), sin.to(wide), interleaved=interleaved, begin=begin)
    return y.to(x.dtype)


class Turn:
    """The tables of some positions, laid out once, to turn many tensors of few tokens each.

    A decoder turns the queries and keys of every layer at the same position. With cosines and
    signed sines at full width a turn is four operations, in place of nine; the bits are the same.

    Args:
        cos, sin: as `rotate` takes them.
        interleaved: as `rotate` takes it.

    >>> cos, sin = torch.rand(2, 1, 4)
    >>> x = torch.randn(1, 3, 1, 8)
    >>> torch.equal(Turn(cos, sin)(x), rotate(x, cos, sin))
    True
    """

    def __init__(self, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool = False) -> None:
        wide = _wide(cos, sin)
        cos, sin = cos.to(wide), sin.to(wide)
        self.cos, self.sin, self.interleaved = cos, sin, interleaved
        if interleaved:
            self._cos = cos.repeat_interleave(2, dim=-1)
            self._sin = torch.stack([-sin, sin], dim=-1).flatten(-2)
        else:
            self._cos = torch.cat([cos, cos], dim=-1)
            self._sin = torch.cat([-sin, sin], dim=-1)

    def __call__(self, x: torch.Tensor, *, trailing: bool = False) -> torch.Tensor:
        """Turn the pairs of x: `rotate(x, cos, sin, …)`.

        Args:
            x: [B, H, T, D] or [B, T, D].
            trailing: the last r numbers are turned, and not the first r.
        """
        width = self._cos.shape[-1]
        if width < x.shape[-1] or width == 0 or x.numel() > FEW:
            return rotate(x, self.cos, self.sin, interleaved=self.interleaved, trailing=trailing)
        _check(x, self.cos, self.sin)
        cos, sin = self._cos, self._sin
        if x.ndim == 4 and cos.ndim == 3:
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        if self.interleaved:
            partner = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        else:
            partner = x.roll(width // 2, dims=-1)
        return (x * cos).add_(partner * sin).to(x.dtype)


def _check(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    of_x, of_cos = x.shape, cos.shape
    if len(of_x) not in (3, 4):
        raise ValueError(f"x: expected [B, H, T, D] or [B, T, D], got shape {list(of_x)}")
    if not (x.is_floating_point() and cos.is_floating_point() and sin.is_floating_point()):
        kinds = ", ".join(str(tensor.dtype) for tensor in (x, cos, sin))
        raise TypeError(f"x, cos, sin: expected floating point, got {kinds}")
    if of_cos != sin.shape or len(of_cos) not in (2, 3):
        raise ValueError(
            f"cos, sin: expected the same [T, r/2] or [B, T, r/2], got {list(of_cos)} and "
            f"{list(sin.shape)}"
        )
    if 2 * of_cos[-1] > of_x[-1]:
        raise ValueError(
            f"cos, sin: {of_cos[-1]} angles turn {2 * of_cos[-1]} numbers, but x has {of_x[-1]} "
            f"in shape {list(of_x)}"
        )
    if of_cos[-2] != of_x[-2] or (len(of_cos) == 3 and of_cos[0] not in (1, of_x[0])):
        raise ValueError(
            f"cos, sin: {list(of_cos)} do not fit x {list(of_x)}: T and B must be the same"
        )


def _wide(*tensors: torch.Tensor) -> torch.dtype:
    return torch.float64 if any(x.dtype == torch.float64 for x in tensors) else torch.float32


def _pairs(
    x: torch.Tensor, pairs: int, interleaved: bool, begin: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first and the second number of each pair, as views."""
    if 2 * pairs < x.shape[-1]:
        x = x.narrow(-1, begin, 2 * pairs)
    one, two = x.unflatten(-1, (pairs, 2)).unbind(-1) if interleaved else x.split(pairs, dim=-1)
    return one, two


def _formula(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool, begin: int
) -> torch.Tensor:
    """As the formula reads; can be differentiated."""
    pairs = cos.shape[-1]
    one, two = _pairs(x, pairs, interleaved, begin)
    turned = [one * cos - two * sin, two * cos + one * sin]
    if interleaved:
        turned = [torch.stack(turned, dim=-1).flatten(-2)]
    end = begin + 2 * pairs
    before, after = x[..., :begin], x[..., end:]
    return torch.cat([before, *turned, after], dim=-1)


def _written(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool, begin: int
) -> torch.Tensor:
    """The same sums in the same order, written where they belong: half the memory traffic."""
    pairs = cos.shape[-1]
    y = torch.empty_like(x)
    (one, two), (to_one, to_two) = (_pairs(t, pairs, interleaved, begin) for t in (x, y))
    product = two * sin
    torch.mul(one, cos, out=to_one).sub_(product)
    torch.mul(one, sin, out=product)
    torch.mul(two, cos, out=to_two).add_(product)
    if 2 * pairs < x.shape[-1]:
        end = begin + 2 * pairs
        y[..., :begin] = x[..., :begin]
        y[..., end:] = x[..., end:]
    return y
