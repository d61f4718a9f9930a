"""The keys of a GGUF header, read with care: a number that is none is a sentence with its key.

The idea: as fields.py does for configs, every reader asks through one class, which knows the
file's name and its architecture, so an error can name both.

Not here: what the keys mean for a layer (gguf_model.py), the header's bytes (gguf_header.py).
"""

from __future__ import annotations

from typing import Any

from attnscope.errors import ConfigError
from attnscope.plan.fields import MOST, shown
from attnscope.plan.gguf_header import Header, Skipped


class Keys:
    """The keys of one architecture, read with care."""

    def __init__(self, header: Header, name: str) -> None:
        self.keys, self.name = header.keys, name
        arch = self.keys.get("general.architecture")
        if not isinstance(arch, str):
            raise ConfigError(f"{name}: the key general.architecture is missing.")
        self.arch = arch

    def fail(self, sentence: str) -> ConfigError:
        """An error that begins with the file's name."""
        return ConfigError(f"{self.name}: {self.arch}.{sentence}")

    def missing(self, key: str) -> ConfigError:
        """An error for a key that is not there."""
        return ConfigError(f"{self.name}: the key {self.arch}.{key} is missing.")

    def short(self, key: str, value: list[Any], layers: int) -> ConfigError:
        """An error for a list with less than an item per layer."""
        return self.fail(
            f"{key} has {len(value)} items but block_count is {layers}; they contradict each other."
        )

    def raw(self, key: str) -> Any:
        value = self.keys.get(f"{self.arch}.{key}")
        if isinstance(value, Skipped):
            raise self.fail(f"{key} has {value.count:,} items.")
        return value

    def check(self, key: str, value: Any, least: int = 1) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            raise self.fail(f"{key} must be from {least} to {MOST:,}, got {shown(value)}.")
        return value

    def count(self, key: str, *, least: int = 1) -> int:
        value = self.raw(key)
        if value is None:
            raise self.missing(key)
        return self.check(key, value, least)

    def optional(self, key: str, *, least: int = 0) -> int | None:
        value = self.raw(key)
        return None if value is None else self.check(key, value, least)

    def of_layer(self, key: str, index: int, layers: int, default: int | None = None) -> int:
        """A value that may be one for all layers or a list."""
        value = self.raw(key)
        if isinstance(value, list):
            if len(value) < layers:
                raise self.short(key, value, layers)
            value = value[index]
        if value is None and default is not None:
            return default
        return self.check(key, value, 0) if value is not None else self.count(key)

    def says(self, *names: str) -> str:
        return ", ".join(
            f"{self.arch}.{one} = {self.raw(one)}" for one in names if self.raw(one) is not None
        )
