"""What came is shown in a sentence: short, printable, whatever a header holds."""

from __future__ import annotations

from typing import Any

import pytest
from trace_samples import Case, header

from attnscope.errors import TraceError
from attnscope.trace.fields import short
from attnscope.trace.header import read_header


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("国", "'\\u56fd'"),
        ("x" * 62, "'" + "x" * 62 + "'"),
        ("x" * 63, "'" + "x" * 59 + "…"),
        ("x" * 100, "'" + "x" * 59 + "…"),
        (2**127 - 1, str(2**127 - 1)),
        (2**128, "a number of 129 bits"),
        (-(2**128), "a number of 129 bits"),
        (10**5000, "a number of 16610 bits"),  # Python itself refuses to write it out
        (True, "True"),
        (None, "None"),
        ([1, 2], "a list of 2"),
        ({"a": 1}, "a dict of 1"),
    ],
    ids=range(12),  # pytest cannot write all of them out either
)
def test_short(value: Any, said: str) -> None:
    assert short(value) == said
    assert len(said) <= 64


@pytest.mark.parametrize(
    "value", [10**5000, "x" * 10**6, "\x1b[2J\u202e", [0] * 1000], ids=range(4)
)
def test_a_wrong_field_is_one_printable_sentence(value: Any) -> None:
    with pytest.raises(TraceError) as caught:
        read_header({**header(Case()), "prompt_tokens": value})
    said = str(caught.value)
    assert "prompt_tokens" in said
    assert len(said) < 200
    assert said.isprintable()
