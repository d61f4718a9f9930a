"""One function per kind of layer: from its sizes to the stores it keeps.

The idea: whatever a config calls its fields, a full layer keeps keys and values, an MLA layer one
latent and one rotary key, a recurrence a state and the taps of its convolutions. The readers find
the sizes; what follows from them is written down here, once.

Formulas (numbers kept by one layer)
    full, sliding, chunked   G * D + G * E per token           (G KV heads; widths D and E)
    mla                      R + rope per token                (R rank of the latent)
    mla-expanded             H * (nope + rope) + H * v per token
    indexer                  D_index per token
    gated-deltanet           state H_v * D_k * D_v in float32, taps (2 H_k D_k + H_v D_v) * K
    kda                      state H * D_k * D_v in float32, taps (2 H D_k + H D_v) * K
    mamba                    state C_inner * N, taps C_inner * K
    mamba2                   state H * D * N, taps (H D + 2 groups N) * K
    linear                   state H * D * D

FLOPs of a recurrence, per token and head (one multiply-add is 2): decay 1, reading the state with
the key 2, the outer product 2, reading it with the query 2, each times D_k * D_v.

Here K taps of a convolution are kept, as transformers does; engines that keep K - 1 say so.

Not here: field names (read.py and its neighbours).
"""

from __future__ import annotations

from dataclasses import replace

from attnscope.plan.model import Growth, Heads, Indexer, Latent, Layer, Store


def attention(
    index: int,
    heads: Heads,
    *,
    window: int | None = None,
    chunked: bool = False,
    source: str = "",
    note: str = "",
) -> Layer:
    """Ordinary attention: MHA, GQA and MQA are the same but for the number of KV heads."""
    growth: Growth = "token" if window is None else "window"
    span = window or 0
    stores = (
        Store("keys", heads.kv, heads.qk, growth, span, source=source),
        Store("values", heads.kv, heads.v, growth, span, source=source),
    )
    kind = "full" if window is None else "chunked" if chunked else "sliding"
    return Layer(index, kind, stores, heads, window, note=note)


def latent(
    index: int,
    query_heads: int,
    sizes: Latent,
    *,
    expanded: bool = False,
    window: int | None = None,
    source: str = "",
) -> Layer:
    """MLA, as latents (what it was made for) or with keys and values kept per head."""
    heads = Heads(query_heads, query_heads, sizes.nope + sizes.rope, sizes.v)
    growth: Growth = "token" if window is None else "window"
    span = window or 0
    if expanded:
        plain = attention(index, heads, window=window, source=source)
        return replace(plain, kind="mla-expanded", latent=sizes)
    stores = (
        Store("latent", 1, sizes.rank, growth, span, source=source),
        Store("rotary key", 1, sizes.rope, growth, span, source=source),
    )
    return Layer(index, "mla", stores, heads, window, sizes)


def with_indexer(layer: Layer, indexer: Indexer, *, source: str = "") -> Layer:
    """The same layer with an indexer of its own, or with the selection of an earlier one."""
    base = "mla" if layer.kind.startswith("mla") else "full"
    if not indexer.own:
        return replace(layer, kind=f"{base}-shared-indexer", indexer=indexer)
    keys = Store("indexer keys", 1, indexer.width, source=source)
    return replace(layer, kind=f"{base}-indexer", indexer=indexer, stores=(*layer.stores, keys))


def shared(layer: Layer, owner: int | None, *, note: str = "") -> Layer:
    """A layer that reads the keys and values of layer `owner` and keeps nothing."""
    return replace(layer, kind="shared", stores=(), held=None, shares=owner, note=note)


def mlp(index: int, note: str = "") -> Layer:
    """A layer without attention."""
    return Layer(index, "mlp", note=note)


def state_store(vectors: int, width: int, *, number: str = "fp32", source: str = "") -> Store:
    """A state of fixed size."""
    return Store("state", vectors, width, "fixed", number=number, source=source)


def taps_store(channels: int, taps: int, *, number: str = "model", source: str = "") -> Store:
    """The inputs a convolution needs again."""
    return Store("convolution", channels, taps, "fixed", number=number, source=source)


def delta(
    index: int,
    kind: str,
    *,
    key_heads: int,
    value_heads: int,
    key_width: int,
    value_width: int,
    taps: int,
    source: str = "",
) -> Layer:
    """Gated DeltaNet and Kimi Delta Attention."""
    channels = 2 * key_heads * key_width + value_heads * value_width
    stores = (
        state_store(value_heads * key_width, value_width, source=source),
        taps_store(channels, taps, source=source),
    )
    flops = 7 * value_heads * key_width * value_width + 2 * channels * taps
    formula = (
        f"7 x {value_heads} x {key_width} x {value_width} (decay 1, read with the key 2, outer "
        f"product 2, read with the query 2) + 2 x {channels} x {taps} (convolution)"
    )
    return Layer(index, kind, stores, state_flops=flops, state_formula=formula)


