"""Multi-head latent attention (MLA): one short vector per token in place of all keys and values.

The idea: the keys and values of all heads are linear images of one latent per token, so the latent
is what is kept. A rotation by the position would stand between the two matrices that could be
joined, so the position goes to a small extra key, shared by all heads (decoupled RoPE).

Formula (h a head, t a query, j <= t a key)
    c^Q_t = norm(W_DQ x_t)      q_t = [W_UQ c^Q_t, rope(W_QR c^Q_t)]   (V2-Lite: x_t itself)
    c_j   = norm(W_DKV x_j)     r_j = rope(W_KR x_j)                        kept: c_j and r_j
    k_j   = [U_K c_j, r_j]      v_j = U_V c_j
    o_t   = sum_j softmax_j(scale q_t . k_j) v_j        y_t = W_O [o_t of all heads]
    scale = m^2 / sqrt(N + D), m yarn's mscale (1 without yarn)

    "expanded" computes it so. "absorbed" never makes a key: q . (U_K c) = (U_K^T q) . c, so the
    query goes to the latents, H heads read one key of width R + D, and U_V comes after the sum.

Shapes: x, y [B, T, C]; q [B, H, T, N + D] in the order [nope, rope]; latents [B, S, R]; rotated
    keys [B, S, D]; up (kv_b_proj) [H (N + E), R].

Dtypes: norms in float32 or wider; attention as `core.attend` does it.

Paper: DeepSeek-AI 2024 (DeepSeek-V2), arXiv 2405.04434; V3: arXiv 2412.19437.

Keeps: R + D numbers per token and layer: 512 + 64 in DeepSeek-V2, V3, Kimi K2 and GLM-5.

Not here: an indexer that chooses keys (sparse.py), quantised latents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from attnscope.caches.latent import LatentCache
from attnscope.core import latent_parts as parts
from attnscope.core.latent_parts import LatentProjections, LatentSizes
from attnscope.core.layer import config_of, positions_of, take_weights
from attnscope.core.mechanism import About, Counts, Seen, Watch, pairs_in_sight, parameters_of
from attnscope.core.model_fields import ModelFields
from attnscope.core.picture import bars
from attnscope.positions.rope import Rope

ABOUT: Final = About(
    name="latent",
    title_en="Multi-head latent attention (MLA)",
    title_zh="多头潜在注意力（MLA）",
    year=2024,
    paper="DeepSeek-AI 2024, arXiv 2405.04434",
    solved="Keeps one latent of 512 numbers and a rotated key of 64 per token and layer, and gives "
    "every head a key and a value of its own again.",
    stuck="The cache still grows with the length and the scores with its square: GLM-5.3 keeps "
    "89,856 B per token, 87.75 GiB for one request of 1,048,576 tokens, latents alone.",
    keeps="a latent of R numbers and a rotated key of D (512 + 64)",
    figures=(
        "kv.dsv2.per_token", "kv.dsv3.per_token", "kv.glm53.per_token", "kv.glm53.total",
        "shape.glm53.context", "shape.dsv2.latent", "shape.dsv2.rope",
    ),
)  # fmt: skip

IMPLS: Final[tuple[str, ...]] = (*parts.IMPLS, "auto")

FAMILIES: Final[Mapping[str, Mapping[str, Any]]] = {
    kind: {"attention_bias": False, "rope_interleave": True}
    for kind in ("deepseek_v2", "deepseek_v3", "kimi_k2")
}
"""The model types served, and the values that their config.json may leave out."""


def latent_attention(
    q: torch.Tensor,
    latents: torch.Tensor,
    rope_keys: torch.Tensor,
    up: torch.Tensor,
    *,
    scale: float,
    impl: str = "expanded",
) -> torch.Tensor:
    """Causal attention of T queries that stand at the end of S tokens, of which latents are kept.

    Args:
        q: [B, H, T, N + D]: the part without positions, then the rotated part.
        latents: [B, S, R], normed.
        rope_keys: [B, S, D], rotated; one for all heads.
        up: [H (N + E), R]: per head the N rows that make a key of a latent, then the E of a value.
        scale: multiplies q.k.
        impl: "expanded" (the formula), "absorbed" (in the latent space), or "auto": whichever needs
            fewer FLOPs.

    Returns: [B, H, T, E].

    Raises:
        ValueError: shapes that do not fit, or an unknown impl.

    Cost: expanded 2 S R H (N + E) + 2 T S H (N + D + E) FLOPs; absorbed
        2 T R H (N + E) + 2 T S H (2 R + D). Prefill favours the first, decode the second.

    >>> q, c, r = torch.ones(1, 2, 1, 3), torch.ones(1, 1, 4), torch.ones(1, 1, 2)
    >>> up = torch.arange(24.0).view(6, 4)  # two heads: a row of key and two of value each
    >>> latent_attention(q, c, r, up, scale=1.0).flatten().tolist()  # one key: its value, U_V c
    [22.0, 38.0, 70.0, 86.0]
    """
    if impl == "auto":
        T, S, rope, rank = q.shape[2], latents.shape[1], rope_keys.shape[-1], latents.shape[-1]
        nope = q.shape[-1] - rope
        value = up.shape[0] // q.shape[1] - nope
        impl = cheaper(T, S - T, rank=rank, rope=rope, nope=nope, value=value)
    if impl == "expanded":
        return parts.expanded(q, latents, rope_keys, up, scale=scale)
    if impl == "absorbed":
        return parts.absorbed(q, latents, rope_keys, up, scale=scale)
    raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")


def cheaper(tokens: int, cached: int, *, rank: int, rope: int, nope: int, value: int) -> str:
    """Which of the two forms needs fewer FLOPs for `tokens` queries behind `cached` tokens.

    >>> sizes = dict(rank=512, rope=64, nope=128, value=128)
    >>> cheaper(8192, 0, **sizes), cheaper(1, 8191, **sizes)
    ('expanded', 'absorbed')
    """
    keys = tokens + cached
    form = rank * (nope + value)
    expanded = keys * form + tokens * keys * (nope + rope + value)
    absorbed = tokens * form + tokens * keys * (2 * rank + rope)
    return "absorbed" if absorbed < expanded else "expanded"


class LatentAttention(LatentProjections):
    """A layer of MLA.

    Args:
        sizes: of the layer.
        rope: the rotation of D numbers.
        scale: multiplies q.k; 1 / sqrt(N + D) if not given.
        impl: "expanded", "absorbed" or "auto", as `latent_attention` takes it.

    Raises:
        ValueError: an unknown impl.
    """

    def __init__(
        self,
        sizes: LatentSizes,
        *,
        rope: Rope,
        scale: float | None = None,
        impl: str = "auto",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if impl not in IMPLS:
            raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
        super().__init__(sizes, dtype=dtype, device=device)
        self.rope = rope
        self.scale = sizes.width**-0.5 if scale is None else scale
        self.impl = impl

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, layer: int = 0, **more: Any
    ) -> LatentAttention:
        """A layer with random weights, from a config.json.

        Args:
            config: of a `deepseek_v2`, `deepseek_v3` or `kimi_k2`.
            layer: which; all are alike.
            more: `impl`, `dtype`, `device`.

        Raises:
            ConfigError: a field is missing or odd, or the family is another.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        sizes = LatentSizes.from_fields(fields)
        rope = Rope.from_config(
            fields.values, width=sizes.rope, interleaved=bool(fields["rope_interleave"])
        )
        return cls(sizes, rope=rope, scale=parts.softmax_scale(fields.values, sizes.width), **more)

    @classmethod
    def from_hf(cls, layer: torch.nn.Module, **more: Any) -> LatentAttention:
        """The same layer as a DeepseekV2Attention or DeepseekV3Attention, weights copied.

        Raises:
            ValueError, TypeError, ConfigError: the layer's weights or config are others.
        """
        ours = cls.from_config(config_of(layer), **more)
        take_weights(ours, layer.state_dict())
        return ours

    def form(self, tokens: int, cached: int) -> str:
        """Which implementation serves `tokens` queries behind `cached` tokens."""
        s = self.sizes
        if self.impl != "auto":
            return self.impl
        return cheaper(tokens, cached, rank=s.rank, rope=s.rope, nope=s.nope, value=s.value)

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
            positions: int64 [T] or [B, T]; from the cache's length on, if not given.
            watch: gets a `Seen`. Expanded, that is H heads of keys and values. Absorbed, it is what
                is really read: one key head [latent, rotated key] whose values are the latents,
                and queries brought to them. Weights and scores are the same numbers in both.
        """
        start = 0 if cache is None else cache.length
        places = positions_of(x, positions, start=start, model=self.sizes.model)
        q, _ = self.queries(x)
        N = self.sizes.nope
        q = torch.cat([q[..., :N], self.rope(q[..., N:], places)], dim=-1)
        latents, keys = self.latents(x)
        keys = self.rope(keys, places)
        if cache is not None:
            latents, keys = cache.append(latents, keys)
        impl, up = self.form(x.shape[1], start), self.kv_b_proj.weight
        if watch is not None:
            watch(seen(q, latents, keys, up, scale=self.scale, impl=impl, start=start))
        return self.output(latent_attention(q, latents, keys, up, scale=self.scale, impl=impl))

    def counts(
        self,
        tokens: int,
        cached: int = 0,
        *,
        dtype: torch.dtype = torch.bfloat16,
        impl: str | None = None,
    ) -> Counts:
        """What `tokens` new queries behind `cached` tokens cost; `impl` other than the layer's."""
        impl = self.form(tokens, cached) if impl in (None, "auto") else impl
        if impl not in parts.IMPLS:
            raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
        s, keys = self.sizes, tokens + cached
        per_token = (s.rank + s.rope) * dtype.itemsize
        up = self.up_flops(keys if impl == "expanded" else tokens)
        pair = self.pair_flops(impl)
        return Counts(
            parameters=parameters_of(self),
            projection_flops=tokens * self.token_flops() + up,
            flops=pairs_in_sight(tokens, cached) * pair,
            flops_dense=tokens * keys * pair,
            bytes_per_token=per_token,
            kept_bytes=keys * per_token,
        )


