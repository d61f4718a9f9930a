"""Rotary positions in attention: queries and keys are turned, values are not.

The idea: a dot product does not know where its tokens stand. Turn the query at position i by i f
and the key at position j by j f, pair of numbers by pair, and their product knows the distance
i - j and nothing else of the two positions. A value that were turned would carry its own position
into what is fetched, so values stay as they are. Often only a part of a head is turned: 64 numbers
of 256 in GPT-J and in Qwen3.8-27B; the others compare what tokens are, wherever they stand.

Formula (two numbers of a pair as one complex number, frequency f of the pair)
    q'_i = q_i e^(i f sqrt(-1))    k'_j = k_j e^(j f sqrt(-1))
    score of the pair = Re(q'_i conj(k'_j)) = Re(q_i conj(k_j) e^((i - j) f sqrt(-1)))

Shapes
    q [B, H, T, D]    k, v [B, G, S, D]    positions of the keys int64 [S] or [B, S]

Paper
    Su et al. 2021 (RoFormer), arXiv 2104.09864; a part of the head and pairs of neighbours: GPT-J
    (Wang and Komatsuzaki 2021); pairs of halves: GPT-NeoX-20B, arXiv 2204.06745.

Keeps: per token and layer 2 G D numbers, keys that are turned already; nothing of its own.

Not here: the rotation itself, frequencies stretched for longer texts, the fields of a config
(positions/); positions decoupled from a latent (latent.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import torch
from torch import nn

from attnscope.caches import FullCache
from attnscope.core.head_inputs import check_heads
from attnscope.core.heads import HeadAttention, HeadShape, head_attention
from attnscope.core.mechanism import About
from attnscope.core.model_fields import Families, ModelFields
from attnscope.core.picture import bars
from attnscope.positions import Rope

ABOUT: Final = About(
    name="rope",
    title_en="Rotary positions (RoPE)",
    title_zh="旋转位置编码（RoPE）",
    year=2021,
    paper="Su et al. 2021, arXiv 2104.09864",
    solved="Scores that depend on the distance of two tokens, whatever their positions are, at no "
    "cost in parameters or in bytes kept; of 256 numbers in a head Qwen3.8-27B turns 64.",
    stuck="The rotation stands between a projection and the cache and is another one at every "
    "position, so MLA cannot multiply its matrices through it, and keeps 64 turned numbers apart.",
    keeps="nothing of its own: keys are kept turned",
    figures=("shape.qwen38.head_width", "shape.qwen38.rotated", "shape.dsv2.rope"),
)

IMPLS: Final = ("reference", "fast")

FAMILIES: Final[Families] = {
    "gptj": {"rotary_dim": 64},
    "gpt_neox": {"attention_bias": True},
}
"""What is served, and what their config.json may leave out (the library's own defaults)."""


def rotary_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    rope: Rope,
    positions: torch.Tensor | None = None,
    turn_values: bool = False,
    scale: float | None = None,
    impl: str = "fast",
) -> torch.Tensor:
    """Causal attention of queries and keys that are turned by their positions.

    Args:
        q: [B, H, T, D], not turned yet; the T queries stand at the end of the S keys.
        k: [B, G, S, D], likewise.
        v: [B, G, S, E]; as wide as the rotation at least, if it is turned.
        rope: which numbers turn, and how fast.
        positions: int64 [S] or [B, S], of the keys; 0 .. S - 1 if not given.
        turn_values: turn v as well, which is wrong: what is fetched then depends on where a text
            begins.
        scale: of the scores; 1 / sqrt(D) if not given.
        impl: "reference" (complex numbers, T x S memory) or "fast".

    Returns:
        [B, H, T, E].

    Raises:
        ValueError, TypeError: an unknown impl, a rotation wider than a head, positions that are not
            those of the keys, or as `check_heads`.

    Cost: that of attention, and 3 FLOPs per number that is turned.

    >>> x = torch.randn(1, 1, 5, 4)
    >>> near = rotary_attention(x, x, x, rope=Rope.plain(4))
    >>> far = rotary_attention(x, x, x, rope=Rope.plain(4), positions=torch.arange(70, 75))
    >>> torch.allclose(near, far, atol=1e-5)
    True
    """
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    check_heads(q, k, v)
    T, S = q.shape[2], k.shape[2]
    if rope.rotary > q.shape[-1]:
        raise ValueError(f"rope: turns {rope.rotary} numbers, but heads are {q.shape[-1]} wide")
    positions = torch.arange(S, device=k.device) if positions is None else positions
    if positions.shape not in ((S,), (k.shape[0], S)):
        raise ValueError(
            f"positions: expected [{S}] or [{k.shape[0]}, {S}], one per key, "
            f"got {list(positions.shape)}"
        )
    own = positions[..., S - T :]
    if impl == "fast":
        q, k, v = rope(q, own), rope(k, positions), rope(v, positions) if turn_values else v
        return head_attention(q, k, v, scale=scale)
    q, k = _turned(q, own, rope), _turned(k, positions, rope)
    v = _turned(v, positions, rope) if turn_values else v
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    hidden = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1)
    scores = (q.shape[-1] ** -0.5 if scale is None else scale) * q @ k.mT
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def _turned(x: torch.Tensor, positions: torch.Tensor, rope: Rope) -> torch.Tensor:
    """x with its pairs multiplied by e^(p f i): what `rope(x, positions)` is, as the paper says."""
    pairs, wide = rope.rotary // 2, torch.promote_types(x.dtype, torch.float32)
    f = torch.tensor(rope.frequencies, dtype=wide, device=x.device)
    angles = positions.unsqueeze(-1).to(wide) * f
    angles = angles.unsqueeze(-3) if positions.ndim == 2 else angles  # the same for all heads
    part, rest = x[..., : 2 * pairs].to(wide), x[..., 2 * pairs :]
    axes = (pairs, 2) if rope.interleaved else (2, pairs)
    one, two = part.unflatten(-1, axes).unbind(-1 if rope.interleaved else -2)
    turned = torch.complex(one, two) * torch.polar(torch.full_like(angles, rope.factor), angles)
    both = torch.stack([turned.real, turned.imag], -1 if rope.interleaved else -2).flatten(-2)
    return torch.cat([both.to(x.dtype), rest], -1)


