"""Queries, keys and values to test attention with: ordinary ones, and ones chosen to break it.

Shapes
    q [B, H, T, D]    k [B, G, S, D]    v [B, G, S, E]

Not here: real models' inputs (capture a model for those).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Inputs:
    """One call of `attend`.

    Attributes:
        name: for test ids and reports.
        q, k, v: the tensors.
        options: further keywords of `attend`.
    """

    name: str
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    options: dict[str, Any] = field(default_factory=dict)

    def to(self, dtype: torch.dtype) -> Inputs:
        """The same numbers, rounded to another dtype."""
        return Inputs(self.name, self.q.to(dtype), self.k.to(dtype), self.v.to(dtype), self.options)


def qkv(
    *,
    batch: int = 2,
    heads: int = 4,
    groups: int = 2,
    queries: int = 9,
    keys: int | None = None,
    width: int = 8,
    value_width: int | None = None,
    spread: float = 1.0,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normal random q, k and v; the same for the same arguments, on every machine.

    Args:
        keys: as many as queries if not given.
        value_width: `width` if not given.
        spread: standard deviation of q; that of a scaled score is about the same.

    >>> [list(x.shape) for x in qkv(queries=3, keys=5)]
    [[2, 4, 3, 8], [2, 2, 5, 8], [2, 2, 5, 8]]
    """
    keys = queries if keys is None else keys
    value_width = width if value_width is None else value_width
    random = torch.Generator().manual_seed(seed)
    shapes = (
        (batch, heads, queries, width),
        (batch, groups, keys, width),
        (batch, groups, keys, value_width),
    )
    q, k, v = (torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes)
    return (q * spread).to(dtype), k.to(dtype), v.to(dtype)


def ordinary() -> Iterator[Inputs]:
    """Shapes that tend to be forgotten: odd lengths, one query, one key, D odd, E unlike D."""
    for name, sizes in {
        "prefill": {"queries": 33, "width": 16},
        "chunk": {"queries": 7, "keys": 40, "width": 5, "value_width": 12},
        "decode": {"queries": 1, "keys": 67},
        "one": {"queries": 1, "keys": 1, "heads": 1, "groups": 1, "batch": 1},
        "many_heads": {"heads": 12, "groups": 1, "queries": 5},
        "no_groups": {"heads": 3, "groups": 3, "queries": 17, "width": 3, "value_width": 1},
        "long": {"batch": 1, "heads": 2, "groups": 1, "queries": 300, "width": 8},
    }.items():
        yield Inputs(name, *qkv(**sizes, seed=len(name)))  # type: ignore[arg-type]


def adversarial() -> Iterator[Inputs]:
    """Inputs on which a careless softmax overflows, divides by zero, or loses its row."""
    q, k, v = qkv(queries=12, seed=5)
    yield Inputs("huge_logits", q * 300, k * 300, v)
    yield Inputs("huge_negative_logits", k.repeat_interleave(2, 1) * -300, k * 300, v)
    yield Inputs("ties", torch.ones_like(q), torch.ones_like(k), v)
    yield Inputs("zeros", torch.zeros_like(q), k, v)
    one_hot = torch.eye(12).expand(2, 2, 12, 12).contiguous()
    yield Inputs("one_hot", one_hot.repeat_interleave(2, 1) * 100, one_hot * 100, v)
    yield Inputs("tiny_numbers", q * 1e-30, k * 1e-15, v * 1e-30)
    wall = torch.zeros(12, 12)
    wall[3] = -torch.inf
    wall[5:, 1] = -torch.inf
    yield Inputs("minus_infinite_bias", q, k, v, {"bias": wall})
    yield Inputs("large_bias", q, k, v, {"bias": torch.linspace(-80, 80, 12).expand(12, 12)})
    high, low = torch.tensor([90.0, 0.0, 3.0, 30.0]), torch.tensor([-90.0, -1.0, -30.0, 0.0])
    yield Inputs("strong_sinks", q, k, v, {"sinks": high})
    yield Inputs("weak_sinks", q, k, v, {"sinks": low})
    yield Inputs("tight_cap", q * 50, k, v, {"softcap": 0.5})
    rare = torch.zeros(12, 12, dtype=torch.bool)
    rare[:, 0], rare[6] = True, False
    yield Inputs("one_key_in_sight", q, k, v, {"mask": rare})
