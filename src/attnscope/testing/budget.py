"""How wrong a result may be, derived and not guessed.

The idea: nobody can say offhand how exact float32 attention is, but somebody has done it honestly
before. An oracle in float64 tells the error of that peer, and ours may be twice as large, plus one
rounding of the result.

Formula
    |ours - oracle| <= 2 max |peer - oracle| + eps |oracle|      eps of the dtype of ours

Dtypes: everything is compared in float64.

Not here: the oracle itself (oracle.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Budget:
    """What was allowed and what was used.

    Attributes:
        error: the largest error of ours.
        peer_error: the largest error of the peer.
        used: the largest ratio of error to allowed error; at most 1.
    """

    error: float
    peer_error: float
    used: float


def budget(
    ours: torch.Tensor,
    *,
    peer: torch.Tensor,
    oracle: torch.Tensor,
    what: str = "result",
    factor: float = 2.0,
) -> Budget:
    """Assert that ours is as close to the oracle as an honest peer is.

    Args:
        ours: the result under test.
        peer: the same, computed in the same dtype by somebody else.
        oracle: the same in float64.
        what: its name in the report.
        factor: how many times the peer's error is allowed; say why where it is not 2.

    Returns:
        The figures, for those who want to print them.

    Raises:
        AssertionError: ours is too far off, has another shape, or is NaN or infinite elsewhere.
        TypeError: the oracle is not float64, so it could not judge.

    >>> third = torch.tensor([1 / 3])
    >>> exact = torch.tensor([1 / 3], dtype=torch.float64)
    >>> budget(third, peer=third, oracle=exact).used < 1
    True
    """
    if oracle.dtype != torch.float64:
        raise TypeError(f"oracle: expected float64, got {oracle.dtype}")
    if not ours.shape == peer.shape == oracle.shape:
        shapes = ", ".join(str(list(x.shape)) for x in (ours, peer, oracle))
        raise AssertionError(f"{what}: shapes of ours, peer and oracle differ: {shapes}")
    kind = ours.dtype if ours.dtype.is_floating_point else torch.float64
    wide, theirs, exact = ours.double(), peer.double(), oracle
    _same_specials(wide, exact, what)
    finite = exact.isfinite()
    if not bool(finite.any()):
        return Budget(0.0, 0.0, 0.0)
    error = torch.where(finite, (wide - exact).abs(), 0.0)
    # A peer that fails where ours does not is no excuse for ours.
    peer_error = torch.where(finite & theirs.isfinite(), (theirs - exact).abs(), 0.0).max()
    rounding = torch.finfo(kind).eps * exact.abs() + torch.finfo(kind).tiny
    allowed = torch.where(finite, factor * peer_error + rounding, 1.0)
    used = error / allowed
    worst = int(used.argmax())
    result = Budget(float(error.max()), float(peer_error), float(used.max()))
    if result.used > 1:
        place = tuple(int(x) for x in torch.unravel_index(torch.tensor(worst), used.shape))
        raise AssertionError(
            f"{what}: {int((used > 1).sum())} of {used.numel()} numbers are off. Worst at {place}: "
            f"ours {wide.flatten()[worst]:.9g}, oracle {exact.flatten()[worst]:.9g}, error "
            f"{error.flatten()[worst]:.3g}, allowed {allowed.flatten()[worst]:.3g} "
            f"({factor:g} x the peer's {peer_error:.3g}, plus one rounding)"
        )
    return result


def _same_specials(ours: torch.Tensor, exact: torch.Tensor, what: str) -> None:
    """NaN and infinities must stand where they stand in the oracle."""
    special = ~exact.isfinite()
    same = (ours == exact) | (ours.isnan() & exact.isnan())
    wrong = torch.where(special, ~same, ~ours.isfinite())
    if bool(wrong.any()):
        worst = int(wrong.flatten().int().argmax())
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.numel()} numbers are NaN or infinite where the "
            f"oracle is not, or the reverse; first ours {ours.flatten()[worst]}, oracle "
            f"{exact.flatten()[worst]}"
        )
