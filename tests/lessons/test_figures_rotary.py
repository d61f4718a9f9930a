"""Figures of rotary positions against raw configs, complex numbers and the model's own library."""

from __future__ import annotations

import cmath
import math
from decimal import Decimal, getcontext

import torch
from figure_referees import close, config, value
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

SINGLE = 2.0**-22
"""The library's frequencies are float32, rounded at two places."""


def test_the_example_by_complex_numbers() -> None:
    """An arrow is a complex number; a dot product the real part of one times the other's mirror."""
    turn = cmath.exp(1j * math.radians(15))
    q, k = 3 * turn**9, 4 * turn**5
    close(value("rope.example.product"), (q * k.conjugate()).real)


def test_counts_by_hand() -> None:
    raw = config("qwen3.8-27b")
    assert value("rope.qwen38.theta") == raw["rope_theta"] == 10**7
    assert value("rope.qwen38.share") == raw["partial_rotary_factor"] == 0.25
    assert value("rope.qwen38.pairs") == 32 == raw["head_dim"] // 8
    assert value("rope.qwen38.still") == 192 == raw["head_dim"] - 2 * value("rope.qwen38.pairs")


def test_circles_to_fifty_digits() -> None:
    getcontext().prec = 50
    circle = Decimal("6.2831853071795864769252867665590057683943387987502")
    close(value("rope.circle.fastest"), circle)
    slowest = circle * Decimal(10) ** (Decimal(7) * 62 / 64)
    close(value("rope.qwen38.circle"), slowest)
    close(value("rope.qwen38.turned"), 360 * 262_144 / slowest)


def test_circles_are_those_of_the_librarys_frequencies() -> None:
    raw = config("qwen3.8-27b")
    about = LlamaConfig(
        hidden_size=64, num_attention_heads=1, num_key_value_heads=1, head_dim=64,
        rope_parameters={"rope_type": "default", "rope_theta": float(raw["rope_theta"])},
    )  # fmt: skip
    frequencies = LlamaRotaryEmbedding(about).inv_freq.to(torch.float64)
    for id, one in (
        ("rope.circle.fastest", frequencies[0]),
        ("rope.qwen38.circle", frequencies[-1]),
    ):
        wanted = 2 * math.pi / float(one)
        assert abs(value(id) / wanted - 1) < SINGLE, id
