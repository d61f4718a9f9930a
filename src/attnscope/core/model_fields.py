"""The fields of a model's config.json that an attention layer is built from.

The idea: a published config leaves out what its own library would fill in, so a mechanism names
the families it serves together with what each of them leaves out. A field that neither the config
nor the family knows is an error that names it; a family that is not served is refused, because
dropping what the class cannot do (a norm, a gate, a sink) would give wrong numbers in silence.

Not here: what the rotation's fields mean (positions/config.py), the planner's reader, which knows
every family (plan/fields.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attnscope.errors import ConfigError

SLIDING: Final = "sliding_attention"
FULL: Final = "full_attention"
LINEAR: Final = "linear_attention"

_ROTATION: Final = (
    "head_dim", "partial_rotary_factor", "rope_theta", "rope_local_base_freq", "rope_scaling",
)  # fmt: skip

Families = Mapping[str, Mapping[str, Any]]
"""By model type: the values that its config.json may leave out."""


class ModelFields:
    """The text part of a config, and what its family fills in.

    Args:
        config: a config.json as a dict; a nested `text_config` is the part that is read.
        families: the model types served, each with the values it may leave out.
        layer: which layer is built.
        reader: the name of the class that is built, for errors.

    Raises:
        TypeError: the config is no mapping.
        ConfigError: no model type, one that is not served, or a layer that the model has not.

    >>> served = {"toy": {"attention_bias": False}}
    >>> fields = ModelFields({"model_type": "toy", "hidden_size": 8}, families=served)
    >>> fields["hidden_size"], fields["attention_bias"]
    (8, False)
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        families: Families,
        layer: int = 0,
        reader: str = "this class",
    ) -> None:
        if not isinstance(config, Mapping):
            raise TypeError(
                f"config: expected a mapping, as json.load gives it, got {type(config).__name__}"
            )
        nested = config.get("text_config")
        self.values: dict[str, Any] = dict(nested if isinstance(nested, Mapping) else config)
        self.kind = self.values.get("model_type")
        self.layer = layer
        if self.kind is None:
            raise ConfigError(
                f"the config has no field 'model_type'; {reader} reads {', '.join(families)}"
            )
        if self.kind not in families:
            raise ConfigError(
                f"model_type {self.kind!r}: {reader} reads {', '.join(families)}; if this model's "
                "attention is that of one of these, say so with its model_type"
            )
        self.family = families[self.kind]
        layers = self.values.get("num_hidden_layers")
        if layers is not None and not 0 <= layer < layers:
            raise self.error(f"layer {layer} is not among its {layers} layers")

    def __getitem__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.family:
            return self.family[name]
        raise self.error(f"the config has no field {name!r}")

    def error(self, sentence: str) -> ConfigError:
        """An error that begins with the model's type."""
        return ConfigError(f"model_type {self.kind!r}: {sentence}")

    def get(self, name: str, default: Any = None) -> Any:
        """A field that may be missing altogether."""
        return self.values.get(name, self.family.get(name, default))

    def count(self, name: str, *, least: int = 1) -> int:
        """A field that is a whole number of at least 1, or 0 if told so."""
        value = self[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            kind = "a positive whole number" if least else "a whole number from 0 on"
            raise self.error(f"{name}: expected {kind}, got {value!r}")
        return value

    @property
    def layer_type(self) -> str:
        """The kind of this layer; full where nothing says otherwise.

        Said by `layer_types`; or by a pattern of n, which is n - 1 sliding layers and a full one;
        or by `full_attention_interval`, likewise with linear layers; or by `use_sliding_window`,
        after which the layers from `max_window_layers` on slide.
        """
        types = self.get("layer_types")
        if types is not None:
            if self.layer >= len(types):
                raise self.error(f"layer_types has {len(types)} entries, none for {self.layer}")
            kind = str(types[self.layer])
            # Only where the family has the switch: elsewhere its class does not read the field.
            off = "use_sliding_window" in self.family and not self["use_sliding_window"]
            if kind == SLIDING and off:
                raise self.error(
                    f"layer_types says that layer {self.layer} slides, and use_sliding_window is "
                    "off; set it, or name the layer full_attention"
                )
            return kind
        for name in ("sliding_window_pattern", "_sliding_window_pattern"):
            if self.get(name) is not None:
                return SLIDING if (self.layer + 1) % self.count(name) else FULL
        if self.get("full_attention_interval") is not None:
            return LINEAR if (self.layer + 1) % self.count("full_attention_interval") else FULL
        if self.get("use_sliding_window") and self.get("sliding_window") is not None:
            return SLIDING if self.layer >= self.count("max_window_layers", least=0) else FULL
        return FULL

    @property
    def window(self) -> int | None:
        """How many keys a query of this layer sees, itself included; None in a full layer."""
        return self.count("sliding_window") if self.layer_type == SLIDING else None

    def rope(self) -> dict[str, Any]:
        """The config with the rotation's fields filled in that `families` says it may leave out."""
        left_out = {n: v for n, v in self.family.items() if n in _ROTATION}
        return left_out | self.values
