"""Against the eager attention of transformers: soft-cap, learned sinks, windows, grouped heads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from referees import sight
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as gemma2
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss
from transformers.models.llama.modeling_llama import eager_attention_forward as llama

from attnscope.core import Request
from attnscope.testing import attend_by, budget, implementations, qkv

IMPLS = implementations()


def mask_of(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)


def judge(impl: str, eager, module, options, *, window=None, dtype=torch.float32, **more) -> None:  # type: ignore[no-untyped-def]
    """Output and every row of weights, against eager in the same dtype and in float64."""
    q, k, v = qkv(queries=14, keys=22, width=16, spread=3.0, dtype=dtype)
    seen = sight(14, 22, window=window)
    rows = tuple(range(14))
    ours = attend_by(
        impl, q, k, v, scale=0.2, window=window, statistics=Request((), rows=rows), **options
    )

    def theirs(kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        extra = {n: x.to(kind) if torch.is_tensor(x) else x for n, x in vars(module).items()}
        inputs = (x.to(kind) for x in (q, k, v))
        out, weights = eager(
            SimpleNamespace(**extra), *inputs, mask_of(seen, kind), scaling=0.2, dropout=0.0, **more
        )
        return out.transpose(1, 2), weights

    peer, exact = theirs(dtype), exactly(theirs)
    budget(ours.output, peer=peer[0], oracle=exact[0], what="output")
    assert ours.rows is not None
    # Ours are float32 whatever the input; the peer's are rounded to the input's dtype.
    budget(ours.rows.to(dtype), peer=peer[1], oracle=exact[1], what="weights")


def exactly(theirs):  # type: ignore[no-untyped-def]
    """Eager attention in float64; it narrows its softmax to float32 unless told otherwise."""
    original = torch.nn.functional.softmax

    def wide(x, dim=-1, dtype=None):  # type: ignore[no-untyped-def]
        return original(x, dim=dim, dtype=torch.float64)

    torch.nn.functional.softmax = wide
    try:
        return theirs(torch.float64)
    finally:
        torch.nn.functional.softmax = original


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 6])
def test_llama(impl: str, dtype: torch.dtype, window: int | None) -> None:
    module = SimpleNamespace(num_key_value_groups=2, training=False)
    judge(impl, llama, module, {}, window=window, dtype=dtype)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("window", [None, 6])
def test_gemma2_with_its_soft_cap(impl: str, window: int | None) -> None:
    module = SimpleNamespace(num_key_value_groups=2, training=False, head_dim=16)
    judge(impl, gemma2, module, {"softcap": 2.0}, window=window, softcap=2.0)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("window", [None, 6])
def test_gpt_oss_with_its_sinks(impl: str, window: int | None) -> None:
    sinks = torch.tensor([2.0, -1.0, 0.5, 4.0])
    module = SimpleNamespace(num_key_value_groups=2, training=False, sinks=sinks)
    judge(impl, gpt_oss, module, {"sinks": sinks}, window=window)


def test_the_referee_notices_a_missing_sink() -> None:
    module = SimpleNamespace(num_key_value_groups=2, training=False, sinks=torch.ones(4))
    with pytest.raises(AssertionError, match="off"):
        judge("strip", gpt_oss, module, {})
