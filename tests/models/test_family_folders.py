"""Families from a folder: what the table calls supported loads and is captured, the rest is named.

The referee is the eager attention of the model that was written into the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model_samples as samples
import numpy as np
import pytest
import torch

import attnscope
from attnscope.capture.interface import families
from attnscope.capture.models import load
from attnscope.capture.shrink import build
from attnscope.capture.timing import forward
from attnscope.cli.look import _most_heads
from attnscope.errors import UnsupportedModelError

IDS = torch.arange(3, 19)[None]
PARTS = {"emu3", "mllama"}  # saved alone, their text part is no family that transformers can load
SUPPORTED = sorted(
    name
    for name, found in families().items()
    if found["status"] == "supported" and name not in PARTS
)


def folder_of(family: str, folder: Path) -> tuple[Any, Path]:
    """A small random model, and the folder it was written to."""
    model = build(family)
    model.save_pretrained(folder)
    samples.fast(samples.byte_level()).save_pretrained(folder)
    return model, folder


@pytest.mark.parametrize(
    ("family", "own"), [("gemma2", "eager"), ("gpt_oss", "eager"), ("qwen3", "sdpa")]
)
def test_with_sdpa_or_without(tmp_path: Path, family: str, own: str) -> None:
    model, folder = folder_of(family, tmp_path / "m")
    loaded = load(folder)
    assert loaded.model.config._attn_implementation == own
    with torch.no_grad():
        weights = model(IDS, use_cache=False, output_attentions=True).attentions
    trace = attnscope.capture(loaded.model, IDS)
    for layer, expected in enumerate(weights):
        # two float32 computations of scores up to 40, 32 products each: see tests/capture/models.py
        np.testing.assert_allclose(trace.weights(layer, 1), expected[0, 1], atol=3e-5)
    forward(loaded.model, IDS, "eager")  # what `bench` compares with
    assert loaded.model.config._attn_implementation == own
    assert load(folder, attn_implementation="eager").model.config._attn_implementation == "eager"


@pytest.mark.parametrize("family", ["gemma4_text", "dots3_note_text"])
def test_layers_that_differ(tmp_path: Path, family: str) -> None:
    """Their config has no one number of heads or width; the first layer's stand for the model."""
    model, folder = folder_of(family, tmp_path / "m")
    loaded = load(folder)
    trace = attnscope.capture(loaded.model, IDS)
    shapes = {(one.query_heads, one.kv_heads, one.head_width) for one in trace.layers}
    assert len(shapes) > 1  # so there was something to mistake
    first = trace.layers[0]
    info = loaded.info
    assert (info.query_heads, info.kv_heads) == (first.query_heads, first.kv_heads)
    assert _most_heads(model.config) == max(one.query_heads for one in trace.layers)


@pytest.mark.slow
@pytest.mark.parametrize("family", SUPPORTED)
def test_every_supported_family_is_loaded_from_a_folder(tmp_path: Path, family: str) -> None:
    """The sweep captures models that it builds; this is the way from a folder."""
    _, folder = folder_of(family, tmp_path / "m")
    loaded = load(folder)
    assert loaded.info.query_heads > 0
    assert not loaded.model.training


@pytest.mark.parametrize("family", ["bloom", "xglm"])
def test_a_family_that_does_not_route_is_named_with_those_that_do(
    tmp_path: Path, family: str
) -> None:
    _, folder = folder_of(family, tmp_path / "m")
    with pytest.raises(UnsupportedModelError, match=rf"{family}: .*can be captured: .*llama"):
        attnscope.capture(folder, "the the")
