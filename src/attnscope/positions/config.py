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
from attnscope.positions.families import FAMILIES, GEMMA, SPLIT, Part

ALIASES: Final = {"su": "longrope", "mrope": "default"}
"""Older names. With text alone the three axes of mrope stand at the same position: plain RoPE."""

KNOWN: Final = frozenset({
    "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings",
    "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate",
    "short_factor", "long_factor", "low_freq_factor", "high_freq_factor",
})  # fmt: skip
HARMLESS: Final = frozenset({
    "type", "rope_type", "mrope_section", "mrope_interleaved", "max_position_embeddings",
    "finetuned",
})  # fmt: skip

OLDER: Final = (("rope_theta", "rotary_emb_base"), ("partial_rotary_factor", "rotary_pct"))
"""What GPT-NeoX's files call two fields."""


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
        TypeError: config is not a mapping.
    """
    if not isinstance(config, Mapping):
        raise TypeError(f"config: expected the mapping of a config.json, got {type(config)}")
    outer = config
    if isinstance(config.get("text_config"), Mapping):
        config = config["text_config"]
    family = str(config.get("model_type") or outer.get("model_type") or "an unnamed family")
    values = _of_layer(config, layer_type, family)
    kind = str(values.get("rope_type") or values.get("type") or "default")
    kind = ALIASES.get(kind, kind)
    head, rotary = _widths(config, values, width=width, kind=kind, family=family)
    return Fields(kind, head, rotary, values, config.get("max_position_embeddings"), family)


def _of_layer(config: Mapping[str, Any], layer_type: str | None, family: str) -> dict[str, Any]:
    """The fields of one type of layer: its own, then the config's, then the family's."""
    new, old = config.get("rope_parameters") or {}, config.get("rope_scaling") or {}
    for name, given in (("rope_parameters", new), ("rope_scaling", old)):
        if not isinstance(given, Mapping):
            raise ConfigError(f"config of {family}: {name}: expected an object, got {given!r}")
    parts = SPLIT.get(family) or (GEMMA if config.get("rope_local_base_freq") is not None else {})
    nested = [key for key, value in new.items() if isinstance(value, Mapping)]
    nested += [key for key, value in new.items() if nested and value is None]
    layer_type = _chosen(layer_type, nested or list(parts), new if nested else {}, family)
    part = parts.get(layer_type)
    entry: Mapping[str, Any] = {}
    if nested:
        entry = new[layer_type]
        if entry is None:
            raise ConfigError(f"config of {family}: layers of type {layer_type} have no RoPE")
    elif part is None or part.scaled:
        _agree(new, old, family)
        entry = {**new, **old}
    values = {name: value for name, value in entry.items() if value is not None}
    theta = part.theta if part else "rope_theta"
    for name, field in (
        ("rope_theta", theta),
        ("partial_rotary_factor", "partial_rotary_factor"),
        *OLDER,
    ):
        if config.get(field) is not None:
            values.setdefault(name, config[field])
    first = config.get("original_max_position_embeddings")
    if first is not None and entry and not nested:
        # Phi 3 writes it outside, and there it has precedence.
        values["original_max_position_embeddings"] = first
    for name, value in _defaults(family, part, bool(entry)).items():
        values.setdefault(name, value)
    if "rope_theta" not in values:
        raise ConfigError(
            f"config of {family}: has no {theta}, and {family} is not among the families whose "
            "default is known; add it"
        )
    return values


def _chosen(
    layer_type: str | None, types: list[str], entries: Mapping[str, Any], family: str
) -> str:
    """The layer type to read, where a config tells them apart."""
    if not types or layer_type in types:
        return str(layer_type)
    if layer_type is None and entries and all(entries[key] == entries[types[0]] for key in types):
        return types[0]
    named = "none was named" if layer_type is None else f"{layer_type!r} is none of them"
    raise ConfigError(
        f"config of {family}: RoPE differs by type of layer, and {named}; give layer_type, one of "
        f"{', '.join(sorted(types))}"
    )


def _defaults(family: str, part: Part | None, said: bool) -> Mapping[str, Any]:
    """What the family's config class fills in, where the file says how to turn or does not."""
    if part is not None:
        return {"rope_theta": part.default, **part.more}
    default = FAMILIES.get(family, {})
    if said:
        general = ("rope_theta", "partial_rotary_factor")
        return {name: value for name, value in default.items() if name in general}
    return default


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
    *,
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
