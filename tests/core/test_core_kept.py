"""What the fused path keeps between calls never shows in an answer."""

from __future__ import annotations

import pytest
import torch

from attnscope.core import Request, attend, fused, spans
from attnscope.core.workspace import Workspace


def problem(queries: int, keys: int, heads: int = 6, groups: int = 2, width: int = 24):  # type: ignore[no-untyped-def]
    generator = torch.Generator().manual_seed(queries * 1000 + keys)
    make = lambda h, n: torch.randn(1, h, n, width, generator=generator)  # noqa: E731
    return make(heads, queries), make(groups, keys), make(groups, keys)


def both(qkv, **options):  # type: ignore[no-untyped-def]
    fused = attend(*qkv, impl="fused", **options)
    strip = attend(*qkv, impl="strip", **options)
    # Two float32 ways to the same sums: a few roundings of numbers below about 10.
    torch.testing.assert_close(fused.output, strip.output, atol=2e-5, rtol=1e-5)
    for name, value in strip.statistics.items():
        torch.testing.assert_close(
            fused[name], value, atol=1e-4, rtol=1e-4, msg=lambda m, n=name: n + m
        )
    return fused


@pytest.mark.parametrize("window", [None, 5, 300])
@pytest.mark.parametrize("queries", [1, 2, 4])
def test_calls_of_changing_sizes_do_not_see_each_other(queries: int, window: int | None) -> None:
    for keys in (40, 1500, 40, 700, 1500, 4, 2100):
        both(problem(queries, keys), window=window, statistics="all")


@pytest.mark.parametrize("statistics", ["received", ["received", "self_mass"], "entropy", None])
def test_each_wish_alone_after_another(statistics: str | list[str] | None) -> None:
    qkv = problem(1, 900)
    both(qkv, statistics="all")
    both(qkv, statistics=statistics)
    both(qkv, statistics=statistics, window=7)


def test_decode_under_a_mask_gives_its_hidden_keys_nothing() -> None:
    qkv = problem(1, 600)
    mask = torch.rand(1, 1, 1, 600, generator=torch.Generator().manual_seed(0)) < 0.5
    found = both(qkv, mask=mask, statistics="all")
    assert not found["received"][..., ~mask[0, 0, 0]].any()


def test_tokens_that_were_changed_in_place_are_read_anew() -> None:
    qkv = problem(1, 64)
    tokens = torch.arange(64)
    request = Request.of("induction_mass", tokens=tokens)
    assert float(attend(*qkv, statistics=request, impl="fused")["induction_mass"].max()) == 0
    tokens[10] = 63  # now the last token has been seen before, and key 11 follows it
    again = attend(*qkv, statistics=request, impl="fused")["induction_mass"]
    assert float(again.min()) > 0
    torch.testing.assert_close(
        again, attend(*qkv, statistics=request, impl="strip")["induction_mass"]
    )


def test_links_of_tokens_are_made_once_for_all_layers() -> None:
    tokens = torch.tensor([[3, 1, 3, 1]])
    first = fused._links(tokens, 4)
    assert fused._links(tokens, 4)[0] is first[0]
    assert fused._links(tokens.clone(), 4)[0] is not first[0]
    with torch.inference_mode():
        unversioned = tokens.clone()
    assert fused._links(unversioned, 4)[0] is not fused._links(unversioned, 4)[0]


def test_tokens_made_in_inference_mode_are_read_each_time() -> None:
    qkv = problem(1, 64)
    with torch.inference_mode():
        tokens = torch.arange(64)
        request = Request.of("induction_mass", tokens=tokens)
        assert float(attend(*qkv, statistics=request, impl="fused")["induction_mass"].max()) == 0
        tokens[10] = 63
        assert float(attend(*qkv, statistics=request, impl="fused")["induction_mass"].min()) > 0


def test_regular_spans_are_made_once_and_documents_anew() -> None:
    assert spans(3, 9, window=4) is spans(3, 9, window=4)
    assert spans(3, 9) is not spans(3, 9, documents=torch.zeros(9, dtype=torch.long))
    meta = spans(3, 9, device="meta")
    assert meta.first.device.type == "meta"
    assert spans(3, 9).first.device.type == "cpu"


def test_a_workspace_forgets_what_it_built_of_arrays_that_moved() -> None:
    space, made = Workspace(), []
    build = lambda: made.append(space.take("a", 4)) or made[-1]  # noqa: E731
    space.take("a", 4)
    assert space.remember("x", 1, build) is space.remember("x", 1, build)
    space.remember("x", 2, build)
    assert len(made) == 2
    space.take("a", 100)
    assert space.remember("x", 2, build).size == 100
