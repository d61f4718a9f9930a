"""Every kind of stretched frequencies against transformers', to the bit, lengths and options."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rope_referees import their_config, their_embedding, their_tables
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import yarn_get_mscale

from attnscope.errors import ConfigError
from attnscope.positions import Rope, yarn_mscale
from attnscope.positions.scaled import KINDS

LENGTHS = (1, 7, 63, 64, 65, 255, 256, 257, 1000)
"""Around the first training's 64 tokens and the whole length of 256 below."""

FIELDS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.5},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "longrope": {
        "short_factor": [1.0 + i / 16 for i in range(16)],
        "long_factor": [1.0 + i for i in range(16)],
        "original_max_position_embeddings": 64,
    },
    "proportional": {"partial_rotary_factor": 0.25},
}  # fmt: skip


def config(kind: str, theta: float = 10000.0, longest: int = 256, **fields: Any) -> dict[str, Any]:
    parameters = {"rope_type": kind, "rope_theta": theta, **fields}
    return {
        "model_type": "llama", "hidden_size": 128, "num_attention_heads": 4, "head_dim": 32,
        "max_position_embeddings": longest, "rope_parameters": parameters,
    }  # fmt: skip


def theirs(made: dict[str, Any], length: int | None = None) -> tuple[torch.Tensor, float]:
    """Frequencies and factor of transformers' own function for a kind."""
    kind = made["rope_parameters"]["rope_type"]
    if kind == "default":
        embedding = their_embedding(made)
        return embedding.inv_freq, embedding.attention_scaling
    return ROPE_INIT_FUNCTIONS[kind](their_config(made), torch.device("cpu"), seq_len=length)


def same(rope: Rope, given: tuple[torch.Tensor, float]) -> None:
    assert torch.equal(torch.tensor(rope.frequencies), given[0])
    assert rope.factor == given[1]


def test_there_are_all_kinds_of_transformers() -> None:
    assert set(KINDS) == {"default", *ROPE_INIT_FUNCTIONS}
    assert set(FIELDS) == set(KINDS)


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize("length", LENGTHS)
def test_tables_over_lengths(kind: str, length: int) -> None:
    made = config(kind, **FIELDS[kind])
    rope = Rope.from_config(made)
    assert rope.kind == kind
    positions = torch.arange(max(0, length - 5), length)
    for ours, other in zip(rope.tables(positions), their_tables(made, positions), strict=True):
        assert torch.equal(ours, other)


@pytest.mark.parametrize("kind", FIELDS)
def test_frequencies_and_factor(kind: str) -> None:
    made = config(kind, theta=1e6, **FIELDS[kind])
    same(Rope.from_config(made), theirs(made))


@pytest.mark.parametrize("kind", FIELDS)
def test_a_layer_made_without_memory_has_its_frequencies(kind: str) -> None:
    """Inside `torch.device("meta")`, where a large model is built, a new tensor has no numbers."""
    made = config(kind, **FIELDS[kind])
    with torch.device("meta"):
        rope = Rope.from_config(made)
        tables = rope.tables(torch.arange(300, 305, device="cpu"))
    assert rope == Rope.from_config(made)
    for ours, other in zip(tables, their_tables(made, torch.arange(300, 305)), strict=True):
        assert torch.equal(ours, other)


@pytest.mark.parametrize("kind", FIELDS)
def test_positions_without_numbers_need_the_length_said(kind: str) -> None:
    rope = Rope.from_config(config(kind, **FIELDS[kind]))
    positions = torch.arange(300, device="meta")
    if rope.beyond is not None:
        with pytest.raises(ValueError, match=r"length: rope_type .* give the tokens of the text"):
            rope.tables(positions)
    assert rope.tables(positions, length=300)[0].shape == (300, 16)


def test_each_kind_is_another() -> None:
    """So agreeing with transformers is no accident of options that do nothing."""
    found = {kind: Rope.from_config(config(kind, **FIELDS[kind])) for kind in FIELDS}
    tables = {kind: rope.tables(torch.arange(300))[0] for kind, rope in found.items()}
    kinds = list(FIELDS)
    for n, one in enumerate(kinds):
        for other in kinds[:n]:
            assert not torch.equal(tables[one], tables[other]), (one, other)


