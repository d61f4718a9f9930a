"""The attention inside a module of heads: two kernels, one answer, the faster is taken.

The idea: PyTorch's own attention starts in microseconds and is best for a step of decoding;
`attend` passes over keys that nobody sees and is best for many rows and for windows, and it alone
has soft-caps and sinks.

Measured on two cores, 16 heads of 128, 8 key heads, milliseconds (PyTorch, attend):
    T = S      64: 0.29, 0.59    128: 0.95, 0.97    512: 13.3, 8.0    2048: 119, 94
    T of 512   32: 0.91, 1.41    128: 3.6, 3.6      256: 7.0, 5.6
    window     128 of 1024: 50, 10.6                512 of 1024: 50, 20.7
    gradient   32: 0.41, 1.65    256: 11.8, 13.4    1024: 132, 142 (both ways)
Smaller heads are even at more rows: 9 of 64 (a whole prefill of 30 layers) at 256, not at 128.

Shapes: q [B, H, T, D]; k [B, G, S, D]; v [B, G, S, E].

Not here: statistics; whoever wants them calls `attend`.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.nn.functional import scaled_dot_product_attention

from attnscope.core.attend import attend

MANY_ROWS: Final = 128
"""From so many query rows on, `attend` is faster on the CPU than PyTorch's own attention."""

MUCH: Final = 1 << 25
"""And from so many multiplications for the scores on (H T S D), where no window saves any."""

MANY_KEYS: Final = 1024
"""From so many keys on, one query reads grouped keys faster as rows of its key head."""


def head_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = True,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention without statistics, by whichever of two kernels is faster; the numbers are one.

    Args: as `attnscope.core.attend` takes them.

    Returns:
        [B, H, T, E].

    Cost: 2 T S (D + E) H FLOPs; keys and values are never repeated in memory. On the meta device
    nothing is computed, and masked pairs are counted as `Counts.flops_dense` does.
    """
    T, S = q.shape[2], k.shape[2]
    if causal and window is not None and window >= S:
        window = None  # it hides nothing
    meta = q.device.type == "meta"
    if not meta and (softcap is not None or sinks is not None or _attend_is_faster(q, k, window)):
        return attend(
            q, k, v, scale=scale, causal=causal, window=window, softcap=softcap, sinks=sinks
        ).output
    if T == 1 and window is not None:
        k, v, window = k[:, :, -window:], v[:, :, -window:], None
    if T == 1 and k.shape[2] > MANY_KEYS and k.shape[1] < q.shape[1]:
        # One query sees every key, so the query heads of a key head may stand as its rows.
        rows = q.unflatten(1, (k.shape[1], -1)).flatten(2, 3)
        return scaled_dot_product_attention(rows, k, v, scale=scale).flatten(1, 2)[:, :, None]
    plain = T == 1 or (window is None and not causal)
    square = causal and window is None and T == S
    mask = None if plain or square else _band(T, S, causal=causal, window=window, device=q.device)
    return scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=square and not plain, scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )  # fmt: skip


def _attend_is_faster(q: torch.Tensor, k: torch.Tensor, window: int | None) -> bool:
    """On two cores, by rows and by work; its gradient pays only under a window."""
    graph = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad)
    if graph:
        return window is not None and q.shape[2] >= MANY_ROWS
    worth = window is not None or q.numel() // q.shape[0] * k.shape[2] >= MUCH
    able = q.device.type == "cpu" and q.dtype != torch.float64
    return able and q.shape[2] >= MANY_ROWS and worth


def _band(
    T: int, S: int, *, causal: bool, window: int | None, device: torch.device
) -> torch.Tensor:
    """Which keys each query sees, bool [T, S]; the queries stand at the end."""
    seen = torch.ones(T, S, dtype=torch.bool, device=device)
    if causal:
        seen = seen.tril(S - T)
    if window is not None:
        seen = seen.triu(S - T - window + 1)
        seen = seen if causal else seen.tril(S - T + window - 1)
    return seen
