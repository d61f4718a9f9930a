"""The RoPE fields of a config.json, whichever of the ways of writing them it uses.

The idea: the same numbers stand in four places, by the age of the file.

    old      rope_theta, partial_rotary_factor, rope_scaling: {type or rope_type, factor, …}
    gemma 3  the same for full layers, rope_local_base_freq for sliding ones, which are not scaled
    new      rope_parameters: {rope_type, rope_theta, partial_rotary_factor, factor, …}
    new      rope_parameters: {full_attention: {…}, sliding_attention: {…}}

`read` gives one `Fields` for one type of layer. A field that is lacking is an error that names it,
but for families whose config class is known to fill it in (families.py).

Not here: what the fields mean (scaled.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from attnscope.errors import ConfigError
from attnscope.positions.families import FAMILIES

ALIASES: Final = {"su": "longrope", "mrope": "default"}
"""Older names. With text alone the three axes of mrope stand at the same position: plain RoPE."""

WITH_LENGTH: Final = ("yarn", "llama3", "longrope")
"""Kinds that know the length of the first training."""

KNOWN: Final = frozenset({
    "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings",
    "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate",
    "short_factor", "long_factor", "low_freq_factor", "high_freq_factor",
})  # fmt: skip
HARMLESS: Final = frozenset({
    "type", "rope_type", "mrope_section", "mrope_interleaved", "max_position_embeddings",
    "finetuned",
})  # fmt: skip


@dataclass(frozen=True)
class Fields:
    """What a config says of the RoPE of one type of layer.

    Attributes:
        kind: default, linear, dynamic, yarn, llama3, longrope, proportional, or what it says.
        width: of a head, which `partial_rotary_factor` refers to.
        rotary: how many of its numbers are rotated.
        values: the other fields.
        longest: max_position_embeddings, if given.
        family: the model_type, for messages.
    """

    kind: str
    width: int
    rotary: int
    values: Mapping[str, Any]
    longest: int | None
    family: str

    @property
    def theta(self) -> float:
        """The base of the frequencies."""
        return self.number("rope_theta")

    def number(self, name: str, default: float | None = None) -> float:
        """A field that must be a positive number.

        Raises:
            ConfigError: it is lacking and has no default, or is something else.
        """
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise self.error(f"has no {name}, which rope_type {self.kind!r} needs; add it")
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e300:
            raise self.error(f"{name}: expected a positive number, got {value!r}")
        return float(value)

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """A field that must be a list of so many positive numbers.

        Raises:
            ConfigError: it is lacking, too short or long, or is something else.
        """
        value = self.values.get(name)
        if value is None:
            raise self.error(f"has no {name}, which rope_type {self.kind!r} needs; add it")
        if not isinstance(value, list | tuple) or len(value) != count:
            got = f"{len(value)}" if isinstance(value, list | tuple) else repr(value)
            raise self.error(
                f"{name}: expected a list of {count} numbers, half the rotated width, got {got}"
            )
        if not all(isinstance(x, int | float) and x > 0 for x in value):
            raise self.error(f"{name}: expected positive numbers, got {value!r}")
        return tuple(float(x) for x in value)

    def error(self, what: str) -> ConfigError:
        """The error that says what is wrong with this config."""
        return ConfigError(f"config of {self.family}: {what}")


def read(
    config: Mapping[str, Any], *, layer_type: str | None = None, width: int | None = None
) -> Fields:
    """The RoPE fields of a config for one type of layer.

    Args:
        config: a whole config.json; a text model nested in `text_config` is found.
        layer_type: such as "full_attention"; needed where the config tells them apart.
        width: of a head, if the config does not say or another part is meant.

    Raises:
        ConfigError: a field is lacking, contradicts another, or is unknown.
    """
    outer = config
    if isinstance(config.get("text_config"), Mapping):
        config = config["text_config"]
    family = str(config.get("model_type") or outer.get("model_type") or "unnamed")
    default = FAMILIES.get(family, {})
    values = _of_layer(config, default, layer_type, family)
    kind = str(values.get("rope_type") or values.get("type") or "default")
    kind = ALIASES.get(kind, kind)
    longest = config.get("max_position_embeddings")
    if kind in WITH_LENGTH:
        first = config.get("original_max_position_embeddings")
        if first is not None and not _by_layer(config.get("rope_parameters")):
            values["original_max_position_embeddings"] = first
    odd = sorted(set(values) - KNOWN - HARMLESS)
    if odd:
        raise ConfigError(
            f"config of {family}: RoPE field {odd[0]!r} is not known here; remove it if it changes "
            f"nothing. Known are {', '.join(sorted(KNOWN))}"
        )
    head, rotary = _widths(config, values, width, kind, family)
    return Fields(kind, head, rotary, values, longest, family)


def _by_layer(parameters: object) -> list[str]:
    """The layer types of a nested `rope_parameters`, if it is nested."""
    if not isinstance(parameters, Mapping):
        return []
    return [
        key for key, value in parameters.items()
        if isinstance(value, Mapping) or (value is None and key.endswith("attention"))
    ]  # fmt: skip


def _of_layer(
    config: Mapping[str, Any], default: Mapping[str, Any], layer_type: str | None, family: str
) -> dict[str, Any]:
    """The fields of one type of layer, defaults filled in."""
    new, old = config.get("rope_parameters") or {}, config.get("rope_scaling") or {}
    for name, given in (("rope_parameters", new), ("rope_scaling", old)):
        if not isinstance(given, Mapping):
            raise ConfigError(f"config of {family}: {name}: expected an object, got {given!r}")
    local = config.get("rope_local_base_freq")
    types = _by_layer(new) or (
        ["full_attention", "sliding_attention"] if local is not None else _by_layer(default)
    )
    if types and layer_type not in types:
        named = f"got {layer_type!r}" if layer_type else "none was named"
        raise ConfigError(
            f"config of {family}: RoPE differs by layer type, and {named}; give layer_type, one of "
            f"{', '.join(sorted(types))}"
        )
    if _by_layer(default):
        default = default.get(str(layer_type), {})
    own: Mapping[str, Any]
    if _by_layer(new):
        own = new[str(layer_type)]
        if own is None:
            raise ConfigError(f"config of {family}: layers of type {layer_type} have no RoPE")
    else:
        _agree(new, old, family)
        sliding = bool(types) and layer_type == "sliding_attention"
        own = {} if sliding else {**new, **old}
        if sliding and local is not None:
            default = {**default, "rope_theta": local}
    values = {key: value for key, value in own.items() if value is not None}
    if not (types and layer_type == "sliding_attention" and not values):
        for name in ("rope_theta", "partial_rotary_factor"):
            if config.get(name) is not None:
                values.setdefault(name, config[name])
    # A family's whole default stands for a config that says nothing of scaling; one that does say
    # takes only what every kind has.
    scaled = any(name in own for name in ("rope_type", "type", "factor"))
    for name, value in default.items():
        if not scaled or name in ("rope_theta", "partial_rotary_factor"):
            values.setdefault(name, value)
    if "rope_theta" not in values:
        raise ConfigError(
            f"config of {family}: has no rope_theta, and {family} is no family whose default is "
            "known; add it"
        )
    return values


def _agree(new: Mapping[str, Any], old: Mapping[str, Any], family: str) -> None:
    for name in sorted(set(new) & set(old)):
        if new[name] != old[name]:
            raise ConfigError(
                f"config of {family}: rope_parameters says {name} = {new[name]!r}, rope_scaling "
                f"{old[name]!r}; keep one of them"
            )


def _widths(
    config: Mapping[str, Any],
    values: Mapping[str, Any],
    width: int | None,
    kind: str,
    family: str,
) -> tuple[int, int]:
    """The width of a head, and how many of its numbers are rotated."""
    own = config.get("qk_rope_head_dim")
    if own is not None:
        # MLA: the rotated part is a tensor of its own, and its width is said outright.
        if width is not None and width < own:
            raise ConfigError(f"config of {family}: qk_rope_head_dim {own} exceeds width {width}")
        return width or own, _even(own, "qk_rope_head_dim", family)
    head = width or config.get("head_dim")
    if head is None:
        for name in ("hidden_size", "num_attention_heads"):
            if not config.get(name):
                raise ConfigError(f"config of {family}: has neither head_dim nor {name}; add one")
        head = config["hidden_size"] // config["num_attention_heads"]
    share = values.get("partial_rotary_factor", 1.0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise ConfigError(
            f"config of {family}: partial_rotary_factor: expected a number from 0 to 1, "
            f"got {share!r}"
        )
    if kind == "proportional":
        return head, _even(head, "head_dim", family)
    return head, _even(int(head * share), "head_dim x partial_rotary_factor", family)


def _even(rotary: int, name: str, family: str) -> int:
    if isinstance(rotary, bool) or not isinstance(rotary, int) or rotary < 0 or rotary % 2:
        raise ConfigError(f"config of {family}: {name}: expected an even width, got {rotary!r}")
    return rotary
