"""Outputs of every implementation against PyTorch's scaled_dot_product_attention."""

from __future__ import annotations

import pytest
import torch
from referees import sdpa, sight
from torch.nn.attention.bias import causal_lower_right

from attnscope.core import attend
from attnscope.testing import attend_by, budget, implementations, ordinary, qkv

IMPLS = implementations()
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
SHAPES = {inputs.name: inputs for inputs in ordinary()}


def judge(impl: str, q, k, v, seen, *, bias=None, scale=None, **options) -> None:  # type: ignore[no-untyped-def]
    ours = attend_by(impl, q, k, v, bias=bias, scale=scale, **options).output
    peer = sdpa(q, k, v, seen=seen, bias=bias, scale=scale)
    exact = sdpa(q.double(), k.double(), v.double(), seen=seen, bias=bias, scale=scale)
    # In float64 the peer is the oracle itself and has no error; ours may differ in the order of S
    # additions of numbers of the size of v.
    if q.dtype == torch.float64:
        peer = exact + torch.finfo(q.dtype).eps * k.shape[2] * v.abs().max()
    budget(ours, peer=peer, oracle=exact, what=f"output by {impl}")


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_causal(impl: str, dtype: torch.dtype, shape: str) -> None:
    inputs = SHAPES[shape].to(dtype)
    T, S = inputs.q.shape[2], inputs.k.shape[2]
    judge(impl, inputs.q, inputs.k, inputs.v, sight(T, S))


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("window", [1, 2, 5, 100])
@pytest.mark.parametrize("causal", [True, False])
def test_window(impl: str, window: int, causal: bool) -> None:
    q, k, v = qkv(queries=19, keys=26)
    seen = sight(19, 26, causal=causal, window=window)
    judge(impl, q, k, v, seen, causal=causal, window=window)


@pytest.mark.parametrize("impl", IMPLS)
def test_bidirectional_and_more_queries_than_keys(impl: str) -> None:
    for queries, keys in ((9, 9), (4, 30), (30, 4)):
        q, k, v = qkv(queries=queries, keys=keys)
        judge(impl, q, k, v, torch.ones(1, 1, queries, keys, dtype=torch.bool), causal=False)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(
    "shape", [(1, 1, 11, 17), (2, 4, 11, 17), (4, 1, 17), (17,), (2, 1, 1, 17)]
)
def test_bias(impl: str, shape: tuple[int, ...]) -> None:
    q, k, v = qkv(queries=11, keys=17)
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3
    judge(impl, q, k, v, sight(11, 17), bias=bias)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("shape", [(3, 4, 1, 700), (3, 1, 1, 700), (1, 4, 1, 700), (700,)])
def test_bias_of_one_query(impl: str, shape: tuple[int, ...]) -> None:
    """Decode finds the bias of a batch and head by itself. Three: of two, -1 is 1."""
    q, k, v = qkv(batch=3, queries=1, keys=700)
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3
    ours = attend_by(impl, q, k, v, bias=bias).output
    exact = sdpa(q.double(), k.double(), v.double(), seen=sight(1, 700), bias=bias)
    torch.testing.assert_close(ours.double(), exact.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("scale", [1.0, 0.03, 2.5, 0.0, -0.5])
def test_scale(impl: str, scale: float) -> None:
    q, k, v = qkv(queries=13)
    judge(impl, q, k, v, sight(13, 13), scale=scale)


@pytest.mark.parametrize("impl", IMPLS)
def test_packed_documents_and_left_padding(impl: str) -> None:
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 5, 5, 5], [-1, -1, -1, 0, 0, 0, 0, 0, 2, 2]])
    q, k, v = qkv(queries=10)
    seen = sight(10, 10, documents=documents)
    result = attend_by(impl, q, k, v, documents=documents)
    blind = ~seen.any(-1).expand(2, 4, 10)
    assert torch.equal(result.empty, blind)
    assert blind.any()
    assert not result.output[blind].any()
    # PyTorch gives rows that see nothing 0 or NaN, by version; rows that see something are judged.
    rows = slice(3, None)
    judge_rows = sdpa(q.double(), k.double(), v.double(), seen=seen)[:, :, rows]
    peer = sdpa(q, k, v, seen=seen)[:, :, rows]
    budget(result.output[:, :, rows], peer=peer, oracle=judge_rows)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(
    "kind", ["per_batch", "per_head", "broadcast", "function", "head_function"]
)
def test_masks_that_are_no_intervals(impl: str, kind: str) -> None:
    q, k, v = qkv(queries=12, keys=15)
    random = torch.Generator().manual_seed(3)
    shape = {"per_batch": (2, 1, 12, 15), "per_head": (1, 4, 12, 15)}.get(kind, (12, 15))
    seen = torch.rand(shape, generator=random) < 0.5
    seen[..., 0] = True
    mask = seen
    if kind.endswith("function"):
        by_head = kind == "head_function"
        rule = lambda b, h, i, j: ((i - j) % 3 == (h % 2 if by_head else 0)) | (j == 0)  # noqa: E731
        at = [torch.arange(n).view([-1 if a == axis else 1 for a in range(4)])
              for axis, n in enumerate((2, 4, 12, 15))]  # fmt: skip
        at[2] = at[2] + 3
        seen, mask = rule(*at), rule
    full = seen.expand(2, 4, 12, 15) if seen.ndim == 4 else seen[None, None].expand(2, 4, 12, 15)
    judge(impl, q, k, v, full & sight(12, 15), mask=mask)


