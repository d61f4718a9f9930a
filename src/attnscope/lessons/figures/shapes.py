"""Shapes of real models as their configs have them, and the FLOPs that follow.

Formula (per layer, T tokens, H query heads of width d; one multiply-add is 2 FLOPs)
    prefill   2 H T^2 d for the scores + 2 H T^2 d for the mixture = 4 H d T^2, the full square
    decode    4 H d T with T keys in sight

Not here: bytes (keeping.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from attnscope.lessons.figures.configs import BF16, HUB, config, layers, model
from attnscope.lessons.figures.registry import Ask, figure, given

ANCHOR, SMALL = "qwen3.8-27b", "qwen3-0.6b"


def first(**inputs: Any) -> Any:
    """The one input, as it stands in the config."""
    return next(iter(inputs.values()))


def field(id: str, name: str, key: str, *, en: str, zh: str, **about: Any) -> None:
    """A figure that is a field of a config: the model's makers say it, and nobody here computes."""
    figure(
        id, inputs={key: config(name, key)}, formula=key, source=f"config of {HUB[name]}",
        kind="reported", en=en, zh=zh, **about,
    )(first)  # fmt: skip


def count(id: str, name: str, *kinds: str, en: str, zh: str) -> None:
    """A figure that counts layers of a kind, as the planner reads them."""
    figure(
        id, inputs={"layers": layers(name, *kinds)}, formula="layers", unit="layers",
        source=f"attnscope.plan, config of {HUB[name]}", en=en, zh=zh,
    )(first)  # fmt: skip


figure(
    "shape.bf16", unit="B", inputs={"bytes": BF16}, formula="bytes", show="{} B",
    source="bfloat16", en="Bytes of a number in BF16", zh="BF16 每个数的字节",
)(first)  # fmt: skip

count("shape.qwen38.layers", ANCHOR, en="Qwen3.8-27B: layers", zh="Qwen3.8-27B：层数")
count(
    "shape.qwen38.full_layers", ANCHOR, "full",
    en="Qwen3.8-27B: layers of full attention", zh="Qwen3.8-27B：全注意力层数",
)  # fmt: skip
count(
    "shape.qwen38.linear_layers", ANCHOR, "gated-deltanet",
    en="Qwen3.8-27B: layers that keep a state", zh="Qwen3.8-27B：只存固定状态的层数",
)  # fmt: skip
field(
    "shape.qwen38.heads", ANCHOR, "num_attention_heads",
    en="Qwen3.8-27B: query heads", zh="Qwen3.8-27B：Q 头数",
)  # fmt: skip
field(
    "shape.qwen38.kv_heads", ANCHOR, "num_key_value_heads",
    en="Qwen3.8-27B: key/value heads", zh="Qwen3.8-27B：KV 头数（组数）",
)  # fmt: skip


@figure(
    "shape.qwen38.group", formula="heads / kv_heads",
    inputs={"heads": config(ANCHOR, "num_attention_heads"),
            "kv_heads": config(ANCHOR, "num_key_value_heads")},
    source=f"attnscope.plan, config of {HUB[ANCHOR]}",
    en="Qwen3.8-27B: query heads that share a key/value head", zh="Qwen3.8-27B：每组几个 Q 头",
)  # fmt: skip
def group(**_: int) -> int:
    [heads] = {one.heads for one in model(ANCHOR).layers if one.heads is not None}
    return heads.query // heads.kv


field(
    "shape.qwen38.head_width", ANCHOR, "head_dim",
    en="Qwen3.8-27B: width of a head", zh="Qwen3.8-27B：每头维数",
)  # fmt: skip


@figure(
    "shape.qwen38.rotated", formula="head_dim × share",
    inputs={"head_dim": config(ANCHOR, "head_dim"),
            "share": config(ANCHOR, "partial_rotary_factor")},
    source=f"config of {HUB[ANCHOR]}",
    en="Qwen3.8-27B: dimensions of a head that RoPE turns",
    zh="Qwen3.8-27B：每头由 RoPE 旋转的维数",
)  # fmt: skip
def rotated(head_dim: int, share: float) -> int:
    return int(head_dim * share)


