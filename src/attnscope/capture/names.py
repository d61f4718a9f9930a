"""What a model may be called, and what to say to a name that is none.

Not here: what is behind a name (models.py).
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from attnscope.capture.known import KNOWN
from attnscope.errors import ModelError

HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
SHOWN: Final = 80


def is_hub_id(name: str) -> bool:
    """Whether a name has the form `org/name`.

    >>> is_hub_id("Qwen/Qwen3-0.6B"), is_hub_id("./folder"), is_hub_id("a/../b")
    (True, False, False)
    """
    return HUB_ID.fullmatch(name) is not None and ".." not in name and "--" not in name


def unknown(name: str) -> ModelError:
    """The error for a name that is no model, no path and no hub id; it suggests a near one.

    >>> print(unknown("smolm2"))
    There is no model 'smolm2'; did you mean smollm2?
    """
    shown = name if len(name) <= SHOWN else name[: SHOWN - 3] + "..."
    near = difflib.get_close_matches(name[:SHOWN].lower(), list(KNOWN), 1)
    if near:
        return ModelError(f"There is no model {shown!r}; did you mean {near[0]}?")
    return ModelError(
        f"There is no model {shown!r}. Give {' or '.join(KNOWN)}, a folder with safetensors, a "
        ".gguf file, or a hub id like org/name."
    )
