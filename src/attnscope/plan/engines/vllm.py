"""What vLLM allocates. Describes: vLLM's v1 KV cache manager as of commit 001cabc1be16.

The idea: every layer has a spec with a page (bytes of one block of tokens). Layers of one sort form
groups that share a block table; with several sorts, all groups have equally many layers (padding
the last), and one block of a group takes `group_size` pages. A hybrid with states makes the block
so long that a page of attention holds a state, and pads the state to it.

Formulas (block b tokens, window W, at most m tokens batched, length T)
    full       ceil(T / b) blocks of  b * G * (D + E) * bytes
    int8       G * (D + E) + 8 G bytes a token: a float32 scale per token and head
    MLA        ceil(T / b) blocks of  b * 576 * bytes  (fp8 with an indexer: 656 B a token)
    indexer    b * 132 B beside it (128 in fp8 and a 4-byte scale)
    sliding    ceil(min(W - 1 + m, T) / b) + 1 blocks
    chunked    ceil(min(W + m, T) / b) blocks
    state      1 block (2 in mode "align", ceil(T / b) in mode "all"); K - 1 taps of a convolution
    request    group_size * page * sum of the groups' blocks
    longest    the largest T whose request is within what the pool has, by bisection

Units: bytes.

Not here: what is left of a device for the pool, parallelism over devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from attnscope.plan.bytes import LARGEST, formats
from attnscope.plan.engines.allocation import Allocation
from attnscope.plan.model import Layer, Model, Store
from attnscope.plan.numbers import Format

VERSION: Final = "vLLM at commit 001cabc1be16 (v1 cache manager)"
ALIGN: Final = 16
INDEX_TOKEN: Final = 132
FP8_DSA_TOKEN: Final = 656
MambaMode = Literal["none", "align", "all"]


@dataclass(frozen=True)
class Spec:
    """One layer's spec: its sort, and bytes of a token (of attention) or of the state."""

    sort: str
    token: int = 0
    state: int = 0
    window: int = 0


@dataclass(frozen=True)
class Options:
    """vLLM's settings that matter here."""

    block: int = 16
    batched: int = 8192
    hybrid: bool = True
    mamba_mode: MambaMode = "none"


def _state_bytes(store: Store, model: Format) -> int:
    """A state, or a convolution of which K - 1 taps are kept."""
    if store.name != "convolution":
        return store.entry_bytes(model, model)
    kept = Store(store.name, store.vectors, max(store.width - 1, 1), "fixed", number=store.number)
    return kept.entry_bytes(model, model)


def _int8_token(layer: Layer, stores: list[Store]) -> int:
    """int8 with a float32 scale for each token and head, of the keys and of the values."""
    if layer.latent is not None and layer.kind != "mla-expanded":
        raise NotImplementedError("vLLM keeps no MLA cache in int8")
    heads = stores[0].vectors
    return sum(s.vectors * s.width for s in stores) + 2 * heads * 4


def specs(layer: Layer, cache: Format, plain: Format) -> list[Spec]:
    """The specs of one layer (none of one that keeps nothing).

    Raises:
        NotImplementedError: a kind whose layout in vLLM is not described here.
    """
    if not layer.stores:
        return []
    if "compressed" in layer.kind or layer.kind in ("conv", "recurrent") or "+" in layer.kind:
        raise NotImplementedError(f"vLLM's layout of {layer.kind} layers is not described here")
    if layer.heads is None:
        return [Spec("state", state=sum(_state_bytes(s, plain) for s in layer.stores))]
    index = [s for s in layer.stores if s.name.startswith("indexer")]
    rest = [s for s in layer.stores if s not in index]
    token = sum(s.entry_bytes(cache, plain) for s in rest)
    if cache.name == "int8":
        token = _int8_token(layer, rest)
    if index and layer.latent is not None and cache.name == "fp8":
        token = FP8_DSA_TOKEN
    sort = {"sliding": "sliding", "chunked": "chunked"}.get(layer.kind, "full")
    if layer.window and sort == "full":
        sort = "sliding"
    found = [Spec(sort, token=token, window=layer.window or 0)]
    if index:
        found.append(Spec("full", token=INDEX_TOKEN))
    return found


