"""A model's table of input embeddings: which ids it knows, and the rows of a text's tokens.

Shapes: table [V, C]; rows [U, C] of the U different ids of a text.

Not here: tokens and their texts (tokens.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from attnscope.capture.record import as_numpy


def table_of(model: Any) -> torch.nn.Embedding | None:
    """What token ids are looked up in, or None for a model that hides it."""
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:
        return None
    return table if isinstance(table, torch.nn.Embedding) else None


def check_ids(model: Any, ids: torch.Tensor) -> None:
    """Every id is a row of the table.

    Raises:
        ValueError: one is not.
    """
    table = table_of(model)
    if table is None:
        return
    strange = ids[(ids < 0) | (ids >= table.num_embeddings)]
    if len(strange):
        raise ValueError(
            f"text: {int(strange[0])} is not one of the {table.num_embeddings:,} tokens that "
            "this model knows; if a tokenizer gave it, it is another model's."
        )


def embeddings_of(model: Any, ids: Iterable[int]) -> dict[str, np.ndarray] | None:
    """The rows of some ids as a trace keeps them: `ids` int32 [U], rising, `vectors` [U, C].

    The rows as they stand in the table: a model that scales them does so afterwards. None where
    the table is hidden, or holds no plain numbers (a quantised one).
    """
    table = table_of(model)
    return None if table is None else rows_of(table, ids)


def rows_of(table: torch.nn.Embedding, ids: Iterable[int]) -> dict[str, np.ndarray] | None:
    """The same of a table."""
    if not table.weight.is_floating_point() or table.weight.is_meta:
        return None
    rows = sorted(set(ids))
    place = torch.tensor(rows, device=table.weight.device)
    vectors = table.weight.detach()[place]
    if not bool(vectors.isfinite().all()):
        return None
    return {"ids": np.array(rows, np.int32), "vectors": as_numpy(vectors)}
