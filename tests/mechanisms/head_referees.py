"""transformers' attention modules as referees of attention by heads; nothing here is under test.

`Peer` holds one module with random weights, runs it in its own dtype, and once more in float64: the
modules narrow their norms, softmax and rotations to float32, so `InFloat64` widens every such cast
while the oracle runs.
"""

from __future__ import annotations

import copy
import doctest
import importlib
import inspect
import json
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import attnscope.plan
from attnscope.core.heads import HeadAttention
from attnscope.core.mechanism import Counts
from attnscope.core.model_fields import ModelFields
from attnscope.testing import budget

Mechanism = TypeVar("Mechanism", bound=HeadAttention)
CONFIGS = Path(attnscope.plan.__file__).parent / "data" / "configs"


def real_config(name: str, **changed: Any) -> dict[str, Any]:
    """The text part of a published config.json, as the planner ships it, with some fields changed.

    A field changed to `...` is taken out.
    """
    config = json.loads((CONFIGS / f"{name}.json").read_text("utf-8"))
    config = dict(config.get("text_config", config)) | changed
    return {name: value for name, value in config.items() if value is not ...}


def on_meta(cls: type[Mechanism], config: dict[str, Any], *, layer: int = 0) -> Mechanism:
    """A layer in its real size without its memory; its rotation is whole all the same."""
    with torch.device("meta"):
        ours = cls.from_config(config, layer=layer)
    assert all(p.device.type == "meta" for p in ours.parameters())
    return ours


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
        attention, rotary: the classes; None where there is no rotation.
        config: the config object; set to eager here.
        layer: its index.
        dtype: of its weights.
    """

    def __init__(self, attention, rotary, config, *, layer: int = 0, dtype=torch.float32) -> None:  # type: ignore[no-untyped-def]
        config._attn_implementation = "eager"
        torch.manual_seed(7)
        self.module = attention(config, layer_idx=layer)
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

    def angles(self, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The rotary module's cosines and sines at positions [B or 1, T]."""
        rotary = self.rotary(self.config)
        typed = "layer_type" in inspect.signature(rotary.forward).parameters
        return rotary(x, positions, **({"layer_type": self.layer_type} if typed else {}))

    def _run(self, module, x, positions):  # type: ignore[no-untyped-def]
        T = x.shape[1]
        more = {}
        if self.rotary is not None:
            positions = torch.arange(T) if positions is None else positions
            more = {"position_embeddings": self.angles(x, positions.view(-1, T))}
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
    return torch.randn(batch, tokens, width, generator=torch.Generator().manual_seed(seed)).to(
        peer.dtype
    )


def judge_forward(ours: torch.nn.Module, peer: Peer, tokens: int, **more: Any) -> None:
    """A plain prefill against the peer, by the budget."""
    x = inputs(peer, tokens)
    with torch.no_grad():
        budget(
            ours(x, **more), peer=peer.output(x, **more), oracle=peer.exact(x, **more),
            what=f"output of {tokens} tokens",
        )  # fmt: skip


def judge_gradients(ours: torch.nn.Module, peer: Peer, tokens: int) -> None:
    """The gradients of x and of every weight against the peer, by the budget.

    Three times the peer's error, not two: a gradient has passed five products on its way, each with
    its terms in another order than the peer takes, and the largest of thousands of errors varies
    by half between two such orders.
    """
    x = inputs(peer, tokens)
    gradient = inputs(peer, tokens, seed=1)
    found = _gradients(ours, ours, x, gradient)
    theirs = peer.gradients(x, gradient)
    exact = peer.gradients(x, gradient, exact=True)
    assert found.keys() == theirs.keys()
    for name in found:
        budget(
            found[name], peer=theirs[name], oracle=exact[name], what=f"gradient of {name}", factor=3
        )


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


def caught(ours: torch.nn.Module, peer: Peer, tokens: int = 23) -> bool:
    """Whether the judge notices that a module was damaged."""
    try:
        judge_forward(ours, peer, tokens)
    except AssertionError as error:
        assert "numbers are off" in str(error)  # noqa: PT017 - it is the error that is judged
        return True
    return False


