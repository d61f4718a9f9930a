"""Latents and rotated keys against torch.cat, transformers' indexed layer, and their real bytes."""

from __future__ import annotations

import pytest
import torch
from cache_cases import bytes_of, laid_out, pieces, tensors
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.cache_utils import DynamicIndexedLayer

from attnscope.caches import Cache, LatentCache

laws = settings(max_examples=50, deadline=None)


@laws
@given(
    st.lists(st.integers(0, 40), max_size=12), st.booleans(), st.integers(0, 60),
    st.sampled_from([torch.float32, torch.bfloat16]),
)  # fmt: skip
def test_any_chunks_give_what_cat_gives(
    chunks: list[int], with_index: bool, room: int, dtype: torch.dtype
) -> None:
    total = max(1, sum(chunks))
    widths = (7, 4, 5) if with_index else (7, 4)
    streams = tensors(*((2, total, width) for width in widths), dtype=dtype)
    cache, theirs = LatentCache(room=room), DynamicIndexedLayer()
    for begin, end in pieces(total, chunks):
        new = [x[:, begin:end] for x in streams]
        ours = cache.append(*new)
        assert len(ours) == len(widths)
        their = [x[:, 0] for x in theirs.update(new[0][:, None], new[1][:, None])]
        if with_index:
            their.append(theirs.update_indexer(new[2]))
        for mine, other, whole in zip(ours, their, streams, strict=True):
            assert torch.equal(mine, whole[:, :end])
            assert torch.equal(mine, other)
        held = (cache.latents, cache.rope_keys, cache.indexes)
        assert (cache.indexes is not None) == with_index
        assert cache.length == end
        assert cache.nbytes == bytes_of(*ours) == bytes_of(*held)
        assert cache.allocated == laid_out(*held) >= cache.nbytes


def test_deepseek_keeps_576_numbers_per_token() -> None:
    cache = LatentCache()
    cache.append(*tensors((1, 10, 512), (1, 10, 64), dtype=torch.bfloat16))
    assert cache.nbytes == 10 * 1152  # 69,120 B per token over 60 layers
    cache.clear()
    cache.append(*tensors((1, 10, 512), (1, 10, 64), (1, 10, 128), dtype=torch.bfloat16))
    assert cache.nbytes == 10 * (1152 + 256)


def test_steps_copy_what_is_held_only_now_and_then() -> None:
    cache = LatentCache()
    streams = tensors((1, 3000, 8), (1, 3000, 4), (1, 3000, 2))
    copied, addresses = 0, [0, 0, 0]
    for t in range(3000):
        for n, held in enumerate(cache.append(*(x[:, t : t + 1] for x in streams))):
            if held.data_ptr() != addresses[n]:
                copied, addresses[n] = copied + t, held.data_ptr()
    assert copied < 3 * 3 * 3000


def test_rewind_forgets_all_streams_alike() -> None:
    streams = tensors((1, 9, 8), (1, 9, 4), (1, 9, 2))
    cache = LatentCache()
    cache.append(*streams)
    cache.rewind(4)
    assert cache.length == 4
    for held, whole in zip(cache.append(*(x[:, 6:] for x in streams)), streams, strict=True):
        assert torch.equal(held, torch.cat([whole[:, :4], whole[:, 6:]], dim=1))
    for length, kind in ((-1, ValueError), (8, ValueError), (1.5, TypeError)):
        with pytest.raises(kind, match="length: "):
            cache.rewind(length)  # type: ignore[arg-type]
    assert cache.length == 7


def test_clear_and_the_empty_cache() -> None:
    cache = LatentCache()
    assert isinstance(cache, Cache)
    assert (cache.length, cache.nbytes, cache.allocated) == (0, 0, 0)
    assert cache.latents is cache.rope_keys is cache.indexes is None
    cache.append(*tensors((1, 3, 8), (1, 3, 4), (1, 3, 2)))
    cache.clear()
    assert (cache.length, cache.nbytes, cache.allocated, cache.indexes) == (0, 0, 0, None)
    latents, rope_keys = cache.append(*tensors((2, 3, 6), (2, 3, 2)))
    assert latents.shape == (2, 3, 6)
    assert rope_keys.shape == (2, 3, 2)


def test_gradients_flow_through_the_chunks() -> None:
    latent, rope_key = (x.requires_grad_() for x in tensors((1, 5, 3), (1, 5, 2)))
    cache, total = LatentCache(), torch.zeros(())
    for t in range(5):
        total = total + sum(
            x.sum() for x in cache.append(latent[:, t : t + 1], rope_key[:, t : t + 1])
        )
    total.backward()
    for x in (latent, rope_key):  # token t is seen by the 5 - t steps from its own on
        assert x.grad is not None
        assert torch.equal(x.grad[0, :, 0], torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0]))


@pytest.mark.parametrize(
    ("given_", "kind", "message"),
    [
        (((1, 1, 8), (1, 1, 4)), ValueError, "index: the cache holds an index per token, got none"),
        (((1, 1, 1, 8), (1, 1, 4), (1, 1, 2)), ValueError,
         r"latent: expected \[B, t, R\], got shape \[1, 1, 1, 8\]"),
        (((1, 1, 8), (1, 4), (1, 1, 2)), ValueError, r"rope_key: expected \[B, t, D\]"),
        (((1, 1, 8), (1, 1, 4), (1, 2, 2)), ValueError,
         r"index: expected the batch and tokens of latent, \[1, 1\], got \[1, 2\]"),
        (((1, 1, 9), (1, 1, 4), (1, 1, 2)), ValueError, "latent: the cache holds width R = 8, got"),
        (((1, 1, 8), (1, 1, 5), (1, 1, 2)), ValueError, "rope_key: the cache holds width D = 4"),
        (((1, 1, 8), (1, 1, 4), (1, 1, 3)), ValueError, "index: the cache holds width I = 2"),
        (((2, 1, 8), (2, 1, 4), (2, 1, 2)), ValueError, "latent: the cache holds batch B = 1"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_what_is_held(
    given_: tuple[tuple[int, ...], ...], kind: type[Exception], message: str
) -> None:
    cache = LatentCache()
    before = [x.clone() for x in cache.append(*tensors((1, 3, 8), (1, 3, 4), (1, 3, 2)))]
    with pytest.raises(kind, match=message):
        cache.append(*tensors(*given_))
    for held, old in zip((cache.latents, cache.rope_keys, cache.indexes), before, strict=True):
        assert torch.equal(held, old)  # type: ignore[arg-type]


def test_an_index_cannot_come_later() -> None:
    cache = LatentCache()
    cache.append(*tensors((1, 3, 8), (1, 3, 4)))
    with pytest.raises(ValueError, match="index: the cache holds no index per token, got one"):
        cache.append(*tensors((1, 1, 8), (1, 1, 4), (1, 1, 2)))
    # A first append that fails leaves the choice open.
    cache = LatentCache()
    with pytest.raises(ValueError, match="index: expected the batch and tokens of latent"):
        cache.append(*tensors((1, 1, 8), (1, 1, 4), (1, 2, 2)))
    assert len(cache.append(*tensors((1, 1, 8), (1, 1, 4)))) == 2