def mamba(
    index: int, *, inner: int, states: int, taps: int, number: str = "fp32", source: str = ""
) -> Layer:
    """Mamba 1: a state of `states` numbers for each of `inner` channels."""
    stores = (
        state_store(inner, states, number=number, source=source),
        taps_store(inner, taps, source=source),
    )
    flops = 6 * inner * states + 2 * inner * taps
    formula = (
        f"6 x {inner} x {states} (decay 2, input 2, read 2) + 2 x {inner} x {taps} (convolution)"
    )
    return Layer(index, "mamba", stores, state_flops=flops, state_formula=formula)


def mamba2(
    index: int,
    *,
    heads: int,
    head_width: int,
    states: int,
    groups: int,
    taps: int,
    number: str = "fp32",
    source: str = "",
) -> Layer:
    """Mamba 2: a state of head_width x states for each head; groups share B and C."""
    channels = heads * head_width + 2 * groups * states
    stores = (
        state_store(heads * head_width, states, number=number, source=source),
        taps_store(channels, taps, source=source),
    )
    flops = 5 * heads * head_width * states + 2 * channels * taps
    formula = (
        f"5 x {heads} x {head_width} x {states} (decay 1, outer product 2, read 2) + "
        f"2 x {channels} x {taps} (convolution)"
    )
    return Layer(index, "mamba2", stores, state_flops=flops, state_formula=formula)


def linear(
    index: int,
    *,
    heads: int,
    key_width: int,
    value_width: int,
    number: str = "fp32",
    source: str = "",
) -> Layer:
    """Linear (lightning) attention: a matrix per head, no convolution."""
    stores = (state_store(heads * key_width, value_width, number=number, source=source),)
    flops = 5 * heads * key_width * value_width
    formula = f"5 x {heads} x {key_width} x {value_width} (decay 1, outer product 2, read 2)"
    return Layer(index, "linear", stores, state_flops=flops, state_formula=formula)


def convolution(
    index: int, *, channels: int, taps: int, number: str = "model", source: str = ""
) -> Layer:
    """A short convolution in place of attention."""
    stores = (taps_store(channels, taps, number=number, source=source),)
    return Layer(
        index,
        "conv",
        stores,
        state_flops=2 * channels * taps,
        state_formula=f"2 x {channels} x {taps}",
    )


def together(kind: str, first: Layer, second: Layer) -> Layer:
    """Two mixers side by side in one layer: what both keep, what both cost."""
    held = None
    if first.held is not None or second.held is not None:
        held = (*(first.held or first.stores), *(second.held or second.stores))
    return replace(
        first,
        kind=kind,
        stores=(*first.stores, *second.stores),
        held=held,
        state_flops=first.state_flops + second.state_flops,
        state_formula=first.state_formula or second.state_formula,
    )


def compressed(
    index: int,
    *,
    query_heads: int,
    width: int,
    window: int,
    ratio: int,
    indexer: Indexer | None,
    source: str = "",
    number: str = "cache",
    index_number: str = "cache",
    owner: int | None = None,
) -> Layer:
    """Compressed sparse attention: K = V, a window of raw tokens, and one entry per `ratio`.

    With an indexer it is DeepSeek-V4's CSA, whose entries overlap by one group; without one, HCA.
    A layer with an `owner` reads that layer's entries and keeps only its window.

    What transformers holds besides: tokens that wait for their entry, with their gates, and for
    overlapping entries the last whole group of both.
    """
    heads = Heads(query_heads, 1, width, width)
    stores = [Store("window K=V", 1, width, "window", window, source=source)]
    if owner is not None:
        return Layer(
            index, "compressed-shared", tuple(stores), heads, window, None, indexer, ratio,
            shares=owner,
        )  # fmt: skip
    overlap = 2 if indexer is not None else 1
    extra: list[Store] = []
    parts = [("entries", width, number)]
    if indexer is not None:
        parts.append(("indexer entries", indexer.width, index_number))
    for name, size, form in parts:
        stores.append(Store(name, 1, size, "compressed", ratio, form, source))
        extra.append(Store(f"{name}: waiting, with gates", 2, overlap * size, "rest", ratio))
        if overlap == 2:
            extra.append(Store(f"{name}: overlap", ratio, size, "closed", ratio))
            extra.append(Store(f"{name}: overlap's gates", ratio, size, "closed", ratio, "fp32"))
    return Layer(
        index,
        "compressed" if indexer is not None else "heavily-compressed",
        tuple(stores),
        heads,
        window,
        None,
        indexer,
        ratio,
        held=(*stores, *extra),
    )