field(
    "shape.qwen38.context", ANCHOR, "max_position_embeddings", unit="tokens",
    en="Qwen3.8-27B: native context", zh="Qwen3.8-27B：原生上下文",
)  # fmt: skip
figure(
    "shape.qwen38.scale", inputs={"d": config(ANCHOR, "head_dim")}, formula="sqrt(d)",
    source=f"config of {HUB[ANCHOR]}", show="{:g}",
    en="Qwen3.8-27B: what its scores are divided by", zh="Qwen3.8-27B：分数要除以的 √d",
)(lambda d: d**0.5)  # fmt: skip

field(
    "shape.qwen306b.heads", SMALL, "num_attention_heads",
    en="Qwen3-0.6B: query heads", zh="Qwen3-0.6B：Q 头数",
)  # fmt: skip
field(
    "shape.qwen306b.head_width", SMALL, "head_dim",
    en="Qwen3-0.6B: width of a head", zh="Qwen3-0.6B：每头维数",
    note="A value of the config, not hidden size / heads, which is {shape.qwen306b.quotient}.",
    note_zh="这是 config 里显式写的值，不是 hidden/heads（那是 {shape.qwen306b.quotient}）。",
)  # fmt: skip
field(
    "shape.qwen306b.hidden", SMALL, "hidden_size",
    en="Qwen3-0.6B: model width", zh="Qwen3-0.6B：模型宽度 h",
)  # fmt: skip

_SMALL: Final[dict[str, Ask]] = {
    "heads": config(SMALL, "num_attention_heads"),
    "head_dim": config(SMALL, "head_dim"),
}
_HIDDEN: Final[dict[str, Ask]] = {"hidden": config(SMALL, "hidden_size")}


@figure(
    "shape.qwen306b.quotient", formula="hidden / heads",
    inputs={**_HIDDEN, "heads": _SMALL["heads"]}, source=f"config of {HUB[SMALL]}",
    en="Qwen3-0.6B: hidden size / heads, which is not the head width",
    zh="Qwen3-0.6B：h/H，并不是头宽",
)  # fmt: skip
def quotient(hidden: int, heads: int) -> int:
    return hidden // heads


@figure(
    "shape.qwen306b.q_width", formula="heads × head_dim", inputs=_SMALL,
    source=f"attnscope.plan, config of {HUB[SMALL]}",
    en="Qwen3-0.6B: outputs of q_proj", zh="Qwen3-0.6B：q_proj 的输出维数",
    note="These are what is cut into {shape.qwen306b.heads} heads of {shape.qwen306b.head_width}; "
    "the chapter's heading says that {shape.qwen306b.head_width} are cut.",
    note_zh="切成 {shape.qwen306b.heads} 个头、每头 {shape.qwen306b.head_width} 维的是它；"
    "原文 7.5 的标题写成了「把 {shape.qwen306b.head_width} 维切成 {shape.qwen306b.heads} 个头」。",
)  # fmt: skip
def q_width(**_: int) -> int:
    [heads] = {one.heads for one in model(SMALL).layers if one.heads is not None}
    return heads.query * heads.qk


@figure(
    "shape.qwen306b.o_proj", formula="(heads × head_dim, hidden)", inputs={**_SMALL, **_HIDDEN},
    source=f"attnscope.plan, config of {HUB[SMALL]}", show="{}", join=" × ",
    en="Qwen3-0.6B: o_proj, inputs × outputs", zh="Qwen3-0.6B：o_proj，输入 × 输出",
    note="PyTorch keeps the weight as outputs × inputs.",
    note_zh="PyTorch 的权重按「输出 × 输入」存放。",
)  # fmt: skip
def o_proj(**_: int) -> tuple[int, int]:
    return q_width(), model(SMALL).width


