"""The gated delta rule as matrix products over chunks, and the choice of who computes it.

The idea: token by token, each of T tokens reads and corrects a D x E state, and a processor that
lives from matrix products starves. But the corrections within a chunk of C tokens depend on each
other only through a triangle of C x C numbers: solve that once, and what is left are products, of
all chunks at once but for T / C small ones that carry the state along.

Formula (one chunk; L_i sums its log decays up to token i; S the state before it; c the scale)
    A_ij = beta_i e^(L_i - L_j) k_i . k_j   (j < i)      P_ij = c e^(L_i - L_j) q_i . k_j   (j <= i)
    [X, Y] = (I + A)^-1 [beta V, beta e^L K]             U = X - Y S        what is really written
    O = c e^L (Q S) + P U                                S <- e^(L_last) S + K^T (e^(L_last - L) U)

Shapes
    q, k [B, G, T, D]    v, o [B, H, T, E]    g, beta [B, H, T]    state [B, H, D, E]
    value head h reads key head h // (H / G)

Dtypes: float32 inside (float64 for float64), sums of log decays in float64; the state stays so, o
has the dtype of v.

Not here: what the rule means, and its form token by token (mechanisms/gated_delta.py); the same in
compiled loops (fused_delta.py).
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.nn import functional

CHUNK: Final = 64
"""Tokens per chunk: the triangle's work grows with it, the number of steps falls."""

LOWEST: Final = -1e3
"""No log decay counts as lower: its exponential is 0 anyway, and -inf - -inf would be NaN."""

EPSILON: Final = 1e-6
"""Added to a squared length before its root is taken."""


def unit_length(x: torch.Tensor) -> torch.Tensor:
    """x / sqrt(|x|^2 + 1e-6) over the last axis: the small number is inside the root.

    >>> unit_length(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    """
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPSILON)


def checked(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None,
) -> None:
    """Refuse what does not fit together.

    Raises:
        ValueError: a rank, batch, number of heads, length or width; a log decay above 0.
        TypeError: a dtype.
    """
    for name, x, letters in (("q", q, "B, G, T, D"), ("v", v, "B, H, T, E")):
        if x.ndim != 4:
            raise ValueError(f"{name}: expected [{letters}], got shape {list(x.shape)}")
    B, G, T, D = q.shape
    H, E = v.shape[1], v.shape[3]
    if k.shape != q.shape:
        raise ValueError(f"k: expected the shape of q, {list(q.shape)}, got {list(k.shape)}")
    if v.shape[0] != B or v.shape[2] != T:
        raise ValueError(f"v: expected [{B}, H, {T}, E] as q has it, got {list(v.shape)}")
    if not G or H % G:
        raise ValueError(f"v: expected heads that are a multiple of the {G} of q and k, got {H}")
    for name, x in (("g", g), ("beta", beta)):
        if x.shape != (B, H, T):
            raise ValueError(
                f"{name}: expected [{B}, {H}, {T}], one number per value head and token, "
                f"got {list(x.shape)}"
            )
        if not x.dtype.is_floating_point:
            raise TypeError(f"{name}: expected floating point, got {x.dtype}")
    if state is not None and state.shape != (B, H, D, E):
        raise ValueError(f"state: expected [{B}, {H}, {D}, {E}], got {list(state.shape)}")
    _checked_dtypes(q, k, v, state)
    if g.device.type != "meta" and bool((g > 0).any()):
        raise ValueError(
            f"g: expected log decays, at most 0, got {float(g.max()):g}; give log(decay), not decay"
        )


def _checked_dtypes(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, state: torch.Tensor | None
) -> None:
    if not q.dtype.is_floating_point or not q.dtype == k.dtype == v.dtype:
        kinds = ", ".join(str(x.dtype) for x in (q, k, v))
        raise TypeError(f"q, k, v: expected one floating-point dtype, got {kinds}")
    if state is None:
        return
    wanted = accumulate(v)
    if state.dtype != wanted:
        raise TypeError(
            f"state: expected {wanted} for v of {v.dtype}, got {state.dtype}; the rounding of "
            "every token stays in it, so it is never narrower"
        )


