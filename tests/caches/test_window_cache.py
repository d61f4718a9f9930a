"""A sliding window against torch.cat of everything, transformers' layer, and the mask of core."""

from __future__ import annotations

import pytest
import torch
from cache_cases import bytes_of, laid_out, pieces, tensors
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.cache_utils import DynamicSlidingWindowLayer

from attnscope.caches import Cache, WindowCache
from attnscope.core import attend

laws = settings(max_examples=80, deadline=None)
windows = st.integers(1, 40)
chunkings = st.lists(st.sampled_from([0, 1, 1, 1, 2, 3, 17, 60]), max_size=30)


@laws
@given(windows, chunkings, st.sampled_from([torch.float32, torch.float16]))
def test_any_chunks_give_the_last_of_what_cat_gives(
    window: int, chunks: list[int], dtype: torch.dtype
) -> None:
    total = max(1, sum(chunks))
    k, v = tensors((2, 3, total, 4), (2, 3, total, 2), dtype=dtype)
    cache = WindowCache(window)
    for begin, end in pieces(total, chunks):
        ours = cache.append(k[:, :, begin:end], v[:, :, begin:end])
        first = begin - min(begin, window - 1)
        for given_out, whole in zip(ours, (k, v), strict=True):
            assert torch.equal(given_out, whole[:, :, first:end])
        held = min(end, window)
        assert (cache.length, cache.held) == (end, held)
        assert torch.equal(cache.keys, k[:, :, end - held : end])  # type: ignore[arg-type]
        assert torch.equal(cache.values, v[:, :, end - held : end])  # type: ignore[arg-type]
        assert cache.nbytes == bytes_of(cache.keys, cache.values)
        assert cache.allocated == laid_out(cache.keys, cache.values)
        # Memory is bounded whatever comes, a long prompt too.
        assert cache.allocated <= bytes_of(k[:, :, :1], v[:, :, :1]) * (window + max(window, 16))


@laws
@given(st.integers(2, 20), st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_transformers_gives_the_same_and_holds_one_token_less(
    window: int, chunks: list[int]
) -> None:
    total = sum(chunks)
    k, v = tensors((1, 2, total, 4), (1, 2, total, 2))
    ours, theirs = WindowCache(window), DynamicSlidingWindowLayer(sliding_window=window)
    for begin, end in pieces(total, chunks):
        new = k[:, :, begin:end], v[:, :, begin:end]
        for mine, other in zip(ours.append(*new), theirs.update(*new), strict=True):
            assert torch.equal(mine, other)
        one = bytes_of(k[:, :, :1], v[:, :, :1])
        weighed = bytes_of(theirs.keys, theirs.values)
        assert ours.nbytes == weighed + (one if end >= window else 0)


@pytest.mark.parametrize("window", [1, 2, 5, 16])
@pytest.mark.parametrize("chunk", [1, 3, 7, 40])
def test_attention_in_chunks_is_attention_at_once(window: int, chunk: int) -> None:
    """The t queries stand at the end of the keys given out, so the same window is right."""
    q, k, v = tensors((1, 4, 40, 8), (1, 2, 40, 8), (1, 2, 40, 8))
    whole = attend(q, k, v, window=window, impl="reference").output
    cache = WindowCache(window)
    for begin in range(0, 40, chunk):
        part = slice(begin, begin + chunk)
        keys, values = cache.append(k[:, :, part], v[:, :, part])
        out = attend(q[:, :, part], keys, values, window=window, impl="reference").output
        # The same terms in sums of another length.
        assert torch.allclose(out, whole[:, :, part], atol=1e-6)


@pytest.mark.parametrize("window", [1, 16, 100])
def test_steps_move_the_window_once_in_a_window(window: int) -> None:
    """Counted by addresses: between moves the window slides through one buffer."""
    cache, steps = WindowCache(window), 1000
    k, v = tensors((1, 2, steps, 8), (1, 2, steps, 8))
    copied, end = 0, None
    for t in range(steps):
        keys, _ = cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])
        newest = keys[:, :, -1:].data_ptr()
        if end is not None and newest != end + 8 * 4:
            copied += min(t, window - 1)
        end = newest
        assert keys.stride() == cache._keys.buffer.stride()  # type: ignore[union-attr]
    assert copied <= 1.5 * steps  # copying the window at each step is `window` times as much
    assert cache._keys.moves <= 8 + steps // max(window, 16)


def test_a_view_once_given_out_never_changes() -> None:
    cache = WindowCache(5)
    k, v = tensors((1, 1, 200, 2), (1, 1, 200, 2))
    views = [cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])[0] for t in range(200)]
    for t, keys in enumerate(views):
        assert torch.equal(keys, k[:, :, max(0, t - 4) : t + 1])


def test_a_short_text_in_a_wide_window_takes_little_room() -> None:
    cache = WindowCache(4096)
    cache.append(*tensors((1, 1, 20, 8), (1, 1, 20, 8)))
    assert cache.allocated <= 1.5 * cache.nbytes


