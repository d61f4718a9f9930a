"""From a trace to a report: heads, labels, and the choice of the row to show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnscope.cli import gather
from attnscope.cli.report import HEAD_VALUES, Attended, finite, split_mass
from attnscope.trace import Trace


def test_head_values_are_means_over_the_query_rows(trace: Trace) -> None:
    lines = gather.head_lines(trace)
    assert [(line.layer, line.head) for line in lines] == [
        (layer, head) for layer in (0, 1, 3) for head in range(4)
    ]
    for line in lines:
        record = trace.layer(line.layer)
        assert set(line.values) == set(HEAD_VALUES)
        for name, value in line.values.items():
            rows = record.statistic(name)[line.head]
            # float32 rows summed in float64 here and there: a few of its roundings
            assert value == pytest.approx(math.fsum(rows.tolist()) / len(rows), rel=1e-12)


def test_heads_made_to_look_somewhere_have_that_kind(trace: Trace) -> None:
    kinds = {(line.layer, line.head): line.kind for line in gather.head_lines(trace)}
    assert kinds[0, 0] == "sink"
    assert kinds[0, 1] == "previous-token"
    assert kinds[0, 2] == "uniform"


def test_layers_without_a_map_say_why(trace: Trace) -> None:
    lines = {line.index: line for line in gather.layer_lines(trace)}
    assert lines[2].reason == "a recurrent layer"
    assert lines[0].groups == 2
    assert lines[1].window == len(trace.tokens)


def test_row_holds_all_keys_in_sight_from_the_largest_weight_down(trace: Trace) -> None:
    query = len(trace.tokens) - 1
    found = gather.row(trace, 0, 2, query)
    weights = trace.weights(0, 2, [query], dtype=np.float64)[0]
    assert sorted(part.key for part in found) == list(range(query + 1))
    assert [part.weight for part in found] == sorted(weights.tolist(), reverse=True)
    norms = trace.layer(0).norms(2)
    assert norms is not None
    for part in found:
        # one product of float64 numbers
        assert part.arrived == pytest.approx(part.weight * float(norms[part.key]), rel=1e-15)


def test_the_chosen_head_brings_most_from_elsewhere(trace: Trace) -> None:
    """The choice again, from whole weights and by another road."""
    query = len(trace.tokens) - 1
    shares = {}
    for layer in (0, 1, 3):
        norms = trace.layer(layer).array("value_norms")
        carried = np.stack([trace.weights(layer, h, [query])[0] * norms[h] for h in range(4)])
        for head in range(4):
            shares[layer, head] = carried[head, 1:query].sum() / carried.sum()
    chosen, found = gather.choose(trace, layer=None, head=None, query=None)
    assert (chosen.layer, chosen.head) == max(shares, key=lambda place: shares[place])
    assert chosen.query == query
    assert chosen.why is not None
    assert f"{max(shares.values()):.0%}" in chosen.why
    assert found == gather.row(trace, chosen.layer, chosen.head, query)


def test_a_sink_is_not_chosen(trace: Trace) -> None:
    """Heads that rest on the first token put all their weight where it brings nothing."""
    chosen, _ = gather.choose(trace, layer=0, head=None, query=-1)
    assert chosen.layer == 0
    assert chosen.head != 0


def test_where_nothing_is_brought_no_share_is_claimed(trace: Trace) -> None:
    """The second token sees the first and itself alone: no head brings anything else there."""
    chosen, found = gather.choose(trace, layer=None, head=None, query=1)
    assert {part.key for part in found} <= {0, 1}
    assert chosen.why is not None
    assert chosen.why.startswith("no head brings anything")
    assert gather.choose(trace, layer=0, head=1, query=1)[0].why is None


def test_a_text_too_short_for_kinds_is_said_to_be(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gather.notes(trace) == []
    for count, said in ((7, False), (6, True), (1, True)):
        tokens = trace.tokens[:count]
        monkeypatch.setattr(type(trace), "tokens", property(lambda self, t=tokens: t))
        assert bool(gather.notes(trace)) is said
    assert "need more text: 1 token here, at least 7" in gather.notes(trace)[0]


def test_what_comes_from_the_first_token_does_not_count(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the first token or the query itself brings, another token decides."""

    def row(trace: Trace, layer: int, head: int, query: int) -> list[Attended]:
        key = {0: 0, 1: query, 2: 3}.get(head, 5)
        return [Attended(query, key, 0.9, {2: 1.0}.get(head, 0.5) if 0 < head != 1 else 50.0)]

    monkeypatch.setattr(gather, "row", row)
    assert gather.choose(trace, layer=1, head=None, query=None)[0].head == 2


def test_what_is_named_is_shown(trace: Trace) -> None:
    chosen, found = gather.choose(trace, layer=1, head=2, query=5)
    assert (chosen.layer, chosen.head, chosen.query, chosen.why) == (1, 2, 5, None)
    assert {part.query for part in found} == {5}
    assert max(part.key for part in found) <= 5
    assert gather.choose(trace, layer=None, head=3, query=None)[0].head == 3
    assert gather.choose(trace, layer=None, head=None, query=-2)[0].query == len(trace.tokens) - 2


@pytest.mark.parametrize(
    ("layer", "head", "query", "said"),
    [
        (9, None, None, "layer: 9"),
        (2, None, None, "layer: 2 has no attention map: a recurrent layer"),
        (-1, None, None, "layer: -1"),
        (None, 4, None, "no head 4"),
        (0, -1, None, "no head -1"),
        (None, None, 14, "query: 14 is not one of the 13 tokens"),
        (None, None, -14, "query: -14"),
    ],
)
def test_what_is_not_there_is_named(
    trace: Trace, layer: int | None, head: int | None, query: int | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        gather.choose(trace, layer=layer, head=head, query=query)


def test_labels_show_whole_characters_and_never_a_replacement(trace: Trace) -> None:
    labels = gather.labels(trace)
    assert labels[0] == "'<s>'"
    assert labels[1:3] == ["'the'", "' cat'"]
    assert labels[4:7] == ["'国' e5", "'国' 9b", "'国' bd"]
    assert labels[11] == "' 😀'"
    assert "\ufffd" not in "".join(labels)


def test_split_mass_takes_as_few_as_hold_the_share() -> None:
    rows = [Attended(9, key, weight, None) for key, weight in enumerate([0.5, 0.3, 0.15, 0.05])]
    assert len(split_mass(rows, 0.5, 10)[0]) == 1
    assert len(split_mass(rows, 0.51, 10)[0]) == 2
    assert split_mass(rows, 1.0, 3) == (rows[:3], 1)
    assert split_mass([], 0.9, 3) == ([], 0)


def test_split_mass_is_of_what_is_on_keys() -> None:
    """With a learned sink a row sums to less than one; the share is of what the keys have."""
    rows = [Attended(9, 0, 0.2, None), Attended(9, 1, 0.02, None)]
    assert split_mass(rows, 0.9, 10) == (rows[:1], 1)


def test_no_number_becomes_null() -> None:
    assert finite(float("nan")) is None
    assert finite(float("-inf")) is None
    assert finite(1.5) == 1.5
