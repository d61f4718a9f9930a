"""The cache of compressed attention: a window, entries, and the tokens that wait."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from attnscope.caches import Cache
from attnscope.caches.compressed import CompressedCache, EntryTrack


def numbers(tokens: int, width: int, *, start: int = 0) -> torch.Tensor:
    """Tokens whose every coordinate is their position, [1, t, W]."""
    return torch.arange(start, start + tokens).float()[None, :, None].expand(1, tokens, width)


def fed(cache: CompressedCache, parts: list[int], *, width: int = 4) -> CompressedCache:
    """Give tokens as a layer does, an entry being the mean of its group."""
    wide = 2 * width if cache.entries.overlap else width
    for count in parts:
        start = cache.length
        cache.append(numbers(count, width, start=start))
        for track in (cache.entries, *([cache.index] if cache._index else [])):
            closed = track.close(
                numbers(count, wide, start=start), numbers(count, wide, start=start)
            )
            track.keep(closed.values.mean(2)[..., :width])
    return cache


@given(
    parts=some.lists(some.integers(0, 9), max_size=6), ratio=some.integers(1, 5),
    window=some.integers(1, 6), overlap=some.booleans(), index=some.booleans(),
)  # fmt: skip
def test_parts_give_what_the_whole_gives(
    parts: list[int], ratio: int, window: int, overlap: bool, index: bool
) -> None:
    total = sum(parts)
    cache = CompressedCache(window, ratio=ratio, overlap=overlap, index=index)
    fed(cache, parts)
    assert isinstance(cache, Cache)
    assert cache.length == total
    assert (cache.entries.entries, cache.entries.waiting) == divmod(total, ratio)
    if total:
        means = cache.entries._entries.view()[0, :, 0].tolist()
        assert means == [g * ratio + (ratio - 1) / 2 for g in range(total // ratio)]
        sides = 2 if overlap else 1
        before = ratio * 4 * 2 if overlap and total >= ratio else 0
        one = total // ratio * 4 + total % ratio * 2 * sides * 4 + before
        assert cache.nbytes == (min(total, window) * 4 + one * (2 if index else 1)) * 4
        assert cache.allocated >= cache.nbytes


def test_what_the_group_before_left_is_handed_on() -> None:
    track = EntryTrack(3, overlap=True)
    first = track.close(numbers(4, 6), -numbers(4, 6))
    track.keep(first.values.mean(2)[..., :3])
    assert first.before is None
    assert (first.first, first.values.shape) == (0, (1, 1, 3, 6))
    second = track.close(numbers(5, 6, start=4), -numbers(5, 6, start=4))
    assert second.first == 1
    assert second.before is not None
    assert second.before[0][0, :, 0].tolist() == [0.0, 1.0, 2.0]
    assert second.before[1].shape == (1, 3, 3)
    assert second.values[0, :, :, 0].tolist() == [[3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
    assert second.gates[0, 0, :, 5].tolist() == [-3.0, -4.0, -5.0]


def test_the_prompt_is_let_go() -> None:
    """What waits is a copy: a slice would keep all of the prompt's projections in memory."""
    track = EntryTrack(4, overlap=True)
    track.keep(track.close(torch.ones(1, 1001, 8), torch.ones(1, 1001, 8)).values.mean(2)[..., :4])
    for pair in (track._waiting, track._before):
        assert pair is not None
        for part in pair:
            assert part.untyped_storage().nbytes() == part.nbytes


def test_rewinding_stops_at_an_entry() -> None:
    cache = fed(CompressedCache(9, ratio=4, overlap=True, index=True), [4, 3])
    cache.rewind(5)
    fed(cache, [2])
    assert cache.entries._waiting is not None
    assert cache.entries._waiting[0][0, :, 0].tolist() == [4.0, 5.0, 6.0]
    cache.rewind(4)
    assert (cache.length, cache.entries.waiting, cache.index.waiting) == (4, 0, 0)
    fed(cache, [4])
    with pytest.raises(ValueError, match="stands for tokens up to 7 and cannot be opened again"):
        cache.rewind(7)
    assert (cache.length, cache.entries.entries) == (8, 2)
    with pytest.raises(ValueError, match=r"rewinds to 0 \.\. 8, got 9"):
        cache.rewind(9)
    cache.rewind(0)
    assert cache.nbytes == cache.length == cache.entries.entries == 0
    fed(cache, [5])
    assert cache.entries.entries == 1


def test_rewinding_past_the_window_is_refused_and_changes_nothing() -> None:
    cache = fed(CompressedCache(2, ratio=9), [8])
    with pytest.raises(ValueError, match="but a window of 2 after 8 tokens holds"):
        cache.rewind(3)
    assert (cache.length, cache.entries.waiting) == (8, 8)


def test_gradients_reach_entries_that_were_made_earlier() -> None:
    track = EntryTrack(2)
    x = torch.ones(1, 5, 3, requires_grad=True)
    for part in x.split([3, 2], dim=1):
        every = track.keep(track.close(part, part).values.mean(2))
    every.sum().backward()
    assert x.grad is not None
    assert x.grad[0, :, 0].tolist() == [0.5, 0.5, 0.5, 0.5, 0.0]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="ratio: expected at least 1, got 0"):
        EntryTrack(0)
    with pytest.raises(ValueError, match="window: expected at least 1, got 0"):
        CompressedCache(0)
    bare = CompressedCache(3)
    with pytest.raises(ValueError, match=r"this cache keeps no entries; make it with .* new_cache"):
        _ = bare.entries
    with pytest.raises(ValueError, match="this cache keeps no index entries"):
        _ = CompressedCache(3, ratio=2).index
    with pytest.raises(ValueError, match=r"raw: expected \[B, t, D\], got \[2, 3\]"):
        bare.append(torch.ones(2, 3))
    track = EntryTrack(4)
    with pytest.raises(ValueError, match=r"values, gates: expected the same \[B, t, W\]"):
        track.close(torch.ones(1, 2, 3), torch.ones(1, 2, 4))
    track.close(torch.ones(1, 2, 3), torch.ones(1, 2, 3))
    with pytest.raises(ValueError, match="holds batch and width 1 x 3, got 2 x 3; clear"):
        track.close(torch.ones(2, 2, 3), torch.ones(2, 2, 3))
