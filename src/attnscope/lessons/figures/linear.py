"""States, choices and entries of real models, for the lesson on linear and sparse attention.

Formula
    state       H D E numbers of 4 bytes a layer; keys and values of a token 2 G d numbers of 2
    even        tokens at which a full layer's keys and values weigh what a state weighs
    scan        H (2 R + D) / (H_i D_i): what attending to a latent costs, over scanning it

Not here: bytes of whole models (keeping.py, states.py), shapes (shapes.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from attnscope.lessons.figures.configs import BF16, FP32, HUB, config, model
from attnscope.lessons.figures.registry import Ask, Input, figure
from attnscope.plan.model import Indexer, Layer

QWEN, GLM, V4, FLASH = "qwen3.8-27b", "glm-5.3", "deepseek-v4-flash", "deepseek-v4.1-flash"
Inputs = dict[str, Ask]


def layer(name: str, kind: str) -> Layer:
    """The first layer of a kind, as the planner reads a model."""
    return next(one for one in model(name).layers if one.kind == kind)


def indexer(name: str) -> Indexer:
    """The indexer of a model's layers."""
    found = next(one.indexer for one in model(name).layers if one.indexer is not None)
    assert found is not None
    return found


_STATE: Final[Inputs] = {
    "value_heads": config(QWEN, "linear_num_value_heads"),
    "key_width": config(QWEN, "linear_key_head_dim"),
    "value_width": config(QWEN, "linear_value_head_dim"),
    "bytes": FP32,
}
_STATE_OF: Final = "value_heads × key_width × value_width × bytes"
_TOKEN: Final[Inputs] = {
    "kv_heads": config(QWEN, "num_key_value_heads"), "head_dim": config(QWEN, "head_dim"),
    "bytes_kv": BF16,
}  # fmt: skip
qwen = partial(figure, source=f"attnscope.plan, config of {HUB[QWEN]}")


def _state() -> int:
    [store] = [one for one in layer(QWEN, "gated-deltanet").stores if one.name == "state"]
    return store.vectors * store.width * FP32.value


@qwen(
    "linear.qwen38.layer", unit="B", inputs=_STATE, formula=_STATE_OF, show="{MiB:.4g} MiB",
    en="Qwen3.8-27B: the state of one linear layer", zh="Qwen3.8-27B：一个线性层的状态",
)  # fmt: skip
def layer_state(**_: int) -> int:
    return _state()


@qwen(
    "linear.qwen38.even", unit="tokens", inputs={**_STATE, **_TOKEN}, show="{:,.0f}",
    formula=f"{_STATE_OF} / (2 × kv_heads × head_dim × bytes_kv)",
    en="Qwen3.8-27B: tokens whose keys and values in a full layer weigh as much as a state",
    zh="Qwen3.8-27B：全注意力层里多少个 token 的 k、v 和一份状态一样大",
)  # fmt: skip
def even(**_: int) -> float:
    stores = layer(QWEN, "full").stores
    return _state() / sum(one.vectors * one.width * BF16.value for one in stores)


glm = partial(figure, source=f"attnscope.plan, config of {HUB[GLM]}")
_INDEX: Final[Inputs] = {
    "index_heads": config(GLM, "index_n_heads"), "index_width": config(GLM, "index_head_dim"),
}  # fmt: skip
_LATENT: Final[Inputs] = {
    "heads": config(GLM, "num_attention_heads"), "rank": config(GLM, "kv_lora_rank"),
    "rope": config(GLM, "qk_rope_head_dim"),
}  # fmt: skip


@glm(
    "linear.glm53.topk", unit="tokens", inputs={"topk": config(GLM, "index_topk")}, formula="topk",
    en="GLM-5.3: keys that a query chooses", zh="GLM-5.3：每个 query 挑几个 key",
)  # fmt: skip
def topk(**_: int) -> int:
    return indexer(GLM).topk


@glm(
    "linear.glm53.index_heads", inputs={"index_heads": _INDEX["index_heads"]},
    formula="index_heads", en="GLM-5.3: heads of the indexer", zh="GLM-5.3：索引器的头数",
)  # fmt: skip
def index_heads(**_: int) -> int:
    return indexer(GLM).heads


@glm(
    "linear.glm53.share", unit="%", show="{:.3f}%", formula="100 × topk / context",
    inputs={"topk": config(GLM, "index_topk"), "context": config(GLM, "max_position_embeddings")},
    en="GLM-5.3: share of its whole context that a query reads",
    zh="GLM-5.3：上下文全满时，一个 query 读其中的几成",
)  # fmt: skip
def share(context: int, **_: int) -> float:
    return 100 * indexer(GLM).topk / context


@glm(
    "linear.glm53.scan", show="{:.0f}", inputs={**_LATENT, **_INDEX},
    formula="heads × (2 × rank + rope) / (index_heads × index_width)",
    en="GLM-5.3: how many times as much it costs to attend to a key as to scan it",
    zh="GLM-5.3：真的读一个 key，花费是扫一个的几倍",
    note="Attending as the absorbed form does it; a layer that reuses a choice does not scan.",
    note_zh="真的读，按吸收的形式算；沿用别层挑选结果的层不扫。",
)  # fmt: skip
def scan(**_: int) -> float:
    one, found = layer(GLM, "mla-indexer"), indexer(GLM)
    assert one.latent is not None
    assert one.heads is not None
    whole = one.heads.query * (2 * one.latent.rank + one.latent.rope)
    return whole / (found.heads * found.width)


def _ratio(name: str, kind: str) -> Ask:
    return lambda: Input(layer(name, kind).every, f"{HUB[name]} config.json: compress_ratios")


def _first(**inputs: Any) -> Any:
    return next(iter(inputs.values()))


for _id, _kind, _en, _zh in (
    ("fine", "compressed", "shorter", "细"), ("coarse", "heavily-compressed", "longer", "粗"),
):  # fmt: skip
    figure(
        f"linear.v4flash.{_id}", unit="tokens", inputs={"ratio": _ratio(V4, _kind)},
        formula="ratio", source=f"attnscope.plan, config of {HUB[V4]}",
        en=f"DeepSeek-V4-Flash: tokens of each of its {_en} entries",
        zh=f"DeepSeek-V4-Flash：较{_zh}的条目每条代表的 token 数",
    )(_first)  # fmt: skip
figure(
    "linear.v4flash.window", unit="tokens", inputs={"window": config(V4, "sliding_window")},
    formula="window", source=f"config of {HUB[V4]}", kind="reported",
    en="DeepSeek-V4-Flash: last tokens that are kept as they are",
    zh="DeepSeek-V4-Flash：原样保留的最近 token 数",
)(_first)  # fmt: skip
figure(
    "linear.v4flash.topk", unit="entries", inputs={"topk": config(V4, "index_topk")},
    formula="topk", source=f"config of {HUB[V4]}", kind="reported",
    en="DeepSeek-V4-Flash: entries that a query chooses",
    zh="DeepSeek-V4-Flash：每个 query 挑几条",
)(_first)  # fmt: skip
