"""The closed forms: from a few sums over the keys of a row to every statistic of that row.

The idea: no statistic needs the weights themselves once their sums are known, and the sums of two
disjoint sets of keys add up. So a row may be read once, in any number of pieces, on any device.

Formula (x_j = s_j - m with m the row's reference, e_j = exp x_j, Z = sum e_j + exp(sink - m))
    logsumexp = m + log Z                    entropy = (log Z sum e - sum x e) / Z
    participation = Z^2 / sum e^2            Sk = sum e^k / Z^k
    jacobian_norm^2 = S2 - 2 S3 + S2^2, written around the largest weight a so that nothing cancels:
        a^2 (1 - a)^2 + R2 (1 + 2 a^2) - 2 R3 + R2^2,   Rk = Sk - a^k

Shapes: every field of `Moments` has the same shape, one entry per row (any number of axes).

Dtypes: sums are best kept in float64. `jacobian_norm` of a nearly one-hot row needs it: sums of
squares in float32 give it an absolute error of about 3e-4, unless the largest weight is kept apart
(as fused_strip.py does).

Not here: taking the sums (softmax.py in PyTorch, fused_strip.py in Numba).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace

import torch


@dataclass(frozen=True)
class Moments:
    """Sums over the keys of each row that were read so far; None where nobody asked.

    Attributes:
        reference: m. -inf in a row that has read nothing and has no sink.
        largest: max_j s_j; -inf if no key is in sight.
        keys: sum of e_j.
        sink: exp(sink - m) of a learned sink logit, or None.
        where: the key of the largest score (int64), -1 if there is none.
        tilted: sum of x_j e_j.
        square: sum of e_j^2.
        cube: sum of e_j^3.
        distance: sum of (i - j) e_j.
        own: e_j at j = i.
        previous: e_j at j = i - 1.
        near: sum of e_j over the last `local` keys.
        begun: sum of e_j over the first `sink_keys` keys of the document.
        repeat: sum of e_j over keys that follow an earlier occurrence of the query's token.
    """

    reference: torch.Tensor
    largest: torch.Tensor
    keys: torch.Tensor
    sink: torch.Tensor | None = None
    where: torch.Tensor | None = None
    tilted: torch.Tensor | None = None
    square: torch.Tensor | None = None
    cube: torch.Tensor | None = None
    distance: torch.Tensor | None = None
    own: torch.Tensor | None = None
    previous: torch.Tensor | None = None
    near: torch.Tensor | None = None
    begun: torch.Tensor | None = None
    repeat: torch.Tensor | None = None

    @property
    def everything(self) -> torch.Tensor:
        """Z: what the exponentials are divided by."""
        return self.keys if self.sink is None else self.keys + self.sink

    @property
    def empty(self) -> torch.Tensor:
        """The rows that saw no key, or only keys of score -inf."""
        return self.largest == -torch.inf

    @property
    def inverse(self) -> torch.Tensor:
        """1 / Z, and 0 where Z is 0; a NaN stays a NaN."""
        everything = self.everything
        return torch.where(everything == 0, 0.0, 1.0 / everything)


NEEDS: dict[str, tuple[str, ...]] = {
    "logsumexp": (),
    "max_logit": (),
    "max_weight": (),
    "argmax": ("where",),
    "entropy": ("tilted",),
    "effective_keys": ("tilted",),
    "participation": ("square",),
    "jacobian_norm": ("square", "cube"),
    "self_mass": ("own",),
    "previous_mass": ("previous",),
    "local_mass": ("near",),
    "sink_mass": ("begun",),
    "induction_mass": ("repeat",),
    "mean_distance": ("distance",),
}
"""Which fields of `Moments` each row statistic reads, beyond the first four."""

LINEAR = ("keys", "sink", "distance", "own", "previous", "near", "begun", "repeat")
"""The fields that are plain sums of e_j times something that does not depend on the scores."""


def needs(names: Iterable[str]) -> frozenset[str]:
    """The fields of `Moments` that these statistics need.

    >>> sorted(needs(["entropy", "jacobian_norm"]))
    ['cube', 'square', 'tilted']
    """
    return frozenset(field for name in names for field in NEEDS.get(name, ()))


def merge(one: Moments, other: Moments) -> Moments:
    """The moments of two disjoint sets of keys of the same rows, as if read at once.

    A learned sink belongs to one of the two only. Where both largest scores are equal, `where` is
    the one of `one`.

    Raises:
        ValueError: both hold a sink, or they hold different sums.
    """
    if one.sink is not None and other.sink is not None:
        raise ValueError("merge: both parts hold the sink; give it to one of them only")
    have = [
        {f.name for f in fields(m) if getattr(m, f.name) is not None} - {"sink"}
        for m in (one, other)
    ]
    if have[0] != have[1]:
        odd = ", ".join(sorted(have[0] ^ have[1]))
        raise ValueError(f"merge: expected the same sums in both parts, only one has {odd}")
    reference = torch.maximum(one.reference, other.reference)
    parts = [_moved(part, reference) for part in (one, other)]
    total: dict[str, torch.Tensor | None] = {}
    for name in (*LINEAR, "tilted", "square", "cube"):
        values = [value for part in parts if (value := getattr(part, name)) is not None]
        total[name] = sum(values[1:], start=values[0]) if values else None
    if one.where is not None and other.where is not None:
        total["where"] = torch.where(other.largest > one.largest, other.where, one.where)
    return Moments(reference, torch.maximum(one.largest, other.largest), **total)  # type: ignore[arg-type]


def _moved(part: Moments, reference: torch.Tensor) -> Moments:
    """The same sums relative to another, higher reference."""
    shift = torch.where(part.reference == reference, 0.0, part.reference - reference)
    factor = shift.exp()
    changed: dict[str, torch.Tensor] = {}
    for name in LINEAR:
        if (value := getattr(part, name)) is not None:
            changed[name] = value * factor
    if part.tilted is not None:
        # An empty part has shift -inf and sums 0; its product must be 0, not NaN.
        lowered = torch.where(part.keys == 0, 0.0, shift * part.keys)
        changed["tilted"] = torch.where(factor == 0, 0.0, (part.tilted + lowered) * factor)
    if part.square is not None:
        changed["square"] = part.square * factor**2
    if part.cube is not None:
        changed["cube"] = part.cube * factor**3
    return replace(part, reference=reference, **changed)


def statistics_of(moments: Moments, names: Iterable[str]) -> dict[str, torch.Tensor]:
    """The row statistics, by name, from the moments of whole rows, in their dtype.

    Args:
        names: row statistics; `received` and other names that are none are left out.

    Rows that saw nothing give 0, and where zero would be a lie: argmax -1, max_logit -inf,
    logsumexp the sink logit or -inf, sink_mass the learned sink's share, which is 1.
    """
    return {name: _FORMS[name](moments) for name in names if name in _FORMS}


def _seen(moments: Moments, value: torch.Tensor) -> torch.Tensor:
    return value.masked_fill(moments.empty, 0.0)


def _have(moments: Moments, name: str) -> torch.Tensor:
    value = getattr(moments, name)
    if value is None:
        raise ValueError(f"moments: the sum {name!r} was not taken")
    return value


def _share(name: str) -> Callable[[Moments], torch.Tensor]:
    return lambda moments: _have(moments, name) * moments.inverse


def _largest(moments: Moments) -> torch.Tensor:
    """exp(largest - m): 1 unless a sink stands above all keys or the reference is lazy."""
    return _seen(moments, (moments.largest - moments.reference).exp())


def _entropy(moments: Moments) -> torch.Tensor:
    spread = moments.keys * moments.everything.log() - _have(moments, "tilted")
    return _seen(moments, spread * moments.inverse).clamp(min=0.0)


def _participation(moments: Moments) -> torch.Tensor:
    square = _have(moments, "square")
    return torch.where(square == 0, 0.0, moments.everything**2 / square)


def _jacobian_norm(moments: Moments) -> torch.Tensor:
    top, inverse = _largest(moments), moments.inverse
    others = (moments.everything - top).clamp(min=0.0) * inverse
    a = top * inverse
    r2 = (_have(moments, "square") - top**2).clamp(min=0.0) * inverse**2
    r3 = (_have(moments, "cube") - top**3).clamp(min=0.0) * inverse**3
    squared = (a * others) ** 2 + r2 * (1 + 2 * a * a) - 2 * r3 + r2 * r2
    return _seen(moments, squared.clamp(min=0.0).sqrt())


def _sink_mass(moments: Moments) -> torch.Tensor:
    mass = _have(moments, "begun") * moments.inverse
    return mass if moments.sink is None else mass + moments.sink * moments.inverse


_FORMS: dict[str, Callable[[Moments], torch.Tensor]] = {
    "logsumexp": lambda moments: moments.reference + moments.everything.log(),
    "max_logit": lambda moments: moments.largest,
    "max_weight": lambda moments: _largest(moments) * moments.inverse,
    "argmax": lambda moments: _have(moments, "where").masked_fill(moments.empty, -1),
    "entropy": _entropy,
    "effective_keys": lambda moments: _seen(moments, _entropy(moments).exp()),
    "participation": _participation,
    "jacobian_norm": _jacobian_norm,
    "self_mass": _share("own"),
    "previous_mass": _share("previous"),
    "local_mass": _share("near"),
    "sink_mass": _sink_mass,
    "induction_mass": _share("repeat"),
    "mean_distance": _share("distance"),
}
