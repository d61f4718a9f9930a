"""Every parameter of a request has a bound, and what is out of it is named."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscope.serve.parse import MOST_CHOSEN, MOST_QUERY, MOST_TILES, Query

GOOD = "layer=3&how=sum&names=a,c&at=0.1,22.3&x=0,7&queries=3,5-7,6&rows=4-9"


def test_each_kind_of_parameter_is_read() -> None:
    query = Query.read(GOOD)
    assert query.integer("layer", most=3) == 3
    assert query.choice("how", ("mean", "sum")) == "sum"
    assert query.choice("kind", ("csv",), "csv") == "csv"
    assert query.words("names", ("a", "b", "c")) == ["a", "c"]
    assert query.places("at") == [(0, 1), (22, 3)]
    assert query.numbers("x") == [0, 7]
    assert query.chosen("queries") == [3, 5, 6, 7]
    assert query.span("rows") == (4, 9)
    query.done()


@pytest.mark.parametrize(
    ("text", "take", "said"),
    [
        ("", lambda q: q.integer("layer"), "layer: is missing"),
        ("layer=", lambda q: q.integer("layer"), "layer: expected a whole number from 0, got ''"),
        ("layer=-1", lambda q: q.integer("layer"), "expected a whole number from 0, got '-1'"),
        ("layer=1e3", lambda q: q.integer("layer"), "got '1e3'"),
        ("layer=1_0", lambda q: q.integer("layer"), "got '1_0'"),
        ("layer=%D9%A3", lambda q: q.integer("layer"), "got '\\u0663'"),  # an Arabic three
        ("layer=+3", lambda q: q.integer("layer"), "got ' 3'"),
        ("layer=../../etc/passwd", lambda q: q.integer("layer"), "got '../../etc/passwd'"),
        ("layer=12", lambda q: q.integer("layer", most=11), "layer: expected at most 11, got 12"),
        ("layer=99999999999", lambda q: q.integer("layer"), "expected a whole number"),
        ("layer=9999999999", lambda q: q.integer("layer"), "expected at most 2147483647"),
        ("how=max", lambda q: q.choice("how", ("mean", "sum")), "expected one of mean, sum, got"),
        ("names=a,a", lambda q: q.words("names", ("a", "b")), "names: names one of them twice"),
        ("names=a,", lambda q: q.words("names", ("a", "b")), "expected some of a, b, got ''"),
        ("at=3", lambda q: q.places("at"), "at: expected column.row, got '3'"),
        ("at=3.4.5", lambda q: q.places("at"), "at: expected a whole number from 0, got '4.5'"),
        ("at=", lambda q: q.places("at"), "at: expected column.row"),
        ("queries=9-3", lambda q: q.chosen("queries"), "queries: 9-3 ends before it begins"),
        ("queries=a", lambda q: q.chosen("queries"), "expected numbers and ranges like 3,5-9"),
        ("queries=0-9999999999", lambda q: q.chosen("queries"), "expected at most"),
        ("queries=0-2000000000", lambda q: q.chosen("queries"), "are more than 4096 tokens"),
        ("a=1&a=2", lambda q: None, "'a': is given twice"),
        ("other=1", lambda q: None, "'other': there is no such parameter here"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(text: str, take: Any, said: str) -> None:
    def all_of_it() -> None:
        query = Query.read(text)
        take(query)
        query.done()

    with pytest.raises(ValueError, match=re.escape(said)):
        all_of_it()


def test_counts_are_bounded() -> None:
    with pytest.raises(ValueError, match=f"more than {MOST_TILES}"):
        Query.read("at=" + ",".join(["0.0"] * (MOST_TILES + 1))).places("at")
    assert len(Query.read("at=" + ",".join(["0.0"] * MOST_TILES)).places("at")) == MOST_TILES
    many = ",".join(f"{at * 3}-{at * 3 + 1}" for at in range(MOST_CHOSEN // 2 + 1))
    with pytest.raises(ValueError, match=f"more than {MOST_CHOSEN} tokens"):
        Query.read(f"queries={many}").chosen("queries")
    with pytest.raises(ValueError, match="at most"):
        Query.read("a=" + "1" * MOST_QUERY)
    with pytest.raises(ValueError, match="fields"):
        Query.read("&".join(f"a{n}=1" for n in range(40)))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    for take in (
        lambda q: q.integer("a"),
        lambda q: q.places("a"),
        lambda q: q.numbers("a"),
        lambda q: q.chosen("a"),
        lambda q: q.span("a"),
        lambda q: q.words("a", ("b",)),
    ):
        said = ""
        try:
            take(Query([("a", text)]))
        except ValueError as error:
            said = str(error)
        assert said == "" or said.isprintable()
        assert len(said) < 200


@given(st.sets(st.integers(0, 200), min_size=1, max_size=40))
def test_ranges_bring_back_what_they_were_made_of(numbers: set[int]) -> None:
    parts, rest = [], sorted(numbers)
    while rest:
        count = 1
        while count < len(rest) and rest[count] == rest[0] + count:
            count += 1
        parts.append(f"{rest[0]}-{rest[count - 1]}" if count > 1 else str(rest[0]))
        rest = rest[count:]
    assert Query.read(f"queries={','.join(parts)}").chosen("queries") == sorted(numbers)
