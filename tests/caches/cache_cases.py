"""Tensors for the caches, and the bytes of what a cache holds, counted on its tensors."""

from __future__ import annotations

import torch


def tensors(*shapes: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float32):  # type: ignore[no-untyped-def]
    """Random tensors, one per shape."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def pieces(total: int, chunks: list[int]) -> list[tuple[int, int]]:
    """Cut 0 .. total into the chunks, as far as they go, and the rest into one."""
    cuts, begin = [], 0
    for chunk in chunks:
        end = min(total, begin + chunk)
        cuts.append((begin, end))
        begin = end
    return [*cuts, (begin, total)] if begin < total else cuts


def bytes_of(*held: torch.Tensor | None) -> int:
    """Bytes of the numbers that tensors have, whatever lies around them."""
    return sum(x.numel() * x.element_size() for x in held if x is not None)


def laid_out(*held: torch.Tensor | None) -> int:
    """Bytes of the memory the tensors lie in."""
    return sum(x.untyped_storage().nbytes() for x in held if x is not None)
