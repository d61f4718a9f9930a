"""The teaching sentence with a pencil: the rows of numbers that a reader multiplies by hand.

The idea: each figure is one line of a calculation, with the rows that go into it as its inputs, so
that every product and every sum of the lessons' worked examples can be done again on paper.

Not here: what a whole row of attention comes to (teaching.py), the arithmetic (lessons/world.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from attnscope.lessons.figures.registry import Input, figure, given
from attnscope.lessons.figures.teaching import ANSWER, APPLE, FILE, GAVE, GIVER, SOURCE, WORLD
from attnscope.lessons.world import ENGLISH

PARTICLE: Final = "把"
SECOND: Final = 1
"""The column of W_Q whose number is followed: the second."""

pencil = partial(figure, source=SOURCE, show="{:.2f}")


def numbers(values: Iterable[Any]) -> tuple[float, ...]:
    """Python's own numbers."""
    return tuple(float(one) for one in values)


def features(token: str) -> Input:
    """The embedding of a token as an input."""
    at = WORLD.index(token)
    return given(numbers(WORLD.embeddings[at]), f"{FILE}: E[{at}]")


def projected(letter: str, token: str) -> Input:
    """The query, key or value of a token as an input."""
    rows = {"q": WORLD.q, "k": WORLD.k, "v": WORLD.v}[letter]
    at = WORLD.index(token)
    return given(numbers(rows[at]), f"{FILE}: E[{at}] W_{letter.upper()}")


COLUMN: Final = given(numbers(WORLD.w_q[:, SECOND]), f"{FILE}: W_Q, column {SECOND}")

for _id, _token in (("gave", GAVE), ("ba", PARTICLE), ("apple", APPLE), ("giver", GIVER),
                    ("answer", ANSWER)):  # fmt: skip
    pencil(
        f"pencil.x.{_id}", inputs={"x": features(_token)}, formula="x",
        en=f"Embedding of {ENGLISH[_token]}", zh=f"「{_token}」的嵌入向量",
    )(lambda x: x)  # fmt: skip

_PAIR: Final = {"x": features(GAVE), "y": features(PARTICLE)}


@pencil(
    "pencil.dot.products", inputs=_PAIR, formula="x × y",
    en="Embeddings of 'gave' and ba, multiplied number by number",
    zh="「给了」和「把」的嵌入向量，对应的数相乘",
)  # fmt: skip
def products(x: tuple[float, ...], y: tuple[float, ...]) -> list[float]:
    return [a * b for a, b in zip(x, y, strict=True)]


def dot(x: tuple[float, ...], y: tuple[float, ...]) -> float:
    return sum(products(x, y))


pencil(
    "pencil.dot", inputs=_PAIR, formula="sum(x × y)",
    en="Dot product of the embeddings of 'gave' and ba", zh="「给了」和「把」的嵌入向量的点积",
)(dot)  # fmt: skip
pencil(
    "pencil.dot.apple", inputs={"x": features(GAVE), "y": features(APPLE)}, formula="sum(x × y)",
    en="Dot product of the embeddings of 'gave' and the apple",
    zh="「给了」和「苹果」的嵌入向量的点积",
)(dot)  # fmt: skip

for _id, _token in (("gave", GAVE), ("ba", PARTICLE)):
    pencil(
        f"pencil.length.{_id}", inputs={"x": features(_token)}, formula="sqrt(sum(x × x))",
        show="{:.3f}",
        en=f"Length of the embedding of {ENGLISH[_token]}", zh=f"「{_token}」的嵌入向量的长度",
    )(lambda x: dot(x, x) ** 0.5)  # fmt: skip


def cosine(x: tuple[float, ...], y: tuple[float, ...]) -> float:
    return dot(x, y) / (dot(x, x) ** 0.5 * dot(y, y) ** 0.5)


