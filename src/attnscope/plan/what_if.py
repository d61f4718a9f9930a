"""What if the same model kept its keys and values another way?

The idea: a layer of attention keeps its query heads and changes what it stores: all heads (MHA), a
few (GQA-n), one (MQA), or a latent (MLA). Or its window changes, or the share of full layers. Only
layers of attention change; states, MLPs and compressed layers stay as they are.

Not here: what such a model would be able to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from attnscope.plan import kinds
from attnscope.plan.bytes import LARGEST, answer, whole
from attnscope.plan.model import Heads, Latent, Layer, Model, Store

CHANGEABLE = ("full", "sliding", "chunked")
"""Kinds that a scheme changes, besides every sort of MLA and of indexed attention."""


def changeable(layer: Layer) -> bool:
    """Whether a scheme applies to the layer."""
    if layer.heads is None or layer.kind == "shared" or "+" in layer.kind:
        return False
    if any(store.name == "window K=V" for store in layer.stores):
        return False
    return layer.kind in CHANGEABLE or layer.kind.startswith(("mla", "full-"))


def _map(model: Model, scheme: str, change: Callable[[Layer], Layer]) -> Model:
    layers = tuple(change(one) if changeable(one) else one for one in model.layers)
    return replace(model, name=f"{model.name} as {scheme}", layers=layers, source="what-if")


def with_heads(model: Model, kv_heads: int | None) -> Model:
    """The model with `kv_heads` KV heads in every layer of attention; None for as many as queries.

    Raises:
        ValueError: a number that does not divide every layer's query heads.

    >>> from attnscope.plan import read
    >>> float(with_heads(read("qwen3.8-27b"), 1).kv(context=1).per_token_bytes)
    16384.0
    """
    if kv_heads is not None:
        whole(kv_heads, "kv_heads")
    scheme = "MHA" if kv_heads is None else "MQA" if kv_heads == 1 else f"GQA-{kv_heads}"

    def change(layer: Layer) -> Layer:
        assert layer.heads is not None
        queries = layer.heads.query
        count = queries if kv_heads is None else kv_heads
        if queries % count:
            raise ValueError(f"kv_heads must divide the {queries} query heads, got {count}.")
        heads = Heads(queries, count, layer.heads.qk, layer.heads.v)
        return kinds.attention(
            layer.index, heads, window=layer.window, chunked=layer.kind == "chunked"
        )

    return _map(model, scheme, change)


def with_latent(model: Model, rank: int = 512, rope: int = 64, *, expanded: bool = False) -> Model:
    """The model with MLA in every layer of attention.

    Args:
        rank, rope: numbers of the latent and of the rotary key.
        expanded: keep keys and values per head after all (of a model that has MLA already).
    """
    whole(rank, "rank")
    whole(rope, "rope")
    scheme = "MLA expanded" if expanded else f"MLA({rank}+{rope})"

    def change(layer: Layer) -> Layer:
        assert layer.heads is not None
        if expanded:
            if layer.latent is None:
                return layer
            return kinds.latent(layer.index, layer.heads.query, layer.latent, expanded=True,
                                window=layer.window)  # fmt: skip
        sizes = Latent(rank, rope, max(layer.heads.qk - rope, 0), layer.heads.v)
        return kinds.latent(layer.index, layer.heads.query, sizes, window=layer.window)

    return _map(model, scheme, change)


def with_window(model: Model, window: int) -> Model:
    """The model with another window in the layers that have one.

    Raises:
        ValueError: no layer has a window, or the window is no sensible number.
    """
    whole(window, "window")
    if not any(layer.window for layer in model.layers):
        raise ValueError(f"{model.name} has no sliding layer; give a share of full layers too.")

    def other(stores: tuple[Store, ...]) -> tuple[Store, ...]:
        return tuple(replace(one, span=window) if one.growth == "window" else one for one in stores)

    def change(layer: Layer) -> Layer:
        return replace(
            layer,
            window=window if layer.window else None,
            stores=other(layer.stores),
            held=None if layer.held is None else other(layer.held),
        )

    layers = tuple(change(one) for one in model.layers)
    return replace(model, name=f"{model.name}, window {window:,}", layers=layers, source="what-if")


def with_share(model: Model, full: int, of: int, *, window: int | None = None) -> Model:
    """The model with `full` full layers in each `of` layers of attention; the others slide.

    Args:
        window: of the sliding layers; the model's own where it has one.

    Raises:
        ValueError: a share above 1, or no window to slide with.
    """
    whole(of, "of")
    if not 0 <= full <= of:
        raise ValueError(f"full must be from 0 to {of}, got {full}.")
    own = {layer.window for layer in model.layers if layer.window}
    size = window or (max(own) if own else None)
    if size is None and full < of:
        raise ValueError(f"{model.name} has no window; give one for the layers that are to slide.")
    seen = 0

    def change(layer: Layer) -> Layer:
        nonlocal seen
        assert layer.heads is not None
        # Spread evenly, the last of each group full, as models with an interval have it.
        wanted = (seen + 1) * full // of > seen * full // of
        seen += 1
        span = None if wanted else size
        if layer.latent is not None:
            return kinds.latent(layer.index, layer.heads.query, layer.latent, window=span)
        return kinds.attention(layer.index, layer.heads, window=span)

    scheme = f"{full} full in {of}"
    return _map(model, scheme if window is None else f"{scheme}, window {window:,}", change)


def parse_share(share: str, argument: str = "share") -> tuple[int, int]:
    """So many full layers in so many.

    Args:
        argument: what the caller calls it, for the error.

    Raises:
        ValueError: no such pair, or more than all of them.

    >>> parse_share("1/4")
    (1, 4)
    """
    first, _, of = (part.strip() for part in share.partition("/"))
    plain = all(one.isascii() and one.isdecimal() and len(one) < 14 for one in (first, of))
    if not plain or not 1 <= int(of) <= LARGEST:
        raise ValueError(f"{argument} must look like 1/4, got {share!r}.")
    if int(first) > int(of):
        raise ValueError(f"{argument} must be from 0/{of} to {of}/{of}, got {share!r}.")
    return int(first), int(of)


def changed(
    model: Model,
    *,
    window: int | None = None,
    share: tuple[int, int] | None = None,
    names: tuple[str, str] = ("window", "share"),
) -> Model | None:
    """The model with another window, or another share of full layers, or both; None for neither.

    Args:
        names: what the caller calls the two, for the errors.

    Raises:
        ValueError: one of them says nothing of this model without the other.
    """
    slides = any(layer.window for layer in model.layers)
    if share is not None:
        full, of = share
        if full < of and window is None and not slides:
            raise ValueError(
                f"{names[1]} {full}/{of} needs {names[0]} too: no layer of {model.name} has a "
                f"window that the others could have. Give one, such as {names[0]} 4096."
            )
        return with_share(model, full, of, window=window)
    if window is None:
        return None
    if not slides:
        raise ValueError(
            f"{names[0]} {window} needs {names[1]} too: no layer of {model.name} slides. Say how "
            f"many are to stay full, such as {names[1]} 1/4."
        )
    return with_window(model, window)


@dataclass(frozen=True)
class Row:
    """One scheme beside the others."""

    scheme: str
    per_token_bytes: Fraction
    total_bytes: int
    model: Model


def _row(scheme: str, model: Model, **asked: object) -> Row:
    found = answer(model, **asked)  # type: ignore[arg-type]
    return Row(scheme, found.per_token_bytes, found.total_bytes, model)


def _queries(model: Model) -> set[int]:
    """The numbers of query heads of the layers that a scheme changes."""
    return {one.heads.query for one in model.layers if one.heads is not None and changeable(one)}


def left_out(model: Model, groups: tuple[int, ...]) -> list[int]:
    """The numbers of KV heads that do not divide the query heads of every layer.

    >>> from attnscope.plan import read
    >>> left_out(read("smollm2"), (3, 8))
    [8]
    """
    return [count for count in groups if any(one % count for one in _queries(model))]


def schemes(
    model: Model,
    *,
    context: int,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    groups: tuple[int, ...] = (8,),
    window: int | None = None,
    share: tuple[int, int] | None = None,
) -> list[Row]:
    """The model as it is, as MHA, GQA, MQA and MLA(512 + 64), and with what `changed` changes.

    Args:
        groups: the numbers of KV heads of GQA; `left_out` says which are no scheme of the model.
        window, share: see `changed`.
    """
    asked = {"context": context, "batch": batch, "dtype": dtype, "kv_dtype": kv_dtype}
    rows = [_row("as published", model, **asked), *_heads_rows(model, groups, **asked)]
    other = changed(model, window=window, share=share)
    return rows if other is None else [*rows, _row(other.name, other, **asked)]


def _heads_rows(model: Model, groups: tuple[int, ...], **asked: object) -> list[Row]:
    """The model with other heads, as far as it has layers that a scheme changes."""
    touched = [layer for layer in model.layers if changeable(layer)]
    if not touched:
        return []
    rows = []
    rows.append(_row("MHA", with_heads(model, None), **asked))
    unfit = left_out(model, groups)
    for count in groups:
        if count not in unfit and count > 1 and count not in _queries(model):
            rows.append(_row(f"GQA-{count}", with_heads(model, count), **asked))
    rows.append(_row("MQA", with_heads(model, 1), **asked))
    rows.append(_row("MLA(512+64)", with_latent(model), **asked))
    if any(layer.latent is not None for layer in touched):
        rows.append(_row("MLA expanded", with_latent(model, expanded=True), **asked))
    return rows
