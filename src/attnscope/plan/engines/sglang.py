"""What SGLang allocates. Describes: SGLang 0.5.23.

The idea: one pool of tokens, rounded to pages, with one page more for padding; a second, smaller
pool for sliding layers; slots for states, one more for padding.

Formulas (page p, T tokens of each of B requests)
    tokens     B * p * ceil(T / p)
    full       (tokens + p) * G * (D + E) * bytes for each full layer
    sliding    (p * floor(tokens * ratio / p) + p) * the same, ratio 0.8, at least what the
               windows of the requests need
    MLA        576 * bytes a token; fp8 with an indexer 656 B; the indexer 132 B for each own one
    states     (B + 1) * state; K - 1 taps of a convolution

and the other way round, from the bytes that there are (r = 0.9)
    tokens     floor(bytes / (full + ratio * sliding)), down to a page; sliding: ratio * tokens, too
    slots      floor((bytes * r / (1 + r) - state) / state), and one more for padding

Units: bytes.

Not here: what is left of a device for the pools.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from attnscope.plan.bytes import formats
from attnscope.plan.engines.allocation import Allocation
from attnscope.plan.engines.vllm import FP8_DSA_TOKEN, INDEX_TOKEN, Spec, specs
from attnscope.plan.model import Model

VERSION: Final = "SGLang 0.5.23"


@dataclass(frozen=True)
class Options:
    """SGLang's settings that matter here."""

    page: int = 1
    swa_ratio: float = 0.8


def pool_tokens(available: int, cell: int, page: int = 1) -> int:
    """Tokens in a pool of `available` bytes: floor(available / cell), down to a whole page.

    >>> pool_tokens(1000, 10, 64)
    64
    """
    return available // cell // page * page


def mixed_tokens(
    available: int, full: int, sliding: int, *, page: int = 1, ratio: float = 0.8
) -> tuple[int, int]:
    """Tokens of the full and of the sliding pool in `available` bytes.

    >>> mixed_tokens(1800, 10, 10)
    (100, 80)
    """
    tokens = math.floor(available / (full + ratio * sliding)) // page * page
    return tokens, math.floor(tokens * ratio / page) * page


def state_slots(available: int, state: int, *, share: float = 0.9) -> int:
    """Requests whose states SGLang makes room for, of `available` bytes in all.

    Args:
        share: bytes for states to bytes for keys and values.

    >>> state_slots(1900, 100)
    8
    """
    budget = math.floor(available * share / (1 + share))
    return max((budget - state) // state, 0)


def cells(layers: list[Spec]) -> tuple[int, int, int]:
    """Bytes of a token in the full pool and in the sliding pool, and of a request's states."""
    full = sum(s.token for s in layers if s.sort == "full")
    sliding = sum(s.token for s in layers if s.sort in ("sliding", "chunked"))
    return full, sliding, sum(s.state for s in layers)


def allocate(
    model: Model,
    *,
    context: int,
    batch: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    options: Options | None = None,
) -> Allocation:
    """What pools just large enough for `batch` requests of `context` tokens take.

    Args:
        options: page size and the ratio of the sliding pool; SGLang's defaults (a model with an
            indexer has pages of 64).
    """
    cache, plain = formats(model, dtype, kv_dtype)
    if cache.name in ("int8", "int4", "fp32"):
        return Allocation("sglang", VERSION, None, f"SGLang keeps no cache in {cache.name}")
    try:
        layers = [one for layer in model.layers for one in specs(layer, cache, plain)]
    except NotImplementedError as error:
        return Allocation("sglang", VERSION, None, str(error).replace("vLLM", "SGLang"))
    if options is None:
        options = Options(page=64 if any(s.token == INDEX_TOKEN for s in layers) else 1)
    page = options.page
    tokens = batch * page * math.ceil(context / page)
    full, sliding, state = cells(layers)
    parts = []
    if full:
        parts.append(("full", (tokens + page) * full))
    if sliding and full:
        part = math.floor(tokens * options.swa_ratio / page) * page
        parts.append(("sliding", (part + page) * sliding))
    elif sliding:
        # Without full layers there is one pool, and it holds every token.
        parts.append(("sliding", (tokens + page) * sliding))
    if state:
        parts.append(("states", (batch + 1) * state))
    text = f"{tokens:,} tokens and a page of {page} for padding x {full:,} B"
    if sliding:
        text += f"; sliding {sliding:,} B a token" + (
            f", ratio {options.swa_ratio}" if full else ""
        )
    if state:
        text += f"; {batch + 1} slots x {state:,} B of states"
    if any(s.token == FP8_DSA_TOKEN for s in layers):
        text += "; fp8 with scales, 656 B a token and layer"
    return Allocation("sglang", VERSION, sum(size for _, size in parts), text, tuple(parts))
