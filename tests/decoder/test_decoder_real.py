"""Both real models: logits within the budget, and 200 tokens of text as transformers has them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from decoder_samples import Peer, sample_ids
from ties import first_difference, parting

from attnscope.decoder import Decoder, load
from attnscope.testing import budget

REAL = ["smollm2", "gemma3"]
TOKENS = 200
TEXT = "Attention decides from which tokens a token takes information. In a long text"
Folders = Callable[[str], Path]


@functools.cache
def opened(name: str) -> tuple[Decoder, Peer, torch.Tensor]:
    """A model, transformers' own of the same folder, and the ids of a text."""
    from transformers import AutoTokenizer

    from attnscope.capture.models import path

    folder = path(name)
    ids = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")["input_ids"]
    return load(folder), Peer(folder), ids


@pytest.mark.real_model
@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_logits_are_those_of_transformers(name: str) -> None:
    """Whole, in chunks and token by token; gemma3 beyond its window of 512."""
    decoder, peer, ids = opened(name)
    ids = torch.cat([ids, ids.roll(5), ids.flip(1)], dim=1)
    exact, theirs = peer.oracle(ids), peer.logits(ids)
    budget(decoder(ids), peer=theirs, oracle=exact, what=f"{name} prefill")
    for chunks in ([1] * ids.shape[1], [13, 1, ids.shape[1] - 14]):
        caches = decoder.new_caches()
        ours = torch.cat([decoder(part, caches) for part in ids.split(chunks, dim=1)], dim=1)
        stepped = peer.stepped(ids, chunks)
        budget(ours, peer=stepped, oracle=exact, what=f"{name} in {len(chunks)} calls")


@pytest.mark.real_model
@pytest.mark.slow
def test_gemma_beyond_its_window() -> None:
    """600 tokens, of which sliding layers see 512: in one call, and through caches."""
    decoder, peer, ids = opened("gemma3")
    ids = ids.repeat(1, 600 // ids.shape[1] + 1)[:, :600]
    exact = peer.oracle(ids)[:, -30:]
    budget(decoder(ids, last=30), peer=peer.logits(ids)[:, -30:], oracle=exact, what="prefill")
    caches = decoder.new_caches()
    chunks = [511, 1, 1, 57, *[1] * 30]
    ours = [decoder(part, caches, last=1) for part in ids.split(chunks, dim=1)]
    theirs = peer.stepped(ids, chunks)[:, -30:]
    budget(torch.cat(ours, dim=1)[:, -30:], peer=theirs, oracle=exact, what="stepped")


@pytest.mark.real_model
@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_200_tokens_are_the_same_text_or_part_at_a_tie(name: str) -> None:
    decoder, peer, ids = opened(name)
    ours = list(decoder.generate(ids, tokens=TOKENS, ends=()))
    theirs = peer.greedy(ids, TOKENS)
    assert len(ours) == len(theirs) == TOKENS
    place = first_difference(ours, theirs)
    if place is None:
        assert ours == theirs
        return
    text = torch.cat([ids, torch.tensor([ours[:place]])], dim=1)
    caches = decoder.new_caches()
    with torch.no_grad():
        parts = text.split([ids.shape[1], *[1] * place], dim=1)
        mine = [decoder(part, caches, last=1) for part in parts][-1][0, -1]
    own = peer.stepped(text, [ids.shape[1], *[1] * place])[0, -1]
    found = parting(place, (ours[place], theirs[place]), (mine, own), peer.oracle(text)[0, -1])
    assert found.is_tie, found


# -- that the judge can say no --------------------------------------------------------------------


def test_a_difference_that_is_no_tie_is_caught(folder_of: Folders) -> None:
    folder, ids = folder_of("llama"), sample_ids(9)
    peer, decoder = Peer(folder), load(folder)
    theirs = peer.greedy(ids, 20)
    exact = peer.oracle(ids)[0, -1]
    mine, own = decoder(ids)[0, -1], peer.logits(ids)[0, -1]
    second = int(exact.topk(2).indices[1])
    ours = [second, *theirs[1:]]
    assert first_difference(ours, theirs) == 0
    assert first_difference(theirs, theirs) is None
    assert not parting(0, (second, theirs[0]), (mine, own), exact).is_tie
    # the same choice is a tie where the logits are as uncertain as the gap
    gap = float(exact.max() - exact[second])
    blurred = mine + gap
    assert parting(0, (second, theirs[0]), (blurred, own), exact).is_tie