def test_dynamic_follows_a_text_as_it_grows() -> None:
    """transformers keeps the longest text so far; for a text that grows that is its length."""
    made = config("dynamic", factor=2.0)
    embedding, rope = their_embedding(made), Rope.from_config(made)
    for place in (10, 255, 256, 400, 401, 900):
        positions = torch.tensor([place])
        cos, _ = embedding(torch.zeros(1), positions[None])
        assert torch.equal(rope.tables(positions)[0], cos[0, :, :16]), place


YARN = [
    {},
    {"attention_factor": 1.5},
    {"mscale": 0.707, "mscale_all_dim": 0.707},
    {"mscale": 1.0, "mscale_all_dim": 0.5},
    {"mscale": 1.0},
    {"mscale": 0.0, "mscale_all_dim": 1.0},
    {"beta_fast": 8.0, "beta_slow": 2.0},
    {"beta_fast": 32, "beta_slow": 1, "truncate": False},
    {"truncate": False, "factor": 32.0},
    {"truncate": True, "factor": 1.0},
    {"factor": 0.5},
    {"factor": None},
    {"beta_fast": None, "beta_slow": None, "attention_factor": None},
    {"beta_fast": 1.0, "beta_slow": 1.0},
]


@pytest.mark.parametrize("options", YARN, ids=str)
@pytest.mark.parametrize("theta", [10000.0, 150000.0])
def test_yarn_and_all_its_options(options: dict[str, Any], theta: float) -> None:
    made = config("yarn", theta=theta, **(FIELDS["yarn"] | options))
    rope = Rope.from_config(made)
    same(rope, theirs(made))
    positions = torch.arange(60, 70)
    for ours, other in zip(rope.tables(positions), their_tables(made, positions), strict=True):
        assert torch.equal(ours, other)


def test_the_options_of_yarn_matter() -> None:
    found = [Rope.from_config(config("yarn", **(FIELDS["yarn"] | options))) for options in YARN]
    plain = found[0]
    alike = [options for options, rope in zip(YARN, found, strict=True) if rope == plain]
    assert alike == [
        {},
        {"mscale": 1.0},
        {"mscale": 0.0, "mscale_all_dim": 1.0},
        {"factor": None},
        {"beta_fast": None, "beta_slow": None, "attention_factor": None},
    ]


@pytest.mark.parametrize(
    "options",
    [{}, {"factor": 8.0}, {"factor": 1.0}, {"attention_factor": 1.19}, {"factor": None}],
    ids=str,
)
@pytest.mark.parametrize("length", [1, 64, 65, 256, 300])
def test_longrope_and_all_its_options(options: dict[str, Any], length: int) -> None:
    made = config("longrope", **(FIELDS["longrope"] | options))
    rope = Rope.from_config(made)
    frequencies, factor = theirs(made, length)
    expected = frequencies * 3.0
    cos, _ = rope.tables(torch.tensor([3]), length=length)
    assert torch.equal(cos[0], expected.cos() * factor)
    assert rope.factor == factor


numbers = st.floats(1.0, 64.0, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([10.0, 500.0, 1e4, 5e5, 1e6]), numbers, st.integers(16, 8192), numbers, numbers,
    st.booleans(), st.sampled_from([8, 32, 64, 128]),
)  # fmt: skip
def test_any_numbers_give_the_same_bits(
    theta: float, factor: float, first: int, low: float, more: float, flag: bool, width: int
) -> None:
    sizes = {"head_dim": width, "max_position_embeddings": 4 * first}
    kinds: dict[str, dict[str, Any]] = {
        "linear": {"factor": factor},
        "dynamic": {"factor": factor},
        "yarn": {
            "factor": factor, "beta_slow": low, "beta_fast": low + more, "truncate": flag,
            "original_max_position_embeddings": first,
        },
        "llama3": {
            "factor": factor, "low_freq_factor": low, "high_freq_factor": low + more,
            "original_max_position_embeddings": first,
        },
        "proportional": {"partial_rotary_factor": 0.25, "factor": factor},
    }  # fmt: skip
    for kind, fields in kinds.items():
        made = config(kind, theta=theta, **fields) | sizes
        same(Rope.from_config(made), theirs(made))


@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("mscale", [0.0, 0.707, 1.0])
def test_yarn_mscale_is_deepseek_s(factor: float, mscale: float) -> None:
    assert yarn_mscale(factor, mscale) == yarn_get_mscale(factor, mscale)
    assert yarn_mscale(factor) == yarn_get_mscale(factor)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 1.0])
