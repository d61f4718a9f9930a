"""A config's fields, read with care: aliases, defaults that are named, numbers that are checked.

The idea: published configs call one thing by many names, leave out what their own library would
fill in, and now and then hold nonsense. Every reader asks through this class, which remembers what
it was asked, so an answer can name the field it came from, and a default can be named as one.

Not here: what the fields mean for a layer (families.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from attnscope.errors import ConfigError

ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "hidden_size": (
        "hidden_size", "n_embd", "n_embed", "d_model", "emb_dim", "model_dim", "embed_dim",
    ),
    "num_hidden_layers": (
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers",
        "num_decoder_layers", "num_transformer_layers",
    ),
    "num_attention_heads": (
        "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
        "attention_heads", "num_decoder_attention_heads",
    ),
    "num_key_value_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num",
        "n_kv_heads", "num_attention_groups", "num_key_value_heads_per_layer",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "d_head", "dim_head", "kv_channels"),
    "vocab_size": ("vocab_size", "padded_vocab_size", "n_words"),
    "max_position_embeddings": (
        "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx",
        "model_max_length", "max_sequence_length", "max_context_length", "max_position_embedding",
    ),
    "dtype": ("dtype", "torch_dtype"),
}  # fmt: skip
"""One name here, the names it goes by in published configs."""

SIZES: Final = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
)  # fmt: skip
"""Fields of which two names with two values are a contradiction."""

MOST: Final = 10**8
"""No count in a config is above this: the widest vocabulary is a thousandth of it."""
MOST_LAYERS: Final = 10_000


@cache
def library_defaults() -> dict[str, Any]:
    """What the config classes of transformers fill in, by model type, and the version read."""
    text = (Path(__file__).parent / "data" / "defaults.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


class Fields:
    """The fields of one (text) config.

    Args:
        values: the flat config.
        kind: its model type, for the defaults.
        name: what to call the config in an error.
        inside: whether it stands in the config of a model of several parts. Such a config may leave
            out how many layers and heads there are; one that stands alone never does.
    """

    def __init__(
        self, values: Mapping[str, Any], *, kind: str, name: str, inside: bool = False
    ) -> None:
        self.values = dict(values)
        self.kind = kind
        self.name = name
        self.used: dict[str, Any] = {}
        self.defaulted: dict[str, Any] = {}
        library = library_defaults()
        self.defaults: dict[str, Any] = library["families"].get(kind, {})
        if inside:
            self.defaults = {**library["sizes"].get(kind, {}), **self.defaults}

    def fail(self, sentence: str) -> ConfigError:
        """An error that begins with the config's name."""
        return ConfigError(f"{self.name}: {sentence}")

    def where(self, field: str) -> str | None:
        """Under which of its names a field stands, None when it is absent or null."""
        names = ALIASES.get(field, (field,))
        present = [one for one in names if self.values.get(one) is not None]
        if (
            len(present) > 1
            and field in SIZES
            and len({json.dumps(self.values[one], default=str) for one in present}) > 1
        ):
            said = ", ".join(f"{one} = {shown(self.values[one])}" for one in present)
            raise self.fail(f"{said} contradict each other.")
        return present[0] if present else None

    def raw(self, field: str, default: Any = None) -> Any:
        """The value as it stands, else the library's default for this family, else `default`."""
        found = self.where(field)
        if found is not None:
            self.used[found] = self.values[found]
            return self.values[found]
        for one in ALIASES.get(field, (field,)):
            # A null that is written down is an answer: only an absent field takes the default.
            if one in self.defaults and self.values.get(one, 0) is not None:
                self.defaulted[one] = self.defaults[one]
                return self.defaults[one]
        return default

    def has(self, field: str) -> bool:
        """Whether the config itself holds the field, not null."""
        return self.where(field) is not None

    def check(self, field: str, value: Any, *, least: int = 1, most: int = MOST) -> int:
        """`value` as a count, or an error that names the field."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(f"{field} must be a whole number, got {shown(value)}.")
        if not least <= value <= most:
            raise self.fail(f"{field} must be from {least:,} to {most:,}, got {value:,}.")
        return value

    def count(self, field: str, *, least: int = 1, most: int = MOST) -> int:
        """A whole number that must be there (or be a default of the library).

        Raises:
            ConfigError: absent, or not a sensible number.
        """
        value = self.raw(field)
        if value is None:
            also = [one for one in ALIASES.get(field, ()) if one != field]
            other = f" (nor {', '.join(also)})" if also else ""
            raise self.fail(f"the field {field} is missing{other}; {self.kind} cannot do without.")
        return self.check(self.where(field) or field, value, least=least, most=most)

    def optional(self, field: str, *, least: int = 1) -> int | None:
        """A whole number, or None where it is absent or null."""
        value = self.raw(field)
        return None if value is None else self.check(self.where(field) or field, value, least=least)

    def flag(self, field: str, default: bool = False) -> bool:
        """A yes or no."""
        value = self.raw(field, default)
        if not isinstance(value, bool | int):
            raise self.fail(f"{field} must be true or false, got {shown(value)}.")
        return bool(value)

    def per_layer(self, field: str, layers: int) -> list[Any] | None:
        """A list with one item for each layer, None where the field is absent.

        Raises:
            ConfigError: no list, or of another length than there are layers.
        """
        value = self.raw(field)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.fail(f"{field} must be a list with one item per layer, got {shown(value)}.")
        if len(value) != layers:
            raise self.fail(
                f"{field} has {len(value):,} items but num_hidden_layers is {layers:,}; "
                "they contradict each other."
            )
        return list(value)

    def indices(self, field: str, layers: int) -> list[int] | None:
        """A list of layers by number, None where the field is absent.

        Raises:
            ConfigError: no list, or a number that is no layer's.
        """
        value = self.raw(field)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.fail(f"{field} must be a list of layers, got {shown(value)}.")
        return [self.check(field, one, least=0, most=layers - 1) for one in value]

    def table(self, field: str) -> dict[str, Any]:
        """A nested table, empty where it is absent."""
        value = self.raw(field, {})
        if not isinstance(value, dict):
            raise self.fail(f"{field} must be a table, got {shown(value)}.")
        return value

    def layers(self) -> int:
        """How many layers there are."""
        return self.count("num_hidden_layers", most=MOST_LAYERS)

    def says(self, *fields: str) -> str:
        """`field = value` of each field that is known, for the formula's source."""
        said = []
        for field in fields:
            found = self.where(field)
            if found is not None:
                said.append(f"{found} = {shown(self.values[found])}")
            elif self.defaulted.get(field) is not None:
                said.append(f"{field} = {shown(self.defaulted[field])} (library's default)")
        return ", ".join(said)


def shown(value: Any) -> str:
    """A value as it stands, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
