"""Which implementations of `attend` there are, and which of them can do a given call.

The idea: a test written once runs on every implementation, also on one that comes later; and where
an implementation says that it cannot do a call, the test checks that it says so.

Not here: the implementations.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from attnscope.core import IMPLS, Attention, Request, attend
from attnscope.core.problem import pose


def implementations() -> tuple[str, ...]:
    """The names to give as `impl` that can be imported here."""
    return tuple(name for name in IMPLS if _module(name) is not None)


def unable(impl: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> str:
    """Why an implementation cannot do a call of `attend`; empty if it can."""
    defaults: dict[str, Any] = {
        "scale": None, "causal": True, "window": None, "documents": None, "mask": None,
        "bias": None, "softcap": None, "sinks": None,
    }  # fmt: skip
    request = Request.of(options.pop("statistics", None))
    problem = pose(q, k, v, **{**defaults, **options}, request=request)
    reason = getattr(_module(impl), "unable", lambda _: None)(problem)
    return reason or ""


def attend_by(
    impl: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any
) -> Attention:
    """`attend` by one implementation, or, where it cannot, by the strips, once it has said so.

    Raises:
        AssertionError: the implementation said that it cannot, and did not refuse.
    """
    if not unable(impl, q, k, v, **options):
        return attend(q, k, v, **options, impl=impl)  # type: ignore[arg-type]
    try:
        attend(q, k, v, **options, impl=impl)  # type: ignore[arg-type]
    except ValueError:
        return attend(q, k, v, **options, impl="strip")
    raise AssertionError(f"impl: {impl!r} did what it says it cannot do")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"attnscope.core.{name}")
    except ModuleNotFoundError as missing:
        if missing.name and (missing.name.startswith("numba") or name in missing.name):
            return None
        raise
