"""What the real caches of the built-in models weigh, beside their plans.

The idea: a plan is computed; that it is right is known because caches were weighed. For each
built-in model that transformers can build, `data/weighed.json` holds the bytes of all cache tensors
after one forward pass at two lengths (written by tests/plan/weigh_built_in.py, which ran them).

Units: bytes of one sequence in bf16.

Not here: the weighing (tests/plan), what transformers holds by rule (engines/transformers.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attnscope.plan.engines.transformers import held_bytes
from attnscope.plan.model import Model


@dataclass(frozen=True)
class Weighed:
    """A model's weighed caches.

    Args:
        version: of transformers, whose tensors they are.
        rows: tokens, bytes weighed, bytes planned as transformers holds them.
    """

    version: str
    rows: tuple[tuple[int, int, int], ...]


@cache
def _table() -> dict[str, Any]:
    text = (Path(__file__).parent / "data" / "weighed.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def weighed(model: Model) -> Weighed | None:
    """What a built-in model's cache weighed; None of any other model, and where it was not run.

    >>> from attnscope.plan import read
    >>> weighed(read("smollm2")).rows[0]
    (1024, 23592960, 23592960)
    """
    table = _table()
    sizes = table["bytes"].get(model.name) if model.source == "built-in" else None
    if sizes is None:
        return None
    rows = [
        (int(tokens), size, held_bytes(model, int(tokens), dtype="bf16"))
        for tokens, size in sizes.items()
    ]
    return Weighed(table["transformers"], tuple(rows))