@laws
@given(
    windows,
    chunkings.filter(lambda chunks: sum(chunks) > 0),
    st.integers(0, 200),
    st.integers(1, 50),
)
def test_rewinding_is_as_if_it_had_never_come_or_refused(
    window: int, chunks: list[int], back: int, more: int
) -> None:
    total = sum(chunks)
    k, v = tensors((1, 1, total, 2), (1, 1, total, 2))
    cache = WindowCache(window)
    for begin, end in pieces(total, chunks):
        cache.append(k[:, :, begin:end], v[:, :, begin:end])
    length = max(0, total - back)
    within = total <= window or length == 0 or length >= total - 1
    if not within:
        with pytest.raises(ValueError, match=r"length: the token at .* FullCache"):
            cache.rewind(length)
        assert cache.length == total
        return
    cache.rewind(length)
    assert cache.length == length
    new = tensors((1, 1, more, 2), (1, 1, more, 2), seed=1)
    keys, values = cache.append(*new)
    for ours, old, fresh in zip((keys, values), (k, v), new, strict=True):
        expected = torch.cat([old[:, :, :length], fresh], dim=2)
        assert torch.equal(ours, expected[:, :, length - min(length, window - 1) :])
    assert cache.held == min(length + more, window)


def test_one_token_is_taken_back_but_not_two() -> None:
    cache = WindowCache(3)
    x = torch.arange(10.0).view(1, 1, 10, 1)
    cache.append(x, x)
    cache.rewind(9)
    assert (cache.length, cache.held) == (9, 2)
    with pytest.raises(
        ValueError,
        match=r"the token at 8 would see keys from 6 on, but a window of 3 after 9 tokens holds "
        r"those from 7 on; clear\(\)",
    ):
        cache.rewind(8)
    keys, _ = cache.append(x[:, :, 9:], x[:, :, 9:])
    assert keys.flatten().tolist() == [7.0, 8.0, 9.0]


def test_clear_and_the_empty_cache() -> None:
    cache = WindowCache(3)
    assert isinstance(cache, Cache)
    assert (cache.length, cache.held, cache.nbytes, cache.allocated) == (0, 0, 0, 0)
    assert cache.keys is cache.values is None
    keys, _ = cache.append(*tensors((1, 2, 0, 4), (1, 2, 0, 4)))
    assert keys.shape == (1, 2, 0, 4)
    cache.append(*tensors((1, 2, 9, 4), (1, 2, 9, 4)))
    cache.clear()
    assert (cache.length, cache.held, cache.nbytes, cache.allocated) == (0, 0, 0, 0)
    k, v = tensors((2, 1, 2, 3), (2, 1, 2, 3), seed=4)
    assert torch.equal(cache.append(k, v)[0], k)
    cache.rewind(0)
    assert cache.keys is None


def test_gradients_flow_through_the_chunks() -> None:
    k, v, weight = tensors((1, 1, 9, 4), (1, 1, 9, 4), (1, 1, 9, 4))
    parts = k.clone().requires_grad_()
    cache, total = WindowCache(3), torch.zeros(())
    uses = torch.zeros(9)
    for begin, end in ((0, 2), (2, 3), (3, 8), (8, 9)):
        keys, _ = cache.append(parts[:, :, begin:end], v[:, :, begin:end])
        first = end - keys.shape[2]
        uses[first:end] += 1
        total = total + (keys * weight[:, :, first:end]).sum()
    total.backward()
    assert torch.equal(parts.grad, weight * uses[None, None, :, None])  # type: ignore[arg-type]
    with torch.no_grad():
        more = cache.append(*tensors((1, 1, 1, 4), (1, 1, 1, 4)))[0]
    assert not more.requires_grad
    assert torch.equal(more[:, :, :2], k[:, :, 7:])


def test_a_long_prompt_is_not_kept_alive() -> None:
    cache = WindowCache(4)
    cache.append(*tensors((1, 1, 1000, 2), (1, 1, 1000, 2)))
    assert laid_out(cache.keys, cache.values) <= 2 * (4 + 16) * 2 * 4


@pytest.mark.parametrize(
    ("window", "kind", "message"),
    [
        (0, ValueError, "window: expected at least 1, got 0"),
        (-3, ValueError, "window: expected at least 1, got -3"),
        (2.0, TypeError, "window: expected an integer, got float"),
        (None, TypeError, "window: expected an integer, got NoneType"),
    ],
)
def test_a_window_holds_a_token(window: int, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        WindowCache(window)


def test_what_does_not_go_with_what_is_held() -> None:
    cache = WindowCache(3)
    cache.append(*tensors((1, 2, 9, 4), (1, 2, 9, 4)))
    before = cache.keys.clone()  # type: ignore[union-attr]
    for k, v, kind, message in (
        (torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 2, 4), ValueError, "tokens of k"),
        (torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1, 4), ValueError, "heads G = 2, got 1"),
        (torch.zeros(1, 2, 1, 4).double(), torch.zeros(1, 2, 1, 4), TypeError, "float32, got"),
    ):
        with pytest.raises(kind, match=message):
            cache.append(k, v)
    for length, kind in ((-1, ValueError), (10, ValueError), ("9", TypeError)):
        with pytest.raises(kind, match="length: "):
            cache.rewind(length)  # type: ignore[arg-type]
    assert cache.length == 9
    assert torch.equal(cache.keys, before)  # type: ignore[arg-type]
