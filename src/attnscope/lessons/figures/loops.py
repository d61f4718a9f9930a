"""Loops that really run and count what they do: a recurrence, decoding, forwards of prefixes.

The idea: "nine keys and values, five of them computed before" is not arithmetic here but what a
loop over the teaching world did, and the loop's outputs prove that it did the work.

Shapes: outputs [rows, E] of one head over the teaching world, one row per token that was asked for.

Not here: caches for real models (attnscope.caches), time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from attnscope.lessons.world import Array, World, softmax


@dataclass(frozen=True)
class Recurrence:
    """What a run of a recurrence counted.

    Attributes:
        steps: how often the state was computed from the one before.
        updates_of_first: how many of them changed a state that held the first token already.
        state: the last one.
    """

    steps: int
    updates_of_first: int
    state: Array


def recurrence(tokens: int, *, width: int = 4, seed: int = 7) -> Recurrence:
    """Run h_t = tanh(W x_t + U h_(t-1)) over random inputs, with the origin of what h holds.

    Args:
        tokens: T, at least 1.
        width: of inputs and state.

    >>> run = recurrence(5)
    >>> run.steps, run.updates_of_first
    (5, 4)
    """
    random = np.random.default_rng(seed)
    u, w = random.standard_normal((2, width, width)) / np.sqrt(width)
    inputs = random.standard_normal((tokens, width))
    state = np.zeros(width)
    steps = updates = 0
    held: set[int] = set()
    for at, x in enumerate(inputs):
        updates += 0 in held
        state = np.tanh(w @ x + u @ state)
        steps += 1
        if at == 0:  # whether a later token is in the state too is not asked
            held.add(at)
    return Recurrence(steps, updates, state)


@dataclass(frozen=True)
class Decoding:
    """What generating some tokens computed.

    Attributes:
        computed: how often the key and value of each position was computed.
        outputs: [generated, E], of the last row of every step.
    """

    computed: Counter[int]
    outputs: Array

    @property
    def total(self) -> int:
        """Keys and values that were computed, all told."""
        return self.computed.total()

    @property
    def again(self) -> int:
        """How many of them had been computed before."""
        return self.total - len(self.computed)


def decode(world: World, *, prompt: int, generated: int, cached: bool) -> Decoding:
    """Generate tokens one by one: a step sees the prompt and what was generated before it.

    The tokens themselves are the world's, in order; what matters is which keys and values a step
    has to compute to attend from its last row.

    Args:
        prompt: tokens there at the first step.
        generated: steps; the last generated token is never read.
        cached: whether a key and value, once computed, is kept.

    Raises:
        ValueError: more tokens than the world has, or less than one of either.
    """
    most = len(world.tokens)
    if prompt < 1 or generated < 1 or prompt + generated - 1 > most:
        raise ValueError(
            f"decode: expected prompt and generated of at least 1 that read at most {most} tokens, "
            f"got {prompt} and {generated}"
        )
    computed: Counter[int] = Counter()
    held: dict[int, tuple[Array, Array]] = {}
    rows = []
    for step in range(generated):
        if not cached:
            held.clear()
        sight = range(prompt + step)
        for position in sight:
            if position not in held:
                held[position] = _key_and_value(world, position)
                computed[position] += 1
        rows.append(_attend(world, sight[-1], [held[position] for position in sight]))
    return Decoding(computed, np.stack(rows))


def feed(prompt: int, generated: int, *, cached: bool) -> Counter[int]:
    """How often the key and value of each position are computed, for any sizes; no arithmetic.

    >>> feed(2, 3, cached=False).total(), feed(2, 3, cached=True).total()
    (9, 4)
    """
    if prompt < 1 or generated < 1:
        raise ValueError(
            f"feed: expected prompt and generated of at least 1, got {prompt} and {generated}"
        )
    computed: Counter[int] = Counter()
    for step in range(generated):
        sight = range(prompt + step)
        computed.update(range(len(computed), sight.stop) if cached else sight)
    return computed


@dataclass(frozen=True)
class Forwards:
    """What a number of forwards processed.

    Attributes:
        forwards: how many there were.
        positions: tokens that went through them, all told.
        rows: [forwards, E], the last row of each; of one masked forward every row.
    """

    forwards: int
    positions: int
    rows: Array


def one_by_one(world: World, lengths: range) -> Forwards:
    """A forward of its own for the prefix of each length, of which the last row is wanted."""
    forwards = positions = 0
    rows = []
    for length in lengths:
        held = []
        for position in range(length):
            held.append(_key_and_value(world, position))
            positions += 1
        rows.append(_attend(world, length - 1, held))
        forwards += 1
    return Forwards(forwards, positions, np.stack(rows))


def at_once(world: World) -> Forwards:
    """One forward over the whole sentence with a causal mask: every row is a prefix's last."""
    rows = world.output(causal=True)
    return Forwards(1, len(rows), rows)


def _key_and_value(world: World, position: int) -> tuple[Array, Array]:
    x = world.embeddings[position]
    return x @ world.w_k, x @ world.w_v


def _attend(world: World, position: int, held: list[tuple[Array, Array]]) -> Array:
    """The output of one row over the keys and values given."""
    q = world.embeddings[position] @ world.w_q
    keys, values = (np.stack(part) for part in zip(*held, strict=True))
    scale = q.dtype.type(1) / np.sqrt(q.dtype.type(q.shape[0]))
    return np.asarray(softmax(keys @ q * scale) @ values)
