"""What multi-head latent attention refuses, and how it says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import latent_referees as referees
import pytest
import torch

from attnscope.core.latent_parts import LatentSizes
from attnscope.errors import ConfigError
from attnscope.mechanisms.latent import LatentAttention, latent_attention

CONFIGS = Path(__file__).parents[2] / "src/attnscope/plan/data/configs"
FORMS = ("expanded", "absorbed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_lora_rank": None}, "'deepseek_v3'.*kv_lora_rank"),
        ({"qk_rope_head_dim": 7}, "qk_rope_head_dim: expected an even number"),
        ({"v_head_dim": 0}, "v_head_dim: expected a positive whole number, got 0"),
        ({"num_key_value_heads": 2}, "num_key_value_heads = 2, but latent attention expands"),
        ({"model_type": "llama"}, "'llama'.*LatentAttention reads deepseek_v2"),
    ],
)
def test_odd_configs_are_refused(change: dict[str, Any], message: str) -> None:
    fields = {**referees.config("v3").to_dict(), **change}
    with pytest.raises(ConfigError, match=message):
        LatentAttention.from_config(fields)


def test_a_family_whose_theta_is_not_known_must_say_it() -> None:
    whole = json.loads((CONFIGS / "kimi-k2.json").read_text())
    config = {name: value for name, value in whole.items() if name != "rope_theta"}
    with pytest.raises(ConfigError, match=r"kimi_k2.*no rope_theta"):
        LatentAttention.from_config(config, device="meta")
    ours = LatentAttention.from_config({**config, "rope_theta": 50000.0}, device="meta")
    assert ours.counts(1).bytes_per_token * 61 == 70_272


@pytest.mark.parametrize("name", ["hidden_size", "q_lora_rank", "kv_lora_rank", "v_head_dim"])
def test_missing_fields_are_named(name: str) -> None:
    fields = referees.config("v3").to_dict()
    del fields[name]
    with pytest.raises(ConfigError, match=f"'deepseek_v3'.*no field '{name}'"):
        LatentAttention.from_config(fields)


def test_layers_of_other_shapes_are_refused() -> None:
    theirs = referees.layer("v3")
    theirs.kv_b_proj = torch.nn.Linear(16, 5, bias=False)
    with pytest.raises(ValueError, match=r"expects kv_b_proj.weight of shape \[104, 16\]"):
        LatentAttention.from_hf(theirs)
    theirs = referees.layer("v3")
    theirs.kv_b_proj = torch.nn.Linear(16, 104, bias=True)
    with pytest.raises(ValueError, match=r"missing: none; without a place: kv_b_proj\.bias"):
        LatentAttention.from_hf(theirs)
    del theirs.kv_b_proj
    with pytest.raises(
        ValueError, match=r"LatentAttention expects .*missing: kv_b_proj\.weight; without"
    ):
        LatentAttention.from_hf(theirs)
    with pytest.raises(TypeError, match=r"expected a Hugging Face attention layer with a .config"):
        LatentAttention.from_hf(torch.nn.Linear(2, 2))


def test_wrong_arguments_are_named() -> None:
    ours = LatentAttention.from_config(referees.config("v3").to_dict())
    with pytest.raises(ValueError, match=r"x: expected \[B, T, 40\], got \[2, 3, 39\]"):
        ours(torch.zeros(2, 3, 39))
    with pytest.raises(ValueError, match=r"positions: expected \[3\] or \[2, 3\].*got \[4\]"):
        ours(torch.zeros(2, 3, 40), positions=torch.arange(4))
    with pytest.raises(TypeError, match=r"positions: expected int64, got torch\.float32"):
        ours(torch.zeros(2, 3, 40), positions=torch.zeros(3))
    with pytest.raises(
        ValueError, match="impl: unknown 'fast'; there are expanded, absorbed, auto"
    ):
        LatentAttention(ours.sizes, rope=ours.rope, impl="fast")
    with pytest.raises(ValueError, match="impl: unknown 'fast'"):
        ours.counts(1, impl="fast")
    with pytest.raises(ValueError, match="rope: a rotation takes pairs"):
        LatentSizes(model=8, heads=1, nope=4, rope=3, value=4, rank=4)
    with pytest.raises(ValueError, match="heads: expected at least 1, got 0"):
        LatentSizes(model=8, heads=0, nope=4, rope=2, value=4, rank=4)
    with pytest.raises(ValueError, match="query_rank: expected at least 1 or None, got 0"):
        LatentSizes(model=8, heads=1, nope=4, rope=2, value=4, rank=4, query_rank=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": (2, 4, 3)}, r"q: expected \[B, H, T, N \+ D\], got \[2, 4, 3\]"),
        ({"latents": (2, 5, 1, 6)}, r"latents: expected \[B, S, R\]"),
        ({"rope_keys": (2, 4, 2)}, r"rope_keys: expected the batch and length .* 2 x 5"),
        ({"latents": (1, 5, 6)}, "rope_keys: expected the batch and length"),
        ({"q": (2, 4, 3, 2)}, "q: expected .* wider than the rotated keys' 2, got 2"),
        ({"up": (29, 6)}, r"up: expected \[4 x \(3 \+ E\), 6\], got \[29, 6\]"),
        ({"up": (28, 7)}, "up: expected"),
        ({"up": (12, 6)}, "up: expected"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_wrong_shapes_are_named(change: dict[str, Any], message: str, form: str) -> None:
    shapes = {"q": (2, 4, 3, 5), "latents": (2, 5, 6), "rope_keys": (2, 5, 2), "up": (28, 6)}
    tensors = {name: torch.ones(change.get(name, shape)) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=message):
        latent_attention(*tensors.values(), scale=1.0, impl=form)
    whole = [torch.ones(shape) for shape in shapes.values()]
    with pytest.raises(ValueError, match="impl: unknown 'gathered'"):
        latent_attention(*whole, scale=1.0, impl="gathered")
