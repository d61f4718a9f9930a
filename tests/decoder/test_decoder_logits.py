"""The decoder's logits against transformers' own, whole, in chunks and token by token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from decoder_samples import BY_LENGTH, VARIANTS, Peer, change_config, sample_ids
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm

from attnscope.decoder import RMSNorm, load
from attnscope.testing import budget

Folders = Callable[[str], Path]
LENGTH = 23
"""Odd, and longer than every window."""
CHUNKS = {"steps": [1] * LENGTH, "chunks": [7, 1, 9, 6], "prompt": [11, *[1] * 12]}


@pytest.mark.parametrize("variant", VARIANTS)
def test_prefill_gives_the_logits_of_transformers(folder_of: Folders, variant: str) -> None:
    folder, ids = folder_of(variant), sample_ids(LENGTH, batch=2)
    peer = Peer(folder)
    budget(load(folder)(ids), peer=peer.logits(ids), oracle=peer.oracle(ids), what=variant)


@pytest.mark.parametrize("way", CHUNKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_cached_calls_give_the_logits_of_transformers(
    folder_of: Folders, variant: str, way: str
) -> None:
    """The oracle has seen all at once: what a cache keeps must not show."""
    folder, ids = folder_of(variant), sample_ids(LENGTH)
    peer, decoder = Peer(folder), load(folder)
    caches = decoder.new_caches()
    parts = [decoder(part, caches) for part in ids.split(CHUNKS[way], dim=1)]
    theirs = peer.stepped(ids, CHUNKS[way])
    exact = peer.oracle(ids, CHUNKS[way] if variant in BY_LENGTH else None)
    budget(torch.cat(parts, dim=1), peer=theirs, oracle=exact, what=f"{variant} {way}")
    assert all(cache.length == LENGTH for cache in caches)


@pytest.mark.parametrize("variant", ["llama", "qwen3", "gemma3"])
def test_a_batch_is_stepped_row_by_row(folder_of: Folders, variant: str) -> None:
    folder, ids = folder_of(variant), sample_ids(LENGTH, batch=3)
    peer, decoder = Peer(folder), load(folder)
    caches = decoder.new_caches(3)
    parts = [decoder(part, caches) for part in ids.split([5, 1, 1, 16], dim=1)]
    budget(torch.cat(parts, dim=1), peer=peer.logits(ids), oracle=peer.oracle(ids))


@pytest.mark.parametrize("variant", ["llama-biases", "qwen3", "gemma3"])
def test_bfloat16_weights(folder_of: Folders, variant: str) -> None:
    folder, ids = folder_of(variant), sample_ids(LENGTH)
    peer = Peer(folder, torch.bfloat16)
    ours = load(folder, dtype=torch.bfloat16)(ids)
    assert ours.dtype == torch.bfloat16
    budget(ours, peer=peer.logits(ids), oracle=peer.oracle(ids), what=variant)


def test_a_norm_in_bfloat16_is_rounded_once() -> None:
    """Gemma's 1 + w is none of bfloat16's numbers: rounding it too costs half as much again."""
    x = torch.randn(64, 640, generator=torch.Generator().manual_seed(0)).bfloat16()
    theirs = Gemma3RMSNorm(640).bfloat16()
    theirs.weight.data = 0.3 * torch.randn(640, generator=torch.Generator().manual_seed(1))
    theirs.weight.data = theirs.weight.data.bfloat16()
    ours = RMSNorm(SimpleNamespace(width=640, eps=theirs.eps, gemma=True))  # type: ignore[arg-type]
    ours.weight.data = theirs.weight.data
    wide = x.double()
    rms = (wide.square().mean(-1, keepdim=True) + theirs.eps).sqrt()
    exact = wide / rms * (1 + theirs.weight.detach().double())
    with torch.no_grad():
        made = ours(x), theirs(x), (x / rms.bfloat16()) * (1 + theirs.weight)
    ours_off, theirs_off, twice_off = (
        float((y.double() - exact).square().mean().sqrt()) for y in made
    )
    assert made[0].dtype == torch.bfloat16
    # 40,960 roundings: their mean square is the same to a few per cent
    assert ours_off < 1.05 * theirs_off < twice_off


def test_float64_is_the_oracle(folder_of: Folders) -> None:
    """Two computations in float64 agree far below what float32 could."""
    folder, ids = folder_of("qwen3-tied"), sample_ids(LENGTH)
    ours = load(folder, dtype=torch.float64)(ids)
    # some hundred roundings of 1e-16, a frequency being the same float32 number in both
    torch.testing.assert_close(ours, Peer(folder).oracle(ids), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("variant", ["llama", "gemma3"])
def test_last_gives_the_last_rows_alone(folder_of: Folders, variant: str) -> None:
    decoder, ids = load(folder_of(variant)), sample_ids(LENGTH)
    whole = decoder(ids)
    # a product of fewer rows sums in another order: some roundings of logits below 10
    torch.testing.assert_close(decoder(ids, last=3), whole[:, -3:], rtol=1e-5, atol=1e-5)
    assert decoder(ids[0]).shape == (1, LENGTH, 97)


WRONG = {
    "llama": {"rms_norm_eps": 1e-2},
    "llama-tied": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "llama-heads": {"hidden_act": "gelu_pytorch_tanh"},
    "qwen3": {"rope_parameters": {"rope_type": "default", "rope_theta": 10100.0}},
    "gemma3": {"sliding_window": 9},
    "gemma3-untied": {"final_logit_softcapping": 3.01},
}
"""One field of each config, changed a little."""


@pytest.mark.parametrize("variant", WRONG)
def test_a_config_that_is_a_little_wrong_is_caught(
    copy_of: Folders, folder_of: Folders, variant: str
) -> None:
    ids, peer = sample_ids(LENGTH), Peer(folder_of(variant))
    damaged = copy_of(variant)
    change_config(damaged, **WRONG[variant])
    with pytest.raises(AssertionError, match="numbers are off"):
        budget(load(damaged)(ids), peer=peer.logits(ids), oracle=peer.oracle(ids))


@pytest.mark.parametrize("variant", ["llama", "gemma3"])
def test_a_cache_that_lost_a_token_is_caught(folder_of: Folders, variant: str) -> None:
    folder, ids = folder_of(variant), sample_ids(LENGTH)
    peer, decoder = Peer(folder), load(folder)
    caches = decoder.new_caches()
    decoder(ids[:, :10], caches)
    caches[1].rewind(9)
    ours = decoder(ids[:, 10:], caches)
    with pytest.raises(AssertionError, match="numbers are off"):
        budget(ours, peer=peer.logits(ids)[:, 10:], oracle=peer.oracle(ids)[:, 10:])
