"""Generation: the text of transformers' own `generate`, ends, caches, and who watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from decoder_samples import Peer, sample_ids

from attnscope.core.mechanism import Seen
from attnscope.decoder import Sampling, choose, load

Folders = Callable[[str], Path]
THREE = ["llama", "qwen3", "gemma3"]


@pytest.mark.parametrize("variant", [*THREE, "llama-tied", "qwen3-tied", "gemma3-untied"])
def test_greedy_text_is_that_of_transformers(folder_of: Folders, variant: str) -> None:
    folder, ids = folder_of(variant), sample_ids(9)
    found = list(load(folder).generate(ids, tokens=40, ends=()))
    assert found == Peer(folder).greedy(ids, 40)
    assert len(set(found)) > 2  # or it would say nothing


@pytest.mark.parametrize("variant", THREE)
def test_sampled_text_is_drawn_from_the_logits_of_the_text_so_far(
    folder_of: Folders, variant: str
) -> None:
    decoder, ids, sampling = load(folder_of(variant)), sample_ids(5), Sampling(1.5, 20, 0.95)
    found = list(
        decoder.generate(
            ids, tokens=12, sampling=sampling, ends=(), generator=torch.Generator().manual_seed(4)
        )
    )
    generator = torch.Generator().manual_seed(4)
    text = ids
    for token in found:  # without a cache, all of it anew
        expected = choose(decoder(text, last=1)[:, -1], sampling, generator)
        assert int(expected) == token
        text = torch.cat([text, expected[:, None]], dim=1)
    other = torch.Generator().manual_seed(5)
    assert found != list(
        decoder.generate(ids, tokens=12, sampling=sampling, ends=(), generator=other)
    )


def test_an_end_is_given_and_ends_it(folder_of: Folders) -> None:
    decoder, ids = load(folder_of("llama")), sample_ids(9)
    whole = list(decoder.generate(ids, tokens=20, ends=()))
    third = whole[2]
    first = whole.index(third)
    assert list(decoder.generate(ids, tokens=20, ends=(third,))) == whole[: first + 1]
    assert list(decoder.generate(ids, tokens=20, ends=(96, third))) == whole[: first + 1]
    assert decoder.config.ends == (2,)
    assert list(decoder.generate(ids, tokens=20)) == whole[: [*whole, 2].index(2) + 1]


@pytest.mark.parametrize("variant", THREE)
def test_a_text_goes_on_from_its_caches(folder_of: Folders, variant: str) -> None:
    decoder, ids = load(folder_of(variant)), sample_ids(9)
    whole = list(decoder.generate(ids, tokens=12, ends=()))
    caches = decoder.new_caches()
    head = list(decoder.generate(ids, tokens=5, ends=(), caches=caches))
    assert [cache.length for cache in caches] == [9 + 4] * len(caches)  # the fifth is not in yet
    tail = list(decoder.generate([head[-1]], tokens=7, ends=(), caches=caches))
    assert head + tail == whole


def test_tokens_come_one_by_one(folder_of: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = load(folder_of("llama"))
    calls: list[int] = []
    inner = decoder._logits

    def counting(ids: torch.Tensor, *rest: Any) -> torch.Tensor:
        calls.append(ids.shape[1])
        return inner(ids, *rest)

    monkeypatch.setattr(decoder, "_logits", counting)
    text = decoder.generate(sample_ids(6), tokens=4, ends=())
    assert isinstance(text, Iterator)
    assert calls == []
    next(text)
    assert calls == [6]
    next(text)
    assert calls == [6, 1]
    list(text)
    assert calls == [6, 1, 1, 1]  # nothing is computed for a token that nobody asked for


@pytest.mark.parametrize("variant", THREE)
def test_who_watches_sees_every_layer_and_step(folder_of: Folders, variant: str) -> None:
    decoder, seen = load(folder_of(variant)), []

    def watch(layer: int, one: Seen) -> None:
        seen.append((layer, one.start, one.q.shape[2], one.k.shape[2], one.window))

    list(decoder.generate(sample_ids(9), tokens=4, ends=(), watch=watch))
    layers = decoder.config.layers
    windows = [8 if variant == "gemma3" and (n + 1) % 6 else None for n in range(layers)]
    steps = [(0, 9), (9, 1), (10, 1), (11, 1)]
    assert seen == [
        (layer, start, new, min(start + new, (w or 99) + new - 1), w)
        for start, new in steps
        for layer, w in enumerate(windows)
    ]


def test_watching_changes_nothing(folder_of: Folders) -> None:
    decoder, ids = load(folder_of("gemma3")), sample_ids(9)
    plain, watched = decoder(ids), decoder(ids, watch=lambda layer, seen: None)
    assert torch.equal(plain, watched)


@pytest.mark.parametrize("variant", ["llama", "gemma3"])
def test_logits_can_be_differentiated(folder_of: Folders, variant: str) -> None:
    """Weights come frozen; who wants a gradient says so, and gets transformers'."""
    folder, ids = folder_of(variant), sample_ids(7)
    decoder, peer = load(folder), Peer(folder)
    slopes = []
    for model in (decoder, peer.model):
        part = next(p for n, p in model.named_parameters() if "layers.1.self_attn.q_proj" in n)
        part.requires_grad_()
        logits = model(ids) if model is decoder else model(input_ids=ids).logits
        (slope,) = torch.autograd.grad(logits.square().sum(), part)
        slopes.append(slope)
    # two float32 backward passes; sums of 7 x 97 squares of size 1 to 100
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-4 * float(slopes[1].abs().max()))


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"ids": [[1, 2], [3, 4]]}, ValueError, r"ids: expected one text, .*got \[2, 2\]"),
        ({"ids": []}, ValueError, "ids: expected at least one token, got none"),
        ({"ids": torch.zeros(1, 0, dtype=torch.long)}, ValueError, "at least one token, got none"),
        ({"ids": [1.5]}, TypeError, r"expected integers \[T\] or \[B, T\], got \[1, 1\] torch.fl"),
        ({"ids": torch.zeros(1, 1, 1, dtype=torch.long)}, TypeError, r"got \[1, 1, 1\]"),
        ({"ids": [3, 97]}, ValueError, "ids: 97 is not in the vocabulary, which goes from 0 to 96"),
        ({"ids": [-1]}, ValueError, "ids: -1 is not in the vocabulary"),
        ({"ids": "abc"}, TypeError, r"ids: expected integers \[T\] or \[B, T\], got 'abc'"),
        ({"ids": [[1, 2], [3]]}, TypeError, r"ids: expected .* got \[\[1, 2\], \[3\]\]"),
        ({"ids": None}, TypeError, "ids: expected .* got None"),
        ({"ids": ["a long text"] * 9}, TypeError, "ids: expected .* got list"),
        ({"tokens": 0}, ValueError, "tokens: expected a whole number of at least 1, got 0"),
        ({"tokens": 1.5}, ValueError, r"tokens: expected a whole number of .*, got 1\.5"),
        ({"sampling": 0.7}, TypeError, r"sampling: expected a Sampling or None, got 0\.7"),
        ({"caches": []}, ValueError, "caches: expected one for each of the 3 layers, got 0"),
        ({"tokens": 56}, ValueError,
         "tokens: 9 tokens of text and 56 more are beyond the model's context of 64; ask for at "
         "most 55, or give a shorter text"),
    ],
)  # fmt: skip
def test_bad_input_is_said_at_once(
    folder_of: Folders, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    decoder = load(folder_of("llama"))
    with pytest.raises(error, match=said):
        decoder.generate(**{"ids": sample_ids(9), "tokens": 3, **given})


def test_the_context_may_be_filled_to_the_last_token(folder_of: Folders) -> None:
    assert len(list(load(folder_of("llama")).generate(sample_ids(9), tokens=55, ends=()))) == 55


def test_bad_input_of_a_forward(folder_of: Folders) -> None:
    decoder = load(folder_of("llama"))
    with pytest.raises(ValueError, match="caches: expected one for each of the 3 layers, got 1"):
        decoder(sample_ids(3), decoder.new_caches()[:1])
    with pytest.raises(ValueError, match="last: expected at least 1 token, got 0"):
        decoder(sample_ids(3), last=0)
