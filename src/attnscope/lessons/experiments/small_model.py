"""A transformer small enough to train while somebody waits, and a task that attention must solve.

The idea: associative recall (multi-query, after Arora et al. 2023, arXiv 2312.04927). A sequence
lists pairs k1 v1 k2 v2 ..., each key with a value drawn anew, then asks for some of the keys again:
k2 ? k1 ?. Nothing but the sequence itself says which value belongs to a key, so a model that does
not attend can do no better than guess among the values. A token's embedding is the sum of its own
and of the one before it, so a single layer can look up "the token that came after this one".

Formula (one layer; pre-norm, Zhang and Sennrich 2019, arXiv 1910.07467, for the RMS norm)
    x = E[t_i] + F[t_(i-1)]        x = x + W_O attention(W_Q n(x), W_K n(x), W_V n(x))
    x = x + W_2 relu(W_1 n(x))     logits = n(x) U

Shapes: tokens [B, T]; logits [B, T, vocabulary]. The projections are [width, H * D], D free.

Not here: training (training.py, leak.py), real models (decoder.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from attnscope.lessons.experiments.result import at_least


@dataclass(frozen=True)
class Shape:
    """The sizes of a `SmallModel`.

    Attributes:
        vocabulary: tokens there are.
        width: of the stream, C.
        heads: H.
        head_width: D of q and k; v is width / H wide, whatever D is.
        layers: L.
        scale: multiplies q.k.
        causal: whether a query is blind to keys after it.
        qk_norm: whether every head's q and k go through an RMS norm with a learned weight.
        previous: whether a token's embedding holds the one before it.
        length: tokens there are learned positions for; 0 for none, and any length.
    """

    vocabulary: int
    width: int = 64
    heads: int = 1
    head_width: int = 64
    layers: int = 1
    scale: float = 0.125
    causal: bool = True
    qk_norm: bool = False
    previous: bool = True
    length: int = 0

    def __post_init__(self) -> None:
        at_least("length", self.length, 0)
        for name in ("vocabulary", "width", "heads", "head_width", "layers"):
            at_least(name, getattr(self, name), 1)
        if self.width % self.heads:
            raise ValueError(f"heads: expected a divisor of width {self.width}, got {self.heads}")


@dataclass(frozen=True)
class Look:
    """What the softmax of one forward saw, one number per layer and head, [L, H]."""

    max_logit: torch.Tensor
    entropy: torch.Tensor


class Attention(nn.Module):
    """Plain attention as the formula has it: T is small, and every number is wanted."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        inner = shape.heads * shape.head_width
        self.q_proj = nn.Linear(shape.width, inner, bias=False)
        self.k_proj = nn.Linear(shape.width, inner, bias=False)
        self.v_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.o_proj = nn.Linear(shape.width, shape.width, bias=False)
        if shape.qk_norm:
            self.q_norm = nn.RMSNorm(shape.head_width)
            self.k_norm = nn.RMSNorm(shape.head_width)
        # The input is normed, so its components have variance 1; weights of variance 1 / width give
        # q and k components of variance 1, which is the premise of Var(q.k) = d.
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.normal_(projection.weight, std=shape.width**-0.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The output [B, T, C], and per head the largest score in sight and the mean entropy."""
        B, T, C = x.shape
        q, k, v = (
            projection(x).view(B, T, self.shape.heads, -1).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.shape.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        scores = (q @ k.mT) * self.shape.scale
        if self.shape.causal:
            hidden = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(hidden, -torch.inf)
        weights = scores.softmax(-1)
        with torch.no_grad():
            largest = scores.amax((0, 2, 3))
            entropy = torch.special.entr(weights).sum(-1).mean((0, 2))
        out = (weights @ v).transpose(1, 2).reshape(B, T, C)
        return self.o_proj(out), largest, entropy


class Block(nn.Module):
    """Attention and a network of two layers, each with a norm before it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm_1 = nn.RMSNorm(shape.width)
        self.attention = Attention(shape)
        self.norm_2 = nn.RMSNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        attended, largest, entropy = self.attention(self.norm_1(x))
        x = x + attended
        return x + self.down(nn.functional.relu(self.up(self.norm_2(x)))), largest, entropy


class SmallModel(nn.Module):
    """Embeddings, blocks, a last norm and an output layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        if shape.previous:
            self.embed_previous = nn.Embedding(shape.vocabulary, shape.width)
        if shape.length:
            self.embed_place = nn.Embedding(shape.length, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, Look]:
        """Logits [B, T, vocabulary] and what the softmaxes saw."""
        x = self.embed(tokens)
        if self.shape.previous:
            # The first token has none before it, and gets nothing added.
            x = x + nn.functional.pad(self.embed_previous(tokens[:, :-1]), (0, 0, 1, 0))
        if self.shape.length:
            x = x + self.embed_place(torch.arange(tokens.shape[1]))
        largest, entropies = [], []
        for block in self.blocks:
            x, most, entropy = block(x)
            largest.append(most)
            entropies.append(entropy)
        return self.head(self.norm(x)), Look(torch.stack(largest), torch.stack(entropies))


@dataclass(frozen=True)
class Recall:
    """Associative recall: `pairs` keys with their values, then `asked` of the keys again.

    Tokens 0 .. keys - 1 are keys, keys .. keys + values - 1 are values.
    """

    keys: int = 32
    values: int = 32
    pairs: int = 8
    asked: int = 4

    def __post_init__(self) -> None:
        for name in ("keys", "values", "pairs", "asked"):
            at_least(name, getattr(self, name), 1)
        if self.pairs > self.keys:
            raise ValueError(
                f"pairs: expected at most keys = {self.keys}, since no key comes twice, "
                f"got {self.pairs}"
            )
        if self.asked > self.pairs:
            raise ValueError(f"asked: expected at most pairs = {self.pairs}, got {self.asked}")

    @property
    def vocabulary(self) -> int:
        return self.keys + self.values

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return 2 * (self.pairs + self.asked)

    def batch(self, size: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens [size, length], and the positions [asked] of which the next token is asked for.

        >>> task = Recall(keys=4, values=4, pairs=2, asked=1)
        >>> tokens, places = task.batch(1, torch.Generator().manual_seed(0))
        >>> tokens.shape, places.tolist()
        (torch.Size([1, 6]), [4])
        """
        key = torch.rand(size, self.keys, generator=random).argsort(-1)[:, : self.pairs]
        value = torch.randint(self.values, (size, self.pairs), generator=random) + self.keys
        pick = torch.rand(size, self.pairs, generator=random).argsort(-1)[:, : self.asked]
        pairs = torch.stack([key, value], -1)
        asked = torch.stack([key.gather(1, pick), value.gather(1, pick)], -1)
        places = torch.arange(2 * self.pairs, self.length, 2)
        return torch.cat([pairs, asked], 1).flatten(1), places


@contextlib.contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """One thread and a seed of its own, both as before afterwards.

    The number of threads changes the order of sums, and after hundreds of steps the curve; a model
    of this size is no slower on one.
    """
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def loss_at(
    logits: torch.Tensor, tokens: torch.Tensor, places: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean cross-entropy in nats of the token after each place, and the share that was right.

    Args:
        logits: [B, T, vocabulary].
        tokens: [B, T]; the last token is asked about by the place before it.
        places: [n], below T - 1.
    """
    guess, right = logits[:, places].flatten(0, 1), tokens[:, places + 1].flatten()
    return nn.functional.cross_entropy(guess, right), (
        guess.argmax(-1) == right
    ).float().mean().detach()
