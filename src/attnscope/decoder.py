"""A whole decoder made of the mechanisms: Llama, Qwen3 or Gemma 3, from its folder to its text.

The idea: what stands between a text and the next token fits in one file. Ids become vectors; each
layer adds what attention brings from other tokens, then what a gated MLP makes of one token; a last
norm, and the embedding once more as the head, give a logit for every word. Attention is a mechanism
of `attnscope.mechanisms`, chosen by family; what it keeps is a cache of `attnscope.caches`.

Formula (a layer; Gemma norms what attention and MLP bring as well)
    x <- x + attention(norm x)              norm x = w * x / sqrt(mean x^2 + eps)
    x <- x + W_down (f(W_gate norm x) * W_up norm x)
    logits = W_head norm x

    family       attention                            f      norm weight   embeddings
    llama        grouped.GroupedAttention             silu   w             as they are
    qwen3        qk_norm.QKNormAttention              silu   w             as they are
    gemma3       sliding.SlidingAttention, 5 of 6     gelu   1 + w         times sqrt(C)
                 layers with a window and a rotation
                 of their own, QK-norm in all

Shapes: ids [B, T]; x [B, T, C]; logits [B, T, V]. The tokens of a call stand behind those in the
caches; all rows of a batch are equally long.

Dtypes: float32 unless asked otherwise.

Paper: Touvron et al. 2023 (arXiv 2302.13971), Yang et al. 2025 (arXiv 2505.09388), Gemma Team 2025
(arXiv 2503.19786); the gated MLP is Shazeer 2020 (arXiv 2002.05202), RMSNorm is Zhang and
Sennrich 2019 (arXiv 1910.07467).

Not here: files (decoder_files.py), drawing a token (decoder_sampling.py), tokenizers, padding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional, init
from torch.overrides import TorchFunctionMode

from attnscope.caches import Cache
from attnscope.core.mechanism import Seen
from attnscope.decoder_config import ACTIVATIONS, Config
from attnscope.decoder_files import TensorFiles, read_config, read_ends
from attnscope.decoder_product import is_single_row, quicken, row_product
from attnscope.decoder_sampling import Sampling, choose, probabilities
from attnscope.errors import ModelError
from attnscope.mechanisms.grouped import GroupedAttention
from attnscope.mechanisms.qk_norm import QKNormAttention
from attnscope.mechanisms.sliding import SlidingAttention
from attnscope.positions import Rope, Turn

__all__ = ["Config", "Decoder", "Sampling", "choose", "load", "probabilities"]

MECHANISMS: Final[dict[str, Any]] = {
    "llama": GroupedAttention,
    "qwen3": QKNormAttention,
    "gemma3_text": SlidingAttention,
}
PREFIXES: Final = ("model.", "language_model.model.", "model.language_model.")
"""What stands before a tensor's name; the longer ones where the model also reads pictures."""
PICTURES: Final = ("vision_tower.", "multi_modal_projector.")
"""The part of Gemma 3 that reads pictures, which is left alone."""
Watch = Callable[[int, Seen], None]
"""Called with a layer's number and what it is about to attend to."""


class RMSNorm(nn.Module):
    """w * x / sqrt(mean x^2 + eps), with 1 + w where `offset` is 1; rounded once."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.width))
        self.eps, self.offset = config.eps, float(config.gemma)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., C]."""
        if not self.offset:
            return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # 1 + w is no bfloat16 number
        weight = self.weight.to(wide.dtype) + self.offset
        return functional.rms_norm(wide, weight.shape, weight, self.eps).to(x.dtype)


class GatedMLP(nn.Module):
    """W_down (f(W_gate x) * W_up x): one half decides how much of the other passes."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.inner, bias=config.mlp_bias)
        self.up_proj = nn.Linear(config.width, config.inner, bias=config.mlp_bias)
        self.down_proj = nn.Linear(config.inner, config.width, bias=config.mlp_bias)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., C]."""
        y: torch.Tensor = self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))
        return y


class Layer(nn.Module):
    """Attention, then an MLP; each reads a normed x and adds to x. Names as in the files."""

    def __init__(self, config: Config, index: int) -> None:
        super().__init__()
        self.self_attn = MECHANISMS[config.family].from_config(config.fields, layer=index)
        self.mlp = GatedMLP(config)
        self.input_layernorm = RMSNorm(config)
        self.post_attention_layernorm = RMSNorm(config)
        self.gemma = config.gemma
        if self.gemma:
            self.pre_feedforward_layernorm = RMSNorm(config)
            self.post_feedforward_layernorm = RMSNorm(config)

    def forward(self, x: torch.Tensor, **attending: Any) -> torch.Tensor:
        """x [B, T, C]; attending: cache, positions and watch of the attention."""
        brought = self.self_attn(self.input_layernorm(x), **attending)
        if not self.gemma:
            x = x + brought
            y: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
            return y
        x = x + self.post_attention_layernorm(brought)
        made = self.mlp(self.pre_feedforward_layernorm(x))
        y = x + self.post_feedforward_layernorm(made)
        return y


