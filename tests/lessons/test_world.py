"""The teaching world: its attention is PyTorch's, its file is refused when it is damaged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attnscope.core import attend
from attnscope.lessons import world as module
from attnscope.lessons.world import ENGLISH, PATH, World, cosine, from_json, load, softmax
from attnscope.testing import budget

WIDTHS = {None: 4, 0: 2, 1: 2}


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def torch_qkv(dtype: torch.dtype, head: int | None) -> list[torch.Tensor]:
    """q, k and v of a head from the file alone, [1, 1, T, D]."""
    raw = document()
    columns = slice(None) if head is None else slice(2 * head, 2 * head + 2)
    x = torch.tensor(raw["E"], dtype=dtype)
    return [
        (x @ torch.tensor(raw[name], dtype=dtype))[None, None, :, columns]
        for name in ("W_Q", "W_K", "W_V")
    ]


def test_tokens_stand_where_the_lessons_need_them() -> None:
    world = load()
    assert world.tokens[2:] == ("苹果", "给了", "小王")
    assert world.tokens[0] == "小明"
    assert (len(world.tokens), len(world.features), world.w_q.shape) == (5, 6, (6, 4))
    assert set(ENGLISH) == set(world.tokens)
    assert len(set(ENGLISH.values())) == len(ENGLISH)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("head", [None, 0, 1])
def test_output_is_that_of_sdpa(head: int | None, causal: bool) -> None:
    oracle = scaled_dot_product_attention(*torch_qkv(torch.float64, head), is_causal=causal)
    peer = scaled_dot_product_attention(*torch_qkv(torch.float32, head), is_causal=causal)
    ours = load().astype(np.float32).output(head, causal=causal)
    assert ours.dtype == np.float32
    budget(torch.from_numpy(ours), peer=peer[0, 0], oracle=oracle[0, 0])


def test_both_heads_are_those_of_multihead_attention() -> None:
    raw = document()
    judge = torch.nn.MultiheadAttention(4, 2, bias=False, kdim=4, vdim=4, batch_first=True)
    judge = judge.double()
    # The projections take 6 features to 4 columns, which this module cannot: they are done before.
    q, k, v = (part[0] for part in torch_qkv(torch.float64, None))
    with torch.no_grad():
        judge.in_proj_weight.copy_(torch.eye(4, dtype=torch.float64).repeat(3, 1))
        judge.out_proj.weight.copy_(torch.eye(4))
    blocked = torch.ones(5, 5, dtype=torch.bool).triu(1)
    output, weights = judge(q, k, v, attn_mask=blocked, average_attn_weights=False)
    world = from_json(raw)
    # Both in float64: products of numbers near 1, summed over at most six.
    for head in (0, 1):
        np.testing.assert_allclose(world.weights(head), weights[0, head].detach(), atol=1e-15)
    ours = np.concatenate([world.output(0), world.output(1)], axis=1)
    np.testing.assert_allclose(ours, output[0].detach(), atol=1e-15)


def test_statistics_of_the_core_are_of_the_same_weights() -> None:
    q, k, v = torch_qkv(torch.float64, None)
    found = attend(q, k, v, statistics=["entropy", "max_weight"], impl="reference")
    p = load().weights()
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)
    # The core gives statistics in float32.
    np.testing.assert_allclose(found["entropy"][0, 0], entropy, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found["max_weight"][0, 0], p.max(-1), rtol=1e-6)


@pytest.mark.parametrize("head", [None, 0, 1])
def test_rows_sum_to_one_and_the_future_has_nothing(head: int | None) -> None:
    weights = load().weights(head)
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-15)  # a few roundings of float64
    assert (weights[np.triu_indices(5, 1)] == 0).all()
    assert (weights >= 0).all()
    values = load().v[:, load().columns(head)]
    output = load().output(head)
    assert (output >= values.min(0) - 1e-15).all()
    assert (output <= values.max(0) + 1e-15).all()


def test_softmax_does_not_overflow_and_shifts_away() -> None:
    # 1e4 + s keeps s to 2e-12 in float64.
    np.testing.assert_allclose(softmax([1e4, 1e4 + 1.0]), softmax([0.0, 1.0]), rtol=1e-11)
    assert softmax([1e300, 0.0]).tolist() == [1.0, 0.0]


def test_cosine_by_hand() -> None:
    assert cosine(np.array([3.0, 4.0]), np.array([4.0, 3.0])) == pytest.approx(24 / 25)


def test_the_shared_world_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        load().embeddings[0, 0] = 2.0
    assert load() is load()


def test_a_world_of_ones_own_is_another() -> None:
    raw = document()
    raw["E"][3] = raw["E"][2]
    changed = from_json(raw)
    assert isinstance(changed, World)
    assert not np.allclose(changed.weights(), load().weights())
    np.testing.assert_array_equal(changed.q[3], changed.q[2])


DAMAGE: list[tuple[str, Any, str]] = [
    ("E", None, "the field E is missing"),
    ("tokens", None, "the field tokens is missing"),
    ("W_K", [[1.0] * 4] * 5, r"expected W_K of shape \[6, 4\], got \[5, 4\]"),
    ("E", [[1.0] * 6] * 4, r"expected E of shape \[5, 6\], got \[4, 6\]"),
    ("W_V", [[1.0, 2.0], [3.0]], "W_V is no matrix of numbers"),
    ("W_Q", [[float("nan")] * 4] * 6, "W_Q holds a number that is not finite"),
    ("features", ["one"], "expected d_model = 6 features, got 1"),
    ("n_heads", 3, r"d_k = 4 cannot be cut into n_heads = 3 equal heads"),
    ("n_heads", 0, r"n_heads = 0"),
    ("d_k", 8, r"expected W_Q of shape \[6, 8\]"),
]


@pytest.mark.parametrize(("field", "value", "message"), DAMAGE)
def test_a_damaged_file_is_refused(field: str, value: Any, message: str) -> None:
    raw = document()
    if value is None:
        del raw[field]
    else:
        raw[field] = value
    with pytest.raises(ValueError, match=message):
        from_json(raw)


def test_unknown_tokens_and_heads_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one of 小明, 把, 苹果, 给了, 小王, got '梨'"):
        load().index("梨")
    with pytest.raises(ValueError, match="head: expected None or 0 to 1, got 2"):
        load().weights(2)
    with pytest.raises(ValueError, match="got -1"):
        load().columns(-1)


def test_doc_examples() -> None:
    import doctest

    assert doctest.testmod(module).failed == 0
