"""Rotary positions: each pair of numbers of a query or key is turned by an angle of its own.

The idea: turn the query at position i by i f and the key at position j by j f. Their product then
depends on the distance i - j alone, and turning changes no length. Values are not turned: what a
token says does not depend on where it stands.

Formula (Su et al. 2021, arXiv 2104.09864; a the factor on cos and sin, mostly 1)
    y_m = a (x_m cos p f_m - x_n sin p f_m)        y_n = a (x_n cos p f_m + x_m sin p f_m)
    half-split pairs (m, n) = (m, m + r/2), as Llama; interleaved (2m, 2m + 1), as GLM and DeepSeek

Shapes: x [B, H, T, D] or [B, T, D]; positions [T] or [B, T]; cos, sin [T, r/2] or [B, T, r/2].

Dtypes: angles, cos and sin in float32, to the bit as transformers has them (in float64 if asked);
x in float16 or bfloat16 is rotated in float32 and rounded once.

Paper: Su et al. 2021, arXiv 2104.09864.

Keeps: nothing; a cache holds keys that are already turned.

Not here: the turning itself (turn.py), stretched frequencies (scaled.py), reading configs
(config.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from attnscope.core.picture import pad
from attnscope.positions.config import read
from attnscope.positions.scaled import Beyond, plain_frequencies, scaled, yarn_mscale
from attnscope.positions.turn import Turn, rotate

__all__ = ["Rope", "Turn", "rotate", "yarn_mscale"]


@dataclass(frozen=True)
class Rope:
    """A model's rotary positions.

    Attributes:
        frequencies: angle per position of each pair, float32 numbers.
        factor: multiplies cos and sin (yarn, longrope), 1 otherwise.
        interleaved: pairs are neighbours, and not halves.
        kind: default, linear, dynamic, yarn, llama3, longrope or proportional.
        beyond: what changes for texts beyond some length (dynamic, longrope), or None.

    >>> rope = Rope.plain(4)
    >>> rope.rotary, rope.frequencies
    (4, (1.0, 0.009999999776482582))
    >>> x = torch.randn(1, 2, 5, 4)
    >>> y = rope(x, torch.arange(5))
    >>> torch.allclose(rope.back(y, torch.arange(5)), x, atol=1e-6)
    True
    """

    frequencies: tuple[float, ...]
    factor: float = 1.0
    interleaved: bool = False
    kind: str = "default"
    beyond: Beyond | None = None
    _tensors: dict[Any, torch.Tensor] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not 0 < self.factor < float("inf"):
            raise ValueError(f"factor: expected a positive number, got {self.factor}")
        if not all(abs(turn) < float("inf") for turn in self.frequencies):
            raise ValueError(f"frequencies: expected finite numbers, got {self.frequencies}")

    @property
    def rotary(self) -> int:
        """How many numbers of a head are turned."""
        return 2 * len(self.frequencies)

    @classmethod
    def plain(
        cls,
        width: int,
        *,
        theta: float = 10000.0,
        rotary: int | None = None,
        interleaved: bool = False,
    ) -> Rope:
        """The paper's frequencies, theta^(-2m / rotary).

        Args:
            width: of a head.
            theta: the base.
            rotary: how many of its numbers are turned, all if not given.

        Raises:
            ValueError: an odd or too large rotary, a theta that is not positive.
        """
        turned = width if rotary is None else rotary
        if turned % 2 or not 0 <= turned <= width:
            raise ValueError(f"rotary: expected an even number from 0 to {width}, got {turned}")
        if not 0 < theta < float("inf"):
            raise ValueError(f"theta: expected a positive number, got {theta}")
        return cls(tuple(plain_frequencies(turned, theta).tolist()), interleaved=interleaved)

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        layer_type: str | None = None,
        width: int | None = None,
        interleaved: bool = False,
    ) -> Rope:
        """The rotary positions of a real config.json.

        Args:
            config: the whole file, old or new style; a `text_config` inside is found.
            layer_type: such as "sliding_attention", where RoPE differs by it.
            width: of a head, if it is not the config's. Where there is a `qk_rope_head_dim`, that
                many numbers are turned, whatever the width.
            interleaved: pairs are neighbours; configs do not say it reliably.

        Raises:
            ConfigError: a field is lacking, unknown, or contradicts another; an unknown kind.
        """
        fields = read(config, layer_type=layer_type, width=width)
        found = scaled(fields)
        return cls(
            found.frequencies,
            factor=found.factor,
            interleaved=interleaved,
            kind=fields.kind,
            beyond=found.beyond,
        )

    def tables(
        self,
        positions: torch.Tensor,
        *,
        length: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines for `rotate`.

        Args:
            positions: integers, [T] or [B, T].
            length: tokens of the whole text, which dynamic and longrope go by; the largest position
                and one if not given. A cache holds keys turned by the frequencies of their time.
            dtype: of the tables; angles are computed in float64 if it is float64, else in float32.

        Returns:
            cos and sin, [T, rotary/2] or [B, T, rotary/2], times `factor`.

        Raises:
            ValueError, TypeError: positions of another rank, or not integers.
        """
        if positions.dtype.is_floating_point or positions.dtype == torch.bool:
            raise TypeError(f"positions: expected integers, got {positions.dtype}")
        if positions.ndim not in (1, 2):
            raise ValueError(f"positions: expected [T] or [B, T], got {list(positions.shape)}")
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        turns = self._turns(positions, length, wide)
        angles = positions.unsqueeze(-1).to(wide) * turns
        cos, sin = angles.cos(), angles.sin()
        if self.factor != 1.0:
            cos, sin = cos * self.factor, sin * self.factor
        return cos.to(dtype), sin.to(dtype)

    def _turns(
        self, positions: torch.Tensor, length: int | None, wide: torch.dtype
    ) -> torch.Tensor:
        frequencies = self.frequencies
        if self.beyond is not None:
            if length is None and positions.device.type == "meta":
                raise ValueError(
                    f"length: rope_type {self.kind!r} goes by the text's length, which positions "
                    "on the meta device do not tell; give the tokens of the text"
                )
            if length is None:
                length = int(positions.max()) + 1 if positions.numel() else 0
            if length > self.beyond.length:
                # Not kept: dynamic has others at every length.
                other = self.beyond.at(length, self.rotary)
                return torch.tensor(other, dtype=wide, device=positions.device)
        key = (positions.device, wide)
        if key not in self._tensors:
            self._tensors[key] = torch.tensor(frequencies, dtype=wide, device=positions.device)
        return self._tensors[key]

    def turn(
        self,
        positions: torch.Tensor,
        *,
        length: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Turn:
        """`tables`, laid out to turn many tensors at the same few positions.

        >>> rope = Rope.plain(8)
        >>> turn = rope.turn(torch.tensor([7]))
        >>> q = torch.randn(1, 2, 1, 8)
        >>> torch.equal(turn(q), rope(q, torch.tensor([7])))
        True
        """
        cos, sin = self.tables(positions, length=length, dtype=dtype)
        return Turn(cos, sin, interleaved=self.interleaved)

    def __call__(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        *,
        length: int | None = None,
        trailing: bool = False,
    ) -> torch.Tensor:
        """x turned by its positions. For several x at the same ones, take `turn` once.

        Args:
            x: [B, H, T, D] or [B, T, D].
            positions: integers, [T] or [B, T].
        """
        cos, sin = self.tables(positions, length=length, dtype=_wide(x))
        return rotate(x, cos, sin, interleaved=self.interleaved, trailing=trailing)

    def back(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        *,
        length: int | None = None,
        trailing: bool = False,
    ) -> torch.Tensor:
        """The inverse: `rope.back(rope(x, positions), positions)` is x, but for rounding."""
        cos, sin = self.tables(positions, length=length, dtype=_wide(x))
        if self.factor != 1.0:
            cos, sin = cos / self.factor**2, sin / self.factor**2
        return rotate(x, cos, -sin, interleaved=self.interleaved, trailing=trailing)


def _wide(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def picture() -> str:
    """Angles of each pair along the positions, and the law in numbers."""
    rope = Rope.plain(16)
    lines = ["RoPE, width 16, theta 10,000: turns of each pair, as a clock hand", ""]
    clock = "→↗↑↖←↙↓↘"
    positions = list(range(0, 32))
    for pair, frequency in enumerate(rope.frequencies):
        hands = "".join(clock[round(8 * p * frequency / math.tau) % 8] for p in positions)
        lines.append(f"pair {pair}  {pad(f'{frequency:.4g}', 10, right=True)} rad/token  {hands}")
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 16, generator=generator, dtype=torch.float64)
    lines += ["", "q.k at positions (i, j), the same q and k: only i - j counts"]
    for distance in (0, 1, 5):
        scores = [
            float((rope(q, torch.tensor([j + distance])) * rope(k, torch.tensor([j]))).sum())
            for j in (0, 10, 1000)
        ]
        row = "   ".join(
            f"({j + distance}, {j}) {score:.6f}"
            for j, score in zip((0, 10, 1000), scores, strict=True)
        )
        lines.append(f"i - j = {distance}:  {row}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
