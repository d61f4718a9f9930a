"""Keep a watched forward of a long text as small as a plain one.

The idea: when an attention module returns, its queries, keys and values are free, and the layer's
widest part, the MLP, is still to come; that is the moment to give the heap's holes back.

Not here: what is given back and how (core/memory.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from attnscope.core.memory import WORTH, free_heap, unload_compiler


class Tidy:
    """Gives memory back after each long attention of a model's own modules."""

    def __init__(self) -> None:
        self._due = self._unloaded = False

    def follow(self, model: torch.nn.Module) -> list[Any]:
        """Look at the ends of the modules that say which layer they are; returns the hooks."""
        after: Callable[..., None] = self._after
        return [
            module.register_forward_hook(after)
            for module in model.modules()
            if hasattr(module, "layer_idx")
        ]

    def attended(self, q: torch.Tensor) -> None:
        """An attention with these queries has been computed here."""
        self._due = q.device.type == "cpu" and q.numel() * q.element_size() >= WORTH

    def _after(self, *_: Any) -> None:
        if not self._due:
            return
        self._due = False
        free_heap()
        if not self._unloaded:
            unload_compiler()
            self._unloaded = True
