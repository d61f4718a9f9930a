"""What llama.cpp allocates. Describes: b11434, measured; checked against llama-cpp-python 0.3.36.

The idea: a cache is a number of cells, padded to 256; each slot has cells of its own unless they
are unified. Sliding layers have a cache of their own with cells for the window and one micro-batch.
States are float32, one for each slot. An MLA file keeps keys alone (the latent is key and value).

Formulas (n sequences, micro-batch u, window W, pad(x) up to a multiple of 256)
    cells      pad(T) for each of n streams; unified: pad(n T) in one
    sliding    pad(min(cells, W * (n where unified) + u)); all cells with swa_full
    layer      cells * streams * (row of keys + row of values); MLA: 576 and no values
    indexer    a second cache of keys of the indexer's width, as many cells
    states     n * (K - 1) * channels and n * state, both float32

Units: bytes.

Not here: buffers of computation; how a GGUF's keys are read (gguf_model.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attnscope.plan.bytes import formats
from attnscope.plan.engines.allocation import Allocation
from attnscope.plan.model import Layer, Model

VERSION: Final = "llama.cpp b11434"
PAD: Final = 256
ROWS: Final = {"fp32": (1, 4), "fp16": (1, 2), "bf16": (1, 2), "int8": (32, 34), "int4": (32, 18)}
"""Numbers in a block and its bytes: f32, f16, bf16, q8_0, q4_0."""


@dataclass(frozen=True)
class Options:
    """llama.cpp's settings that matter here; `swa_full` is off in its programs, on in its C API."""

    micro_batch: int = 512
    unified: bool = False
    swa_full: bool = False


def pad(count: int) -> int:
    """Up to a multiple of 256.

    >>> pad(1000)
    1024
    """
    return -(-count // PAD) * PAD


def row_bytes(numbers: int, name: str) -> int:
    """Bytes of one row of a type.

    Raises:
        NotImplementedError: a type that llama.cpp's cache has not, or a row no multiple of a block.
    """
    if name not in ROWS:
        raise NotImplementedError(f"llama.cpp keeps no cache in {name}")
    block, size = ROWS[name]
    if numbers % block:
        raise NotImplementedError(f"a row of {numbers} numbers is no multiple of {block}")
    return numbers // block * size


@dataclass(frozen=True)
class Cells:
    """Cells of the cache and of the sliding cache, and how many streams there are of them."""

    full: int
    streams: int

    def sliding(self, window: int, sequences: int, options: Options) -> int:
        """Cells of a sliding layer."""
        if options.swa_full:
            return self.full
        wide = window * (sequences if options.unified else 1) + options.micro_batch
        return pad(min(self.full, wide))


def cells_of(tokens: int, sequences: int, options: Options) -> Cells:
    """Cells for `sequences` of `tokens` each."""
    if options.unified:
        return Cells(pad(tokens * sequences), 1)
    return Cells(pad(tokens), sequences)


def layer_bytes(
    layer: Layer, cells: Cells, *, sequences: int, name: str, options: Options
) -> dict[str, int]:
    """Bytes of one layer, by buffer.

    Raises:
        NotImplementedError: a kind whose layout is not described here.
    """
    found: dict[str, int] = {}
    if "compressed" in layer.kind or layer.kind == "recurrent":
        raise NotImplementedError(
            f"llama.cpp's layout of {layer.kind} layers is not described here"
        )
    for store in layer.stores:
        if store.growth == "fixed":
            taps = store.name == "convolution"
            width = max(store.width - 1, 1) if taps else store.width
            key = "convolution" if taps else "state"
            found[key] = found.get(key, 0) + sequences * store.vectors * width * 4
            continue
        count = cells.full
        key = "full"
        if store.name.startswith("indexer"):
            key = "indexer"
        elif store.growth == "window":
            count, key = cells.sliding(store.span, sequences, options), "sliding"
        size = row_bytes(store.vectors * store.width, name) * count * cells.streams
        found[key] = found.get(key, 0) + size
    return found


def buffers(
    model: Model, *, context: int, batch: int, name: str, options: Options
) -> dict[str, int]:
    """Bytes of each of llama.cpp's buffers: full, sliding, indexer, convolution, state."""
    cells = cells_of(context, batch, options)
    total: dict[str, int] = {}
    for layer in model.layers:
        for key, size in layer_bytes(
            layer, cells, sequences=batch, name=name, options=options
        ).items():
            total[key] = total.get(key, 0) + size
    return total


def allocate(
    model: Model,
    *,
    context: int,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    options: Options | None = None,
) -> Allocation:
    """What llama.cpp allocates for `batch` slots of `context` tokens each.

    Args:
        options: micro-batch, unified cells, full sliding caches; the defaults of its programs.
    """
    options = options or Options()
    cache, _ = formats(model, dtype, kv_dtype)
    try:
        parts = buffers(model, context=context, batch=batch, name=cache.name, options=options)
    except NotImplementedError as error:
        return Allocation("llama.cpp", VERSION, None, str(error))
    cells = cells_of(context, batch, options)
    text = f"{cells.full:,} cells x {cells.streams} stream{'s' * (cells.streams > 1)}"
    if "sliding" in parts:
        window = max(layer.window or 0 for layer in model.layers)
        text += f"; sliding {cells.sliding(window, batch, options):,} cells"
    if "state" in parts or "convolution" in parts:
        text += f"; float32 states of {batch} slot{'s' * (batch > 1)}"
    return Allocation("llama.cpp", VERSION, sum(parts.values()), text, tuple(parts.items()))
