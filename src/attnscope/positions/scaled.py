"""Inverse frequencies of RoPE, and the ways in which they are stretched for longer texts.

The idea: pair i turns by p f_i at position p. A model trained to some length has never seen slow
pairs turn further than that, so to read longer texts they are slowed down, all alike or not.

Formula (r the rotated width, b theta, s factor, L the first training's length, l_i = 2 pi / f_i)
    default       f_i = b^(-2i/r)
    linear        f_i / s
    dynamic       default, with b ((s n / N) - (s - 1))^(r / (r - 2)) for a text of n > N tokens
    yarn          f_i / s for slow pairs, f_i for fast ones, a ramp between the pairs that turn
                  beta_slow and beta_fast times in L; cos and sin times 1 + 0.1 ln s
    llama3        f_i / s where l_i > L / low, f_i where l_i < L / high, a ramp between
    longrope      f_i / short_i up to L tokens, f_i / long_i beyond; cos and sin times
                  sqrt(1 + ln s / ln L)
    proportional  f_i of the whole width for the first pairs, 0 for the others

Paper: Su et al. 2021, arXiv 2104.09864; Chen et al. 2023, arXiv 2306.15595 (linear); Peng et al.
2023, arXiv 2309.00071 (dynamic, yarn); Ding et al. 2024, arXiv 2402.13753 (longrope).

Dtypes: float32 throughout, in the order of transformers' modeling_rope_utils: a model's
frequencies are float32 numbers, and the last bit counts at position 100,000.

Not here: rotating (rope.py), finding the fields (config.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from attnscope.positions.config import HARMLESS, KNOWN, Fields

CPU: Final = torch.device("cpu")
"""Named throughout: a layer built inside `torch.device("meta")` needs its frequencies too."""


@dataclass(frozen=True)
class Beyond:
    """What holds for texts longer than `length` tokens.

    Attributes:
        length: the longest text for which the ordinary frequencies hold.
        frequencies: those beyond it (longrope), or None.
        theta, factor: from which they follow by the length of the text (dynamic).
    """

    length: int
    frequencies: tuple[float, ...] | None = None
    theta: float = 0.0
    factor: float = 1.0

    def at(self, length: int, rotary: int) -> tuple[float, ...]:
        """The frequencies for a text of so many tokens, more than `self.length`."""
        if self.frequencies is not None:
            return self.frequencies
        # One-element tensors, because transformers' base is a float32 number here.
        ratio = self.factor * torch.tensor(length, device=CPU) / self.length - (self.factor - 1)
        base = self.theta * ratio ** (rotary / (rotary - 2))
        return _tuple(1.0 / base ** _exponents(rotary))


@dataclass(frozen=True)
class Scaled:
    """Frequencies, the factor on cos and sin, and what changes beyond some length."""

    frequencies: tuple[float, ...]
    factor: float = 1.0
    beyond: Beyond | None = None


def plain_frequencies(rotary: int, theta: float) -> torch.Tensor:
    """theta^(-2i / rotary) for each pair i, [rotary / 2] in float32."""
    return 1.0 / theta ** _exponents(rotary)


def yarn_mscale(factor: float, mscale: float = 1.0) -> float:
    """How much YaRN sharpens attention for a text `factor` times as long: 1 + 0.1 m ln(factor).

    MLA multiplies its softmax scale by `yarn_mscale(factor, mscale_all_dim) ** 2`.

    >>> yarn_mscale(1.0), round(yarn_mscale(40, 0.707), 4)
    (1.0, 1.2608)
    """
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def scaled(fields: Fields) -> Scaled:
    """The frequencies that a config asks for.

    Raises:
        ConfigError: an unknown kind or field, or a field that its kind needs is lacking or absurd.
    """
    if fields.kind not in KINDS:
        raise fields.error(
            f"rope_type {fields.kind!r} is not known here; there are {', '.join(sorted(KINDS))}"
        )
    odd = sorted(set(fields.values) - KNOWN - HARMLESS)
    if odd:
        raise fields.error(
            f"RoPE field {odd[0]!r} is not known here; remove it if it changes nothing. Known are "
            f"{', '.join(sorted(KNOWN))}"
        )
    return KINDS[fields.kind](fields)


def _exponents(rotary: int) -> torch.Tensor:
    return torch.arange(0, rotary, 2, dtype=torch.float32, device=CPU) / max(1, rotary)


def _tuple(frequencies: torch.Tensor) -> tuple[float, ...]:
    return tuple(frequencies.tolist())


def _first_length(fields: Fields) -> float:
    """The length of the first training, which is the whole one where the config does not say."""
    return fields.number("original_max_position_embeddings", _longest(fields))


def _longest(fields: Fields) -> float | None:
    return float(fields.longest) if fields.longest else None


def _stretch(fields: Fields) -> float:
    """`factor`, or how many times the first training's length fits into the whole one."""
    if fields.values.get("factor") is not None:
        return fields.number("factor")
    longest = _longest(fields)
    if longest is None or fields.values.get("original_max_position_embeddings") is None:
        return fields.number("factor")
    return longest / _first_length(fields)


