"""Bytes that real models keep for every token: keys and values, or latents; by attnscope.plan.

Formula (per token, 2 bytes a number)
    keys and values   layers × 2 × KV heads × head width × 2
    MLA               layers × (latent + rotary key) × 2

Where a published total leaves something out, a figure of its own says how much.

Not here: shapes (shapes.py), states and compressed entries (states.py).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Final

from attnscope.lessons.figures.configs import BF16, HUB, config, layers, model, per_token
from attnscope.lessons.figures.registry import Ask, figure, given, reported
from attnscope.plan import Model
from attnscope.plan.what_if import with_heads

ANCHOR, OLD, V2, V3, GLM = "qwen3.8-27b", "deepseek-67b", "deepseek-v2", "deepseek-v3", "glm-5.3"
LATENTS: Final = ("latent", "rotary key")
Inputs = dict[str, Ask]


def plan(name: str) -> str:
    return f"attnscope.plan, config of {HUB[name]}"


per_token_figure = partial(figure, unit="B/token")
total_figure = partial(figure, unit="B")
KIB, BYTES = "{KiB:.0f} KiB", "{:,} B"


def _context(name: str) -> Inputs:
    return {"context": config(name, "max_position_embeddings")}


_FULL: Final[Inputs] = {
    "full_layers": layers(ANCHOR, "full"), "head_dim": config(ANCHOR, "head_dim"), "bytes": BF16,
}  # fmt: skip


def _anchor(scheme: str, heads: Ask, changed: Callable[[], Model], *, en: str, zh: str) -> None:
    """The anchor model's cache in a scheme: per token, and for its whole context."""
    formula = "full_layers × 2 × heads × head_dim × bytes"
    inputs = {**_FULL, "heads": heads}
    per_token_figure(
        f"kv.qwen38.{scheme}.per_token", inputs=inputs, formula=formula, show=KIB,
        en=f"Qwen3.8-27B as {en}: per token", zh=f"Qwen3.8-27B，{zh}：每 token",
        source=plan(ANCHOR),
    )(lambda **_: per_token(changed()))  # fmt: skip
    total_figure(
        f"kv.qwen38.{scheme}.total", inputs={**inputs, **_context(ANCHOR)},
        formula=f"{formula} × context", show="{GiB:.0f} GiB", source=plan(ANCHOR),
        en=f"Qwen3.8-27B as {en}: native context", zh=f"Qwen3.8-27B，{zh}：原生上下文",
        note="One sequence; the fixed states of the other layers ({state.qwen38.total}) come on "
        "top.",
        note_zh="一条请求；其余层的固定状态（{state.qwen38.total}）另算。",
    )(lambda context, **_: per_token(changed()) * context)  # fmt: skip


_anchor(
    "mha", config(ANCHOR, "num_attention_heads"), lambda: with_heads(model(ANCHOR), None),
    en="MHA, keys and values for every query head", zh="MHA，每个 Q 头各存一份",
)  # fmt: skip
_anchor(
    "mqa", given(1, "MQA: one head for all"), lambda: with_heads(model(ANCHOR), 1),
    en="MQA, one key/value head for all", zh="MQA，所有头共用一份",
)  # fmt: skip
_anchor(
    "gqa", config(ANCHOR, "num_key_value_heads"), lambda: model(ANCHOR),
    en="GQA, as published", zh="GQA，官方配置",
)  # fmt: skip

_DENSE: Final[Inputs] = {
    "layers": layers(OLD, "full"), "hidden": config(OLD, "hidden_size"),
    "heads": config(OLD, "num_attention_heads"), "bytes": BF16,
}  # fmt: skip
_GROUPED: Final[Inputs] = {**_DENSE, "kv_heads": config(OLD, "num_key_value_heads")}
_OLD_GQA: Final = "layers × 2 × kv_heads × (hidden / heads) × bytes"


@per_token_figure(
    "kv.ds67b.gqa.per_token", inputs=_GROUPED, formula=_OLD_GQA, show=BYTES, source=plan(OLD),
    en="DeepSeek LLM 67B, GQA-8, as published: per token",
    zh="DeepSeek LLM 67B，GQA-8（官方配置）：每 token",
)  # fmt: skip
def old_grouped(**_: int) -> Fraction:
    return per_token(model(OLD))


