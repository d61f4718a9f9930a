"""A cache of everything against torch.cat of everything, and against transformers' own."""

from __future__ import annotations

import itertools

import pytest
import torch
from cache_cases import bytes_of, laid_out, pieces, tensors
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

from attnscope.caches import Cache, FullCache
from attnscope.core import attend

laws = settings(max_examples=60, deadline=None)


@laws
@given(
    st.lists(st.integers(0, 40), max_size=12), st.integers(0, 60), st.integers(1, 2),
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 4),
    st.sampled_from([torch.float32, torch.bfloat16]),
)  # fmt: skip
def test_any_chunks_give_what_cat_gives(
    chunks: list[int], room: int, batch: int, heads: int, width: int, values: int,
    dtype: torch.dtype,
) -> None:  # fmt: skip
    total = max(1, sum(chunks))
    k, v = tensors((batch, heads, total, width), (batch, heads, total, values), dtype=dtype)
    cache, theirs = FullCache(room=room), DynamicCache()
    for begin, end in pieces(total, chunks):
        new = k[:, :, begin:end], v[:, :, begin:end]
        ours = cache.append(*new)
        their = theirs.update(*new, 0)
        for mine, other, whole in zip(ours, their, (k, v), strict=True):
            assert torch.equal(mine, whole[:, :, :end])
            assert torch.equal(mine, other)
        assert cache.length == end == theirs.get_seq_length()
        assert torch.equal(cache.keys, ours[0])  # type: ignore[arg-type]
        assert torch.equal(cache.values, ours[1])  # type: ignore[arg-type]
        held = theirs.layers[0].keys, theirs.layers[0].values
        assert cache.nbytes == bytes_of(*ours) == bytes_of(*held)
        assert cache.allocated == laid_out(cache.keys, cache.values)
        assert cache.allocated >= cache.nbytes


def test_steps_copy_what_is_held_only_now_and_then() -> None:
    """Counted by the address of the buffer: a move copies all, a step in place copies one."""
    cache = FullCache()
    k, v = tensors((1, 2, 4000, 8), (1, 2, 4000, 8))
    copied, moves, address = 0, 0, None
    for t in range(4000):
        keys, _ = cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])
        if keys.data_ptr() != address:
            moves, copied, address = moves + 1, copied + t, keys.data_ptr()
    assert moves < 16  # 16 slots times 1.5^14 are 4,670
    assert copied < 3 * 4000  # concatenation copies 4000^2 / 2 = 8,000,000
    assert cache._keys.moves == moves - 1
    assert cache.allocated <= 1.6 * cache.nbytes


def test_room_laid_out_ahead_is_never_left() -> None:
    cache = FullCache(room=100)
    k, v = tensors((1, 2, 101, 8), (1, 2, 101, 8))
    addresses = {
        cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])[0].data_ptr() for t in range(100)
    }
    assert len(addresses) == 1
    assert cache.allocated == cache.nbytes == bytes_of(k[:, :, :100], v[:, :, :100])
    keys, _ = cache.append(k[:, :, 100:], v[:, :, 100:])  # more still fit
    assert torch.equal(keys, k)


def test_a_view_once_given_out_never_changes() -> None:
    cache = FullCache()
    k, v = tensors((1, 2, 300, 4), (1, 2, 300, 4))
    views = [cache.append(k[:, :, t : t + 3], v[:, :, t : t + 3]) for t in range(0, 300, 3)]
    for t, (keys, values) in enumerate(views):
        assert torch.equal(keys, k[:, :, : 3 * t + 3])
        assert torch.equal(values, v[:, :, : 3 * t + 3])


def test_what_was_given_can_be_overwritten() -> None:
    """The cache holds copies: a model may reuse the memory of its keys."""
    cache = FullCache()
    k, v = tensors((1, 2, 5, 4), (1, 2, 5, 4))
    given = k.clone(), v.clone()
    cache.append(*given)
    for x in given:
        x.zero_()
    assert torch.equal(cache.keys, k)  # type: ignore[arg-type]
    assert torch.equal(cache.values, v)  # type: ignore[arg-type]


@laws
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 100)), min_size=1, max_size=10))
def test_rewinding_is_as_if_it_had_never_come(steps: list[tuple[int, int]]) -> None:
    cache, kept = FullCache(), torch.empty(1, 1, 0, 2)
    for seed, (count, back) in enumerate(steps):
        (k,) = tensors((1, 1, count, 2), seed=seed)
        kept = torch.cat([kept, k], dim=2)
        keys, _ = cache.append(k, 2 * k)
        assert torch.equal(keys, kept)
        length = max(0, kept.shape[2] - back)
        kept = kept[:, :, :length]
        cache.rewind(length)
        assert cache.length == length
        assert cache.nbytes == 2 * bytes_of(kept)


