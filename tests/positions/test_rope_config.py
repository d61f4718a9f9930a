"""RoPE as real configs write it, old style and new, against what transformers makes of them."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest
import torch
from rope_referees import their_config, their_tables
from transformers import CONFIG_MAPPING

from attnscope.errors import ConfigError
from attnscope.positions import Rope
from attnscope.positions.families import FAMILIES, SPLIT

SHIPPED = {
    path.name.removesuffix(".json"): json.loads(path.read_text("utf-8"))
    for path in resources.files("attnscope.plan").joinpath("data/configs").iterdir()
}
WITHOUT = {"deepseek-v4.1-flash"}
"""transformers knows no such family, and the file does not say a base."""

YARN_V3 = {
    "type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
    "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
}  # fmt: skip
PUBLISHED: dict[str, tuple[float, dict[str, Any] | None]] = {
    # Public copies of the configs themselves.
    "qwen3-0.6b": (1e6, None),
    "qwen3.8-27b": (1e7, None),
    "glm-5.3": (8e6, None),
    "gpt-oss-120b": (150_000, None),
    "deepseek-67b": (10_000, None),
    "deepseek-v2": (10_000, {
        "type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
        "original_max_position_embeddings": 4096,
    }),
    "kimi-k2": (50_000, YARN_V3 | {"factor": 64}),
    "deepseek-v4-flash": (10_000, {
        "type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": 65536,
    }),
    "gemma-3-27b": (1e6, {"rope_type": "linear", "factor": 8}),
    # The model's own inference code: no factor on cos and sin, (0.1 ln 40 + 1)^2 on the scores.
    "deepseek-v3": (10_000, YARN_V3),
    "deepseek-v3.2": (10_000, YARN_V3),
    # What those who train it give Megatron, by a second copy of its config for GLM-5.
    "glm-4.5": (1e6, None),
    "glm-5": (1e6, None),
}  # fmt: skip
"""Base and scaling that were found for a model, from where; our files must say the same."""

POSITIONS = torch.tensor([0, 1, 7, 100, 4095, 4096, 100_000])

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 4,
    "max_position_embeddings": 256,
}  # fmt: skip


def same(config: dict[str, Any], layer_type: str | None = None) -> Rope:
    """Assert that ours and transformers' tables of a config are the same, to the bit."""
    rope = Rope.from_config(config, layer_type=layer_type)
    ours, theirs = rope.tables(POSITIONS), their_tables(config, POSITIONS, layer_type)
    # DeepSeek-V2 makes complex numbers of its angles, by another cosine than torch.cos: it may
    # differ in the last bit of a number up to the factor.
    off = 2.0**-23 * rope.factor if "deepseek_v2" in str(config) else 0.0
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).abs().max() <= off
    return rope


def types_of(config: dict[str, Any]) -> list[str | None]:
    family = config.get("text_config", config)["model_type"]
    return list(SPLIT.get(family, {})) or [None]


@pytest.mark.parametrize("name", sorted(set(SHIPPED) - WITHOUT))
def test_shipped_configs(name: str) -> None:
    config = SHIPPED[name]
    if name == "kimi-k2":  # its code is DeepSeek-V3's, as its `architectures` say
        assert Rope.from_config(config) == Rope.from_config(config | {"model_type": "deepseek_v3"})
        config = config | {"model_type": "deepseek_v3"}
    for layer_type in types_of(config):
        same(config, layer_type)


