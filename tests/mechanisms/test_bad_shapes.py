"""Functions of q, k and v name what does not fit, where PyTorch would broadcast or be vague."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnscope.core.heads import HeadAttention, HeadShape
from attnscope.mechanisms.compressed import compressed_attention
from attnscope.mechanisms.dot_product import dot_product
from attnscope.mechanisms.gated import gated_attention
from attnscope.mechanisms.grouped import grouped_attention
from attnscope.mechanisms.masking import masked_attention
from attnscope.mechanisms.multi_head import Projections, multi_head_attention
from attnscope.mechanisms.qk_norm import qk_norm
from attnscope.mechanisms.rope import rotary_attention
from attnscope.mechanisms.sinks import sink_attention, streaming_attention
from attnscope.mechanisms.sliding import sliding_attention
from attnscope.positions import Rope

ROPE = Rope.plain(8)
FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    f"{name} {impl}": call
    for impl in ("reference", "fast")
    for name, call in {
        "grouped": lambda *x, impl=impl: grouped_attention(*x, impl=impl),
        "sinks": lambda *x, impl=impl: sink_attention(*x, torch.zeros(4), impl=impl),
        "sliding": lambda *x, impl=impl: sliding_attention(*x, window=2, impl=impl),
        "rope": lambda *x, impl=impl: rotary_attention(*x, rope=ROPE, impl=impl),
    }.items()
} | {
    "gated": lambda *x: gated_attention(*x, torch.zeros(1, 4, 3, 8)),
    "streaming": lambda *x: streaming_attention(*x, window=2),
}
RIGHT = {"q": (1, 4, 3, 8), "k": (1, 2, 5, 8), "v": (1, 2, 5, 8)}
SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "rank of q": ({"q": (4, 3, 8)}, r"q: expected \[B, H, T, D\], got \[4, 3, 8\]"),
    "rank of k": ({"k": (2, 5, 8)}, r"k: expected \[B, H, T, D\], got \[2, 5, 8\]"),
    "rank of v": ({"v": (2, 5, 8)}, r"v: expected \[B, H, T, D\], got \[2, 5, 8\]"),
    "width": ({"k": (1, 2, 5, 6)}, r"k: expected \[1, G, S, 8\] like q, got \[1, 2, 5, 6\]"),
    "batch": (
        {"k": (2, 2, 5, 8), "v": (2, 2, 5, 8)}, r"k: expected \[1, G, S, 8\] like q, got \[2,",
    ),
    "length of v": ({"v": (1, 2, 4, 8)}, r"v: expected \[1, 2, 5\] like k .*got \[1, 2, 4, 8\]"),
    "heads of v": ({"v": (1, 1, 5, 8)}, r"v: expected \[1, 2, 5\] like k .*got \[1, 1, 5, 8\]"),
    "heads": (
        {"k": (1, 3, 5, 8), "v": (1, 3, 5, 8)},
        "q: expected heads that are a multiple of the 3 of k, got 4",
    ),
    "no heads": ({"k": (1, 0, 5, 8), "v": (1, 0, 5, 8)}, "multiple of the 0 of k, got 4"),
    "queries": ({"q": (1, 4, 6, 8)}, "k: 6 queries cannot stand at the end of 5 keys"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("case", SHAPES)
def test_shapes_that_do_not_go_together_are_named(name: str, case: str) -> None:
    changed, message = SHAPES[case]
    tensors = [torch.zeros(shape) for shape in (RIGHT | changed).values()]
    with pytest.raises(ValueError, match=message):
        FUNCTIONS[name](*tensors)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_that_do_not_go_together_are_named(name: str) -> None:
    q, k, v = (torch.zeros(shape) for shape in RIGHT.values())
    assert FUNCTIONS[name](q, k, v).shape == q.shape
    with pytest.raises(TypeError, match=r"k: expected a floating dtype like q's torch\.float32"):
        FUNCTIONS[name](q, k.double(), v)
    with pytest.raises(TypeError, match=r"q: expected a floating .* got torch\.int64"):
        FUNCTIONS[name](q.long(), k.long(), v.long())


def test_keys_that_are_none_are_named() -> None:
    q, none = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 0, 4)
    with pytest.raises(ValueError, match="k: 3 queries cannot stand at the end of 0 keys"):
        grouped_attention(q, none, none, causal=False)
    assert grouped_attention(q[:, :, :0], none, none).shape == (1, 2, 0, 4)


@pytest.mark.parametrize("window", [2.5, True, "2"])
def test_a_window_that_is_no_number_of_keys_is_named(window: Any) -> None:
    q, k, v = (torch.zeros(shape) for shape in RIGHT.values())
    message = f"window: expected a whole number of keys, got {window!r}"
    for call in (
        lambda: sliding_attention(q, k, v, window=window),
        lambda: sink_attention(q, k, v, torch.zeros(4), window=window),
        lambda: streaming_attention(q, k, v, window=window),
        lambda: HeadAttention(HeadShape(8, 2, 1, 4), window=window),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def compressed(**changed: Any) -> torch.Tensor:
    given: dict[str, Any] = {
        "q": torch.zeros(1, 2, 3, 4), "tokens": torch.zeros(1, 3, 4),
        "entries": torch.zeros(1, 1, 4), "sinks": torch.zeros(2), "window": 2, "ratio": 2,
    }  # fmt: skip
    return compressed_attention(**(given | changed))


def heads_of(x: torch.Tensor, **changed: torch.Tensor) -> torch.Tensor:
    square = torch.zeros(8, 8)
    whole = {name: changed.get(name, square) for name in "qkvo"}
    return multi_head_attention(x, Projections(**whole), heads=2)


Z = torch.zeros
OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "gate": (
        lambda: gated_attention(Z(1, 4, 3, 8), Z(1, 2, 5, 8), Z(1, 2, 5, 8), Z(1, 3, 3, 8)),
        r"gate: expected \[1, 4, 3, 8\], or one number per head, got \[1, 3, 3, 8\]",
    ),
    "gate of other rank": (
        lambda: gated_attention(Z(1, 4, 3, 8), Z(1, 2, 5, 8), Z(1, 2, 5, 8), Z(3, 8)),
        r"gate: expected .* got \[3, 8\]",
    ),
    "first": (
        lambda: streaming_attention(*(Z(1, 1, 1, 2) for _ in "qkv"), window=1, first=-1),
        "first: expected at least 0 keys, got -1",
    ),
    "norm of q": (
        lambda: qk_norm(Z(1, 2, 3, 8), Z(1, 1, 3, 8), q_weight=Z(6), k_weight=Z(8)),
        r"q_weight: expected \[8\], the width of q, got \[6\]",
    ),
    "norm of k": (
        lambda: qk_norm(Z(1, 2, 3, 8), Z(1, 1, 3, 8), q_weight=Z(8), k_weight=Z(1)),
        r"k_weight: expected \[8\], the width of k, got \[1\]",
    ),
    "positions": (
        lambda: rotary_attention(
            Z(1, 4, 3, 8), Z(1, 2, 5, 8), Z(1, 2, 5, 8), rope=ROPE, positions=torch.arange(4)
        ),
        r"positions: expected \[5\] or \[1, 5\], one per key, got \[4\]",
    ),
    "x": (lambda: heads_of(Z(3, 8)), r"x: expected \[B, T, C\], got \[3, 8\]"),
    "width of x": (lambda: heads_of(Z(1, 3, 6)), r"weights: expected q \[8, 6\], got \[8, 8\]"),
    "rows of v": (
        lambda: heads_of(Z(1, 3, 8), v=Z(4, 8)), r"weights: expected v \[8, 8\], got \[4, 8\]",
    ),
    "output": (
        lambda: heads_of(Z(1, 3, 8), o=Z(8, 4)), r"weights: expected o \[8, 8\], got \[8, 4\]",
    ),
    "compressed q": (lambda: compressed(q=Z(2, 3, 4)), r"q: expected \[B, H, T, D\], got \[2, 3,"),
    "compressed tokens": (
        lambda: compressed(tokens=Z(1, 3, 5)), r"tokens: expected \[1, n, 4\] .* got \[1, 3, 5\]",
    ),
    "compressed entries": (
        lambda: compressed(entries=Z(1, 1, 4).double()),
        r"entries: expected \[1, n, 4\] of torch.float32, .* of torch.float64",
    ),
    "compressed sinks": (
        lambda: compressed(sinks=Z(3)), r"sinks: expected one logit per head, \[2\], got \[3\]",
    ),
    "masked v": (
        lambda: masked_attention(Z(1, 1, 3, 4), Z(1, 1, 3, 4), Z(1, 1, 2, 4)),
        r"v: expected \[1, 1, 3\] like k and a width, got \[1, 1, 2, 4\]",
    ),
    "dot product": (
        lambda: dot_product(Z(1, 1, 3, 4), Z(1, 1, 3, 4), Z(1, 1, 2, 4)),
        r"v: expected \[1, 1, 3\]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_other_arguments_are_named(case: str) -> None:
    call, message = OTHERS[case]
    with pytest.raises(ValueError, match=message):
        call()