def test_clear_frees_the_memory_and_takes_another_shape() -> None:
    cache = FullCache(room=10)
    cache.append(*tensors((2, 2, 3, 4), (2, 2, 3, 4)))
    cache.clear()
    assert (cache.length, cache.nbytes, cache.allocated, cache.keys) == (0, 0, 0, None)
    k, v = tensors((1, 3, 2, 5), (1, 3, 2, 7), dtype=torch.bfloat16)
    keys, values = cache.append(k, v)
    assert torch.equal(keys, k)
    assert torch.equal(values, v)


def test_it_is_a_cache_that_begins_empty() -> None:
    cache = FullCache()
    assert isinstance(cache, Cache)
    assert (cache.length, cache.nbytes, cache.allocated) == (0, 0, 0)
    assert cache.keys is cache.values is None
    keys, _ = cache.append(*tensors((1, 2, 0, 4), (1, 2, 0, 4)))
    assert keys.shape == (1, 2, 0, 4)
    assert cache.nbytes == 0


def test_gradients_flow_through_the_chunks() -> None:
    """Parts that require gradients are joined: nothing is written that the graph needs."""
    k, v, weight = tensors((1, 2, 7, 4), (1, 2, 7, 3), (1, 2, 7, 4))
    whole = k.clone().requires_grad_()
    (whole * weight).sum().backward()
    parts = k.clone().requires_grad_()
    cache, total = FullCache(), torch.zeros(())
    for begin, end in ((0, 3), (3, 4), (4, 7)):
        keys, _ = cache.append(parts[:, :, begin:end], v[:, :, begin:end])
        total = total + (keys[:, :, begin:] * weight[:, :, begin:end]).sum()
    assert cache.keys.requires_grad  # type: ignore[union-attr]
    assert cache._keys.capacity == 7
    total.backward()
    assert torch.equal(parts.grad, whole.grad)  # type: ignore[arg-type]
    before = cache.keys
    with torch.no_grad():
        more = cache.append(*tensors((1, 2, 1, 4), (1, 2, 1, 3)))[0]
    assert not more.requires_grad
    assert torch.equal(before, k)  # type: ignore[arg-type]
    assert torch.equal(more[:, :, :7], k)


def test_gradients_of_queries_alone_need_no_copies() -> None:
    """A graph that holds views of the keys is served too: their slots are never written again."""
    q, k, v = tensors((1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4))
    step, whole = (q.clone().requires_grad_() for _ in range(2))
    attend(whole, k, v, impl="reference").output.sum().backward()
    cache, total = FullCache(room=6), torch.zeros(())
    for t in range(6):
        one = slice(t, t + 1)
        keys, values = cache.append(k[:, :, one], v[:, :, one])
        weights = (step[:, :, one] @ keys.mT / 2).softmax(-1)
        total = total + (weights @ values).sum()
    assert cache._keys.moves == 0
    total.backward()
    # The same terms in sums of another length.
    assert torch.allclose(step.grad, whole.grad, atol=1e-6)  # type: ignore[arg-type]


def test_a_graph_over_tokens_that_were_taken_back_says_so() -> None:
    (x,) = tensors((1, 1, 3, 2))
    q = torch.ones(1, 1, 1, 2, requires_grad=True)
    cache = FullCache()
    loss = (q @ cache.append(x, x)[0].mT).sum()
    cache.rewind(2)
    cache.append(x[:, :, :1], x[:, :, :1])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_cache_filled_in_inference_mode_goes_on_outside() -> None:
    cache = FullCache(room=8)
    k, v = tensors((1, 2, 3, 4), (1, 2, 3, 4))
    with torch.inference_mode():
        cache.append(k[:, :, :2], v[:, :, :2])
    with torch.no_grad():
        keys, _ = cache.append(k[:, :, 2:], v[:, :, 2:])
    assert torch.equal(keys, k)
    with torch.inference_mode():
        keys, _ = cache.append(k, v)
    assert torch.equal(keys[:, :, 3:], k)


def test_memory_may_be_laid_out_in_any_order() -> None:
    """Models hand over [B, T, H, D] seen as [B, H, T, D], or one head expanded."""
    (wide,) = tensors((2, 6, 3, 4))
    k, v = wide.transpose(1, 2), wide[:, :, :1].transpose(1, 2).expand(2, 3, 6, 4)
    cache = FullCache()
    cache.append(k[:, :, :4], v[:, :, :4])
    keys, values = cache.append(k[:, :, 4:], v[:, :, 4:])
    assert torch.equal(keys, k)
    assert torch.equal(values, v)


