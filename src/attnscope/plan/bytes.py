"""Sums over layers: what a cache weighs at a length, and how it grows.

The idea: a cache is a sum of stores, so its size is a piecewise linear function of the length, with
a corner at every window; the answer gives the function's pieces and its value at one length.

Units: bytes.

Not here: what a layer keeps (kinds.py), the inverse (fit.py), engines' rounding (engines/).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

from attnscope.plan.model import Answer, Layer, Model, Store
from attnscope.plan.numbers import PUBLISHED, Format, find_format, model_format

LARGEST: Final = 10**12
"""No context, batch or count in the planner is above this: what is larger is a slip of the keys."""


def whole(value: object, name: str) -> int:
    """`value` as a count of at least 1.

    Raises:
        ValueError: for anything else, in a sentence with the argument's name.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise ValueError(f"{name} must be a whole number from 1 to {LARGEST:,}, got {value!r}.")
    return value


def formats(model: Model, dtype: str | None, kv_dtype: str | None) -> tuple[Format, Format]:
    """The formats of the cache and of the activations, by the rule in `Model.kv`."""
    plain = model_format(dtype if dtype is not None else model.dtype)
    return (find_format(kv_dtype) if kv_dtype is not None else plain), plain


def as_asked(model: Model, kv_dtype: str | None) -> tuple[Layer, ...]:
    """The layers, with published layouts replaced by the format asked for, if one is."""
    published = (s.number in PUBLISHED for layer in model.layers for s in layer.stores)
    if kv_dtype is None or not any(published):
        return model.layers
    layers = []
    for layer in model.layers:
        stores = tuple(
            replace(store, number="cache") if store.number in PUBLISHED else store
            for store in layer.stores
        )
        layers.append(replace(layer, stores=stores))
    return tuple(layers)


def sequence_bytes(
    model: Model, tokens: int, *, dtype: str | None = None, kv_dtype: str | None = None
) -> int:
    """Bytes of one sequence's cache after `tokens` tokens (0 allowed)."""
    cache, plain = formats(model, dtype, kv_dtype)
    return sum(layer.bytes_at(tokens, cache, plain) for layer in as_asked(model, kv_dtype))


def bytes_by_length(
    model: Model, *, dtype: str | None = None, kv_dtype: str | None = None
) -> Callable[[int], int]:
    """`sequence_bytes` as a function of the length alone, for whoever asks many lengths: stores
    that grow alike are one.

    >>> from attnscope.plan import read
    >>> list(map(bytes_by_length(read("llama-3-8b")), (1, 1000)))
    [131072, 131072000]
    """
    cache, plain = formats(model, dtype, kv_dtype)
    alike: dict[tuple[str, int], tuple[Store, int]] = {}
    for layer in as_asked(model, kv_dtype):
        for store in layer.stores:
            key = (store.growth, store.span)
            before = alike[key][1] if key in alike else 0
            alike[key] = (store, before + store.entry_bytes(cache, plain))
    summed = list(alike.values())
    return lambda tokens: sum(store.entries(tokens) * size for store, size in summed)


def answer(
    model: Model,
    *,
    context: int,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> Answer:
    """The answer of `Model.kv`."""
    whole(context, "context")
    whole(batch, "batch")
    cache, plain = formats(model, dtype, kv_dtype)
    layers = as_asked(model, kv_dtype)
    parts = tuple(layer.split(cache, plain) for layer in layers)
    one = sum(layer.bytes_at(context, cache, plain) for layer in layers)
    return Answer(
        context=context,
        batch=batch,
        dtype=plain.name,
        kv_dtype=cache.name if kv_dtype is not None else _native(model, cache),
        per_token_bytes=_sum([p.per_token_bytes for p in parts]),
        per_token_bytes_within_window=_sum([p.per_token_bytes_within_window for p in parts]),
        capped_bytes=sum(p.capped_bytes for p in parts),
        fixed_bytes=sum(p.fixed_bytes for p in parts),
        sequence_bytes=one,
        total_bytes=one * batch,
        layers=parts,
    )


def _sum(values: list[Fraction]) -> Fraction:
    """A sum of many fractions with few denominators: adding fractions one by one is slow."""
    numerators: dict[int, int] = {}
    for one in values:
        numerators[one.denominator] = numerators.get(one.denominator, 0) + one.numerator
    return sum((Fraction(top, below) for below, top in numerators.items()), Fraction(0))


def _native(model: Model, cache: Format) -> str:
    """The cache's format by name, and the published layouts beside it."""
    numbers = {store.number for layer in model.layers for store in layer.stores}
    return " + ".join([cache.name, *sorted(numbers & PUBLISHED.keys())])