def accumulate(v: torch.Tensor) -> torch.dtype:
    """The dtype of the state: float32, or float64 for float64."""
    return torch.float64 if v.dtype == torch.float64 else torch.float32


def unable(*tensors: torch.Tensor | None) -> str | None:
    """Why compiled loops cannot do this, or None if they can."""
    given = [x for x in tensors if x is not None]
    for x in given:
        if x.device.type != "cpu":
            return f"it runs on the CPU, and a tensor is on {x.device}"
        if x.dtype == torch.float64:
            return "it computes in float32, and a tensor is float64"
    if torch.is_grad_enabled() and any(x.requires_grad for x in given):
        return "it has no gradient, and a tensor requires one"
    return None


def delta_chunked(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None,
    scale: float,
    chunk: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule over whole sequences, on any device and differentiable.

    A NaN or an infinity reaches earlier tokens of its own chunk too, as 0 times it is NaN.

    Args: checked; q and k as they are to be used.

    Returns:
        o [B, H, T, E] in the dtype of v, and the state after the last token.

    Cost: per token and value head 6 D E FLOPs with the state and C (C + 2 D + 4 E) within the
    chunk, and 4 C D per key head; memory O(T (C + D + E)) per head.
    """
    B, G, T, D = q.shape
    H, E, kind = v.shape[1], v.shape[3], v.dtype
    wide = accumulate(v)
    if state is None:
        state = torch.zeros(B, H, D, E, dtype=wide, device=v.device)
    count = math.ceil(T / chunk)
    pad = count * chunk - T

    def chunks(x: torch.Tensor, heads: int) -> torch.Tensor:
        """[B, h, T, w] as [chunk, batch, key head, its value heads, token, w], tokens of 0 behind.

        With the chunk first, what a step takes lies in one piece of memory.
        """
        whole = functional.pad(x, (0, 0, 0, pad)).view(B, G, heads // G, count, chunk, x.shape[-1])
        return whole.permute(3, 0, 1, 2, 4, 5).contiguous()

    q, k = (chunks(x.to(wide), G) for x in (q, k))
    v, beta = chunks(v.to(wide), H), chunks(beta.to(wide)[..., None], H)
    logs = chunks(g.double()[..., None], H).clamp(min=LOWEST).cumsum(-2)
    decay, left = logs.to(wide).exp(), (logs[..., -1:, :] - logs).to(wide).exp()
    between = (logs - logs.mT).to(wide)  # above 0 right of the diagonal, where nobody may look
    later = torch.ones(chunk, chunk, dtype=torch.bool, device=v.device).triu(1)
    fade = between.masked_fill(later, -torch.inf).exp()
    fixes = beta * fade * (k @ k.mT)  # the solver reads what is below the diagonal alone
    # An inverse has C columns, which is fewer than the D + E of both sides; its numbers stay small,
    # for they are products of corrections, none of which makes a state longer.
    inverse = torch.linalg.solve_triangular(
        fixes, torch.eye(chunk, dtype=wide, device=v.device), upper=False, unitriangular=True
    )
    plain, known = inverse @ (beta * v), inverse @ ((beta * decay) * k)
    asks, gives, reads = scale * decay * q, (left * k).mT, scale * fade * (q @ k.mT)
    state = state.reshape(B, G, H // G, D, E)
    outputs: list[torch.Tensor] = []
    for n in range(count):
        writes = plain[n] - known[n] @ state
        outputs.append(asks[n] @ state + reads[n] @ writes)
        state = decay[n, ..., -1:, :] * state + gives[n] @ writes
    if not outputs:
        return v.new_zeros(B, H, 0, E, dtype=kind), state.reshape(B, H, D, E)
    o = torch.stack(outputs, 3).view(B, H, count * chunk, E)[:, :, :T]
    return o.to(kind), state.reshape(B, H, D, E)
