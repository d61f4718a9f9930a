"""Labels are whole characters and spans cover them, whatever the pieces of a token are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_samples import Case, header, truth

from attnscope import tiles
from attnscope.trace import Trace

TONE = "\U0001f44d\U0001f3fd"
FLAGS = "\U0001f1e8\U0001f1ed"


def table(text: str, pieces: list[tuple[str, int, int]]) -> dict[str, Any]:
    """The token table of a trace with these tokens: (text, start, end)."""
    count = len(pieces)
    case = Case(T=count, S=count)
    fields = header(case) | {
        "text": text,
        "prompt_tokens": count,
        "tokens": [
            {"index": n, "id": 10 + n, "text": label, "start": start, "end": end}
            for n, (label, start, end) in enumerate(pieces)
        ],
    }
    return tiles.token_table(Trace.from_arrays(fields, {0: truth(case).arrays}))


def spans(found: dict[str, Any]) -> list[tuple[int, int]]:
    return list(zip(found["start"], found["end"], strict=True))


@pytest.mark.parametrize(
    ("text", "pieces", "labels", "expected"),
    [
        # pieces of one character share its span, whether the trace's own labels are right or not
        ("国", [("国", 0, 1), ("国", 1, 2), ("国", 2, 3)], ["国"] * 3, [(0, 3)] * 3),
        ("国", [("\ufffd", 0, 1), ("<0x9B>", 1, 2), ("", 2, 3)], ["国"] * 3, [(0, 3)] * 3),
        ("a国b", [("a", 0, 1), ("国", 1, 3), ("国b", 3, 5)], ["a", "国", "国b"],
         [(0, 1), (1, 4), (1, 5)]),
        # an emoji and its skin tone are one character, in a capture's labels
        (TONE, [(TONE, 0, 3), (TONE, 3, 4), (TONE, 4, 8)], [TONE] * 3, [(0, 8)] * 3),
        (TONE + TONE, [(TONE, 0, 4), (TONE, 4, 8), (TONE, 8, 12), (TONE, 12, 16)], [TONE] * 4,
         [(0, 8)] * 2 + [(8, 16)] * 2),
        # two equal flags: the second is another character
        (FLAGS[0] * 4, [(FLAGS[0] * 2, n, n + 4) for n in range(0, 16, 4)], [FLAGS[0] * 2] * 4,
         [(0, 8)] * 2 + [(8, 16)] * 2),
        # a combining mark belongs to its letter
        ("xe\u0301", [("x", 0, 1), ("e\u0301", 1, 2), ("e\u0301", 2, 4)],
         ["x", "e\u0301", "e\u0301"], [(0, 1), (1, 4), (1, 4)]),
        # the text's own bytes, not the tokenizer's way to write them
        ("the cat", [("Ġthe", 0, 3), ("▁cat", 3, 7)], ["the", " cat"], [(0, 3), (3, 7)]),
        # tokens without text show their own name
        ("a", [("<bos>", 0, 0), ("a", 0, 1), ("▁", 1, 1), ("Ġ", 1, 1)],
         ["<bos>", "a", "▁", "Ġ"], [(0, 0), (0, 1), (1, 1), (1, 1)]),
        ("a", [("<0xE5>", 0, 0), ("\ufffd\ufffd", 0, 0), ("a", 0, 1)],
         ["<0xE5>", "<U+FFFD><U+FFFD>", "a"], [(0, 0), (0, 0), (0, 1)]),
        # the text itself may hold the character that decoders put for broken bytes
        ("a\ufffd", [("a", 0, 1), ("\ufffd", 1, 4)], ["a", "<U+FFFD>"], [(0, 1), (1, 4)]),
        ("", [("x", 0, 0)], ["x"], [(0, 0)]),
        ("ab", [("ab", 0, 2), ("b", 1, 2)], ["ab", "b"], [(0, 2), (1, 2)]),
    ],
)  # fmt: skip
def test_labels_are_whole_characters(
    text: str, pieces: list, labels: list[str], expected: list
) -> None:
    found = table(text, pieces)
    assert found["text"] == text
    assert found["ids"] == [10 + n for n in range(len(pieces))]
    assert found["labels"] == labels
    assert spans(found) == expected
    own = zip(found["own_start"], found["own_end"], strict=True)
    assert list(own) == [(start, end) for _, start, end in pieces]


@settings(deadline=None)
@given(st.text(min_size=1, max_size=20), st.data())
def test_any_cut_gives_whole_characters(text: str, data: st.DataObject) -> None:
    raw = text.encode("utf-8", "replace")
    text = raw.decode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=8)) | {0, len(raw)})
    labels = st.sampled_from(["", "\ufffd", "Ġ", text, text[:1], text * 30])
    pieces = [(data.draw(labels), a, b) for a, b in pairwise(cuts)]
    found = table(text, pieces)
    for (_, a, b), (start, end), label in zip(pieces, spans(found), found["labels"], strict=True):
        assert start <= a
        assert b <= end
        shown = raw[start:end].decode("utf-8")  # raises inside a character
        assert label == shown.replace("\ufffd", "<U+FFFD>")


def test_a_long_label_costs_no_search() -> None:
    """A hostile label of a million characters over one byte is not looked for."""
    text = "a" * 1000
    found = table(text, [("a" * 1000, 5, 6)])
    assert spans(found) == [(5, 6)]


def test_the_captured_tokens_of_a_model_keep_their_labels() -> None:
    """As long as the text stands there: what a capture wrote is what is shown."""
    words = ["the ", "cat ", "saw "]
    at = np.cumsum([0, *map(len, words)])
    found = table(
        "".join(words), [(w, int(a), int(a) + len(w)) for w, a in zip(words, at[:-1], strict=True)]
    )
    assert found["labels"] == words
