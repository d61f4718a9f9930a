"""Records the attention of any PyTorch code that calls `scaled_dot_product_attention`.

The idea: whoever wrote the module, softmax attention in PyTorch ends in one function. It is seen
there, by a function mode, together with the module that is running; the function itself runs
untouched, so the output is bit-identical, and the statistics are computed beside it.

    with attnscope.observe(model) as record:
        model(x)
    record[0].statistics["entropy"], record[0].weights(head=3)

Shapes
    q [B, H, T, D]; k [B, G, S, D]; v [B, G, S, E]; statistics [B, H, T], `received` [B, H, S].

Not here: models of transformers with their layers and tokens (session.py).
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from attnscope.core.attend import attend
from attnscope.core.masks import Spans, spans
from attnscope.core.problem import Attention
from attnscope.core.request import Request

SDPA = torch.nn.functional.scaled_dot_product_attention
_SHOWN: Final = 4
"""Modules that a record's line names."""


@dataclass(frozen=True)
class ObservedCall:
    """One call of scaled_dot_product_attention.

    Attributes:
        module: the name of the innermost module that was running, "" for the model itself.
        index: which call of that module it is, from 0.
        q, k, v: as the call had them.
        scale: what q.k was multiplied by.
        causal: whether `is_causal` was given; the diagonal then begins at the upper left.
        mask: bool, True where a query may look, or None.
        bias: added to the scores, or None.
        statistics: by name.
    """

    module: str
    index: int
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    causal: bool
    mask: torch.Tensor | None
    bias: torch.Tensor | None
    statistics: dict[str, torch.Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        q, k = list(self.q.shape), list(self.k.shape)
        return f"<ObservedCall {self.index} of {_named(self.module)}: q {q}, k {k}>"

    def weights(
        self, head: int | None = None, queries: int | slice | Iterable[int] | None = None
    ) -> torch.Tensor:
        """Exact weights, recomputed: [B, H, t, S], or [B, t, S] of one head.

        Args:
            queries: a row, a slice or several; all if not given.

        Raises:
            ValueError: a head or a query that is not there.
        """
        T, H = self.q.shape[2], self.q.shape[1]
        if head is not None and not 0 <= head < H:
            raise ValueError(f"head: {head} is not one of the {H} heads of this call")
        if queries is None:
            rows = list(range(T))
        elif isinstance(queries, slice):
            rows = list(range(T))[queries]
        else:
            rows = [queries] if isinstance(queries, int) else list(queries)
        found = self.attend(Request((), rows=tuple(rows))).rows
        assert found is not None or not rows
        if found is None:
            found = self.q.new_zeros(*self.q.shape[:2], 0, self.k.shape[2])
        return found if head is None else found[:, head]

    def attend(self, request: Request) -> Attention:
        """The same attention once more, with what is asked for."""
        seen = _sight(self.q, self.k, causal=self.causal)
        mask = seen if self.mask is None else self.mask & seen.visible()
        return attend(
            self.q, self.k, self.v,
            scale=self.scale, causal=False, mask=mask, bias=self.bias, statistics=request,
        )  # fmt: skip


def _sight(q: torch.Tensor, k: torch.Tensor, *, causal: bool) -> Spans:
    """SDPA's `is_causal` begins at the upper left, whatever the lengths."""
    T, S = q.shape[2], k.shape[2]
    if not causal:
        return spans(T, S, causal=False, device=q.device)
    end = torch.arange(1, T + 1, dtype=torch.int32, device=q.device).clamp(max=S)[None]
    zero = torch.zeros_like(end)
    return Spans(zero, end, zero, S)


def _named(module: str) -> str:
    return module or "the model itself"


class Record(list[ObservedCall]):
    """The calls of an observation, in their order.

    `record.of(name)` gives those of one module.
    """

    def __repr__(self) -> str:
        """How many calls there are, and of which modules; a list's own would print every tensor."""
        names = [_named(call.module) for call in self]
        names = list(dict.fromkeys(names))
        shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], "…", names[-1]]
        calls = f"{len(self)} call{'' if len(self) == 1 else 's'}"
        return f"<Record: {calls} of {SDPA.__name__}{': ' if names else ''}{', '.join(shown)}>"

    def of(self, module: str) -> list[ObservedCall]:
        """The calls that one module made.

        Raises:
            ValueError: it made none; the message says which modules did.
        """
        found = [call for call in self if call.module == module]
        if not found:
            names = ", ".join(dict.fromkeys(_named(call.module) for call in self))
            raise ValueError(f"module: {module!r} made no call; calls came from {names or 'none'}")
        return found


