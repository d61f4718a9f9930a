"""What attention by heads refuses; each function's own refusals are in tests/mechanisms."""

from __future__ import annotations

import doctest

import pytest
import torch

from attnscope.core import head_inputs
from attnscope.core.head_inputs import check_heads, check_window


def test_the_examples_run() -> None:
    found = doctest.testmod(head_inputs)
    assert found.attempted == 3
    assert found.failed == 0


def test_more_queries_than_keys_are_refused_where_they_must_stand_at_the_end() -> None:
    q, k = torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 3, 4)
    check_heads(q, k, k, causal=False)
    check_heads(q[:, :, :3], k, k)
    with pytest.raises(ValueError, match="k: 5 queries cannot stand at the end of 3 keys"):
        check_heads(q, k, k)


def test_values_may_have_a_width_of_their_own() -> None:
    q = torch.zeros(1, 2, 3, 4)
    check_heads(q, q, torch.zeros(1, 2, 3, 7))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_dtype_will_do(dtype: torch.dtype) -> None:
    q = torch.zeros(1, 2, 3, 4, dtype=dtype)
    check_heads(q, q, q)


def test_a_window_has_a_key_at_least() -> None:
    check_window(1)
    with pytest.raises(ValueError, match=r"window: expected at least 1 key .*, got -1"):
        check_window(-1)
