"""What a page shows of a reader's text, by the definition and in float64: from a saved trace, and
from the model's own files.

Not here: the tests (test_lesson_own.py), handouts (attnscope.tiles).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file

from attnscope.positions import Rope
from attnscope.trace import Trace

MOST = 64
SHOWN = {"rtol": 1e-6, "atol": 1e-8}
"""Nine digits are carried; sums and exponentials of some tens of them are taken."""


@dataclass(frozen=True)
class Head:
    """One causal head: all of it, and which part is on the page.

    Attributes:
        scores: [T, T], hidden pairs too.
        weights: [T, T], 0 where hidden.
        norms: [T].
        start, stop: the part.
    """

    scores: np.ndarray
    weights: np.ndarray
    norms: np.ndarray
    start: int
    stop: int

    @property
    def here(self) -> slice:
        return slice(self.start, self.stop)

    def named(self, row: int, most: int) -> list[int]:
        """The keys of the part that take most of a row, in the order of the text."""
        order = np.argsort(-self.weights[row, self.start : row + 1], kind="stable")[:most]
        return sorted(int(one) + self.start for one in order)

    def rest(self, row: int, named: list[int]) -> list[int]:
        """The other keys of the part that a row sees."""
        return [key for key in range(self.start, row + 1) if key not in named]

    def outside(self, row: int) -> list[float]:
        """The joint score of what a row sees before the part, if it sees some."""
        return [float(np.logaddexp.reduce(self.scores[row, : self.start]))] if self.start else []

    def parts(self, row: int, named: list[int]) -> np.ndarray:
        """The scores that a rule is applied to: named, rest, outside."""
        keys = [*named, *self.rest(row, named)]
        return np.array([*self.scores[row, keys], *self.outside(row)])


def head_of(trace: Trace, layer: int, head: int, start: int = 0) -> Head:
    """A head from the queries and keys of its trace."""
    record = trace.layer(layer)
    group = head * record.info.kv_heads // record.info.query_heads
    q, k = (record.array(name).astype(np.float64) for name in ("q", "k"))
    scores = record.info.scale * q[head] @ k[group].T
    raised = np.where(np.tri(len(scores), dtype=bool), np.exp(scores - scores.max()), 0)
    norms = record.norms(head)
    assert norms is not None
    weights = raised / raised.sum(1, keepdims=True)
    return Head(scores, weights, norms.astype(float), start, min(start + MOST, len(scores)))


@dataclass(frozen=True)
class Placed:
    """A head whose tokens may stand anywhere.

    Attributes:
        rope: the positions of the model's config.
        q, k: before positions, float64 [T, D].
    """

    rope: Rope
    q: torch.Tensor
    k: torch.Tensor
    scale: float

    def scores(self, row: int, at: int, keys: Sequence[int], places: Sequence[int]) -> np.ndarray:
        """A row's query, put at a place, with keys at places of their own."""
        asks = self.rope(self.q[None, [row]], torch.tensor([at]))[0, 0]
        turned = self.rope(self.k[None, list(keys)], torch.tensor(list(places)))[0]
        return self.scale * (turned @ asks).numpy()

    def untold(self, row: int, keys: Sequence[int]) -> np.ndarray:
        """The same where no position was told."""
        return self.scale * (self.k[list(keys)] @ self.q[row]).numpy()


def placed_of(
    trace: Trace, folder: Path, layer: int, head: int, *, interleaved: bool = False
) -> Placed:
    """A head's queries and keys, turned back as the model's config says."""
    record = trace.layer(layer)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    types = config.get("layer_types")
    split = "full_attention" in config.get("rope_parameters", {})
    rope = Rope.from_config(
        config, layer_type=types[layer] if types and split else None, interleaved=interleaved
    )
    group = head * record.info.kv_heads // record.info.query_heads
    places = torch.arange(record.keys)
    q, k = (
        rope.back(torch.from_numpy(record.array(name)[at].astype(np.float64))[None], places)[0]
        for name, at in (("q", head), ("k", group))
    )
    return Placed(rope, q, k, record.info.scale)


def embeddings_of(trace: Trace, folder: Path) -> np.ndarray:
    """The rows of the model's table of embeddings that the text's tokens look up, [T, C]."""
    tables = [
        table
        for file in folder.glob("*.safetensors")
        for name, table in load_file(file).items()
        if name.endswith("embed_tokens.weight")
    ]
    [table] = tables
    found: np.ndarray = table[[token.id for token in trace.tokens]].astype(np.float64)
    return found


def cosines_of(vectors: np.ndarray) -> np.ndarray:
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found: np.ndarray = units @ units.T
    return found


def nearest(line: np.ndarray, row: int) -> list[int]:
    """A token and the seven of the largest cosines by size, in the order of the text."""
    others = [at for at in np.argsort(-np.abs(line), kind="stable") if at != row][:7]
    return sorted([row, *map(int, others)])


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max())
    found: np.ndarray = raised / raised.sum()
    return found


def gathered(values: np.ndarray, named: int) -> np.ndarray:
    """Values one by one, and what the others come to."""
    if len(values) == named:
        return values
    return np.array([*values[:named], values[named:].sum()])
