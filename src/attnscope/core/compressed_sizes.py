"""The sizes of a layer of compressed attention, and what they cost: pairs, numbers, FLOPs.

The idea: a layer has a window of raw tokens, and behind it entries of m tokens each, read all or by
choice. How many pairs a query reads and how many numbers stay follow from five of the sizes.

Formula (token t = 1, 2, ..., ratio m, choice of k, window w)
    entries in sight of t    floor(t / m)        read: at most k of them
    sum over t = 1 .. n      q (q - 1) / 2 m + q (n - q m + 1),  q = floor(n / m)

Not here: the layer (mechanisms/compressed.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch

from attnscope.core.chosen import sight_of
from attnscope.core.mechanism import pairs_in_sight
from attnscope.core.model_fields import ModelFields
from attnscope.errors import ConfigError

SLIDING: Final = "sliding_attention"
CSA: Final = "compressed_sparse_attention"
HCA: Final = "heavily_compressed_attention"
RATIOS: Final[Mapping[int, str]] = {0: SLIDING, 4: CSA, 128: HCA}
"""What a number in `compress_ratios` means."""


@dataclass(frozen=True)
class CompressedSizes:
    """The sizes of one layer.

    Attributes:
        model: C.
        heads, width: H and D.
        rope: how many of a head's last numbers are turned.
        query_rank: width of the query's latent.
        groups, group_rank: of the output projection.
        window: how many raw tokens a query sees, itself included.
        kind: SLIDING, CSA or HCA.
        ratio: m; 0 in a layer with a window alone.
        index_heads, index_width, topk: of the indexer of a CSA layer, and k; 0 without one.
        eps: of the norms.
    """

    model: int
    heads: int
    width: int
    rope: int
    query_rank: int
    groups: int
    group_rank: int
    window: int
    kind: str = SLIDING
    ratio: int = 0
    index_heads: int = 0
    index_width: int = 0
    topk: int = 0
    eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.kind not in RATIOS.values():
            raise ValueError(f"kind: expected {SLIDING}, {CSA} or {HCA}, got {self.kind!r}")
        needed = ["model", "heads", "width", "query_rank", "groups", "group_rank", "window"]
        needed += ["ratio"] if self.kind != SLIDING else []
        needed += ["index_heads", "index_width", "topk"] if self.kind == CSA else []
        for name in needed:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.heads % self.groups:
            raise ValueError(f"groups: {self.heads} heads are not a multiple of {self.groups}")
        narrow = min([self.width] + [self.index_width] * (self.kind == CSA))
        if self.rope % 2 or not 0 <= self.rope <= narrow:
            raise ValueError(f"rope: expected an even number from 0 to {narrow}, got {self.rope}")

    @staticmethod
    def from_fields(fields: ModelFields, *, rope: int) -> CompressedSizes:
        """Read from a config's fields.

        Args:
            rope: how many numbers its rotation turns.

        Raises:
            ConfigError: a field is missing or contradicts another.
        """
        kind = layer_kind(fields)
        width = fields.count("head_dim")
        if fields.get("num_key_value_heads", 1) != 1:
            raise ConfigError(
                f"model_type {fields.kind!r}: num_key_value_heads = "
                f"{fields['num_key_value_heads']}, but one vector is key and value of all heads"
            )
        rates = {**fields["compress_rates"]}
        for old, name in (("compress_rate_csa", CSA), ("compress_rate_hca", HCA)):
            rates[name] = fields.get(old, rates.get(name))
        index = ("index_n_heads", "index_head_dim", "index_topk")
        heads, index_width, topk = (fields.count(n) if kind == CSA else 0 for n in index)
        try:
            return CompressedSizes(
                model=fields.count("hidden_size"), heads=fields.count("num_attention_heads"),
                width=width, rope=rope, query_rank=fields.count("q_lora_rank"),
                groups=fields.count("o_groups"), group_rank=fields.count("o_lora_rank"),
                window=fields.count("sliding_window"), kind=kind,
                ratio=0 if kind == SLIDING else rates[kind], index_heads=heads,
                index_width=index_width, topk=topk, eps=fields["rms_norm_eps"],
            )  # fmt: skip
        except ValueError as error:
            raise ConfigError(f"model_type {fields.kind!r}: {error}") from None

    @property
    def overlap(self) -> bool:
        """Whether entries overlap: those that an indexer chooses do."""
        return self.kind == CSA

    def entries(self, tokens: int) -> int:
        """Whole groups among so many tokens."""
        return tokens // self.ratio if self.ratio else 0

    def scanned(self, tokens: int, cached: int = 0) -> int:
        """Pairs of a query and an entry in sight of it."""
        if not self.ratio:
            return 0
        return _floors(cached + tokens, self.ratio) - _floors(cached, self.ratio)

    def read(self, tokens: int, cached: int = 0) -> int:
        """Pairs of a query and a raw token or entry that it attends to."""
        near = pairs_in_sight(tokens, cached, self.window)
        if not self.topk:
            return near + self.scanned(tokens, cached)
        # From the token on that sees k entries, k are read.
        full = self.topk * self.ratio
        few, last = min(max(cached, full), cached + tokens), cached + tokens
        return near + self.scanned(few - cached, cached) + self.topk * (last - few)

    def numbers(self, tokens: int) -> tuple[int, int]:
        """Numbers kept after so many tokens: all told, and those that do not grow any more."""
        held = min(tokens, self.window) * self.width
        if not self.ratio:
            return held, held if tokens >= self.window else 0
        entries, waiting = divmod(tokens, self.ratio)
        width = self.width + self.index_width
        sides = 2 if self.overlap else 1
        before = 2 * self.ratio * width if self.overlap and entries else 0
        fixed = before + (held if tokens >= self.window else 0)
        return held + entries * width + waiting * 2 * sides * width + before, fixed


def _floors(last: int, ratio: int) -> int:
    """Sum of floor(t / ratio) for t = 1 .. last.

    >>> _floors(7, 3), sum(t // 3 for t in range(1, 8))
    (7, 7)
    """
    whole = last // ratio
    return whole * (whole - 1) // 2 * ratio + whole * (last - whole * ratio + 1)


def layer_kind(fields: ModelFields) -> str:
    """The kind of the layer, by `layer_types` or by `compress_ratios`.

    Raises:
        ConfigError: neither is there, or it says something unknown of this layer.
    """
    kinds = fields.get("layer_types")
    if kinds is None:
        kinds = [RATIOS.get(ratio, ratio) for ratio in fields["compress_ratios"]]
    if fields.layer >= len(kinds) or kinds[fields.layer] not in RATIOS.values():
        found = kinds[fields.layer] if fields.layer < len(kinds) else "nothing"
        raise ConfigError(
            f"model_type {fields.kind!r}: layer {fields.layer}: expected {SLIDING} (ratio 0), "
            f"{CSA} (4) or {HCA} (128), got {found!r}"
        )
    return str(kinds[fields.layer])


def in_sight(
    queries: int,
    raw: int,
    entries: int,
    *,
    window: int,
    ratio: int,
    start: int,
    chosen: torch.Tensor | None = None,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Which keys each query sees: bool [B or 1, T, raw + entries].

    Args:
        queries, raw, entries: how many there are; the queries stand at the end of the raw tokens.
        window: how many raw tokens a query sees, itself included.
        ratio: tokens per entry, at least 1.
        start: position of the first query.
        chosen: [B, T, k] of the entries, -1 for none; all that are complete, if not given.

    >>> in_sight(4, 4, 2, window=2, ratio=2, start=0).int()[0].tolist()
    [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 1, 0], [0, 1, 1, 0, 1, 0], [0, 0, 1, 1, 1, 1]]
    """
    i = torch.arange(start, start + queries, device=device)[:, None]
    j = torch.arange(start + queries - raw, start + queries, device=device)
    near = (j <= i) & (i - j < window)
    if chosen is None:
        whole = torch.arange(entries, device=device) < ((i + 1) // ratio)
        return torch.cat([near, whole], dim=-1)[None]
    return torch.cat([near.expand(len(chosen), -1, -1), sight_of(chosen, entries)], dim=-1)
