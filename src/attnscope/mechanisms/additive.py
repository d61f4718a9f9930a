"""Additive attention: look back at every source position, each scored by a small network.

The idea: the decoder need not live on one summary of the source. At each step its state is compared
with every encoder state by a layer of tanh, the scores become weights, and the weighted average of
the encoder states is what this step takes along. The price: tanh stands between query and key, so
that no matrix product does all pairs; each pair has A numbers of its own.

Formula (q_i = W_1 s_i the projected queries, k_j = W_2 h_j the projected keys)
    e_ij = energy . tanh(q_i + k_j)    p_i = softmax(e_i over the j in sight)    c_i = sum p_ij h_j

Shapes: q [B, H, T, A], k [B, H, S, A], v [B, H, S, E], energy [A]; A is d_a in the lesson's words.

Units: all pairs at once are T x S x A numbers: 8 GiB for T = S = 4096, A = 256 in bfloat16, where
the scores of a dot product are 32 MiB.

Dtypes: tanh in the dtype of q, the softmax in float32 (float64 for float64).

Paper: Bahdanau et al. 2014, arXiv 1409.0473.

Keeps: A + E numbers per token: the projected key, which never changes, and the state itself.

Not here: the encoder (rnn.py); values that are NaN out of sight.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnscope.caches import FullCache
from attnscope.core.mechanism import About, Counts, Watch, pairs_in_sight, parameters_of
from attnscope.core.picture import bars, map_picture

ABOUT = About(
    name="additive",
    title_en="Additive attention",
    title_zh="Bahdanau 加性注意力",
    year=2014,
    paper="Bahdanau et al. 2014, arXiv 1409.0473",
    solved=(
        "Each decoder step scores every source position and takes a weighted average, in place of "
        "one vector for the whole sentence."
    ),
    stuck=(
        "Every pair passes through tanh on its own: at T = 4,096 and d_a = 256 the plain form puts "
        "down 8.0 GiB for one head of one layer, a dot product 32 MiB. And the RNN around it still "
        "reads one token after the other."
    ),
    keeps="d_a + d_model numbers per token: the projected key and the state",
    figures=("example.tokens", "example.additive_width", "additive.bytes", "dot_product.bytes"),
)

BLOCK: Final = 1 << 24
"""Bytes of pairs that "blocked" holds at once, or those of one query if they are more."""


def additive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    energy: Tensor,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    impl: str = "blocked",
) -> Tensor:
    """Additive attention of T queries to S keys.

    Args:
        q: [B, H, T, A], projected.
        k: [B, H, S, A], projected.
        v: [B, H, S, E].
        energy: [A], the vector that each pair's tanh is multiplied by.
        causal: whether a query is blind to later keys; the queries stand at the end of the keys.
        mask: bool broadcastable to [B, H, T, S]; True: may see.
        impl: "reference" (the formula: T x S x A numbers at once) or "blocked" (a few queries at a
            time, on the way back too).

    Returns:
        [B, H, T, E] in the dtype of v; 0 for a query that sees nothing.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.

    Cost: B H T S (2 A + 2 E) FLOPs and B H T S A tanhs, half of it when causal and blocked. Memory
    beside the output: "reference" B H T S A numbers, "blocked" max(BLOCK bytes, S A numbers).

    >>> x = torch.zeros(1, 1, 3, 2)
    >>> additive(x, x, torch.eye(3)[None, None], torch.ones(2), causal=True)[0, 0, 1].tolist()
    [0.5, 0.5, 0.0]
    """
    mask = _checked(q, k, v, energy, causal=causal, mask=mask)
    return IMPLS[_known(impl)](q, k, v, energy, causal=causal, mask=mask)


def additive_weights(
    q: Tensor,
    k: Tensor,
    energy: Tensor,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """The weights p [B, H, T, S] themselves, as "reference" makes them; see `additive`."""
    mask = _checked(q, k, k, energy, causal=causal, mask=mask)
    return _weights(q, k, energy, _sight(slice(0, q.shape[2]), q, k, causal=causal, mask=mask))


def pair_bytes(queries: int, keys: int, units: int, dtype: torch.dtype = torch.bfloat16) -> int:
    """Bytes of tanh(q_i + k_j) for all pairs of one head.

    >>> pair_bytes(4096, 4096, 256) / 2**30, pair_bytes(4096, 4096, 1) / 2**20
    (8.0, 32.0)
    """
    return queries * keys * units * dtype.itemsize


def _sight(rows: slice, q: Tensor, k: Tensor, *, causal: bool, mask: Tensor | None) -> Tensor:
    """Which keys some of the queries see, bool, broadcastable to [B, H, t, S]."""
    T, S = q.shape[2], k.shape[2]
    last = torch.arange(T, device=q.device)[rows, None] + (S - T if causal else S)
    seen = torch.arange(S, device=q.device) <= last
    return seen if mask is None else seen & mask[:, :, rows]


def _weights(q: Tensor, k: Tensor, energy: Tensor, seen: Tensor) -> Tensor:
    pairs = torch.tanh(q[..., :, None, :] + k[..., None, :, :])
    scores = (pairs @ energy[:, None]).squeeze(-1)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    # A row that sees nothing gets weights first and loses them after: the slope of NaN is NaN.
    hidden = ~seen & seen.any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
    return weights.masked_fill(~seen, 0.0).to(q.dtype)


def _some_rows(q: Tensor, k: Tensor, v: Tensor, energy: Tensor, *, seen: Tensor) -> Tensor:
    return _weights(q, k, energy, seen).to(v.dtype) @ v


def _reference(
    q: Tensor, k: Tensor, v: Tensor, energy: Tensor, *, causal: bool, mask: Tensor | None
) -> Tensor:
    seen = _sight(slice(0, q.shape[2]), q, k, causal=causal, mask=mask)
    return _some_rows(q, k, v, energy, seen=seen)


def _blocked(
    q: Tensor, k: Tensor, v: Tensor, energy: Tensor, *, causal: bool, mask: Tensor | None
) -> Tensor:
    """Some sequences and queries at a time; a causal band ends at its last query's own key."""
    B, H, T, A = q.shape
    S = k.shape[2]
    row = H * S * A * q.element_size()
    wide, tall = max(1, BLOCK // (row * max(T, 1))), max(1, BLOCK // row)
    tracked = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, energy))
    parts = []
    for some in (slice(b, b + wide) for b in range(0, B, wide)):
        q_, k_, v_ = q[some], k[some], v[some]
        mask_ = None if mask is None else mask[some]
        bands = [v_.new_zeros(len(v_), H, 0, v.shape[-1])]
        for rows in (slice(t, min(t + tall, T)) for t in range(0, T, tall)):
            end = S - T + rows.stop if causal else S
            seen = _sight(rows, q_, k_, causal=causal, mask=mask_)[..., :end]
            band = (q_[:, :, rows], k_[:, :, :end], v_[:, :, :end], energy)
            make = functools.partial(_some_rows, *band, seen=seen)
            # Tracked, only the inputs are kept; the pairs are made once more on the way back.
            if tracked:
                bands.append(checkpoint(make, use_reentrant=False, preserve_rng_state=False))
            else:
                bands.append(make())
        parts.append(torch.cat(bands, 2))
    return torch.cat(parts) if parts else v.new_zeros(B, H, T, v.shape[-1])


