"""bfloat16 on the fused path: pairs where the processor multiplies them, widened where not."""

from __future__ import annotations

import pytest
import torch

from attnscope.core import attend, fused
from attnscope.testing import budget


def inputs(queries: int, width: int, value: int, *, strided: bool) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(width * 100 + queries)
    sizes = ((6, queries, width), (2, 301, width), (2, 301, value))
    made = []
    for heads, length, wide in sizes:
        x = torch.randn(2, length, heads, wide, generator=generator).bfloat16()
        if strided:  # the innermost axis is not contiguous
            x = x.mT.contiguous().mT
        made.append(x.transpose(1, 2))
    return tuple(made)


def judge(qkv: tuple[torch.Tensor, ...], **options: object) -> None:
    ours = attend(*qkv, statistics="all", impl="fused", **options)
    peer = attend(*qkv, statistics="all", impl="reference", **options)
    exact = attend(*(x.double() for x in qkv), statistics="all", impl="reference", **options)
    budget(ours.output, peer=peer.output, oracle=exact.output, what="output")
    for name in ("logsumexp", "entropy", "received", "jacobian_norm"):
        # Float32 sums of some hundred numbers below 10: a few roundings of 6e-8 each.
        torch.testing.assert_close(ours[name].double(), exact[name], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize(("width", "value"), [(64, 64), (33, 7), (1, 1), (128, 16)])
def test_prefill_in_pairs_and_without(
    monkeypatch: pytest.MonkeyPatch, width: int, value: int, pairs: bool
) -> None:
    monkeypatch.setattr(fused, "HAS_PAIRS", pairs and fused.HAS_PAIRS)
    judge(inputs(70, width, value, strided=False))


@pytest.mark.parametrize("queries", [1, 2, 4, 50])
def test_any_strides_and_few_queries(queries: int) -> None:
    judge(inputs(queries, 40, 24, strided=True), window=200, softcap=5.0)


@pytest.mark.parametrize("queries", [1, 3])
def test_decode_reads_keys_and_values_as_they_lie(
    monkeypatch: pytest.MonkeyPatch, queries: int
) -> None:
    widened = []
    plain = fused._flat

    def spy(tensor: torch.Tensor | None, dtype: torch.dtype):  # type: ignore[no-untyped-def]
        if tensor is not None and dtype == torch.float32 and tensor.shape[2] == 301:
            widened.append(tensor.shape)
        return plain(tensor, dtype)

    monkeypatch.setattr(fused, "_flat", spy)
    judge(inputs(queries, 64, 64, strided=False))
    assert widened == []


def test_a_lower_half_that_is_lost_would_be_noticed() -> None:
    """The check above can fail: without every second number of q the scores are others."""
    qkv = inputs(70, 64, 64, strided=False)
    damaged = qkv[0].clone()
    damaged[..., 1::2] = 0
    exact = attend(*(x.double() for x in qkv), impl="reference").output
    peer = attend(*qkv, impl="reference").output
    with pytest.raises(AssertionError, match="output"):
        budget(
            attend(damaged, *qkv[1:], impl="fused").output, peer=peer, oracle=exact, what="output"
        )
