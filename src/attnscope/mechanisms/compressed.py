"""Compressed sparse attention (DeepSeek-V4): near tokens as they are, far ones as entries.

The idea: a query reads the last w tokens, and behind them entries that stand for m tokens each. At
m = 128 there are few enough to read all; at m = 4 an indexer chooses k of them. One vector is key
and value of all heads, so a token or entry is kept once, D numbers wide.

Formula (t a query; e_w entries as core/compressor.py makes them)
    c_t = norm(W_DQ x_t)    q_t = rope(norm(W_UQ c_t))    k_t = v_t = rope(norm(W_KV x_t))
    o_t = sum over the tokens j with 0 <= t - j < w, and the entries w that end by t and are chosen,
          of softmax(q_t . k / sqrt(D), with the head's sink in the denominator) k
    y_t = W_OB [W_OA,g (rope^-1 o_t) of the heads of group g]

    K = V carries its rotation into o_t; turning o_t back by t leaves one by the distance alone.
    The last 64 of 512 numbers of a head are turned, in neighbouring pairs.

Shapes: x, y [B, T, C]; q [B, H, T, D]; tokens [B, n, D]; entries [B, S // m, D].

Dtypes: norms, gates and index scores in float32 or wider.

Paper: DeepSeek-AI 2026, DeepSeek-V4: Towards Highly Efficient Million-Token Context Intelligence
    (technical report), section 2.3.

Keeps: w D numbers, D / m per token (and d / m for the indexer, 512 and 128 wide), and the tokens
    that wait for their group to fill.

Not here: hyper-connections; DeepSeek-V4.1's layers, which read entries of other layers (their bytes
    are in core/published_entries.py); FP4 and FP8, which change what is kept and not the formula.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from attnscope.caches.compressed import CompressedCache, EntryTrack
from attnscope.core.chosen import SeenChosen, attention, choose
from attnscope.core.compressed_sizes import CSA, HCA, SLIDING, CompressedSizes, in_sight, layer_kind
from attnscope.core.compressor import Compressor, EntryIndexer, GroupedLinear
from attnscope.core.heads import merge_heads, split_heads
from attnscope.core.layer import RMSNorm, config_of, positions_of, rms_normed, take_weights
from attnscope.core.mechanism import About, Counts, Watch, parameters_of
from attnscope.core.model_fields import ModelFields
from attnscope.core.picture import bars, map_picture
from attnscope.core.request import Request
from attnscope.positions.rope import Rope

ABOUT: Final = About(
    name="compressed",
    title_en="Compressed sparse attention",
    title_zh="压缩稀疏注意力（CSA / HCA）",
    year=2026,
    paper="DeepSeek-AI 2026, DeepSeek-V4 technical report, section 2.3, eq. 9-23",
    solved="Stores one entry for 4 or 128 tokens behind a window of 128 raw ones, so that both the "
    "cache and the scan shrink with the ratio; with entries shared by layers and FP4, "
    "DeepSeek-V4.1-Flash keeps 890 B per token.",
    stuck="An entry cannot be opened again: what its gates left out of 4 or 128 tokens is lost to "
    "every later query, and choosing still reads every entry.",
    keeps="a window of w vectors, and per m tokens an entry of 512 numbers (an index key of 128)",
    figures=("kv.dsv41flash.per_token", "shape.dsv4flash.ratio"),
)

IMPLS: Final = ("reference", "fast")

FAMILIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "deepseek_v4": {"rms_norm_eps": 1e-6, "compress_rates": {CSA: 4, HCA: 128}}
}
"""The model types served, and the values that their config.json may leave out."""


def compressed_attention(
    q: torch.Tensor,
    tokens: torch.Tensor,
    entries: torch.Tensor,
    *,
    sinks: torch.Tensor,
    window: int,
    ratio: int,
    start: int | None = None,
    chosen: torch.Tensor | None = None,
    scale: float | None = None,
    impl: str = "fast",
) -> torch.Tensor:
    """Attention of T queries to the near tokens as they are and to entries for the far ones.

    Args:
        q: [B, H, T, D]; the T queries stand at the end of the tokens.
        tokens: [B, n, D], key and value of all heads, the last n of the text.
        entries: [B, m, D], likewise; entry w stands for the tokens w ratio to (w + 1) ratio - 1.
        sinks: [H], a logit per head in the denominator.
        window: how many tokens a query sees, itself included.
        ratio: tokens per entry.
        start: position of the first query; n - T if not given.
        chosen: int64 [B, T, k] of the entries, -1 for none; all that have ended, if not given.
        scale: of the scores; 1 / sqrt(D) if not given.
        impl: "reference" (the formula, query by query) or "fast".

    Returns:
        [B, H, T, D], still turned where the tokens are.

    Raises:
        ValueError: naming the argument, what was expected and what came.

    >>> q, x = torch.zeros(1, 1, 1, 1), torch.tensor([[[1.0], [2.0], [6.0]]])
    >>> entry, none = torch.tensor([[[3.0]]]), torch.tensor([-torch.inf])
    >>> compressed_attention(q, x, entry, sinks=none, window=1, ratio=2).item()  # of 6 and 3
    4.5
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    for name, least in (("window", window), ("ratio", ratio)):
        if least < 1:
            raise ValueError(f"{name}: expected at least 1, got {least}")
    if q.ndim != 4:
        raise ValueError(f"q: expected [B, H, T, D], got {list(q.shape)}")
    B, H, T, D = q.shape
    for name, x in (("tokens", tokens), ("entries", entries)):
        if x.ndim != 3 or (x.shape[0], x.shape[2]) != (B, D) or x.dtype != q.dtype:
            got = f"{list(x.shape)} of {x.dtype}"
            raise ValueError(f"{name}: expected [{B}, n, {D}] of {q.dtype}, as q has it, got {got}")
    if sinks.shape != (H,):
        raise ValueError(f"sinks: expected one logit per head, [{H}], got {list(sinks.shape)}")
    if (n := tokens.shape[1]) < T:
        raise ValueError(f"q: {T} queries cannot stand at the end of {n} tokens")
    start, scale = n - T if start is None else start, D**-0.5 if scale is None else scale
    if impl == "fast":
        sight = in_sight(
            T, n, entries.shape[1], window=window, ratio=ratio, start=start, chosen=chosen,
            device=q.device,
        )  # fmt: skip
        keys = torch.cat([tokens, entries], dim=1)[:, None]
        return attention(q, keys, keys, scale=scale, sight=sight, sinks=sinks)
    rows = []
    for b in range(B):
        for i in range(T):
            end, whole = n - T + i + 1, (start + i + 1) // ratio
            kept = slice(0, whole) if chosen is None else chosen[b, i][chosen[b, i] >= 0]
            keys = torch.cat([tokens[b, max(0, end - window) : end], entries[b, kept]])
            scores = torch.cat([scale * q[b, :, i] @ keys.mT, sinks.to(q.dtype)[:, None]], 1)
            rows.append(scores.softmax(-1)[:, :-1] @ keys)
    return torch.stack(rows).unflatten(0, (B, T)).transpose(1, 2)


