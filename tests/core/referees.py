"""Other people's attention, brought to one signature; nothing here uses the code under test.

`sdpa` is PyTorch's, with the mask written out by the plainest rule; `weights_of` reads its weights
by giving it the identity for values.
"""

from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def sight(
    queries: int,
    keys: int,
    *,
    causal: bool = True,
    window: int | None = None,
    documents: torch.Tensor | None = None,
) -> torch.Tensor:
    """Which keys a query sees, bool [B or 1, 1, T, S], pair by pair."""
    ids = torch.zeros(1, keys, dtype=torch.long) if documents is None else documents.view(-1, keys)
    seen = torch.zeros(len(ids), 1, queries, keys, dtype=torch.bool)
    for b in range(len(ids)):
        for r in range(queries):
            i = keys - queries + r
            for j in range(keys):
                near = window is None or (i - j < window and j - i < window)
                same = documents is None or bool(ids[b, i] == ids[b, j] >= 0)
                seen[b, 0, r, j] = (not causal or j <= i) and near and same
    return seen


def sdpa(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    seen: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """PyTorch's attention; float64 runs on its plain kernel, the formula in C++."""
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf)
    if bias is not None:
        mask = mask + bias.to(q.dtype)
    kernels = [SDPBackend.MATH] if q.dtype == torch.float64 else list(_CPU)
    with sdpa_kernel(kernels):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )


_CPU = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)


def weights_of(
    q: torch.Tensor, k: torch.Tensor, *, seen: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    """The weights [B, H, T, S] of PyTorch's attention in float64, read through identity values."""
    keys = k.shape[2]
    identity = torch.eye(keys, dtype=torch.float64).expand(*k.shape[:2], keys, keys)
    return sdpa(q.double(), k.double(), identity, seen=seen, scale=scale)
