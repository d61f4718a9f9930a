"""Find a model's config: a dict, a file, a folder, a GGUF header, a built-in name, a hub id.

The idea: nothing is fetched here. A hub id is looked up where the hub's own client keeps what it
has fetched; the command line fetches a config first when it is asked for one that is not there.

Not here: what a config means (read.py).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attnscope.errors import ConfigError

if TYPE_CHECKING:
    from attnscope.plan.gguf_header import Header

MOST_BYTES: Final = 16 << 20
"""No config is larger: the largest published ones have some hundred thousand bytes."""
MOST_NESTED: Final = 100
MOST_DIGITS: Final = 1000
CONFIGS: Final = Path(__file__).parent / "data" / "configs"
_PART: Final = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
HUB_ID: Final = re.compile(f"{_PART}/{_PART}", re.ASCII)
NEAREST: Final = 3
"""So many built-in models are named to somebody who asks for one that is not there."""
FILES: Final = (".json", ".gguf", ".safetensors", ".bin", ".txt", ".git")


def is_hub_id(text: str) -> bool:
    """Whether `text` can be the id of a model on the hub; a file's name cannot.

    An id is owner/name, each of 1 to 96 letters, digits, `-`, `_` and `.`, with neither `-` nor `.`
    at an end, and neither `--` nor `..` within.

    >>> is_hub_id("org/name"), is_hub_id("configs/name.json"), is_hub_id("org/-name")
    (True, False, False)
    """
    fits = HUB_ID.fullmatch(text) and "--" not in text and ".." not in text
    return bool(fits) and not text.lower().endswith(FILES)


@dataclass(frozen=True)
class Found:
    """A config, or a GGUF header, and where it came from."""

    name: str
    kind: str
    config: Mapping[str, Any]
    header: Header | None = None
    path: Path | None = None


def built_in_names() -> list[str]:
    """The names of the configs that come with the package."""
    return sorted(one.stem for one in CONFIGS.glob("*.json"))


def find(source: str | Path | Mapping[str, Any]) -> Found:
    """Find the config that `source` names.

    Raises:
        ConfigError: nothing there, or not readable as a config or a GGUF header.
        TypeError: `source` is neither a name, a path nor a dict.
    """
    if isinstance(source, Mapping):
        return Found("config", "config", source)
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"source must be a name, a path or a dict, got {type(source).__name__}.")
    text = str(source)
    path = Path(source)
    if _exists(path):
        return _from_path(path)
    if text.lower() in built_in_names():
        return built_in(text.lower())
    cached = cached_config(text) if is_hub_id(text) else None
    if cached is not None:
        return _from_file(cached, text, kind="hub cache")
    raise _nothing(text)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or a null byte in it: no file has such a name
        return False


def _nothing(text: str) -> ConfigError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    import difflib  # only a slip of the keys needs it

    names = built_in_names()
    near = difflib.get_close_matches(text.lower()[:80], names, 1)
    if near:
        return ConfigError(f"There is no file and no built-in model {shown!r}; {near[0]} is one.")
    if is_hub_id(text):
        return ConfigError(
            f"The config of {shown!r} is not in the local hub cache. `attnscope plan {shown}` "
            "fetches it; or give the path of its config.json."
        )
    if "/" in text or "\\" in text:
        return ConfigError(
            f"There is no file {shown!r}, and no hub id looks like that: one is owner/name, of "
            "letters, digits, '-', '_' and '.'. `attnscope plan list` names the built-in models."
        )
    *others, last = difflib.get_close_matches(text.lower()[:80], names, NEAREST, cutoff=0)
    return ConfigError(
        f"There is no file and no built-in model {shown!r}. The nearest are {', '.join(others)} "
        f"and {last}; `attnscope plan list` names all {len(names)}."
    )


def built_in(name: str) -> Found:
    """The config that comes with the package under a name of `built_in_names`."""
    file = CONFIGS / f"{name}.json"
    return Found(name, "built-in", json.loads(file.read_text("utf-8")))


def _from_path(path: Path) -> Found:
    if not path.is_dir():
        name = path.parent.name if path.name == "config.json" else path.name
        return _from_file(path, name or path.name)
    config = path / "config.json"
    if config.is_file():
        return _from_file(config, path.resolve().name)
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return _from_file(files[0], files[0].name)
    if len(files) > 1:
        raise ConfigError(f"{path} holds {len(files)} GGUF files; give one of them by its path.")
    raise ConfigError(f"{path} is a folder with neither a config.json nor a GGUF file in it.")


def _from_file(path: Path, name: str, *, kind: str = "config") -> Found:
    if not path.is_file():
        raise ConfigError(f"{path} is not a regular file.")
    with path.open("rb") as file:
        head = file.read(4)
    if head == b"GGUF" or path.suffix.lower() == ".gguf":
        from attnscope.plan.gguf_header import read_header  # most configs are no GGUF files

        return Found(name, "gguf", {}, read_header(path), path)
    return Found(name, kind, load_json(path), path=path)


def load_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of bounded size.

    Raises:
        ConfigError: too large, no text, broken JSON, or no object.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ConfigError(
            f"{path} has {size:,} bytes; a config.json has less than {MOST_BYTES:,}. "
            "Give the config, not the weights."
        )
    return parse_json(path.read_bytes(), str(path))


def parse_json(text: str | bytes, name: str) -> dict[str, Any]:
    """The JSON object that a text holds.

    Args:
        name: what to call the text in an error.

    Raises:
        ConfigError: no text, broken JSON, or no object.
    """
    try:
        plain = text.decode("utf-8") if isinstance(text, bytes) else text
        if _depth_exceeds(plain, MOST_NESTED):
            raise ConfigError(f"{name} is nested too deeply to be a config.")
        loaded = json.loads(plain, parse_int=_whole)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not text: byte {error.start} is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{name} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except ValueError as error:
        raise ConfigError(f"{name} holds a number that cannot be one: {error}.") from None
    if not isinstance(loaded, dict):
        raise ConfigError(f"{name} holds {_kind(loaded)}, not an object with a model's fields.")
    return loaded


def _depth_exceeds(text: str, most: int) -> bool:
    """Whether brackets outside of strings open more than `most` deep.

    Asked before the parser goes there, since what happens at the end of a stack is the host's
    affair: Python says so, and a browser's engine may break off anywhere.
    """
    if text.count("[") + text.count("{") <= most:
        return False
    depth, at, inside = 0, 0, False
    while at < len(text):
        char = text[at]
        if char == '"':
            inside = not inside
        elif inside:
            at += char == "\\"
        elif char in "[{":
            depth += 1
            if depth > most:
                return True
        elif char in "]}":
            depth -= 1
        at += 1
    return False


def _whole(digits: str) -> int:
    """A whole number; one of thousands of digits would take long, and is none of a config."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it has {len(digits):,} digits")
    return int(digits)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean"}
    return names.get(type(value), "nothing")


def cached_config(hub_id: str) -> Path | None:
    """Where the hub's client keeps this model's config, None where it has not fetched it."""
    home = os.environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or "")
    if str(hub) == ".":
        hub = Path(home) / "hub"
    folder = hub / ("models--" + hub_id.replace("/", "--"))
    main = folder / "refs" / "main"
    candidates = []
    if main.is_file():
        candidates.append(folder / "snapshots" / main.read_text("utf-8").strip() / "config.json")
    candidates += sorted(folder.glob("snapshots/*/config.json"))
    return next((one for one in candidates if one.is_file()), None)