class SharedRope:
    """A rotation whose cosines and sines are computed once per forward, for all its layers.

    The layers of one forward get the very same tensor of positions, so it is enough to remember
    for which one the last were.
    """

    def __init__(self, rope: Rope) -> None:
        self.rope = rope
        self.last: tuple[torch.Tensor, Turn] | None = None

    def __call__(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Turn q or k [B, H, T, D]."""
        last = self.last
        if last is None or last[0] is not positions:
            wide = torch.promote_types(x.dtype, torch.float32)
            self.last = last = positions, self.rope.turn(positions, dtype=wide)
        return last[1](x)


class Decoder(nn.Module):
    """A causal language model: ids in, logits out.

    Args:
        config: from `Config.read`.

    Attributes:
        config: the same.
        embed_tokens, layers, norm, lm_head: as in the files; a tied model has no head of its own.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.layers))
        self.norm = RMSNorm(config)
        if not config.tied:
            self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        shared: dict[Rope, SharedRope] = {}
        for index in range(config.layers):
            attention = self.attention(index)
            attention.rope = shared.setdefault(attention.rope, SharedRope(attention.rope))

    def attention(self, layer: int) -> Any:
        """The mechanism of a layer."""
        return self.layers[layer].self_attn

    def new_caches(self, batch: int = 1) -> list[Cache]:
        """An empty cache for each layer: of a window where it has one, else of everything."""
        return [self.attention(index).new_cache(batch) for index in range(len(self.layers))]

    def forward(
        self,
        ids: torch.Tensor | Sequence[int],
        caches: Sequence[Cache] | None = None,
        *,
        last: int | None = None,
        watch: Watch | None = None,
    ) -> torch.Tensor:
        """Logits of the token after each token.

        Args:
            ids: [T] or [B, T], the tokens that follow those in the caches.
            caches: from `new_caches`; they keep the keys and values of these tokens. Without, the
                ids are all there is, and nothing is kept.
            last: for how many of the last tokens logits are wanted; all if not given.
            watch: called in each layer with its number and what is about to be attended.

        Returns:
            [B, T or last, V].

        Raises:
            ValueError, TypeError: ids that are none of the vocabulary's, or another model's caches.

        Cost: 2 T FLOPs per weight, and attention's own; logits take 4 V bytes per token.
        """
        rows = self._rows(ids)
        self._one_for_each_layer(caches)
        if last is not None and last < 1:
            raise ValueError(f"last: expected at least 1 token, got {last}")
        return self._logits(rows, caches, last, watch)

    def _logits(
        self,
        ids: torch.Tensor,
        caches: Sequence[Cache] | None,
        last: int | None,
        watch: Watch | None,
    ) -> torch.Tensor:
        start = 0 if caches is None else caches[0].length
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)
        x = functional.embedding(ids, self.embed_tokens.weight)
        if self.config.gemma:
            x = x * x.new_tensor(self.config.width**0.5)  # rounded to the dtype first, as trained
        for index, layer in enumerate(self.layers):
            x = layer(
                x,
                cache=None if caches is None else caches[index],
                positions=positions,
                watch=None if watch is None else functools.partial(watch, index),
            )
        x = self.norm(x if last is None else x[:, -last:])
        head = (self.embed_tokens if self.config.tied else self.lm_head).weight
        logits = row_product(x, head) if is_single_row(x, head) else functional.linear(x, head)
        cap = self.config.softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def _one_for_each_layer(self, caches: Sequence[Cache] | None) -> None:
        if caches is not None and len(caches) != len(self.layers):
            raise ValueError(
                f"caches: expected one for each of the {len(self.layers)} layers, got {len(caches)}"
            )

    def _rows(self, ids: torch.Tensor | Sequence[int]) -> torch.Tensor:
        """Ids as int64 [B, T]."""
        try:
            rows = torch.as_tensor(ids, device=self.norm.weight.device)
        except (TypeError, ValueError, RuntimeError):
            what = repr(ids) if len(repr(ids)) <= 40 else type(ids).__name__
            raise TypeError(f"ids: expected integers [T] or [B, T], got {what}") from None
        rows = rows[None] if rows.ndim == 1 else rows
        if rows.numel() == 0:
            raise ValueError("ids: expected at least one token, got none")
        if rows.ndim != 2 or rows.dtype not in (torch.int64, torch.int32):
            raise TypeError(
                f"ids: expected integers [T] or [B, T], got {list(rows.shape)} {rows.dtype}"
            )
        low, high = int(rows.min()), int(rows.max())
        if low < 0 or high >= self.config.vocabulary:
            wrong = low if low < 0 else high
            raise ValueError(
                f"ids: {wrong} is not in the vocabulary, which goes from 0 to "
                f"{self.config.vocabulary - 1}"
            )
        return rows.long()

    def generate(
        self,
        ids: torch.Tensor | Sequence[int],
        *,
        tokens: int,
        sampling: Sampling | None = None,
        generator: torch.Generator | None = None,
        ends: Sequence[int] | None = None,
        caches: Sequence[Cache] | None = None,
        watch: Watch | None = None,
    ) -> Iterator[int]:
        """Tokens that follow, one by one, as soon as each is known.

        Args:
            ids: [T] or [1, T], the text so far, or what follows the tokens in `caches`.
            tokens: the most tokens to give.
            sampling: how they are drawn; None for the likeliest at each step.
            generator: draws; seed it for the same text again.
            ends: ids after which nothing follows (the last one given is one of them); the model's
                own if not given, `()` for none.
            caches: to go on from, or to keep; the last token given is not in them yet.
            watch: as in `forward`, for the text and for every step.

        Raises:
            ValueError, TypeError: at once and not at the first token: a batch, ids that are none,
                fewer than one token, more than the model's context holds, or other caches.

        Cost: a step reads every weight once.
        """
        rows = self._rows(ids)
        if rows.shape[0] != 1:
            raise ValueError(f"ids: expected one text, [T] or [1, T], got {list(rows.shape)}")
        if not isinstance(tokens, int) or tokens < 1:
            raise ValueError(f"tokens: expected a whole number of at least 1, got {tokens}")
        if not isinstance(sampling, Sampling | None):
            raise TypeError(f"sampling: expected a Sampling or None, got {sampling!r}")
        self._one_for_each_layer(caches)
        kept = self.new_caches() if caches is None else caches
        before, context = kept[0].length + rows.shape[1], self.config.context
        if context is not None and before + tokens > context:
            raise ValueError(
                f"tokens: {before:,} tokens of text and {tokens:,} more are beyond the model's "
                f"context of {context:,}; ask for at most {max(0, context - before):,}, or give a "
                "shorter text"
            )
        stop = frozenset(self.config.ends if ends is None else ends)

        @torch.no_grad()
        def step(new: torch.Tensor) -> torch.Tensor:
            logits = self._logits(new, kept, 1, watch)
            return choose(logits[:, -1], sampling, generator)

        def steps() -> Iterator[int]:
            new = rows
            for number in range(tokens):
                chosen = step(new)
                token = int(chosen)
                yield token
                if token in stop or number + 1 == tokens:
                    return
                new = chosen[:, None]

        return steps()