@per_token_figure(
    "kv.ds67b.mha.per_token", inputs=_DENSE, show=BYTES,
    formula="layers × 2 × heads × (hidden / heads) × bytes",
    source=plan(OLD),
    en="DeepSeek LLM 67B, were it MHA: per token", zh="DeepSeek LLM 67B，假如是 MHA：每 token",
)  # fmt: skip
def old_dense(**_: int) -> Fraction:
    return per_token(with_heads(model(OLD), None))


_LIMIT = "The model's own context is far shorter; this is what that many tokens would take."
_LIMIT_ZH = "模型自身的上下文远没有这么长；这是假如有这么多 token 要占的。"


def _old_total(
    id: str, tokens: int, what: str, *, en: str, zh: str, note: str, note_zh: str
) -> None:
    """The cache of the 67B after so many tokens."""
    total_figure(
        id, inputs={**_GROUPED, "tokens": given(tokens, what)}, formula=f"{_OLD_GQA} × tokens",
        show="{GiB:.4g} GiB", source=plan(OLD), en=en, zh=zh, note=f"{_LIMIT} {note}",
        note_zh=f"{_LIMIT_ZH}{note_zh}",
    )(lambda tokens, **_: per_token(model(OLD)) * tokens)  # fmt: skip


_old_total(
    "kv.ds67b.gqa.total", 2**20, "1M as 2^20 tokens",
    en="DeepSeek LLM 67B, GQA-8: 1M tokens, as 2^20",
    zh="DeepSeek LLM 67B，GQA-8：1M 个 token，按 2^20 算",
    note="With 10^6 tokens it is {kv.ds67b.gqa.total.million}.",
    note_zh="按 10^6 个 token 算是 {kv.ds67b.gqa.total.million}。",
)  # fmt: skip
_old_total(
    "kv.ds67b.gqa.total.million", 10**6, "1M as 10^6 tokens",
    en="DeepSeek LLM 67B, GQA-8: 1M tokens, as 10^6",
    zh="DeepSeek LLM 67B，GQA-8：1M 个 token，按 10^6 算",
    note="With 2^20 tokens it is {kv.ds67b.gqa.total}.",
    note_zh="按 2^20 个 token 算是 {kv.ds67b.gqa.total}。",
)  # fmt: skip


def _latent(name: str) -> Inputs:
    return {
        "layers": layers(name), "latent": config(name, "kv_lora_rank"),
        "rope": config(name, "qk_rope_head_dim"), "bytes": BF16,
    }  # fmt: skip


_MLA: Final = "layers × (latent + rope) × bytes"


def _mla(id: str, name: str, *, en: str, zh: str, **about: Any) -> None:
    per_token_figure(
        id, inputs=_latent(name), formula=_MLA, show=BYTES, source=plan(name), en=en, zh=zh,
        **about,
    )(lambda **_: per_token(model(name), *LATENTS))  # fmt: skip


_mla("kv.dsv2.per_token", V2, en="DeepSeek-V2, MLA: per token", zh="DeepSeek-V2，MLA：每 token")
_mla(
    "kv.dsv3.per_token", V3, en="DeepSeek-V3, MLA: per token", zh="DeepSeek-V3，MLA：每 token",
    note="Without the layer for drafting that the config names too (num_nextn_predict_layers).",
    note_zh="不含 config 里另有的起草层（num_nextn_predict_layers）。",
)  # fmt: skip
_mla(
    "kv.glm53.per_token", GLM,
    en="GLM-5.3, latents alone: per token", zh="GLM-5.3，只算潜向量：每 token",
    note="Keys of the indexers, {kv.glm53.indexer.per_token} a token, come on top: "
    "{kv.glm53.all.per_token}.",
    note_zh="indexer 的键每 token 还要 {kv.glm53.indexer.per_token}，"
    "合计 {kv.glm53.all.per_token}。",
)  # fmt: skip


def _saving(per_token_bytes: float | Fraction) -> float:
    return float(100 * (per_token_bytes / per_token(model(OLD)) - 1))


_BOTH: Final[Inputs] = {
    **_latent(V2),
    **{f"{n}_67b": a for n, a in _GROUPED.items() if n != "bytes"},
}
_OLD_OF_BOTH: Final = "(layers_67b × 2 × kv_heads_67b × hidden_67b / heads_67b × bytes)"


@figure(
    "kv.dsv2.saving", unit="%", show="{:.1f}%", inputs=_BOTH,
    formula=f"100 × ({_MLA} / {_OLD_OF_BOTH} - 1)", source=f"{plan(V2)} and of {HUB[OLD]}",
    en="DeepSeek-V2 against DeepSeek LLM 67B, both BF16", zh="DeepSeek-V2 相对 67B，都按 BF16",
)  # fmt: skip
def saving(**_: int) -> float:
    return _saving(per_token(model(V2)))