FLOPS: Final = f"attnscope.plan.flops, config of {HUB[SMALL]}; projections are not counted"
LENGTH: Final = given(4096, "any length gives the same coefficient")
flops = partial(figure, inputs={**_SMALL, "T": LENGTH}, source=FLOPS)


@flops(
    "flops.qwen306b.prefill", formula="4 × heads × head_dim", unit="FLOPs per T^2 and layer",
    show="{} T²",
    en="Qwen3-0.6B: FLOPs of a layer's prefill, full square",
    zh="Qwen3-0.6B：prefill 每层的 FLOP（整个方阵）",
    note="A causal mask needs the triangle alone, {flops.qwen306b.prefill.causal}, which is half.",
    note_zh="因果掩码只需要三角形的一半：{flops.qwen306b.prefill.causal}。",
)  # fmt: skip
def prefill(T: int, **_: int) -> int:
    return model(SMALL).cost(context=T).prefill_dense // len(model(SMALL).layers) // T**2


@flops(
    "flops.qwen306b.prefill.causal", formula="2 × heads × head_dim", show="{} T(T+1)",
    unit="FLOPs per T (T + 1) and layer",
    en="Qwen3-0.6B: FLOPs of a layer's prefill, pairs in sight alone",
    zh="Qwen3-0.6B：prefill 每层的 FLOP（只算看得见的配对）",
)  # fmt: skip
def prefill_causal(T: int, **_: int) -> int:
    return model(SMALL).cost(context=T).prefill // len(model(SMALL).layers) // (T * (T + 1))


@flops(
    "flops.qwen306b.decode", formula="4 × heads × head_dim", unit="FLOPs per T and layer",
    show="{} T",
    en="Qwen3-0.6B: FLOPs of a layer's decode step, T keys in sight",
    zh="Qwen3-0.6B：decode 一步每层的 FLOP（T 个 key）",
)  # fmt: skip
def decode(T: int, **_: int) -> int:
    return model(SMALL).cost(context=T).decode_step // len(model(SMALL).layers) // T


field(
    "shape.qwen38.value_heads", ANCHOR, "linear_num_value_heads",
    en="Qwen3.8-27B: value heads of a linear layer", zh="Qwen3.8-27B：线性层的 value 头数",
)  # fmt: skip
field(
    "shape.qwen38.state_width", ANCHOR, "linear_value_head_dim",
    en="Qwen3.8-27B: width of a linear layer's state", zh="Qwen3.8-27B：线性层状态的边长",
)  # fmt: skip
count(
    "shape.ds67b.layers", "deepseek-67b",
    en="DeepSeek LLM 67B: layers", zh="DeepSeek LLM 67B：层数",
)  # fmt: skip
field(
    "shape.ds67b.kv_heads", "deepseek-67b", "num_key_value_heads",
    en="DeepSeek LLM 67B: key/value heads", zh="DeepSeek LLM 67B：KV 头数",
)  # fmt: skip
field(
    "shape.ds67b.heads", "deepseek-67b", "num_attention_heads",
    en="DeepSeek LLM 67B: query heads", zh="DeepSeek LLM 67B：Q 头数",
)  # fmt: skip


@figure(
    "shape.ds67b.head_width", formula="hidden / heads",
    inputs={"hidden": config("deepseek-67b", "hidden_size"),
            "heads": config("deepseek-67b", "num_attention_heads")},
    source=f"attnscope.plan, config of {HUB['deepseek-67b']}",
    en="DeepSeek LLM 67B: width of a head", zh="DeepSeek LLM 67B：每头维数",
    note="The config gives no head width, so it is this quotient.",
    note_zh="config 没有写头宽，按这个商算。",
)  # fmt: skip
def old_head_width(**_: int) -> int:
    [heads] = {one.heads for one in model("deepseek-67b").layers if one.heads is not None}
    return heads.qk


