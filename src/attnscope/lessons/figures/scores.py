"""From scores to weights: the softmax of 8, 7, 9, its rival by proportion, and exponentials.

Not here: the mechanism (mechanisms/rivals.py, masking.py).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from attnscope.lessons.figures.registry import figure, given, reported
from attnscope.lessons.world import softmax

SCORES = given((8, 7, 9), "the lesson's example of three scores")
CAR = given((10, 3, -4), "the lesson's example with a negative score, of 汽车 (the car)")
SOFTMAX = "attnscope.lessons.world.softmax"


@figure(
    "softmax.8_7_9", unit="%", inputs={"scores": SCORES}, show="{:.1f}%",
    formula="100 × exp(scores) / sum(exp(scores))", source=SOFTMAX,
    en="Softmax weights of the scores 8, 7, 9", zh="分数 8、7、9 的 softmax 权重",
)  # fmt: skip
def softmax_8_7_9(scores: tuple[int, ...]) -> list[float]:
    return [100 * float(one) for one in softmax(np.array(scores, dtype=np.float64))]


@figure(
    "softmax.8_7_9.largest", unit="%", inputs={"scores": SCORES}, show="{:.1f}%",
    formula="100 × exp(max(scores)) / sum(exp(scores))", source=SOFTMAX,
    en="The largest of the weights of 8, 7, 9", zh="分数 8、7、9 的最大权重",
    note="A coefficient of a weighted mean, not a probability of anything.",
    note_zh="加权平均的系数，不是某个随机事件的概率。",
)  # fmt: skip
def softmax_largest(scores: tuple[int, ...]) -> float:
    return max(softmax_8_7_9(scores))


@figure(
    "softmax.8_7_9.exponentials", inputs={"scores": SCORES}, show="{:.0f}",
    formula="exp(scores)", source="math.exp",
    en="e to the scores 8, 7, 9", zh="e 的 8、7、9 次方",
)  # fmt: skip
def exponentials(scores: tuple[int, ...]) -> list[float]:
    return [math.exp(one) for one in scores]


@figure(
    "softmax.8_7_9.sum", inputs={"scores": SCORES}, show="{:.0f}",
    formula="sum(exp(scores))", source="math.exp",
    en="Sum of e to the scores 8, 7, 9", zh="e 的 8、7、9 次方之和（分母）",
)  # fmt: skip
def exponential_sum(scores: tuple[int, ...]) -> float:
    return math.fsum(exponentials(scores))


reported(
    "softmax.8_7_9.claimed", (40, 30, 30), unit="%", show="{}%",
    en="Weights that a dialogue made up for 8, 7, 9", zh="对话样本为 8、7、9 编的权重",
    source="the dialogue that the lesson corrects",
    note="Wrong, and wrong in kind: a softmax never gives equal weights to the scores 7 and 9.",
    note_zh="这是编的：softmax 不可能给分数 7 和 9 相同的权重。",
)  # fmt: skip


@figure(
    "softmax.gap.1", inputs={"gap": given(1, "a difference of two scores")}, show="{:.2f}",
    formula="exp(gap)", source="math.exp",
    en="Ratio of two weights whose scores differ by 1", zh="分差为 1 的两个权重之比",
)  # fmt: skip
def gap_1(gap: int) -> float:
    return math.exp(gap)


@figure(
    "softmax.gap.20", inputs={"gap": given(20, "a difference that is common at d = 256")},
    show="{million:.0f} million", show_zh="{yi:.1f} 亿", formula="exp(gap)", source="math.exp",
    en="Ratio of two weights whose scores differ by 20", zh="分差为 20 的两个权重之比",
)  # fmt: skip
def gap_20(gap: int) -> float:
    return math.exp(gap)


@figure(
    "softmax.base_2", inputs={"base": given(2, "2^s = e^(s ln 2)")}, show="{:.3f}",
    formula="ln(base)", source="math.log",
    en="Factor on the scores that takes base e to base 2", zh="以 2 为底相当于分数乘的常数",
)  # fmt: skip
def base_2(base: int) -> float:
    return math.log(base)


BY_SHARE = "each score divided by the sum of all"


@figure(
    "proportional.10_3_-4", unit="%", inputs={"scores": CAR}, show="{:.1f}%",
    formula="100 × scores / sum(scores)", source=BY_SHARE,
    en="Weights of 10, 3, -4 in proportion to the score", zh="10、3、-4 按分数占比的权重",
)  # fmt: skip
def proportional(scores: tuple[int, ...]) -> list[Fraction]:
    return [Fraction(100 * one, sum(scores)) for one in scores]


@figure(
    "proportional.10_3_-4.car", unit="%", inputs={"scores": CAR}, show="{:.1f}%",
    formula="100 × min(scores) / sum(scores)", source=BY_SHARE,
    en="What the negative score gets: 汽车 (the car)", zh="负分的那个 token「汽车」分到的权重",
)  # fmt: skip
def proportional_car(scores: tuple[int, ...]) -> Fraction:
    return min(proportional(scores))


@figure(
    "mask.exp_-1e9", inputs={"score": given(-1e9, "a number that stands for minus infinity")},
    show="{:g}", formula="exp(score)", source="numpy.exp in float32",
    en="e to the power of -1e9 in float32, exactly", zh="float32 里 e 的 -1e9 次方（精确值）",
    note="As good as -inf here. Float16 cannot write -1e9 and makes it -inf; a number that is not "
    "large enough, such as -10, would leave the future some weight.",
    note_zh="在这里和 -inf 一样。float16 写不下 -1e9，会直接变成 -inf；"
    "不够大的负数（比如 -10）会给未来留下权重。",
)  # fmt: skip
def exp_of_a_large_negative(score: float) -> float:
    with np.errstate(under="ignore"):
        return float(np.exp(np.float32(score)))
