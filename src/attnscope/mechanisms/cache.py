"""The KV cache: earlier keys and values never change, so each is computed once and kept.

The idea: under a causal mask nothing that comes later reaches a token, so its key and value are the
same at every step of generating. Without a cache a step feeds the whole text again, and n steps
compute in the order of n^2 keys; with one it feeds the new token alone. The price is memory that
grows with the text, and later mechanisms keep less of it: caches/ has a class for each way.

Formula (a prompt of P tokens, n steps; the last token is never fed)
    without    P + (P + 1) + ... + (P + n - 1) keys and values
    with       P + n - 1

Shapes
    x, y [B, T, C]; kept k, v [B, H, S, D]

Paper
    Standard practice in decoding; what it costs: Shazeer 2019, arXiv 1911.02150, section 2.4.

Keeps: per token and layer 2 H D numbers, a key and a value for every head.

Not here: the caches (caches/), fewer key heads (grouped.py), less per token (latent.py), nothing
per token (gated_delta.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import torch
from torch import nn

from attnscope.caches import Cache, FullCache, LatentCache, StateCache, WindowCache
from attnscope.core.heads import HeadAttention, HeadShape
from attnscope.core.mechanism import About
from attnscope.core.model_fields import Families, ModelFields

ABOUT: Final = About(
    name="cache",
    title_en="The KV cache",
    title_zh="KV 缓存",
    year=2019,
    paper="standard practice; its cost: Shazeer 2019, arXiv 1911.02150, section 2.4",
    solved="Each key and value is computed once: a prompt of 2 tokens and 3 more take 4 of them, "
    "not 9, and a step costs what one token costs.",
    stuck="What is kept grows with the text: were there a key and value for each of 24 heads, "
    "Qwen3.8-27B would keep 384 KiB per token and 96 GiB for 262,144 tokens.",
    keeps="2 H D numbers: a key and a value per head",
    figures=(
        "cache.prompt", "cache.generated", "cache.with", "cache.without", "shape.qwen38.heads",
        "kv.qwen38.mha.per_token", "kv.qwen38.mha.total", "shape.qwen38.context",
    ),
)  # fmt: skip

FAMILIES: Final[Families] = {"opt": {"enable_bias": True}}
"""What is served, and what its config.json may leave out (the library's own defaults)."""


@dataclass
class Fed:
    """What a layer was made to compute.

    Attributes:
        forwards: how often it was called.
        keys: tokens that went through it, each of which made a key and a value.
        again: those that had been through it before.
    """

    forwards: int = 0
    keys: int = 0
    again: int = 0


def step_by_step(
    layer: Any, x: torch.Tensor, *, prompt: int = 1, cached: bool = True
) -> tuple[torch.Tensor, Fed]:
    """The rows that generating needs, fed as generating feeds them: the prompt, then tokens.

    Args:
        layer: any mechanism's module, causal, with `new_cache`.
        x: [B, T, C], the prompt and all that was generated but the last token.
        prompt: how many of its tokens are there at the first step.
        cached: keep keys and values; or else feed the whole text so far at each step.

    Returns:
        The last row of every step, [B, T - prompt + 1, C], and what a counter on the layer saw.

    Raises:
        ValueError: a prompt of no token, or of more than there are.

    >>> layer = CachedAttention(HeadShape(model=8, heads=2, groups=2, width=4))
    >>> x = torch.randn(1, 4, 8)
    >>> for kept in (False, True):
    ...     print(step_by_step(layer, x, prompt=2, cached=kept)[1])
    Fed(forwards=3, keys=9, again=5)
    Fed(forwards=3, keys=4, again=0)
    """
    T = x.shape[1]
    if not 1 <= prompt <= T:
        raise ValueError(f"prompt: expected 1 to {T}, the tokens of x, got {prompt}")
    fed, cache, first = Fed(), layer.new_cache(x.shape[0]) if cached else None, 0

    def count(_: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        fed.forwards += 1
        fed.keys += given[0].shape[1]

    hook = layer.register_forward_pre_hook(count)
    try:
        rows = []
        for end in range(prompt, T + 1):
            rows.append(layer(x[:, first:end], cache=cache)[:, -1])
            first = end if cached else 0
    finally:
        hook.remove()
    fed.again = fed.keys - T
    return torch.stack(rows, 1), fed


class CachedAttention(HeadAttention):
    """OPT's layer: plain heads, each with a key and a value to keep; positions are added before.

    Args: as `HeadAttention`.
    """

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The layer that a config.json describes.

        Raises:
            ConfigError: a field is missing or odd, or the family is not served.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        model, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        if model % heads:
            raise fields.error(
                f"num_attention_heads: expected a divisor of hidden_size {model}, got {heads}"
            )
        shape = HeadShape(model=model, heads=heads, groups=heads, width=model // heads)
        return cls(shape, bias=bool(fields["enable_bias"]))

    @classmethod
    def from_hf(cls, layer: nn.Module) -> Self:
        """OPT's module, whose output projection is called `out_proj`.

        Raises:
            TypeError, ConfigError: as `HeadAttention.from_hf`.
        """
        weights = layer.state_dict().items()
        return cls._of(layer).load({n.replace("out_proj", "o_proj"): w for n, w in weights})

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache for any batch and dtype; the first tokens decide."""
        return FullCache()


def kept_after(tokens: int) -> dict[str, Cache]:
    """The four kinds of cache after so many tokens of one layer, on the meta device, bfloat16.

    In the shapes of Qwen3-0.6B (8 key heads of 128), of the same with a window of 1,024, of
    DeepSeek-V3 (a latent of 512, a turned key of 64) and of Qwen3.8-27B (48 states of 128 x 128).

    >>> [kept.nbytes // 2**10 for kept in kept_after(4096).values()]
    [16384, 4096, 4608, 3072]
    """

    def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    full, window, latent, state = FullCache(), WindowCache(1024), LatentCache(), StateCache()
    heads = empty(1, 8, tokens, 128)
    full.append(heads, heads)
    window.append(heads, heads)
    latent.append(empty(1, tokens, 512), empty(1, tokens, 64))
    state.update(empty(1, 48, 128, 128, dtype=torch.float32), None, tokens=tokens)
    return {
        "all keys and values": full,
        "those of a window of 1,024": window,
        "a latent and a turned key": latent,
        "a state": state,
    }


def picture() -> str:
    """What is computed with and without a cache, and what each kind of cache weighs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = CachedAttention(HeadShape(model=12, heads=3, groups=3, width=4)).double()
        x = torch.randn(1, 127, 12, dtype=torch.float64)
    lines = ["keys and values computed         without   of them again    with a cache"]
    worst = 0.0
    with torch.no_grad():
        for prompt, more in ((2, 3), (2, 30), (64, 64)):
            fed = x[:, : prompt + more - 1]
            (plain, a), (kept, b) = (
                step_by_step(layer, fed, prompt=prompt, cached=cached) for cached in (False, True)
            )
            worst = max(worst, float((plain - kept).abs().max()))
            lines.append(
                f"a prompt of {prompt:2}, {more:2} generated{a.keys:13,}{a.again:16,}{b.keys:16,}"
            )
    lengths = (1, 1024, 32768)
    table = [kept_after(tokens) for tokens in lengths]
    lines += ["", "kept by one layer, KiB, after" + "".join(f"{n:>11,}" for n in lengths)]
    for name in table[0]:
        held = "".join(f"{kept[name].nbytes / 1024:>11,.0f}" for kept in table)
        lines.append(f"  {name:27}{held}")
    lines += ["", f"law: the cache changes no row: largest difference {worst:.0e}"]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
