"""What a prefill and one decode step cost: FLOPs, bytes, and what the device waits for.

Formula (full layers of Qwen3.8-27B; T tokens, H query heads, G key/value heads of width d)
    prefill   4 H d T (T + 1) / 2 FLOPs; q, k, v and the output once each, 2 (H + G) d T numbers
    step      4 H d T FLOPs; keys and values once, 2 G d T numbers
    intensity FLOPs / bytes; a device's ridge is its peak / its bandwidth

Units: FLOPs (one multiply-add is 2), bytes, milliseconds. Projections, the softmax and the layers
that keep a state are not counted.

Not here: shapes and coefficients (shapes.py), bytes at the native context (keeping.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from attnscope.lessons.figures.configs import BF16, HUB, config, layers, model, per_token
from attnscope.lessons.figures.index import get
from attnscope.lessons.figures.registry import Ask, Input, figure, given, reported
from attnscope.plan import Model
from attnscope.plan.devices import DEVICES
from attnscope.plan.what_if import with_heads

ANCHOR: Final = "qwen3.8-27b"
CARD: Final = DEVICES["h100"]
SHEET: Final = "NVIDIA H100 data sheet, SXM, dense BF16 (attnscope.plan.devices)"
PLAN: Final = f"attnscope.plan.flops, config of {HUB[ANCHOR]}"

reported(
    "device.h100.peak", CARD.peak, unit="FLOP/s", source=SHEET,
    show=lambda v: f"{v / 10**12:.0f} trillion", show_zh=lambda v: f"{v / 10**12:.0f} 万亿",
    en="H100: FLOPs a second at most", zh="H100：每秒最多多少 FLOP",
)  # fmt: skip
reported(
    "device.h100.bandwidth", CARD.bandwidth, unit="B/s", source=SHEET,
    show=lambda v: f"{v / 10**12:.2f} TB", en="H100: bytes a second from its memory at most",
    zh="H100：每秒最多从显存读多少字节",
)  # fmt: skip

PEAK: Final = given(CARD.peak, f"device.h100.peak, {SHEET}")
BANDWIDTH: Final = given(CARD.bandwidth, f"device.h100.bandwidth, {SHEET}")


@figure(
    "device.h100.ridge", formula="peak / bandwidth", unit="FLOP/B", show="{:.0f}",
    inputs={"peak": PEAK, "bandwidth": BANDWIDTH}, source="attnscope.plan.devices",
    en="H100: FLOPs it can do while it reads a byte", zh="H100：读 1 个字节的时间里能做多少 FLOP",
)  # fmt: skip
def ridge(**_: int) -> float:
    return CARD.ridge


def length() -> Input:
    return Input(get("example.tokens").value, "example.tokens, an example length of the lesson")


SHAPE: Final[dict[str, Ask]] = {
    "full_layers": layers(ANCHOR, "full"), "head_dim": config(ANCHOR, "head_dim"),
}  # fmt: skip
HEADS: Final = config(ANCHOR, "num_attention_heads")
KV_HEADS: Final = config(ANCHOR, "num_key_value_heads")
T: Final[dict[str, Ask]] = {"T": length}
at_length = partial(figure, source=PLAN)


@at_length(
    "cost.qwen38.prefill.flops", unit="FLOPs", inputs={**SHAPE, "heads": HEADS, **T},
    formula="full_layers × 2 × heads × head_dim × T × (T + 1)",
    show=lambda v: f"{v / 10**12:.1f} trillion", show_zh=lambda v: f"{v / 10**12:.1f} 万亿",
    en="Qwen3.8-27B: attention FLOPs of a prefill at the examples' length",
    zh="Qwen3.8-27B：举例长度的 prefill，注意力的 FLOP",
)  # fmt: skip
def prefill_flops(T: int, **_: int) -> int:
    return model(ANCHOR).cost(context=T).prefill


@at_length(
    "cost.qwen38.step.flops", unit="FLOPs", inputs={**SHAPE, "heads": HEADS, **T},
    formula="full_layers × 4 × heads × head_dim × T",
    show=lambda v: f"{v / 10**9:.1f} billion", show_zh="{yi:.1f} 亿",
    en="Qwen3.8-27B: attention FLOPs of one decode step at the examples' length",
    zh="Qwen3.8-27B：举例长度时 decode 一步，注意力的 FLOP",
)  # fmt: skip
def step_flops(T: int, **_: int) -> int:
    return model(ANCHOR).cost(context=T).decode_step


@at_length(
    "cost.qwen38.prefill.bytes", unit="B", show="{GiB:.2f} GiB",
    inputs={**SHAPE, "heads": HEADS, "kv_heads": KV_HEADS, "bytes": BF16, **T},
    formula="full_layers × 2 × (heads + kv_heads) × head_dim × bytes × T",
    en="Qwen3.8-27B: q, k, v and outputs of a prefill at the examples' length, each once",
    zh="Qwen3.8-27B：举例长度的 prefill，q、k、v 与输出各读写一次的字节",
    note="The least there is: a kernel that cannot hold a tile of keys reads them again.",
    note_zh="这是下限：装不下一块 key 的算法还要重复读。",
)  # fmt: skip
def prefill_bytes(T: int, bytes: int, **_: int) -> int:
    found = model(ANCHOR)
    [heads] = {one.heads for one in found.layers if one.heads is not None}
    ends = sum(one.heads is not None for one in found.layers) * heads.query * (heads.qk + heads.v)
    return int(per_token(found) * T) + ends * bytes * T


@at_length(
    "cost.qwen38.step.bytes", unit="B", show="{MiB:.0f} MiB",
    inputs={**SHAPE, "kv_heads": KV_HEADS, "bytes": BF16, **T},
    formula="full_layers × 2 × kv_heads × head_dim × bytes × T",
    en="Qwen3.8-27B: keys and values that one decode step reads at the examples' length",
    zh="Qwen3.8-27B：举例长度时 decode 一步要读的 k 和 v",
)  # fmt: skip
def step_bytes(T: int, **_: int) -> int:
    return int(per_token(model(ANCHOR)) * T)


@at_length(
    "cost.qwen38.prefill.intensity", unit="FLOP/B", show="{:,.0f}",
    inputs={"heads": HEADS, "kv_heads": KV_HEADS, "bytes": BF16, **T},
    formula="heads × (T + 1) / ((heads + kv_heads) × bytes)",
    en="Qwen3.8-27B: FLOPs for each byte of a prefill at the examples' length, at best",
    zh="Qwen3.8-27B：举例长度的 prefill，每字节最多合多少 FLOP",
)  # fmt: skip
def prefill_intensity(T: int, bytes: int, **_: int) -> float:
    return prefill_flops(T) / prefill_bytes(T, bytes)


def _context() -> Input:
    return config(ANCHOR, "max_position_embeddings")()


def _scheme(scheme: str, heads: Ask, changed: Callable[[], Model], *, en: str, zh: str) -> None:
    """A step's intensity in a scheme, and how long it reads at the native context."""

    def reading(context: int, bandwidth: int, **_: int) -> float:
        return 1000 * float(per_token(changed()) * context / bandwidth)

    figure(
        f"cost.qwen38.{scheme}.intensity", unit="FLOP/B", source=PLAN,
        inputs={"heads": HEADS, "kv_heads": heads, "bytes": BF16},
        formula="4 × heads / (2 × kv_heads × bytes)", show="{:g}",
        en=f"Qwen3.8-27B as {en}: FLOPs of a decode step for each byte it reads",
        zh=f"Qwen3.8-27B，{zh}：decode 一步每读一个字节做多少 FLOP",
        note="At any length: both sides grow with it.", note_zh="与长度无关：两边都随长度增长。",
    )(lambda **_: changed().cost(context=1).decode_step / per_token(changed()))  # fmt: skip
    figure(
        f"cost.qwen38.{scheme}.reading", unit="ms", source=PLAN,
        inputs={**SHAPE, "kv_heads": heads, "bytes": BF16, "context": _context,
                "bandwidth": BANDWIDTH},
        formula="1000 × full_layers × 2 × kv_heads × head_dim × bytes × context / bandwidth",
        show="{:.1f} ms",
        en=f"Qwen3.8-27B as {en}: reading the whole context's cache once, on an H100",
        zh=f"Qwen3.8-27B，{zh}：在 H100 上把全长的缓存读一遍",
        note="By the data sheet's bandwidth, which no program quite reaches.",
        note_zh="按标称带宽算，实际程序达不到这么快。",
    )(reading)  # fmt: skip


_scheme(
    "mha", HEADS, lambda: with_heads(model(ANCHOR), None),
    en="MHA, keys and values for every query head", zh="MHA，每个 Q 头各存一份",
)  # fmt: skip
_scheme(
    "mqa", given(1, "MQA: one head for all"), lambda: with_heads(model(ANCHOR), 1),
    en="MQA, one key/value head for all", zh="MQA，所有头共用一份",
)  # fmt: skip
_scheme("gqa", KV_HEADS, lambda: model(ANCHOR), en="GQA, as published", zh="GQA，官方配置")


@figure(
    "cost.qwen38.step.working", unit="ms", show="{:.2f} ms", source=PLAN,
    inputs={**SHAPE, "heads": HEADS, "context": _context, "peak": PEAK},
    formula="1000 × full_layers × 4 × heads × head_dim × context / peak",
    en="Qwen3.8-27B: arithmetic of a decode step's attention at the native context, on an H100",
    zh="Qwen3.8-27B：全长时 decode 一步的注意力，在 H100 上做完运算",
)  # fmt: skip
def step_working(context: int, peak: int, **_: int) -> float:
    return 1000 * model(ANCHOR).cost(context=context).decode_step / peak
