"""The memory of a capture grows with T: no mask of T x S is made, unless a model asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import re, sys, tempfile
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig
from attnscope.capture import interface
from attnscope.capture.compact import compact_mask
from attnscope.capture.session import capture

tokens, dense = int(sys.argv[1]), sys.argv[2] == "dense"
if dense:
    interface.compact_mask = lambda *a, **k: compact_mask(*a, **k).dense().clone()
config = Gemma3TextConfig(
    hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=16, vocab_size=100, sliding_window=64,
    max_position_embeddings=20000, layer_types=["sliding_attention", "full_attention"],
)
model = Gemma3ForCausalLM(config).eval()
# Not ru_maxrss: a child begins with that of the process that started it.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
with tempfile.TemporaryDirectory() as folder:
    capture(model, torch.randint(3, 90, (1, 64)), save=folder + "/small")
    before = peak()
    capture(model, torch.randint(3, 90, (1, tokens)), save=folder + "/t")
print(peak() - before)
"""
TOKENS = 14336


def grown(kind: str) -> int:
    """Bytes by which the peak of a fresh process grows."""
    command = [sys.executable, "-c", SCRIPT, str(TOKENS), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return int(done.stdout)


@pytest.mark.slow
def test_no_mask_of_all_pairs_is_made() -> None:
    """One byte per pair is 196 MiB here; queries, keys and statistics take some 30 MiB."""
    assert grown("compact") < TOKENS**2 / 2
    assert grown("dense") > TOKENS**2  # the measure can tell