IMPLS: Final = {"reference": _reference, "blocked": _blocked}


def _known(impl: str) -> str:
    if impl not in IMPLS:
        raise ValueError(f"impl: unknown {impl!r}; there are {', '.join(IMPLS)}")
    return impl


def _checked(
    q: Tensor, k: Tensor, v: Tensor, energy: Tensor, *, causal: bool, mask: Tensor | None
) -> Tensor | None:
    """The mask as a view of [B, H, T, S]."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(f"{name}: expected [B, H, T, D], got {list(x.shape)}")
    A, T, S = q.shape[-1], q.shape[2], k.shape[2]
    if k.shape[:2] != q.shape[:2] or k.shape[-1] != A or S == 0:
        raise ValueError(
            f"k: expected [{q.shape[0]}, {q.shape[1]}, S, {A}] like q, got {list(k.shape)}"
        )
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v: expected {[*k.shape[:3]]} and a width like k, got {list(v.shape)}")
    if energy.shape != (A,):
        raise ValueError(f"energy: expected [{A}], the width of q and k, got {list(energy.shape)}")
    if causal and T > S:
        raise ValueError(f"causal: {T} queries cannot stand at the end of {S} keys")
    if mask is None:
        return None
    if mask.dtype != torch.bool:
        raise TypeError(f"mask: expected bool (True: may see), got {mask.dtype}")
    whole = (*q.shape[:2], T, S)
    try:
        return mask.expand(whole)
    except RuntimeError:
        raise ValueError(
            f"mask: expected a shape that broadcasts to {list(whole)}, got {list(mask.shape)}"
        ) from None


@dataclass(frozen=True)
class Memory:
    """The source as the decoder looks at it: computed once, read at every step.

    Attributes:
        keys: W_2 h, [B, 1, S, A].
        values: h, [B, 1, S, E].
        mask: bool [B, 1, 1, S], True for the tokens of each source; None if all are.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None = None


