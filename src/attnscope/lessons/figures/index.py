"""Where each figure lives: the first words of its id name the file that declares it.

The idea: one figure costs no more than its own file's imports, so `attnscope figures ID` of a
config's number starts without numpy. All of them are the files of `TOPICS`, in the lessons' order.

Not here: what a figure is (registry.py).
"""

from __future__ import annotations

import difflib
import importlib
from typing import Final

from attnscope.lessons.figures.registry import ENTRIES, REFERENCE, Entry, Figure

TOPICS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "early": (
        "The start: RNN, additive attention, dot products",
        "起点：RNN、加性注意力、点积",
        ("example", "rnn", "additive", "dot_product"),
    ),
    "scores": (
        "From scores to weights",
        "从分数到权重",
        ("softmax", "proportional", "mask"),
    ),
    "variance": (
        "Why the scores are divided by the square root of d",
        "为什么要除以 √d",
        ("variance",),
    ),
    "teaching": (
        "The teaching world of five tokens",
        "五个 token 的教学世界",
        ("world",),
    ),
    "pencil": (
        "The teaching sentence with a pencil",
        "教学句子，用笔算",
        ("pencil",),
    ),
    "rotary": (
        "Rotary positions",
        "旋转位置编码",
        ("rope",),
    ),
    "decoding": (
        "What is computed again, and what a cache saves",
        "重复算了什么，缓存省了什么",
        ("prefix", "cache"),
    ),
    "shapes": (
        "Shapes and FLOPs of real models",
        "真实模型的形状与计算量",
        ("shape", "flops"),
    ),
    "keeping": (
        "Keys, values and latents that real models keep",
        "真实模型要存的 K、V 与潜向量",
        ("kv",),
    ),
    "costing": (
        "What a prefill and a decode step cost",
        "prefill 与 decode 一步的代价",
        ("cost", "device"),
    ),
    "states": (
        "Fixed states and compressed entries",
        "固定状态与压缩条目",
        ("state", "kv.dsv41flash"),
    ),
    "latents": (
        "Latents: what they stand for, and two ways to read them",
        "潜向量：顶替什么，两种读法各算多少",
        ("mla",),
    ),
    "linear": (
        "States, choices and entries, layer by layer",
        "状态、挑选与条目，逐层来看",
        ("linear",),
    ),
    "stability": (
        "Holding scores that grow in training",
        "怎样按住训练中长大的分数",
        ("stable",),
    ),
    "papers": (
        "What papers report",
        "论文报告的数",
        ("gqa", "clip"),
    ),
}
"""The files, in the order of the lessons: title in English and Chinese, beginnings of their ids."""

_HOMES: Final = {word: name for name, (_, _, words) in TOPICS.items() for word in words}


def _load(topic: str) -> None:
    importlib.import_module(f"{__package__}.{topic}")


def topic_of(id: str) -> str | None:
    """The topic an id belongs to, by its first words; None where no topic has such ids.

    >>> topic_of("kv.qwen38.gqa.total"), topic_of("kv.dsv41flash.per_token"), topic_of("x.y")
    ('keeping', 'states', None)
    """
    words = id.split(".")
    beginnings = (".".join(words[:count]) for count in range(len(words), 0, -1))
    return next((_HOMES[one] for one in beginnings if one in _HOMES), None)


def entries() -> tuple[Entry, ...]:
    """Every figure as declared, topic by topic; nothing is computed."""
    for topic in TOPICS:
        _load(topic)
    order = {topic: at for at, topic in enumerate(TOPICS)}
    return tuple(sorted(ENTRIES.values(), key=lambda one: order[str(topic_of(one.id))]))


def ids() -> tuple[str, ...]:
    """Every id."""
    return tuple(one.id for one in entries())


def entry(id: str) -> Entry:
    """One figure as declared.

    Raises:
        ValueError: there is none of this id.
    """
    topic = topic_of(id)
    if topic is not None:
        _load(topic)
    if id not in ENTRIES:
        near = difflib.get_close_matches(id, ids(), n=3)
        hint = f"Did you mean {', '.join(near)}?" if near else "`attnscope figures` lists them."
        raise ValueError(f"There is no figure {id!r}. {hint}")
    return ENTRIES[id]


def get(id: str) -> Figure:
    """One figure, computed now if it was not before.

    Raises:
        ValueError: there is none of this id.

    >>> get("kv.qwen38.gqa.per_token").value
    65536
    """
    found = entry(id)
    note = {
        at: REFERENCE.sub(lambda other, at=at: entry(other[1]).text[at], said)  # type: ignore[misc]
        for at, said in found.note.items()
    }
    return Figure(
        found.id, found.value, found.unit, found.kind, found.formula, found.inputs, found.source,
        found.text, found.title, note,
    )  # fmt: skip


def all() -> tuple[Figure, ...]:
    """Every figure, computed, topic by topic.

    Cost: about half a second, for the experiments.
    """
    return tuple(get(id) for id in ids())
