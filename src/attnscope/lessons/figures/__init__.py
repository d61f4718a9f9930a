"""Every number of the course, with its formula, its inputs and where they come from.

    from attnscope.lessons import figures
    figures.get("kv.qwen38.gqa.per_token").text["en"]         '64 KiB'
    figures.fill("{kv.qwen38.gqa.per_token} a token", "en")   '64 KiB a token'
    figures.check_prose(text)                                 ValueError where prose types a number

The idea: prose refers to an id, and the number is computed when somebody asks for it.

Not here: how they are printed (cli/figures.py).
"""

from __future__ import annotations

from attnscope.lessons.figures.index import TOPICS, all, entries, entry, get, ids, topic_of
from attnscope.lessons.figures.prose import check_prose, complaints, fill
from attnscope.lessons.figures.registry import KINDS, LANGUAGES, Entry, Figure, Input

__all__ = [
    "KINDS",
    "LANGUAGES",
    "TOPICS",
    "Entry",
    "Figure",
    "Input",
    "all",
    "check_prose",
    "complaints",
    "entries",
    "entry",
    "fill",
    "get",
    "ids",
    "topic_of",
]