@contextlib.contextmanager
def observe(
    model: torch.nn.Module,
    *,
    statistics: str | Iterable[str] = "all",
    local: int = 8,
    sink_keys: int = 1,
) -> Iterator[Record]:
    """Record every call of scaled_dot_product_attention while this is open.

    Self-, cross- and bidirectional attention alike; `nn.MultiheadAttention` and
    `nn.TransformerEncoder` are sent along their ordinary path for the time, because their fused one
    goes around the function. Positions for `self_mass`, `previous_mass`, `local_mass` and
    `mean_distance` count queries from the end of the keys, which means little in cross-attention.

    Args:
        model: any module. Only calls made while it, or a part of it, is running are recorded.
        statistics: names, or "all" that need no token ids.
        local, sink_keys: the parameters of `local_mass` and `sink_mass`.

    Yields:
        A `Record`: the list of the calls, each an `ObservedCall` with its `statistics` and, on
        demand, its `weights`. It is no `Trace`: it knows no tokens and no layers, and is not saved.

    Warns:
        UserWarning: the block ended, and no call was seen.

    Raises:
        TypeError: the model is not a module.
        ValueError: an unknown statistic, or one that needs token ids; dropout in an observed call,
            whose weights are random.

    Cost: time of a second attention per call; memory of every call's q, k and v.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    request = Request.of(statistics, local=local, sink_keys=sink_keys)
    record = Record()
    running: list[str] = []
    hooks: list[Any] = []
    ran = False

    def enter(name: str) -> Any:
        def hook(*_: Any) -> None:
            nonlocal ran
            ran = True
            running.append(name)

        return hook

    def leave(*_: Any) -> None:
        running.pop()

    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        for name, module in model.named_modules():
            hooks.append(module.register_forward_pre_hook(enter(name)))
            hooks.append(module.register_forward_hook(leave, always_call=True))
        with _Seeing(record, running, request) as seeing:
            yield record
        if not seeing.seen:  # from here over contextlib to the end of the caller's block: 3
            warnings.warn(_why_nothing(type(model).__name__, ran=ran), stacklevel=3)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for hook in hooks:
            hook.remove()


def _why_nothing(model: str, *, ran: bool) -> str:
    if not ran:
        return (
            f"observe: nothing was recorded, because {model} did not run while this was open; "
            "call the model inside the with block."
        )
    return (
        f"observe: nothing was recorded, because {model} ran and made no call of "
        "scaled_dot_product_attention. Attention that is written out or has a kernel of its own "
        "cannot be seen here; for a model of transformers use attnscope.capture, or first "
        "model.set_attn_implementation('sdpa')."
    )


class _Seeing(TorchFunctionMode):
    """Looks at each call of the function on its way.

    A mode sees the call wherever the caller took the function from, but not inside functions of
    torch that are themselves seen, as multi-head attention is; those find the function by its name
    in torch.nn.functional, where another stands in for it meanwhile.
    """

    def __init__(self, record: Record, running: list[str], request: Request) -> None:
        super().__init__()
        self.record, self.running, self.request = record, running, request
        self._thread = threading.get_ident()
        self._inside = False
        self.seen = False

    def __enter__(self) -> _Seeing:
        torch.nn.functional.scaled_dot_product_attention = self._stand_in
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.nn.functional.scaled_dot_product_attention = SDPA

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is SDPA and not self._inside:
            return self._see(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _stand_in(self, *args: Any, **kwargs: Any) -> Any:
        if self._inside or threading.get_ident() != self._thread:
            return SDPA(*args, **kwargs)
        return self._see(*args, **kwargs)

    def _see(self, *args: Any, **kwargs: Any) -> Any:
        self._inside = True
        try:
            self.seen = self.seen or bool(self.running)
            result = SDPA(*args, **kwargs)
            if self.running:
                self._keep(*args, **kwargs)
            return result
        finally:
            self._inside = False

    def _keep(self, *args: Any, **kwargs: Any) -> None:
        name = self.running[-1]
        index = sum(call.module == name for call in self.record)
        with torch.no_grad():
            call = read_call(name, index, *args, **kwargs)
            call.statistics.update(call.attend(self.request).statistics)
        self.record.append(call)


def read_call(
    module: str,
    index: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ObservedCall:
    """The arguments of scaled_dot_product_attention, in its own order, as a call.

    Raises:
        ValueError: dropout.
    """
    if dropout_p:
        raise ValueError(
            f"{module or 'the model'}: dropout {dropout_p} is on, so its weights are random; "
            "call model.eval() first"
        )
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    q, k, v = (_four(x.detach(), batch) for x in (query, key, value))
    groups = max(k.shape[1], v.shape[1])
    k, v = (x.expand(-1, groups, -1, -1) for x in (k, v))
    if not enable_gqa:  # then heads broadcast like any axis
        q = q.expand(-1, max(q.shape[1], groups), -1, -1)
    mask = bias = None
    if attn_mask is not None:
        given = attn_mask.detach()
        while given.ndim < 4:
            given = given[None]
        if given.ndim > 4:
            given = given.expand(*batch, *given.shape[-3:]).flatten(0, -4)
        if given.dtype == torch.bool:
            mask = given
        else:
            mask = given > -torch.inf
            rest = given.masked_fill(~mask, 0.0)
            bias = rest if bool(rest.any()) else None
    factor = query.shape[-1] ** -0.5 if scale is None else float(scale)
    return ObservedCall(module, index, q, k, v, factor, bool(is_causal), mask, bias)


def _four(x: torch.Tensor, batch: torch.Size) -> torch.Tensor:
    """[..., H, T, D] with any number of leading axes as [B, H, T, D]."""
    if x.ndim == 2:
        return x[None, None]
    return x.expand(*batch, *x.shape[-3:]).reshape(-1, *x.shape[-3:])
