"""Numbers of the teaching world: what 给了 looks at, without and with a mask, in one head and two.

Not here: the world and its arithmetic (lessons/world.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from attnscope.lessons.figures.registry import Input, figure, given
from attnscope.lessons.world import ENGLISH, cosine, load, softmax

GIVER, APPLE, GAVE, ANSWER = "小明", "苹果", "给了", "小王"
FILE: Final = "lessons/data/teaching_world.json"
SOURCE: Final = f"attnscope.lessons.world on {FILE}: made by hand, not learned by a model"
WORLD: Final = load()


def token(name: str) -> Input:
    """A token as an input."""
    return given(name, f"{FILE}: tokens[{WORLD.index(name)}]")


def size(value: Any, field: str) -> Input:
    """A size of the world as an input."""
    return given(value, f"{FILE}: {field}")


def english(names: Iterable[str]) -> str:
    """Names of tokens with commas, in English."""
    return ", ".join(ENGLISH[name] for name in names)


WIDTH: Final = size(WORLD.w_q.shape[1], "d_k")
HALF: Final = size(WORLD.w_q.shape[1] // WORLD.heads, "d_k / n_heads")
GAVE_ROW: Final = token(GAVE)
percent = partial(figure, unit="%", show="{:.1f}%", source=SOURCE)
world = partial(figure, source=SOURCE)
names = partial(figure, unit="tokens", show=english, show_zh="、".join, source=SOURCE)


def ordered(values: Iterable[float]) -> list[str]:
    """The tokens by falling value."""
    return [WORLD.tokens[at] for _, at in sorted((-float(v), at) for at, v in enumerate(values))]


for _name, _value, _field, _en, _zh in (
    ("tokens", len(WORLD.tokens), "tokens", "Tokens of the sentence", "句子的 token 数"),
    ("features", len(WORLD.features), "d_model", "Features of a token", "每个 token 的特征数"),
    ("width", WIDTH.value, "d_k", "Width of q, k and v", "q、k、v 的宽度"),
    ("heads", WORLD.heads, "n_heads", "Heads the columns are cut into", "按列切成的头数"),
):
    world(f"world.{_name}", inputs={_field: size(_value, _field)}, formula=_field, en=_en, zh=_zh)(
        lambda **sizes: next(iter(sizes.values()))
    )


@world(
    "world.embedding.cosines", inputs={"row": GAVE_ROW}, show="{:.3f}",
    formula="cos(x_row, x_j) for each token j",
    en="Cosines of the embedding of 'gave' with each token's",
    zh="「给了」的 embedding 与各 token 的余弦",
)  # fmt: skip
def embedding_cosines(row: str) -> list[float]:
    return [cosine(WORLD.embeddings[WORLD.index(row)], x) for x in WORLD.embeddings]


@world(
    "world.embedding.self", inputs={"row": GAVE_ROW}, show="{:.3f}",
    formula="cos(x_row, x_row)",
    en="Cosine of 'gave' with itself, the largest of its row",
    zh="「给了」与自己的余弦，一行里最大",
)  # fmt: skip
def embedding_self(row: str) -> float:
    return max(embedding_cosines(row))


@names(
    "world.embedding.order", inputs={"row": GAVE_ROW},
    formula="tokens j by falling cos(x_row, x_j)",
    en="Which tokens 'gave' resembles, by falling cosine", zh="按余弦，「给了」最像谁",
)  # fmt: skip
def embedding_order(row: str) -> list[str]:
    return ordered(embedding_cosines(row))


@world(
    "world.qk.scores", inputs={"row": GAVE_ROW}, show="{:.2f}", formula="q_row · k_j",
    en="Raw scores q . k of 'gave' with each token", zh="「给了」对各 token 的 q·k",
)  # fmt: skip
def qk_scores(row: str) -> list[float]:
    return [float(s) for s in WORLD.k @ WORLD.q[WORLD.index(row)]]


@names(
    "world.qk.order", inputs={"row": GAVE_ROW}, formula="tokens j by falling q_row · k_j",
    en="Which tokens 'gave' looks for, by falling q . k", zh="按 q·k，「给了」最想找谁",
)  # fmt: skip
def qk_order(row: str) -> list[str]:
    return ordered(qk_scores(row))


_TWO: Final = {"a": token(GIVER), "b": token(ANSWER)}


@world(
    "world.names.keys", inputs=_TWO, show="{:.3f}", formula="cos(k_a, k_b)",
    en="Cosine of the two names' keys", zh="两个人名的 K 的余弦",
)  # fmt: skip
def keys_cosine(a: str, b: str) -> float:
    return cosine(WORLD.k[WORLD.index(a)], WORLD.k[WORLD.index(b)])


@world(
    "world.names.values", inputs=_TWO, show="{:.3f}", formula="cos(v_a, v_b)",
    en="Cosine of the two names' values", zh="两个人名的 V 的余弦",
)  # fmt: skip
def values_cosine(a: str, b: str) -> float:
    return cosine(WORLD.v[WORLD.index(a)], WORLD.v[WORLD.index(b)])


def _row(row: str, *, head: int | None = None, causal: bool = True) -> list[float]:
    """The weights of a row in percent; what is out of sight is left out of a causal one."""
    at = WORLD.index(row)
    weights = WORLD.weights(head, causal=causal)[at]
    return [100 * float(w) for w in (weights[: at + 1] if causal else weights)]


UNMASKED: Final = "100 × softmax(q_row · k / sqrt(d))"
CAUSAL: Final = "100 × softmax(q_row · k / sqrt(d)) over the keys up to row"
_ROW: Final = {"row": GAVE_ROW, "d": WIDTH}
_APPLE: Final = {**_ROW, "key": token(APPLE)}
_GIVER: Final = {**_ROW, "key": token(GIVER)}


@percent(
    "world.unmasked.row", inputs=_ROW, formula=UNMASKED,
    en="Without a mask: weights of 'gave'", zh="不加掩码，「给了」一行的权重",
)  # fmt: skip
def unmasked_row(row: str, d: int) -> list[float]:
    return _row(row, causal=False)


@percent(
    "world.unmasked.answer", inputs={**_ROW, "key": token(ANSWER)}, formula=f"{UNMASKED}, at key",
    en="Without a mask: weight of 'gave' on the answer, Xiao Wang",
    zh="不加掩码，「给了」落在答案「小王」上的权重",
)  # fmt: skip
def unmasked_answer(row: str, d: int, key: str) -> float:
    return unmasked_row(row, d)[WORLD.index(key)]


@percent(
    "world.causal.row", inputs=_ROW, formula=CAUSAL,
    en="One causal head: weights of 'gave'", zh="加因果掩码，「给了」一行的权重",
)  # fmt: skip
def causal_row(row: str, d: int) -> list[float]:
    return _row(row)


def causal_weight(row: str, d: int, key: str) -> float:
    return causal_row(row, d)[WORLD.index(key)]


percent(
    "world.causal.apple", inputs=_APPLE, formula=f"{CAUSAL}, at key",
    en="One causal head: weight of 'gave' on the apple", zh="单头因果：「给了」看「苹果」的权重",
)(causal_weight)  # fmt: skip
percent(
    "world.causal.giver", inputs=_GIVER, formula=f"{CAUSAL}, at key",
    en="One causal head: weight of 'gave' on Xiao Ming", zh="单头因果：「给了」看「小明」的权重",
)(causal_weight)  # fmt: skip


def _head(letter: str, number: int, key: str) -> None:
    """The row of 给了 in a head, and its weight on what the head is for."""
    columns = WORLD.columns(number)
    head = given(number, f"{FILE}: columns {columns.start} and {columns.stop - 1}")
    inputs = {"row": GAVE_ROW, "d": HALF, "head": head}

    def row_of(row: str, d: int, head: int) -> list[float]:
        return _row(row, head=head)

    def weight(row: str, d: int, head: int, key: str) -> float:
        return _row(row, head=head)[WORLD.index(key)]

    up = letter.upper()
    percent(
        f"world.heads.{letter}.row", inputs=inputs, formula=f"{CAUSAL}, columns of the head",
        en=f"Head {up}: causal weights of 'gave'", zh=f"头 {up}：「给了」一行的权重",
    )(row_of)  # fmt: skip
    percent(
        f"world.heads.{letter}", inputs={**inputs, "key": token(key)},
        formula=f"{CAUSAL}, columns of the head, at key",
        en=f"Head {up}: weight of 'gave' on {ENGLISH[key]}",
        zh=f"头 {up}：「给了」看「{key}」的权重",
    )(weight)  # fmt: skip


_head("a", 0, GIVER)
_head("b", 1, APPLE)


def _shared(letter: str, number: int, key: str) -> None:
    """A head's weight where both heads read one key head, the mean of the two."""
    columns = WORLD.columns(number)
    head = given(number, f"{FILE}: columns {columns.start} and {columns.stop - 1}")

    def weight(row: str, d: int, head: int, key: str) -> float:
        pooled = WORLD.k.reshape(len(WORLD.tokens), WORLD.heads, d).mean(1)
        at = WORLD.index(row)
        scores = pooled[: at + 1] @ WORLD.q[at, WORLD.columns(head)] / d**0.5
        return 100 * float(softmax(scores)[WORLD.index(key)])

    up = letter.upper()
    percent(
        f"world.shared.{letter}",
        inputs={"row": GAVE_ROW, "d": HALF, "head": head, "key": token(key)},
        formula=f"{CAUSAL}, q of the head, k the mean of the heads, at key",
        en=f"Heads that share the mean of their keys: {up}'s weight of 'gave' on {ENGLISH[key]}",
        zh=f"两头共用 k 的平均：头 {up} 的「给了」看「{key}」的权重",
    )(weight)  # fmt: skip


_shared("a", 0, GIVER)
_shared("b", 1, APPLE)

_SINK: Final = {"row": token(APPLE), "d": WIDTH}


@world(
    "world.sink.scores", inputs=_SINK, show="{:.2f}",
    formula="q_row · k / sqrt(d), keys up to row",
    en="A row with nothing to look for: scaled scores of the apple",
    zh="没什么可找的一行：「苹果」缩放后的分数",
)  # fmt: skip
def sink_scores(row: str, d: int) -> list[float]:
    at = WORLD.index(row)
    return [float(s) for s in WORLD.scores()[at, : at + 1]]


@percent(
    "world.sink.row", inputs=_SINK, show="{:.0f}%", formula=CAUSAL,
    en="A row with nothing to look for: the weights all the same",
    zh="没什么可找的一行：softmax 照样分出的权重",
)  # fmt: skip
def sink_row(row: str, d: int) -> list[float]:
    return _row(row)


@world(
    "world.sink.keys", inputs={"row": token(APPLE)}, formula="number of keys up to row",
    en="Scores in the row of the apple", zh="「苹果」一行的分数个数",
)  # fmt: skip
def sink_keys(row: str) -> int:
    return len(_row(row))