COSINE: Final = "sum(x × y) / (sqrt(sum(x × x)) × sqrt(sum(y × y)))"
pencil(
    "pencil.cosine", inputs=_PAIR, show="{:.3f}", formula=COSINE,
    en="Cosine of the embeddings of 'gave' and ba", zh="「给了」和「把」的嵌入向量的余弦",
)(cosine)  # fmt: skip
pencil(
    "pencil.cosine.names", inputs={"x": features(GIVER), "y": features(ANSWER)}, show="{:.3f}",
    formula=COSINE,
    en="Cosine of the two names' embeddings", zh="两个人名的嵌入向量的余弦",
)(cosine)  # fmt: skip

pencil(
    "pencil.column", inputs={"w": COLUMN}, formula="w",
    en="Second column of W_Q", zh="W_Q 的第二列",
)(lambda w: w)  # fmt: skip
pencil(
    "pencil.q.products", inputs={"x": features(GAVE), "w": COLUMN}, formula="x × w",
    en="Embedding of 'gave' times the second column of W_Q, number by number",
    zh="「给了」的嵌入向量与 W_Q 的第二列，对应的数相乘",
)(lambda x, w: products(x, w))  # fmt: skip
for _id, _token in (("gave", GAVE), ("apple", APPLE)):
    pencil(
        f"pencil.q.second.{_id}", inputs={"x": features(_token), "w": COLUMN},
        formula="sum(x × w)",
        en=f"Second number of the query of {ENGLISH[_token]}",
        zh=f"「{_token}」的 query 的第二个数",
    )(lambda x, w: dot(x, w))  # fmt: skip

_ASKED: Final = {"q": projected("q", GAVE), "k": projected("k", APPLE)}

pencil(
    "pencil.q", inputs={"q": _ASKED["q"]}, formula="q", en="Query of 'gave'", zh="「给了」的 query"
)(lambda q: q)
pencil(
    "pencil.k", inputs={"k": _ASKED["k"]}, formula="k", en="Key of the apple", zh="「苹果」的 key"
)(lambda k: k)
pencil(
    "pencil.score.products", inputs=_ASKED, formula="q × k",
    en="Query of 'gave' times key of the apple, number by number",
    zh="「给了」的 query 与「苹果」的 key，对应的数相乘",
)(lambda q, k: products(q, k))  # fmt: skip
pencil(
    "pencil.score", inputs=_ASKED, formula="sum(q × k)",
    en="Score of 'gave' for the apple", zh="「给了」对「苹果」的分数",
)(lambda q, k: dot(q, k))  # fmt: skip

for _id, _token in (("giver", GIVER), ("apple", APPLE)):
    pencil(
        f"pencil.v.{_id}", inputs={"v": projected("v", _token)}, formula="v",
        en=f"Value of {ENGLISH[_token]}", zh=f"「{_token}」的 value",
    )(lambda v: v)  # fmt: skip

_AT: Final = WORLD.index(GAVE)
_FETCHED: Final = {
    "w": given(numbers(WORLD.weights()[_AT, : _AT + 1]), "the causal weights of E[3]"),
    "v": given(numbers(WORLD.v[: _AT + 1, 0]), f"{FILE}: E W_V, column 0"),
}

pencil(
    "pencil.fetched.products", inputs=_FETCHED, show="{:.4f}", formula="w × v",
    en="Weights of 'gave' times the first number of each value",
    zh="「给了」的权重与各个 value 的第一个数相乘",
)(lambda w, v: products(w, v))  # fmt: skip
pencil(
    "pencil.fetched", inputs=_FETCHED, show="{:.4f}", formula="sum(w × v)",
    en="First number of what 'gave' fetches", zh="「给了」取到的第一个数",
)(lambda w, v: dot(w, v))  # fmt: skip

pencil(
    "pencil.learned", show="{:,}",
    inputs={
        "tables": given(3, "W_Q, W_K and W_V"),
        "rows": given(WORLD.w_q.shape[0], f"{FILE}: d_model"),
        "columns": given(WORLD.w_q.shape[1], f"{FILE}: d_k"),
    },
    formula="tables × rows × columns",
    en="Numbers in the three tables of the teaching world", zh="教学世界三张表里的数",
)(lambda tables, rows, columns: tables * rows * columns)  # fmt: skip