count("shape.dsv2.layers", "deepseek-v2", "mla", en="DeepSeek-V2: layers", zh="DeepSeek-V2：层数")
field(
    "shape.dsv2.latent", "deepseek-v2", "kv_lora_rank",
    en="DeepSeek-V2: numbers of the latent", zh="DeepSeek-V2：潜向量维数",
)  # fmt: skip
field(
    "shape.dsv2.rope", "deepseek-v2", "qk_rope_head_dim",
    en="DeepSeek-V2: numbers of the rotary key", zh="DeepSeek-V2：RoPE 另存的维数",
)  # fmt: skip


@figure(
    "shape.dsv2.entry", formula="latent + rope",
    inputs={"latent": config("deepseek-v2", "kv_lora_rank"),
            "rope": config("deepseek-v2", "qk_rope_head_dim")},
    source=f"attnscope.plan, config of {HUB['deepseek-v2']}",
    en="DeepSeek-V2: numbers kept per token and layer", zh="DeepSeek-V2：每层每 token 存的数",
)  # fmt: skip
def entry(**_: int) -> int:
    stores = model("deepseek-v2").layers[0].stores
    return sum(one.vectors * one.width for one in stores)


count("shape.dsv3.layers", "deepseek-v3", "mla", en="DeepSeek-V3: layers", zh="DeepSeek-V3：层数")
count("shape.glm53.layers", "glm-5.3", en="GLM-5.3: layers", zh="GLM-5.3：层数")
count(
    "shape.glm53.indexer_layers", "glm-5.3", "mla-indexer",
    en="GLM-5.3: layers with an indexer of their own", zh="GLM-5.3：自带 indexer 的层数",
)  # fmt: skip
field(
    "shape.glm53.context", "glm-5.3", "max_position_embeddings", unit="tokens",
    en="GLM-5.3: native context", zh="GLM-5.3：原生上下文",
)  # fmt: skip
field(
    "shape.glm53.index_width", "glm-5.3", "index_head_dim",
    en="GLM-5.3: width of an index key", zh="GLM-5.3：索引键的维数",
)  # fmt: skip
field(
    "shape.gemma270m.window", "gemma-3-270m", "sliding_window", unit="tokens",
    en="Gemma 3 270M: keys that a sliding layer sees", zh="Gemma 3 270M：滑动层能看见的 key 数",
)  # fmt: skip
field(
    "shape.gemma270m.every", "gemma-3-270m", "_sliding_window_pattern", unit="layers",
    en="Gemma 3 270M: one layer in so many is full", zh="Gemma 3 270M：每几层有一个全注意力层",
)  # fmt: skip
field(
    "shape.gemma270m.context", "gemma-3-270m", "max_position_embeddings", unit="tokens",
    en="Gemma 3 270M: native context", zh="Gemma 3 270M：原生上下文",
)  # fmt: skip
field(
    "shape.gptoss20b.heads", "gpt-oss-20b", "num_attention_heads",
    en="gpt-oss-20b: query heads, each with a sink logit",
    zh="gpt-oss-20b：Q 头数，每头一个 sink logit",
)  # fmt: skip


figure(
    "shape.dsv4flash.ratio", inputs={"ratios": config("deepseek-v4-flash", "compress_ratios")},
    formula="max(ratios)", source=f"config of {HUB['deepseek-v4-flash']}", unit="tokens",
    en="DeepSeek-V4-Flash: tokens of its longest entries",
    zh="DeepSeek-V4-Flash：最粗的条目每条代表的 token 数",
)(lambda ratios: max(ratios))  # fmt: skip


@figure(
    "shape.qwen38.gate", formula="heads × head_dim × hidden",
    inputs={"heads": config(ANCHOR, "num_attention_heads"),
            "head_dim": config(ANCHOR, "head_dim"), "hidden": config(ANCHOR, "hidden_size")},
    source=f"attnscope.plan, config of {HUB[ANCHOR]}",
    en="Qwen3.8-27B: parameters of a full layer's output gate",
    zh="Qwen3.8-27B：每个全注意力层输出门的参数量",
)  # fmt: skip
def gate(**_: int) -> int:
    found = model(ANCHOR)
    [heads] = {one.heads for one in found.layers if one.heads is not None}
    return heads.query * heads.v * found.width
