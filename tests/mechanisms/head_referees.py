"""transformers' attention modules as referees of attention by heads; nothing here is under test.

`Peer` holds one module with random weights, runs it in its own dtype, and once more in float64: the
modules narrow their norms, softmax and rotations to float32, so `InFloat64` widens every such cast
while the oracle runs.
"""

from __future__ import annotations

import copy
import inspect
import json
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attnscope.testing import budget

CONFIGS = Path(__file__).parents[1] / "data" / "configs"


def real_config(name: str) -> dict[str, Any]:
    """A published config.json, shipped with the planner."""
    import attnscope.plan

    folder = Path(attnscope.plan.__file__).parent / "data" / "configs"
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


class InFloat64(TorchFunctionMode):
    """Whatever asks for float32 gets float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        def wide(x: Any) -> Any:
            return torch.float64 if x is torch.float32 else x

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(wide, args), **{n: wide(x) for n, x in (kwargs or {}).items()})


def mask_of(
    queries: int, keys: int, *, window: int | None = None, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """An additive mask [1, 1, T, S], pair by pair."""
    mask = torch.zeros(1, 1, queries, keys, dtype=dtype)
    for r in range(queries):
        i = keys - queries + r
        for j in range(keys):
            if j > i or (window is not None and i - j >= window):
                mask[0, 0, r, j] = -torch.inf
    return mask


class Peer:
    """One attention module of transformers with random weights.

    Args:
        attention, rotary: the classes.
        config: the config object; set to eager here.
        layer: its index.
        rotary_kind: `layer_type` for a rotary class that asks for one.
    """

    def __init__(self, attention, rotary, config, *, layer: int = 0, dtype=torch.float32) -> None:  # type: ignore[no-untyped-def]
        config._attn_implementation = "eager"
        torch.manual_seed(7)
        self.module = attention(config, layer)
        for name, weight in self.module.named_parameters():
            # Norm weights away from 1 and 0, projections that keep scores near 1 at any width.
            spread = 0.3 if weight.ndim == 1 else 1.5 / weight.shape[1] ** 0.5
            centre = 1.0 if "norm" in name and weight.detach().float().mean() > 0.5 else 0.0
            weight.data = centre + spread * torch.randn(weight.shape)
        self.module = self.module.to(dtype).eval()
        self.dtype, self.config, self.rotary = dtype, config, rotary
        self.window = getattr(self.module, "sliding_window", None)
        self.layer_type = getattr(self.module, "layer_type", None)

    def output(self, x: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """y of a plain prefill, in the module's dtype."""
        return self._run(self.module, x, positions)

    def exact(self, x: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """The same in float64."""
        with InFloat64():
            return self._run(self.wide(), x.double(), positions)

    def wide(self) -> torch.nn.Module:
        return copy.deepcopy(self.module).double()

    def _run(self, module, x, positions):  # type: ignore[no-untyped-def]
        T = x.shape[1]
        more = {}
        if self.rotary is not None:
            positions = torch.arange(T) if positions is None else positions
            rotary = self.rotary(self.config)
            if "layer_type" in inspect.signature(rotary.forward).parameters:
                more = {"layer_type": self.layer_type}
            more = {"position_embeddings": rotary(x, positions.view(-1, T), **more)}
        mask = mask_of(T, T, window=self.window, dtype=x.dtype)
        return module(x, attention_mask=mask, **more)[0]

    def gradients(self, x: torch.Tensor, gradient: torch.Tensor, *, exact: bool = False):  # type: ignore[no-untyped-def]
        """Of sum(y * gradient): by name, with that of x as "x"."""
        if exact:
            with InFloat64():
                module = self.wide()
                return _gradients(
                    module, lambda x: self._run(module, x, None), x.double(), gradient.double()
                )
        return _gradients(self.module, lambda x: self._run(self.module, x, None), x, gradient)


def _gradients(module, run, x, gradient):  # type: ignore[no-untyped-def]
    names, weights = zip(*module.named_parameters(), strict=True)
    x = x.detach().requires_grad_()
    found = torch.autograd.grad(run(x), (x, *weights), gradient)
    return dict(zip(("x", *names), found, strict=True))


def inputs(peer: Peer, tokens: int, *, batch: int = 2, seed: int = 0) -> torch.Tensor:
    """x [B, T, C] of a peer's width and dtype."""
    width = peer.config.hidden_size
    return torch.randn(
        batch, tokens, width, generator=torch.Generator().manual_seed(seed)
    ).to(peer.dtype)


def judge_forward(ours: torch.nn.Module, peer: Peer, tokens: int, **more: Any) -> None:
    """A plain prefill against the peer, by the budget."""
    x = inputs(peer, tokens)
    with torch.no_grad():
        budget(
            ours(x, **more), peer=peer.output(x, **more), oracle=peer.exact(x, **more),
            what=f"output of {tokens} tokens",
        )  # fmt: skip


def judge_gradients(ours: torch.nn.Module, peer: Peer, tokens: int) -> None:
    """The gradients of x and of every weight against the peer, by the budget."""
    x = inputs(peer, tokens)
    gradient = inputs(peer, tokens, seed=1)
    found = _gradients(ours, ours, x, gradient)
    theirs = peer.gradients(x, gradient)
    exact = peer.gradients(x, gradient, exact=True)
    assert found.keys() == theirs.keys()
    for name in found:
        budget(found[name], peer=theirs[name], oracle=exact[name], what=f"gradient of {name}")


def judge_cached(ours: Any, peer: Peer, tokens: int, chunks: tuple[int, ...]) -> None:
    """Chunked prefill, then step by step, through one cache, against the peer's plain prefill."""
    x = inputs(peer, tokens)
    cache = ours.new_cache(2, dtype=peer.dtype)
    pieces = [*chunks, *[1] * (tokens - sum(chunks))]
    with torch.no_grad():
        y = torch.cat([ours(part, cache=cache) for part in x.split(pieces, 1)], 1)
        assert cache.length == tokens
        assert cache.nbytes == 2 * ours.counts(0, tokens, dtype=peer.dtype).kept_bytes
        budget(y, peer=peer.output(x), oracle=peer.exact(x), what=f"cached, in pieces {pieces}")
