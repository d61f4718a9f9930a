"""Where attention began: steps of an RNN, and what a score of every pair costs in memory.

Not here: the mechanisms themselves (attnscope.mechanisms).
"""

from __future__ import annotations

from typing import Any

from attnscope.lessons.figures.configs import BF16
from attnscope.lessons.figures.index import get
from attnscope.lessons.figures.loops import recurrence
from attnscope.lessons.figures.registry import Input, figure, reported

EXAMPLE = "an example length of the lesson"
PAPER = "Vaswani et al. 2017, arXiv 1706.03762"

reported(
    "example.tokens", 4096, en="Length of the examples", zh="举例的长度", unit="tokens",
    formula="as chosen", source=EXAMPLE,
)  # fmt: skip
reported(
    "example.additive_width", 256, en="Width d_a of the additive score", zh="加性打分的宽度 d_a",
    formula="as chosen", source="an example width of the lesson",
)  # fmt: skip


def tokens() -> Input:
    return Input(get("example.tokens").value, f"example.tokens, {EXAMPLE}")


def additive_width() -> Input:
    return Input(get("example.additive_width").value, "example.additive_width")


LOOP = "counted in a recurrence that runs (lessons/figures/loops.py)"


@figure(
    "rnn.steps", kind="measured", unit="steps", inputs={"T": tokens}, formula="T", source=LOOP,
    en="Steps of an RNN that must wait for each other", zh="RNN 必须一步步等的步数",
)  # fmt: skip
def steps(T: int) -> int:
    return recurrence(T).steps


@figure(
    "rnn.updates", kind="measured", unit="updates", inputs={"T": tokens}, formula="T - 1",
    source=LOOP,
    en="Updates that the first token's information passes through",
    zh="第 1 个 token 的信息要经过的更新次数",
)  # fmt: skip
def updates(T: int) -> int:
    return recurrence(T).updates_of_first


@figure(
    "additive.bytes", unit="B", show="{GiB:.1f} GiB",
    inputs={"T": tokens, "d_a": additive_width, "bytes": BF16}, formula="T ^ 2 × d_a × bytes",
    source="Bahdanau et al. 2014, arXiv 1409.0473: tanh(W1 q + W2 k) of every pair, one head",
    en="Additive score, written plainly: tensor of all pairs",
    zh="加性打分的朴素实现：所有配对的中间张量",
)  # fmt: skip
def additive_bytes(T: int, d_a: int, **sizes: int) -> int:
    return T * T * d_a * sizes["bytes"]


@figure(
    "dot_product.bytes", unit="B", show="{MiB:.0f} MiB",
    inputs={"T": tokens, "bytes": BF16}, formula="T ^ 2 × bytes",
    source=f"{PAPER}, equation 1: one score of every pair, one head",
    en="Dot products: scores of all pairs", zh="点积：所有配对的分数",
)  # fmt: skip
def dot_product_bytes(T: int, **sizes: Any) -> int:
    return int(T * T * sizes["bytes"])