@pytest.mark.parametrize("chunk", [1, 3, 8])
def test_attention_in_chunks_is_attention_at_once(chunk: int) -> None:
    q, k, v = tensors((1, 4, 13, 8), (1, 2, 13, 8), (1, 2, 13, 8))
    whole = attend(q, k, v, impl="reference").output
    cache = FullCache()
    for begin in range(0, 13, chunk):
        part = slice(begin, begin + chunk)
        keys, values = cache.append(k[:, :, part], v[:, :, part])
        out = attend(q[:, :, part], keys, values, impl="reference").output
        # The same terms in sums of another length.
        assert torch.allclose(out, whole[:, :, part], atol=1e-6)


FIRST = ((2, 3, 4, 5), (2, 3, 4, 6))


@pytest.mark.parametrize(
    ("k", "v", "kind", "message"),
    [
        (torch.zeros(3, 4, 5), torch.zeros(2, 3, 1, 6), ValueError,
         r"k: expected \[B, G, t, D\], got shape \[3, 4, 5\]"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(6), ValueError, r"v: expected \[B, G, t, E\]"),
        (torch.zeros(1, 3, 1, 5), torch.zeros(1, 3, 1, 6), ValueError,
         r"k: the cache holds batch B = 2, got 1 in shape .* clear\(\) it for the next"),
        (torch.zeros(2, 1, 1, 5), torch.zeros(2, 1, 1, 6), ValueError,
         "k: the cache holds heads G = 3, got 1"),
        (torch.zeros(2, 3, 1, 6), torch.zeros(2, 3, 1, 6), ValueError,
         "k: the cache holds width D = 5, got 6"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1, 5), ValueError,
         "v: the cache holds width E = 6, got 5"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 2, 6), ValueError,
         r"v: expected the batch, heads and tokens of k, \[2, 3, 1\], got \[2, 3, 2\]"),
        (torch.zeros(2, 3, 1, 5).bfloat16(), torch.zeros(2, 3, 1, 6), TypeError,
         "k: the cache holds torch.float32, got torch.bfloat16; cast it"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1, 6).double(), TypeError,
         "v: the cache holds torch.float32, got torch.float64"),
        (torch.zeros(2, 3, 1, 5, device="meta"), torch.zeros(2, 3, 1, 6), ValueError,
         "k: the cache is on cpu, got a tensor on meta"),
        ([[1.0]], torch.zeros(2, 3, 1, 6), TypeError, r"k: expected a tensor \[B, G, t, D\], got"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_what_is_held(
    k: torch.Tensor, v: torch.Tensor, kind: type[Exception], message: str
) -> None:
    cache = FullCache()
    before = [x.clone() for x in cache.append(*tensors(*FIRST))]
    with pytest.raises(kind, match=message):
        cache.append(k, v)
    # Nothing was kept, of neither.
    assert cache.length == 4
    assert torch.equal(cache.keys, before[0])  # type: ignore[arg-type]
    assert torch.equal(cache.values, before[1])  # type: ignore[arg-type]


def test_the_first_parts_must_go_together_too() -> None:
    with pytest.raises(ValueError, match="v: expected the batch, heads and tokens of k"):
        FullCache().append(torch.zeros(1, 2, 3, 4), torch.zeros(1, 1, 3, 4))
    with pytest.raises(ValueError, match="v: on meta, but k on cpu"):
        FullCache().append(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4, device="meta"))


@pytest.mark.parametrize(
    ("length", "kind", "message"),
    [
        (-1, ValueError, r"length: a cache of 4 tokens rewinds to 0 \.\. 4, got -1"),
        (5, ValueError, r"length: a cache of 4 tokens rewinds to 0 \.\. 4, got 5"),
        (1.0, TypeError, "length: expected an integer, got float"),
        (True, TypeError, "length: expected an integer, got bool"),
    ],
)
def test_lengths_it_never_had(length: int, kind: type[Exception], message: str) -> None:
    cache = FullCache()
    cache.append(*tensors(*FIRST))
    with pytest.raises(kind, match=message):
        cache.rewind(length)
    assert cache.length == 4


@pytest.mark.parametrize(
    ("room", "kind", "message"),
    [(-1, ValueError, "room: expected at least 0, got -1"), (1.5, TypeError, "room: expected an")],
)
def test_room_is_a_number_of_tokens(room: int, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        FullCache(room=room)


def test_a_token_in_the_wrong_place_is_caught() -> None:
    """The comparison with cat sees one number that moved."""
    k, v = tensors((1, 1, 6, 2), (1, 1, 6, 2))
    cache = FullCache()
    for t in itertools.chain(range(3), (4, 3, 5)):
        keys, _ = cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])
    assert not torch.equal(keys, k)