def seen(
    q: torch.Tensor,
    latents: torch.Tensor,
    rope_keys: torch.Tensor,
    up: torch.Tensor,
    *,
    scale: float,
    impl: str,
    start: int,
) -> Seen:
    """The attention of one call as an ordinary one over keys and values."""
    if impl == "absorbed":
        k = torch.cat([latents, rope_keys], dim=-1)[:, None]
        wanted = parts.latent_queries(q, latents, rope_keys, up)
        return Seen(wanted, k, latents[:, None], start, scale)
    return Seen(q, *parts.keys_and_values(q, latents, rope_keys, up), start, scale)


def picture() -> str:
    """What DeepSeek-V3 keeps per token and layer, what a step costs, and that both forms agree."""
    sizes = LatentSizes(
        model=7168, heads=128, nope=128, rope=64, value=128, rank=512, query_rank=1536
    )
    layer = LatentAttention(sizes, rope=Rope.plain(64, theta=1e4, interleaved=True), device="meta")
    heads = sizes.heads * (sizes.width + sizes.value)
    kept = {
        f"keys and values of {sizes.heads} heads": float(heads),
        "of 8 shared heads of 128": 2.0 * 8 * 128,
        "latent 512 + rotated key 64": float(sizes.rank + sizes.rope),
    }
    cached, lines = 8191, []
    for tokens in (1, 16, 128, 256, 1024):
        both = [layer.counts(tokens, cached, impl=impl) for impl in parts.IMPLS]
        token = tokens * layer.token_flops()
        work = [c.flops_dense + c.projection_flops - token for c in both]
        better = parts.IMPLS[work.index(min(work))]
        lines.append(
            f"{tokens:>6} new   expanded {work[0] / 1e9:>9,.1f}   absorbed {work[1] / 1e9:>9,.1f}"
            f"   {better} needs {max(work) / min(work):.2f} times less"
        )
    layer.impl = "auto"
    even = next(t for t in range(1, cached) if layer.form(t, cached) == "expanded")
    small = LatentSizes(model=24, heads=3, nope=6, rope=4, value=5, rank=8)
    torch.manual_seed(0)
    tiny = LatentAttention(
        small, rope=Rope.plain(4, theta=1e4, interleaved=True), dtype=torch.float64
    )
    x = torch.randn(1, 9, 24, dtype=torch.float64)
    with torch.no_grad():
        outputs = []
        for tiny.impl in parts.IMPLS:
            outputs.append(tiny(x))
    apart = float((outputs[0] - outputs[1]).abs().max())
    return "\n".join(
        [
            "Numbers kept per token and layer (DeepSeek-V3)",
            bars(kept),
            "",
            f"Attention behind {cached:,} cached tokens, GFLOPs (128 heads, one layer)",
            *lines,
            f"They are even near {even} new tokens.",
            "",
            "Law: expanded and absorbed are one function, q . (U_K c) = (U_K^T q) . c",
            f"     largest difference of 9 tokens' outputs in float64: {apart:.1e}",
        ]
    )


if __name__ == "__main__":
    print(picture())
