"""What is computed again when tokens are generated, counted by loops that run.

Formula (P tokens of the prompt, N generated; the last one is never read)
    without a cache   P + (P + 1) + … + (P + N - 1)         with one   P + N - 1
    a forward for each prefix of T tokens   T forwards, T (T + 1) / 2 positions

Not here: the loops (loops.py), caches of real models (attnscope.caches).
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from attnscope.lessons.figures import loops
from attnscope.lessons.figures.registry import figure, given, reported
from attnscope.lessons.world import Array, load, softmax

LOOP: Final = "counted in a loop that runs over the teaching world (lessons/figures/loops.py)"
T: Final = {"T": given(len(load().tokens), "lessons/data/teaching_world.json: tokens")}
counted = partial(figure, kind="measured", source=LOOP, inputs=T)


@counted(
    "prefix.forwards", formula="T", unit="forwards",
    en="Forwards, one for every prefix", zh="逐个前缀喂：前向次数",
    note="All prefixes, the whole sentence included, whose answer is not in it; the questions "
    "alone need {prefix.questions.forwards}.",
    note_zh="包括整句这个前缀（它的答案不在句中）；"
    "只做那几道题需要 {prefix.questions.forwards} 次。",
)  # fmt: skip
def prefix_forwards(T: int) -> int:
    return loops.one_by_one(load(), range(1, T + 1)).forwards


@counted(
    "prefix.positions", formula="T × (T + 1) / 2", unit="positions",
    en="Positions, a forward for every prefix", zh="逐个前缀喂：处理的位置数",
)  # fmt: skip
def prefix_positions(T: int) -> int:
    return loops.one_by_one(load(), range(1, T + 1)).positions


@counted(
    "prefix.questions", formula="T - 1", unit="questions",
    en="Questions in the sentence: predict the next token", zh="句中「预测下一个 token」的题数",
)  # fmt: skip
def questions(T: int) -> int:
    return len(loops.one_by_one(load(), range(1, T)).rows)


@counted(
    "prefix.questions.forwards", formula="T - 1", unit="forwards",
    en="Forwards for the questions alone, one for each", zh="只做句中的题：前向次数",
)  # fmt: skip
def question_forwards(T: int) -> int:
    return loops.one_by_one(load(), range(1, T)).forwards


@counted(
    "prefix.questions.positions", formula="T × (T - 1) / 2", unit="positions",
    en="Positions of the forwards for the questions alone", zh="只做句中的题：处理的位置数",
)  # fmt: skip
def question_positions(T: int) -> int:
    return loops.one_by_one(load(), range(1, T)).positions


@counted(
    "prefix.masked.forwards", formula="1", unit="forwards",
    en="Forwards with a causal mask", zh="加因果掩码：前向次数",
)  # fmt: skip
def masked_forwards(T: int) -> int:
    return loops.at_once(load()).forwards


@counted(
    "prefix.masked.positions", formula="T", unit="positions",
    en="Positions with a causal mask", zh="加因果掩码：处理的位置数",
)  # fmt: skip
def masked_positions(T: int) -> int:
    return loops.at_once(load()).positions


EXAMPLE: Final = "the lesson's example"
PROMPTED: Final = f"{EXAMPLE}: tokens of the prompt"
MADE: Final = f"{EXAMPLE}: tokens generated"
PROMPT, GENERATED = given(2, PROMPTED), given(3, MADE)
chosen = partial(reported, unit="tokens", formula="as chosen", source=EXAMPLE)
chosen("cache.prompt", 2, en="Tokens of the prompt in the example", zh="例子里提示的 token 数")
chosen("cache.generated", 3, en="Tokens generated in the example", zh="例子里生成的 token 数")
GENERATION: Final = {"prompt": PROMPT, "generated": GENERATED}
generation = partial(figure, kind="measured", source=LOOP, inputs=GENERATION)


@generation(
    "cache.without", unit="keys and values",
    formula="generated × prompt + generated × (generated - 1) / 2",
    en="Keys and values computed without a cache", zh="没有缓存：要算的 K/V 份数",
)  # fmt: skip
def without(prompt: int, generated: int) -> int:
    return loops.decode(load(), prompt=prompt, generated=generated, cached=False).total


@generation(
    "cache.recomputed", unit="keys and values",
    formula="(generated - 1) × prompt + (generated - 1) × (generated - 2) / 2",
    en="Keys and values computed again without a cache", zh="没有缓存：其中上一步刚算过的 K/V 份数",
)  # fmt: skip
def recomputed(prompt: int, generated: int) -> int:
    return loops.decode(load(), prompt=prompt, generated=generated, cached=False).again


@generation(
    "cache.with", unit="keys and values", formula="prompt + generated - 1",
    en="Keys and values computed with a cache", zh="有缓存：要算的 K/V 份数",
)  # fmt: skip
def with_cache(prompt: int, generated: int) -> int:
    return loops.decode(load(), prompt=prompt, generated=generated, cached=True).total


LONG: Final = {"prompt": given(200, PROMPTED), "generated": given(200, MADE)}
long = partial(
    figure, kind="measured", inputs=LONG, unit="keys and values",
    source="counted in a loop that runs (lessons/figures/loops.py)",
)  # fmt: skip


@long(
    "cache.long.without", formula="generated × prompt + generated × (generated - 1) / 2",
    en="A prompt of 200 and 200 generated: keys and values computed without a cache",
    zh="提示 200 个、生成 200 个：没有缓存要算的 K/V 份数",
)  # fmt: skip
def long_without(prompt: int, generated: int) -> int:
    return loops.feed(prompt, generated, cached=False).total()


@long(
    "cache.long.with", formula="prompt + generated - 1",
    en="A prompt of 200 and 200 generated: keys and values computed with a cache",
    zh="提示 200 个、生成 200 个：有缓存要算的 K/V 份数",
)  # fmt: skip
def long_with(prompt: int, generated: int) -> int:
    return loops.feed(prompt, generated, cached=True).total()


@generation(
    "cache.bits.rows", unit="numbers",
    formula="number of outputs with a cache that differ from those without one",
    en="Outputs in float32 that a cache changes, fed row by row",
    zh="float32 下，逐行喂时缓存改变的输出个数",
    note="Bit-identical holds row by row, where the same products are taken in the same order; "
    "against one masked product the last bits differ ({cache.bits.product}).",
    note_zh="「逐位相同」是和逐行喂相比：同样的乘积、同样的顺序；"
    "和一次带掩码的大矩阵乘相比，末位会不同（{cache.bits.product}）。",
)  # fmt: skip
def changed_rows(prompt: int, generated: int) -> int:
    world = load().astype(np.float32)
    one, other = (
        loops.decode(world, prompt=prompt, generated=generated, cached=cached).outputs
        for cached in (True, False)
    )
    return int((one.view(np.int32) != other.view(np.int32)).sum())


def _power(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-")


@figure(
    "cache.bits.last", show=_power, formula="2 ^ (-bits)",
    inputs={"bits": given(24, "binary digits of a float32 number")}, source="numpy.finfo(float32)",
    en="The last bit of a float32 number just below 1", zh="略小于 1 的 float32 数的末位",
)  # fmt: skip
def last_bit(bits: int) -> float:
    return float(np.finfo(np.float32).epsneg)


@figure(
    "cache.bits.product", kind="measured", show=_power,
    formula="max(abs(row by row - one masked product))",
    inputs={"T": given(64, "tokens drawn"), "d": given(64, "head width"),
            "seed": given(7, "seed of numpy.random.default_rng")},
    source="drawn with a seed (lessons/figures/decoding.py); last bits depend on the processor",
    en="Row by row against one masked product in float32: largest difference",
    zh="float32 下，逐行算与一次带掩码的大矩阵乘的最大差",
)  # fmt: skip
def product_difference(T: int, d: int, seed: int) -> float:
    q, k, v = np.random.default_rng(seed).standard_normal((3, T, d)).astype(np.float32)
    scale = np.float32(d) ** np.float32(-0.5)

    def row(i: int) -> Array:
        return np.asarray(softmax(k[: i + 1] @ q[i] * scale) @ v[: i + 1])

    scores = np.where(np.tri(T, dtype=bool), q @ k.T * scale, np.float32(-np.inf))
    at_once = softmax(scores) @ v
    return float(np.abs(np.stack([row(i) for i in range(T)]) - at_once).max())
