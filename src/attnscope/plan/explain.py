"""Each number with the config's field and the formula behind it.

The idea: a store knows the fields its sizes came from and how it grows, so an explanation is read
off the same objects the sums are made of; layers that are alike are told once.

Not here: engines (they explain themselves in Allocation.formula).
"""

from __future__ import annotations

from dataclasses import dataclass

from attnscope.plan.bytes import as_asked, formats
from attnscope.plan.flops import decode_keys, prefill_pairs, widths
from attnscope.plan.model import KINDS, Layer, Model


@dataclass(frozen=True)
class Line:
    """One store of a group of like layers: what it is, its arithmetic, and its source."""

    layers: str
    kind: str
    store: str
    formula: str
    bytes_per_entry: int
    count: int
    source: str


def ranges(numbers: list[int]) -> str:
    """Layer numbers as a person writes them.

    >>> ranges([0, 1, 2, 4, 6, 7])
    '0-2, 4, 6-7'
    >>> ranges(list(range(3, 64, 4)))
    '3, 7, ..., 63 (16 layers)'
    """
    found: list[list[int]] = []
    for one in numbers:
        if found and one == found[-1][-1] + 1:
            found[-1].append(one)
        else:
            found.append([one])
    said = [f"{one[0]}-{one[-1]}" if len(one) > 1 else f"{one[0]}" for one in found]
    if len(said) > 4:
        return f"{said[0]}, {said[1]}, ..., {said[-1]} ({len(numbers)} layers)"
    return ", ".join(said)


def grouped(layers: tuple[Layer, ...]) -> list[tuple[Layer, list[int]]]:
    """Layers that keep the same, each with their numbers, in the order of the first."""
    found: dict[object, tuple[Layer, list[int]]] = {}
    for layer in layers:
        key = (layer.kind, layer.stores, layer.window)
        found.setdefault(key, (layer, []))[1].append(layer.index)
    return list(found.values())


def explain(model: Model, *, dtype: str | None = None, kv_dtype: str | None = None) -> list[Line]:
    """A line for each store of each sort of layer.

    >>> from attnscope.plan import read
    >>> explain(read("llama-3-8b"))[0].formula
    '8 x 128 in bf16 = 2,048 B per token'
    """
    cache, plain = formats(model, dtype, kv_dtype)
    lines = []
    for layer, numbers in grouped(as_asked(model, kv_dtype)):
        where = ranges(numbers)
        if not layer.stores:
            why = layer.note or KINDS.get(layer.kind, "")
            lines.append(Line(where, layer.kind, "nothing", why, 0, len(numbers), layer.note))
        for store in layer.stores:
            lines.append(
                Line(
                    where,
                    layer.kind,
                    store.name,
                    store.formula(cache, plain),
                    store.entry_bytes(cache, plain),
                    len(numbers),
                    store.source,
                )
            )
    return lines


@dataclass(frozen=True)
class CostLine:
    """The arithmetic of the FLOPs of a group of like layers."""

    layers: str
    kind: str
    what: str
    formula: str
    flops: int


def explain_cost(model: Model, *, context: int) -> list[CostLine]:
    """How the FLOPs of a prefill and of a decode step come about, for each sort of layer.

    >>> from attnscope.plan import read
    >>> explain_cost(read("llama-3-8b"), context=2049)[1].formula
    '32 layers x 2 x 32 heads x (128 + 128) x 2,049 keys'
    """
    found = []
    same: dict[object, tuple[Layer, list[int]]] = {}
    for layer in model.layers:
        key = (layer.kind, layer.heads, layer.window, layer.latent, layer.every, layer.state_flops)
        same.setdefault((key, layer.indexer), (layer, []))[1].append(layer.index)
    for layer, numbers in same.values():
        where, count = ranges(numbers), len(numbers)
        if layer.heads is not None:
            heads, qk, v = widths(layer, "expanded")
            pairs = prefill_pairs(layer, context)
            text = f"{count} layers x 2 x {heads} heads x ({qk} + {v}) x {pairs:,} pairs"
            total = count * 2 * heads * (qk + v) * pairs
            found.append(CostLine(where, layer.kind, "prefill, exact", text, total))
            absorbed = layer.latent is not None and layer.kind != "mla-expanded"
            heads, qk, v = widths(layer, "absorbed" if absorbed else "expanded")
            keys = decode_keys(layer, context)
            text = f"{count} layers x 2 x {heads} heads x ({qk} + {v}) x {keys:,} keys"
            what = "decode step, absorbed" if absorbed else "decode step"
            total = count * 2 * heads * (qk + v) * keys
            found.append(CostLine(where, layer.kind, what, text, total))
        if layer.state_flops:
            text = f"{count} layers x ({layer.state_formula}) a token"
            found.append(CostLine(where, layer.kind, "recurrence", text, count * layer.state_flops))
    return found
