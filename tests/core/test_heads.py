"""What mechanisms of heads share: cutting, choosing a kernel, the six steps and their errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from referees import sdpa, sight
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from attnscope.caches import FullCache, WindowCache
from attnscope.core import attend, head_kernel
from attnscope.core.heads import (
    HeadAttention,
    HeadNorm,
    HeadShape,
    head_attention,
    merge_heads,
    split_heads,
)
from attnscope.core.mechanism import Seen
from attnscope.positions import Rope
from attnscope.testing import budget, qkv

SHAPE = HeadShape(model=12, heads=6, groups=2, width=4)


@given(B=st.integers(1, 3), T=st.integers(1, 4), heads=st.integers(1, 4), width=st.integers(1, 5))
@settings(deadline=None)
def test_merging_undoes_splitting_and_head_h_is_the_h_th_block(
    B: int, T: int, heads: int, width: int
) -> None:
    x = torch.arange(float(B * T * heads * width)).view(B, T, heads * width)
    parts = split_heads(x, width)
    assert parts.shape == (B, heads, T, width)
    assert torch.equal(merge_heads(parts), x)
    for h in range(heads):
        assert torch.equal(parts[:, h], x[..., h * width : (h + 1) * width])


ROUTES = {
    "one query": (1, 30, {}),
    "one query of many keys": (1, 1500, {}),
    "one query and a window": (1, 30, {"window": 7}),
    "one query and a window of many": (1, 2000, {"window": 1200}),
    "square": (17, 17, {}),
    "many rows": (150, 150, {}),
    "chunk": (5, 30, {}),
    "long chunk": (140, 190, {}),
    "window": (17, 17, {"window": 4}),
    "window of many rows": (150, 150, {"window": 40}),
    "window of a chunk": (5, 30, {"window": 7}),
    "both ways": (9, 30, {"causal": False}),
    "both ways, more rows than keys": (30, 9, {"causal": False}),
    "both ways, many rows": (150, 20, {"causal": False}),
    "both ways in a window": (17, 17, {"causal": False, "window": 4}),
    "scale": (17, 17, {"scale": 0.7}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("route", ROUTES)
def test_every_route_gives_the_numbers_of_pytorch(
    route: str, groups: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_kernel, "MUCH", 0)  # these heads are small
    queries, keys, options = ROUTES[route]
    q, k, v = qkv(queries=queries, keys=keys, heads=4, groups=groups, dtype=dtype)
    scale = options.get("scale")
    seen = sight(queries, keys, causal=options.get("causal", True), window=options.get("window"))
    oracle = sdpa(q.double(), k.double(), v.double(), seen=seen, scale=scale)
    peer = sdpa(q, k, v, seen=seen, scale=scale)
    if dtype == torch.float64:
        # The peer is the oracle; ours may add the keys in another order.
        peer = oracle + torch.finfo(dtype).eps * keys * v.abs().max()
    budget(head_attention(q, k, v, **options), peer=peer, oracle=oracle, what=route)


@pytest.mark.parametrize("queries", [1, 17, 150])
def test_soft_caps_and_sinks_are_those_of_attend(queries: int) -> None:
    q, k, v = qkv(queries=queries, keys=160, heads=4, groups=2)
    for options in ({"softcap": 2.0}, {"sinks": torch.arange(4.0)}, {"softcap": 1.0, "window": 9}):
        expected = attend(q, k, v, **options).output  # type: ignore[arg-type]
        assert torch.equal(head_attention(q, k, v, **options), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("queries", "keys", "options", "by_attend"),
    [
        (1, 2000, {}, False),
        (1, 2000, {"window": 1200}, False),
        (17, 600, {}, False),
        (17, 600, {"window": 7}, False),
        (600, 600, {}, True),
        (600, 600, {"window": 100}, True),
        (300, 900, {}, True),
        (600, 600, {"dtype": torch.float64}, False),
    ],
)
def test_each_kernel_is_used_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch,
    queries: int,
    keys: int,
    options: dict[str, Any],
    by_attend: bool,
) -> None:
    calls = []
    whole = head_kernel.attend
    monkeypatch.setattr(
        head_kernel, "attend", lambda *x, **more: calls.append(len(x)) or whole(*x, **more)
    )
    options = dict(options)
    dtype = options.pop("dtype", torch.float32)
    inputs = qkv(
        batch=1, queries=queries, keys=keys, heads=16, groups=8, width=64, value_width=64,
        dtype=dtype,
    )  # fmt: skip
    head_attention(*inputs, **options)
    assert bool(calls) == by_attend


class Largest(TorchDispatchMode):
    """The largest tensor that any operation makes."""

    def __init__(self) -> None:
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, torch.Tensor):
                self.numbers = max(self.numbers, one.untyped_storage().nbytes() // one.itemsize)
        return result


@pytest.mark.parametrize(("queries", "keys"), [(1, 300), (1, 3000), (9, 300), (140, 300)])
def test_keys_and_values_are_not_repeated_in_memory(queries: int, keys: int) -> None:
    q, k, v = qkv(queries=queries, keys=keys, heads=8, groups=2, width=64)
    with Largest() as seen, torch.no_grad():
        head_attention(q, k, v)
    assert seen.numbers <= max(k.numel(), q.numel(), queries * keys)
    with Largest() as seen:
        k.repeat_interleave(4, 1)
    assert seen.numbers == 4 * k.numel()


def test_on_the_meta_device_shapes_come_out() -> None:
    for queries, keys, options in ROUTES.values():
        q, k, v = (x.to("meta") for x in qkv(queries=queries, keys=keys, heads=4, groups=2))
        assert head_attention(q, k, v, **options).shape == (2, 4, queries, v.shape[3])
    sinks = torch.zeros(4, device="meta")
    q, k, v = (x.to("meta") for x in qkv(queries=3, heads=4, groups=2))
    assert head_attention(q, k, v, sinks=sinks, softcap=1.0).shape == (2, 4, 3, v.shape[3])


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_the_norm_is_pytorchs_and_begins_as_no_change_of_length(offset: float) -> None:
    torch.manual_seed(0)
    norm, theirs = HeadNorm(24, eps=1e-5, offset=offset), nn.RMSNorm(24, eps=1e-5)
    x = torch.randn(3, 5, 24) * 7
    with torch.no_grad():
        for weight in (torch.ones(24), torch.randn(24)):
            norm.weight.copy_(weight - offset)
            theirs.weight.copy_(weight)
            exact = nn.functional.rms_norm(x.double(), (24,), (norm.weight + offset).double(), 1e-5)
            budget(norm(x), peer=theirs(x), oracle=exact)
    fresh = HeadNorm(24, eps=0.0, offset=offset).double()
    assert torch.allclose(fresh(x.double()).pow(2).mean(-1), torch.ones(3, 5, dtype=torch.float64))
    assert not norm(torch.zeros(2, 24)).any()


def layer(**options: Any) -> HeadAttention:
    torch.manual_seed(0)
    return HeadAttention(SHAPE, rope=Rope.plain(4), **options).double()


def tokens(count: int, *, batch: int = 2) -> torch.Tensor:
    random = torch.Generator().manual_seed(1)
    return torch.randn(batch, count, 12, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("window", [None, 5])
def test_a_later_token_cannot_matter(window: int | None) -> None:
    ours, x = layer(window=window), tokens(11)
    with torch.no_grad():
        whole = ours(x)
        for count in (1, 4, 10):
            changed = torch.cat([x[:, :count], torch.randn_like(x[:, count:])], 1)
            assert torch.allclose(ours(changed)[:, :count], whole[:, :count], rtol=0, atol=1e-14)
            assert not torch.allclose(ours(changed)[:, count:], whole[:, count:])


def test_only_distances_matter() -> None:
    """All positions moved by the same number: the same y. One moved alone: another."""
    ours, x = layer(), tokens(9)
    with torch.no_grad():
        y = ours(x)
        moved = ours(x, positions=torch.arange(9) + 1000)
        apart = ours(x, positions=torch.arange(9) * 2)
    assert torch.allclose(moved, y, rtol=0, atol=1e-10)
    assert not torch.allclose(apart, y, atol=1e-3)


def test_each_row_of_a_batch_may_have_positions_of_its_own() -> None:
    ours, x = layer(), tokens(5)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 9, 10, 20, 21]])
    with torch.no_grad():
        both = ours(x, positions=positions)
        for b in range(2):
            alone = ours(x[b : b + 1], positions=positions[b])
            assert torch.allclose(both[b : b + 1], alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("chunk", [1, 3, 4, 11])
@pytest.mark.parametrize("window", [None, 1, 4, 50])
def test_positions_go_on_where_the_cache_ends(chunk: int, window: int | None) -> None:
    ours, x = layer(window=window), tokens(11)
    cache = FullCache() if window is None else WindowCache(window)
    seen: list[Seen] = []
    with torch.no_grad():
        parts = [ours(part, cache=cache, watch=seen.append) for part in x.split(chunk, 1)]
        assert torch.allclose(torch.cat(parts, 1), ours(x), rtol=0, atol=1e-13)
    assert [one.start for one in seen] == list(range(0, 11, chunk))
    for one in seen:
        first = one.start + one.q.shape[2] - one.k.shape[2]
        assert first == (0 if window is None else max(0, one.start - window + 1))


def test_a_watcher_can_compute_what_the_module_computed() -> None:
    ours, x = layer(window=3), tokens(9)
    seen: list[Seen] = []
    with torch.no_grad():
        y = ours(x, watch=seen.append)
    result = seen[0].attend("entropy")
    assert result["entropy"].shape == (2, 6, 9)
    again = ours.o_proj(merge_heads(result.output))
    assert torch.allclose(again, y, rtol=0, atol=1e-13)


def test_bad_arguments_are_named() -> None:
    ours = layer()
    with pytest.raises(ValueError, match=r"x: expected \[B, T, 12\], got \[2, 3, 13\]"):
        ours(torch.zeros(2, 3, 13))
    with pytest.raises(ValueError, match=r"x: expected \[B, T, 12\], got \[3, 12\]"):
        ours(torch.zeros(3, 12))
    with pytest.raises(ValueError, match=r"positions: expected \[3\] or \[2, 3\], one per token"):
        ours(tokens(3), positions=torch.arange(4))
    with pytest.raises(ValueError, match=r"window: expected at least 1 key .*, got 0"):
        layer(window=0)
    with pytest.raises(ValueError, match="multiple of the head width 5, got"):
        split_heads(torch.zeros(1, 2, 12), 5)
    with pytest.raises(ValueError, match="heads: expected a multiple of the 4 key/value heads"):
        HeadShape(model=8, heads=6, groups=4, width=2)
    with pytest.raises(ValueError, match="width: expected at least 1, got 0"):
        HeadShape(model=8, heads=6, groups=2, width=0)


def test_weights_that_do_not_fit_are_named_and_nothing_is_changed() -> None:
    ours = layer()
    given = {name: torch.zeros_like(weight) for name, weight in ours.state_dict().items()}
    before = ours.q_proj.weight.clone()
    missing = {name: weight for name, weight in given.items() if name != "v_proj.weight"}
    with pytest.raises(ValueError, match=r"missing: v_proj\.weight; without a place: none"):
        ours.load(missing)
    with pytest.raises(ValueError, match=r"missing: none; without a place: sinks"):
        ours.load(given | {"sinks": torch.zeros(6)})
    with pytest.raises(
        ValueError, match=r"expects o_proj\.weight of shape \[12, 24\], got \[24, 12\]"
    ):
        ours.load(given | {"o_proj.weight": torch.zeros(24, 12)})
    assert torch.equal(ours.q_proj.weight, before)


def test_loaded_weights_are_copies_in_their_dtype() -> None:
    ours = layer()
    given = {name: weight.to(torch.bfloat16) for name, weight in ours.state_dict().items()}
    ours.load(given)
    assert ours.q_proj.weight.dtype == torch.bfloat16
    given["q_proj.weight"].zero_()
    assert ours.q_proj.weight.any()


def test_what_is_no_layer_of_transformers_is_refused() -> None:
    with pytest.raises(TypeError, match=r"with a \.config, got Linear"):
        HeadAttention.from_hf(nn.Linear(2, 2))
