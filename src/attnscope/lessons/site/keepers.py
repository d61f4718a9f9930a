"""What the widgets on memory carry: the stores of real models, and the sizes of an MLA layer.

The idea: a page computes bytes for any length from a model's stores, summed over its layers; the
planner knows them, so the page carries its list, and its sums are the planner's.

Not here: the sums on the page (serve/static/js/widgets/math/kept.js).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

from attnscope.lessons.figures import latents
from attnscope.lessons.figures.configs import model
from attnscope.plan import Model
from attnscope.plan.bytes import formats
from attnscope.plan.what_if import with_heads

NAMES: Final[dict[str, tuple[str, str]]] = {
    "ds67b-mha": ("DeepSeek LLM 67B, were it MHA", "DeepSeek LLM 67B，假如是 MHA"),
    "ds67b": ("DeepSeek LLM 67B, GQA", "DeepSeek LLM 67B，GQA"),
    "dsv2": ("DeepSeek-V2, MLA", "DeepSeek-V2，MLA"),
    "dsv3": ("DeepSeek-V3, MLA", "DeepSeek-V3，MLA"),
    "glm53": ("GLM-5.3, MLA and index keys", "GLM-5.3，MLA 加索引键"),
    "qwen38-mha": ("Qwen3.8-27B, all layers full, MHA", "Qwen3.8-27B，全部是全注意力层，MHA"),
    "qwen38-full": ("Qwen3.8-27B, all layers full", "Qwen3.8-27B，全部是全注意力层"),
    "qwen38": ("Qwen3.8-27B, as it is", "Qwen3.8-27B，实际配置"),
    "gemma270m": ("Gemma 3 270M, windows", "Gemma 3 270M，滑动窗口"),
    "flash": ("DeepSeek-V4.1-Flash", "DeepSeek-V4.1-Flash"),
}
"""Models by the ids that a lesson gives, and what they are called."""


def _models() -> dict[str, Model]:
    anchor, old = model("qwen3.8-27b"), model("deepseek-67b")
    full = next(one for one in anchor.layers if one.kind == "full")
    whole = replace(anchor, layers=(full,) * len(anchor.layers))
    return {
        "ds67b-mha": with_heads(old, None), "ds67b": old, "dsv2": model("deepseek-v2"),
        "dsv3": model("deepseek-v3"), "glm53": model("glm-5.3"),
        "qwen38-mha": with_heads(whole, None), "qwen38-full": whole, "qwen38": anchor,
        "gemma270m": model("gemma-3-270m"), "flash": model("deepseek-v4.1-flash"),
    }  # fmt: skip


def stores(source: Model) -> list[dict[str, Any]]:
    """A model's stores by growth and span: bytes of an entry, summed over layers, in BF16."""
    cache, plain = formats(source, "bf16", None)
    found: Counter[tuple[str, int]] = Counter()
    for layer in source.layers:
        for one in layer.stores:
            found[one.growth, one.span] += one.entry_bytes(cache, plain)
    return [
        {"growth": growth, "span": span, "bytes": size} for (growth, span), size in found.items()
    ]


def kept(language: str) -> dict[str, Any]:
    """Every model's stores, with its name."""
    at = ("en", "zh").index(language)
    return {
        "models": [
            {"id": id, "name": NAMES[id][at], "stores": stores(one)}
            for id, one in _models().items()
        ]
    }


def forms(language: str) -> dict[str, Any]:
    """The sizes of a layer of DeepSeek-V3."""
    found = latents.sizes(latents.V3)
    return {
        "heads": latents.heads(latents.V3), "nope": found.nope, "rope": found.rope,
        "value": found.v, "rank": found.rank,
    }  # fmt: skip
