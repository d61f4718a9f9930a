"""The data flow of one layer's attention, as far as the course has come: shapes and parameters.

The idea: one list of steps in the order in which numbers pass them. Each belongs to the lesson that
explains it; a page shows what is known, what is new, and that more is to come. Shapes are those of
the teaching world beside those of a real layer, both taken from their configs.

Shapes: T tokens in sight of the diagram; the real layer is a full one of Qwen3.8-27B.

Not here: how it is drawn (blocks.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from attnscope.lessons import world
from attnscope.lessons.figures.configs import model

REAL: Final = "qwen3.8-27b"


@dataclass(frozen=True)
class Step:
    """A step of the flow.

    Attributes:
        id: its name.
        lesson: the number of the lesson that explains it.
        title, says: by language: a few words, and a sentence.
        small, real: shape in the teaching world and in a layer of the real model.
        small_parameters, real_parameters: numbers that are learned there.
    """

    id: str
    lesson: int
    title: dict[str, str]
    says: dict[str, str]
    small: str
    real: str
    small_parameters: int = 0
    real_parameters: int = 0


@dataclass(frozen=True)
class Sizes:
    """The sizes that shapes are made of; `mixes`: there is a table behind the heads, a gate before
    it, and a norm on q and k."""

    tokens: str
    model: int
    heads: int
    kv_heads: int
    width: int
    vocabulary: int
    mixes: bool = True


def _small(heads: int) -> Sizes:
    """The teaching world, which has no table behind its heads, no gate and no norm."""
    found = world.load()
    return Sizes(
        str(len(found.tokens)), len(found.features), heads, heads, found.w_q.shape[1] // heads,
        len(found.tokens), mixes=False,
    )  # fmt: skip


def _real() -> Sizes:
    found = model(REAL)

    def size(field: str) -> int:
        return int(str(found.fields[field]))

    return Sizes(
        "T", size("hidden_size"), size("num_attention_heads"), size("num_key_value_heads"),
        size("head_dim"), size("vocab_size"),
    )  # fmt: skip


def _shape(*sizes: object) -> str:
    return " × ".join(f"{one:,}" if isinstance(one, int) else str(one) for one in sizes)


def _each(sizes: Sizes, heads: int, *shape: object) -> str:
    return _shape(*([heads] if heads > 1 else []), *shape)


def _made(sizes: Sizes, others: str) -> str:
    """q and, where they have fewer heads, what is made beside it."""
    q = _each(sizes, sizes.heads, sizes.tokens, sizes.width)
    if sizes.heads == sizes.kv_heads:
        return q
    return f"q {q}; {others} {_shape(sizes.kv_heads, sizes.tokens, sizes.width)}"


HEADS: Final = 7
"""The lesson that cuts the teaching sentence into heads."""


def steps(lesson: int = HEADS) -> tuple[Step, ...]:
    """Every step, first to last.

    Args:
        lesson: the lesson that shows them: before `HEADS` the teaching sentence has one head.

    >>> [one.id for one in steps() if one.lesson == 3]
    ['scale', 'softmax']
    >>> [one.small for at in (6, 7) for one in steps(at) if one.id == "average"]
    ['5 × 4', '2 × 5 × 2']
    """
    small, real = _small(world.load().heads if lesson >= HEADS else 1), _real()
    latent, state, choice = _others()

    def step(
        id: str, lesson: int, titles: tuple[str, str], says: tuple[str, str],
        shape: Callable[[Sizes], str], parameters: Callable[[Sizes], int] = lambda s: 0,
    ) -> Step:  # fmt: skip
        return Step(
            id, lesson, dict(zip(("en", "zh"), titles, strict=True)),
            dict(zip(("en", "zh"), says, strict=True)),
            shape(small), shape(real), parameters(small), parameters(real),
        )  # fmt: skip

    return (
        step("embeddings", 1, ("Embeddings", "嵌入向量"),
             ("one row of numbers for each token", "每个 token 一行数"),
             lambda s: _shape(s.tokens, s.model), lambda s: s.vocabulary * s.model),
        step("projections", 2, ("q, k, v", "q、k、v"),
             ("three projections of every row", "每一行做三种投影"),
             lambda s: _made(s, "k, v"), lambda s: s.model * s.width * (s.heads + 2 * s.kv_heads)),
        latent,
        state,
        step("qk_norm", 12, ("QK-norm", "QK-Norm"),
             ("give every q and k the same length", "把每个 q、k 缩放到同样长"),
             # The teaching sentence has no norm.
             lambda s: _made(s, "k") if s.mixes else "–",
             # One weight for each number of a head, of q and of k; the heads share them.
             lambda s: 2 * s.width if s.mixes else 0),
        step("rope", 6, ("RoPE", "RoPE"),
             ("turn q and k by their position", "按位置转动 q 和 k"),
             lambda s: _made(s, "k")),
        step("cache", 8, ("KV cache", "KV 缓存"),
             ("keep k and v, compute the new ones alone", "留下 k 和 v，只算新来的"),
             lambda s: _shape(2, *([s.kv_heads] if s.kv_heads > 1 else []), s.tokens, s.width)),
        step("groups", 9, ("Shared k and v", "共用 k 和 v"),
             ("query heads that read the same key head", "几个 query 头读同一份 k、v"),
             lambda s: _shape(s.kv_heads, s.heads // s.kv_heads, s.tokens, s.width)
             if s.kv_heads > 1 else _shape(s.tokens, s.width)),
        choice,
        step("scores", 2, ("Scores q·k", "分数 q·k"),
             ("every query with every key", "每个 query 与每个 key"),
             lambda s: _each(s, s.heads, s.tokens, s.tokens)),
        step("scale", 3, ("÷ √d", "÷ √d"),
             ("bring the spread back to about 1", "把分数的散布拉回 1 左右"),
             lambda s: _each(s, s.heads, s.tokens, s.tokens)),
        step("mask", 4, ("Causal mask", "因果掩码"),
             ("hide what comes later", "挡住后面的 token"),
             lambda s: _each(s, s.heads, s.tokens, s.tokens)),
        step("softmax", 3, ("softmax", "softmax"),
             ("scores become weights, row by row", "每一行分数变成权重"),
             lambda s: _each(s, s.heads, s.tokens, s.tokens)),
        step("average", 5, ("Weights × V", "权重 × V"),
             ("a weighted mean of the values", "对 value 加权平均"),
             lambda s: _each(s, s.heads, s.tokens, s.width)),
        step("gate", HEADS, ("Output gate", "输出门"),
             ("each query may refuse what was fetched", "每个 query 可以不要取到的东西"),
             lambda s: _each(s, s.heads, s.tokens, s.width) if s.mixes else "–",
             lambda s: s.heads * s.width * s.model if s.mixes else 0),
        step("heads", HEADS, ("Heads side by side", "多个头拼起来"),
             ("join the heads, project back", "拼接各头，再投影回去"),
             lambda s: _shape(s.tokens, s.model if s.mixes else s.heads * s.width),
             lambda s: s.heads * s.width * s.model if s.mixes else 0),
    )  # fmt: skip


def _others() -> tuple[Step, Step, Step]:
    """What other layers have in the place of a step: a latent, a state, a choice of keys."""
    from attnscope.lessons.experiments.latent import run
    from attnscope.lessons.figures import latents, linear

    found, anchor = world.load(), model(REAL)
    mla, v2 = latents.sizes(latents.V2), latents.V2
    tokens, features, width = len(found.tokens), len(found.features), found.w_k.shape[1]
    short, up = run(pairs=1).rank, latents.heads(v2) * (mla.nope + mla.v)
    part = width // found.heads
    heads, key, value = (
        int(str(anchor.fields[f"linear_{one}"]))
        for one in ("num_value_heads", "key_head_dim", "value_head_dim")
    )
    index, glm = linear.indexer(linear.GLM), model(linear.GLM)
    scan = int(str(glm.fields["q_lora_rank"])) * index.heads * index.width
    scan += glm.width * (index.width + index.heads) + 2 * index.width
    return (
        Step(
            "latent", 10, {"en": "One latent (MLA)", "zh": "一个潜向量（MLA）"},
            {"en": "in place of k and v; DeepSeek-V2 has it, Qwen3.8 does not",
             "zh": "代替 k 和 v；DeepSeek-V2 有，Qwen3.8 没有"},
            _shape(tokens, short), _shape("T", mla.rank + mla.rope),
            features * short + short * 2 * width,
            model(v2).width * (mla.rank + mla.rope) + mla.rank * up,
        ),
        Step(
            "state", 11, {"en": "Or a state", "zh": "或者一份状态"},
            {"en": "a table in place of k and v, in most layers of Qwen3.8; each token decides how "
             "much fades and is corrected",
             "zh": "一张表代替 k 和 v，Qwen3.8 的大多数层如此；淡忘、改正多少由 token 定"},
            _shape(found.heads, part, part), _shape(heads, key, value), 2 * features * found.heads,
            # Two projections to a number a head, and how fast each head fades: A and a bias.
            2 * heads * anchor.width + 2 * heads,
        ),
        Step(
            "choice", 11, {"en": "Or a choice", "zh": "或者先挑"},
            {"en": "an indexer chooses whom to score; GLM-5.3 has it, Qwen3.8 does not",
             "zh": "索引器先挑出要给谁打分；GLM-5.3 有，Qwen3.8 没有"},
            _shape(tokens, min(index.topk, tokens)), _shape("T", index.topk), 0, scan,
        ),
    )  # fmt: skip
