"""Sparse attention by an indexer (DSA): a cheap scan chooses k keys, and only those are attended.

The idea: scores of full width for every earlier token are what long texts cost. A small indexer
scans all keys with few narrow heads, a ReLU and no softmax; the k keys it wants most, latents of
MLA, are then all that the attention proper reads.

Formula (t a query, s <= t a key; c^Q_t the query's latent of MLA)
    q^I_th = rope(W_q c^Q_t)_h    k^I_s = rope(layernorm(W_k x_s))    w_t = W_w x_t / sqrt(h)
    I_ts   = sum_h w_th relu(q^I_th . k^I_s / sqrt(d))
    o_t    = attention of MLA over the k keys s with the largest I_ts

    In the indexer the rotated numbers come first: halves in DeepSeek-V3.2, neighbours in GLM-5. In
    GLM-5.3 three layers of four have no indexer and reuse the choice of the layer before them.

Shapes: x, y [B, T, C]; chosen int64 [B, T, k], -1 where a query has fewer than k keys in sight.

Dtypes: index scores in float32 or wider.

Paper: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv 2512.02556; one choice for several
    layers: arXiv 2603.12201, as transformers' GLM-5 names it.

Keeps: 512 + 64 numbers per token and layer as MLA does, and 128 more of the index key in layers
    with an indexer of their own.

Not here: the training of the indexer (its choice has no gradient, so none reaches it through y),
FP8 index keys and the Hadamard rotation before them, which leaves every product as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from attnscope.caches.latent import LatentCache
from attnscope.core import latent_parts as parts
from attnscope.core.chosen import SeenChosen, choose, sight_of
from attnscope.core.indexer import Indexer, IndexSizes
from attnscope.core.latent_parts import LatentProjections, LatentSizes
from attnscope.core.layer import config_of, positions_of, take_weights
from attnscope.core.mechanism import About, Counts, Watch, pairs_in_sight, parameters_of
from attnscope.core.model_fields import ModelFields
from attnscope.core.picture import map_picture
from attnscope.core.request import Request
from attnscope.positions.rope import Rope

ABOUT: Final = About(
    name="sparse",
    title_en="Sparse attention by an indexer (DSA)",
    title_zh="稀疏注意力：索引器挑选（DSA）",
    year=2025,
    paper="DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv 2512.02556",
    solved="Attends to 2,048 chosen keys however long the text is; what grows with the length is a "
    "scan with 64 heads of 128 numbers, 17 times cheaper per key.",
    stuck="Choosing reads every key, so the scan still grows with the square of the length, and "
    "index keys come on top: in GLM-5.3, 5,376 B per token and 5.25 GiB for 1,048,576 tokens.",
    keeps="a latent and a rotated key (512 + 64), and an index key of 128 in layers that choose",
    figures=("kv.glm53.indexer.per_token", "kv.glm53.indexer.total", "shape.glm53.context"),
)

IMPLS: Final[tuple[str, ...]] = ("masked", "gathered", "auto")

FAMILIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "deepseek_v32": {"attention_bias": False, "indexer_rope_interleave": False},
    "glm_moe_dsa": {"attention_bias": False, "indexer_rope_interleave": True},
}
"""The model types served, and the values that their config.json may leave out."""


@dataclass(frozen=True)
class SparseCounts(Counts):
    """What a layer costs, and the indexer's part of it.

    Attributes:
        index_flops: of the scan, over the pairs in sight; `flops` holds it.
        index_flops_dense: the same over all pairs; `flops_dense` holds it.
        index_bytes_per_token: of the index keys; `bytes_per_token` holds it.
    """

    index_flops: int = 0
    index_flops_dense: int = 0
    index_bytes_per_token: int = 0


def sparse_attention(
    q: torch.Tensor,
    latents: torch.Tensor,
    rope_keys: torch.Tensor,
    up: torch.Tensor,
    *,
    chosen: torch.Tensor,
    scale: float,
    impl: str = "masked",
) -> torch.Tensor:
    """Latent attention in which each query sees the keys it chose.

    Args:
        q, latents, rope_keys, up, scale: as `attnscope.mechanisms.latent` takes them.
        chosen: int64 [B, T, k], from 0 to S - 1; -1 chooses nothing.
        impl: "masked" (keys and values of all tokens, the rest hidden), "gathered" (the chosen
            latents alone, absorbed), or "auto": whichever needs fewer FLOPs.

    Returns: [B, H, T, E].

    Raises:
        ValueError: shapes that do not fit, or an unknown impl.

    Cost: masked as MLA's expanded form; gathered 2 T R H (N + E) + 2 T k H (2 R + D) FLOPs,
        whatever S is, and memory for k latents per query of one band.

    >>> q, c, r = torch.ones(1, 1, 1, 2), torch.tensor([[[1.0], [5.0], [3.0]]]), torch.ones(1, 3, 1)
    >>> up = torch.tensor([[0.0], [1.0]])  # all keys alike; a value is its latent
    >>> alike = dict(chosen=torch.tensor([[[0, 2]]]), scale=1.0)
    >>> sparse_attention(q, c, r, up, **alike).item()
    2.0
    """
    (B, S, _), T = latents.shape, q.shape[2]
    if chosen.ndim != 3 or chosen.shape[:2] != (B, T):
        raise ValueError(f"chosen: expected [{B}, {T}, k], got {list(chosen.shape)}")
    if impl == "auto":
        impl = cheaper(q, rope_keys, up, keys=S, chosen=chosen.shape[-1])
    if impl == "masked":
        # Who may choose as many keys as there are sees all that came before: plain attention.
        sight = sight_of(chosen, S) if chosen.shape[-1] < S else None
        return parts.expanded(q, latents, rope_keys, up, scale=scale, sight=sight)
    if impl == "gathered":
        return parts.gathered(q, latents, rope_keys, up, chosen=chosen, scale=scale)
    raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")


def cheaper(
    q: torch.Tensor, rope_keys: torch.Tensor, up: torch.Tensor, *, keys: int, chosen: int
) -> str:
    """Which implementation needs fewer FLOPs."""
    _, H, T, width = q.shape
    R, D = up.shape[1], rope_keys.shape[-1]
    E = up.shape[0] // H - (width - D)
    form = up.shape[0] // H * R
    masked = keys * form + T * keys * (width + E)
    picked = T * form + T * chosen * (2 * R + D)
    return "gathered" if picked < masked else "masked"


class SparseAttention(LatentProjections):
    """A layer of MLA that attends to chosen keys.

    Args:
        sizes: of the attention.
        index: of the indexer.
        rope: the rotation of the attention's D numbers, interleaved in every model.
        index_rope: that of the indexer.
        scale: multiplies q.k; 1 / sqrt(N + D) if not given.
        impl: as `sparse_attention` takes it.

    Attributes:
        indexer: None where the layer reuses a choice.

    Raises:
        ValueError: an unknown impl, or sizes that do not go together.
    """

    def __init__(
        self,
        sizes: LatentSizes,
        index: IndexSizes,
        *,
        rope: Rope,
        index_rope: Rope,
        scale: float | None = None,
        impl: str = "auto",
        **where: Any,
    ) -> None:
        if impl not in IMPLS:
            raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
        super().__init__(sizes, **where)
        self.index, self.rope, self.index_rope, self.impl = index, rope, index_rope, impl
        self.scale = sizes.width**-0.5 if scale is None else scale
        self.indexer = Indexer(sizes, index, **where) if index.own else None

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, layer: int = 0, **more: Any
    ) -> SparseAttention:
        """A layer with random weights, from a config.json.

        Args:
            config: of a `deepseek_v32` or `glm_moe_dsa`.
            layer: which; in GLM-5.3 some have no indexer.
            more: `impl`, `dtype`, `device`.

        Raises:
            ConfigError: a field is missing or odd, or the family is another.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        sizes = LatentSizes.from_fields(fields)
        index = IndexSizes.from_fields(fields)
        turn = [
            Rope.from_config(fields.values, width=sizes.rope, interleaved=pairs)
            for pairs in (True, index.interleaved)
        ]
        scale = parts.softmax_scale(fields.values, sizes.width)
        return cls(sizes, index, rope=turn[0], index_rope=turn[1], scale=scale, **more)

    @classmethod
    def from_hf(cls, layer: torch.nn.Module, **more: Any) -> SparseAttention:
        """The same layer as a DeepseekV32Attention or GlmMoeDsaAttention, weights copied.

        Raises:
            ValueError, TypeError, ConfigError: the layer's weights or config are others.
        """
        ours = cls.from_config(config_of(layer), layer=getattr(layer, "layer_idx", 0), **more)
        take_weights(ours, layer.state_dict())
        return ours

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> LatentCache:
        """An empty cache; batch and dtype are those of the first tokens that come."""
        return LatentCache()

    def forward(
        self,
        x: torch.Tensor,
        *,
        cache: LatentCache | None = None,
        positions: torch.Tensor | None = None,
        watch: Watch | None = None,
    ) -> torch.Tensor:
        """[B, T, C] to [B, T, C]: T tokens that follow those in the cache.

        Args:
            watch: gets a `SeenChosen`: masked over H heads, gathered over the latents as one.

        Raises:
            ValueError: the layer has no indexer; `attend_and_choose` takes another's choice.
        """
        return self.attend_and_choose(x, cache=cache, positions=positions, watch=watch)[0]

    def attend_and_choose(
        self,
        x: torch.Tensor,
        *,
        cache: LatentCache | None = None,
        positions: torch.Tensor | None = None,
        watch: Watch | None = None,
        chosen: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The layer's answer, and the choice it went by, for layers that reuse it.

        Args:
            x, cache, positions, watch: as `forward` takes them.
            chosen: int64 [B, T, k], the choice of an earlier layer; a layer with an indexer makes
                its own and takes none.

        Raises:
            ValueError: a choice that is missing, or that is not wanted.
        """
        start = 0 if cache is None else cache.length
        places = positions_of(x, positions, start=start, model=self.sizes.model)
        if self.indexer is None and chosen is None:
            raise ValueError(
                "chosen: this layer has no indexer; give the choice that attend_and_choose of the "
                "last layer with one returned"
            )
        if self.indexer is not None and chosen is not None:
            raise ValueError("chosen: this layer has an indexer and makes its own choice")
        q, latent = self.queries(x)
        N = self.sizes.nope
        q = torch.cat([q[..., :N], self.rope(q[..., N:], places)], dim=-1)
        latents, keys = self.latents(x)
        keys = self.rope(keys, places)
        if self.indexer is None or latent is None:
            if cache is not None:
                latents, keys = cache.append(latents, keys)
        else:
            with torch.no_grad():
                scan_q, scan_k, weights = self.indexer(
                    x, latent, rope=self.index_rope, places=places
                )
            if cache is not None:
                latents, keys, scan_k = cache.append(latents, keys, scan_k)
            visible = torch.arange(start + 1, start + x.shape[1] + 1, device=x.device)
            chosen = choose(
                scan_q, scan_k, weights, count=self.index.topk, visible=visible,
                scale=self.index.width**-0.5,
            )  # fmt: skip
        assert chosen is not None
        up, impl = self.kv_b_proj.weight, self.impl
        if impl == "auto":
            impl = cheaper(q, keys, up, keys=latents.shape[1], chosen=chosen.shape[-1])
        if watch is not None:
            watch(self._seen(q, latents, keys, chosen=chosen, impl=impl, start=start))
        mixed = sparse_attention(q, latents, keys, up, chosen=chosen, scale=self.scale, impl=impl)
        return self.output(mixed), chosen

    def _seen(
        self,
        q: torch.Tensor,
        latents: torch.Tensor,
        rope_keys: torch.Tensor,
        *,
        chosen: torch.Tensor,
        impl: str,
        start: int,
    ) -> SeenChosen:
        up = self.kv_b_proj.weight
        sight = sight_of(chosen, latents.shape[1])[:, None]
        if impl == "gathered":
            k, v = torch.cat([latents, rope_keys], dim=-1)[:, None], latents[:, None]
            q = parts.latent_queries(q, latents, rope_keys, up)
        else:
            k, v = parts.keys_and_values(q, latents, rope_keys, up)
        return SeenChosen(q, k, v, start, self.scale, sight=sight)

    def counts(
        self,
        tokens: int,
        cached: int = 0,
        *,
        dtype: torch.dtype = torch.bfloat16,
        impl: str | None = None,
    ) -> SparseCounts:
        """What `tokens` new queries behind `cached` tokens cost; `impl` other than the layer's."""
        s, index, keys = self.sizes, self.index, tokens + cached
        chosen = min(index.topk, keys)
        dense = {
            "masked": (self.up_flops(keys), tokens * keys * self.pair_flops("expanded")),
            "gathered": (self.up_flops(tokens), tokens * chosen * self.pair_flops("absorbed")),
        }
        impl = self.impl if impl is None else impl
        if impl == "auto":
            impl = "gathered" if sum(dense["gathered"]) < sum(dense["masked"]) else "masked"
        if impl not in dense:
            raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
        up, attended = dense[impl]
        pair = self.pair_flops("expanded" if impl == "masked" else "absorbed")
        scan = 2 * index.heads * (index.width + 1) if index.own else 0
        index_bytes = index.width * dtype.itemsize if index.own else 0
        per_token = (s.rank + s.rope) * dtype.itemsize + index_bytes
        projections = self.token_flops() + (self.indexer.token_flops() if self.indexer else 0)
        return SparseCounts(
            parameters=parameters_of(self),
            projection_flops=tokens * projections + up,
            flops=pairs_in_sight(tokens, cached) * scan
            + pairs_in_sight(tokens, cached, index.topk) * pair,
            flops_dense=tokens * keys * scan + attended,
            bytes_per_token=per_token,
            kept_bytes=keys * per_token,
            index_flops=pairs_in_sight(tokens, cached) * scan,
            index_flops_dense=tokens * keys * scan,
            index_bytes_per_token=index_bytes,
        )


def picture() -> str:
    """What is chosen, what a step of DeepSeek-V3.2 costs, and the laws."""
    small = LatentSizes(model=24, heads=3, nope=6, rope=4, value=5, rank=8, query_rank=12)
    torch.manual_seed(7)
    layer = SparseAttention(
        small, IndexSizes(2, 6, topk=4), rope=Rope.plain(4, interleaved=True),
        index_rope=Rope.plain(4), dtype=torch.float64,
    )  # fmt: skip
    x = torch.randn(1, 12, 24, dtype=torch.float64)
    watched: list[Any] = []
    with torch.no_grad():
        results = [layer(x, watch=watched.append) for layer.impl in ("gathered", "masked")]
    weights = watched[0].attend(Request((), rows=tuple(range(12)))).rows[0, 0]
    shown = torch.where(watched[0].sight[0, 0], weights, torch.nan).tolist()
    apart = float((results[0] - results[1]).abs().max())
    v32 = LatentSizes(7168, 128, 128, 64, 128, 512, query_rank=1536)
    big = SparseAttention(
        v32, IndexSizes(64, 128, topk=2048), rope=layer.rope, index_rope=layer.rope, device="meta"
    )
    lines = []
    for length in (2048, 8192, 32768, 131072, 1048576):
        counts = big.counts(1, length - 1, impl="gathered")
        dense = length * big.pair_flops("absorbed")
        attended = counts.flops - counts.index_flops
        lines.append(
            f"{length:>11,}   {dense / 1e9:>10,.2f}   {counts.index_flops / 1e9:>8,.2f} + "
            f"{attended / 1e9:.2f}   {100 * counts.flops / dense:>5.1f} %"
        )
    return "\n".join(
        [
            "Who sees whom: 12 tokens, each chooses 4 (one head's weights; a dot is not chosen)",
            map_picture(shown),
            "",
            "One step of one layer of DeepSeek-V3.2, GFLOPs",
            f"{'tokens':>11}   {'all keys':>10}   scan + 2,048 chosen",
            *lines,
            f"Kept per token: {v32.rank + v32.rope} numbers and {big.index.width} of the index key",
            "",
            "Law: only the chosen count; masking the others and reading the chosen alone agree",
            f"     largest difference of the outputs in float64: {apart:.1e}",
        ]
    )


if __name__ == "__main__":
    print(picture())
