"""Gated DeltaNet: a memory of fixed size that is corrected, and fades, token by token.

The idea: linear attention adds k v^T to a matrix for every token, so what is written under a key
piles up on what was there. The delta rule first reads what the key finds and writes only the
difference, so a key's old value is replaced; a gate lets everything fade first. The matrix is all
that is kept, whatever the length.

Formula (token t; S [D, E] the state, q and k brought to length one, a_t = e^(g_t) in (0, 1])
    S <- a_t S                        fade
    u  = beta_t (v_t - S^T k_t)       the error of the faded state, times a rate
    S <- S + k_t u^T                  o_t = S^T q_t / sqrt(D)

Shapes
    q, k [B, G, T, D]    v, o [B, H, T, E]    g, beta [B, H, T]    state [B, H, D, E]
    value head h reads key head h // (H / G); layer: x, y [B, T, C]

Dtypes: the rule in float32, its state too, also in a bfloat16 model; o in that of v.

Paper
    Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464, sections 3.1 (the rule), 3.3 (chunks) and
    3.4 (the layer); the delta rule over chunks: Yang et al. 2024, arXiv 2406.06484. The layer is
    that of Qwen3-Next and Qwen3.5.

Keeps: nothing per token; per layer H D E float32 numbers and the last inputs of a convolution.

Not here: padding inside a batch; the rule over chunks (core/delta.py) and in compiled loops
(core/fused_delta.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Self

import torch
from torch import nn
from torch.nn import functional

from attnscope.caches import StateCache
from attnscope.core.delta import (
    CHUNK,
    accumulate,
    checked,
    delta_chunked,
    unable,
    unit_length,
)
from attnscope.core.delta_parts import DeltaShape, GatedNorm, in_order
from attnscope.core.layer import positions_of, take_weights
from attnscope.core.mechanism import About, Counts, Watch, parameters_of
from attnscope.core.model_fields import Families, ModelFields
from attnscope.core.picture import bars

ABOUT: Final = About(
    name="gated_delta",
    title_en="Gated DeltaNet (linear attention)",
    title_zh="门控 DeltaNet（线性注意力）",
    year=2024,
    paper="Yang, Kautz and Hatamizadeh 2024 (arXiv 2412.06464), section 3.1",
    solved="Memory that does not grow: 48 of Qwen3.8-27B's 64 layers keep no keys and values but a "
    "state, 144 MiB in all, at any length.",
    stuck="A fixed state cannot hold arbitrarily many pairs, so Qwen3.8-27B keeps 16 layers of "
    "full attention, which still cost 64 KiB per token.",
    keeps="nothing per token; H D E float32 numbers and a few inputs of a convolution in all",
    figures=("state.qwen38.bytes", "kv.qwen38.gqa.per_token", "shape.qwen38.full_layers"),
)

IMPLS: Final = ("recurrent", "chunked", "fused")

FAMILIES: Final[Families] = {
    "qwen3_next": {"hidden_act": "silu", "rms_norm_eps": 1e-6, "full_attention_interval": 4},
    "qwen3_5_text": {"hidden_act": "silu", "rms_norm_eps": 1e-6, "full_attention_interval": 4},
    "qwen3_5_moe_text": {"hidden_act": "silu", "rms_norm_eps": 1e-6, "full_attention_interval": 4},
}
"""What is served, and what their config.json may leave out (the library's own defaults)."""

Pair = tuple[torch.Tensor, torch.Tensor]


def gated_delta(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
    scale: float | None = None,
    unit: bool = False,
    impl: str = "auto",
) -> Pair:
    """The gated delta rule over T tokens.

    Args:
        q, k: [B, G, T, D].
        v: [B, H, T, E], H a multiple of G.
        g: log of the decay, at most 0, [B, H, T].
        beta: how much of the error is corrected, 0 to 1 (2 is the most that stays stable).
        state: before the first token, [B, H, D, E], float32 (float64 for float64); zeros if not
            given. It is not changed.
        scale: of q; 1 / sqrt(D) if not given.
        unit: bring q and k to length one first (1e-6 is added under the root).
        impl: "recurrent" (the formula, token by token), "chunked" (matrix products; any device),
            "fused" (compiled loops on the CPU, without gradients), or "auto": fused where it can,
            else chunked.

    Returns:
        o [B, H, T, E] in the dtype of v, and the state after the last token.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.

    Cost: 6 D E FLOPs per token and value head, whatever the length; memory of one state, and in
    "chunked" of some numbers per token. Gradients: recurrent and chunked.

    >>> k = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]]])  # the first key comes again
    >>> v = torch.tensor([[[[3.0], [4.0], [5.0]]]])
    >>> rates = dict(g=torch.zeros(1, 1, 3), beta=torch.ones(1, 1, 3))
    >>> o, state = gated_delta(k, k, v, **rates, scale=1.0)
    >>> state[0, 0].tolist()
    [[5.0], [4.0]]
    """
    checked(q, k, v, g=g, beta=beta, state=state)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if impl not in (*IMPLS, "auto"):
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)} and 'auto'")
    reason = unable(q, k, v, g, beta, state)
    if impl == "fused" and reason:
        raise ValueError(f"impl: 'fused' cannot do this: {reason}; 'chunked' can")
    if impl == "fused" or (impl == "auto" and not reason):
        from attnscope.core.fused_delta import delta_fused

        done = delta_fused(q, k, v, g, beta, state=state, scale=scale, unit=unit)
        if done is not None:
            return done
        impl = "recurrent"  # a number given is not finite; it must not reach earlier tokens
    if unit:
        q, k = (unit_length(x.to(accumulate(v))) for x in (q, k))
    run = delta_recurrent if impl == "recurrent" or q.shape[2] == 1 else delta_chunked
    return run(q, k, v, g=g, beta=beta, state=state, scale=scale)


