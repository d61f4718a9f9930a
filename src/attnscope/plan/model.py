"""What the planner knows of a model: its layers, and what each of them keeps.

The idea: every layer, of whatever kind, keeps a few *stores* (keys, values, a latent, a state), and
a store grows in one of six ways with the length T of the sequence. A kind of layer is therefore
nothing but a list of stores, and every question about bytes is a sum over them.

Formula
    bytes(T) = sum over layers and stores of  entries(T) * vectors * bytes(vector)

    growth      entries(T)        an example
    token       T                 keys of a full layer
    window      min(T, W)         keys of a sliding layer
    fixed       1                 the state of a linear layer
    compressed  floor(T / r)      DeepSeek-V4's entries, one for r tokens
    rest        T mod r           tokens that wait for their entry (as transformers holds them)
    closed      min(1, T // r)    what is carried over from the last whole group of r tokens

Units: bytes; T in tokens.

Not here: how a config is read (read.py), and what engines allocate (engines/).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal

from attnscope.plan.numbers import PUBLISHED, Format

if TYPE_CHECKING:
    from attnscope.plan.fit import Fit
    from attnscope.plan.flops import Cost

Growth = Literal["token", "window", "fixed", "compressed", "rest", "closed"]

KINDS: Final[dict[str, str]] = {
    "full": "keys and values of every token",
    "sliding": "keys and values of the last W tokens",
    "chunked": "keys and values of the present chunk, W tokens at most",
    "mla": "one latent and one rotary key per token, for all heads",
    "mla-expanded": "an MLA layer whose keys and values are kept per head",
    "mla-indexer": "MLA with an indexer that keeps keys of its own",
    "mla-shared-indexer": "MLA that takes the selection of an earlier layer's indexer",
    "full-indexer": "keys and values of every token, and keys of an indexer",
    "full-shared-indexer": "keys and values; the selection comes from an earlier layer's indexer",
    "shared": "nothing: it reads the keys and values of another layer",
    "gated-deltanet": "a state per value head, and the taps of a convolution",
    "kda": "Kimi Delta Attention: a state per head, and the taps of three convolutions",
    "mamba": "a Mamba-1 state, and the taps of a convolution",
    "mamba2": "a Mamba-2 state, and the taps of a convolution",
    "linear": "linear (lightning) attention: a state per head",
    "conv": "the taps of a short convolution",
    "recurrent": "another recurrence: a state of fixed size",
    "compressed": "a window, one entry per r tokens, and keys of an indexer over the entries",
    "heavily-compressed": "a window, and one entry per r tokens for r large",
    "compressed-shared": "a window; the compressed entries are another layer's",
    "mlp": "nothing: no attention in it",
    "cross": "keys and values of an image or a source; none of the text",
    "full+mamba2": "attention and Mamba-2 side by side in one layer",
    "full+mamba": "attention and Mamba side by side in one layer",
    "full+conv": "attention and a convolution side by side in one layer",
    "sliding+conv": "sliding attention and a convolution side by side in one layer",
}
"""Every kind of layer, and what it keeps."""


WIDE: Final = {"fp32": 4, "int64": 8}
"""Numbers whose size no choice of format changes, and their bytes."""


@dataclass(frozen=True)
class Store:
    """One thing that a layer keeps.

    Args:
        name: keys, values, latent, state, ...
        vectors: how many vectors an entry has (heads, or rows of a state).
        width: numbers in one of them.
        growth: how the entries grow with the tokens.
        span: W of a window, or r of a compression; 0 for the others.
        number: "cache" (the cache's format), "model" (that of activations), "fp32", "int64", or
            the name of a layout published with the model.
        source: the config fields behind the sizes, as they stand there.
    """

    name: str
    vectors: int
    width: int
    growth: Growth = "token"
    span: int = 0
    number: str = "cache"
    source: str = field(default="", compare=False)

    def entry_bytes(self, cache: Format, model: Format) -> int:
        """Bytes of one entry."""
        if self.number in WIDE:
            return self.vectors * self.width * WIDE[self.number]
        if self.number in PUBLISHED:
            return self.vectors * PUBLISHED[self.number].vector_bytes(self.width)
        form = cache if self.number == "cache" else model
        return self.vectors * form.vector_bytes(self.width)

    def entries(self, tokens: int) -> int:
        """How many entries there are after `tokens` tokens.

        >>> Store("keys", 8, 128, "window", 512).entries(700)
        512
        """
        match self.growth:
            case "token":
                return tokens
            case "window":
                return min(tokens, self.span)
            case "fixed":
                return 1
            case "compressed":
                return tokens // self.span
            case "rest":
                return tokens % self.span
            case "closed":
                return min(1, tokens // self.span)

    def formula(self, cache: Format, model: Format) -> str:
        """The arithmetic of one entry, as a person would write it."""
        form = {"cache": cache.name, "model": model.name}.get(self.number, self.number)
        every = {
            "token": "per token",
            "window": f"per token, at most {self.span:,} tokens",
            "fixed": "once",
            "compressed": f"per {self.span:,} tokens",
            "rest": f"per token that waits (T mod {self.span:,})",
            "closed": f"once, after {self.span:,} tokens",
        }[self.growth]
        size = self.entry_bytes(cache, model)
        return f"{self.vectors:,} x {self.width:,} in {form} = {size:,} B {every}"


@dataclass(frozen=True)
class Heads:
    """The attention of a layer as its scores see it: numbers of heads, widths of a head."""

    query: int
    kv: int
    qk: int
    v: int


@dataclass(frozen=True)
class Latent:
    """MLA: rank of the latent, width of the rotary key, and of a head's other two parts."""

    rank: int
    rope: int
    nope: int
    v: int


@dataclass(frozen=True)
class Indexer:
    """A lightning indexer: its heads, their width, how many keys it picks."""

    heads: int
    width: int
    topk: int
    own: bool = True


@dataclass(frozen=True)
class Layer:
    """One layer: its kind, what it keeps, and what its scores cost.

    Args:
        held: what transformers keeps where that is not the same as `stores`.
        state_flops: FLOPs of one token through the layer's recurrence, 0 without one.
        shares: the layer whose keys and values it reads instead of its own.
    """

    index: int
    kind: str
    stores: tuple[Store, ...] = ()
    heads: Heads | None = None
    window: int | None = None
    latent: Latent | None = None
    indexer: Indexer | None = None
    every: int = 1
    held: tuple[Store, ...] | None = None
    state_flops: int = 0
    state_formula: str = ""
    shares: int | None = None
    note: str = ""

    def bytes_at(self, tokens: int, cache: Format, model: Format) -> int:
        """Bytes of the layer's cache of one sequence after `tokens` tokens."""
        return sum(s.entries(tokens) * s.entry_bytes(cache, model) for s in self.stores)

    def split(self, cache: Format, model: Format) -> LayerBytes:
        """The layer's bytes by how they grow."""
        long: Fraction | int = 0
        within: Fraction | int = 0
        capped = fixed = 0
        for store in self.stores:
            size = store.entry_bytes(cache, model)
            match store.growth:
                case "token":
                    long, within = long + size, within + size
                case "window":
                    capped += size * store.span
                    within += size
                case "compressed":
                    share = Fraction(size, store.span)
                    long, within = long + share, within + share
                case "fixed" | "closed":
                    fixed += size
                case "rest":
                    capped += size * (store.span - 1)
        return LayerBytes(
            self.index, self.kind, Fraction(long), Fraction(within), capped, fixed, self.window
        )


@dataclass(frozen=True)
class LayerBytes:
    """Bytes of one layer of one sequence, by how they grow."""

    index: int
    kind: str
    per_token_bytes: Fraction
    per_token_bytes_within_window: Fraction
    capped_bytes: int
    fixed_bytes: int
    window: int | None


@dataclass(frozen=True)
class Answer:
    """Bytes of the cache: the totals of a length and a batch, and the layers behind them.

    All but `total_bytes` are of one sequence. Once the context is past every window,
    sequence_bytes = per_token_bytes * context + capped_bytes + fixed_bytes (less at most one
    entry of each compressed layer, whose last group of tokens is not whole).
    """

    context: int
    batch: int
    dtype: str
    kv_dtype: str
    per_token_bytes: Fraction
    per_token_bytes_within_window: Fraction
    capped_bytes: int
    fixed_bytes: int
    sequence_bytes: int
    total_bytes: int
    layers: tuple[LayerBytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Model:
    """A model as the planner sees it.

    Args:
        name: what the user called it.
        architecture: the config's model_type, or the GGUF's architecture.
        source: "config", "gguf", "built-in" or "what-if".
        fields: the flat config it was read from.
        assumed: what was guessed because the user allowed it; empty otherwise.
    """

    name: str
    architecture: str
    width: int
    layers: tuple[Layer, ...]
    source: str = "config"
    vocabulary: int | None = None
    context_limit: int | None = None
    dtype: str = "bf16"
    fields: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def kv(
        self, *, context: int, batch: int = 1, dtype: str | None = None, kv_dtype: str | None = None
    ) -> Answer:
        """Bytes of the cache after `context` tokens of `batch` sequences.

        Args:
            context: tokens in each sequence.
            batch: sequences.
            dtype: what activations are in (convolutions keep it); the config's own by default.
            kv_dtype: the cache's format; `dtype` by default. A cache layout published with the
                model is used for its stores unless kv_dtype is given.

        Raises:
            ValueError: a context or batch below 1, or an unknown format.

        >>> from attnscope.plan import read
        >>> read("llama-3-8b").kv(context=32768).total_bytes
        4294967296
        """
        from attnscope.plan.bytes import answer

        return answer(self, context=context, batch=batch, dtype=dtype, kv_dtype=kv_dtype)

    def bytes_at(
        self, tokens: int, *, dtype: str | None = None, kv_dtype: str | None = None
    ) -> int:
        """Bytes of one sequence's cache after `tokens` tokens."""
        from attnscope.plan.bytes import sequence_bytes

        return sequence_bytes(self, tokens, dtype=dtype, kv_dtype=kv_dtype)

    def fit(
        self,
        budget: int,
        *,
        weights: int = 0,
        batch: int = 1,
        dtype: str | None = None,
        kv_dtype: str | None = None,
    ) -> Fit:
        """The largest context whose cache fits in `budget` bytes beside the weights.

        >>> from attnscope.plan import read
        >>> read("llama-3-8b").fit(80 * 10**9, weights=16 * 10**9).tokens
        488281
        """
        from attnscope.plan.fit import largest_context

        return largest_context(
            self, budget, weights=weights, batch=batch, dtype=dtype, kv_dtype=kv_dtype
        )

    def cost(self, *, context: int, dtype: str | None = None, kv_dtype: str | None = None) -> Cost:
        """FLOPs of a prefill and of a decode step, and the bytes such a step reads.

        >>> from attnscope.plan import read
        >>> read("llama-3-8b").cost(context=2049).decode_step
        1074266112
        """
        from attnscope.plan.flops import cost

        return cost(self, context=context, dtype=dtype, kv_dtype=kv_dtype)
