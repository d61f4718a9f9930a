"""The layout in which DeepSeek-V4.1 keeps the entries of compressed attention, and its bytes.

The idea: a few layers make entries that all layers read, in numbers of 4 bits with a scale for some
of them, so a token costs a few hundred bytes in all of the model's layers together.

Not here: how entries are made (compressor.py) and read (mechanisms/compressed.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from attnscope.core.model_fields import ModelFields


@dataclass(frozen=True)
class Published:
    """The layout in which DeepSeek-V4.1 keeps its entries, and what that is per token.

    Attributes:
        main, index: bytes of an entry and of its index key.
        entries_per_token: over all layers that keep entries.
    """

    main: int
    index: int
    entries_per_token: Fraction

    @property
    def bytes_per_token(self) -> Fraction:
        """Of all layers; the windows come on top and do not grow."""
        return (self.main + self.index) * self.entries_per_token


def published(config: Mapping[str, Any]) -> Published:
    """What DeepSeek-V4.1 keeps per token, from its config: a few layers keep entries for all.

    Formula: an entry is `head_dim` FP4 numbers and an E4M3 scale for 16 of them, its index key
    `index_head_dim` FP4 numbers and an E8M0 scale for 32 of them; a layer of ratio m keeps 1 / m
    entries per token.

    Raises:
        ConfigError: a field is missing, or a source layer has no ratio.

    >>> flash = {"model_type": "deepseek_v41", "head_dim": 512, "index_head_dim": 128,
    ...          "kv_source_layer_ids": [2, 20], "compress_ratio_at_source": {"2": 2, "20": 1}}
    >>> published(flash).main, published(flash).index, published(flash).bytes_per_token
    (288, 68, Fraction(534, 1))
    """
    fields = ModelFields(config, families={"deepseek_v41": {}}, reader="published")
    width, index = fields.count("head_dim"), fields.count("index_head_dim")
    ratios = fields["compress_ratio_at_source"]
    rate = Fraction(0)
    for source in fields["kv_source_layer_ids"]:
        ratio = ratios.get(str(source))
        if not isinstance(ratio, int) or ratio < 1:
            raise fields.error(
                f"compress_ratio_at_source: expected a ratio of at least 1 for layer {source}, "
                f"got {ratio!r}"
            )
        rate += Fraction(1, ratio)
    return Published(width // 2 + width // 16, index // 2 + index // 32, rate)