class RotaryAttention(HeadAttention):
    """GPT-J's and GPT-NeoX's layer: plain heads, of which a part is turned.

    Args: as `HeadAttention`.
    """

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, layer: int = 0) -> Self:
        """The layer that a config.json describes.

        Raises:
            ConfigError: a field is missing or odd, or the family is not served.
        """
        fields = ModelFields(config, families=FAMILIES, layer=layer, reader=cls.__name__)
        neighbours = fields.kind == "gptj"
        names = ("n_embd", "n_head") if neighbours else ("hidden_size", "num_attention_heads")
        model, heads = map(fields.count, names)
        if model % heads:
            raise fields.error(f"{names[1]}: expected a divisor of {names[0]} {model}, got {heads}")
        width = model // heads
        shape = HeadShape(model=model, heads=heads, groups=heads, width=width)
        if not neighbours:
            rope = Rope.from_config(fields.rope(), width=width)
            return cls(shape, rope=rope, bias=bool(fields["attention_bias"]))
        turned = fields.count("rotary_dim")
        if turned % 2 or turned > width:
            raise fields.error(
                f"rotary_dim: expected an even number up to the head's width {width}, got {turned}"
            )
        return cls(shape, rope=Rope.plain(width, rotary=turned, interleaved=True))

    @classmethod
    def from_hf(cls, layer: nn.Module) -> Self:
        """GPT-J's module, or GPT-NeoX's, whose `query_key_value` holds [q, k, v] head by head.

        Raises:
            TypeError, ConfigError: as `HeadAttention.from_hf`.
        """
        module, own = cls._of(layer), layer.state_dict()
        last = "dense" if "dense.weight" in own else "out_proj"
        weights = {}
        for name, tensor in own.items():
            place, _, kind = name.rpartition(".")
            if place == "query_key_value":
                blocks = tensor.unflatten(0, (module.shape.heads, 3, module.shape.width))
                for letter, part in zip("qkv", blocks.unbind(1), strict=True):
                    weights[f"{letter}_proj.{kind}"] = part.flatten(0, 1)
            else:
                weights[f"o_proj.{kind}" if place == last else name] = tensor
        return module.load(weights)

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache for any batch and dtype; the first tokens decide."""
        return FullCache()


def picture() -> str:
    """What scores know of positions, and what happens to a text that begins elsewhere."""
    rope = Rope.plain(64)
    one = torch.ones(1, 1, 1, 64, dtype=torch.float64)
    scores = {}
    for distance in (0, 1, 2, 4, 8, 16, 32, 64, 128):
        at = torch.tensor([distance]), torch.tensor([0])
        turned = [rope(one, place) for place in at]
        scores[f"i - j = {distance:3}"] = round(float((turned[0] * turned[1]).sum()) / 64, 3)
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 12, 64, generator=random, dtype=torch.float64)
    lines = [
        "a query and a key of ones, 64 wide: their score (1 if not turned) by distance",
        bars(scores, most=1.0),
        "",
        "12 tokens that begin at position 0 or 1,000: largest change of the outputs",
    ]
    moved = torch.arange(1000, 1012)
    for name, wrong in (("q and k turned", False), ("v turned too (wrong)", True)):
        both = [
            rotary_attention(q, k, v, rope=rope, positions=places, turn_values=wrong)
            for places in (None, moved)
        ]
        lines.append(f"  {name:22} {float((both[0] - both[1]).abs().max()):.0e}")
    few = Rope.plain(64, rotary=16)
    gaps = [
        float((rotary_attention(q, k, v, rope=r) - rotary_attention(q, k, v, rope=r, impl=IMPLS[0]))
              .abs().max())
        for r in (rope, few, Rope.plain(64, interleaved=True))
    ]  # fmt: skip
    lines += [
        "",
        "law: whole heads, 16 numbers of 64, and pairs of neighbours are products with e^(p f i):",
        f"     largest difference {max(gaps):.0e}",
        "law: a rotation keeps lengths: |q'| / |q| - 1 is at most "
        f"{float((rope(q, moved).norm(dim=-1) / q.norm(dim=-1) - 1).abs().max()):.0e}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