REPORT: Final = "DeepSeek-V2 report, arXiv 2405.04434"
SERVED: Final = f"{REPORT}, on the efficiency of inference"
reported(
    "kv.dsv2.bits", 6, unit="bits", en="DeepSeek-V2 as served: bits of a cached number",
    zh="DeepSeek-V2 线上部署：缓存每个数约几 bit", source=f"{SERVED}, on average",
)  # fmt: skip
reported(
    "kv.dsv2.saving.reported", -93.3, unit="%", show="{:.1f}%",
    en="DeepSeek-V2 against DeepSeek LLM 67B, as its report says",
    zh="DeepSeek-V2 相对 67B，官方报告的数", source=f"{REPORT}, abstract",
    note="Includes quantisation of the cache to about {kv.dsv2.bits} bits a number; our "
    "reconstruction gives {kv.dsv2.saving.quantised}.",
    note_zh="还含约 {kv.dsv2.bits} bit 的 KV 量化；按它重算是 {kv.dsv2.saving.quantised}。",
)  # fmt: skip


@figure(
    "kv.dsv2.saving.quantised", unit="%", show="{:.2f}%",
    inputs={**_BOTH, "bits": given(6, SERVED), "byte": given(8, "bits a byte")},
    formula=f"100 × (layers × (latent + rope) × bits / byte / {_OLD_OF_BOTH} - 1)",
    source=f"{plan(V2)} and of {HUB[OLD]}; bits as reported",
    en="DeepSeek-V2 at 6 bits a number against DeepSeek LLM 67B, our reconstruction",
    zh="DeepSeek-V2 按每数 6 bit 相对 67B，我们重算的数",
)  # fmt: skip
def quantised_saving(bits: int, byte: int, **_: int) -> float:
    return _saving(per_token(model(V2)) * Fraction(bits, byte * BF16.value))


_INDEXER: Final[Inputs] = {
    "indexer_layers": layers(GLM, "mla-indexer"), "width": config(GLM, "index_head_dim"),
    "bytes": BF16,
}  # fmt: skip
_INDEX_KEYS: Final = "indexer_layers × width × bytes"
_ALL: Final = f"({_MLA} + {_INDEX_KEYS})"


def _glm(
    id: str, *stores: str, inputs: Inputs, formula: str, en: str, zh: str, **about: Any
) -> None:
    """GLM-5.3's bytes in some stores, for its whole context."""
    total_figure(
        id, inputs={**inputs, **_context(GLM)}, formula=f"{formula} × context",
        show="{GiB:.2f} GiB", source=plan(GLM), en=f"GLM-5.3, {en}: native context",
        zh=f"GLM-5.3，{zh}：原生上下文", **about,
    )(lambda context, **_: per_token(model(GLM), *stores) * context)  # fmt: skip


per_token_figure(
    "kv.glm53.indexer.per_token", inputs=_INDEXER, formula=_INDEX_KEYS, show=BYTES,
    source=plan(GLM), en="GLM-5.3, keys of the indexers: per token",
    zh="GLM-5.3，indexer 的键：每 token",
    note="The source counts the latents alone.", note_zh="原文只算了潜向量。",
)(lambda **_: per_token(model(GLM), "indexer keys"))  # fmt: skip
per_token_figure(
    "kv.glm53.all.per_token", inputs={**_latent(GLM), **_INDEXER}, formula=_ALL, show=BYTES,
    source=plan(GLM), en="GLM-5.3, all that it keeps: per token", zh="GLM-5.3，全部：每 token",
)(lambda **_: per_token(model(GLM)))  # fmt: skip
_glm(
    "kv.glm53.total", *LATENTS, inputs=_latent(GLM), formula=_MLA, en="latents alone",
    zh="只算潜向量",
    note="Keys of the indexers, {kv.glm53.indexer.total}, come on top: {kv.glm53.all.total}.",
    note_zh="indexer 的键还要 {kv.glm53.indexer.total}，合计 {kv.glm53.all.total}。",
)  # fmt: skip
_glm(
    "kv.glm53.indexer.total", "indexer keys", inputs=_INDEXER, formula=_INDEX_KEYS,
    en="keys of the indexers", zh="indexer 的键",
)  # fmt: skip
_glm(
    "kv.glm53.all.total", inputs={**_latent(GLM), **_INDEXER}, formula=_ALL, en="all that it keeps",
    zh="全部",
)  # fmt: skip
