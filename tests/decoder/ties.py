"""Two greedy texts that part must part at a tie: here is who judges that.

Whoever takes the likeliest token from logits with an error e may take any token whose exact logit
is within 2 e of the largest. So the first place where two texts differ is looked at in float64, and
each side's choice must be that near to the best by that side's own error.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Parting:
    """Where two texts part.

    Attributes:
        place: how many tokens they share.
        gaps: by how much the exact logit of each side's choice is below the largest.
        rooms: how far each side's logits allow that: twice their largest error there.
    """

    place: int
    gaps: tuple[float, float]
    rooms: tuple[float, float]

    @property
    def is_tie(self) -> bool:
        """Whether both choices are explained by the rounding of those who made them."""
        return all(gap <= room for gap, room in zip(self.gaps, self.rooms, strict=True))


def first_difference(ours: list[int], theirs: list[int]) -> int | None:
    """How many tokens two texts share; None if one begins with the other."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((place for place, (a, b) in pairs if a != b), None)


def parting(
    place: int,
    chosen: tuple[int, int],
    logits: tuple[torch.Tensor, torch.Tensor],
    exact: torch.Tensor,
) -> Parting:
    """Judge a difference.

    Args:
        place: of `first_difference`.
        chosen: each side's token there.
        logits: each side's own, [V], from which it chose.
        exact: float64 [V].
    """
    best = exact.max()
    gaps = tuple(float(best - exact[token]) for token in chosen)
    rooms = tuple(2 * float((own.double() - exact).abs().max()) for own in logits)
    return Parting(place, (gaps[0], gaps[1]), (rooms[0], rooms[1]))
