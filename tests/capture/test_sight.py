"""What a mask is called, whatever tensor it came as: judged by the pairs themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnscope.capture.compact import Described
from attnscope.capture.keywords import Meaning
from attnscope.capture.sight import Masks, Sight

T = 9
PATTERNS: dict[str, tuple[Callable[[Any, Any], Any], Described]] = {
    "causal": (lambda i, j: j <= i, Described("full", None, True)),
    "everything": (lambda i, j: (j <= i) | (j > i), Described("full", None, False)),
    "a causal window": (lambda i, j: (j <= i) & (i - j < 3), Described("sliding", 3, True)),
    "a window of one": (lambda i, j: j == i, Described("sliding", 1, True)),
    "all but one": (lambda i, j: (j <= i) & (i - j < T - 1), Described("sliding", T - 1, True)),
    "a window to both sides": (lambda i, j: (i - j).abs() < 3, Described("full", None, False)),
    "a window that begins late": (
        lambda i, j: (j <= i) & (i - j < 3) & (j >= 2),
        Described("sliding", 3, True),
    ),
    "not itself": (lambda i, j: (j < i) | (i + j == 0), Described("full", None, True)),
    "nothing": (lambda i, j: (j < i) & (j > i), Described("full", None, True)),
    "chunks": (lambda i, j: (j <= i) & (i // 4 == j // 4), Described("full", None, True)),
    "holes": (lambda i, j: (j <= i) & ((i - j) % 2 == 0), Described("other", None, True)),
    "holes to both sides": (lambda i, j: (i - j) % 2 == 0, Described("other", None, False)),
}


def pairs(name: str, queries: int = T) -> torch.Tensor:
    """Which keys the last queries of a pattern see, bool [queries, T]."""
    i = torch.arange(T - queries, T)[:, None]
    return PATTERNS[name][0](i, torch.arange(T)[None])


def sight(seen: torch.Tensor | None, *, queries: int = T, **meaning: Any) -> Sight:
    q, k = torch.zeros(1, 2, queries, 4), torch.zeros(1, 2, T, 4)
    return Masks().sight(q, k, seen, Meaning(scale=None, causal=False, **meaning))


def visible(found: Sight) -> torch.Tensor:
    """The pairs that a sight lets through."""
    j = torch.arange(T)
    inside = (j >= found.spans.first[..., None]) & (j < found.spans.end[..., None])
    return inside[0] if found.mask is None else inside[0] & found.mask[0, 0]


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_the_pairs_and_their_name(name: str, additive: bool) -> None:
    seen = pairs(name)
    mask = torch.zeros(T, T).masked_fill(~seen, torch.finfo(torch.float32).min)
    found = sight(mask if additive else seen)
    assert torch.equal(visible(found), seen)
    assert found.bias is None
    assert found.described == PATTERNS[name][1]


@pytest.mark.parametrize(
    ("name", "window", "expected"),
    [
        ("causal", T, Described("sliding", T, True)),  # a text shorter than the model's window
        ("causal", T + 3, Described("sliding", T + 3, True)),
        ("causal", T - 1, Described("full", None, True)),
        ("everything", T + 3, Described("full", None, False)),
        ("a causal window", 3, Described("sliding", 3, True)),
        ("a causal window", 2, Described("sliding", 3, True)),  # the mask decides
    ],
)
def test_a_window_that_the_model_names(name: str, window: int, expected: Described) -> None:
    assert sight(pairs(name), window=window).described == expected


@pytest.mark.parametrize("name", ["causal", "a causal window", "holes"])
def test_the_last_query_alone(name: str) -> None:
    seen = pairs(name, queries=1)
    found = sight(seen, queries=1)
    assert torch.equal(visible(found), seen)
    kind = "other" if name == "holes" else "full"  # one row does not tell a window from a chunk
    assert found.described == Described(kind, None, True)


def test_numbers_in_a_mask_are_a_bias() -> None:
    mask = torch.linspace(-2, 2, T * T).view(T, T).masked_fill(~pairs("causal"), -torch.inf)
    found = sight(mask)
    assert torch.equal(visible(found), pairs("causal"))
    assert found.bias is not None
    assert torch.equal(found.bias[0, 0], mask.masked_fill(mask == -torch.inf, 0))
    more = torch.full((1, 2, T, T + 4), 0.5)
    found = sight(mask, bias=more)
    assert found.bias is not None
    assert torch.equal(found.bias[0, 1], mask.masked_fill(mask == -torch.inf, 0) + 0.5)


def test_keys_that_an_indexer_chose() -> None:
    """Of each query's list; -1 and what lies beyond the keys choose nothing."""
    indices = torch.stack([torch.arange(T), torch.zeros(T, dtype=torch.long),
                           torch.full((T,), -1), torch.full((T,), T)], dim=-1)[None]  # fmt: skip
    found = sight(pairs("holes"), indices=indices)
    i, j = torch.arange(T)[:, None], torch.arange(T)[None]
    assert torch.equal(visible(found), ((j == i) | (j == 0)) & pairs("holes"))
    assert found.described.kind == "sparse"
