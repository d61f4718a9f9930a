"""The teaching world: five tokens whose attention can be followed by hand.

The idea: the sentence 小明 把 苹果 给了 小王 with six features a token and projections to width 4,
made by hand so that every step of attention shows on numbers with two digits. The row of 给了 has
to find who gives and what is given; one head cannot, the two halves of the same projections can.

Formula (x_i the row of token i in E)
    q_i = x_i W_Q    k_i = x_i W_K    v_i = x_i W_V
    s_ij = q_i . k_j / sqrt(d)    p_i = softmax(s_i over the j in sight)    o_i = sum_j p_ij v_j

    One head has d = 4. Head A reads columns 0 and 1 of all three, head B columns 2 and 3, d = 2.

Shapes: T = 5 tokens; E [T, 6]; W_Q, W_K, W_V [6, 4]; scores and weights [T, T], query row, key
column.

Dtypes: float64 unless asked for otherwise.

Not here: positions and biases (the world has none), the numbers made of it (figures/teaching.py).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]

PATH: Final = Path(__file__).parent / "data" / "teaching_world.json"
ENGLISH: Final[dict[str, str]] = {
    "小明": "Xiao Ming",
    "把": "ba",
    "苹果": "the apple",
    "给了": "gave",
    "小王": "Xiao Wang",
}
"""What the tokens are called in English; 把 marks what is given and has no word of its own."""


@dataclass(frozen=True, eq=False)
class World:
    """Tokens, their features, and the projections.

    Attributes:
        tokens: T names.
        features: what the columns of `embeddings` mean.
        embeddings: [T, C].
        w_q, w_k, w_v: [C, d_k].
        heads: into how many heads the columns are cut.
    """

    tokens: tuple[str, ...]
    features: tuple[str, ...]
    embeddings: Array
    w_q: Array
    w_k: Array
    w_v: Array
    heads: int

    @property
    def q(self) -> Array:
        """[T, d_k]."""
        return self.embeddings @ self.w_q

    @property
    def k(self) -> Array:
        """[T, d_k]."""
        return self.embeddings @ self.w_k

    @property
    def v(self) -> Array:
        """[T, d_k]."""
        return self.embeddings @ self.w_v

    def index(self, token: str) -> int:
        """The position of a token.

        Raises:
            ValueError: there is no such token.
        """
        if token not in self.tokens:
            raise ValueError(f"token: expected one of {', '.join(self.tokens)}, got {token!r}")
        return self.tokens.index(token)

    def columns(self, head: int | None = None) -> slice:
        """The columns that a head reads; all of them for None.

        Raises:
            ValueError: there is no such head.
        """
        width = self.w_q.shape[1]
        if head is None:
            return slice(0, width)
        if not 0 <= head < self.heads:
            raise ValueError(f"head: expected None or 0 to {self.heads - 1}, got {head}")
        part = width // self.heads
        return slice(head * part, (head + 1) * part)

    def scores(self, head: int | None = None) -> Array:
        """Scaled scores [T, T], nothing hidden."""
        columns = self.columns(head)
        q, k = self.q[:, columns], self.k[:, columns]
        return q @ k.T / np.sqrt(q.dtype.type(q.shape[1]))

    def weights(self, head: int | None = None, *, causal: bool = True) -> Array:
        """Attention weights [T, T]; with `causal`, keys after the query have exactly none.

        >>> load().weights()[0].tolist()
        [1.0, 0.0, 0.0, 0.0, 0.0]
        """
        scores = self.scores(head)
        if causal:
            scores = np.where(np.tri(len(self.tokens), dtype=bool), scores, -np.inf)
        return softmax(scores)

    def output(self, head: int | None = None, *, causal: bool = True) -> Array:
        """[T, width of the head]: the mixture of values that each token takes."""
        return self.weights(head, causal=causal) @ self.v[:, self.columns(head)]

    def astype(self, dtype: npt.DTypeLike) -> World:
        """The same world in another floating type."""
        kind = np.dtype(dtype)
        names = ("embeddings", "w_q", "w_k", "w_v")
        return replace(self, **{name: getattr(self, name).astype(kind) for name in names})


def softmax(scores: npt.ArrayLike) -> Array:
    """exp s / sum exp s over the last axis, of scores of which at least one is finite.

    >>> softmax([0.0, 0.0, -np.inf]).tolist()
    [0.5, 0.5, 0.0]
    """
    s = np.asarray(scores)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def cosine(a: Array, b: Array) -> float:
    """The cosine of the angle between two vectors.

    >>> cosine(np.array([1.0, 0.0]), np.array([0.0, 2.0]))
    0.0
    """
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def from_json(document: Mapping[str, Any]) -> World:
    """Read a world of this file's layout, for those who want to change one.

    Raises:
        ValueError: a field is missing, a matrix has another shape than the sizes say, or a number
            is not finite.

    >>> from_json(json.loads(PATH.read_text(encoding="utf-8"))).tokens[2]
    '苹果'
    """
    needed = ("tokens", "features", "d_model", "d_k", "n_heads", "E", "W_Q", "W_K", "W_V")
    missing = [name for name in needed if name not in document]
    if missing:
        raise ValueError(f"teaching world: the field {missing[0]} is missing")
    tokens, model, width = len(document["tokens"]), document["d_model"], document["d_k"]
    heads = document["n_heads"]
    if len(document["features"]) != model:
        raise ValueError(
            f"teaching world: expected d_model = {model} features, got {len(document['features'])}"
        )
    if heads < 1 or width % heads:
        raise ValueError(
            f"teaching world: d_k = {width} cannot be cut into n_heads = {heads} equal heads"
        )
    matrices = {}
    for name in ("E", "W_Q", "W_K", "W_V"):
        wanted = (tokens, model) if name == "E" else (model, width)
        try:
            matrices[name] = np.array(document[name], dtype=np.float64)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"teaching world: {name} is no matrix of numbers ({error})") from None
        if matrices[name].shape != wanted:
            raise ValueError(
                f"teaching world: expected {name} of shape {list(wanted)}, "
                f"got {list(matrices[name].shape)}"
            )
        if not np.isfinite(matrices[name]).all():
            raise ValueError(f"teaching world: {name} holds a number that is not finite")
    return World(
        tuple(document["tokens"]), tuple(document["features"]),
        matrices["E"], matrices["W_Q"], matrices["W_K"], matrices["W_V"], heads,
    )  # fmt: skip


@functools.cache
def load() -> World:
    """The world that comes with the package; its arrays cannot be written to."""
    world = from_json(json.loads(PATH.read_text(encoding="utf-8")))
    for array in (world.embeddings, world.w_q, world.w_k, world.w_v):
        array.flags.writeable = False
    return world