def flops(module: torch.nn.Module, tokens: int, *, cached: int = 0, **more: Any) -> int:
    """What PyTorch counts for `tokens` behind `cached`, on the meta device."""
    module = copy.deepcopy(module).to("meta")
    width = next(p for n, p in module.named_parameters() if n.startswith("k_proj.w")).shape[1]
    if cached:
        more["cache"] = module.new_cache()
        module(torch.zeros(1, cached, width, device="meta"), **more)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(torch.zeros(1, tokens, width, device="meta"), **more)
    return counter.get_total_flops()


def judge_counts(ours: Any, peer: Peer | None = None, *, window: int | None = None) -> None:
    """FLOPs by PyTorch's counter, parameters and bytes of real tensors, pairs one by one."""
    for tokens, cached in ((1, 0), (1, 30), (7, 0), (7, 30), (40, 3)):
        counts = ours.counts(tokens, cached, dtype=torch.float32)
        assert isinstance(counts, Counts)
        assert counts.parameters == sum(p.numel() for p in ours.parameters())
        assert counts.projection_flops + counts.flops_dense == flops(ours, tokens, cached=cached)
        pairs = sum(
            i - j < (window or 10**9) for i in range(cached, cached + tokens) for j in range(i + 1)
        )
        shape = ours.shape
        assert counts.flops == 4 * shape.heads * shape.width * pairs
        cache, width = ours.new_cache(), shape.model
        weight = next(ours.parameters())
        with torch.no_grad():
            for count in (cached, tokens):
                if count:
                    ours(torch.zeros(1, count, width, dtype=weight.dtype), cache=cache)
        assert cache.nbytes == counts.kept_bytes
        if cached + tokens <= (window or 10**9):
            assert counts.kept_bytes == counts.bytes_per_token * (cached + tokens)
    if peer is not None:
        module = copy.deepcopy(peer.module).to("meta")
        x = torch.zeros(1, 9, peer.config.hidden_size, dtype=peer.dtype)
        more = {"attention_mask": mask_of(9, 9).to("meta")}
        if peer.rotary is not None:
            angles = peer.angles(x, torch.arange(9)[None])
            more["position_embeddings"] = tuple(a.to("meta") for a in angles)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(x.to("meta"), **more)
        counts = ours.counts(9)
        assert counts.projection_flops + counts.flops_dense == counter.get_total_flops()
        assert counts.parameters == sum(p.numel() for p in peer.module.parameters())


PATTERNS = ("sliding_window_pattern", "full_attention_interval")
"""Fields that transformers turns into `layer_types`, which are compared instead."""

NOT_A_FIELD = {"attn_output_gate": ("qwen3_next", "qwen3_5_text")}
"""transformers has no such field there: the layer always does it."""


def judge_families(name: str) -> None:
    """What a config.json may leave out is what transformers' own config class fills in."""
    module = importlib.import_module(f"attnscope.mechanisms.{name}")
    for kind, left_out in module.FAMILIES.items():
        theirs = CONFIG_MAPPING[kind]()
        derived = {
            "head_dim": theirs.hidden_size // theirs.num_attention_heads,
            "num_key_value_heads": theirs.num_attention_heads,
        }
        for field, value in left_out.items():
            if field in PATTERNS or kind in NOT_A_FIELD.get(field, ()):
                continue
            expected = getattr(theirs, field, None)
            if field == "sliding_window" and "use_sliding_window" in left_out:
                expected = CONFIG_MAPPING[kind](use_sliding_window=True).sliding_window
            if value is None and field in derived:
                assert expected in (None, derived[field]), (kind, field)
            else:
                assert expected == value, (kind, field)
        kinds = getattr(theirs, "layer_types", None)
        if kinds is not None:
            config = {"model_type": kind}
            ours = [
                ModelFields(config, families=module.FAMILIES, layer=i).layer_type
                for i in range(len(kinds))
            ]
            assert ours == kinds, kind


def judge_shown(name: str, *laws: str) -> None:
    """The examples run; the picture fits a terminal and states its laws with their values."""
    module = importlib.import_module(f"attnscope.mechanisms.{name}")
    examples = doctest.testmod(module)
    assert examples.attempted > 0
    assert examples.failed == 0
    picture = module.picture()
    lines = picture.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 110
    assert "nan" not in picture
    for law in laws:
        assert law in picture
