"""What a cache of transformers holds. Describes: transformers 5.24, measured.

The idea: each layer grows by concatenation, so a full layer holds exactly its tokens. A sliding or
chunked layer keeps W - 1 of them (the present token makes W). Linear layers keep K taps of a
convolution, and a float32 state. A prefill longer than the window leaves the sliding layers as
views of the whole prefill until the next step, so the peak is above what is held. `DynamicCache`
keeps what the model computes; in fewer bits there is `QuantizedCache`, for full layers alone.

Formulas
    held(T)     full: T; sliding: min(T, W - 1); states once
    storage(T)  sliding: T right after a prefill of T tokens, min(T, W - 1) after one more step

Units: bytes.

Not here: StaticCache, offloading, the tokens that QuantizedCache keeps as they are until 128 wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from attnscope.plan.bytes import formats
from attnscope.plan.engines.allocation import Allocation
from attnscope.plan.fields import library_defaults
from attnscope.plan.model import Layer, Model, Store

VERSION: Final = "transformers 5.24"
QUANTISED: Final = frozenset(("fp8", "int8", "int4"))
QUANTISABLE: Final = frozenset(("full", "mla"))
"""Kinds of layers that `QuantizedCache` takes: those that the library calls full_attention."""
WAITING: Final = 127
"""Tokens that it may keep unquantised; fp8 has none of them."""


def held_stores(layer: Layer) -> tuple[Store, ...]:
    """The stores as transformers holds them: a window is one entry shorter.

    A window of 1 is none: the library cuts its tokens "from -(W - 1) on", so it keeps them all.
    """

    def held(store: Store) -> Store:
        if store.growth != "window":
            return store
        if store.span == 1:
            return replace(store, growth="token", span=0)
        return replace(store, span=store.span - 1)

    return tuple(map(held, layer.stores if layer.held is None else layer.held))


def layer_bytes(
    model: Model, tokens: int, *, dtype: str | None = None, kv_dtype: str | None = None
) -> list[int]:
    """Bytes of each layer's cache of one sequence, as transformers holds them."""
    cache, plain = formats(model, dtype, kv_dtype)
    return [
        sum(one.entries(tokens) * one.entry_bytes(cache, plain) for one in held_stores(layer))
        for layer in model.layers
    ]


def held_bytes(
    model: Model,
    tokens: int,
    *,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> int:
    """Bytes of every tensor in the cache after `tokens` tokens of `batch` sequences."""
    return batch * sum(layer_bytes(model, tokens, dtype=dtype, kv_dtype=kv_dtype))


def prefill_storage(
    model: Model,
    tokens: int,
    *,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> int:
    """Bytes of the storage behind the cache right after one prefill of `tokens` tokens.

    A sliding layer's tensors are then views of the last W - 1 of all `tokens`.
    """
    cache, plain = formats(model, dtype, kv_dtype)
    total = 0
    for layer in model.layers:
        for one in held_stores(layer):
            count = tokens if one.growth == "window" else one.entries(tokens)
            total += count * one.entry_bytes(cache, plain)
    return batch * total


def allocate(
    model: Model,
    *,
    context: int,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> Allocation:
    """What `DynamicCache` holds after `context` tokens, of the families that the library has."""
    read_from_config = model.source not in ("gguf", "what-if")
    if read_from_config and model.architecture not in library_defaults()["types"]:
        reason = f"{VERSION} has no model type {model.architecture} of its own"
        return Allocation("transformers", VERSION, None, reason)
    cache, plain = formats(model, dtype, kv_dtype)
    if cache.name in QUANTISED:
        return _quantised(model, context, batch=batch, dtype=dtype, name=cache.name)
    if cache.bits != plain.bits:
        reason = f"its cache is in the activations' {plain.name}, not in {cache.name}"
        return Allocation("transformers", VERSION, None, reason)
    held = held_bytes(model, context, batch=batch, dtype=dtype, kv_dtype=kv_dtype)
    peak = prefill_storage(model, context, batch=batch, dtype=dtype, kv_dtype=kv_dtype)
    formula = "full layers hold T tokens, sliding layers min(T, W - 1), states once"
    if peak != held:
        formula += f"; {peak:,} B of storage right after one prefill of all tokens"
    return Allocation("transformers", VERSION, held, formula, (("after prefill", peak),))


def _quantised(
    model: Model, context: int, *, batch: int, dtype: str | None, name: str
) -> Allocation:
    """What `QuantizedCache` holds right after a prefill, where it takes the model."""
    others = sorted({layer.kind for layer in model.layers} - QUANTISABLE)
    if others:
        reason = f"its QuantizedCache takes full layers alone, not {', '.join(others)}"
        return Allocation("transformers", VERSION, None, reason)
    held = held_bytes(model, context, batch=batch, dtype=dtype, kv_dtype=name)
    formula = f"full layers hold T tokens in {name}"
    if name != "fp8":
        formula += f" after a prefill; then up to {WAITING} more wait unquantised"
    return Allocation("transformers", VERSION, held, formula, (("after prefill", held),))
