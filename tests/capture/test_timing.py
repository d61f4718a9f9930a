"""What watching costs is measured in turns, and on the thing that it says."""

from __future__ import annotations

import time

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attnscope.capture import timing


def small() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=50, attn_implementation="sdpa",
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def test_pairs_alternate_and_the_median_counts() -> None:
    order: list[str] = []
    ratio = timing.interleaved(
        lambda: order.append("plain"), lambda: order.append("other"), pairs=3, calls=2
    )
    assert order[:2] == ["plain", "other"]  # the two that do not count
    turns = order[2::2]
    assert turns == ["plain", "other", "other", "plain", "plain", "other"]
    assert order[2::2] == order[3::2]
    assert ratio.low <= ratio.median <= ratio.high


def test_the_ratio_is_other_over_plain() -> None:
    # Sleeps of 5 and 20 ms: only a ratio the wrong way round, or a wrong unit, is outside 1.5 to 9.
    ratio = timing.interleaved(lambda: time.sleep(0.005), lambda: time.sleep(0.02), pairs=3)
    assert 1.5 < ratio.median < 9
    assert 0.004 < ratio.plain_s < 0.02


@pytest.mark.parametrize("mode", timing.MODES)
def test_each_mode_runs_what_it_says(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = small(), []
    keep = timing._drop
    monkeypatch.setattr(timing, "_drop", lambda i, r: (seen.append((i, r[0])), keep(i, r))[1])
    kernels = []
    plain = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *a, **k: (kernels.append(1), plain(*a, **k))[1],
    )
    timing.forward(model, torch.arange(20)[None], mode)
    assert len(kernels) == {"plain": 2, "beside": 2, "replace": 0, "eager": 0}[mode]
    if mode in ("replace", "beside"):
        assert [index for index, _ in seen] == [0, 1]
        names = set(seen[0][1].pieces[0].statistics)
        assert {"entropy", "induction_mass", "jacobian_norm"} <= names
        assert seen[0][1].pieces[0].received is not None
    else:
        assert not seen
    assert model.config._attn_implementation == "sdpa"


def test_a_long_text_is_on_every_machine() -> None:
    assert len(timing.sample_text()) > 300_000