def delta_recurrent(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None,
    scale: float,
) -> Pair:
    """The formula, token by token; arguments are checked, q and k are as they are to be used."""
    H, wide = v.shape[1], accumulate(v)
    if state is None:
        state = v.new_zeros(v.shape[0], H, q.shape[-1], v.shape[-1], dtype=wide)
    q, k = (x.to(wide).repeat_interleave(H // x.shape[1], 1) for x in (q, k))
    wide_v, decay, beta = v.to(wide), g.to(wide).exp(), beta.to(wide)
    outputs = []
    for t in range(v.shape[2]):
        key, query = k[:, :, t, :, None], q[:, :, t, None]  # [B, H, D, 1] and [B, H, 1, D]
        state = decay[:, :, t, None, None] * state
        error = wide_v[:, :, t, None] - key.mT @ state
        state = state + key @ (beta[:, :, t, None, None] * error)
        outputs.append(scale * query @ state)
    o = torch.cat(outputs, 2) if outputs else torch.zeros_like(wide_v)
    return o.to(v.dtype), state


class GatedDeltaNet(nn.Module):
    """The layer of Qwen3.5 (and, its rows put in order, of Qwen3-Next).

    Args:
        shape: the widths.
        eps: of the norm at the end.
    """

    def __init__(self, shape: DeltaShape, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.shape = shape
        C, H = shape.model, shape.heads
        self.conv1d = nn.Conv1d(
            shape.channels, shape.channels, shape.taps, groups=shape.channels, bias=False
        )
        self.dt_bias = nn.Parameter(torch.ones(H))
        # As the paper's layer: a decay's rate between hardly any and gone within a token.
        self.A_log = nn.Parameter(torch.empty(H).uniform_(0.01, 16.0).log_())
        self.norm = GatedNorm(shape.value_width, eps=eps)
        self.out_proj = nn.Linear(H * shape.value_width, C, bias=False)
        self.in_proj_qkv = nn.Linear(C, shape.channels, bias=False)
        self.in_proj_z = nn.Linear(C, H * shape.value_width, bias=False)
        self.in_proj_b = nn.Linear(C, H, bias=False)
        self.in_proj_a = nn.Linear(C, H, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        *,
        cache: StateCache | None = None,
        positions: torch.Tensor | None = None,
        watch: Watch | None = None,
    ) -> torch.Tensor:
        """y [B, T, C] for x [B, T, C].

        Args:
            cache: from `new_cache`; without one, x is all there is.
            positions: checked and not read; the order of the tokens is all that a state knows.
            watch: never called; there is no map of weights to watch.

        Raises:
            ValueError, TypeError: naming the argument, what was expected and what came.
        """
        if cache is not None and not isinstance(cache, StateCache):
            raise TypeError(f"cache: expected a StateCache, got {type(cache).__name__}")
        positions_of(x, positions, start=0, model=self.shape.model)
        shape = self.shape
        mixed, conv = self._convolve(self.in_proj_qkv(x), None if cache is None else cache.conv)
        q, k, v = (
            part.unflatten(-1, (-1, width)).transpose(1, 2)
            for part, width in zip(
                mixed.split(shape.parts, -1),
                (shape.width, shape.width, shape.value_width),
                strict=True,
            )
        )
        g, beta = self._gates(x)
        before = None if cache is None else cache.state
        o, state = gated_delta(q, k, v, g=g, beta=beta, state=before, unit=True)
        if cache is not None:
            cache.update(state, conv, tokens=x.shape[1])
        z = self.in_proj_z(x).unflatten(-1, (shape.heads, -1))
        y: torch.Tensor = self.out_proj(self.norm(o.transpose(1, 2), z).flatten(2))
        return y

    def _gates(self, x: torch.Tensor) -> Pair:
        """g and beta, [B, H, T]: how much fades, and how much of the error is corrected."""
        a, b = self.in_proj_a(x), self.in_proj_b(x)
        wide = torch.promote_types(a.dtype, torch.float32)  # A of half precision may be infinite
        rate = self.A_log.to(wide).exp()
        g = -rate * functional.softplus(a.to(wide) + self.dt_bias)
        return g.transpose(1, 2), b.sigmoid().transpose(1, 2)

    def _convolve(self, mixed: torch.Tensor, past: torch.Tensor | None) -> Pair:
        """SiLU of the causal convolution [B, T, channels], and its last `taps` inputs."""
        taps = self.shape.taps
        inputs = mixed.transpose(1, 2)
        if past is None:
            past = inputs.new_zeros(inputs.shape[0], inputs.shape[1], taps)
        elif past.shape[0] != inputs.shape[0]:
            raise ValueError(
                f"x: expected the batch of the cache, {past.shape[0]}, got {inputs.shape[0]}"
            )
        whole = torch.cat([past, inputs], -1)
        out = functional.conv1d(whole[..., 1:], self.conv1d.weight, groups=inputs.shape[1])
        return functional.silu(out).transpose(1, 2), whole[..., -taps:].clone()

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> StateCache:
        """A cache that holds the state of a beginning: zeros.

        The convolution needs its last `taps` - 1 inputs; `taps` are kept, as transformers does, so
        that the bytes are those of a real cache.
        """
        shape, weight = self.shape, self.out_proj.weight
        kind = weight.dtype if dtype is None else dtype
        wide = torch.promote_types(kind, torch.float32)
        cache = StateCache()
        size = (batch, shape.heads, shape.width, shape.value_width)
        cache.update(
            torch.zeros(size, dtype=wide, device=weight.device),
            torch.zeros(batch, shape.channels, shape.taps, dtype=kind, device=weight.device),
            tokens=0,
        )
        return cache

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The layer that a config.json describes, with weights of its own.

        Args:
            config: of a family in `FAMILIES`.
            layer: which layer.

        Raises:
            ConfigError: a field is missing, the family is not served, or this layer is not linear.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        return cls(DeltaShape.of(fields), eps=float(fields["rms_norm_eps"]))

    @classmethod
    def from_hf(cls, layer: nn.Module) -> Self:
        """The same layer as a Qwen3NextGatedDeltaNet or Qwen3_5GatedDeltaNet, weights copied.

        Raises:
            TypeError: another kind of layer.
            ValueError: a weight is missing or of another shape, or its activation is not SiLU.
        """
        shape = DeltaShape.of_layer(layer)
        own = cls(shape, eps=float(layer.layer_norm_epsilon))  # type: ignore[arg-type]
        take_weights(own, in_order(layer.state_dict(), shape))
        return own

    def counts(
        self, tokens: int, cached: int = 0, *, dtype: torch.dtype = torch.bfloat16
    ) -> Counts:
        """What `tokens` more tokens cost; how many came before does not matter.

        `flops` are those of the formula, `flops_dense` those of "chunked" (of the formula for one
        token), its triangular solve included, which PyTorch's counter leaves out.
        """
        shape = self.shape
        G, H, D, E = shape.groups, shape.heads, shape.width, shape.value_width
        matrices = sum(p.numel() for p in self.parameters() if p.ndim == 2)
        flops = dense = 6 * H * D * E * tokens
        if tokens != 1:
            padded = math.ceil(tokens / CHUNK) * CHUNK
            pairs = CHUNK * (4 * G * D + H * (CHUNK + 2 * (D + E) + 2 * E))
            dense = padded * (6 * H * D * E + pairs)
        kept = sum(shape.kept_bytes(dtype))
        return Counts(
            parameters=parameters_of(self),
            projection_flops=2 * tokens * (matrices + shape.channels * shape.taps),
            flops=flops,
            flops_dense=dense,
            bytes_per_token=0,
            kept_bytes=kept,
            fixed_bytes=kept,
        )


def recall(pairs: int, *, width: int = 32, rule: str = "delta", seed: int = 0) -> torch.Tensor:
    """How well a state of width x width gives back what was written: cosines with the values.

    Args:
        pairs: how many random key-value pairs are written, one after the other, without fading.
        rule: "delta" (only the error is written) or "sum" (k v^T is added, as plain linear
            attention does).

    Returns:
        float64 [pairs], the oldest pair first.

    Raises:
        ValueError: an unknown rule.

    >>> [round(float(recall(64, rule=rule)[-8:].mean()), 1) for rule in ("delta", "sum")]
    [0.9, 0.6]
    """
    if rule not in ("delta", "sum"):
        raise ValueError(f"rule: expected 'delta' or 'sum', got {rule!r}")
    random = torch.Generator().manual_seed(seed)
    k, v = torch.randn(2, 1, 1, pairs, width, generator=random, dtype=torch.float64)
    k = k / k.norm(dim=-1, keepdim=True)
    state = k.mT @ v
    if rule == "delta":
        ones = torch.ones(1, 1, pairs, dtype=torch.float64)
        _, state = gated_delta(k, k, v, g=0 * ones, beta=ones)
    return functional.cosine_similarity(k @ state, v, dim=-1).flatten()


def picture() -> str:
    """What a fixed state gives back the more is written, what it weighs, and two laws."""
    lines = ["what a state of 32 x 32 gives back of n random pairs (cosine with what was written)"]
    shown = {}
    for pairs in (8, 32, 128):
        for rule in ("delta", "sum"):
            given = recall(pairs, rule=rule)
            shown[f"n = {pairs:3}, {rule}, all of them"] = round(float(given.mean()), 2)
            shown[f"n = {pairs:3}, {rule}, newest 8"] = round(float(given[-8:].mean()), 2)
    lines += [bars(shown, most=1.0), ""]
    shape = DeltaShape(model=5120, groups=16, heads=48, width=128, value_width=128)
    state, conv = (48 * held / 2**20 for held in shape.kept_bytes(torch.bfloat16))
    lines.append(
        f"Qwen3.8-27B's 48 linear layers, after 1,000 tokens or 262,144: {state:g} MiB of state, "
        f"{conv:g} MiB for the convolution"
    )
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 300, 32, generator=random)
    rates, faded = torch.rand(2, 1, 2, 300, generator=random)
    # Not the compiled loops, which a first picture would wait many seconds for.
    ways = ("recurrent", "chunked")
    by_token, by_chunk = (
        gated_delta(q, k, v, g=-faded, beta=rates, unit=True, impl=impl)[0] for impl in ways
    )
    gap = float((by_token - by_chunk).abs().max())
    basis, news = torch.eye(32)[None, None], torch.randn(1, 1, 32, 32, generator=random)
    still, whole = torch.zeros(1, 1, 32), torch.ones(1, 1, 32)
    _, full = gated_delta(basis, basis, v[:, :1, :32], g=still, beta=whole, impl=ways[0])
    _, renewed = gated_delta(basis, basis, news, g=still, beta=whole, state=full, impl=ways[0])
    off = float((renewed - news).abs().max())
    lines += [
        f"law: token by token and over chunks are one: largest difference {gap:.0e}",
        f"law: what is written under an old key replaces what was there: to {off:.0e}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