@pytest.mark.parametrize("name", PUBLISHED)
def test_shipped_configs_say_what_was_published(name: str) -> None:
    config = SHIPPED[name].get("text_config", SHIPPED[name])
    theta, scaling = PUBLISHED[name]
    assert config["rope_theta"] == theta
    assert config.get("rope_scaling") == scaling
    # A stretched model is as long as its first training and the factor say.
    if scaling and "original_max_position_embeddings" in scaling:
        first = scaling["original_max_position_embeddings"]
        assert config["max_position_embeddings"] == first * scaling["factor"]


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_a_family_nobody_knows_must_say_its_base(name: str) -> None:
    family = SHIPPED[name]["model_type"]
    with pytest.raises(ConfigError, match=f"config of {family}: has no rope_theta, and"):
        Rope.from_config(SHIPPED[name])
    assert Rope.from_config(SHIPPED[name] | {"rope_theta": 50000.0}).rotary == 64


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_defaults_are_those_of_the_config_class(family: str) -> None:
    theirs = CONFIG_MAPPING[family]().rope_parameters
    ours = dict(FAMILIES[family])
    assert ours.pop("rope_type", "default") == theirs["rope_type"]
    for name in {*ours, *theirs} - {"rope_type", "type"}:
        assert ours.get(name, 1.0) == theirs.get(name, 1.0), name


@pytest.mark.parametrize("family", sorted(SPLIT))
def test_split_families_agree_with_their_class(family: str) -> None:
    config = LLAMA | {"model_type": family, "head_dim": 32}
    assert set(their_config(config).rope_parameters) == set(SPLIT[family])
    tables = [same(config, layer_type) for layer_type in SPLIT[family]]
    assert len(set(tables)) == (1 if family == "olmo3" else 2)