class AdditiveAttention(nn.Module):
    """One head of additive attention: of a decoder to a source, or of a text to its own past.

    Args:
        width: C, of the states that are looked at.
        units: A, of the layer that compares.
        query: width of the queries; C if not given.
        impl: how `additive` is computed.
    """

    def __init__(
        self, width: int, units: int, *, query: int | None = None, impl: str = "blocked"
    ) -> None:
        super().__init__()
        query = width if query is None else query
        for name, value in (("width", width), ("units", units), ("query", query)):
            if value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value}")
        self.width, self.units, self.impl = width, units, _known(impl)
        self.query_proj = nn.Linear(query, units, bias=False)
        self.key_proj = nn.Linear(width, units, bias=False)
        self.energy = nn.Parameter(torch.empty(units))
        nn.init.uniform_(self.energy, -(units**-0.5), units**-0.5)

    def remember(self, states: Tensor, *, lengths: Tensor | None = None) -> Memory:
        """Project a source once.

        Args:
            states: [B, S, C], of the encoder.
            lengths: integer [B]: how many of them are tokens; the others are never looked at.
        """
        self._check("states", states, self.width)
        mask = None
        if lengths is not None:
            if lengths.shape != states.shape[:1] or lengths.dtype.is_floating_point:
                raise ValueError(
                    f"lengths: expected integers [{len(states)}], one per source, got "
                    f"{list(lengths.shape)} {lengths.dtype}"
                )
            place = torch.arange(states.shape[1], device=states.device)
            mask = (place < lengths[:, None])[:, None, None]
        return Memory(self.key_proj(states)[:, None], states[:, None], mask)

    def read(self, query: Tensor, memory: Memory) -> Tensor:
        """What the queries [B, T, Cq] take from a source, [B, T, C]; a decoder's step has T = 1."""
        self._check("query", query, self.query_proj.in_features)
        q = self.query_proj(query)[:, None]
        return additive(
            q, memory.keys, memory.values, self.energy, mask=memory.mask, impl=self.impl
        )[:, 0]

    def forward(
        self,
        x: Tensor,
        *,
        cache: FullCache | None = None,
        positions: Tensor | None = None,
        watch: Watch | None = None,
    ) -> Tensor:
        """Causal attention of x [B, T, C] to itself and the cache: [B, T, C].

        Args:
            cache: from `new_cache`.
            positions: not read; nothing here depends on them.
            watch: not possible: a `Seen` describes scores that are products; see
                `additive_weights`.

        Raises:
            ValueError: naming the argument, what was expected and what came.
        """
        if watch is not None:
            raise ValueError(
                "watch: additive scores are not products of q and k, which is all that a Seen can "
                "tell; additive_weights gives the weights themselves"
            )
        self._check("x", x, self.width)
        if self.query_proj.in_features != self.width:
            raise ValueError(
                f"x: this layer compares queries of width {self.query_proj.in_features} with "
                f"states of {self.width}; give them apart, to remember() and read()"
            )
        q, k, v = self.query_proj(x)[:, None], self.key_proj(x)[:, None], x[:, None]
        if cache is not None:
            k, v = cache.append(k, v)
        return additive(q, k, v, self.energy, causal=True, impl=self.impl)[:, 0]

    def new_cache(self, batch: int = 1, *, dtype: torch.dtype | None = None) -> FullCache:
        """An empty cache; batch and dtype are those of the first tokens."""
        return FullCache()

    def counts(
        self, tokens: int, cached: int = 0, *, dtype: torch.dtype = torch.bfloat16
    ) -> Counts:
        """Of `forward`. The tanhs, A for each pair, are no FLOPs by the usual way of counting."""
        A, C, keys = self.units, self.width, tokens + cached
        per_token = (A + C) * dtype.itemsize
        return Counts(
            parameters=parameters_of(self),
            projection_flops=2 * tokens * A * (C + self.query_proj.in_features),
            flops=2 * (A + C) * pairs_in_sight(tokens, cached),
            flops_dense=2 * (A + C) * tokens * keys,
            bytes_per_token=per_token,
            kept_bytes=per_token * keys,
        )

    def _check(self, name: str, x: Tensor, width: int) -> None:
        if x.ndim != 3 or x.shape[-1] != width:
            raise ValueError(f"{name}: expected [B, T, {width}], got {list(x.shape)}")


