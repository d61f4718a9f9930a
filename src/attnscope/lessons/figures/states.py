"""What does not grow with the length, or grows by entries that stand for several tokens.

Formula
    state     layers × value heads × key width × value width × 4 bytes, whatever the length
    entries   a source layer of ratio r keeps 1 / r entries a token, read by all layers after it

Not here: keys, values and latents of every token (keeping.py).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final

from attnscope.lessons.figures.configs import (
    BF16,
    FP32,
    HUB,
    config,
    fixed,
    layers,
    model,
    per_token,
)
from attnscope.lessons.figures.registry import Ask, Input, figure, given, reported
from attnscope.plan import Layer
from attnscope.plan.bytes import formats
from attnscope.plan.numbers import PUBLISHED

ANCHOR, FLASH = "qwen3.8-27b", "deepseek-v4.1-flash"
Inputs = dict[str, Ask]

_LINEAR: Final[Inputs] = {
    "linear_layers": layers(ANCHOR, "gated-deltanet"),
    "value_heads": config(ANCHOR, "linear_num_value_heads"),
    "key_width": config(ANCHOR, "linear_key_head_dim"),
    "value_width": config(ANCHOR, "linear_value_head_dim"),
}
_STATE: Final[Inputs] = {**_LINEAR, "bytes": FP32}
_CONV: Final[Inputs] = {
    **_LINEAR,
    "key_heads": config(ANCHOR, "linear_num_key_heads"),
    "taps": config(ANCHOR, "linear_conv_kernel_dim"),
    "bytes_conv": BF16,
}
_STATE_OF: Final = "linear_layers × value_heads × key_width × value_width × bytes"
_CHANNELS: Final = "(2 × key_heads × key_width + value_heads × value_width)"
_CONV_OF: Final = f"linear_layers × {_CHANNELS} × taps × bytes_conv"
state = partial(
    figure, unit="B", show="{MiB:.5g} MiB", source=f"attnscope.plan, config of {HUB[ANCHOR]}"
)


@state(
    "state.qwen38.bytes", inputs=_STATE, formula=_STATE_OF,
    en="Qwen3.8-27B: states of the linear layers, FP32", zh="Qwen3.8-27B：线性层的状态（FP32）",
    note="Whatever the length. The inputs that the convolutions need again, "
    "{state.qwen38.conv.bytes}, come on top.",
    note_zh="与长度无关。卷积还要再用的输入 {state.qwen38.conv.bytes} 另算。",
)  # fmt: skip
def state_bytes(**_: int) -> int:
    return fixed(model(ANCHOR), "state")


@state(
    "state.qwen38.conv.bytes", inputs=_CONV, formula=_CONV_OF,
    en="Qwen3.8-27B: inputs kept for the convolutions", zh="Qwen3.8-27B：卷积保留的输入",
    note="As transformers keeps them, one per tap; the last is not needed again, so an engine may "
    "keep one less. The source leaves them out.",
    note_zh="按 transformers 的存法，每个抽头一份；最早的一份不会再用，引擎可以少存一份。"
    "原文没有算这一项。",
)  # fmt: skip
def conv_bytes(**_: int) -> int:
    return fixed(model(ANCHOR), "convolution")


@state(
    "state.qwen38.total", inputs={**_STATE, **_CONV}, formula=f"{_STATE_OF} + {_CONV_OF}",
    en="Qwen3.8-27B: all that does not grow", zh="Qwen3.8-27B：不随长度增长的全部",
)  # fmt: skip
def total_bytes(**_: int) -> int:
    return fixed(model(ANCHOR))


PLAN: Final = f"attnscope.plan, config of {HUB[FLASH]}"
CARD: Final = "model card of DeepSeek-V4.1-Flash"
_MAIN: Final[Inputs] = {
    "width": config(FLASH, "head_dim"),
    "fp4": given(0.5, "bytes of an FP4 number"),
    "per_scale": given(16, f"numbers per E4M3 scale of one byte, {CARD}"),
}
_INDEX: Final[Inputs] = {
    "index_width": config(FLASH, "index_head_dim"),
    "fp4": _MAIN["fp4"],
    "per_index_scale": given(32, f"numbers per E8M0 scale of one byte, {CARD}"),
}
_MAIN_OF: Final = "width × fp4 + width / per_scale"
_INDEX_OF: Final = "index_width × fp4 + index_width / per_index_scale"
flash = partial(figure, source=PLAN)


def _sources() -> list[Layer]:
    return [one for one in model(FLASH).layers if any(s.growth == "compressed" for s in one.stores)]


def _entry_bytes(*names: str) -> int:
    """Bytes of an entry in the stores named, the same in every source layer."""
    cache, plain = formats(model(FLASH), "bf16", None)
    [size] = {
        sum(store.entry_bytes(cache, plain) for store in one.stores if store.name in names)
        for one in _sources()
    }
    return size


@flash(
    "kv.dsv41flash.main", unit="B", inputs=_MAIN, formula=_MAIN_OF, show="{} B",
    en="DeepSeek-V4.1-Flash: an entry's key (which is its value)",
    zh="DeepSeek-V4.1-Flash：一个条目的 K（也是 V）",
)  # fmt: skip
def main_bytes(**_: object) -> int:
    return _entry_bytes("entries")


@flash(
    "kv.dsv41flash.index", unit="B", inputs=_INDEX, formula=_INDEX_OF, show="{} B",
    en="DeepSeek-V4.1-Flash: an entry's index key", zh="DeepSeek-V4.1-Flash：一个条目的索引键",
)  # fmt: skip
def index_bytes(**_: object) -> int:
    return _entry_bytes("indexer entries")


def _part(id: str, form: str, width: str, *, en: str, zh: str) -> None:
    """The two parts of a vector in a published format: its numbers, and their scales."""
    one, whose = PUBLISHED[form], {"width": config(FLASH, width)}
    part = partial(flash, unit="B", show="{} B")
    part(
        f"{id}.numbers", inputs={**whose, "fp4": _MAIN["fp4"]}, formula="width × fp4",
        en=f"DeepSeek-V4.1-Flash: numbers of {en}", zh=f"DeepSeek-V4.1-Flash：{zh}的数",
    )(lambda width, **_: replace(one, group=0).vector_bytes(width))  # fmt: skip
    part(
        f"{id}.scales", inputs={**whose, "per_scale": given(one.group, f"{one.note}; {CARD}")},
        formula="width / per_scale",
        en=f"DeepSeek-V4.1-Flash: scales of {en}", zh=f"DeepSeek-V4.1-Flash：{zh}的缩放因子",
    )(lambda width, **_: replace(one, bits=0).vector_bytes(width))  # fmt: skip


_part("kv.dsv41flash.main", "fp4+e4m3/16", "head_dim", en="an entry's key", zh="条目的 K ")
_part("kv.dsv41flash.index", "fp4+e8m0/32", "index_head_dim", en="an index key", zh="索引键")


@flash(
    "kv.dsv41flash.entry", unit="B", inputs={**_MAIN, **_INDEX}, show="{} B",
    formula=f"{_MAIN_OF} + {_INDEX_OF}",
    en="DeepSeek-V4.1-Flash: an entry", zh="DeepSeek-V4.1-Flash：一个条目",
)  # fmt: skip
def entry_bytes(**_: object) -> int:
    return _entry_bytes("entries", "indexer entries")


def _ratios() -> Input:
    """What the sources compress by, in their order."""
    field = "compress_ratio_at_source"
    found = config(FLASH, field)()
    return Input(tuple(found.value.values()), found.source)


@flash(
    "kv.dsv41flash.entries", unit="entries/token", inputs={"ratios": _ratios},
    formula="sum(1 / ratios)", show="{}",
    en="DeepSeek-V4.1-Flash: entries per token, of all sources",
    zh="DeepSeek-V4.1-Flash：每 token 的条目数（所有来源层）",
)  # fmt: skip
def entries(**_: object) -> Fraction:
    return sum((Fraction(1, one.every) for one in _sources()), Fraction(0))


@flash(
    "kv.dsv41flash.per_token", unit="B/token", show="{:,} B",
    inputs={**_MAIN, **_INDEX, "ratios": _ratios},
    formula=f"({_MAIN_OF} + {_INDEX_OF}) × sum(1 / ratios)",
    en="DeepSeek-V4.1-Flash: cache per token, by its layout",
    zh="DeepSeek-V4.1-Flash：按条目布局算，每 token 缓存",
    note="As the model card reports it. The raw keys in each layer's window, "
    "{kv.dsv41flash.windows} once they are full, come on top.",
    note_zh="与模型卡报告的一致。各层窗口里的原始 K（装满后 {kv.dsv41flash.windows}）另算。",
)  # fmt: skip
def flash_per_token(**_: object) -> Fraction:
    return per_token(model(FLASH))


@flash(
    "kv.dsv41flash.windows", unit="B", show="{MiB:.4g} MiB",
    inputs={"layers": layers(FLASH), "window": config(FLASH, "sliding_window"),
            "width": config(FLASH, "head_dim"), "bytes": BF16},
    formula="layers × window × width × bytes",
    en="DeepSeek-V4.1-Flash: raw keys in the windows", zh="DeepSeek-V4.1-Flash：各层窗口里的原始 K",
)  # fmt: skip
def windows(**_: int) -> int:
    return model(FLASH).kv(context=1, dtype="bf16").capped_bytes


reported(
    "kv.dsv41flash.reported", 890, unit="B/token", show="{:,} B",
    en="DeepSeek-V4.1-Flash: global KV per token, as reported",
    zh="DeepSeek-V4.1-Flash：全局 KV 每 token，官方报告", source=CARD,
)  # fmt: skip
