"""What attention costs: FLOPs of a prefill and of one decode step, bytes read, intensity.

The idea: attention multiplies each query with the keys in its sight and weighs as many values, so
its cost is a count of (query, key) pairs times two widths. The count is exact (causal, windows,
top-k) or dense (every pair, as a kernel without block skipping and FLOP counters see it). One
multiply-add is 2 FLOPs; projections, softmax and MLPs are not attention and not counted.

Formulas (per layer; T tokens, n keys at a decode step, H query heads, widths D of q.k and E of v)
    prefill   2 H (D + E) * pairs(T)
    decode    2 H (D + E) * min(n, window or top-k)
    indexer   2 H_i D_i * (pairs it scans), apart
    MLA       expanded: D = nope + rope, E = v, and in decode 2 R H (nope + v) n more where the
              latents are expanded anew; absorbed: D = R + rope, E = R (R the latent's rank)

    pairs(T)  full T(T+1)/2; window w: w(w+1)/2 + (T-w) w past it; dense T^2

Units: FLOPs, bytes.

Source of the dense values: torch's FlopCounterMode agrees (tests/plan/test_flops.py).

Not here: devices' peaks (devices.py), time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnscope.plan.bytes import as_asked, formats, whole
from attnscope.plan.model import Layer, Model, Store

Variant = Literal["expanded", "absorbed"]


def causal_pairs(tokens: int, most: int | None = None) -> int:
    """Pairs of a causal map of `tokens` rows in which a row sees at most `most` keys.

    >>> causal_pairs(4), causal_pairs(4, 2)
    (10, 7)
    """
    if most is None or tokens <= most:
        return tokens * (tokens + 1) // 2
    return most * (most + 1) // 2 + (tokens - most) * most


def chunked_pairs(tokens: int, chunk: int) -> int:
    """Pairs where a row sees its own chunk only.

    >>> chunked_pairs(5, 2)
    7
    """
    return tokens // chunk * causal_pairs(chunk) + causal_pairs(tokens % chunk)


def entry_pairs(tokens: int, ratio: int, most: int | None = None) -> int:
    """Pairs of rows with entries of `ratio` tokens each, sum over i of min(floor(i / r), most).

    >>> entry_pairs(5, 2), sum(i // 2 for i in range(1, 6))
    (6, 6)
    >>> entry_pairs(9, 2, 3), sum(min(i // 2, 3) for i in range(1, 10))
    (18, 18)
    """
    if most is not None and tokens >= most * ratio:
        return entry_pairs(most * ratio - 1, ratio) + most * (tokens - most * ratio + 1)
    groups = tokens // ratio
    return ratio * groups * (groups - 1) // 2 + groups * (tokens - ratio * groups + 1)


def widths(layer: Layer, variant: Variant) -> tuple[int, int, int]:
    """H, D and E of a layer's scores in a variant of MLA (of no matter elsewhere)."""
    assert layer.heads is not None
    if layer.latent is not None and variant == "absorbed":
        return layer.heads.query, layer.latent.rank + layer.latent.rope, layer.latent.rank
    return layer.heads.query, layer.heads.qk, layer.heads.v


def _compressed(layer: Layer) -> bool:
    return "compressed" in layer.kind


def prefill_pairs(layer: Layer, tokens: int) -> int:
    """(query, key) pairs of an exact prefill."""
    topk = layer.indexer.topk if layer.indexer is not None else None
    if _compressed(layer):
        return causal_pairs(tokens, layer.window) + entry_pairs(tokens, layer.every, topk)
    if layer.kind == "chunked" and layer.window:
        return chunked_pairs(tokens, layer.window)
    most = layer.window
    if topk is not None:
        most = topk if most is None else min(most, topk)
    return causal_pairs(tokens, most)


def decode_keys(layer: Layer, keys: int) -> int:
    """Keys that one new query sees when `keys` are there, itself included."""
    topk = layer.indexer.topk if layer.indexer is not None else None
    if _compressed(layer):
        entries = keys // layer.every
        near = min(keys, layer.window or keys)
        return near + (entries if topk is None else min(entries, topk))
    if layer.kind == "chunked" and layer.window:
        return (keys - 1) % layer.window + 1
    seen = keys if layer.window is None else min(keys, layer.window)
    return seen if topk is None else min(seen, topk)


def dense_pairs(layer: Layer, tokens: int) -> int:
    """Every query with every key, as counted where no block is skipped."""
    return tokens * (tokens + (tokens // layer.every if _compressed(layer) else 0))


def indexer_flops(layer: Layer, pairs: int) -> int:
    """What an indexer's scan costs, for the layers that scan."""
    if layer.indexer is None or not layer.indexer.own:
        return 0
    return 2 * layer.indexer.heads * layer.indexer.width * pairs


@dataclass(frozen=True)
class Cost:
    """FLOPs and bytes of attention for one sequence at a length.

    Args:
        prefill: exact; `prefill_dense` every pair; both with MLA expanded.
        decode_step: one new token, `context` keys in sight; MLA in the variant named.
        decode_expanded, decode_reexpansion: the other way to decode MLA, and what expanding every
            latent anew adds to it; 0 without MLA.
        indexer_prefill, indexer_decode: the scan that picks the keys; 0 without one.
        recurrence_prefill, recurrence_decode: layers that keep a state.
        decode_bytes: bytes of the cache that one decode step reads.
    """

    context: int
    variant: Variant
    prefill: int
    prefill_dense: int
    decode_step: int
    decode_expanded: int
    decode_reexpansion: int
    indexer_prefill: int
    indexer_decode: int
    recurrence_prefill: int
    recurrence_decode: int
    decode_bytes: int

    @property
    def intensity(self) -> float:
        """FLOPs of a decode step for each byte of cache it reads."""
        flops = self.decode_step + self.indexer_decode + self.recurrence_decode
        return flops / self.decode_bytes if self.decode_bytes else 0.0


def cost(
    model: Model, *, context: int, dtype: str | None = None, kv_dtype: str | None = None
) -> Cost:
    """The cost of attention at `context` tokens.

    Args:
        context: tokens of the prefill, and keys in sight of the decode step.
        dtype, kv_dtype: as in `Model.kv`, for the bytes read.

    Raises:
        ValueError: a context below 1, or an unknown format.

    >>> from attnscope.plan import read
    >>> cost(read("llama-3-8b"), context=2048).prefill_dense
    2199023255552
    """
    whole(context, "context")
    totals = dict.fromkeys(Cost.__dataclass_fields__, 0)
    latent = any(layer.latent is not None and layer.heads for layer in model.layers)
    for layer in model.layers:
        totals["recurrence_prefill"] += layer.state_flops * context
        totals["recurrence_decode"] += layer.state_flops
        if layer.heads is None:
            continue
        heads, qk, v = widths(layer, "expanded")
        seen = decode_keys(layer, context)
        totals["prefill"] += 2 * heads * (qk + v) * prefill_pairs(layer, context)
        totals["prefill_dense"] += 2 * heads * (qk + v) * dense_pairs(layer, context)
        expanded = 2 * heads * (qk + v) * seen
        heads, qk, v = widths(layer, "absorbed")
        absorbed = 2 * heads * (qk + v) * seen
        totals["decode_step"] += expanded if layer.kind == "mla-expanded" else absorbed
        if layer.latent is not None:
            totals["decode_expanded"] += expanded
            rank, nope, value = layer.latent.rank, layer.latent.nope, layer.latent.v
            if layer.kind != "mla-expanded":
                held = context if layer.window is None else min(context, layer.window)
                totals["decode_reexpansion"] += 2 * rank * heads * (nope + value) * held
        scanned = context // layer.every if _compressed(layer) else context
        pairs = entry_pairs(context, layer.every) if _compressed(layer) else causal_pairs(context)
        totals["indexer_prefill"] += indexer_flops(layer, pairs)
        totals["indexer_decode"] += indexer_flops(layer, scanned)
    totals["context"] = context
    totals["decode_bytes"] = decode_bytes(model, context, dtype=dtype, kv_dtype=kv_dtype)
    kept = any(layer.latent is not None and layer.kind != "mla-expanded" for layer in model.layers)
    variant: Variant = "absorbed" if latent and kept else "expanded"
    return Cost(**{**totals, "variant": variant})  # type: ignore[arg-type]


def _read(store: Store, layer: Layer, keys: int) -> int:
    """Entries of a store that one decode step reads."""
    there = store.entries(keys)
    scanned = store.name.startswith("indexer")
    if scanned or layer.indexer is None or store.growth not in ("token", "compressed"):
        return there
    return min(there, layer.indexer.topk)


def decode_bytes(
    model: Model, keys: int, *, dtype: str | None = None, kv_dtype: str | None = None
) -> int:
    """Bytes of the cache that one decode step reads: a layer that shares reads its owner's again.

    A layer with an indexer reads every index key, and of its keys and values those that were
    picked.
    """
    cache, plain = formats(model, dtype, kv_dtype)
    layers = as_asked(model, kv_dtype)
    total = 0
    for layer in layers:
        stores = layer.stores
        if layer.shares is not None:
            own = layers[layer.shares].stores
            if layer.kind == "compressed-shared":
                # Its own window, and the owner's entries; index keys only where it picks anew.
                picks = layer.indexer is not None and layer.indexer.own
                shared = [s for s in own if s.growth == "compressed"]
                own = tuple(s for s in shared if picks or not s.name.startswith("indexer"))
            stores = (*stores, *own)
        total += sum(_read(s, layer, keys) * s.entry_bytes(cache, plain) for s in stores)
    return total