@dataclass(frozen=True)
class CompressedCounts(Counts):
    """What a layer costs, and what the indexer and the entries have of it.

    Attributes:
        index_flops: of the scan of entries in sight; `flops` holds it.
        index_flops_dense: the same over all pairs; `flops_dense` holds it.
        entry_bytes: of one entry and its index key. Past the window a token adds this / ratio;
            within it a vector besides, which is `bytes_per_token` when rounded down.
    """

    index_flops: int = 0
    index_flops_dense: int = 0
    entry_bytes: int = 0


class CompressedAttention(nn.Module):
    """A layer with a window and, by its kind, entries.

    Args:
        sizes: of the layer.
        rope: its rotation, interleaved, of `sizes.rope` numbers.

    Raises:
        ValueError: a rotation of another width.
    """

    def __init__(self, sizes: CompressedSizes, *, rope: Rope, **where: Any) -> None:
        super().__init__()
        if rope.rotary != sizes.rope:
            raise ValueError(f"rope: expected one of {sizes.rope} numbers, got {rope.rotary}")
        s = self.sizes = sizes
        self.rope, self.scale = rope, s.width**-0.5
        self.q_a_proj = nn.Linear(s.model, s.query_rank, bias=False, **where)
        self.q_a_norm = RMSNorm(s.query_rank, eps=s.eps, late=True, **where)
        self.q_b_proj = nn.Linear(s.query_rank, s.heads * s.width, bias=False, **where)
        self.kv_proj = nn.Linear(s.model, s.width, bias=False, **where)
        self.kv_norm = RMSNorm(s.width, eps=s.eps, late=True, **where)
        inside = s.heads * s.width // s.groups
        self.o_a_proj = GroupedLinear(s.groups, inside, s.group_rank, **where)
        self.o_b_proj = nn.Linear(s.groups * s.group_rank, s.model, bias=False, **where)
        self.sinks = nn.Parameter(torch.zeros(s.heads, **where))
        self.compressor = _compressor(s, **where) if s.ratio else None

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, layer: int = 0, **more: Any
    ) -> CompressedAttention:
        """A layer with random weights, from a config.json.

        Args:
            config: of a `deepseek_v4`.
            layer: which; its kind is in `layer_types` or `compress_ratios`.
            more: `dtype`, `device`.

        Raises:
            ConfigError: a field is missing or odd, or the family is another.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        # Layers with entries turn by a base of their own, and yarn; a window alone does not.
        turned = "main" if layer_kind(fields) == SLIDING else "compress"
        rope = Rope.from_config(fields.values, layer_type=turned, interleaved=True)
        return cls(CompressedSizes.from_fields(fields, rope=rope.rotary), rope=rope, **more)

    @classmethod
    def from_hf(cls, layer: torch.nn.Module, **more: Any) -> CompressedAttention:
        """The same layer as a DeepseekV4Attention, weights copied.

        Raises:
            ValueError, TypeError, ConfigError: the layer's weights or config are others.
        """
        ours = cls.from_config(config_of(layer), layer=getattr(layer, "layer_idx", 0), **more)
        take_weights(ours, layer.state_dict())
        return ours

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> CompressedCache:
        """An empty cache; batch and dtype are those of the first tokens that come."""
        s = self.sizes
        return CompressedCache(s.window, ratio=s.ratio, overlap=s.overlap, index=s.topk > 0)

    def forward(
        self,
        x: torch.Tensor,
        *,
        cache: CompressedCache | None = None,
        positions: torch.Tensor | None = None,
        watch: Watch | None = None,
    ) -> torch.Tensor:
        """[B, T, C] to [B, T, C]: T tokens that follow those in the cache.

        Args:
            positions: int64 [T] or [B, T]. In a layer with entries, which stand at multiples of the
                ratio, only those from the cache's length on will do.
            watch: gets a `SeenChosen`: the keys are the raw tokens in the window, oldest first, and
                then the entries; the values are the keys, still rotated.

        Raises:
            ValueError: shapes, or positions with a gap.
        """
        start = 0 if cache is None else cache.length
        places = positions_of(x, positions, start=start, model=self.sizes.model)
        if self.compressor is not None and positions is not None and not x.is_meta:
            self._refuse_gaps(places, start)
        # A prefill is a text of its own: what it would keep is forgotten at once.
        cache = self.new_cache() if cache is None else cache
        latent = self.q_a_norm(self.q_a_proj(x))
        q = split_heads(self.q_b_proj(latent), self.sizes.width)
        q = self.rope(rms_normed(q, self.sizes.eps).to(q.dtype), places, trailing=True)
        raw = cache.append(self.rope(self.kv_norm(self.kv_proj(x)), places, trailing=True))
        entries, chosen = raw[:, :0], None
        if self.compressor is not None:
            entries = self._entries(self.compressor, x, cache.entries)
            chosen = self._choose(x, latent, cache, places=places, start=start)
        among: dict[str, Any] = {
            "window": self.sizes.window, "ratio": max(1, self.sizes.ratio), "start": start,
            "chosen": chosen,
        }  # fmt: skip
        if watch is not None:
            sight = in_sight(x.shape[1], raw.shape[1], entries.shape[1], **among, device=x.device)
            keys = torch.cat([raw, entries], dim=1)[:, None]
            watch(SeenChosen(q, keys, keys, start, self.scale, sinks=self.sinks, causal=False,
                             sight=sight[:, None]))  # fmt: skip
        mixed = compressed_attention(q, raw, entries, sinks=self.sinks, scale=self.scale, **among)
        mixed = self.rope.back(mixed, places, trailing=True)
        groups = merge_heads(mixed).unflatten(-1, (self.sizes.groups, -1))
        y: torch.Tensor = self.o_b_proj(self.o_a_proj(groups).flatten(2))
        return y

    def _refuse_gaps(self, places: torch.Tensor, start: int) -> None:
        steps = torch.arange(start, start + places.shape[-1], device=places.device)
        if not torch.equal(places, steps.expand_as(places)):
            raise ValueError(
                f"positions: entries stand at multiples of {self.sizes.ratio}, so a layer that has "
                f"them takes positions {start}, {start + 1}, ... alone; leave positions out"
            )

    def _entries(self, compressor: Compressor, x: torch.Tensor, track: EntryTrack) -> torch.Tensor:
        """All entries of a compressor, those included that x completes: [B, n, width]."""
        closed = track.close(*compressor.project(x))
        return track.keep(
            compressor.entries(
                closed.values, closed.gates, first=closed.first, before=closed.before,
                rope=self.rope,
            )
        )  # fmt: skip

    def _choose(
        self,
        x: torch.Tensor,
        latent: torch.Tensor,
        cache: CompressedCache,
        *,
        places: torch.Tensor,
        start: int,
    ) -> torch.Tensor | None:
        """The entries that the indexer chooses, [B, T, k], or None without one."""
        indexer = None if self.compressor is None else self.compressor.indexer
        if indexer is None:
            return None
        with torch.no_grad():
            keys = self._entries(indexer, x, cache.index)
            q, weights = indexer.queries(x, latent, rope=self.rope, places=places)
        ends = torch.arange(start + 1, start + x.shape[1] + 1, device=x.device)
        return choose(
            q, keys, weights, count=self.sizes.topk, visible=ends // self.sizes.ratio,
            scale=self.sizes.index_width**-0.5,
        )  # fmt: skip

    def counts(
        self, tokens: int, cached: int = 0, *, dtype: torch.dtype = torch.bfloat16
    ) -> CompressedCounts:
        """What `tokens` new queries behind `cached` tokens cost."""
        s, last = self.sizes, tokens + cached
        linear = (self.q_a_proj, self.q_b_proj, self.kv_proj, self.o_a_proj, self.o_b_proj)
        projections = sum(2 * part.weight.numel() for part in linear)
        projections += self.compressor.token_flops() if self.compressor is not None else 0
        scan = 2 * s.index_heads * (s.index_width + 1)
        pair = 4 * s.heads * s.width
        keys = min(cached, s.window - 1) + tokens + s.entries(last)
        held, fixed = s.numbers(last)
        entry = (s.width + s.index_width) * dtype.itemsize if s.ratio else 0
        return CompressedCounts(
            parameters=parameters_of(self),
            projection_flops=tokens * projections,
            flops=s.read(tokens, cached) * pair + s.scanned(tokens, cached) * scan,
            flops_dense=tokens * (keys * pair + s.entries(last) * scan),
            bytes_per_token=s.width * dtype.itemsize + (entry // s.ratio if s.ratio else 0),
            kept_bytes=held * dtype.itemsize,
            fixed_bytes=fixed * dtype.itemsize,
            index_flops=s.scanned(tokens, cached) * scan,
            index_flops_dense=tokens * s.entries(last) * scan,
            entry_bytes=entry,
        )


def _compressor(sizes: CompressedSizes, **where: Any) -> Compressor:
    s, indexer = sizes, None
    if s.topk:
        indexer = EntryIndexer(
            s.model, s.index_width, query_rank=s.query_rank, heads=s.index_heads, ratio=s.ratio,
            eps=s.eps, **where,
        )  # fmt: skip
    return Compressor(
        s.model, s.width, ratio=s.ratio, overlap=s.overlap, eps=s.eps, indexer=indexer, **where
    )


def picture() -> str:
    """Who sees whom in a small layer, what V4's kinds of layer keep, and the laws."""
    torch.manual_seed(3)
    sizes = CompressedSizes(
        model=24, heads=2, width=8, rope=4, query_rank=12, groups=2, group_rank=6, window=3,
        kind=CSA, ratio=2, index_heads=2, index_width=4, topk=2,
    )  # fmt: skip
    layer = CompressedAttention(
        sizes, rope=Rope.plain(4, interleaved=True), dtype=torch.float64
    )  # fmt: skip
    x = torch.randn(1, 11, 24, dtype=torch.float64)
    watched: list[Any] = []
    with torch.no_grad():
        whole = layer(x, watch=watched.append)
        cache = layer.new_cache()
        steps = torch.cat([layer(part, cache=cache) for part in x.split(1, dim=1)], dim=1)
    weights = watched[0].attend(Request((), rows=tuple(range(11)))).rows[0, 0]
    shown = torch.where(watched[0].sight[0, 0], weights, torch.nan)
    rows = map_picture(shown.tolist()).splitlines()
    cut = 4 + 2 * 11
    kept = {}
    for name, kind, ratio, topk in (
        ("every token, K = V", SLIDING, 0, 0), ("ratio 4 with indexer", CSA, 4, 512),
        ("ratio 128", HCA, 128, 0),
    ):  # fmt: skip
        flash = CompressedSizes(
            4096, 64, 512, 64, 1024, 8, 1024, window=1 << 20 if not ratio else 128, kind=kind,
            ratio=ratio, index_heads=64 * (topk > 0), index_width=128 * (topk > 0), topk=topk,
        )  # fmt: skip
        kept[name] = flash.numbers(1 << 20)[0] / (1 << 20)
    return "\n".join(
        [
            "Who sees whom: 11 tokens, window 3 | entries of 2 tokens, 2 chosen (head 0)",
            *(f"{row[:cut]:<{cut}} | {row[cut:]}".rstrip() for row in rows),
            "",
            "Numbers kept per token and layer after 1,048,576 tokens (DeepSeek-V4-Flash)",
            bars(kept),
            "",
            "Law: step by step is the whole at once, though an entry appears only when it is full",
            f"     largest difference of the outputs in float64: {(whole - steps).abs().max():.1e}",
        ]
    )


if __name__ == "__main__":
    print(picture())
