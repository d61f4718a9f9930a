"""Statistics, maps and rows of every implementation, from weights that PyTorch computed."""

from __future__ import annotations

import pytest
import torch
from referees import sight, weights_of

from attnscope.core import STATISTICS, Request
from attnscope.core.problem import map_cell
from attnscope.testing import adversarial, attend_by, budget, implementations, oracle, qkv

IMPLS = implementations()


def definitions(p: torch.Tensor, s: torch.Tensor, tokens: torch.Tensor, request: Request):  # type: ignore[no-untyped-def]
    """Every statistic by its definition, written row by row, from weights p and scores s."""
    B, H, T, S = p.shape
    found = {name: torch.zeros(B, H, T, dtype=torch.float64) for name in STATISTICS}
    found["received"] = p.sum(2)
    for b in range(B):
        for h in range(H):
            for r in range(T):
                i, row = S - T + r, p[b, h, r]
                ids = tokens[b]
                logs = torch.where(row > 0, row, 1.0).log()
                jacobian = torch.diag(row) - row[:, None] * row[None]
                after = [j for j in range(1, i + 1) if ids[j - 1] == ids[i]]
                values = {
                    "logsumexp": s[b, h, r].logsumexp(0),
                    "max_logit": s[b, h, r].max(),
                    "max_weight": row.max(),
                    "argmax": row.argmax(),
                    "entropy": -(row * logs).sum(),
                    "effective_keys": (-(row * logs).sum()).exp(),
                    "participation": 1 / (row * row).sum(),
                    "jacobian_norm": torch.linalg.matrix_norm(jacobian),
                    "self_mass": row[i],
                    "previous_mass": row[i - 1] if i else 0.0,
                    "local_mass": row[max(0, i - request.local + 1) : i + 1].sum(),
                    "sink_mass": row[: request.sink_keys].sum(),
                    "induction_mass": row[after].sum(),
                    "mean_distance": sum(row[j] * (i - j) for j in range(S)),
                }
                for name, value in values.items():
                    found[name][b, h, r] = value
    return found


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(("queries", "keys", "window"), [(21, 21, None), (6, 33, 9), (1, 19, None)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_definitions(
    impl: str, queries: int, keys: int, window: int | None, dtype: torch.dtype
) -> None:
    q, k, v = qkv(queries=queries, keys=keys, width=7, spread=2.0, dtype=dtype)
    tokens = torch.randint(0, 5, (2, keys), generator=torch.Generator().manual_seed(2))
    request = Request(STATISTICS, local=3, sink_keys=2, tokens=tokens)
    seen = sight(queries, keys, window=window)
    p = weights_of(q, k, seen=seen)
    s = q.double() @ k.double().repeat_interleave(2, 1).transpose(-1, -2) * 7**-0.5
    s = s.masked_fill(~seen, -torch.inf)
    exact = definitions(p, s, tokens, request)
    ours = attend_by(impl, q, k, v, window=window, statistics=request)
    # The honest peer: PyTorch's own softmax in the same dtype, and the definitions on its weights.
    s32 = (q @ k.repeat_interleave(2, 1).transpose(-1, -2) * 7**-0.5).masked_fill(~seen, -torch.inf)
    peer = definitions(s32.softmax(-1).double(), s32.double(), tokens, request)
    for name in STATISTICS:
        if name == "argmax":
            assert torch.equal(ours[name].double(), exact[name])
        elif dtype == torch.float64:
            # The peer has no error to speak of; a few hundred roundings of numbers below 40 remain.
            torch.testing.assert_close(ours[name], exact[name], rtol=1e-12, atol=1e-12)
        else:
            # 4, not 2: a whole row of sums stands behind each number, and rounding is luck.
            budget(ours[name], peer=peer[name] + 2e-6, oracle=exact[name], what=name, factor=4.0)


@pytest.mark.parametrize("impl", [name for name in IMPLS if name != "reference"])
@pytest.mark.parametrize("case", list(adversarial()), ids=lambda case: case.name)
def test_adversarial(impl: str, case) -> None:  # type: ignore[no-untyped-def]
    """Against the oracle on inputs that break careless code."""
    everything = Request.of("all", pool=True, rows=(0, 5))
    options = case.options | {"statistics": everything}
    exact = oracle(case.q, case.k, case.v, **options)
    ours = attend_by(impl, case.q, case.k, case.v, **options)
    assert torch.equal(ours.empty, exact.empty)
    # Scores of 1e5 carry a rounding of 1e-2 in float32, and weights with them; elsewhere 1e-5.
    rough = float(exact["max_logit"].nan_to_num(0, 0, 0).abs().max()) * 4e-7 + 1e-5
    for name in ("entropy", "max_weight", "self_mass", "sink_mass", "jacobian_norm", "received"):
        torch.testing.assert_close(
            ours[name].double(), exact[name], rtol=rough, atol=rough * 12, msg=name
        )
    torch.testing.assert_close(ours["max_logit"].double(), exact["max_logit"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours["logsumexp"].double(), exact["logsumexp"], rtol=1e-5, atol=1e-5)
    for value in ours.statistics.values():
        assert not value.isnan().any()
    assert ours.output.isfinite().all()
    torch.testing.assert_close(
        ours.output.double(), exact.output, rtol=rough, atol=rough * 12 * float(case.v.abs().max())
    )


@pytest.mark.parametrize("impl", IMPLS)
def test_ties_take_the_first_key(impl: str) -> None:
    case = next(case for case in adversarial() if case.name == "ties")
    ours = attend_by(impl, case.q, case.k, case.v, statistics=["argmax"])
    assert not ours["argmax"].any()


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(("queries", "keys"), [(1300, 1300), (70, 2300), (1, 4500)])
def test_map_against_loops(impl: str, queries: int, keys: int) -> None:
    """Cells of 2, 4 and 8, with rims, from PyTorch's weights."""
    q, k, v = qkv(batch=1, heads=2, groups=1, queries=queries, keys=keys, width=4)
    ours = attend_by(impl, q, k, v, window=keys // 2, statistics=Request((), pool=True))
    assert ours.map is not None
    cell = map_cell(queries, keys)
    assert ours.map.cell == cell > 1
    i, j = torch.arange(keys - queries, keys)[:, None], torch.arange(keys)
    seen = ((j <= i) & (i - j < keys // 2))[None, None]
    p = weights_of(q, k, seen=seen)
    shape = (1, 2, -(-queries // cell), -(-keys // cell))
    assert ours.map.mean.shape == ours.map.max.shape == ours.map.argmax.shape == shape
    random = torch.Generator().manual_seed(0)
    rim = [(shape[2] - 1, shape[3] - 1), (0, 0), (0, shape[3] - 1)]
    some = [(int(torch.randint(n, (), generator=random)),
             int(torch.randint(m, (), generator=random)))
            for n, m in [shape[2:]] * 200]  # fmt: skip
    for y, x in rim + some:
        rows, cols = slice(y * cell, (y + 1) * cell), slice(x * cell, (x + 1) * cell)
        part, sight_part = p[0, :, rows, cols], seen[0, 0, rows, cols]
        mean, most = ours.map.mean[0, :, y, x].double(), ours.map.max[0, :, y, x].double()
        place = ours.map.argmax[0, :, y, x]
        if not sight_part.any():
            assert mean.isnan().all() and most.isnan().all() and (place == -1).all()  # noqa: PT018
            continue
        # Weights below 1, float32: 1e-6 is a dozen roundings of a cell's sum.
        torch.testing.assert_close(mean, part.sum((1, 2)) / part.shape[1], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(most, part.amax((1, 2)), rtol=1e-5, atol=1e-7)
        for head in range(2):
            row, key = divmod(int(place[head]), cell)
            torch.testing.assert_close(part[head, row, key], most[head], rtol=1e-5, atol=1e-7)
    means = ours.map.mean.nan_to_num(0).double().sum(-1)
    torch.testing.assert_close(means, torch.ones_like(means), rtol=1e-5, atol=0)


@pytest.mark.parametrize("impl", IMPLS)
def test_rows(impl: str) -> None:
    q, k, v = qkv(queries=30, keys=44)
    wanted = (0, 29, -2, 7, 0)
    ours = attend_by(impl, q, k, v, statistics=Request((), rows=wanted))
    p = weights_of(q, k, seen=sight(30, 44))[:, :, [row % 30 for row in wanted]]
    assert ours.rows is not None
    torch.testing.assert_close(ours.rows.double(), p, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_statistics_are_float32_or_wider_and_places_are_whole(
    impl: str, dtype: torch.dtype
) -> None:
    q, k, v = qkv(dtype=dtype)
    ours = attend_by(impl, q, k, v, statistics="all")
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    for name, value in ours.statistics.items():
        assert value.dtype == (torch.int64 if name == "argmax" else wide), name


@pytest.mark.parametrize("impl", IMPLS)
def test_only_what_was_asked_for(impl: str) -> None:
    q, k, v = qkv()
    bare = attend_by(impl, q, k, v)
    assert bare.statistics == {}
    assert bare.map is None
    assert bare.rows is None
    for name in STATISTICS:
        if name == "induction_mass":
            continue
        alone = attend_by(impl, q, k, v, statistics=name)
        assert set(alone.statistics) == {name}
        together = attend_by(impl, q, k, v, statistics="all")
        torch.testing.assert_close(alone[name], together[name], rtol=1e-5, atol=1e-6)
    with pytest.raises(KeyError, match="was not asked for"):
        bare["entropy"]