def _default(fields: Fields) -> Scaled:
    return Scaled(_tuple(plain_frequencies(fields.rotary, fields.theta)))


def _linear(fields: Fields) -> Scaled:
    slowed = plain_frequencies(fields.rotary, fields.theta) / fields.number("factor")
    return Scaled(_tuple(slowed))


def _dynamic(fields: Fields) -> Scaled:
    if not fields.longest:
        raise fields.error("has no max_position_embeddings, which rope_type 'dynamic' needs")
    if fields.rotary == 2:
        raise fields.error("rope_type 'dynamic' needs more than one pair, got a rotated width of 2")
    beyond = Beyond(fields.longest, theta=fields.theta, factor=fields.number("factor"))
    return Scaled(_default(fields).frequencies, beyond=beyond)


def _yarn(fields: Fields) -> Scaled:
    rotary, theta, stretch = fields.rotary, fields.theta, _stretch(fields)
    if theta <= 1:
        raise fields.error(f"rope_theta: rope_type 'yarn' needs more than 1, got {theta}")
    first = _first_length(fields)
    bounds = [
        rotary * math.log(first / (turns * 2 * math.pi)) / (2 * math.log(theta))
        for turns in (fields.number("beta_fast", 32.0), fields.number("beta_slow", 1.0))
    ]
    low, high = bounds
    if fields.values.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary - 1)
    if low == high:
        high += 0.001  # no ramp, but a step, without dividing by zero
    pairs = torch.arange(rotary // 2, dtype=torch.float32, device=CPU)
    kept = 1 - ((pairs - low) / (high - low)).clamp(0, 1)
    turns_per = theta ** _exponents(rotary)
    mixed = 1.0 / (stretch * turns_per) * (1 - kept) + 1.0 / turns_per * kept
    return Scaled(_tuple(mixed), _yarn_factor(fields, stretch))


def _yarn_factor(fields: Fields, stretch: float) -> float:
    """What multiplies cos and sin: as given, or by mscale, or by the paper's rule."""
    if fields.values.get("attention_factor") is not None:
        return fields.number("attention_factor")
    if fields.values.get("mscale") and fields.values.get("mscale_all_dim"):
        ours, all_dim = fields.number("mscale"), fields.number("mscale_all_dim")
        return yarn_mscale(stretch, ours) / yarn_mscale(stretch, all_dim)
    return yarn_mscale(stretch)


def _llama3(fields: Fields) -> Scaled:
    factor, first = fields.number("factor"), _first_length(fields)
    low, high = fields.number("low_freq_factor"), fields.number("high_freq_factor")
    if low >= high:
        raise fields.error(
            f"low_freq_factor: expected less than high_freq_factor {high:g}, got {low:g}"
        )
    frequencies = plain_frequencies(fields.rotary, fields.theta)
    wave = 2 * math.pi / frequencies
    slow = torch.where(wave > first / low, frequencies / factor, frequencies)
    share = (first / wave - low) / (high - low)
    ramp = (1 - share) * slow / factor + share * slow
    between = (wave >= first / high) & (wave <= first / low)
    return Scaled(_tuple(torch.where(between, ramp, slow)))


def _longrope(fields: Fields) -> Scaled:
    stretch, first = _stretch(fields), _first_length(fields)
    base = fields.theta ** _exponents(fields.rotary)
    short, long = (
        _tuple(1.0 / (torch.tensor(fields.numbers(name, fields.rotary // 2), device=CPU) * base))
        for name in ("short_factor", "long_factor")
    )
    if fields.values.get("attention_factor") is not None:
        factor = fields.number("attention_factor")
    elif stretch <= 1:
        factor = 1.0
    elif first <= 1:
        raise fields.error(f"original_max_position_embeddings: expected over 1, got {first:g}")
    else:
        factor = math.sqrt(1 + math.log(stretch) / math.log(first))
    return Scaled(short, factor, Beyond(int(first), long))


def _proportional(fields: Fields) -> Scaled:
    """The first pairs turn as they would in the whole width; the others stand still."""
    turning = int(fields.values.get("partial_rotary_factor", 1.0) * fields.width // 2)
    steps = torch.arange(0, 2 * turning, 2, dtype=torch.float32, device=CPU)
    exponents = steps / max(1, fields.width)
    still = torch.zeros(fields.width // 2 - turning, device=CPU)
    frequencies = torch.cat([1.0 / fields.theta**exponents, still])
    return Scaled(_tuple(frequencies / fields.number("factor", 1.0)))


KINDS: Final[dict[str, Callable[[Fields], Scaled]]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "proportional": _proportional,
}
