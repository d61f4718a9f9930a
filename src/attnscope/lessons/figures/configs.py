"""Inputs that come from real models' configs, and sums over their layers, through attnscope.plan.

The idea: a figure names a field of a published config.json; the planner says what follows from it.

Not here: the configs (plan/data/configs), what a layer keeps (attnscope.plan).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Final

from attnscope.lessons.figures.registry import Input, given
from attnscope.plan import Model, read
from attnscope.plan.bytes import formats

HUB: Final[dict[str, str]] = {
    "qwen3.8-27b": "Qwen/Qwen3.8-27B",
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "deepseek-67b": "deepseek-ai/deepseek-llm-67b-base",
    "deepseek-v2": "deepseek-ai/DeepSeek-V2-Chat",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "gemma-2-9b": "google/gemma-2-9b",
    "gemma-3-270m": "google/gemma-3-270m",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "glm-5.3": "zai-org/GLM-5.3",
    "deepseek-v4-flash": "deepseek-ai/DeepSeek-V4-Flash",
    "deepseek-v4.1-flash": "deepseek-ai/DeepSeek-V4.1-Flash",
}
"""The planner's names of the models of the lessons, and their ids on the hub."""

BF16: Final = given(2, "bytes of a bfloat16 number")
FP32: Final = given(4, "bytes of a float32 number")


@cache
def model(name: str) -> Model:
    """A model of the planner, read once."""
    return read(name)


def config(name: str, field: str) -> Callable[[], Input]:
    """A field of a model's config.json."""
    return lambda: Input(model(name).fields[field], f"{HUB[name]} config.json: {field}")


def layers(name: str, *kinds: str) -> Callable[[], Input]:
    """How many layers of these kinds a model has; of every kind, if none is named."""
    what = f"layers that attnscope.plan reads as {' or '.join(kinds)}" if kinds else "layers"
    where = f"{HUB[name]} config.json: {what}"
    return lambda: Input(sum(one.kind in kinds or not kinds for one in model(name).layers), where)


def kept(source: Model, *stores: str) -> tuple[Fraction, int]:
    """Bytes that a model keeps per token, and once for all, in bfloat16.

    Args:
        stores: the names of the stores to count, as attnscope.plan calls them; all, if none is.

    Raises:
        ValueError: the model has no store of a name.
    """
    there = {store.name for layer in source.layers for store in layer.stores}
    if not there.issuperset(stores):
        raise ValueError(f"{source.name} keeps {', '.join(sorted(there))}; asked for {stores}")
    number, _ = formats(source, "bf16", None)
    parts = [
        replace(one, stores=tuple(s for s in one.stores if not stores or s.name in stores))
        for one in source.layers
    ]
    split = [part.split(number, number) for part in parts]
    return sum((s.per_token_bytes for s in split), Fraction(0)), sum(s.fixed_bytes for s in split)


def per_token(source: Model, *stores: str) -> Fraction:
    """Bytes per token past every window."""
    return kept(source, *stores)[0]


def fixed(source: Model, *stores: str) -> int:
    """Bytes that do not depend on the length."""
    return kept(source, *stores)[1]
