"""The names of heads: each kind by a head built to be it, and near misses that must not be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from trace_samples import Case, header, layer, tokens

from attnscope.core.attend import attend
from attnscope.core.masks import spans
from attnscope.core.request import Request
from attnscope.trace import KINDS, HeadKind, Trace
from attnscope.trace.kinds import copies_in_sight

T = 40


def head(
    wanted: np.ndarray, *, window: int | None = None, documents: list[int] | None = None
) -> Trace:
    """A trace of one head whose scores are `wanted` [T, T]: q is the identity, k its transpose."""
    case = Case(H=1, G=1, T=T, S=T, D=T, scale=1.0, window=window, documents=documents)
    ids = torch.tensor([entry["id"] for entry in tokens(T)[1]])
    q = torch.eye(T)[None, None]
    k = torch.from_numpy(np.broadcast_to(wanted, (T, T)).T.astype(np.float32).copy())[None, None]
    own = None if documents is None else torch.tensor(documents)
    found = attend(
        q, k, torch.zeros(1, 1, T, 1), scale=1.0, window=window, documents=own,
        statistics=Request.of("all", tokens=ids), impl="reference",
    )  # fmt: skip
    seen = spans(T, T, window=window, documents=own)
    arrays = {name: tensor[0].numpy() for name, tensor in found.statistics.items()}
    arrays |= {
        "q": q[0].numpy(), "k": k[0].numpy(),
        "first": seen.first[0].numpy(), "end": seen.end[0].numpy(),
        "origin": seen.origin[0].numpy(),
    }  # fmt: skip
    return Trace.from_arrays(header(case), {0: arrays})


ROW, COL = np.arange(T)[:, None], np.arange(T)[None]
IDS = np.array([entry["id"] for entry in tokens(T)[1]])
COPY = np.zeros((T, T), bool)
COPY[:, 1:] = IDS[:, None] == IDS[None, :-1]
COPY &= COL <= ROW

HEADS = {
    "previous-token": np.where(COL == ROW - 1, 5.0, 0.0),
    "sink": np.where(COL == 0, 5.0, 0.0),
    "local": np.where((ROW - COL < 8) & (COL <= ROW), 4.0, 0.0),
    "induction": np.where(COPY, 5.0, 0.0),
    "uniform": np.zeros((T, T)),
    "mixed": np.where((ROW + 7 * COL) % 11 == 0, 5.0, 0.0),
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_made_to_be_it(kind: str) -> None:
    (found,) = head(HEADS[kind]).kinds()
    assert isinstance(found, HeadKind)
    assert (found.layer, found.head, found.kind) == (0, 0, kind)
    assert (found.share < 0.5) == (kind == "mixed")


def test_every_kind_has_a_head_here() -> None:
    assert set(HEADS) == set(KINDS)


def test_the_excess_is_what_its_formula_says() -> None:
    """Uniform over all, with a share x more on the first key: the excess is x by construction."""
    for share, kind in ((0.45, "uniform"), (0.55, "sink"), (0.8, "sink")):
        n = np.maximum(ROW + 1, 1)
        weight = np.where(COL == 0, share + (1 - share) / n, (1 - share) / n)
        (found,) = head(np.log(weight)).kinds()
        if kind == "sink":
            assert found.kind == "sink"
            assert found.share == pytest.approx(share, abs=1e-5)  # float32 weights
        else:
            assert found.kind != "sink"


def test_a_self_attending_head_is_local() -> None:
    (found,) = head(np.where(COL == ROW, 6.0, 0.0)).kinds()
    assert found.kind == "local"


def test_within_a_short_window_everything_is_local_so_nothing_is() -> None:
    """A window of 8 keys forces all weight onto the last 8: that says nothing about the head."""
    (found,) = head(np.zeros((T, T)), window=8).kinds()
    assert found.kind == "uniform"


def test_the_sink_is_each_documents_own_first_key() -> None:
    documents = [0] * 20 + [1] * 20
    (found,) = head(np.where((COL == 0) | (COL == 20), 6.0, 0.0), documents=documents).kinds()
    assert found.kind == "sink"


def test_a_learned_sink_is_a_sink() -> None:
    case = Case(sinks=True, T=T, S=T)
    arrays, _ = layer(case)
    raised = {**arrays, "sinks": arrays["sinks"] + 20}
    raised["logsumexp"] = np.log(np.exp(arrays["logsumexp"]) + np.exp(raised["sinks"])[:, None])
    raised["sink_mass"] = np.ones_like(arrays["sink_mass"])
    for name in ("entropy", "previous_mass", "local_mass", "induction_mass"):
        raised[name] = np.zeros_like(arrays[name])
    kinds = Trace.from_arrays(header(case), {0: raised}).kinds()
    assert [found.kind for found in kinds] == ["sink"] * 4


def test_across_sequences_places_mean_nothing() -> None:
    case = Case(causal=False, cross=True)
    arrays, _ = layer(case)
    arrays["previous_mass"] = np.ones_like(arrays["previous_mass"])
    kinds = Trace.from_arrays(header(case), {0: arrays}).kinds()
    assert {found.kind for found in kinds} <= {"uniform", "mixed"}


def test_few_rows_decide_nothing() -> None:
    case = Case(T=2)
    kinds = Trace.from_arrays(header(case), {0: layer(case)[0]}).kinds()
    assert {found.kind for found in kinds} == {"mixed"}


def test_copies_by_hand_and_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 5, 30)
    position = np.arange(10, 30)
    first, end = np.maximum(position - 9, 0), position + 1
    found = copies_in_sight(ids, position, first=first, end=end)
    for row, i in enumerate(position):
        keys = range(max(first[row], 1), end[row])
        assert found[row] == sum(ids[j - 1] == ids[i] for j in keys)
    nothing = copies_in_sight(ids, position, first=position, end=position)
    assert nothing.tolist() == [0] * 20


def test_a_lacking_statistic_is_named() -> None:
    fields = {**header(Case()), "statistics": ["entropy"]}
    arrays = layer(Case())[0]
    kept = ("q", "k", "logsumexp", "first", "end", "origin", "entropy")
    made = Trace.from_arrays(fields, {0: {name: arrays[name] for name in kept}})
    with pytest.raises(ValueError, match="lacks previous_mass, sink_mass, local_mass"):
        made.kinds()


def test_without_induction_the_other_rules_stand() -> None:
    fields = header(Case(H=1, G=1, T=T, S=T, D=T, scale=1.0))
    made = head(HEADS["sink"])
    assert made.kinds()[0].kind == "sink"
    names = [name for name in fields["statistics"] if name != "induction_mass"]
    arrays = {name: made.layer(0).statistic(name) for name in names} | {
        name: made.layer(0).array(name) for name in ("q", "k", "first", "end", "origin")
    }
    again = Trace.from_arrays({**fields, "statistics": names}, {0: arrays})
    assert again.kinds() == made.kinds()