class _Unfilled(TorchFunctionMode):
    """Leaves new weights as they are: they come from a file, and memory that nobody touches costs
    nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run anything but what `nn.Linear` and `nn.Embedding` fill themselves with."""
        given = kwargs or {}
        if getattr(func, "__module__", "") == init.__name__:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def load(
    folder: str | Path, *, dtype: torch.dtype | None = torch.float32, device: str = "cpu"
) -> Decoder:
    """The decoder of a model's folder, ready to run.

    Args:
        folder: with config.json and safetensors, as `attnscope models path NAME` prints it.
        dtype: of the weights; None for the one they are stored in.
        device: where they go.

    Raises:
        ModelError: a file is missing or damaged; a tensor is missing, of another shape, or has no
            place in the model. UnsupportedModelError: a family that is not served.
        ConfigError: config.json is not as it should be.

    Cost: the weights are mapped; those stored in the dtype asked for are not copied.
    """
    place = Path(folder)
    raw = read_config(place)
    config = Config.read(raw, ends=read_ends(place, raw))
    with _Unfilled():
        decoder = Decoder(config)
    files = TensorFiles(place)
    prefix = next((p for p in PREFIXES if f"{p}embed_tokens.weight" in files), PREFIXES[0])
    for name, parameter in list(decoder.named_parameters()):
        stored = prefix + name
        if name.startswith("lm_head."):
            stored = "language_model." + name if prefix == PREFIXES[1] else name
        value = files.take(stored, tuple(parameter.shape), dtype).to(device)
        owner, _, leaf = name.rpartition(".")
        setattr(decoder.get_submodule(owner), leaf, nn.Parameter(value, requires_grad=False))
    _refuse_surplus(files, config, prefix)
    quicken(decoder)
    return decoder.eval()


def _refuse_surplus(files: TensorFiles, config: Config, prefix: str) -> None:
    """A tensor that nobody asked for means that the model is another one than we built."""
    for name in files.left_over():
        if name.endswith(".rotary_emb.inv_freq"):  # old files keep what the config says anyway
            continue
        if config.gemma and name.removeprefix("model.").startswith(PICTURES):
            continue
        if name.endswith("lm_head.weight") and config.tied:  # some keep the embedding twice
            shape = (config.vocabulary, config.width)
            embedding = files.take(f"{prefix}embed_tokens.weight", shape)
            if torch.equal(files.take(name, shape), embedding):
                continue
            raise ModelError(
                f"{files.folder}: the config ties the head to the embedding, and lm_head.weight is "
                "another matrix."
            )
        raise ModelError(
            f"{files.folder} has the tensor {name}, for which a {config.family} model of this "
            "config has no place."
        )