@pytest.mark.parametrize("impl", IMPLS)
def test_a_prefix_that_sees_itself_and_chunks_are_intervals(impl: str) -> None:
    """PaliGemma's bidirectional prefix, and Llama 4's chunks, given as functions."""
    q, k, v = qkv(queries=14)
    place = torch.arange(14)
    for rule in (
        lambda b, h, i, j: (j <= i) | (j < 5),
        lambda b, h, i, j: (j <= i) & (i // 4 == j // 4),
    ):
        seen = rule(0, 0, place[:, None], place[None]).expand(1, 1, 14, 14)
        judge(impl, q, k, v, seen, causal=False, mask=rule)


@pytest.mark.parametrize("impl", IMPLS)
def test_lower_right_causal_of_pytorch(impl: str) -> None:
    """PyTorch's own word for queries that stand at the end of the keys."""
    q, k, v = qkv(queries=6, keys=21, groups=4)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=causal_lower_right(6, 21)
    )
    exact = sdpa(q.double(), k.double(), v.double(), seen=sight(6, 21))
    budget(attend(q, k, v, impl=impl).output, peer=theirs, oracle=exact)  # type: ignore[arg-type]


@pytest.mark.parametrize("impl", IMPLS)
def test_views_that_are_not_contiguous(impl: str) -> None:
    """Models hand over [B, T, H, D] seen as [B, H, T, D], and slices of longer caches."""
    q, k, v = qkv(queries=20, keys=20, width=8)
    odd = [torch.empty(2, 25, x.shape[1], 16).transpose(1, 2)[:, :, 3:23, ::2] for x in (q, k, v)]
    for target, source in zip(odd, (q, k, v), strict=True):
        target.copy_(source)
        assert not target.is_contiguous()
    assert torch.equal(attend_by(impl, *odd).output, attend_by(impl, q, k, v).output)


@pytest.mark.parametrize("impl", IMPLS)
def test_output_keeps_the_dtype_and_inputs_stay_untouched(impl: str) -> None:
    for dtype in DTYPES:
        q, k, v = qkv(dtype=dtype)
        before = [x.clone() for x in (q, k, v)]
        result = attend_by(impl, q, k, v, statistics="all")
        assert result.output.dtype == dtype
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        kinds = {name: value.dtype for name, value in result.statistics.items()}
        assert kinds.pop("argmax") == torch.int64
        assert set(kinds.values()) == {wide}
        assert all(torch.equal(a, b) for a, b in zip(before, (q, k, v), strict=True))


def test_autocast_does_not_narrow_the_scores() -> None:
    q, k, v = qkv(queries=30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = attend(q, k, v, impl="strip").output
    assert torch.equal(inside, attend(q, k, v, impl="strip").output)


def test_a_damaged_mask_is_caught() -> None:
    q, k, v = qkv(queries=13)
    seen = sight(13, 13)
    seen[..., 7, 2] = False
    with pytest.raises(AssertionError, match="off"):
        judge("strip", q, k, v, seen)
