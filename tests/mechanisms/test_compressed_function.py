"""The function of compressed attention against PyTorch's attention with an explicit mask."""

from __future__ import annotations

import pytest
import torch

from attnscope.mechanisms.compressed import IMPLS, compressed_attention
from attnscope.testing import budget

FUNCTION = {
    "all at once": {"queries": 11, "tokens": 11},
    "a later chunk": {"queries": 3, "tokens": 6, "start": 14},
    "a step": {"queries": 1, "tokens": 4, "start": 20},
    "a narrow window": {"queries": 11, "tokens": 11, "window": 1},
}
"""Ways to stand, entries of 3 tokens, a window of 4 unless said."""


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("some_chosen", [False, True])
@pytest.mark.parametrize("name", FUNCTION)
def test_the_function_is_pytorchs_attention_with_a_mask(
    name: str, some_chosen: bool, impl: str
) -> None:
    """The sink is a key of zeros whose mask is its logit; the rest of the mask, pair by pair."""
    case = {"window": 4, "start": 0} | FUNCTION[name]
    T, n, start, w = case["queries"], case["tokens"], case["start"], case["window"]
    random = torch.Generator().manual_seed(3)
    m = (start + T) // 3
    q, sinks = torch.randn(2, 4, T, 8, generator=random), torch.randn(4, generator=random)
    tokens, entries = (torch.randn(2, count, 8, generator=random) for count in (n, m))
    chosen = torch.full((2, T, 2), -1)
    seen = torch.zeros(2, T, n + m, dtype=torch.bool)
    for b in range(2):
        for i in range(T):
            whole = (start + i + 1) // 3
            some = [(b + i) % whole, 0] if whole else []
            chosen[b, i, : len(set(some))] = torch.tensor(sorted(set(some)))
            for j in range(n):
                seen[b, i, j] = 0 <= (n - T + i) - j < w
            for e in range(m):
                seen[b, i, n + e] = e in some if some_chosen else e < whole
    mask = torch.zeros(2, 4, T, n + m + 1).masked_fill(~torch.cat(
        [seen, torch.ones(2, T, 1, dtype=torch.bool)], -1)[:, None], -torch.inf)  # fmt: skip
    mask[..., -1] = sinks[:, None]

    def theirs(dtype: torch.dtype) -> torch.Tensor:
        keys = torch.cat([tokens, entries, torch.zeros(2, 1, 8)], 1).to(dtype)[:, None]
        return torch.nn.functional.scaled_dot_product_attention(
            q.to(dtype), keys, keys, attn_mask=mask.to(dtype), enable_gqa=True
        )

    ours = compressed_attention(
        q, tokens, entries, sinks=sinks, window=w, ratio=3, impl=impl,
        start=start if "start" in FUNCTION[name] else None,
        chosen=chosen if some_chosen else None,
    )  # fmt: skip
    budget(ours, peer=theirs(torch.float32), oracle=theirs(torch.float64))


def test_bad_arguments_of_the_function_are_named() -> None:
    q, x, b = torch.zeros(1, 2, 3, 4), torch.zeros(1, 3, 4), torch.zeros(2)
    for changed, message in (
        ({"impl": "flash"}, "impl: unknown 'flash'; there are reference, fast"),
        ({"window": 0}, "window: expected at least 1, got 0"),
        ({"ratio": 0}, "ratio: expected at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            compressed_attention(q, x, x, **{"sinks": b, "window": 2, "ratio": 2} | changed)
    with pytest.raises(ValueError, match="q: 3 queries cannot stand at the end of 2 tokens"):
        compressed_attention(q, x[:, :2], x, sinks=b, window=2, ratio=2)