def blocks_of(spec: Spec, tokens: int, block: int, options: Options) -> int:
    """Blocks of one request in a group of this sort."""
    if spec.sort == "state":
        return {"none": 1, "align": 2, "all": math.ceil(tokens / block)}[options.mamba_mode]
    if spec.sort == "sliding":
        return math.ceil(min(spec.window - 1 + options.batched, tokens) / block) + 1
    if spec.sort == "chunked":
        return math.ceil(min(spec.window + options.batched, tokens) / block)
    return math.ceil(tokens / block)


def request_bytes(layers: list[Spec], tokens: int, options: Options) -> tuple[int, str]:
    """Bytes of one request, and how they come about.

    Raises:
        NotImplementedError: pages that vLLM cannot bring to one size.
    """
    if not layers:
        return 0, "no layer keeps anything"
    sorts_there = {s.sort for s in layers}
    if not options.hybrid and "full" in sorts_there and "state" not in sorts_there:
        layers = [Spec("full", token=s.token) for s in layers]
    sorts: dict[Spec, int] = {}
    for spec in layers:
        sorts[spec] = sorts.get(spec, 0) + 1
    if len({(s.sort, s.window) for s in sorts}) == 1:
        return _uniform(sorts, tokens, options)
    block, page = options.block, 0
    attention = [s for s in sorts if s.sort != "state"]
    states = [s for s in sorts if s.sort == "state"]
    if states:
        if not attention or len({s.token for s in attention}) > 1:
            raise NotImplementedError("states beside attention of several widths")
        token = attention[0].token
        block = ALIGN * math.ceil(max(s.state for s in states) / (ALIGN * token))
        block = max(block, options.block)
        page = block * token
    own = {s: block for s in sorts}
    if not states:
        page = block * max(s.token for s in sorts)
        for spec in sorts:
            if page % (block * spec.token):
                raise NotImplementedError("pages of several sizes, none a multiple of the others")
            own[spec] = page // spec.token
    low, high = min(sorts.values()), max(sorts.values())
    size = high if high < 1.5 * low else low
    total, said = 0, []
    for spec, count in sorts.items():
        groups = math.ceil(count / size)
        blocks = blocks_of(spec, tokens, own[spec], options)
        total += groups * blocks
        said.append(f"{groups} group{'s' * (groups > 1)} of {spec.sort} x {blocks:,} blocks")
    text = f"{size} layers a group, page {page:,} B (block {block}): " + ", ".join(said)
    return size * page * total, text


def longest(
    model: Model,
    available: int,
    *,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    options: Options | None = None,
) -> int | None:
    """The longest request that a pool of `available` bytes holds; None where every one fits.

    Raises:
        NotImplementedError: a layout in vLLM that is not described here.

    >>> from attnscope.plan import read
    >>> longest(read("llama-3-8b"), 131_072 * 1000)
    992
    """
    cache, plain = formats(model, dtype, kv_dtype)
    layers = [one for layer in model.layers for one in specs(layer, cache, plain)]

    def fits(tokens: int) -> bool:
        return request_bytes(layers, tokens, options or Options())[0] <= available

    low, high = 0, LARGEST
    if fits(high):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _uniform(sorts: dict[Spec, int], tokens: int, options: Options) -> tuple[int, str]:
    """All layers of one sort: one group whose block holds a page of every layer."""
    spec = next(iter(sorts))
    blocks = blocks_of(spec, tokens, options.block, options)
    if spec.sort == "state":
        page = sum(one.state * count for one, count in sorts.items())
        return page * blocks, f"{blocks:,} x {page:,} B of states"
    page = options.block * sum(one.token * count for one, count in sorts.items())
    return page * blocks, f"{blocks:,} blocks of {options.block} tokens x {page:,} B"


def allocate(
    model: Model,
    *,
    context: int,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    options: Options | None = None,
) -> Allocation:
    """What `batch` requests of `context` tokens take in vLLM's pool.

    Args:
        options: block size, batched tokens, hybrid manager, mode of states; vLLM's defaults.
    """
    options = options or Options()
    cache, plain = formats(model, dtype, kv_dtype)
    if cache.name in ("int4", "fp32"):
        return Allocation("vllm", VERSION, None, f"vLLM keeps no cache in {cache.name}")
    try:
        layers = [one for layer in model.layers for one in specs(layer, cache, plain)]
        size, text = request_bytes(layers, context, options)
    except NotImplementedError as error:
        return Allocation("vllm", VERSION, None, str(error))
    text += f"; at most {options.batched:,} tokens batched"
    return Allocation("vllm", VERSION, size * batch, text, (("one request", size),))