OLD: dict[str, dict[str, Any]] = {
    "theta alone": {"rope_theta": 500000.0},
    "linear by type": {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "both names": {
        "rope_theta": 1e4, "rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2.0},
    },
    "nothing scaled": {"rope_theta": 1e4, "rope_scaling": None},
    "llama 3.1": {
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    "yarn without a first length": {
        "rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 4.0},
    },
    "first length outside": {
        "rope_theta": 1e4, "original_max_position_embeddings": 32,
        "rope_scaling": {
            "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
        },
    },
    "new, flat": {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}},
    "new, base outside": {
        "rope_theta": 1e6, "rope_parameters": {"rope_type": "linear", "factor": 2.0},
    },
    "new, no base": {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
    "head width said": {"rope_theta": 1e4, "head_dim": 64},
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_every_way_of_writing(name: str) -> None:
    same(LLAMA | OLD[name])


def test_old_and_new_style_are_one() -> None:
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}  # fmt: skip
    old = LLAMA | {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", **scaling}}
    new = LLAMA | {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **scaling}}
    both = new | {"rope_scaling": new["rope_parameters"]}
    assert Rope.from_config(old) == Rope.from_config(new) == Rope.from_config(both)


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("glm4_moe", {"head_dim": 32, "partial_rotary_factor": 0.5, "rope_theta": 1e6}),
        ("qwen3_5_text", {
            "head_dim": 64,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                "mrope_section": [3, 3, 2], "mrope_interleaved": True,
            },
        }),
        ("stablelm", {"rope_theta": 1e4, "partial_rotary_factor": 0.25}),
        ("stablelm", {"rope_theta": 1e4}),
        ("phi3", {"rope_theta": 1e4, "partial_rotary_factor": 0.75}),
        ("deepseek_v3", {
            "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "rope_theta": 1e4,
            "rope_scaling": {
                "type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 64,
            },
        }),
        ("deepseek_v2", {
            "qk_rope_head_dim": 16, "rope_theta": 1e4,
            "rope_scaling": {
                "type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                "original_max_position_embeddings": 64,
            },
        }),
        ("gpt_oss", {
            "head_dim": 32, "rope_theta": 150000.0, "initial_context_length": 64,
            "rope_scaling": {
                "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                "truncate": False, "original_max_position_embeddings": 64,
            },
        }),
        ("gpt_oss", {"head_dim": 32, "rope_theta": 150000.0}),
        ("gpt_oss", {"head_dim": 32, "rope_parameters": {"rope_theta": 150000.0}}),
        ("gpt_oss", {"head_dim": 32, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    ],
)  # fmt: skip
def test_parts_of_the_width_and_families(family: str, fields: dict[str, Any]) -> None:
    same(LLAMA | {"model_type": family} | fields)


def test_phi3_writes_su_and_its_first_length_outside() -> None:
    scaling = {"short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [1.0, 3.0, 9.0, 27.0]}
    config = LLAMA | {
        "model_type": "phi3", "hidden_size": 32, "rope_theta": 1e4,
        "original_max_position_embeddings": 64, "rope_scaling": {"type": "su", **scaling},
    }  # fmt: skip
    # Their class wants the newer name; the older one is in files of 2024.
    newer = config | {"rope_scaling": {"rope_type": "longrope", **scaling}}
    assert same(newer) == Rope.from_config(config)
    assert Rope.from_config(config).kind == "longrope"


GEMMA = {
    "model_type": "gemma3_text", "hidden_size": 128, "num_attention_heads": 4, "head_dim": 32,
    "max_position_embeddings": 256,
}  # fmt: skip


@pytest.mark.parametrize("layer_type", ["sliding_attention", "full_attention"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"rope_theta": 5e5, "rope_local_base_freq": 2e4},
        {"rope_theta": 1e6, "rope_local_base_freq": 1e4,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
        {"rope_parameters": {
            "full_attention": {"rope_type": "default"},
            "sliding_attention": {"rope_type": "default"}}},
    ],
    ids=str,
)  # fmt: skip
def test_gemma_3_turns_its_layers_differently(fields: dict[str, Any], layer_type: str) -> None:
    config = GEMMA | fields
    rope = same(config, layer_type)
    nested = {"model_type": "gemma3", "text_config": config}
    assert Rope.from_config(nested, layer_type=layer_type) == rope


def test_olmo_3_stretches_its_full_layers_alone() -> None:
    config = LLAMA | {
        "model_type": "olmo3", "rope_theta": 5e5,
        "rope_scaling": {
            "rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "original_max_position_embeddings": 64, "attention_factor": 1.2,
        },
    }  # fmt: skip
    assert same(config, "sliding_attention").kind == "default"
    assert same(config, "full_attention").factor == 1.2


def test_deepseek_v4_turns_compressed_layers_by_another_base() -> None:
    config = {
        "model_type": "deepseek_v4", "hidden_size": 128, "num_attention_heads": 4, "head_dim": 64,
        "qk_rope_head_dim": 16, "max_position_embeddings": 256, "rope_theta": 1e4,
        "compress_rope_theta": 1.6e5,
        "rope_scaling": {
            "type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
            "original_max_position_embeddings": 64,
        },
    }  # fmt: skip
    assert same(config, "main").kind == "default"
    compressed = same(config, "compress")
    assert (compressed.kind, compressed.factor, compressed.rotary) == ("yarn", 1.0, 16)


def test_one_entry_for_all_types_needs_no_name() -> None:
    entry = {"rope_type": "default", "rope_theta": 1e5}
    config = LLAMA | {"rope_parameters": {"full_attention": entry, "sliding_attention": entry}}
    plain = Rope.plain(32, theta=1e5)
    assert Rope.from_config(config) == plain
    assert Rope.from_config(config, layer_type="sliding_attention") == plain


def test_a_type_is_no_matter_where_all_are_turned_alike() -> None:
    config = LLAMA | {"rope_theta": 1e4}
    assert Rope.from_config(config, layer_type="full_attention") == Rope.from_config(config)


def test_text_with_three_axes_is_turned_plainly() -> None:
    """With text alone the axes of Qwen2-VL's mrope stand at the same position."""
    scaling = {"type": "mrope", "mrope_section": [4, 6, 6]}
    rope = Rope.from_config(LLAMA | {"rope_theta": 1e6, "rope_scaling": scaling})
    assert rope == Rope.plain(32, theta=1e6)


def test_the_width_can_be_another_than_the_config_s() -> None:
    config = LLAMA | {"model_type": "glm4_moe", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    assert Rope.from_config(config, width=64) == Rope.plain(64, rotary=32)
    latent = LLAMA | {"model_type": "deepseek_v3", "qk_rope_head_dim": 16, "rope_theta": 1e4}
    # The indexer's heads are wider, and as many of their numbers are turned.
    assert Rope.from_config(latent, width=128) == Rope.from_config(latent) == Rope.plain(16)
    assert Rope.from_config(latent, interleaved=True) == Rope.plain(16, interleaved=True)


def test_a_config_is_left_as_it_was() -> None:
    for name, config in SHIPPED.items():
        if name not in WITHOUT:
            before = json.dumps(config)
            Rope.from_config(config, layer_type=types_of(config)[0])
            assert json.dumps(config) == before


def broken(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in (LLAMA | fields).items() if value is not ...}


@pytest.mark.parametrize(
    ("config", "layer_type", "message"),
    [
        (broken(model_type="new"), None, "config of new: has no rope_theta, and new is not among"),
        (broken(model_type=...), None, "config of an unnamed family: has no rope_theta"),
        (broken(hidden_size=...), None, "has neither head_dim nor hidden_size; add one"),
        (broken(num_attention_heads=...), None, "has neither head_dim nor num_attention_heads"),
        (broken(rope_theta="x"), None, "rope_theta: expected a positive number, got 'x'"),
        (broken(rope_theta=0), None, "rope_theta: expected a positive number, got 0"),
        (broken(partial_rotary_factor=1.5), None, "partial_rotary_factor: .* from 0 to 1, got 1.5"),
        (broken(partial_rotary_factor="x"), None, "partial_rotary_factor: expected a number"),
        (broken(head_dim=33), None, "head_dim x partial_rotary_factor: expected an even .* got 33"),
        (broken(qk_rope_head_dim=15), None, "qk_rope_head_dim: expected an even width, got 15"),
        (broken(rope_scaling=[1]), None, r"rope_scaling: expected an object, got \[1\]"),
        (broken(rope_parameters="x"), None, "rope_parameters: expected an object, got 'x'"),
        (
            broken(
                rope_scaling={"rope_type": "linear", "factor": 2.0},
                rope_parameters={"rope_type": "linear", "factor": 4.0},
            ),
            None,
            "rope_parameters says factor = 4.0, rope_scaling 2.0; keep one of them",
        ),
        (GEMMA, None, "RoPE differs by type of layer, and none was named; give layer_type, one of "
                      "full_attention, sliding_attention"),
        (GEMMA, "global", "and 'global' is none of them; give layer_type"),
        (
            broken(rope_parameters={
                "full_attention": None, "sliding_attention": {"rope_theta": 1e4}}),
            "full_attention",
            "layers of type full_attention have no RoPE",
        ),
        (broken(rope_scaling={"type": "linear", "factr": 2.0}), None, "field 'factr' is not known"),
    ],
)  # fmt: skip
def test_errors_name_the_field_and_the_family(
    config: dict[str, Any], layer_type: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Rope.from_config(config, layer_type=layer_type)


def test_a_narrow_width_and_no_config_at_all() -> None:
    with pytest.raises(ConfigError, match="qk_rope_head_dim 16 exceeds width 8"):
        Rope.from_config(broken(qk_rope_head_dim=16), width=8)
    with pytest.raises(TypeError, match=r"config: expected the mapping of a config\.json"):
        Rope.from_config("llama")  # type: ignore[arg-type]


def test_a_base_that_differs_is_caught() -> None:
    ours = Rope.from_config(LLAMA | {"rope_theta": 10001.0}).tables(POSITIONS)
    theirs = their_tables(LLAMA | {"rope_theta": 10000.0}, POSITIONS)
    assert (ours[0] - theirs[0]).abs().max() > 2.0**-23
