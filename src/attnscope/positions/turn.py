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

STRIP = 2**19
"""Numbers turned at once where there are many: their products stay in the processor's cache."""

HALF = (torch.float16, torch.bfloat16)


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

    Cost: 6 FLOPs per pair; one new tensor, and a few MiB to work in.

    >>> x = torch.tensor([[[1.0, 2.0, 0.0, 0.0]]])
    >>> quarter = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    >>> rotate(x, *quarter).tolist()
    [[[-2.0, 1.0, 0.0, 0.0]]]
    """
    _check(x, cos, sin)
    width, pairs = x.shape[-1], cos.shape[-1]
    if pairs == 0:
        return x
    if x.ndim == 4 and cos.ndim == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    if cos.dtype in HALF:
        cos, sin = cos.float(), sin.float()
    begin = width - 2 * pairs if trailing else 0
    if x.numel() <= FEW or _traced(x, cos, sin):
        return _formula(x, cos, sin, interleaved=interleaved, begin=begin)
    return _written(x, cos, sin, interleaved=interleaved, begin=begin)


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
        if cos.dtype in HALF:
            cos, sin = cos.float(), sin.float()
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
        if x.numel() > FEW or width == 0:
            return rotate(x, self.cos, self.sin, interleaved=self.interleaved, trailing=trailing)
        _check(x, self.cos, self.sin)
        cos, sin = self._cos, self._sin
        if x.ndim == 4 and cos.ndim == 3:
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        rest = x.shape[-1] - width
        part = x
        if rest:
            before, after = (rest, width) if trailing else (width, rest)
            still, part = x.split((before, after), dim=-1)[:: 1 if trailing else -1]
        if self.interleaved:
            partner = part.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        else:
            partner = part.roll(width // 2, dims=-1)
        y = (part * cos).add_(partner * sin)
        if y.dtype != x.dtype:
            y = y.to(x.dtype)
        if rest:
            return torch.cat((still, y) if trailing else (y, still), dim=-1)
        return y


def _check(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    of_x, of_cos = x.shape, cos.shape
    ranks, axes = len(of_x), len(of_cos)
    if ranks not in (3, 4):
        raise ValueError(f"x: expected [B, H, T, D] or [B, T, D], got shape {list(of_x)}")
    if not (x.is_floating_point() and cos.is_floating_point() and sin.is_floating_point()):
        kinds = ", ".join(str(tensor.dtype) for tensor in (x, cos, sin))
        raise TypeError(f"x, cos, sin: expected floating point, got {kinds}")
    if of_cos != sin.shape or axes not in (2, 3):
        raise ValueError(
            f"cos, sin: expected the same [T, r/2] or [B, T, r/2], got {list(of_cos)} and "
            f"{list(sin.shape)}"
        )
    if 2 * of_cos[-1] > of_x[-1]:
        raise ValueError(
            f"cos, sin: {of_cos[-1]} angles turn {2 * of_cos[-1]} numbers, but x has {of_x[-1]} "
            f"in shape {list(of_x)}"
        )
    if of_cos[-2] != of_x[-2] or (axes == 3 and of_cos[0] not in (1, of_x[0])):
        raise ValueError(
            f"cos, sin: {list(of_cos)} do not fit x {list(of_x)}: T and B must be the same"
        )


def _traced(*tensors: torch.Tensor) -> bool:
    """Whether autograd or a transform of torch.func must see each operation."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return True
    return torch._C._are_functorch_transforms_active()


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
    # A narrow x times a float32 cosine is a float32 product.
    turned = [one * cos - two * sin, two * cos + one * sin]
    if turned[0].dtype != x.dtype:
        turned = [part.to(x.dtype) for part in turned]
    if interleaved:
        turned = [torch.stack(turned, dim=-1).flatten(-2)]
    if 2 * pairs < x.shape[-1]:
        turned = [x[..., :begin], *turned, x[..., begin + 2 * pairs :]]
    return torch.cat(turned, dim=-1) if len(turned) > 1 else turned[0]


def _written(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool, begin: int
) -> torch.Tensor:
    """The same sums in the same order, in strips of tokens, written where they belong."""
    tokens, pairs = x.shape[-2], cos.shape[-1]
    y = torch.empty_like(x)
    step = max(1, STRIP * tokens // x.numel())
    for first in range(0, tokens, step):
        strip = slice(first, first + step)
        c, s = cos[..., strip, :], sin[..., strip, :]
        narrow, target = x[..., strip, :], y[..., strip, :]
        wide = narrow.to(torch.promote_types(x.dtype, cos.dtype))
        work = target if wide.dtype == y.dtype else torch.empty_like(wide)
        (one, two), (to_one, to_two) = (_pairs(t, pairs, interleaved, begin) for t in (wide, work))
        product = two * s
        torch.mul(one, c, out=to_one).sub_(product)
        torch.mul(one, s, out=product)
        torch.mul(two, c, out=to_two).add_(product)
        if work is not target:
            target.copy_(work)
    if 2 * pairs < x.shape[-1]:
        end = begin + 2 * pairs
        y[..., :begin] = x[..., :begin]
        y[..., end:] = x[..., end:]
    return y