def test_proportional_turns_any_share(share: float) -> None:
    """A share that makes an odd width is no matter: the rotated width is the whole one."""
    made = config("proportional", partial_rotary_factor=share)
    rope = Rope.from_config(made)
    same(rope, theirs(made))
    assert rope.rotary == 32


def test_proportional_leaves_slow_pairs_where_they_are() -> None:
    """Unlike a partial RoPE its pairs are halves of the whole width (Gemma 4)."""
    rope = Rope.from_config(config("proportional", partial_rotary_factor=0.25))
    assert rope.rotary == 32
    assert rope.frequencies[4:] == (0.0,) * 12
    x = torch.randn(1, 1, 2, 32)
    y = rope(x, torch.tensor([5, 1000]))
    still = [i for i in range(32) if i % 16 >= 4]
    assert torch.equal(y[..., still], x[..., still])


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("ntk", {}, "rope_type 'ntk' is not known here; there are default, dynamic, linear, llama"),
        ("linear", {}, "config of llama: has no factor, which rope_type 'linear' needs; add it"),
        ("linear", {"factor": "4"}, "factor: expected a positive number, got '4'"),
        ("linear", {"factor": True}, "factor: expected a positive number, got True"),
        ("linear", {"factor": -2.0}, "factor: expected a positive number, got -2.0"),
        ("linear", {"factor": math.nan}, "factor: expected a positive number, got nan"),
        ("dynamic", {}, "has no factor, which rope_type 'dynamic' needs"),
        ("yarn", {}, "has no factor, which rope_type 'yarn' needs"),
        ("yarn", {"factor": 2.0, "beta_fast": "x"}, "beta_fast: expected a positive number"),
        ("yarn", {"factor": 2.0, "attention_factor": -1.0}, "attention_factor: expected a positiv"),
        ("llama3", {"factor": 8.0, "high_freq_factor": 4.0}, "has no low_freq_factor"),
        ("llama3", {"factor": 8.0, "low_freq_factor": 1.0}, "has no high_freq_factor"),
        (
            "llama3",
            {"factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0},
            "low_freq_factor: expected less than high_freq_factor 4, got 4",
        ),
        ("longrope", {"long_factor": [1.0] * 16, "factor": 4.0}, "has no short_factor"),
        (
            "longrope",
            {"long_factor": [1.0] * 16, "short_factor": [1.0] * 3, "factor": 4.0},
            "short_factor: expected a list of 16 numbers, half the rotated width, got 3",
        ),
        (
            "longrope",
            {"long_factor": "x", "short_factor": [1.0] * 16, "factor": 4.0},
            "long_factor: expected a list of 16 numbers, .* got 'x'",
        ),
        (
            "longrope",
            {"long_factor": [0.0] * 16, "short_factor": [1.0] * 16, "factor": 4.0},
            "long_factor: expected positive numbers",
        ),
        (
            "longrope",
            {"long_factor": [1.0] * 16, "short_factor": [1.0] * 16},
            "has no factor, which rope_type 'longrope' needs",
        ),
        (
            "longrope",
            {"long_factor": [1.0] * 16, "short_factor": [1.0] * 16, "factor": 4.0,
             "original_max_position_embeddings": 1},
            "original_max_position_embeddings: expected over 1, got 1",
        ),
        ("yarn", {"factor": 2.0, "llama_4_scaling_beta": 0.1}, "RoPE field 'llama_4_scaling_beta'"),
    ],
)  # fmt: skip
def test_fields_that_lack_or_make_no_sense(kind: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Rope.from_config(config(kind, **fields))


def test_lengths_that_lack_or_make_no_sense() -> None:
    made = config("dynamic", factor=2.0)
    del made["max_position_embeddings"]
    with pytest.raises(ConfigError, match=r"has no max_position_embeddings, which .* 'dynamic'"):
        Rope.from_config(made)
    made = config("yarn", factor=2.0)
    del made["max_position_embeddings"]
    with pytest.raises(ConfigError, match="has no original_max_position_embeddings, which"):
        Rope.from_config(made)
    with pytest.raises(ConfigError, match="'dynamic' needs more than one pair"):
        Rope.from_config(config("dynamic", factor=2.0) | {"head_dim": 2})
    with pytest.raises(ConfigError, match="rope_theta: rope_type 'yarn' needs more than 1"):
        Rope.from_config(config("yarn", theta=1.0, factor=2.0))
