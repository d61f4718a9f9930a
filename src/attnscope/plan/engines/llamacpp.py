"""What llama.cpp allocates. Describes: b11549, as its log has it (xllamacpp 2026.10.11549).

The idea: a cache is a number of cells, padded to 256; each slot has cells of its own unless they
are unified. Sliding layers have a cache of their own with cells for the window and one micro-batch;
in files of some architectures the window is not read, and every layer keeps every token. States
are float32, one for each slot. An MLA file keeps keys alone (the latent is key and value).

Formulas (n sequences, micro-batch u, window W, pad(x) up to a multiple of 256)
    cells      pad(T) for each of n streams; unified: pad(n T) in one
    sliding    pad(min(cells, W * (n where unified) + u)); all cells with swa_full; chunks: W = 8192
    layer      cells * streams * (row of keys + row of values); MLA: 576 and no values
               without flash attention, every layer's values are as wide as the widest layer's
    indexer    a second cache of keys of the indexer's width, as many cells
    states     n * (K - 1) * channels and n * state, both float32

Units: bytes.

Not here: buffers of computation; layers for drafting; how a GGUF's keys are read (gguf_model.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attnscope.plan.bytes import formats
from attnscope.plan.engines.allocation import Allocation
from attnscope.plan.model import Layer, Model, Store

VERSION: Final = "llama.cpp b11549"
PAD: Final = 256
ROWS: Final = {"fp32": (1, 4), "fp16": (1, 2), "bf16": (1, 2), "int8": (32, 34), "int4": (32, 18)}
"""Numbers in a block and its bytes: f32, f16, bf16, q8_0, q4_0."""
CHUNK: Final = 8192
"""Tokens of a chunk of Llama 4's layers, whatever the file says."""

WINDOWED: Final = frozenset((
    "afmoe", "cohere2", "cohere2_moe", "cohere2moe", "exaone4", "exaone_moe", "exaone-moe",
    "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text",
    "gpt_oss", "gpt-oss", "granite_swa", "laguna", "llama4", "llama4_text", "mellum", "mimo2",
    "mimo_v2_flash", "olmo2", "olmo3", "smallthinker", "step35",
))  # fmt: skip
"""Architectures, by the config's name and by the file's, whose layers slide in llama.cpp too."""

UNWINDOWED: Final = frozenset((
    "mistral", "mixtral", "phi3", "phimoe", "starcoder2", "qwen2", "qwen2_moe", "qwen2_vl_text",
    "qwen2_5_vl_text", "qwen3", "qwen3_moe", "dots1",
))  # fmt: skip
"""Architectures whose windows llama.cpp does not read: their layers keep every token."""

DESCRIBED: Final = frozenset((
    "full", "sliding", "chunked", "shared", "mla", "mla-expanded", "mla-indexer",
    "mla-shared-indexer", "gated-deltanet", "kda", "mamba", "mamba2", "conv", "full+mamba2", "mlp",
))  # fmt: skip
"""Kinds of layers that were run."""


@dataclass(frozen=True)
class Options:
    """llama.cpp's settings that matter here; `swa_full` is off in its programs, on in its C API."""

    micro_batch: int = 512
    unified: bool = False
    swa_full: bool = False
    flash_attention: bool = True


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


def window_of(model: Model, layer: Layer) -> int | None:
    """The window that llama.cpp keeps of a layer, None where it keeps every token.

    Raises:
        NotImplementedError: an architecture of which it is not known whether its window is read.
    """
    if layer.window is None or model.architecture in UNWINDOWED:
        return None
    if model.architecture not in WINDOWED:
        raise NotImplementedError(
            f"whether llama.cpp reads the window of {model.architecture} is not described here"
        )
    return CHUNK if layer.kind == "chunked" else layer.window


def _fixed_bytes(store: Store, sequences: int) -> dict[str, int]:
    """A state, or a convolution's taps but the newest, of every slot in float32."""
    if store.name == "convolution":
        return {"convolution": sequences * store.vectors * max(store.width - 1, 1) * 4}
    return {"state": sequences * store.vectors * store.width * 4}


def layer_bytes(
    model: Model, layer: Layer, cells: Cells, *, sequences: int, name: str, options: Options
) -> dict[str, int]:
    """Bytes of one layer, by buffer."""
    found: dict[str, int] = {}
    window = window_of(model, layer)
    key, count = "full", cells.full
    if window is not None:
        key, count = "sliding", cells.sliding(window, sequences, options)
    for store in layer.stores:
        if store.growth == "fixed":
            sizes = _fixed_bytes(store, sequences)
        elif store.name.startswith("indexer"):
            sizes = {"indexer": row_bytes(store.width, name) * cells.full * cells.streams}
        else:
            numbers = store.vectors * store.width
            if store.name == "values" and not options.flash_attention:
                numbers = widest_values(model)
            sizes = {key: row_bytes(numbers, name) * count * cells.streams}
        for part, size in sizes.items():
            found[part] = found.get(part, 0) + size
    return found


def widest_values(model: Model) -> int:
    """Numbers in the widest layer's row of values."""
    return max(
        store.vectors * store.width
        for layer in model.layers
        for store in layer.stores
        if store.name == "values"
    )


def buffers(
    model: Model, *, context: int, batch: int, name: str, options: Options
) -> dict[str, int]:
    """Bytes of each of llama.cpp's buffers: full, sliding, indexer, convolution, state.

    Raises:
        NotImplementedError: kinds of layers, a window or a format that are not described here.
    """
    strange = sorted({layer.kind for layer in model.layers} - DESCRIBED)
    if strange:
        raise NotImplementedError(
            f"llama.cpp's layout of {', '.join(strange)} layers is not described here"
        )
    cells = cells_of(context, batch, options)
    total: dict[str, int] = {}
    for layer in model.layers:
        for key, size in layer_bytes(
            model, layer, cells, sequences=batch, name=name, options=options
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
        options: micro-batch, unified cells, full sliding caches, flash attention; by default as in
            its programs.
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
        window = max(window_of(model, layer) or 0 for layer in model.layers)
        text += f"; sliding {cells.sliding(window, batch, options):,} cells"
    if "state" in parts or "convolution" in parts:
        text += f"; float32 states of {batch} slot{'s' * (batch > 1)}"
    return Allocation("llama.cpp", VERSION, sum(parts.values()), text, tuple(parts.items()))