class AttentiveDecoder(nn.Module):
    """The decoder of the RNN translation model: look back, then take a step.

    Formula (c_i read with the state before the step; the recurrence is torch's GRU)
        c_i = read(s_{i-1})      s_i = GRU([y_{i-1}, c_i], s_{i-1})

    Args:
        source: C of the encoder's states.
        target: width of the target's embeddings.
        hidden: N of the decoder's state.
        units: A.
    """

    def __init__(self, source: int, target: int, hidden: int, *, units: int) -> None:
        super().__init__()
        self.attention = AdditiveAttention(source, units, query=hidden)
        self.gru = nn.GRUCell(target + source, hidden)

    def step(self, y: Tensor, state: Tensor, memory: Memory) -> Tensor:
        """The next state [B, N], from the last output y [B, C'] and the state [B, N]."""
        context = self.attention.read(state[:, None], memory)[:, 0]
        new: Tensor = self.gru(torch.cat([y, context], -1), state)
        return new


def picture() -> str:
    """Weights of a text on its own past, the two forms side by side, and what pairs weigh."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = AdditiveAttention(6, 8).double()
        x = 2 * torch.randn(1, 600, 6, dtype=torch.float64)  # more than one block
    with torch.no_grad():
        q, k, v = 4 * layer.query_proj(x)[:, None], 4 * layer.key_proj(x)[:, None], x[:, None]
        energy = 4 * layer.energy
        weights = additive_weights(q[:, :, :7], k[:, :, :7], energy, causal=True)
        plain, blocked = (additive(q, k, v, energy, causal=True, impl=i) for i in IMPLS)
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    gib = {
        "additive": pair_bytes(4096, 4096, 256) / 2**20,
        "dot product": pair_bytes(4096, 4096, 1) / 2**20,
        "additive, blocked": BLOCK / 2**20,
    }
    return "\n".join(
        [
            "weights of each of 7 tokens (row) on those before it (column)",
            map_picture(weights[0, 0].masked_fill(hidden, torch.nan).tolist()),
            "what stands in memory at once, T = 4,096, d_a = 256, bfloat16, one head of one layer",
            bars(gib, unit=" MiB"),
            f"law: rows sum to 1: off by {float((weights.sum(-1) - 1).abs().max()):.1e}",
            f"law: blocked is the formula (600 tokens): off by {(plain - blocked).abs().max():.1e}",
        ]
    )


if __name__ == "__main__":
    print(picture())
