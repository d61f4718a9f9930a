"""Exact attention and its statistics: the numeric heart."""

from attnscope.core.attend import IMPLS, attend
from attnscope.core.from_kernel import KernelAttention, from_kernel, torch_flash
from attnscope.core.masks import Spans, as_spans, spans
from attnscope.core.problem import Attention, PooledMap
from attnscope.core.request import KEY_STATISTICS, ROW_STATISTICS, STATISTICS, Request

__all__ = [
    "IMPLS",
    "KEY_STATISTICS",
    "ROW_STATISTICS",
    "STATISTICS",
    "Attention",
    "KernelAttention",
    "PooledMap",
    "Request",
    "Spans",
    "as_spans",
    "attend",
    "from_kernel",
    "spans",
    "torch_flash",
]
