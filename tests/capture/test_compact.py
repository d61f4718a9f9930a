"""Masks in O(T): the same rows as transformers' own mask, and the real mask on any touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import masking_utils as theirs

from attnscope.capture.compact import CompactMask, compact_mask

T, S = 13, 13
IDS = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2]])
POSITIONS = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1, 2, 3]])
LEFT = torch.tensor([0, 3])

CASES: dict[str, Callable[..., Any]] = {
    "causal": theirs.causal_mask_function,
    "bidirectional": theirs.bidirectional_mask_function,
    "sliding": theirs.sliding_window_causal_mask_function(4),
    "sliding both ways": theirs.sliding_window_bidirectional_mask_function(3),
    "chunked": theirs.chunked_causal_mask_function(5, LEFT),
    "packed": theirs.and_masks(
        theirs.remap_positions_for_packed_sequence(theirs.causal_mask_function, POSITIONS),
        theirs.packed_sequence_mask_function(IDS),
    ),
    "packed and sliding": theirs.and_masks(
        theirs.remap_positions_for_packed_sequence(
            theirs.sliding_window_causal_mask_function(3), POSITIONS
        ),
        theirs.packed_sequence_mask_function(IDS),
    ),
    "of no known name": lambda b, h, i, j: (j <= i) & (j >= i - 2),
    "with holes": lambda b, h, i, j: (j <= i) & (j % 2 == i % 2),
}


def both(**given: Any) -> tuple[CompactMask, torch.Tensor]:
    own = theirs.sdpa_mask(**given, allow_is_causal_skip=False)
    return compact_mask(**given), own


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("padded", [False, True])
def test_the_same_mask(name: str, padded: bool) -> None:
    batch = 1 if "packed" in name else 2
    padding = torch.ones(batch, S, dtype=torch.bool)
    if padded:
        padding[-1, :3] = False
    given = {"mask_function": CASES[name], "attention_mask": padding}
    mask, own = both(batch_size=batch, q_length=T, kv_length=S, **given)
    assert torch.equal(mask.dense().expand_as(own), own)
    assert (mask.spans is None) == (name == "with holes")
    rows = torch.tensor([0, 5, 12])
    assert torch.equal(mask.rows(rows), own[:, :, rows])


@pytest.mark.parametrize("name", ["causal", "sliding", "chunked"])
def test_with_a_cache(name: str) -> None:
    """Four new queries after 20 tokens, of which the cache holds the last 9."""
    given = {"q_offset": 20, "kv_offset": 11, "mask_function": CASES[name]}
    mask, own = both(batch_size=2, q_length=4, kv_length=13, **given)
    assert torch.equal(mask.dense().expand_as(own), own)


def test_descriptions() -> None:
    found = compact_mask(1, T, S, mask_function=CASES["sliding"]).described
    assert (found.kind, found.window, found.causal) == ("sliding", 4, True)
    assert compact_mask(1, T, S).described.kind == "full"
    assert compact_mask(2, T, S, mask_function=CASES["chunked"]).described.kind == "chunked"


def test_a_name_that_lies_is_found_out() -> None:
    """The interval read off a name is compared with rows of the function itself."""

    def sliding_window_overlay(sliding_window: int) -> Callable[..., Any]:
        def inner(b: Any, h: Any, i: Any, j: Any) -> Any:
            return (j <= i) & (j > i - sliding_window + 2)

        return inner

    lying = sliding_window_overlay(6)
    lying.__qualname__ = "sliding_window_overlay.<locals>.inner_mask"
    mask, own = both(batch_size=1, q_length=T, kv_length=S, mask_function=lying)
    assert torch.equal(mask.dense().expand_as(own), own)


def test_it_holds_no_memory_and_survives_being_handed_on() -> None:
    mask = compact_mask(1, 4096, 4096, mask_function=CASES["sliding"])
    with torch._C.DisableTorchFunctionSubclass():
        assert mask.untyped_storage().nbytes() == 1
    assert mask.shape == (1, 1, 4096, 4096)
    assert mask.dtype == torch.bool
    assert mask.ndim == 4
    assert isinstance(mask[:, :, :, :4096], CompactMask)


@pytest.mark.parametrize(
    "touch",
    [
        lambda mask: ~mask,
        lambda mask: mask[:, :, :, :7],
        lambda mask: mask[:, :, -1:, :],
        lambda mask: mask.to(torch.float32),
        lambda mask: torch.where(mask, 0.0, -1.0),
        lambda mask: mask & torch.ones(1, 1, T, S, dtype=torch.bool),
        lambda mask: torch.cat([mask, mask], dim=-1),
        lambda mask: torch.nn.functional.pad(mask, (1, 0)),
    ],
)
def test_any_touch_makes_it_real(touch: Callable[[Any], torch.Tensor]) -> None:
    mask, own = both(batch_size=1, q_length=T, kv_length=S, mask_function=CASES["sliding"])
    found = touch(mask)
    assert type(found) is torch.Tensor
    assert torch.equal(found, touch(own))
